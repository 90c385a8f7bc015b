"""``widemargin convert``: data to data, models to models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..arguments import one_of
from .options import DATA_OPTIONS, argument, is_model, opened, option, with_options


@with_options(
    [
        argument("source", str, "A file of data, or of a model."),
        argument("output", str, "The new file; its ending says the format."),
        option("to", str, None, "The new format, where the ending does not say it."),
    ],
    DATA_OPTIONS,
)
def convert(**given: Any) -> None:
    """Write data or a model in another format.

    widemargin convert train.svm train.parquet
    widemargin convert people.csv people.svm.gz --target income --categories onehot
    widemargin convert model.npz model.onnx
    widemargin convert heart_scale.model model.npz
    """
    if is_model(given["source"]):
        from ..formats import FORMATS
        from .predicting import loaded
        from .training import save

        if given["to"] is not None:
            one_of("--to", given["to"], FORMATS)
        elif Path(given["output"]).suffix.lower() not in FORMATS.values():
            raise ValueError(
                f"{given['output']} does not say which format: end it in {', '.join(FORMATS.values())}, or give --to"
            )
        model, like = loaded(given["source"], given["n_features"])
        save(model, given["output"], like, given["to"])
        return
    from ..data import write_data
    from ..data.opening import KINDS, format_of

    if given["to"] is not None:
        one_of("--to", given["to"], KINDS)
    source = opened(given["source"], given)
    named = (given["to"] or format_of(given["output"], to_write=True)) in ("csv", "parquet")
    target = source.like().get("target") if named else None  # a table's, which has names of columns too
    options = {"names": source.feature_names, "target": target} if target is not None else {}
    write_data(given["output"], source, format=given["to"] or "auto", **options)
