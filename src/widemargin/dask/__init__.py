"""Support vector machines on a Dask cluster, trained on the workers that hold the data.

The estimators have the names and parameters of those in :mod:`widemargin`, and take Dask arrays and frames. No other
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
