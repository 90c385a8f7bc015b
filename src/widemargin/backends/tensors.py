"""Tensors of users: torch's, and arrays of any library that speaks DLPack, taken where they stand.

On the host they are NumPy arrays over the same memory, on a GPU :class:`.rows.DeviceRows` over it. What is computed of
them comes back as they were given. torch is imported only where a tensor stands on a GPU, or is torch's, so that the
user has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from .. import backends
from ..core.interrupts import heeded

#: DLPack's number of the host's memory.
HOST = 1


def is_tensor(X: Any) -> bool:
    """Whether X is an array of another library than NumPy that speaks DLPack."""
    return hasattr(X, "__dlpack__") and hasattr(X, "shape") and not isinstance(X, (np.ndarray, np.generic))


def taken(X: Any) -> Any:
    """Examples as the estimators take them: a tensor as an array of the same memory, or as rows on their device."""
    if not is_tensor(X):
        return X
    tensor = _of_torch(X)
    if tensor is None:
        return _array(X)
    if tensor.device.type != backends.GPU:
        return _numpy(tensor, "X")
    import torch

    from .rows import DeviceRows

    if tensor.dtype.is_complex:
        raise ValueError(f"X must hold real numbers, got a tensor of {tensor.dtype}: give X.real or X.abs()")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32 if tensor.dtype.is_floating_point else torch.float64)
    return DeviceRows(tensor.to(backends.GPU)) if tensor.ndim == 2 else _numpy(tensor.cpu(), "X")


def hosted(y: Any, name: str = "y") -> Any:
    """A tensor of targets or weights as an array of the host; anything else as it is."""
    if not is_tensor(y):
        return y
    tensor = _of_torch(y)
    return _array(y) if tensor is None else _numpy(tensor.cpu(), name)


def returned(found: np.ndarray, X: Any) -> Any:
    """An array as a tensor of the kind of X, where X stands; itself where that library has no such type."""
    tensor = _of_torch(X)
    try:
        if tensor is None:
            return _library(X).from_dlpack(found)
        import torch

        sent = torch.from_numpy(found).to(tensor.device)
        return sent if isinstance(X, torch.Tensor) else _library(X).from_dlpack(sent)
    except (TypeError, BufferError):  # such as strings
        return found


def as_given(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an estimator that answers tensors X with tensors, and hears of Ctrl-C at safe places."""

    @wraps(method)
    @heeded()
    def call(self: Any, X: Any) -> Any:
        return returned(method(self, taken(X)), X) if is_tensor(X) else method(self, X)

    return call


def _of_torch(X: Any) -> Any:
    """A tensor of torch over the same memory, without gradients; None for arrays of other libraries on the host."""
    known = sys.modules.get("torch")
    if known is not None and isinstance(X, known.Tensor):
        if X.layout != known.strided:
            raise TypeError(
                "sparse tensors are not taken: give X.to_dense(), or a matrix of scipy.sparse, that of a CSR tensor on "
                "the host being csr_matrix((X.values(), X.col_indices(), X.crow_indices()), X.shape)"
            )
        return X.detach()
    if int(X.__dlpack_device__()[0]) == HOST:
        return None
    import torch

    return torch.from_dlpack(X)


def _numpy(tensor: Any, name: str) -> np.ndarray:
    """The memory of a tensor on the host as an array."""
    import torch

    if tensor.device.type != "cpu":
        raise TypeError(
            f"{name} stands on {tensor.device}, neither on the host nor on a GPU of CUDA: give {name}.cpu()"
        )
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def _array(X: Any) -> np.ndarray:
    """The memory of an array of another library on the host."""
    return np.asarray(X) if hasattr(X, "__array__") else np.from_dlpack(X)


def _library(X: Any) -> Any:
    """The module that makes arrays of the kind of X."""
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__()
    library = import_module(type(X).__module__.partition(".")[0])
    return library if hasattr(library, "from_dlpack") else np
