"""
Files and the command
=====================

``widemargin train``, ``predict``, ``evaluate``: the whole library from the shell, on files of most formats.

Here the commands are run from Python, so that you see what they print. In a shell leave ``run`` out.
"""

# %%
# A file to begin with
# --------------------
#
# ``write_data`` writes LIBSVM text, CSV, Parquet or ``.npz``, as the suffix says.

import contextlib
import json
import os
import shlex
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from widemargin import cli
from widemargin.data import write_data

folder = tempfile.TemporaryDirectory()
X, y = make_classification(3000, 20, n_informative=10, class_sep=1.5, random_state=0)
X = X.round(3)
write_data(os.path.join(folder.name, "train.svm"), X[:2000], y[:2000])
write_data(
    os.path.join(folder.name, "test.csv"), X[2000:], y[2000:], names=[f"x{k}" for k in range(20)], target="label"
)


def run(command):
    """Run a command in the folder, in this process; returns its exit code."""
    print("$", command)
    with contextlib.chdir(folder.name), contextlib.redirect_stderr(sys.stdout):
        code = cli.main(shlex.split(command)[1:])
    print()
    return code


# %%
# Train and evaluate
# ------------------
#
# ``train`` writes a model, and with ``--history`` a line of JSON at each look at the run. ``evaluate`` takes any file
# that has the same features; here one of another format. Solvers with parameters are written as in Python.

_ = run(
    "widemargin train train.svm -q --solver 'Pegasos(batch_size=4)' --tol 0 --max-iter 32 --random-state 0"
    " --history run.jsonl -o model.npz"
)
_ = run("widemargin evaluate model.npz test.csv")

# %%
# ``relative_gap`` is the certificate: no machine saves more than that share of the objective. The history was written
# while the command ran, so you can watch a long run, from Python or from anything that reads JSON.

with open(os.path.join(folder.name, "run.jsonl")) as lines:
    rows = [json.loads(line) for line in lines]
epochs, objective, gap = (np.array([row[name] for row in rows]) for name in ("epochs", "objective", "gap"))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(epochs, objective, "o-", label="objective")
ax.plot(epochs, objective - gap, "s--", label="proven: no machine is below")
ax.set(xscale="log", xlabel="epochs", title="run.jsonl: the objective, and what is proven of it")
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# Predict
# -------
#
# A line for each example goes to standard output, or to ``-o``. ``--scores`` adds the numbers behind the label.

_ = run("widemargin predict model.npz test.csv --scores -o answers.txt")
with open(os.path.join(folder.name, "answers.txt")) as answers:
    print("".join(answers.readlines()[:4]))

# %%
# Choose C and γ
# --------------
#
# ``tune`` tries a grid on few rows, and the best third on all. It says where the grid was too narrow.

_ = run("widemargin tune train.svm -q -e SVC --Cs 1,10 --gammas 0.01,0.1 -o tuned.npz")

# %%
# When something is wrong
# -----------------------
#
# It is said in one sentence, and the exit code is 2.

print("exit code", run("widemargin train train.svm --C 0"))
folder.cleanup()

# %%
# More to try
# -----------
#
# .. code-block:: sh
#
#    widemargin info model.npz                        # what a file holds
#    widemargin convert model.npz model.liblinear     # for other programs; .libsvm and .onnx too
#    widemargin convert train.svm train.parquet       # data in another format
#    widemargin compare train.svm --max-seconds 30    # every solver that fits, beside scikit-learn's
#    widemargin train huge.svm --epochs 3 --max-memory '1 GB'    # chunk by chunk
#
# What to read next
# -----------------
#
# - Every command: :doc:`/guide/command`. What a file may hold: :doc:`/guide/data`.
# - Models for other programs: :doc:`/guide/formats`.
# - Files larger than memory: :doc:`plot_06_ten_million_rows`.
