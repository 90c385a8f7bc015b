"""Parameters of losses, kernels and policies: read, set, searched, cloned, pickled, in other processes and in files."""

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import fresh
from widemargin import SVC, BudgetedSVC, LinearSVC, LinearSVR, Pegasos
from widemargin.estimators.fit.nested import own_parameters
from widemargin.kernels import RBF, Polynomial
from widemargin.losses import Hinge, Huberized, HuberizedEpsilon
from widemargin.solvers.budget import Merge, Project


def data(rng, n=60):
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0.0).astype(int)


def test_own_parameters_are_those_of_values():
    class Point(NamedTuple):
        x: float

    @dataclass(frozen=True)
    class Place:
        y: float

    assert [own_parameters(value) for value in (Point(1.0), Place(2.0), Hinge())] == [{"x": 1.0}, {"y": 2.0}, {}]
    assert [own_parameters(value) for value in (None, "hinge", (1.0,), Place, Pegasos(), 3.0)] == [None] * 6


@pytest.mark.parametrize(
    ("model", "key", "value", "expected"),
    [
        (LinearSVC(loss=Huberized(0.5)), "loss__delta", 0.3, Huberized(0.3)),
        (LinearSVR(loss=HuberizedEpsilon(0.1, 0.5)), "loss__epsilon", 0.2, HuberizedEpsilon(0.2, 0.5)),
        (SVC(kernel=Polynomial(0.5)), "kernel__degree", 2, Polynomial(0.5, 0.0, 2)),
        (BudgetedSVC(kernel=RBF(0.5)), "kernel__gamma", 0.1, RBF(0.1)),
        (BudgetedSVC(maintenance=Merge()), "maintenance__vectors", 3, Merge(3)),
        (BudgetedSVC(maintenance="project"), "maintenance__threshold", 0.1, Project(0.1)),
    ],
)
def test_a_parameter_of_an_object_is_read_and_set(model, key, value, expected):
    part, before = key.partition("__")[0], getattr(model, key.partition("__")[0])
    assert key in model.get_params()
    assert key not in model.get_params(deep=False)
    twin = clone(model).set_params(**{key: value})
    assert getattr(twin, part) == expected
    assert type(getattr(twin, part)) is type(expected)
    assert twin.get_params()[key] == value
    assert getattr(model, part) == before  # values do not change


def test_an_object_and_its_parameter_can_be_set_in_one_call():
    model = LinearSVC().set_params(loss__delta=0.3, loss=Huberized(), solver__batch_size=7, solver=Pegasos())
    assert (model.loss, model.solver.batch_size) == (Huberized(0.3), 7)
    assert SVC(kernel=RBF()).set_params(kernel__gamma=0.5, C=2.0).get_params()["C"] == 2.0


@pytest.mark.parametrize(
    ("model", "parameters", "said"),
    [
        (
            LinearSVC(),
            {"loss__delta": 0.3},
            r"loss is the name 'hinge': give an object, such as loss=Huberized",
        ),
        (SVC(), {"kernel__gamma": 0.3}, r"kernel is the name 'rbf': give an object, such as kernel=RBF\(gamma=…\)"),
        (
            LinearSVC(loss=Huberized()),
            {"loss__gamma": 1},
            "loss__gamma is no parameter of LinearSVC: loss is Huberized",
        ),
        (LinearSVC(loss=Hinge()), {"loss__delta": 1}, r"loss__delta is no parameter of LinearSVC: loss is Hinge\(\)"),
    ],
)
def test_parameters_that_are_none_are_refused_and_nothing_is_set(model, parameters, said):
    with pytest.raises(ValueError, match=said):
        model.set_params(C=3.0, **parameters)
    assert model.C == 1.0


