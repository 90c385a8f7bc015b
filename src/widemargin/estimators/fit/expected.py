"""Attributes that users of scikit-learn look for and that estimators here do not have: a sentence says what to do.

``hasattr`` stays False, so that meta-estimators see what there is. Who asks for the attribute reads the sentence.
"""

from __future__ import annotations

from typing import Any

#: Attributes that classifiers do not have, and what to do instead.
OF_CLASSIFIERS = dict.fromkeys(
    ("predict_proba", "predict_log_proba"),
    "its scores are no probabilities: wrap it before fit, CalibratedClassifierCV(model), which has them",
)
#: Attributes that no estimator has.
OF_ALL = {
    "set_output": "it transforms nothing: call set_output of the pipeline or of the transformers before it",
    "transform": "it predicts: use decision_function for scores, or a transformer of scikit-learn",
}


def where_to_look(estimator: Any, name: str) -> None:
    """Raise an AttributeError that says what to use instead of ``name``, if estimators do not have it by design."""
    cls = type(estimator)
    said = OF_ALL | OF_CLASSIFIERS if hasattr(cls, "decision_function") else OF_ALL
    if name in said and not hasattr(cls, name):
        raise AttributeError(f"{cls.__name__} has no {name}, {said[name]}", name=name, obj=estimator)
