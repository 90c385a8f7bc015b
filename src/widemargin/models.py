"""Models: what training leaves, able to predict, be saved and be loaded."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Version of the file format; files of a newer one are refused.
FORMAT = 1


@dataclass
class LinearModel:
    """Scores XWᵀ + b for ``coef`` of shape (n_outputs, n_features) and ``intercept`` of shape (n_outputs,).

    >>> model = LinearModel(np.array([[1.0, -1.0]]), np.array([0.5]))
    >>> model.decision_function(np.array([[2.0, 1.0]]))
    array([[1.5]])
    """

    coef: np.ndarray
    intercept: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n, n_outputs)."""
        return np.asarray(X @ self.coef.T) + self.intercept

    def save(self, path: str | os.PathLike[str], **header: Any) -> None:
        """Write a ``.npz`` file with a JSON header; the old file stays until the new one is whole."""
        write_npz(path, {"kind": "LinearModel", **header}, coef=self.coef, intercept=self.intercept)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearModel:
        """Read a file written by :meth:`save`."""
        header, arrays = read_npz(path)
        if header.get("kind") != "LinearModel":
            raise ValueError(f"{os.fspath(path)} holds a {header.get('kind')}, not a LinearModel")
        return cls(arrays["coef"], arrays["intercept"])


def write_npz(path: str | os.PathLike[str], header: dict[str, Any], **arrays: np.ndarray) -> None:
    """Write arrays and a JSON header to ``path`` at once: a crash or a full disk leaves the old file as it was."""
    path = Path(path)
    text = json.dumps({"widemargin": FORMAT, **header})
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as part:
        try:
            np.savez(part, header=np.array(text), **arrays)  # type: ignore[arg-type]
            part.flush()
            os.fsync(part.fileno())
            os.replace(part.name, path)
        except BaseException:
            os.unlink(part.name)
            raise


def read_npz(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file written by :func:`write_npz`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            arrays = {name: file[name] for name in file.files if name != "header"}
    except (ValueError, KeyError, OSError, EOFError) as bad:
        if isinstance(bad, FileNotFoundError):
            raise
        raise ValueError(f"{os.fspath(path)} is not a widemargin file: {bad}") from bad
    if header.get("widemargin", 0) > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has format {header['widemargin']} and this version reads up to {FORMAT}: upgrade it"
        )
    return header, arrays
