"""
Ten million rows
================

The data is larger than the memory. Here is how to train on it, chunk by chunk, from files or from anywhere.

The script runs with 200,000 rows, so that it takes seconds. The numbers of ten million stand beside.
"""

# %%
# A source
# --------
#
# A source gives chunks that fit. ``Generated`` makes them when they are asked for; ``make(k)`` returns part k. Yours
# may read a database.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from widemargin import BudgetedSVC, LinearSVC
from widemargin.data import Generated, open_data, train, write_data

ROWS, PART, FEATURES = 200_000, 10_000, 50
direction = np.random.default_rng(0).normal(size=FEATURES) / np.sqrt(FEATURES)


def make(k, rows=PART):
    """Part k: the sign of a direction, and of a bend that no plane has; a twentieth of the labels is wrong."""
    rng = np.random.default_rng(1000 + k)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    y = X @ direction + 0.5 * np.abs(X[:, 0]) > 0.4
    return X, np.where(rng.random(rows) < 0.05, ~y, y).astype(np.int64)


source = Generated(make, ROWS // PART, max_memory="8 MB")
X_test, y_test = make(-1)

# %%
# Train
# -----
#
# ``train`` shuffles within and across chunks and calls ``partial_fit``. A callback sees the model after each chunk.
# The memory is that of ``max_memory``, however many rows there are.

curves = {}
for name, model in {
    "LinearSVC": LinearSVC(C=1.0, random_state=0),
    "BudgetedSVC(100)": BudgetedSVC(100, gamma=0.02, lam=1e-5, random_state=0),
}.items():
    curve = curves[name] = []
    train(
        model,
        source,
        epochs=1,
        classes=[0, 1],
        random_state=0,
        callbacks=lambda passed, curve=curve: curve.append((passed.rows, 1 - passed.model.score(X_test, y_test))),
    )
    print(f"{name:18} {curve[-1][0]:,} rows, {curve[-1][1]:.2%} wrong on new ones")

# %%
# The error along the way. One pass is often enough with so many rows. The budgeted machine has a kernel, and learns
# the bend.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, curve in curves.items():
    rows, wrong = np.array(curve).T
    ax.plot(rows, 100 * wrong, "o-", ms=3, label=name)
ax.axhline(5, color="gray", ls=":", label="labels that are wrong")
ax.set(xlabel="rows seen", ylabel="test error (%)", title="Test error while the chunks pass", ylim=0)
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# From files
# ----------
#
# ``open_data`` reads LIBSVM text, CSV, Parquet and ``.npz``, compressed or not. ``write_data`` takes chunks, so a file
# can be converted that does not fit either.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.svm"
    write_data(path, Generated(make, 2))
    file = open_data(path, max_memory="16 MB", dtype=np.float32)
    print(f"{path.stat().st_size / 1e6:.0f} MB, {file.summary().n_rows:,} rows, {sum(1 for _ in file)} chunks")
    model = train(LinearSVC(C=1.0, random_state=0), file, epochs=2, random_state=0)
print(f"{1 - model.score(X_test, y_test):.2%} wrong after two passes over the file")

# %%
# The full size
# -------------
#
# With ``ROWS = 10_000_000``, 2 GB of numbers, and ``max_memory="64 MB"`` (one run, processor seconds of one core;
# 14 of them make the rows):
#
# .. list-table::
#    :header-rows: 1
#
#    * - machine
#      - seconds
#      - memory of the process
#      - wrong on new rows
#    * - ``LinearSVC``
#      - 35
#      - 324 MB before, 399 MB at most
#      - 14.0 %
#    * - ``BudgetedSVC(100)``
#      - 41
#      - 412 MB at most
#      - 8.9 %
#
# What to read next
# -----------------
#
# - All kinds of files and their options: :doc:`/guide/data`.
# - The same from the shell: :doc:`plot_08_command`.
# - More machines than one: :doc:`/guide/cluster`.
