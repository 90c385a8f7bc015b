"""Estimators in files: parameters and all that was learnt, so that one that was loaded predicts and goes on alike."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..files import Saved

#: Parameters and attributes that are functions of a program: they stay out of files.
LEFT_OUT = {
    "callbacks": "callbacks",
    "_skl_callbacks": "the callbacks of set_callbacks",
    "_metadata_request": "metadata requests",
}


class SavedEstimator(Saved):
    """``save`` and ``load`` of every estimator, through :mod:`widemargin.files`."""

    def save(self, path: str | os.PathLike[str], **header: Any) -> None:
        """Write parameters and all that was learnt to a ``.npz`` file; :meth:`load` predicts and goes on from it.

        Callbacks are left out, with a warning. ``header`` are further entries of the file's JSON header.
        """
        check_is_fitted(self)
        for name, value in self.get_params(deep=False).items():  # type: ignore[attr-defined]
            if callable(value) and name != "callbacks":
                raise TypeError(
                    f"{type(self).__name__} with {name}={value!r} cannot be saved: a file holds no functions; pickle "
                    f"it, or set {name} to a name"
                )
        left = [said for name, said in LEFT_OUT.items() if vars(self).get(name)]
        if left:
            warnings.warn(
                f"{type(self).__name__} is saved without {' and '.join(left)}, which are functions: set them again "
                "after load",
                stacklevel=2,
            )
        super().save(path, **header)

    def _to_parts(self) -> dict[str, Any]:
        known = {name: value for name, value in vars(self).items() if name not in LEFT_OUT}
        parameters = {name: known.pop(name) for name in self._get_param_names() if name in known}  # type: ignore[attr-defined]
        return {"parameters": parameters, "fitted": known}

    @classmethod
    def _from_parts(cls, parameters: dict[str, Any], fitted: dict[str, Any]) -> Any:
        model = cls(**parameters)
        vars(model).update(fitted)
        return model
