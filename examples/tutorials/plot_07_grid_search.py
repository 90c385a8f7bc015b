"""
A grid search that warm-starts
==============================

To choose C and γ many machines are trained. Most of the work can be had from the machine before.
"""

# %%
# The data
# --------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from widemargin import SVC, svm_grid, svm_path
from widemargin.data.generators import checkerboard

X, y = checkerboard(1500, np.random.default_rng(0))
X_test, y_test = checkerboard(4000, np.random.default_rng(1))
flipped = np.random.default_rng(2).random(len(y)) < 0.1
y = np.where(flipped, 1 - y, y)  # a tenth of the labels is wrong

# %%
# A path of C
# -----------
#
# ``svm_path`` trains from the smallest C to the largest, each machine from the solution of the one before. What that
# saves is counted in steps, which do not depend on the machine you run it on.

Cs = np.logspace(-1, 3, 13)
path = svm_path(X, y, Cs, gamma=2.0)
alone = [SVC(C=C, gamma=2.0).fit(X, y) for C in Cs]


def steps(models):
    """How many pairs of dual variables were moved for each model."""
    return np.array([model.history_.last("updates") for model in models])


print(f"a path of {len(Cs)} machines: {steps(path).sum():,.0f} steps")
print(f"each from the beginning:    {steps(alone).sum():,.0f} steps")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(Cs, steps(alone), "s-", label="from the beginning")
ax.plot(Cs, steps(path), "o-", label="from the one before")
ax.set(xscale="log", yscale="log", xlabel="C", ylabel="steps of the solver", title="What a warm start saves")
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# A grid of C and γ
# -----------------
#
# ``svm_grid`` cross-validates all pairs. Within each fold and γ it goes along the path of C. On a GPU all folds and
# all C are trained side by side.

gammas = [0.1, 0.5, 2.0, 8.0, 32.0]
grid = svm_grid(X, y, Cs=[0.1, 1.0, 10.0, 100.0], gammas=gammas, cv=3)
print(grid.best_params, f"held-out error {1 - grid.best_score:.1%}")
model = SVC(**grid.best_params).fit(X, y)
print(f"test error {1 - model.score(X_test, y_test):.1%}; every gap is at most {grid.gaps.max():.4f}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
shown = ax.imshow(100 * (1 - grid.mean), cmap="viridis_r", aspect="auto")
ax.set_xticks(range(len(grid.Cs)), grid.Cs)
ax.set_yticks(range(len(gammas)), gammas)
for (g, c), error in np.ndenumerate(100 * (1 - grid.mean)):
    ax.text(c, g, f"{error:.0f}", ha="center", va="center", color="white" if error > 30 else "black")
ax.set(xlabel="C", ylabel="γ", title="Held-out error (%)")
plt.show()

# %%
# scikit-learn's searches
# -----------------------
#
# ``GridSearchCV`` and its relatives work as ever: each fit on its own, and in a pipeline where you have one. Solvers
# have parameters that a search reaches, such as ``solver__batch_size`` of a configured solver.

search = GridSearchCV(SVC(), {"C": [1.0, 10.0], "gamma": [0.5, 2.0, 8.0]}, cv=3).fit(X, y)
print(search.best_params_, f"held-out error {1 - search.best_score_:.1%}")

# %%
# Halving
# -------
#
# Successive halving tries all candidates on few rows, and the better ones on more. scikit-learn has it for any
# estimator. The command ``widemargin tune`` does it on a file, with warm starts on every rung.

from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV

halving = HalvingGridSearchCV(SVC(), {"C": [0.1, 1.0, 10.0, 100.0], "gamma": gammas}, cv=3, random_state=0).fit(X, y)
for rows, candidates in zip(halving.n_resources_, halving.n_candidates_):
    print(f"{candidates:3} candidates on {rows:5} rows")
print(halving.best_params_, f"test error {1 - halving.score(X_test, y_test):.1%}")

# %%
# What to read next
# -----------------
#
# - All ways to choose: :doc:`/guide/tuning`.
# - Paths and warm starts of kernel machines: :doc:`/methods/smo`.
# - What the numbers on the path mean: :doc:`plot_05_pareto`.
# - ``tune`` and the other commands: :doc:`/guide/command`.
