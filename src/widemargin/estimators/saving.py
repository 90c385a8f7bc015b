"""Estimators in files: parameters and all that was learnt, so that one that was loaded predicts and goes on alike."""

from __future__ import annotations

import copy
import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..files import Saved, dump
from ..history import History
from ..models import KERNEL
from ..schemas import ANYTHING, Array, Each, Field, Law, Own, Real, Row, Text, Whole
from ..warning import warn

#: Parameters and attributes that are functions of a program: they stay out of files.
LEFT_OUT = {
    "callbacks": "callbacks",
    "_skl_callbacks": "the callbacks of set_callbacks",
    "_metadata_request": "metadata requests",
}


#: What is learnt by all estimators. ``d`` is the number of features, ``outputs`` that of scores.
LEARNT: dict[str, Field] = {
    "n_features_in_": Whole(0, size="d"), "feature_names_in_": Array("d", dtype=None, order=False),
    "classes_": Array("classes", dtype=None), "_counts": Array("classes", low=0.0), "_seen": Real(0.0),
    "history_": Own(History), "stop_reason_": Text(), "n_iter_": ANYTHING, "certificate_": ANYTHING,
    "_only_predicts": Text(), "_gamma": Real(), "_kernel_error": Real(), "_exponent": Whole(-5000, 5000),
    "_trained_kernel": KERNEL, "_passes": Real(0.0), "_seconds": Real(0.0), "_kind": ANYTHING,
    "shape_fit_": Each(Whole(0), tuple), "_arrived": Whole(0),
}  # fmt: skip


def _law_of_outputs(estimator: Any, sizes: dict[str, int]) -> str | None:
    outputs, classes = sizes.get("outputs"), sizes.get("classes")
    if outputs is None or classes is None or outputs == (1 if classes <= 2 else classes):
        return None
    return f"it has {outputs} scores for {classes} classes"


def learnt(*needs: str, law: Law = _law_of_outputs, **fields: Field) -> dict[str, Any]:
    """The schema of an estimator that learns these attributes beside those of all, and cannot do without some."""
    fitted = Row({**LEARNT, **fields}, rest=ANYTHING, needs=("n_features_in_", *needs))
    return {"parameters": ANYTHING, "fitted": fitted, "law": law}


class SavedEstimator(Saved):
    """``save`` and ``load`` of every estimator, through :mod:`widemargin.files`."""

    #: Why this estimator only predicts; empty where it goes on training too.
    _only_predicts: str = ""
    #: Attributes that training goes on from, and predicting does not need.
    TRAINING: tuple[str, ...] = ("_state", "_counts", "_seen", "_kind", "_passes", "_seconds")

    def save(self, path: str | os.PathLike[str], *, state: bool = True, **header: Any) -> None:
        """Write the parameters and all that was learnt to a ``.npz`` file.

        The file holds arrays and a JSON header, never pickled objects. Callbacks are left out, with a
        warning.

        Parameters
        ----------
        path : str or path
            The name of the file. The old file stays until the new one is whole.
        state : bool, default=True
            Whether training can go on from the file. Without its state an estimator predicts the same
            and the file is smaller, but ``partial_fit``, ``warm_start`` and the like are refused.
        **header : values
            Further entries of the file's JSON header.

        Raises
        ------
        TypeError
            If a parameter is a function, such as a callable kernel: pickle the estimator instead.

        Examples
        --------
        >>> import os, tempfile
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     model.save(path)
        ...     LinearSVC.load(path).predict([[3.0]]).tolist()
        [1]
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
            warn(
                f"{type(self).__name__} is saved without {' and '.join(left)}, which are functions: set them again "
                "after load"
            )
        kept = self if state else self._without_state()
        known = {"features": getattr(self, "n_features_in_", None), "state": not kept._only_predicts}
        if hasattr(self, "classes_"):
            known["classes"] = [c if isinstance(c, (str, int, float)) else str(c) for c in self.classes_.tolist()]
        dump(path, kept, **{**known, **header})

    def _without_state(self) -> Any:
        """A copy that predicts the same, without what training goes on from."""
        small = copy.copy(self)
        for name in self.TRAINING:
            vars(small).pop(name, None)
        small._only_predicts = self._only_predicts or "was saved with state=False"
        return small

    def _refuse_without_state(self, what: str) -> None:
        """Refuse to go on training where there is nothing to go on from."""
        if self._only_predicts:
            name = type(self).__name__
            raise ValueError(
                f"{what} goes on from where training ended, and this {name} {self._only_predicts}, which leaves what "
                f"predicts only: use a file that {name}.save wrote with state=True, or call fit to train anew"
            )

    def _to_parts(self) -> dict[str, Any]:
        known = {name: value for name, value in vars(self).items() if name not in LEFT_OUT}
        parameters = {name: known.pop(name) for name in self._get_param_names() if name in known}  # type: ignore[attr-defined]
        if isinstance(parameters.get("checkpoint"), os.PathLike):
            parameters["checkpoint"] = os.fspath(parameters["checkpoint"])
        return {"parameters": parameters, "fitted": known}

    @classmethod
    def _from_parts(cls, parameters: dict[str, Any], fitted: dict[str, Any]) -> Any:
        model = cls(**parameters)
        vars(model).update(fitted)
        return model
