"""Support vector machines on a Dask cluster, trained where the data lies.

The estimators are those of :mod:`widemargin` with the same parameters, for Dask arrays and frames. Nothing below this
package imports Dask.
"""

try:
    import dask
    import distributed
except ImportError as missing:
    raise ImportError(
        "widemargin.dask needs Dask and its distributed scheduler: pip install 'widemargin[dask]', or "
        "pip install dask distributed"
    ) from missing

from .budgeted import BudgetedSVC, BudgetedSVR
from .kernel import SVC
from .linear import LinearSVC, LinearSVR

__all__ = ["SVC", "BudgetedSVC", "BudgetedSVR", "LinearSVC", "LinearSVR"]

del dask, distributed
