"""
The Pareto front
================

A support vector machine trades the margin against errors within it. ``pareto_path`` draws all the good trades.
"""

# %%
# Two wishes
# ----------
#
# A small norm ‖w‖ is a wide margin: 1/‖w‖ is its half width. A small mean hinge says that few examples lie within
# it. No machine has both. The machines for which neither can be had without losing of the other are the front, and
# each value of ``C`` is a point of it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import pareto_path, plots

X, y = make_moons(600, noise=0.25, random_state=0)
X_test, y_test = make_moons(4000, noise=0.25, random_state=1)

Cs = np.logspace(-2, 3, 11)
front = pareto_path(X, y, Cs=Cs, gamma=1.0)
for C, norm, hinge in list(zip(Cs, front.norms, front.hinges))[::5]:
    print(f"C = {C:8.2f}   norm {norm:6.2f}   mean hinge {hinge:.3f}")

# %%
# The front
# ---------
#
# Each machine starts from the solution of the one before. That makes the whole path cheap.
#
# With ``nus`` the points are those of the other form of the same problem: the largest margin that all examples reach
# after slack of ν an example was handed out. The Stochastic Batch Perceptron comes near the front in a few steps.

quick = pareto_path(X, y, nus=[0.3, 0.1, 0.05, 0.02, 0.01], gamma=1.0, max_iter=20, tol=0.01, random_state=0)

ax = plots.pareto({"exact, 11 values of C": front, "Stochastic Batch Perceptron, 5 of ν": quick})
ax.set_title("The front: no machine is below it")
plt.show()

# %%
# Where on it?
# ------------
#
# The front speaks of training examples. New ones choose the point. Too far left all is smoothed away. Too far right
# every wrong label is learnt.

errors = np.array([1 - model.score(X_test, y_test) for model in front.models])
best = int(errors.argmin())
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(front.norms, 100 * errors, "o-")
ax.plot(front.norms[best], 100 * errors[best], "o", ms=12, mfc="none", color="#c8553d")
ax.annotate(f"C = {Cs[best]:.3g}", (front.norms[best], 100 * errors[best]), (0, 12), textcoords="offset points")
ax.set(xscale="log", xlabel="‖w‖ (1 / margin)", ylabel="test error (%)", title="Errors on new examples along the front")
ax.set_xticks([2, 5, 10, 20, 50], [2, 5, 10, 20, 50])
ax.minorticks_off()
ax.grid(alpha=0.3)
plt.show()

# %%
# Three machines of the front
# ---------------------------
#
# The same data, from the widest margin to the narrowest.

figure, axes = plt.subplots(3, 1, figsize=(5, 10), layout="constrained", sharex=True)
for ax, k in zip(axes, (0, best, len(Cs) - 1)):
    plots.decision_boundary(front.models[k], X, y, ax=ax)
    ax.set_title(f"C = {Cs[k]:,.4g}: {errors[k]:.1%} wrong")
figure.suptitle("From a wide margin to a narrow one")
plt.show()

# %%
# What to read next
# -----------------
#
# - Both forms, and the step of the perceptron: :doc:`/methods/sbp`.
# - Choose ``C`` and γ by cross-validation: :doc:`plot_07_grid_search`.
