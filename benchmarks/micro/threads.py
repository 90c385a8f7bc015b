"""What a second thread brings: wall clock of whole fits and predictions with n_jobs=1 over n_jobs=2.

    python -m benchmarks.micro.threads

On an idle machine with two processors; one thread, two threads, and two processes that make the call on one thread
each take turns, and the median of seven turns' ratios counts. What two processes get done, in the column "at most", is
all that two processors can give at that moment: on a shared machine not twice as much. Asked: 1.6 on exact kernel
machines and predictions with 784 features. Scores are the same bits, as is checked. BLAS has the threads that it has
for everybody, unless OPENBLAS_NUM_THREADS says otherwise.
"""

import warnings

import numpy as np

from benchmarks import datasets
from benchmarks.timing import Twin, clock, turns
from widemargin import SVC, SVR, LinearSVC


def mnist(rows):
    """Images in [0, 1], and digits."""
    X, y = datasets.load("mnist")
    X = np.ascontiguousarray(X[:rows].toarray(), np.float32)
    return X / X.max(), y[:rows]


def contenders():
    """(name, estimator, X, y, rows to score)."""
    X, y = mnist(30_000)
    one = np.where(y == 8, 1.0, -1.0)
    yield "SVC, mnist 8 against the rest, 30,000", SVC(gamma=0.02), X, one, 5000
    X, y, one = X[:20_000], y[:20_000], one[:20_000]
    yield "SVC, mnist 8, 20,000, C = 10", SVC(gamma=0.02, C=10.0), X, one, 5000
    yield "SVC, mnist, ten classes, 6,000", SVC(gamma=0.02, C=10.0), X[:6000], y[:6000], 5000
    for rows in (6000, 15_000):
        digits = y[:rows].astype(float)
        yield f"SVR, mnist, the digit, {rows:,}", SVR(gamma=0.02, C=10.0, epsilon=0.5), X[:rows], digits, 5000
    yield "SVC(solver='sbp'), mnist 8, 20,000", SVC(solver="sbp", gamma=0.02, C=10.0), X, one, 5000
    A, b = datasets.a9a()[:2]
    yield "SVC, a9a, 123 features", SVC(gamma=0.05), A, b, 10_000
    N, c = datasets.news20()[:2]
    yield "LinearSVC, news20-bigram", LinearSVC(), N, c, 0


def in_turns(call, one, two):
    """(seconds on one thread, times faster on two, times more that two processes get done), medians of seven turns."""
    twin = Twin(lambda: call(one))
    seconds = turns(
        {"one": lambda: clock(lambda: call(one)), "two": lambda: clock(lambda: call(two)), "both": twin.clock}, 7
    )
    twin.end()
    alone, shared, both = seconds.values()
    return np.median(alone), np.median(alone / shared), np.median(2.0 * alone / both)


def main():
    warnings.simplefilter("ignore")
    titles = "fit, 1 thread", "times", "at most", "predict", "times", "at most"
    print(f"{'':42} {titles[0]:>14} {titles[1]:>6} {titles[2]:>8} {titles[3]:>9} {titles[4]:>6} {titles[5]:>8}")
    for name, estimator, X, y, rows in contenders():
        models = [type(estimator)(**{**estimator.get_params(), "n_jobs": jobs, "random_state": 0}) for jobs in (1, 2)]
        for model in models:  # compiles
            model.fit(X[:600], y[:600])
            model.predict(X[:600])
        fit = in_turns(lambda model: model.fit(X, y), *models)
        line = f"{name:42} {fit[0]:12.2f} s {fit[1]:6.2f} {fit[2]:8.2f}"
        if rows:
            scores = [getattr(model, "decision_function", model.predict)(X[:rows]) for model in models]
            assert np.array_equal(*scores)
            predicted = in_turns(lambda model: model.predict(X[:rows]), *models)
            line += f" {predicted[0]:7.2f} s {predicted[1]:6.2f} {predicted[2]:8.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
