"""How long a user waits before the first result: importing the package, and the first fit of a second process.

    python -m benchmarks.micro.startup          import, and first fits of a second process
    python -m benchmarks.micro.startup cold     first fits with nothing on disk, and with everything: processor seconds

Beyond Python itself and the libraries it needs; processes take turns, so that a busy moment hits all alike.
"""

import os
import subprocess
import sys
import tempfile

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


FIRST_OF_KIND = """
import time
import numpy, scipy.sparse, numba, sklearn.linear_model
import widemargin
from widemargin import *
rng = numpy.random.default_rng(0)
X = rng.normal(size=(200, 5)).astype("{dtype}")
y = X[:, 0] + 0.3 * rng.normal(size=200)
model = {model}
y = y if type(model).__name__.endswith("R") else y > 0
X = scipy.sparse.csr_matrix(X) if {sparse} else X
since = time.process_time()
model.fit(X, y)
print(time.process_time() - since)
"""

#: What is fitted first, with the most that it may take: cold, in processor seconds; then the same for other data.
KINDS = (
    ("LinearSVC()", "float32", False, 4.0),
    ("LinearSVC(solver='pegasos')", "float32", False, None),
    ("SVC()", "float32", False, 9.0),
    ("SVC(solver='sbp')", "float32", False, None),
    ("BudgetedSVC()", "float32", False, 9.0),
    ("IncrementalSVC()", "float32", False, 15.0),
    ("LinearSVC()", "float32", True, 4.0),
    ("LinearSVC()", "float64", True, 4.0),
    ("SVC()", "float64", True, 9.0),
    ("BudgetedSVC()", "float64", True, 9.0),
    ("LinearSVR()", "float64", False, 4.0),
    ("SVR()", "float64", False, 9.0),
    ("BudgetedSVR()", "float64", False, 9.0),
)


def python(script, **environment):
    """What a script prints in a process of its own."""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def cold():
    """First fits of each kind, with a cache of their own."""
    print(f"{'model':28} {'data':16} {'cold':>6} {'asked':>6} {'warm':>6}   processor seconds beyond imports")
    for model, dtype, sparse, most in KINDS:
        script = FIRST_OF_KIND.format(model=model, dtype=dtype, sparse=sparse)
        with tempfile.TemporaryDirectory() as folder:
            first, again = (float(python(script, NUMBA_CACHE_DIR=folder)) for _ in range(2))
        asked = "" if most is None else f"{most:.0f}"
        print(
            f"{model:28} {'sparse ' if sparse else 'dense '}{dtype:9} {first:6.1f} {asked:>6} {again:6.2f}", flush=True
        )


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
    cold() if sys.argv[1:] == ["cold"] else main()
