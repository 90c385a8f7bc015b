"""Kernel machines on a GPU: the same optimum as on the CPU, on twelve data sets; and how long it takes.

``python -m benchmarks.peers.gpu pack FOLDER`` writes the data sets of ``$WIDEMARGIN_DATA`` to small files, which can be
carried to a machine with a GPU; there ``python -m benchmarks.peers.gpu parity|speed|large|first FOLDER``. Seconds,
since a GPU is quiet: the median of three fits after one that compiles, from float32 tensors on the GPU and from
NumPy arrays; of the largest sets one fit, after one that compiles for covtype.
"""

import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

#: Data sets with a test set of their own, and those that are cut at random.
SPLIT = ("mnist", "a9a", "usps", "letter", "shuttle", "satimage", "pendigits", "dna")
WHOLE = ("covtype", "ijcnn1", "phoneme", "banana", "cadata", "cpusmall")
#: Kernel, γ, C, and rows at most: what the parity of each set is looked at with.
PARITY = {
    "mnist": ("rbf", 0.02, 10.0, 4000), "a9a": ("rbf", 0.05, 1.0, 6000), "usps": ("poly", 0.01, 1.0, 4000),
    "letter": ("rbf", 4.0, 10.0, 3000), "shuttle": ("rbf", 2.0, 100.0, 5000), "satimage": ("laplacian", 0.3, 5.0, 4435),
    "pendigits": ("rbf", 1.0, 5.0, 4000), "dna": ("linear", 0.0, 0.1, 2000), "covtype": ("rbf", 2.0, 3.0, 6000),
    "ijcnn1": ("rbf", 1.0, 10.0, 6000), "phoneme": ("rbf", 4.0, 10.0, 5404), "banana": ("sigmoid", 0.01, 1.0, 5300),
    "cadata": ("rbf", 1.0, 5.0, 4000), "cpusmall": ("rbf", 0.5, 10.0, 4000),
}  # fmt: skip
REGRESSION = ("cadata", "cpusmall")


GPU = {"device": "cuda"}


def pack(folder):
    """Write the data sets to small files, dense, in [0, 1]."""
    from benchmarks.datasets import load, split

    for name in PARITY:
        X, y = load(name)
        Z = t = None
        if name in SPLIT:
            Z, t = load(f"{name}.t", n_features=X.shape[1])
        else:
            X, y, Z, t = split(X, y, 0.2)
        X, Z = (np.asarray(A.todense() if hasattr(A, "todense") else A, np.float32) for A in (X, Z))
        low, high = X.min(axis=0), X.max(axis=0)
        whole = np.abs(X - np.rint(X)).max() == 0.0  # integers are packed as such
        kind = np.int16 if whole and np.abs(X).max() < 2**15 else np.float32
        np.savez_compressed(folder / f"{name}.npz", X=X.astype(kind), Z=Z.astype(kind), y=y, t=t, low=low, high=high)
        print(f"{name}: {X.shape}, {Z.shape}, {(folder / f'{name}.npz').stat().st_size / 1e6:.1f} MB", flush=True)


def read(folder, name, scaled=True):
    """(X, y, Z, t) of a packed set, columns divided by their range."""
    packed = np.load(folder / f"{name}.npz")
    X, Z = packed["X"].astype(np.float32), packed["Z"].astype(np.float32)
    if scaled:
        shift = packed["low"]
        width = np.maximum(packed["high"] - shift, 1e-9) if name != "mnist" else np.float32(255.0)
        X, Z = (X - shift * (name != "mnist")) / width, (Z - shift * (name != "mnist")) / width
    return np.ascontiguousarray(X, np.float32), packed["y"], np.ascontiguousarray(Z, np.float32), packed["t"]


def parity(folder):
    """Objective, predictions and support vectors beside those of the CPU."""
    from widemargin import SVC, SVR

    print("| set | kernel | n | P on the GPU / on the CPU − 1 | predictions that differ | largest |score| among them |")
    print("|---|---|---|---|---|---|")
    for name, (kernel, gamma, C, most) in PARITY.items():
        X, y, Z, _ = read(folder, name)
        chosen = np.random.default_rng(0).permutation(len(y))[:most]
        X, y = X[chosen], y[chosen]
        kind = SVR if name in REGRESSION else SVC
        y = (y - y.mean()) / y.std() if kind is SVR else y
        given = {"kernel": kernel, "C": C, "gamma": gamma or "scale", "tol": 1e-4}
        weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, two = kind(**given, **GPU).fit(X, y, weights), kind(**given).fit(X, y, weights)
        objectives = [sum(c.primal for c in each) if isinstance(each, list) else each.primal
                      for each in (listed(one.certificate_), listed(two.certificate_))]  # fmt: skip
        if kind is SVR:
            apart = np.abs(one.predict(Z) - two.predict(Z))
            told = f"by {apart.max():.1e} at most | |"
        else:
            differ = one.predict(Z) != two.predict(Z)
            scores = two.set_params(decision_function_shape="ovo").decision_function(Z)
            nearest = np.abs(scores.reshape(len(Z), -1)).min(axis=1)
            told = f"{differ.sum()} of {len(Z)} | {nearest[differ].max(initial=0.0):.1e} |"
        print(f"| {name} | {kernel} | {len(y)} | {objectives[0] / objectives[1] - 1:+.1e} | {told}", flush=True)


def listed(certificates):
    """Certificates of all problems as a list."""
    if certificates is None:
        return []
    return [certificates] if hasattr(certificates, "gap") else list(certificates)


