"""One-vs-one machines of many classes beside scikit-learn's SVC: time of fit and predict, and peak memory.

``python -m benchmarks.peers.many_classes [classes ...]``, by default 100, 300 and 1000, with five examples of each.
Each turn is a process of its own, the contenders take turns, and medians are shown. Time is the processor's; memory is
the peak of the whole process. Compilation is off the clock. That both solved the same problem is asserted by their
dual objectives.
"""

import json
import os
import resource
import subprocess
import sys
import time
from itertools import combinations

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.timing import verdict

TURNS = {100: 5, 300: 5, 1000: 3}
SIZE, FEATURES, GAMMA, C = 5, 20, 0.05, 1.0


def data(classes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), SIZE)
    return rng.normal(size=(classes, FEATURES))[y] + 0.5 * rng.normal(size=(y.size, FEATURES)), y


def dual_value(model, X, classes):
    """Σα − ½‖w‖², summed over some pairs of classes: a neutral party's."""
    total, ends = 0.0, np.cumsum(model.n_support_)
    of_class = [np.arange(end - count, end) for end, count in zip(ends, model.n_support_, strict=True)]
    for i, j in list(combinations(range(classes), 2))[:: max(1, classes // 10)]:
        rows = model.support_[np.r_[of_class[i], of_class[j]]]
        c = np.r_[model.dual_coef_[j - 1, of_class[i]], model.dual_coef_[i, of_class[j]]]
        distances = np.sum((X[rows, None] - X[None, rows]) ** 2, axis=2)
        total += float(np.abs(c).sum() - 0.5 * c @ np.exp(-GAMMA * distances) @ c)
    return total


def contend(name, classes):
    """One turn, in this process."""
    X, y = data(classes)
    if name == "widemargin":
        from widemargin import SVC

        SVC(gamma=GAMMA, C=C).fit(X[:75], y[:75]).predict(X[:1])  # compiles
    else:
        from sklearn.svm import SVC
    model = SVC(gamma=GAMMA, C=C)
    since = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    errors = float(np.mean(model.predict(X) != y))
    predicted = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = fitted - since, predicted - fitted, memory, errors, dual_value(model, X, classes)
    print(json.dumps(found))


def main(numbers):
    for classes in numbers:
        found = {"widemargin": [], "scikit-learn": []}
        for _ in range(TURNS.get(classes, 3)):
            for name, turns in found.items():
                command = [sys.executable, "-m", "benchmarks.peers.many_classes", "--turn", name, str(classes)]
                turns.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        ours, theirs = (np.median(turns, axis=0) for turns in found.values())
        print(f"{classes} classes, {classes * (classes - 1) // 2} pairs, medians of {len(found['widemargin'])}")
        for name, row in zip(found, (ours, theirs), strict=True):
            print(
                f"    {name:13} fit {row[0]:7.2f} s, predict {row[1]:7.2f} s, peak {row[2]:5.0f} MB, error {row[3]:.2%}"
            )
        print(f"    fit      {verdict(ours[0] / theirs[0], 1)}")
        print(f"    predict  {verdict(ours[1] / theirs[1], 1)}")
        print(f"    memory   {verdict(ours[2] / theirs[2], 2)}", flush=True)
        assert abs(ours[4] - theirs[4]) <= 1e-3 * abs(theirs[4]), (ours[4], theirs[4])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turn"]:
        contend(sys.argv[2], int(sys.argv[3]))
    else:
        main([int(number) for number in sys.argv[1:]] or list(TURNS))
