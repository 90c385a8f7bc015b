"""
Digits with 100 vectors
=======================

A kernel machine keeps its support vectors, and often there are many. A budgeted machine keeps as many as you say.

Here 100 vectors read handwritten digits. At the end you can look at all of them.
"""

# %%
# A machine without a budget
# --------------------------
#
# 1,797 digits of 8 × 8 pixels come with scikit-learn. Two thirds are for training.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import SVC, BudgetedSVC, compress, plots

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=1 / 3, random_state=0)

full = SVC(C=10.0, gamma=0.2).fit(X, y)
print(f"{len(full.support_vectors_)} vectors of {len(y)} digits, {1 - full.score(X_test, y_test):.1%} wrong")

# %%
# 100 vectors
# -----------
#
# ``budget`` is the most vectors there will ever be. When one more comes, two are merged into one that stands between
# them. All ten classes share the vectors.

small = BudgetedSVC(budget=100, gamma=0.2, lam=1e-4, max_iter=10, random_state=0).fit(X, y)
print(f"{len(small.support_vectors_)} vectors, {1 - small.score(X_test, y_test):.1%} wrong")

# %%
# The vectors are images
# ----------------------
#
# Merged vectors are no examples of the data, but they look like digits. Each has a coefficient for each class, and
# stands in the row of the class that it speaks for most.

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
plots.vectors(small, each=20, ax=ax)
ax.set_title("What the machine remembers, by the digits it speaks for")
plt.show()

# %%
# How many are enough?
# --------------------
#
# Fewer vectors are quicker to predict with and take less memory. Some budgets, two ways to a small machine:
# ``BudgetedSVC`` learns within the budget. ``compress`` makes a trained machine small.

budgets = [20, 40, 70, 100, 200, 400]
learnt, compressed = [], []
for budget in budgets:
    machine = BudgetedSVC(budget, gamma=0.2, lam=1e-4, max_iter=10, random_state=0).fit(X, y)
    learnt.append(100 * (1 - machine.score(X_test, y_test)))
    compressed.append(100 * (1 - compress(full, budget).score(X_test, y_test)))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(budgets, learnt, "o-", label="BudgetedSVC(budget)")
ax.plot(budgets, compressed, "s-", label="compress(SVC, budget)")
ax.axhline(100 * (1 - full.score(X_test, y_test)), color="gray", ls=":", label=f"SVC, {len(full.support_)} vectors")
ax.set(xscale="log", xlabel="vectors", ylabel="test error (%)", title="Error against the number of vectors", ylim=0)
ax.set_xticks(budgets, budgets)
ax.minorticks_off()
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# Keep it
# -------
#
# ``save`` writes arrays and a header, no pickle. The file of the small machine is what you would put on a small device.

import tempfile
from pathlib import Path

import widemargin

with tempfile.TemporaryDirectory() as folder:
    for name, machine in (("full", full), ("small", compress(full, 100))):
        path = Path(folder) / f"{name}.npz"
        machine.save(path)
        again = widemargin.load(path)
        assert (again.predict(X_test) == machine.predict(X_test)).all()
        print(f"{name}: {path.stat().st_size / 1024:.0f} kB")

# %%
# What to read next
# -----------------
#
# - What else can be done with a full budget: :doc:`/methods/budgeted`.
# - Which budget to take: :doc:`/guide/budgets`.
# - A budget on a stream that never ends: :doc:`plot_03_drifting_stream`.
# - Files for other programs: :doc:`/guide/formats`.
