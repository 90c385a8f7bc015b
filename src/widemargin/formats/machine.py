"""The function that a fitted estimator computes, in the user's own units: what all formats read and write.

Scores are Σ_v coef[o, v] k(x, v) + b_o over support vectors, or ⟨coef[o], x⟩ + b_o over features. A regularised
intercept is included in b, and vectors are as the user gave them, not centred, scaled or rounded as for training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..core.losses.losses import name_of
from ..estimators.kernel import SVC, SVR
from ..estimators.linear import LinearSVC, LinearSVR
from ..models import KernelModel, PairsModel
from ..problems.layout import SPARSE_BELOW, Preparation, scaled_kernel


@dataclass(frozen=True)
class Machine:
    """A model to write, or one that was read.

    Attributes
    ----------
    name : str
        The class of the estimator, for sentences.
    coef : ndarray of shape (outputs, vectors), or (outputs, features) without a kernel
        For pairs of classes with ``counts``, in the layout of :mod:`widemargin.core.kernels.pairs`.
    intercept : ndarray of shape (outputs,)
    n_features : int
    classes : ndarray, or None for a regression
        Two classes have one output, positive for the second class. More classes have one output each, the highest of
        which wins, or one for each pair, which votes.
    in_pairs : bool
        Whether outputs are pairs of classes.
    kernel : a kernel, or None for weights of features
    vectors : ndarray or CSR matrix of the support vectors; None for a precomputed kernel
    support : ndarray
        For a precomputed kernel, the columns of the kernel matrix.
    counts : ndarray
        For pairs, the number of vectors of each class; None where pairs share all vectors, as in a compressed model.
    loss, multi_class : str
        Parameters of a linear estimator.
    """

    name: str
    coef: np.ndarray
    intercept: np.ndarray
    n_features: int
    classes: np.ndarray | None
    in_pairs: bool = False
    kernel: Any = None
    vectors: Any = None
    support: Any = None
    counts: Any = None
    loss: str = ""
    multi_class: str = "ovr"

    @property
    def n_vectors(self) -> int:
        """The number of support vectors."""
        return self.coef.shape[1]

    def of_pairs(self) -> np.ndarray:
        """Coefficients of shape (pairs, vectors)."""
        if self.counts is None:
            return self.coef
        places, ends = np.arange(self.n_vectors), np.cumsum(self.counts)
        return PairsModel(self.kernel, places, None, self.coef, self.intercept, ends).whole().coef


def machine_of(model: Any) -> Machine:
    """The model of a fitted estimator; refuses a kernel function."""
    check_is_fitted(model)
    name, classes = type(model).__name__, getattr(model, "classes_", None)
    if not hasattr(model, "kernel"):
        coef = np.atleast_2d(model.coef_)
        kind = "ovr" if classes is None else model.multi_class
        return Machine(
            name, coef, np.broadcast_to(model.intercept_, coef.shape[:1]), coef.shape[1], classes,
            loss=name_of(model.loss), multi_class=kind,
        )  # fmt: skip
    inner = getattr(model, "_model", None)  # a budgeted estimator has a state instead
    kernel = model._trained_kernel if inner is None else inner.kernel
    if kernel.is_function:
        raise ValueError(
            f"{name} has a kernel that is a function, {kernel.function!r:.100}, and files hold none: use a kernel with "
            "a name"
        )
    kernel = kernel._replace(gamma=model._gamma) if kernel.has_gamma else kernel
    coef = model.dual_coef_
    intercept = getattr(model, "intercept_", np.zeros(coef.shape[0]))
    found = Machine(name, coef, intercept, model.n_features_in_, classes, kernel=kernel)
    if kernel.is_table:
        found = replace(found, support=model.support_)
    else:
        vectors = model.support_vectors_
        found = replace(found, vectors=sp.csr_matrix(vectors) if sp.issparse(vectors) else np.asarray(vectors))
    if isinstance(inner, PairsModel):
        return replace(found, in_pairs=True, counts=model.n_support_)
    if classes is not None and classes.size > 2 and getattr(model, "multi_class", "ovr") == "ovo":
        return replace(found, in_pairs=True)
    if classes is not None and classes.size == 2 and coef.shape[0] == 2:
        return replace(found, coef=coef[1:] - coef[:1], intercept=intercept[1:] - intercept[:1])
    return found


def linear_machine(machine: Machine) -> Machine:
    """The same model with weights of features; its kernel must be linear."""
    if machine.kernel is None:
        return machine
    loss = "hinge" if machine.classes is not None else "epsilon_insensitive"
    return replace(
        machine, coef=np.asarray(machine.coef @ machine.vectors), kernel=None, vectors=None, counts=None, loss=loss
    )


def estimator_of(machine: Machine, program: str, **parameters: Any) -> Any:
    """An estimator that predicts like the model; it cannot continue training."""
    is_linear, is_class = machine.kernel is None, machine.classes is not None
    cls: Any = (LinearSVC if is_class else LinearSVR) if is_linear else (SVC if is_class else SVR)
    if is_linear:
        model = cls(loss=machine.loss, **({"multi_class": machine.multi_class} if is_class else {}), **parameters)
        model.coef_ = machine.coef if is_class else machine.coef[0]
        model.intercept_ = machine.intercept
    else:
        model = _kernel_estimator(cls, machine, **parameters)
    if is_class:
        model.classes_ = machine.classes
    model.n_features_in_ = machine.n_features
    model.certificate_, model.stop_reason_ = None, "loaded"
    model._only_predicts = f"comes from a model text of {program}"
    return model


def _kernel_estimator(cls: Any, machine: Machine, **parameters: Any) -> Any:
    kernel, vectors, n = machine.kernel, machine.vectors, machine.n_vectors
    given = kernel._asdict()
    model = cls(kernel=kernel.name, **given, **parameters)
    support = np.arange(n) if machine.support is None else machine.support
    rows = None
    model._gamma, model._preparation = 1.0, Preparation(None, False, False)
    if kernel.is_table:
        model.support_, model.support_vectors_ = support, np.empty((0, 0))
    else:
        settled = (kernel.name, given.get("gamma", 1.0), given.get("degree", 3), given.get("coef0", 0.0))
        as_csr = vectors.nnz < SPARSE_BELOW * n * machine.n_features
        vectors = vectors if as_csr else vectors.toarray()
        kernel, exponent, model._gamma = scaled_kernel(*settled, vectors)
        model._preparation = Preparation(None, False, as_csr, exponent)
        rows, model.support_vectors_ = model._preparation.rows(kernel, vectors), vectors
    model.dual_coef_, model.intercept_ = machine.coef, machine.intercept
    if machine.in_pairs:
        ends = np.cumsum(machine.counts, dtype=np.int64)
        model._model = PairsModel(kernel, support, rows, machine.coef, machine.intercept, ends)
    else:
        model._model = KernelModel(kernel, support, rows, machine.coef, machine.intercept)
    if machine.counts is not None:
        model.n_support_ = np.asarray(machine.counts, np.int32)
    return model


def word_of(kernel: Any) -> str:
    """The name of a kernel's class in small letters, which is what other programs write."""
    return (kernel if isinstance(kernel, type) else type(kernel)).__name__.lower()


def dense_vectors(machine: Machine) -> np.ndarray:
    """The support vectors as a dense float64 matrix."""
    found = machine.vectors
    return np.asarray(found.toarray() if sp.issparse(found) else found, np.float64)
