"""Labels handwritten digits from 10 labels on: a teacher that chooses, against one that draws at random.

Runs in well under a minute after the first compilation; writes demo_output/label_digits.png.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import IncrementalSVC, plots
from widemargin.history import History
from widemargin.teaching import ActiveTeacher, RandomTeacher, teach

SHOWN, SEEDS = (10, 20, 40, 80, 160, 320), range(3)
MEANT = ("labels", "test_error", "kernel_evals", "pool_kernel_evals")


def lessons(teacher, X, y, test):
    """The mean history of some lessons, of 10 to 320 labels each."""
    histories = []
    for seed in SEEDS:
        learner = IncrementalSVC(C=10.0, gamma=0.001, random_state=seed)
        lesson = teach(learner, X, teacher, y, labels=SHOWN[-1], every=10, test=test, random_state=seed)
        histories.append(lesson.history_)
    means = {name: np.mean([history[name] for history in histories], axis=0) for name in MEANT}
    mean = History()
    for row in zip(*means.values(), strict=True):
        mean.append(**dict(zip(MEANT, row, strict=True)))
    return mean


def main():
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
    print(f"{len(y)} digits without labels, {len(y_test)} to test; compiling on first use ...", flush=True)
    teachers = {"random": RandomTeacher(), "active": ActiveTeacher()}
    found = {name: lessons(teacher, X, y, (X_test, y_test)) for name, teacher in teachers.items()}
    print(f"\nTest error, mean of {len(SEEDS)} lessons, and kernel values\n")
    print(f"{'labels':8}" + "".join(f"{count:>8}" for count in SHOWN) + f"{'to learn':>12}{'to choose':>12}")
    for name, history in found.items():
        errors = history["test_error"][np.isin(history["labels"], SHOWN)]
        spent = history.last("kernel_evals"), history.last("pool_kernel_evals")
        print(f"{name:8}" + "".join(f"{error:8.2%}" for error in errors) + "".join(f"{n:12,.0f}" for n in spent))
    picture = Path("demo_output") / "label_digits.png"
    picture.parent.mkdir(exist_ok=True)
    ax = plots.convergence(found, x="labels", y="test_error")
    ax.set(yscale="log", xlabel="labels", ylabel="test error")
    ax.figure.savefig(picture, dpi=120)
    print(f"\nThe picture is {picture}: test error against labels.")


if __name__ == "__main__":
    main()
