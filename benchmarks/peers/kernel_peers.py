"""Kernel machines beside those of other libraries, and beside what approximates them; see :mod:`.frame`."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC as RivalSVC
from sklearn.svm import LinearSVC as RivalLinearSVC

from benchmarks import datasets
from benchmarks.peers import measuring
from benchmarks.peers.frame import Measurement
from widemargin import SVC, BudgetedSVC, IncrementalSVC, LinearSVC
from widemargin.data.generators import checkerboard

#: Data set → γ, C, rows for training and for the test.
SETS = {
    "a9a": (0.05, 1.0, 5000, 8000),
    "usps": (1 / 128, 10.0, 7291, 2007),
    "ijcnn1": (2.0, 10.0, 10_000, 10_000),
    "covtype": (8.0, 10.0, 8000, 8000),
    "mnist": (0.02, 10.0, 4000, 5000),
}


def data(name, quick):
    """(X, y, Z, t, γ, C), labels ±1; dense, but for a9a."""
    if name == "generated":
        rng = np.random.default_rng(0)
        (X, y), (Z, t) = checkerboard(1500, rng, dtype=np.float64), checkerboard(1000, rng, dtype=np.float64)
        return X, np.where(y > 0, 1.0, -1.0), Z, np.where(t > 0, 1.0, -1.0), 20.0, 10.0
    gamma, C, rows, tests = SETS[name]
    rows, tests = (min(rows, 1500), min(tests, 1000)) if quick else (rows, tests)
    if name in ("ijcnn1", "covtype"):
        X, y = datasets.load(name, {"ijcnn1": 22, "covtype": 54}[name], np.float64)
        if name == "covtype":
            X, y = MaxAbsScaler().fit_transform(X), np.where(y == 2, 1.0, -1.0)
        order = np.random.default_rng(0).permutation(y.size)
        (X, Z), (y, t) = ((A[order[:rows]], A[order[rows : rows + tests]]) for A in (X, y))
    else:
        width, positive = {"a9a": (123, 1), "usps": (256, 3), "mnist": (784, 8)}[name]
        (X, y), (Z, t) = datasets.load(name, width, np.float64), datasets.load(f"{name}.t", width, np.float64)
        some = np.random.default_rng(0).permutation(y.size)[:rows]
        X, y, Z, t = X[some], np.where(y[some] == positive, 1.0, -1.0), Z[:tests], t[:tests]
        t = np.where(t == positive, 1.0, -1.0)
    if name == "mnist":
        X, Z = X / 255.0, Z / 255.0
    if name != "a9a":
        X, Z = X.toarray(), Z.toarray()
    return X, y, Z, t, gamma, C


class Expansion:
    """The problem ½‖w‖² + C Σ hinge, of machines that are a sum over kernel values; a neutral party's value of it."""

    def __init__(self, X, y, Z, gamma, C):
        self.X, self.y, self.Z, self.gamma, self.C = X, y, Z, gamma, C

    def objective(self, model):
        """½‖w‖² + C Σ hinge of something with scikit-learn's attributes."""
        vectors, c = model.support_vectors_, np.ravel(as_array(model.dual_coef_)).astype(np.float64)
        b, scores, norm = float(np.ravel(model.intercept_)[0]), np.empty(self.y.size), 0.0
        for first in range(0, self.y.size, 1000):
            part = slice(first, first + 1000)
            scores[part] = rbf_kernel(self.X[part], vectors, gamma=self.gamma) @ c + b
        for first in range(0, c.size, 1000):
            part = slice(first, first + 1000)
            norm += float(c[part] @ rbf_kernel(vectors[part], vectors, gamma=self.gamma) @ c)
        return 0.5 * norm + self.C * np.maximum(0.0, 1.0 - self.y * scores).sum()

    def contender(self, name, settings, make, some=None, **options):
        """A contender of estimators with support vectors; ``some(setting)`` are the rows that it is given."""

        def fit(setting):
            rows = slice(None) if some is None else some(setting)
            return make(setting).fit(self.X[rows], self.y[rows])

        known = {"objective": self.objective, **options}
        return measuring.Contender(name, settings, fit, lambda model: model.decision_function(self.Z), size, **known)


def as_array(values):
    """Sparse coefficients, too."""
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def bytes_of(values):
    """Of an array or a sparse matrix."""
    return values.data.nbytes + values.indices.nbytes + values.indptr.nbytes if sp.issparse(values) else values.nbytes


