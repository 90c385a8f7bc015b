"""Support vector machines at any scale.

>>> from widemargin import LinearSVC
>>> model = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
>>> model.stop_reason_, model.certificate_.relative_gap < 1e-3
('tol', True)

LinearSVC, LinearSVR
    linear machines: exact, any-time, on streams
SVC, SVR
    kernel machines, exact, on a CPU or a GPU
BudgetedSVC, BudgetedSVR
    kernel machines with a fixed number of vectors, for streams and files of any length
IncrementalSVC
    kernel machines that learn and unlearn, example by example
svm_path, svm_grid, pareto_path, compress
    machines for many values of C and γ, fronts of margin against slack, small machines from large ones
load, export
    machines from and to files of this library, LIBSVM, LIBLINEAR and ONNX
Pegasos, SDCA, Interior, Simba, SMO, StochasticBatchPerceptron, KernelPerceptron, BudgetedSGD, Tracker
    solvers with parameters of their own, for ``solver=``
losses, kernels
    losses and kernels as objects, ``LinearSVC(loss=losses.Huberized(delta=0.5))``
data, plots, teaching, warmup
    files and chunks; pictures; which example to label next; compilation ahead

The names are imported on first use, so that ``import widemargin`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

#: The public names of each module; a module that is public itself has its own name.
_NAMES: dict[str, tuple[str, ...]] = {
    "estimators.linear": ("LinearSVC", "LinearSVR"),
    "estimators.kernel": ("SVC", "SVR"),
    "estimators.paths": ("svm_path", "pareto_path"),
    "estimators.grids": ("svm_grid",),
    "estimators.budgeted": ("BudgetedSVC", "BudgetedSVR", "compress"),
    "estimators.incremental": ("IncrementalSVC",),
    "solvers.pegasos": ("Pegasos",),
    "solvers.smo.smo": ("SMO",),
    "solvers.sdca": ("SDCA",),
    "solvers.interior": ("Interior",),
    "solvers.simba.simba": ("Simba",),
    "core.rows.sources": ("Source", "TwoWays"),
    "solvers.visits.perceptron": ("KernelPerceptron",),
    "solvers.sbp.sbp": ("StochasticBatchPerceptron",),
    "solvers.budget": ("BudgetedSGD",),
    "solvers.tracking.tracker": ("Tracker",),
    "formats": ("load", "export"),
    "data": ("data",),
    "kernels": ("kernels",),
    "losses": ("losses",),
    "plots": ("plots",),
    "teaching": ("teaching",),
    "warming": ("warmup",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from . import data as data
    from . import kernels as kernels
    from . import losses as losses
    from . import plots as plots
    from . import teaching as teaching
    from .core.rows.sources import Source as Source
    from .core.rows.sources import TwoWays as TwoWays
    from .estimators.budgeted import BudgetedSVC as BudgetedSVC
    from .estimators.budgeted import BudgetedSVR as BudgetedSVR
    from .estimators.budgeted import compress as compress
    from .estimators.grids import svm_grid as svm_grid
    from .estimators.incremental import IncrementalSVC as IncrementalSVC
    from .estimators.kernel import SVC as SVC
    from .estimators.kernel import SVR as SVR
    from .estimators.linear import LinearSVC as LinearSVC
    from .estimators.linear import LinearSVR as LinearSVR
    from .estimators.paths import pareto_path as pareto_path
    from .estimators.paths import svm_path as svm_path
    from .formats import export as export
    from .formats import load as load
    from .solvers.budget import BudgetedSGD as BudgetedSGD
    from .solvers.interior import Interior as Interior
    from .solvers.pegasos import Pegasos as Pegasos
    from .solvers.sbp.sbp import StochasticBatchPerceptron as StochasticBatchPerceptron
    from .solvers.sdca import SDCA as SDCA
    from .solvers.simba.simba import Simba as Simba
    from .solvers.smo.smo import SMO as SMO
    from .solvers.tracking.tracker import Tracker as Tracker
    from .solvers.visits.perceptron import KernelPerceptron as KernelPerceptron
    from .warming import warmup as warmup


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"widemargin has no {name!r}; it has {', '.join(__all__)}")
    module = import_module(f"{__name__}.{_HOMES[name]}")
    return module if name == _HOMES[name] else getattr(module, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
