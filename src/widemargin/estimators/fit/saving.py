"""Which attributes of an estimator a file holds, and what a file must have to be loaded.

The parameters and all that was learnt are saved, so that a loaded estimator predicts and goes on training as before.
"""

from __future__ import annotations

from typing import Any

from ...history import History
from ...models import KERNEL
from ...schemas import ANYTHING, Array, Each, Field, Law, Own, Real, Record, Row, Text, Whole

#: Parameters and attributes that stay out of files, because they are functions of the user's program.
LEFT_OUT = {
    "callbacks": "callbacks",
    "_skl_callbacks": "the callbacks of set_callbacks",
    "_metadata_request": "metadata requests",
}

#: What is learnt by all estimators. ``d`` is the number of features, ``outputs`` that of scores.
LEARNT: dict[str, Field] = {
    "n_features_in_": Whole(0, size="d"), "feature_names_in_": Array("d", dtype=None, order=False),
    "classes_": Array("classes", dtype=None, distinct=True), "_counts": Array("classes", low=0.0), "_seen": Real(0.0),
    "history_": Own(History), "stop_reason_": Text(), "n_iter_": ANYTHING, "certificate_": ANYTHING,
    "_only_predicts": Text(), "_gamma": Real(), "_exponent": Whole(-5000, 5000),
    "_trained_kernel": KERNEL, "_passes": Real(0.0), "_seconds": Real(0.0), "_kind": ANYTHING,
    "shape_fit_": Each(Whole(0), tuple), "_arrived": Whole(0),
}  # fmt: skip


def _law_of_outputs(estimator: Any, sizes: dict[str, int]) -> str | None:
    outputs, classes = sizes.get("outputs"), sizes.get("classes")
    if outputs is None or classes is None or outputs == (1 if classes <= 2 else classes):
        return None
    return f"it has {outputs} scores for {classes} classes"


def learnt(
    *needs: str, goes_on_with: tuple[str, ...] = (), law: Law = _law_of_outputs, **fields: Field
) -> dict[str, Any]:  # fmt: skip
    """The schema of an estimator that learns these attributes beside those of all, and cannot do without some, or not
    go on without them.
    """
    fitted = Row({**LEARNT, **fields}, rest=ANYTHING, needs=("n_features_in_", *needs))

    def whole(estimator: Any, sizes: dict[str, int]) -> str | None:
        known = estimator.fitted if isinstance(estimator, Record) else vars(estimator)
        if sizes.get("classes") == 0:
            return "it has no classes"
        if "_state" in known and not known.get("_only_predicts"):
            for name in (*goes_on_with, *(["_counts"] if "classes" in sizes else [])):
                if name not in known:
                    return f"it has a state to go on from, and no {name}"
        return law(estimator, sizes)

    return {"parameters": ANYTHING, "fitted": fitted, "law": whole}
