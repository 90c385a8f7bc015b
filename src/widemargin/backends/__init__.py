"""Kernel machines on a GPU, by torch and Triton: the only modules that import them, where a device is
asked for.

    tensors.py   tensors that users give, and those that they get back
    rows.py      data on a device: checked, measured and prepared there
    blocks.py    kernel values on a device, blocks of kernel rows, the cache of them
    scoring.py   scores of models
    programs.py  Triton programs: pairs and single variables of a working set, rows added to responses
    smo.py       the exact dual solver behind the protocol of :mod:`widemargin.solvers.protocol`
    sbp.py       the Stochastic Batch Perceptron with its kernel rows on a device

What comes back is NumPy's: a machine that was trained on a GPU is the same as one of the CPU, in files too.
"""

from __future__ import annotations

import re
from typing import Any

from ..arguments import one_of

#: Where users ask a machine to be trained; "auto" is a GPU if there is one.
DEVICES = ("cpu", "cuda", "auto")
#: torch's name of the GPU.
GPU = "cuda"


def check(device: Any) -> None:
    """Refuse what is no device; of several GPUs the process is told which it sees."""
    number = re.fullmatch(r"cuda:(\d+)", str(device))
    if number:
        raise ValueError(
            f"device must be one of {', '.join(map(repr, DEVICES))}, got {device!r}: use 'cuda', and set "
            f"CUDA_VISIBLE_DEVICES={number[1]} before the program starts"
        )
    one_of("device", device, DEVICES)


def lacking() -> str:
    """What keeps this process from training on a GPU, with the remedy; "" if nothing does."""
    try:
        import torch
        import triton  # noqa: F401
    except ModuleNotFoundError as missing:
        return f"torch and Triton, and {missing.name} is not installed: pip install 'widemargin[gpu]'"
    except (ImportError, OSError) as broken:  # such as a library of CUDA that is not there
        return (
            f"torch and Triton, and importing them fails ({broken}): install them anew, pip install 'widemargin[gpu]'"
        )
    if not torch.cuda.is_available():
        return (
            f"a GPU, and torch {torch.__version__} finds none: check the driver with nvidia-smi, and that this torch "
            "was built for CUDA"
        )
    return ""


def resolved(device: str) -> str:
    """ "cpu" or "cuda" for what users ask for; refuses "cuda" where there is none, and "auto" takes what there is."""
    if device == "cpu":
        return device
    lacks = lacking()
    if lacks and device == "cuda":
        raise ValueError(f"device='cuda' needs {lacks}; or use device='cpu', or 'auto' for a GPU where there is one")
    return "cpu" if lacks else "cuda"


def memory() -> float:
    """Bytes of the GPU's memory that are free, those that torch holds and does not use among them."""
    import torch

    if not torch.cuda.is_available():
        return 2.0**30  # the host's memory stands in for that of a GPU in tests
    return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
