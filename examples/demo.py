"""What ``make demo`` shows: linear, kernel and budgeted machines beside scikit-learn's, in tables and a picture.

The first run compiles for most of a minute on two cores; later ones take half a minute, most of it scikit-learn's. The
picture is demo_output/demo.png.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC as RivalKernelSVC
from sklearn.svm import LinearSVC as RivalSVC

from widemargin import SVC, BudgetedSVC, LinearSVC, Pegasos, plots, warmup

warnings.filterwarnings("ignore", message="Liblinear failed to converge")

C = 1.0


def drawn(n, d, **how):
    """(X, y, X_test, y_test) in single precision."""
    X, y = make_classification(n, d, flip_y=0.02, class_sep=1.5, random_state=0, **how)
    X, X_test, y, y_test = train_test_split(X.astype(np.float32), y, test_size=0.3, random_state=0)
    print(f"{X.shape[0]} training rows, {X.shape[1]} features, C = {C}\n")
    return X, y, X_test, y_test


def objective(model, X, y):
    """The primal objective of the C-form over C·n, for labels 0/1 and a regularised intercept."""
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    norm2 = np.sum(model.coef_**2) + np.sum(model.intercept_**2)
    return norm2 / (2 * C * len(y)) + np.maximum(0.0, 1.0 - margins).mean()


def gap(model):
    """The relative duality gap, where a model can prove one."""
    certificate = getattr(model, "certificate_", None)
    return "" if certificate is None else f"{certificate.relative_gap:.2%}"


def timed_fit(model, X, y):
    since = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - since


def linear():
    """Print the table of linear machines; the estimators of widemargin by name."""
    print("\nLinear machines: ", end="")
    X, y, X_test, y_test = drawn(50_000, 50, n_informative=20)
    for solver in ("sdca", "pegasos"):
        LinearSVC(solver=solver, max_iter=1, tol=0).fit(X[:100], y[:100])  # loads machine code
    paper = Pegasos(step="pegasos", average="none", sampling="iid")
    by_pegasos = {"C": C, "solver": "pegasos", "tol": 0, "random_state": 0}
    contenders = {
        "widemargin LinearSVC": LinearSVC(C=C, random_state=0),
        "  by Pegasos": LinearSVC(**by_pegasos, max_iter=16),
        "  the paper's Pegasos": LinearSVC(**{**by_pegasos, "solver": paper}, max_iter=16),
        "  by Pegasos, for 0.2 s": LinearSVC(**by_pegasos, max_iter=10_000, max_seconds=0.2),
        "scikit-learn LinearSVC": RivalSVC(C=C, loss="hinge", random_state=0),
        "scikit-learn SGDClassifier": SGDClassifier(alpha=1 / (C * len(y)), average=True, random_state=0),
    }
    print(f"{'':30}{'seconds':>9}{'test error':>12}{'objective':>11}{'proven gap':>12}   stopped by")
    for name, model in contenders.items():
        seconds, error = timed_fit(model, X, y), 1 - model.score(X_test, y_test)
        print(
            f"{name:30}{seconds:9.3f}{error:12.2%}{objective(model, X, y):11.5f}{gap(model):>12}"
            f"   {getattr(model, 'stop_reason_', '')}"
        )
    print("The gap, relative to the objective, bounds how far that is above the least one.")
    print("Pegasos keeps no dual variables: what the slopes of its steps prove takes more epochs.")
    return {name.strip(): model for name, model in contenders.items() if hasattr(model, "history_")}


def kernel(budget=400):
    """Print the table of kernel machines; (seconds, test error) by name."""
    print("\nKernel machines, the RBF kernel: ", end="")
    X, y, X_test, y_test = drawn(14_000, 20, n_informative=10, n_clusters_per_class=8)
    gamma = 1.0 / (X.shape[1] * X.var())  # what "scale" is
    lam = 1.0 / (C * len(y))
    contenders = {
        "widemargin SVC": SVC(C=C, gamma=gamma),
        f"widemargin BudgetedSVC({budget})": BudgetedSVC(budget, gamma=gamma, lam=lam, max_iter=5, random_state=0),
        "scikit-learn SVC": RivalKernelSVC(C=C, gamma=gamma),
        f"scikit-learn Nystroem({budget})": make_pipeline(
            Nystroem(gamma=gamma, n_components=budget, random_state=0), RivalSVC(C=C, loss="hinge", random_state=0)
        ),
    }
    for model in (SVC(), BudgetedSVC(20)):
        model.fit(X[:100], y[:100])  # loads machine code
    print(f"{'':30}{'seconds':>9}{'test error':>12}{'vectors':>11}{'proven gap':>12}")
    found = {}
    for name, model in contenders.items():
        seconds, error = timed_fit(model, X, y), 1 - model.score(X_test, y_test)
        found[name] = seconds, error
        vectors = len(getattr(model, "support_vectors_", range(budget)))
        print(f"{name:30}{seconds:9.3f}{error:12.2%}{vectors:11}{gap(model):>12}")
    return found


def draw(linear_models, kernel_machines):
    """The picture: objectives of linear machines against time, errors of kernel machines against theirs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    proven = max(model.certificate_.dual for model in linear_models.values())
    plots.convergence(linear_models, optimum=proven, ax=left)
    left.set_title("linear machines of widemargin")
    for name, (seconds, error) in kernel_machines.items():
        right.plot(seconds, 100 * error, "o", label=name)
    right.set(xlabel="seconds of fit", ylabel="test error (%)", title="kernel machines", xlim=0, ylim=0)
    right.grid(alpha=0.3)
    right.legend(frameon=False, loc="lower right")
    picture = Path("demo_output") / "demo.png"
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=120)
    return picture


def main():
    print("Compiling what is not on disk yet ...", flush=True)
    warmup(["BudgetedSVC", "SVC", "LinearSVC"], dtypes="float32", layouts="dense", verbose=1)
    print(f"\nThe picture of both is {draw(linear(), kernel())}")


if __name__ == "__main__":
    main()
