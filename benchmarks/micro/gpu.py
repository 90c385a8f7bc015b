"""Kernel machines on a GPU: where the time of a fit goes, from a tensor and from an array, and what prediction costs.

``python -m benchmarks.micro.gpu [rows of the prediction]``, with a GPU and ``widemargin[gpu]``. The data is generated:
60,000 × 784 float32 in [0, 1], some of it zero, as mnist's. Seconds, the median of some repetitions after one that
compiles.
"""

import statistics
import sys
import time

import numpy as np
import torch

from widemargin import SVC, backends
from widemargin.backends import scoring, tensors
from widemargin.backends.blocks import exactly
from widemargin.backends.rows import DeviceRows
from widemargin.backends.scoring import scores
from widemargin.core.rows.rows import DenseRows

REPEAT = 5


def seconds(work):
    """Median seconds of some calls, with all that they left to the device."""
    taken = []
    for _ in range(REPEAT + 1):
        torch.cuda.synchronize()
        since = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - since)
    return statistics.median(taken[1:])


def images(n, d=784, seed=0):
    """Rows like those of mnist, and labels that are not linear in them."""
    rng = np.random.default_rng(seed)
    centres = rng.random((20, d), np.float32) * (rng.random((20, d)) < 0.25)
    which = rng.integers(20, size=n)
    X = centres[which] + 0.15 * rng.standard_normal((n, d), np.float32)
    np.clip(X, 0.0, 1.0, out=X)
    X[X < 0.1] = 0.0
    return X, which < 6


def fits(n=60_000):
    """Print what a fit is made of."""
    X, y = images(n)
    there = torch.tensor(X, device=backends.GPU)
    model = SVC(gamma=0.02, device="cuda", cache_size=8000)
    model._check_parameters()
    given = DeviceRows.of_host(X, backends.GPU)

    def checked():
        model._check_data(tensors.taken(there), y)

    def prepared(gamma):
        model.set_params(gamma=gamma)._prepare(tensors.taken(there))
        model.set_params(gamma=0.02)

    print(f"data: {n:,} × 784 float32, {given.values.element_size() * given.values.numel() / 1e6:.0f} MB")
    print(f"copy to the device:           {seconds(lambda: DeviceRows.of_host(X, backends.GPU)):.4f}")
    print(f"copy by torch, for comparison {seconds(lambda: torch.from_numpy(X).to(backends.GPU)):.4f}")
    print(f"checks of X and y:            {seconds(checked):.4f}")
    print(f"preparation, γ = 0.02:        {seconds(lambda: prepared(0.02)):.4f}")
    print(f"preparation, γ = 'scale':     {seconds(lambda: prepared('scale')):.4f}")
    for name, data in (("tensor", there), ("array", X)):
        whole = seconds(lambda: model.fit(data, y))
        print(f"fit to the {name}: {whole:.4f}, of which rounds {model.history_.last('seconds'):.4f}")
    print(f"{model.support_.size:,} vectors, {model.certificate_}, score {model.score(there[:10_000], y[:10_000]):.4f}")


def predictions(n, vectors=4_000, d=784):
    """Print what scores of many rows cost beside the product with the vectors."""
    Z, y = images(vectors, d)
    model = SVC(gamma=0.02).fit(Z[:200], y[:200])
    rng = np.random.default_rng(0)
    own = model._model
    own.vectors, own.support, own.coef = DenseRows(Z), np.arange(vectors), rng.normal(size=(1, vectors))
    X, _ = images(n, d, 1)
    there, right = torch.tensor(X, device=backends.GPU), torch.tensor(Z, device=backends.GPU).T
    height = 4096

    def product():
        with exactly():
            for first in range(0, n, height):
                there[first : first + height] @ right

    alone = seconds(product)
    tera = 2e-12 * n * d * vectors
    print(f"\n{n:,} × {d} rows, {vectors:,} vectors: the product alone {alone:.4f} ({tera / alone:.0f} Tflop/s)")
    preparation = model._preparation
    rows = tensors.taken(there)
    for name, work in (
        ("scores of a tensor", lambda: scores(own, rows, preparation, backends.GPU)),
        ("decision_function of a tensor", lambda: model.decision_function(there)),
        ("decision_function of an array", lambda: model.set_params(device="cuda").decision_function(X)),
    ):
        taken = seconds(work)
        print(f"{name}: {taken:.4f}, {taken / alone:.2f} of the product")
    for power in range(20, 27):
        scoring.VALUES = 2**power
        taken = seconds(lambda: scores(own, rows, preparation, backends.GPU))
        print(f"scores of a tensor by blocks of 2^{power} values: {taken / alone:.2f} of the product")


if __name__ == "__main__":
    fits()
    predictions(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6)
