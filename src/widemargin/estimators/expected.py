"""What users of scikit-learn look for and do not find: a sentence says where it is.

``hasattr`` stays False, so that meta-estimators see what is there; who asks for the attribute itself reads what to do.
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


class ExpectedElsewhere:
    """Names where to look, for attributes that are not there."""

    def __getattr__(self, name: str) -> Any:
        # called where an attribute was not found, or a property has refused; the latter says so again
        told = OF_ALL | OF_CLASSIFIERS if hasattr(type(self), "decision_function") else OF_ALL
        if name in told and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no {name}, {told[name]}", name=name, obj=self)
        return object.__getattribute__(self, name)
