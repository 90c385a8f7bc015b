"""Estimators in notebooks: scikit-learn's diagram, with a line under it that says how training ended.

Notebooks ask for ``_repr_mimebundle_``, other readers for ``_repr_html_``, which scikit-learn makes from
``_repr_html_inner``. Both exist from scikit-learn 1.6 on; :class:`.fitting.TrainedByRun` adds the line to both.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

#: What ended training, in words.
REASONS = {
    "tol": "tol is met",
    "max_iter": "max_iter is reached",
    "max_seconds": "max_seconds is reached",
    "max_feature_reads": "max_feature_reads is reached",
    "early_stopping": "the validation error no longer improves",
    "callback": "a callback asked for it",
    "interrupted": "it was interrupted",
    "settled": "the objective no longer changes, at a gap above tol",
    "precision": "rounding allows no gap as small as tol",
    "stalled": "rounding allows no further progress",
}


def how_it_went(estimator: Any) -> dict[str, str]:
    """Why training stopped, the proven gap, the model's size, epochs and seconds; empty before ``fit``."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return {}
    told: dict[str, str] = {}
    reason = getattr(estimator, "stop_reason_", None)
    if reason is not None:
        told["stopped"] = f"{reason} ({REASONS[reason]})" if reason in REASONS else str(reason)
    if hasattr(estimator, "certificate_"):
        told["relative gap"] = _gap(estimator.certificate_)
    told["size"] = _size(estimator)
    history = getattr(estimator, "history_", None)
    if history is not None and len(history):
        told["training"] = f"{history.last('epochs'):.4g} epochs, {history.last('seconds'):.3g} s"
    return {name: value for name, value in told.items() if value}


def _gap(certificate: Any) -> str:
    """The relative gap, or the largest of several binary problems."""
    if certificate is None:
        return "not known"
    if hasattr(certificate, "relative_gap"):
        return f"{certificate.relative_gap:.1e}"
    gaps = [each.relative_gap for each in certificate if each is not None]
    known = [gap for gap in gaps if math.isfinite(gap)]
    if not known:
        return "not known"
    return f"at most {max(known):.1e} in {len(known)} of {len(certificate)} problems"


def _size(estimator: Any) -> str:
    """The number of support vectors or of weights."""
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is not None:
        # a precomputed kernel has no vectors to hold, only their numbers
        count = vectors.shape[0] or len(getattr(estimator, "support_", ()))
        held = getattr(estimator, "model_bytes_", None)
        return f"{count} support vectors" + (f", {held} bytes" if held is not None else "")
    weights = getattr(estimator, "coef_", None)
    return "" if weights is None else f"{weights.size} weights"


def line_on_training(estimator: Any) -> str:
    """The line under the diagram as HTML, in the page's own colours; empty before ``fit``."""
    told = how_it_went(estimator)
    if not told:
        return ""
    parts = " · ".join(f"{escape(name)}: <b>{escape(value)}</b>" for name, value in told.items())
    return f'<div class="widemargin-training" style="font-size: 0.9em; padding: 0.3em 0">{parts}</div>'
