"""Kernel machines on a GPU by torch and Triton. Only this package imports them, and only if a device is asked for.

    tensors.py   tensors that users give and get back
    rows.py      data on a device: checked, measured and prepared there
    sending.py   arrays on their way to a device
    blocks.py    kernel values on a device, blocks of kernel rows, and their cache
    scoring.py   scores of models
    programs.py  Triton programs: pairs and single variables of a working set, rows added to responses
    smo.py       the exact dual solver behind the protocol of :mod:`widemargin.solvers.protocol`
    sbp.py       the Stochastic Batch Perceptron with its kernel rows on a device

Results are NumPy arrays: a machine trained on a GPU is the same as one trained on the CPU, also in files.
"""

from __future__ import annotations

import re
from typing import Any

from ..arguments import one_of

#: Values of the parameter ``device``. "auto" is the GPU if there is one.
DEVICES = ("cpu", "cuda", "auto")
#: The name of the GPU in torch.
GPU = "cuda"


def check(device: Any) -> None:
    """Refuse a wrong ``device``. One of several GPUs is chosen by CUDA_VISIBLE_DEVICES."""
    number = re.fullmatch(r"cuda:(\d+)", str(device))
    if number:
        raise ValueError(
            f"device must be one of {', '.join(map(repr, DEVICES))}, got {device!r}: use 'cuda', and set "
            f"CUDA_VISIBLE_DEVICES={number[1]} before the program starts"
        )
    one_of("device", device, DEVICES)


def lacking() -> str:
    """The reason why this process cannot train on a GPU, with the remedy; "" if it can."""
    try:
        import torch
        import triton  # noqa: F401
    except ModuleNotFoundError as missing:
        return f"torch and Triton, and {missing.name} is not installed: pip install 'widemargin[gpu]'"
    except (ImportError, OSError) as broken:  # for example, a library of CUDA is missing
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
    """The device to use, "cpu" or "cuda". Refuses "cuda" if there is no GPU."""
    if device == "cpu":
        return device
    lacks = lacking()
    if lacks and device == "cuda":
        raise ValueError(f"device='cuda' needs {lacks}; or use device='cpu', or 'auto' for a GPU where there is one")
    return "cpu" if lacks else "cuda"


def memory() -> float:
    """Free bytes of the GPU's memory, including those that torch has reserved and does not use."""
    import torch

    if not torch.cuda.is_available():
        return 2.0**30  # tests without a GPU use the host's memory
    return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
