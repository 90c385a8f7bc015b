"""What ``make demo`` shows: the same linear SVM by widemargin and by scikit-learn, a table and a picture.

Runs in well under a minute after the first compilation; writes demo_output/convergence.png.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC as RivalSVC

from widemargin import LinearSVC, Pegasos, plots

warnings.filterwarnings("ignore", message="Liblinear failed to converge")


def objective(model, X, y, C):
    """The primal objective of the C-form over C·n, for labels 0/1 and a regularised intercept."""
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    norm2 = np.sum(model.coef_**2) + np.sum(model.intercept_**2)
    return norm2 / (2 * C * len(y)) + np.maximum(0.0, 1.0 - margins).mean()


def main():
    X, y = make_classification(50_000, 50, n_informative=20, flip_y=0.02, class_sep=1.5, random_state=0)
    X, X_test, y, y_test = train_test_split(X.astype(np.float32), y, test_size=0.3, random_state=0)
    C = 1.0
    print(f"{X.shape[0]} training rows, {X.shape[1]} features, C = {C}; compiling on first use ...", flush=True)
    for solver in ("sdca", "pegasos"):
        LinearSVC(solver=solver, max_iter=1, tol=0).fit(X[:100], y[:100])
    paper = Pegasos(step="pegasos", average="none", sampling="iid")
    contenders = {
        "widemargin LinearSVC": LinearSVC(C=C, random_state=0),
        "  by Pegasos": LinearSVC(C=C, solver="pegasos", tol=0, max_iter=16, random_state=0),
        "  the paper's Pegasos": LinearSVC(C=C, solver=paper, tol=0, max_iter=16, random_state=0),
        "  by Pegasos, for 0.2 s": LinearSVC(
            C=C, solver="pegasos", tol=0, max_iter=10_000, max_seconds=0.2, random_state=0
        ),
        "scikit-learn LinearSVC": RivalSVC(C=C, loss="hinge", random_state=0),
        "scikit-learn SGDClassifier": SGDClassifier(alpha=1 / (C * len(y)), average=True, random_state=0),
    }
    print(f"\n{'':28}{'seconds':>9}{'objective':>11}{'test error':>12}   stopped by")
    for name, model in contenders.items():
        since = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - since
        error = 1 - model.score(X_test, y_test)
        print(
            f"{name:28}{seconds:9.3f}{objective(model, X, y, C):11.5f}{error:12.2%}"
            f"   {getattr(model, 'stop_reason_', '')}"
        )
    print("\nHow far above the least objective they can be, by their own certificates:")
    for name in ("widemargin LinearSVC", "  by Pegasos"):
        print(f"{name:28}{contenders[name].certificate_.relative_gap:9.2%}")
    print("Pegasos keeps no dual variables, and what it can prove is next to nothing.\n")
    folder = Path("demo_output")
    folder.mkdir(exist_ok=True)
    picture = folder / "convergence.png"
    drawn = {name.strip(): model for name, model in contenders.items() if hasattr(model, "history_")}
    ax = plots.convergence(drawn)
    ax.set_yscale("log")
    ax.figure.savefig(picture, dpi=120)
    print(f"The picture is {picture}: objective against training time, for the four runs of widemargin.")


if __name__ == "__main__":
    main()