def seconds(work, repeat=3):
    """(median seconds of some calls after one, what the last returned)."""
    import torch

    taken = []
    for _ in range(repeat + 1):
        torch.cuda.synchronize()
        since = time.perf_counter()
        made = work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - since)
    return sorted(taken[1:])[repeat // 2] if repeat else taken[0], made


def shown(label, asked, work, repeat=3):
    """Print a line of the table."""
    spent, model = seconds(work, repeat)
    gap = max(c.relative_gap for c in listed(model.certificate_))
    last = model.history_.rows[-1]
    done = f"{last['seconds']:.3f} | {last['steps']} | {model.support_.size:,} | {gap:.1e}"
    print(f"| {label} | {asked} | {spent:.3f} | {done} |", flush=True)
    return model


def speed(folder):
    """The table of the documentation."""
    import torch

    from widemargin import SVC, svm_grid

    there = lambda A: torch.tensor(A, device="cuda")  # noqa: E731
    print("| data | asked | fit | rounds | number | vectors | gap |\n|---|---|---|---|---|---|---|")
    X, y, Z, t = read(folder, "mnist")
    eight, T = (y == 8).astype(int), there(X)
    model = shown("mnist, 8 against the rest, tensor", 0.08, lambda: SVC(gamma=0.02, **GPU).fit(T, eight))
    print(f"test error {100 * np.mean(model.predict(Z) != (t == 8)):.2f} %")
    shown("the same, NumPy array", "0.08 + copy", lambda: SVC(gamma=0.02, **GPU).fit(X, eight))
    shown("the same, C = 10", "", lambda: SVC(gamma=0.02, C=10.0, **GPU).fit(T, eight))
    shown("the same, cache_size=200", "", lambda: SVC(gamma=0.02, cache_size=200, **GPU).fit(T, eight))
    digits = shown(
        "mnist, ten classes, C = 10, tensor", 0.6, lambda: SVC(gamma=0.02, C=10.0, **GPU).fit(T, y.astype(int))
    )
    print(f"test error {100 * np.mean(digits.predict(Z) != t):.2f} %")
    shown("the same, NumPy array", "", lambda: SVC(gamma=0.02, C=10.0, **GPU).fit(X, y.astype(int)))
    shown(
        "the same, against the rest",
        "",
        lambda: SVC(gamma=0.02, C=10.0, multi_class="ovr", **GPU).fit(T, y.astype(int)),
    )
    A, b, _, _ = read(folder, "a9a")
    S = there(A)
    shown("a9a, γ = .05, tensor", 0.12, lambda: SVC(gamma=0.05, **GPU).fit(S, b))
    shown("the same, NumPy array", "", lambda: SVC(gamma=0.05, **GPU).fit(A, b))
    for label, labels, Cs, folds in (
        ("8 against the rest", eight, [0.1, 0.3, 1, 3, 10, 30, 100, 300], 5),
        ("ten classes in pairs", y.astype(int), [1, 10, 100], 3),
    ):
        spent, grid = seconds(lambda: svm_grid(T, labels, Cs, gammas=[0.02], cv=folds, **GPU), 0)
        found = f"best {grid.best_params}, {grid.best_score:.4f}"
        print(f"{len(Cs)} values of C, {folds} folds, mnist {label}: {spent:.2f} s, {found}", flush=True)


def large(folder):
    """covtype, and five million generated rows."""
    import torch

    from widemargin import SVC

    X, y, Z, t = read(folder, "covtype")
    T, two = torch.tensor(X, device="cuda"), (y == 2).astype(int)
    for tol, asked in ((1e-2, 12), (1e-3, "")):
        machine = SVC(gamma=2.0, C=3.0, tol=tol, **GPU)
        shown(f"covtype, {len(y):,} rows, to {tol:g}", asked, partial(machine.fit, T, two), 1)
        print(f"test error {100 * np.mean(machine.predict(Z) != (t == 2)):.2f} %, {machine.stop_reason_}")
    del T, machine
    torch.cuda.empty_cache()
    rng = torch.Generator("cuda").manual_seed(0)
    n, d = 5_000_000, 100
    centres = 2.0 * torch.randn((64, d), generator=rng, device="cuda")
    group = torch.randint(64, (n,), generator=rng, device="cuda")
    X = torch.randn((n, d), generator=rng, device="cuda").add_(centres[group])
    noise = torch.rand(n, generator=rng, device="cuda") < 0.005
    y = ((group < 32) ^ noise).int().cpu().numpy()
    torch.cuda.reset_peak_memory_stats()
    machine = SVC(gamma=0.002, C=1.0, tol=1e-2, **GPU)
    shown(f"64 groups, {n:,} × {d}, 0.5 % of labels wrong, γ = .002, to 1e-2", "", partial(machine.fit, X, y), 0)
    last, peak = machine.history_.rows[-1], torch.cuda.max_memory_allocated() / 2**30
    rate = 2.0 * d * last["kernel_computed"] / last["seconds"] / 1e12
    print(f"{machine.stop_reason_}, peak {peak:.1f} GB, {last['kernel_computed'] / n:.0f} rows, {rate:.1f} Tflop/s")
    print(
        f"error on a million rows {100 * np.mean(machine.predict(X[:1_000_000]).cpu().numpy() != y[:1_000_000]):.2f} %"
    )


def first(folder):
    """The first fit of a process, with an empty and with a full cache of compiled programs."""
    script = (
        "import time, torch, sys, numpy as np; torch.zeros(1, device='cuda'); from benchmarks.peers.gpu import *; "
        "from widemargin import SVC; X, y, _, _ = read(Path(sys.argv[1]), 'a9a'); s = time.perf_counter(); "
        "SVC(gamma=0.05, device='cuda').fit(X, y); print(f'{time.perf_counter() - s:.2f} s for the first fit')"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script, str(folder)], check=True)


if __name__ == "__main__":
    {"pack": pack, "parity": parity, "speed": speed, "large": large, "first": first}[sys.argv[1]](Path(sys.argv[2]))
