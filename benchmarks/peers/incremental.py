"""The incremental machine beside scikit-learn's SVC (LIBSVM) and our own.

``python -m benchmarks.peers.incremental [pass] [single] [after] [unlearn] [budgets] [drift] [defaults] [--runs=3]``;
all without a name. One thread, processor time, medians over shuffles; compilation and prediction are off the clock,
whole ``fit`` calls on it. The rivals are measured once in each run. SVC minimises the same objective, with its bias.

- pass: error after one pass over a9a and mnist (8 against the rest), time over scikit-learn's SVC.
- single: one example on a model of 5,000 vectors with 100 features, the solver's time, over that of its kernel row
  computed alone; and whole ``partial_fit`` calls.
- after: ``finish`` to a relative gap of 1e-3, over the pass; ``unlearn`` of 100 support vectors, over training anew,
  without and with a repair.
- unlearn: gap and accuracy after 200 of 1,000 examples of banana are taken back, beside a machine that never saw them.
- budgets: error after a stream of at most 20,000 examples with 200 vectors, beside BudgetedSVC and the SVM of the last
  200, 400 and 1,000 examples; the lowest over λ or C, which is printed.
- drift: elec2, each example predicted before it is learnt; features scaled by the first 500 examples, γ = ½,
  C = 1 and the default steps, or what is printed.
- defaults: pairs and greedy single steps in one pass over five data sets.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC as RivalSVC

from benchmarks import datasets
from benchmarks.timing import verdict
from widemargin import SVC, BudgetedSVC, IncrementalSVC, Tracker
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import as_rows

CACHE_MB = 512
REPAIRS = {"repair=0": 0, "auto": "auto", "repair=1e-4": 1e-4}


def a9a():
    return datasets.a9a()


def mnist_8():
    (X, y), (Z, t) = datasets.load("mnist", 784), datasets.load("mnist.t", 784)
    return X.toarray() / 255.0, np.where(y == 8, 1.0, -1.0), Z.toarray() / 255.0, np.where(t == 8, 1.0, -1.0)


def one_against_rest(name, label, width):
    """The last-but-one class of a set against the others, features scaled to [−1, 1]."""
    (X, y), (Z, t) = datasets.load(name, width), datasets.load(f"{name}.t", width)
    scaler = MaxAbsScaler().fit(X)
    signs = (np.where(part == np.unique(y)[label], 1.0, -1.0) for part in (y, t))
    return scaler.transform(X).toarray(), next(signs), scaler.transform(Z).toarray(), next(signs)


def ijcnn1():
    X, y = datasets.load("ijcnn1")
    return datasets.split(X.toarray(), y, 0.3)


PASSES = {
    "a9a γ=.005 C=1": (a9a, 0.005, 1.0, 1 / 8, 0.2),
    "a9a γ=.05 C=1": (a9a, 0.05, 1.0, 1 / 8, 0.2),
    "mnist 8 γ=.005 C=1000": (mnist_8, 0.005, 1000.0, 1 / 15, 0.1),
}


def seconds(call):
    since = time.process_time()
    call()
    return time.process_time() - since


def error(model, Z, t):
    return 100.0 * float(np.mean(model.predict(Z) != t))


def one_pass(runs):
    print("| one pass | SVC of scikit-learn: s, error % | own SVC: s, error % | one pass: s, error %, vectors | time |")
    for name, (get, gamma, C, asked, within) in PASSES.items():
        X, y, Z, t = get()
        IncrementalSVC(C, gamma=gamma).fit(X[:600], y[:600]).predict(Z[:10])
        SVC(C, gamma=gamma).fit(X[:3000], y[:3000]).predict(Z[:10])
        rival, own = RivalSVC(C=C, gamma=gamma, cache_size=CACHE_MB), SVC(C, gamma=gamma, cache_size=CACHE_MB)
        of_rival, of_own = seconds(lambda: rival.fit(X, y)), seconds(lambda: own.fit(X, y))
        took, errors, models = [], [], []
        for k in range(runs):
            model = IncrementalSVC(C, gamma=gamma, cache_size=CACHE_MB, random_state=k)
            took.append(seconds(lambda: model.fit(X, y)))
            errors.append(error(model, Z, t))
            models.append(model.support_.size)
        ours = float(np.median(took))
        print(
            f"| {name} | {of_rival:.1f}, {error(rival, Z, t):.2f} | {of_own:.1f}, {error(own, Z, t):.2f} | {ours:.2f}, "
            f"{np.mean(errors):.2f} ± {np.std(errors):.2f}, {np.mean(models):.0f} | {verdict(ours / of_rival, asked)} |"
        )
        print(f"  above the rival's error: {verdict(np.mean(errors) - error(rival, Z, t), within)}")


def single(runs):
    rng = np.random.default_rng(0)
    n, d, more = 5000, 100, 400
    X = rng.normal(size=(3 * n, d)).astype(np.float32)
    y = np.where(rng.random(3 * n) < 0.5, 1.0, -1.0)  # labels without a rule: every example is a vector
    gamma = 0.5 / d
    model = IncrementalSVC(1.0, gamma=gamma, cache_size=CACHE_MB).partial_fit(X[:n], y[:n], classes=[-1.0, 1.0])
    matrix = KernelMatrix(RBF(gamma), as_rows(X[:n]), as_rows(X), dtype=np.float32)
    own = KernelMatrix(RBF(gamma), as_rows(X), as_rows(X[:n]), dtype=np.float32)
    del matrix
    own.block(np.arange(1))
    row = np.median([seconds(lambda i=i: own.block(np.array([i]))) for i in range(n, n + more)])
    whole, inside = [], []
    for i in range(n, n + more):
        before = model._seconds
        whole.append(seconds(lambda i=i: model.partial_fit(X[i : i + 1], y[i : i + 1])))
        inside.append(model._seconds - before)
    print(f"single example, {model.support_.size} vectors: the solver {1e6 * np.median(inside):.0f} µs (wall), whole "
          f"partial_fit {1e6 * np.median(whole):.0f} µs, its kernel row {1e6 * row:.0f} µs: "
          f"{verdict(np.median(inside) / row, 3.0)}")  # fmt: skip
    windows = []
    for start in (n, 2 * n):
        model = IncrementalSVC(1.0, gamma=gamma, cache_size=CACHE_MB, window=1000)
        model.partial_fit(X[:start], y[:start], classes=[-1.0, 1.0])
        for i in range(start, start + 50):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        before = model._seconds
        for i in range(start + 50, start + 50 + more):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        windows.append((model._seconds - before) / more)
    print(f"a window of 1,000, after {n} and {2 * n} examples: {1e6 * windows[0]:.0f} and {1e6 * windows[1]:.0f} µs "
          f"(ratio {verdict(windows[1] / windows[0], 1.2)})")  # fmt: skip


def after(runs):
    print(
        "| after a pass | pass s | finish to 1e-3: s, over the pass | unlearn 100: s, over training anew | repaired |"
    )
    for name, (get, gamma, C, _, _) in PASSES.items():
        X, y, Z, t = get()
        IncrementalSVC(C, gamma=gamma).fit(X[:600], y[:600]).finish(1e-3).unlearn([0, 1])
        model = IncrementalSVC(C, gamma=gamma, cache_size=CACHE_MB, random_state=0)
        took = seconds(lambda: model.fit(X, y))
        finish = seconds(lambda: model.finish(1e-3))
        finished, gap = error(model, Z, t), model.certificate_.gap / model.certificate_.primal
        forgotten = model.support_[np.random.default_rng(0).permutation(model.support_.size)[:100]]
        unlearn = seconds(lambda: model.unlearn(forgotten, repair=0))
        other = IncrementalSVC(C, gamma=gamma, cache_size=CACHE_MB, random_state=0).fit(X, y)
        forgotten = other.support_[np.random.default_rng(0).permutation(other.support_.size)[:100]]
        repaired = seconds(lambda: other.unlearn(forgotten))
        print(
            f"| {name} | {took:.2f} | {finish:.2f} (gap {gap:.1e}, error {finished:.2f} %), "
            f"{verdict(finish / took, 0.25)} | {unlearn:.3f}, {verdict(unlearn / took, 0.1)} | {repaired:.3f}, "
            f"{repaired / took:.2f} |"
        )


def unlearn(runs):
    X, y = datasets.load("banana", 2)
    X = X.toarray()
    print("| banana | C | gap before | " + " | ".join(f"{name}: gap, accuracy" for name in REPAIRS) + " | never seen |")
    for C in (1.0, 10.0, 100.0):
        for k in range(runs):
            order, gone = (
                np.random.default_rng(k).permutation(y.size),
                np.random.default_rng(k + 9).choice(1000, 200, False),
            )
            seen, others = order[:1000], order[1000:]
            left = np.delete(seen, gone)

            def learnt(rows, C=C):
                return IncrementalSVC(C, gamma=1.0).partial_fit(X[rows], y[rows], classes=[-1, 1])

            def said(model, others=others):
                return f"{model.duality_gap():.4f}, {100.0 - error(model, X[others], y[others]):.1f} %"

            models = [learnt(seen).unlearn(gone, repair=repair) for repair in REPAIRS.values()]
            cells = " | ".join(map(said, [*models, learnt(left)]))
            print(f"| order {k} | {C:g} | {learnt(seen).duality_gap():.4f} | {cells} |")


def covtype_2():
    """Class 2 against the rest, 30,000 of the rows."""
    X, y = datasets.load("covtype", 54)
    rows = np.random.default_rng(0).permutation(y.size)[:30_000]
    X = MaxAbsScaler().fit_transform(X)[rows].toarray()
    return datasets.split(X, np.where(y[rows] == 2, 1.0, -1.0), 1 / 3)


def banana():
    X, y = datasets.load("banana", 2)
    return datasets.split(X.toarray(), y, 0.3)


def budgets(runs):
    print("| 200 vectors: error %, with what | covtype, γ = 8 | ijcnn1, γ = 2 | banana, γ = 1 |\n|---|---|---|---|")
    sets = [(get(), gamma) for get, gamma in ((covtype_2, 8.0), (ijcnn1, 2.0), (banana, 1.0))]
    costs, lams = {"C": (0.1, 1.0, 10.0, 100.0)}, {"lam": (1e-3, 1e-4, 1e-5)}
    machines = {
        "`BudgetedSVC`": (BudgetedSVC, lams, {"budget": 200, "random_state": 0}, None),
        '`BudgetedSVC(maintenance="oldest")`': (
            BudgetedSVC, lams, {"budget": 200, "maintenance": "oldest", "random_state": 0}, None
        ),
        "`IncrementalSVC`": (IncrementalSVC, costs, {"budget": 200}, None),
        "the same, `Tracker(reprocess=10)`": (
            IncrementalSVC, costs, {"budget": 200, "solver": Tracker(reprocess=10)}, None
        ),
        **{f"`SVC` of the last {k}": (SVC, costs, {}, k) for k in (200, 400, 1000)},
    }  # fmt: skip
    for name, (kind, grid, given, last) in machines.items():
        cells, ((parameter, values),) = [], grid.items()
        for (X, y, Z, t), gamma in sets:
            X, y, found = X[:20_000], y[:20_000], []
            for value in values:
                model = kind(gamma=gamma, **{parameter: value}, **given)
                if last is None:
                    model.partial_fit(X, y, classes=np.unique(y))
                else:
                    model.fit(X[-last:], y[-last:])
                found.append((error(model, Z, t), value))
            cells.append("{:.1f}, {:g}".format(*min(found)))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def drift(runs):
    X, y = datasets.load("elec2")
    X = X.toarray()
    X = StandardScaler().fit(X[:500]).transform(X)
    IncrementalSVC(1.0, gamma=0.5, window=500).partial_fit(X[:600], y[:600], classes=np.unique(y))
    for rows in (15_000, X.shape[0]):
        same = np.mean(y[1:rows] != y[: rows - 1])
        harder = {"C": 10.0, "solver": Tracker(reprocess=3)}
        for settings in ({"window": 500}, {"window": 500, **harder}, {"budget": 200}, {"window": 2000}, {}):
            model = IncrementalSVC(gamma=0.5, **settings)
            took = seconds(lambda model=model, rows=rows: model.partial_fit(X[:rows], y[:rows], classes=np.unique(y)))
            print(f"elec2 {settings}, {rows} examples: {100 * model.online_error_:.2f} % wrong before it was learnt "
                  f"(the last label: {100 * same:.2f} %), {1e6 * took / rows:.1f} µs an example, "
                  f"{model.support_.size} vectors", flush=True)  # fmt: skip


def defaults(runs):
    sets = {
        "a9a γ=.005": (a9a, 0.005, 1.0), "a9a γ=.05": (a9a, 0.05, 1.0), "ijcnn1": (ijcnn1, 2.0, 10.0),
        "usps": (lambda: one_against_rest("usps", 8, 256), 0.01, 10.0),
        "letter": (lambda: one_against_rest("letter", 3, 16), 4.0, 10.0),
        "pendigits": (lambda: one_against_rest("pendigits", 4, 16), 4.0, 10.0),
        "satimage": (lambda: one_against_rest("satimage", 2, 36), 2.0, 10.0),
    }  # fmt: skip
    forms = {
        "pairs K=1": ({"reprocess": 1}, "unregularized"), "pairs K=3": ({"reprocess": 3}, "unregularized"),
        "greedy K=1": ({"reprocess": 1}, "regularized"), "greedy K=3": ({"reprocess": 3}, "regularized"),
        "random K=10": ({"choose": "random", "reprocess": 10}, "regularized"),
    }  # fmt: skip
    print("| one pass: error %, seconds | SVC | " + " | ".join(forms) + " |")
    for name, (get, gamma, C) in sets.items():
        X, y, Z, t = get()
        cells = [f"{error(SVC(C, gamma=gamma).fit(X, y), Z, t):.2f}"]
        for parameters, intercept in forms.values():
            IncrementalSVC(C, gamma=gamma, solver=Tracker(**parameters), intercept=intercept).fit(X[:300], y[:300])
            errors, took = [], []
            for k in range(runs):
                model = IncrementalSVC(
                    C,
                    gamma=gamma,
                    solver=Tracker(**parameters),
                    intercept=intercept,
                    cache_size=CACHE_MB,
                    random_state=k,
                )
                took.append(seconds(lambda model=model: model.fit(X, y)))
                errors.append(error(model, Z, t))
            cells.append(f"{np.mean(errors):.2f} ± {np.std(errors):.2f}, {np.median(took):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


PARTS = {
    "pass": one_pass, "single": single, "after": after, "unlearn": unlearn, "budgets": budgets, "drift": drift,
    "defaults": defaults,
}  # fmt: skip

if __name__ == "__main__":
    runs = next((int(word[7:]) for word in sys.argv if word.startswith("--runs=")), 3)
    chosen = [word for word in sys.argv[1:] if word in PARTS] or list(PARTS)
    for part in chosen:
        PARTS[part](runs)
