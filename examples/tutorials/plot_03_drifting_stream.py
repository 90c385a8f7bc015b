"""
A stream that drifts
====================

Examples come one after the other, the rule changes on the way, and a new label appears. Three machines learn along.
"""

# %%
# The stream
# ----------
#
# Two classes lie in the plane. The line between them turns by half a circle while 6,000 examples pass. ``next_part``
# gives the examples in parts of 100, as a queue or a socket would.

import matplotlib.pyplot as plt
import numpy as np

PARTS, SIZE = 60, 100


def next_part(k):
    """Part k of the stream: the border has turned by π k / PARTS."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(SIZE, 2))
    angle = np.pi * k / PARTS
    return X, np.where(X @ [np.cos(angle), np.sin(angle)] > 0, "up", "down")


# %%
# Predict, then learn
# -------------------
#
# Each part is predicted before it is learnt, so that every error is one on new data. One machine remembers all
# examples. Another has ``window=500``: older ones are taken back as they leave. A third is linear and takes the
# least time for an example.

from widemargin import IncrementalSVC, LinearSVC, plots

machines = {
    "IncrementalSVC, remembers all": IncrementalSVC(C=1.0, gamma=0.5),
    "IncrementalSVC(window=500)": IncrementalSVC(C=1.0, gamma=0.5, window=500),
    "LinearSVC, an average of all": LinearSVC(lam=0.01, random_state=0),
}
errors = {name: [] for name in machines}
for k in range(PARTS):
    X, y = next_part(k)
    for name, machine in machines.items():
        if k > 0:
            errors[name].append(np.mean(machine.predict(X) != y))
        machine.partial_fit(X, y, classes=["down", "up"] if k == 0 else None)

for name, wrong in errors.items():
    print(f"{name:32} {np.mean(wrong):6.1%} wrong on the whole, {np.mean(wrong[-10:]):6.1%} at the end")

# %%
# The one that forgets follows the rule. For the others the old examples contradict the new ones. ``plots.stream`` goes
# along a stream in the same way, with copies of the machines.

X, y = (np.concatenate(arrays) for arrays in zip(*map(next_part, range(PARTS))))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plots.stream(machines, X, y, part=500, measure="error", ax=ax)
ax.set(title="Error before learning, of 500 examples each", ylim=0)
plt.show()

# %%
# The certificate along the stream: ``duality_gap()`` bounds how far a machine is from the SVM of the examples that it
# remembers. ``finish`` goes there.

incremental = {name: machine for name, machine in machines.items() if name.startswith("Incremental")}
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plots.stream(incremental, X, y, part=200, ax=ax)
ax.set_title("Distance from the SVM of what it remembers")
plt.show()

follower = machines["IncrementalSVC(window=500)"]
print(f"gap before {follower.duality_gap():.4f}, after {follower.finish(1e-3).duality_gap():.6f}")

# %%
# A new label
# -----------
#
# A class that nobody announced appears. ``classes`` names all labels, old and new, and learning goes on.
# ``IncrementalSVC`` and ``BudgetedSVC`` can do that. ``LinearSVC`` wants all labels at the first call.

from widemargin import BudgetedSVC

rng = np.random.default_rng(100)
X, y = next_part(PARTS)
X, y = np.vstack([X, rng.normal(size=(50, 2)) * 0.3 + [4, 4]]), np.append(y, ["far"] * 50)

budgeted = BudgetedSVC(budget=50, gamma=0.5, lam=1e-3, random_state=0)
budgeted.partial_fit(*next_part(PARTS - 1), classes=["down", "up"])
for machine in (follower, budgeted):
    machine.partial_fit(X, y, classes=["down", "up", "far"])
    far = np.mean(machine.predict(X[-50:]) == "far")
    print(f"{type(machine).__name__}: labels {machine.classes_.tolist()}, {far:.0%} of the new one found")

# %%
# Stop and go on
# --------------
#
# ``save`` between two parts is the checkpoint of a stream. What is loaded goes on with the same bits.

import tempfile
from pathlib import Path

import widemargin

with tempfile.TemporaryDirectory() as folder:
    budgeted.save(Path(folder) / "stream.npz")
    again = widemargin.load(Path(folder) / "stream.npz")
X, y = next_part(PARTS + 1)
assert (again.partial_fit(X, y).dual_coef_ == budgeted.partial_fit(X, y).dual_coef_).all()
print(f"{again.n_samples_seen_} examples seen, {len(again.support_vectors_)} vectors")

# %%
# What to read next
# -----------------
#
# - Which machine for which stream: :doc:`/guide/streams`.
# - What each call does and what is remembered: :doc:`/methods/incremental`.
# - Machines on a budget: :doc:`plot_02_digits`.
# - Labels that cost money: :doc:`plot_04_teacher`.
