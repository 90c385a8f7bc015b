"""How long a user waits before the first result: importing the package, and the first fit of a second process.

    python -m benchmarks.micro.startup

Beyond Python itself and the libraries it needs; processes take turns, so that a busy moment hits all alike.
"""

import subprocess
import sys

from benchmarks.timing import clock, spread, turns, verdict

FIRST_FIT = """
import time
import numpy, scipy.sparse, numba, sklearn.linear_model
from widemargin import {name}
X = numpy.random.default_rng(0).normal(size=(100, 5))
since = time.perf_counter()
{name}(random_state=0).fit(X, X[:, 0] > 0)
print(time.perf_counter() - since)
"""


def python(script):
    """What a script prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def main():
    seconds = turns(
        {
            "python": lambda: clock(lambda: python("pass")),
            "import widemargin": lambda: clock(lambda: python("import widemargin")),
        },
        9,
    )
    extra = seconds["import widemargin"] - seconds["python"]
    print(f"import widemargin       {spread(extra)} ms  {verdict(sorted(extra)[4], 0.15)}")
    names = ("LinearSVC", "SVC", "BudgetedSVC")
    for name in names:
        python(FIRST_FIT.format(name=name))  # fills the cache
    fits = turns({name: lambda name=name: float(python(FIRST_FIT.format(name=name))) for name in names}, 5)
    for name, found in fits.items():
        print(f"first fit, {name:12} {spread(found)} ms  {verdict(sorted(found)[2], 1.0)}")


if __name__ == "__main__":
    main()
