"""A user's program, which ``make check`` holds to mypy's strict rules: what is public is annotated."""

from pathlib import Path

import numpy as np

from widemargin import (
    SVC,
    SVR,
    BudgetedSVC,
    BudgetedSVR,
    IncrementalSVC,
    LinearSVC,
    LinearSVR,
    Pegasos,
    StochasticBatchPerceptron,
    compress,
    export,
    load,
    pareto_path,
    plots,
    svm_grid,
    svm_path,
    warmup,
)  # fmt: skip


def classify(X: np.ndarray, y: np.ndarray, folder: Path) -> tuple[float, str]:
    model = LinearSVC(C=10.0, solver=Pegasos(batch_size=8), max_seconds=1.0, checkpoint=folder / "fit").fit(X, y)
    share: float = model.score(X, y)
    reason: str = model.stop_reason_
    gap: float = model.certificate_.relative_gap
    export(model, folder / "model.txt")
    again = load(folder / "model.txt")
    again.predict(X)
    model.history_.to_frame()
    plots.convergence(model, y="gap")
    return share - gap, reason


def kernels(X: np.ndarray, y: np.ndarray) -> list[SVC]:
    svc: SVC = SVC(10.0, gamma="scale", class_weight={0: 2.0}, solver="smo").fit(X, y, sample_weight=np.ones(len(y)))
    svc.decision_function(X)
    SVC(solver=StochasticBatchPerceptron(nu=0.01)).fit(X, y)
    small = compress(svc, 10)
    small.predict(X)
    grid = svm_grid(X, y, [1.0, 10.0], gammas=[0.1])
    SVC(**grid.best_params).fit(X, y)
    pareto_path(X, y, Cs=[1.0, 10.0])
    return svm_path(X, y, [1.0, 10.0])


def streams(X: np.ndarray, y: np.ndarray) -> float:
    BudgetedSVC(50, max_bytes="1 MB").partial_fit(X, y, classes=[0, 1]).partial_fit(X, y)
    machine = IncrementalSVC(window=100).fit(X, y).unlearn([0]).finish(1e-2)
    gap: float = machine.duality_gap()
    return gap


def regress(X: np.ndarray, t: np.ndarray) -> float:
    machines = [SVR(epsilon=0.1).fit(X, t), LinearSVR(C=10.0).fit(X, t), BudgetedSVR(20).fit(X, t)]
    best: float = max(machine.score(X, t) for machine in machines)
    return best


warmup("SVC")
