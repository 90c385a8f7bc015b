"""Reading and writing LIBSVM text beside scikit-learn, in one run.

``python -m benchmarks.peers.files [names …]``. Plain text in a temporary folder, which the machine has in its cache by
then; medians of five. Results are compared. One thread by processor time, two by the clock. "Memory" is the peak of a
fresh process that loads the file, above its state before, over the arrays it ends with.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from benchmarks import datasets
from widemargin.data import open_data, write_data

NAMES = "a9a", "mnist", "covtype", "news20-bigram"

PEAK = """
import sys
from widemargin.data import open_data

def held(name):
    return 1024 * int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1])

path, small, n_jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
open_data(small, n_jobs=n_jobs).load()
before = held("VmRSS")
X, y = open_data(path, n_jobs=n_jobs).load()
print((held("VmHWM") - before) / (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes))
"""


def peak(path, small, n_jobs):
    command = [sys.executable, "-c", PEAK, str(path), str(small), str(n_jobs)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def median(call, clock, runs=5):
    took = []
    for _ in range(runs):
        since = clock()
        call()
        took.append(clock() - since)
    return float(np.median(took))


def main(names):
    print("| data | MB | MB/s, one thread | than scikit-learn | two threads (clock) | memory / arrays | writing |")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small"
        small.write_text("1 1:1\n")
        for name in names:
            path = Path(folder) / name
            X, y = open_data(datasets.DATA / f"{name}.bz2").load()
            write_data(path, X, y)
            A, b = load_svmlight_file(str(path), n_features=X.shape[1])
            assert (A != X).nnz == 0
            np.testing.assert_array_equal(b, y)
            size = path.stat().st_size / 2**20
            ours = median(lambda: open_data(path).load(), time.process_time)
            rival = median(lambda: load_svmlight_file(str(path)), time.process_time, 3)
            one, two = (median(lambda n=n: open_data(path, n_jobs=n).load(), time.perf_counter) for n in (1, 2))
            peaks = [peak(path, small, n) for n in (1, 2)]
            other = Path(folder) / "written"
            write = median(lambda: write_data(other, X, y), time.process_time, 3)
            rival_write = median(lambda: dump_svmlight_file(X, y, str(other), zero_based=False), time.process_time, 1)
            print(
                f"| {name} | {size:.0f} | {size / ours:.0f} | {rival / ours:.1f} times faster | {one / two:.2f} | "
                f"{peaks[0]:.2f}, {peaks[1]:.2f} | {rival_write / write:.1f} times faster |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