def test_objects_go_through_searches_pickles_and_notebooks(rng):
    X, y = data(rng)
    losses = ["hinge", Hinge(), Huberized(0.5)]
    search = GridSearchCV(LinearSVC(random_state=0), {"loss": losses}, cv=2).fit(X, y)
    assert [type(loss) for loss in search.cv_results_["param_loss"]] == [str, Hinge, Huberized]
    search = GridSearchCV(LinearSVC(loss=Huberized()), {"loss__delta": [0.25, 0.5]}, cv=2).fit(X, y)
    model = pickle.loads(pickle.dumps(search.best_estimator_))
    assert model.loss == Huberized(search.best_params_["loss__delta"])
    assert "Huberized" in model._repr_html_()
    assert "loss=Huberized(delta=0.25)" in repr(model.set_params(loss__delta=0.25))


def test_objects_are_kept_in_files(rng, tmp_path):
    X, y = data(rng)
    model = LinearSVC(loss=Huberized(0.25), random_state=0).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = LinearSVC.load(tmp_path / "model.npz")
    assert (type(loaded.loss), loaded.loss) == (Huberized, Huberized(0.25))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


#: A loss, a kernel and a policy of a user's own, in a file; what they do is not looked at here.
OWN = """
from dataclasses import dataclass
from typing import NamedTuple

from widemargin.core.kernels import kernels
from widemargin.core.kernels.measures import Squared
from widemargin.core.losses import losses
from widemargin.solvers.budget.merge import Merge


@losses.loss_class(losses.BINARY, "own_loss", lipschitz=1.0, above_zero=("width",))
class OwnLoss(NamedTuple):
    width: float = 1.0


for part in losses.value, losses.slope, losses.conjugate:
    part.case(OwnLoss)(part.table[losses.Hinge])


@kernels.kernel_class("own_kernel", Squared)
class OwnKernel(NamedTuple):
    gamma: float
    scale: float = 1.0


for part in kernels.value_of, kernels.finish:
    part.case(OwnKernel)(part.table[kernels.RBF])


@dataclass(frozen=True)
class OwnPolicy(Merge):
    own: int = 1
"""

#: Trains in two processes, by objects, and writes files.
PARENT = """
import numpy as np
from sklearn.model_selection import GridSearchCV
from widemargin import SVC, BudgetedSVC, LinearSVC
from own import OwnKernel, OwnLoss, OwnPolicy

X = np.random.default_rng(0).normal(size=(40, 2))
y = X[:, 0] > 0
tried = [
    (LinearSVC(loss=OwnLoss(), solver="pegasos", tol=0, max_iter=2), {"loss__width": [0.5, 2.0]}),
    (SVC(kernel=OwnKernel(0.5)), {"kernel__gamma": [0.5, 1.0]}),
    (BudgetedSVC(10, gamma=1.0, maintenance=OwnPolicy()), {"maintenance__own": [2, 3]}),
]
for name, (model, grid) in enumerate(tried):
    search = GridSearchCV(model, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    search.best_estimator_.save(f"{name}.npz")
    print(search.best_estimator_.get_params()[next(iter(grid))] in next(iter(grid.values())))
"""

LOADED = """
import sys
import numpy as np
from widemargin import load
if "own" in sys.argv:
    import own
for name in range(3):
    try:
        load(f"{name}.npz").predict(np.zeros((1, 2)))
        print("predicts")
    except ValueError as error:
        print(error)
"""


def test_a_class_of_ones_own_works_in_child_processes_and_in_files(tmp_path):
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    trained = fresh.run(PARENT, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.split() == ["True"] * 3
    known = fresh.run(LOADED, "own", cwd=tmp_path)
    assert known.stdout.split() == ["predicts"] * 3, known.stderr
    unknown = fresh.run(LOADED, cwd=tmp_path).stdout.splitlines()
    for name, line in zip(("OwnLoss", "OwnKernel", "OwnPolicy"), unknown, strict=True):
        assert (
            f"holds a {name}, which this version does not know: upgrade it, or import the file that registers" in line
        )
