"""Model files of several formats: :func:`load` reads all of them, :func:`export` writes all of them.

>>> import os, tempfile
>>> import numpy as np
>>> from widemargin import LinearSVC, export, load
>>> model = LinearSVC().fit(np.array([[0.0], [1.0]]), [-1, 1])
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "model.liblinear")
...     export(model, path)
...     print(load(path).predict([[2.0]]))
[1]

Each format is one module here, which writes and reads a :class:`.machine.Machine`, the function that a fitted estimator
computes, and refuses with a sentence what the format cannot represent.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import files
from ..arguments import one_of
from ..estimators.fit.fitting import TrainedByRun
from .text import format_of

#: Formats that can be written, and the suffix of each.
FORMATS = {"npz": ".npz", "libsvm": ".libsvm", "liblinear": ".liblinear", "onnx": ".onnx"}
OF_SUFFIX = {suffix: name for name, suffix in FORMATS.items()}


def export(model: Any, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a fitted estimator to a file of this library or of another program.

    Parameters
    ----------
    model : fitted estimator
        The estimator to write.
    path : str or path
        The name of the file. The old file stays until the new one is complete.
    format : {"npz", "libsvm", "liblinear", "onnx"} or None, default=None
        "npz" is this library's own, as ``model.save(path)`` writes it, and the only one from which
        training can continue. "libsvm" and "liblinear" are the text of those programs. "onnx" is a
        graph with the input ``X`` and the outputs ``label`` and ``scores``; a regressor has only
        ``scores``. None takes the format of the suffix.

    Raises
    ------
    ValueError
        If the model does not fit the format; the message says why.

    See Also
    --------
    load : Reading what was written.

    Examples
    --------
    >>> import os, tempfile
    >>> from widemargin import LinearSVC, export, load
    >>> model = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.liblinear")
    ...     export(model, path)
    ...     load(path).predict([[3.0]]).tolist()
    [1]
    """
    if format is None:
        format = OF_SUFFIX.get(Path(path).suffix.lower())
        if format is None:
            raise ValueError(
                f"the name {os.fspath(path)!r} does not say which format: end it in {', '.join(FORMATS.values())}, or "
                f"give format={' or '.join(map(repr, FORMATS))}"
            )
    one_of("format", format, FORMATS)
    if not isinstance(model, TrainedByRun):
        raise TypeError(f"export takes a fitted estimator of widemargin, got {model!r:.100}")
    if format == "npz":
        model.save(path)
    else:
        import_module(f"{__name__}.{format}").write(model, path)


def load(path: str | os.PathLike[str], cls: type = object, *, n_features: int | None = None) -> Any:
    """Read a file: an estimator, a model, a solver's state or any other saved object.

    Model text of LIBSVM and LIBLINEAR is recognised and becomes an estimator that predicts.

    Parameters
    ----------
    path : str or path
        The name of the file.
    cls : type, default=object
        The class that the object must have.
    n_features : int or None, default=None
        The number of features of LIBSVM's text, which does not contain it. None takes the largest index.

    Returns
    -------
    object
        What was saved.

    Raises
    ------
    ValueError
        If the file is damaged, or holds an object of another class.

    See Also
    --------
    export : Writing models.

    Examples
    --------
    >>> import os, tempfile
    >>> import widemargin
    >>> model = widemargin.LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     model.save(path)
    ...     type(widemargin.load(path)).__name__
    'LinearSVC'
    """
    format = format_of(path)
    if format is None:
        return files.load(path, cls)
    found = import_module(f"{__name__}.{format}").read(path, n_features)
    if not isinstance(found, cls):
        raise ValueError(
            f"{os.fspath(path)} holds no {cls.__name__} but a {type(found).__name__}: load it as what it is"
        )
    return found