def size(model):
    """Support vectors and their coefficients."""
    return bytes_of(model.support_vectors_) + bytes_of(model.dual_coef_) + 8


def exact_ones(frame, n):
    """Machines of the same problem."""
    gamma, C = frame.gamma, frame.C
    order = np.random.default_rng(1).permutation(n)

    def libsvm(tol):
        return RivalSVC(C=C, gamma=gamma, tol=tol)

    yield frame.contender(
        "widemargin SVC, tol", [0.1, 0.01, 1e-3], lambda tol: SVC(C, gamma=gamma, tol=tol), exact=True
    )
    yield frame.contender(
        "widemargin SVC, sbp, early stopping", ["held-out error"],
        lambda _: SVC(C, gamma=gamma, solver="sbp", early_stopping=True, random_state=0),
    )  # fmt: skip
    yield frame.contender(
        "widemargin IncrementalSVC, passes", [1], lambda _: IncrementalSVC(C, gamma=gamma, random_state=0)
    )
    yield frame.contender("scikit-learn SVC, tol", [0.1, 0.01, 1e-3], libsvm, exact=True)
    yield frame.contender(
        "scikit-learn SVC on a share of the rows", [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2],
        lambda share: libsvm(1e-3), lambda share: order[: int(share * n)],
    )  # fmt: skip


def official(frame):
    """The package of LIBSVM's authors."""
    try:
        from libsvm.svm import svm_parameter, svm_problem
        from libsvm.svmutil import svm_predict, svm_train
    except ImportError:
        return
    read = svm_problem(frame.y, sp.csr_matrix(frame.X))
    tests = sp.csr_matrix(frame.Z)

    def fit(tol):
        return svm_train(read, svm_parameter(f"-q -t 2 -c {frame.C!r} -g {frame.gamma!r} -e {tol!r} -m 200"))

    def scores(model):
        sign = 1.0 if model.get_labels()[0] > 0 else -1.0
        return sign * np.array(svm_predict(np.zeros(tests.shape[0]), tests, model, "-q")[2])[:, 0]

    def entries(model):
        """Vectors are lists of nodes of 16 bytes, each with one at its end."""
        found = model.get_sv_indices()
        return 16 * (int(np.diff(sp.csr_matrix(frame.X).indptr)[np.array(found) - 1].sum()) + len(found)) + 8 * len(
            found
        )

    def objective(model):
        sign = 1.0 if model.get_labels()[0] > 0 else -1.0
        chosen = np.array(model.get_sv_indices()) - 1
        found = type("Found", (), {})()
        found.support_vectors_, found.dual_coef_ = frame.X[chosen], sign * np.ravel(model.get_sv_coef())
        found.intercept_ = -sign * model.rho[0]
        return frame.objective(found)

    yield measuring.Contender("libsvm-official, tol", [0.1, 0.01, 1e-3], fit, scores, entries, objective, exact=True)


class Features:
    """Features that stand for a kernel, and a linear machine on them."""

    def __init__(self, features, machine):
        self.features, self.machine = features, machine

    def fit(self, X, y):
        self.machine.fit(self.features.fit_transform(X), y)
        return self

    def decision_function(self, X):
        return self.machine.decision_function(self.features.transform(X))

    @property
    def bytes(self):
        known = ("components_", "normalization_", "random_weights_", "random_offset_")
        own = sum(bytes_of(vars(self.features)[name]) for name in known if name in vars(self.features))
        return own + self.machine.coef_.nbytes + 8


def small_ones(frame, n, sizes):
    """Machines of a size that is given."""
    gamma, C = frame.gamma, frame.C
    yield frame.contender(
        "widemargin BudgetedSVC, three passes, vectors", [50, *sizes],
        lambda B: BudgetedSVC(B, gamma=gamma, lam=1.0 / (C * n), max_iter=3, random_state=0), objective=lambda _: None,
    )  # fmt: skip

    def made(name, make):
        def fit(m):
            return make(m).fit(frame.X, frame.y)

        return measuring.Contender(
            name, sizes, fit, lambda model: model.decision_function(frame.Z), lambda model: model.bytes
        )

    def nystroem(m):
        return Nystroem(gamma=gamma, n_components=m, random_state=0)

    def sampled(m):
        return RBFSampler(gamma=gamma, n_components=m, random_state=0)

    def averaged():
        return SGDClassifier(alpha=1.0 / (C * n), average=True, tol=None, max_iter=20, random_state=0)

    yield made("widemargin LinearSVC on Nystroem, components", lambda m: Features(nystroem(m), LinearSVC(C)))
    yield made(
        "scikit-learn LinearSVC on Nystroem, components",
        lambda m: Features(nystroem(m), RivalLinearSVC(C=C, loss="hinge", random_state=0)),
    )
    yield made(
        "scikit-learn SGDClassifier on RBFSampler, components", lambda m: Features(sampled(m), averaged())
    )  # fmt: skip


