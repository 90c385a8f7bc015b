"""Tensors of users: those of torch, and arrays of any library that supports DLPack, without copies.

A tensor on the host becomes a NumPy array over the same memory, a tensor on a GPU :class:`.rows.DeviceRows` over it.
Predictions are tensors of the same kind on the same device. torch is imported only for tensors of torch, which the user
has imported, and for tensors on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from .. import backends
from ..core.threads.interrupts import heeded

#: The number of the host's memory in DLPack.
HOST = 1


def is_tensor(X: Any) -> bool:
    """Whether X is an array of a library other than NumPy that supports DLPack."""
    return hasattr(X, "__dlpack__") and hasattr(X, "shape") and not isinstance(X, (np.ndarray, np.generic))


def taken(X: Any) -> Any:
    """Examples for the estimators: a tensor becomes an array over the same memory, or rows on its device."""
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
    """A tensor of targets or weights as an array on the host; other arguments as they are."""
    if not is_tensor(y):
        return y
    tensor = _of_torch(y)
    return _array(y) if tensor is None else _numpy(tensor.cpu(), name)


def returned(found: np.ndarray, X: Any) -> Any:
    """An array as a tensor of the kind of X on its device, or as it is if that library has no such dtype."""
    tensor = _of_torch(X)
    try:
        if tensor is None:
            return _library(X).from_dlpack(found)
        import torch

        sent = torch.from_numpy(found).to(tensor.device)
        return sent if isinstance(X, torch.Tensor) else _library(X).from_dlpack(sent)
    except (TypeError, BufferError):  # for example, strings
        return found


def as_given(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of an estimator return tensors for tensors X, and react to Ctrl-C at safe places."""

    @wraps(method)
    @heeded()
    def call(self: Any, X: Any) -> Any:
        return returned(method(self, taken(X)), X) if is_tensor(X) else method(self, X)

    return call


def _of_torch(X: Any) -> Any:
    """A tensor of torch over the memory of X, without gradients; None if X is another library's, on the host."""
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
    """An array over the memory of a tensor on the host."""
    import torch

    if tensor.device.type != "cpu":
        raise TypeError(
            f"{name} stands on {tensor.device}, neither on the host nor on a GPU of CUDA: give {name}.cpu()"
        )
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def _array(X: Any) -> np.ndarray:
    """A NumPy array over the memory of another library's array on the host."""
    return np.asarray(X) if hasattr(X, "__array__") else np.from_dlpack(X)


def _library(X: Any) -> Any:
    """The library of the array X."""
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__()
    library = import_module(type(X).__module__.partition(".")[0])
    return library if hasattr(library, "from_dlpack") else np