class Kernel(Measurement):
    """Kernel machines."""

    paper, name, title = "peers", "kernel", "Kernel machines"
    setting = (
        "Gaussian kernels, two classes, an intercept without penalty, caches of 200 MB. Objectives are ½‖w‖² + C Σ "
        "hinge of machines that are a sum over kernel values; that those that claim to solve this problem come to the "
        "same value within 0.5 % is asserted. Approximations have another space and no such value: budgeted machines "
        "of three passes and at most so many vectors, Nyström's features and random Fourier features with a linear "
        "machine on them. scikit-learn's SVC on a share of the rows is the simplest of them. The pipelines' time has "
        "the features' in it. Tolerances are 0.1, 0.01 and 1e-3 for all, but 0.1 and 1e-3 for LIBSVM on a9a, "
        "usps and ijcnn1, where its times at the two differ by 15 % at most. Rows, γ and C: "
        + "; ".join(f"{name} {rows:,}, {gamma:g}, {C:g}" for name, (gamma, C, rows, _) in SETS.items())
        + ". usps is 3 against the rest, mnist 8 (4,000 of 60,000 rows, over 255), covtype class 2 (8,000 of 581,012, "
        "scaled to unit maximum); a9a has 5,000 of 32,561, ijcnn1 10,000 of 49,990, and of those without a test file "
        "as many others are for testing."
    )
    needs = ("a9a", "usps", "ijcnn1", "covtype", "mnist")

    def lacks(self, quick):
        """Generated data is always there."""
        return "" if quick else super().lacks(quick)

    def run(self, kept, quick):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in ("generated",) if quick else SETS:
            kept.get(name, lambda name=name: measure(name, quick))

    def figure(self, parts):
        return measuring.fronts({name: part["found"] for name, part in parts.items()})

    def table(self, parts):
        text = []
        for name, part in parts.items():
            text.append(f"### {name}: {part['shape'][0]:,} × {part['shape'][1]:,}\n")
            text.append(measuring.side_by_side(part["found"], goals(part["found"])) + "\n")
        found = {name: part["found"] for name, part in parts.items()}
        said = measuring.verdicts(found, goals, "widemargin")
        text.append("### Who is first with a kernel\n\n" + "\n".join(f"- {line}" for line in said) + "\n")
        best = measuring.beside_time(found, goals, "widemargin")
        text.append(f"### Where a rival is first with a kernel\n\nAs for linear machines.\n\n{best}")
        return "\n".join(text)


def goals(found):
    """(heading, test of a row) of a data set."""
    best = measuring.least(found, "objective")

    def within(excess):
        return lambda row: row["objective"] is not None and row["objective"] <= best * (1.0 + excess)

    return [
        ("to 1 % above the least objective", within(0.01)),
        measuring.last_goal(found),
    ]


def measure(name, quick):
    """All contenders on a data set."""
    X, y, Z, t, gamma, C = data(name, quick)
    frame = Expansion(X, y, Z, gamma, C)
    sizes = [20, 100] if quick else [100, 300, 1000]
    contenders = [*exact_ones(frame, y.size), *official(frame), *small_ones(frame, y.size, sizes)]
    found = measuring.measured(contenders, t, 2 if quick else 5, 20.0 if quick else 40.0)
    assert_same(contenders, found)
    return {"found": found, "shape": list(X.shape)}


def assert_same(contenders, found):
    """Those that claim to be exact come to the same objective."""
    values = {each.name: found[each.name][-1]["objective"] for each in contenders if each.exact}
    assert max(values.values()) <= 1.005 * min(values.values()), values


EXPERIMENTS = [Kernel()]
