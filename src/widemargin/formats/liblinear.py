"""LIBLINEAR's model text (Fan and others, 2008): ``solver_type``, …, ``w`` and one line of weights for each feature.

A line has one weight for each label; for two classes one weight, positive for the first label. ``bias`` B ≥ 0 is the
value of an additional feature, whose weights are the last line; our intercepts are written as its weights with B = 1.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..files import replacing
from .machine import Machine, estimator_of, linear_machine, machine_of
from .text import Text, Wrong, number, read_labels, real, written_labels

#: LIBLINEAR's solvers by our ``loss`` and ``multi_class``.
WRITTEN = {
    ("hinge", "ovr"): "L2R_L1LOSS_SVC_DUAL",
    ("squared_hinge", "ovr"): "L2R_L2LOSS_SVC",
    ("log", "ovr"): "L2R_LR",
    ("hinge", "crammer_singer"): "MCSVM_CS",
    ("epsilon_insensitive", "ovr"): "L2R_L1LOSS_SVR_DUAL",
    ("squared_epsilon_insensitive", "ovr"): "L2R_L2LOSS_SVR",
}
#: Our ``loss`` and ``multi_class`` by LIBLINEAR's solvers; regularisation and method do not matter to a model.
READ = {solver: kind for kind, solver in WRITTEN.items()} | {
    "L2R_L2LOSS_SVC_DUAL": ("squared_hinge", "ovr"),
    "L1R_L2LOSS_SVC": ("squared_hinge", "ovr"),
    "L1R_LR": ("log", "ovr"),
    "L2R_LR_DUAL": ("log", "ovr"),
    "L2R_L2LOSS_SVR_DUAL": ("squared_epsilon_insensitive", "ovr"),
}
KEYS = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho")


# ---------------------------------------------------------------- out


def write(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a linear model as LIBLINEAR's model text; refuses what LIBLINEAR cannot represent."""
    machine = machine_of(model)
    if machine.kernel is not None and not machine.kernel.is_linear:
        raise ValueError(
            f"LIBLINEAR's text is of linear machines, and {machine.name} has the kernel {machine.kernel.name!r}: "
            "export to .libsvm, or train LinearSVC"
        )
    if machine.in_pairs:
        raise ValueError(
            f"LIBLINEAR has a score for each class, and this {machine.name} has pairs of classes, which vote: train "
            "with multi_class='ovr', or export to .libsvm"
        )
    machine = linear_machine(machine)
    kind = machine.loss, machine.multi_class
    if kind not in WRITTEN:
        what = f"loss {machine.loss!r}: train with another loss"
        if machine.multi_class == "crammer_singer":
            what = f"joint loss of {machine.loss!r} for several classes: train with multi_class='ovr'"
        raise ValueError(f"LIBLINEAR has no {what}, or export to .npz or .onnx")
    lines = [f"solver_type {WRITTEN[kind]}"]
    if machine.classes is None:
        lines.append("nr_class 2")
    else:
        labels = written_labels(machine.classes, "LIBLINEAR")
        in_order = labels if machine.coef.shape[0] > 1 else labels[::-1]
        lines += [f"nr_class {len(labels)}", f"label {' '.join(in_order)}"]
    with_bias = bool(np.any(machine.intercept))
    lines += [f"nr_feature {machine.n_features}", f"bias {1 if with_bias else -1}", "w"]
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        for weights in machine.coef.T:
            file.write(f"{' '.join(map(number, weights))}\n".encode())
        if with_bias:
            file.write(f"{' '.join(map(number, machine.intercept))}\n".encode())


# ---------------------------------------------------------------- in


def read(path: str | os.PathLike[str], n_features: int | None = None) -> Any:
    """A :class:`LinearSVC` or :class:`LinearSVR` that predicts as LIBLINEAR's model text says.

    Labels stay in the file's order, by which LIBLINEAR decides between classes with equal scores.
    """
    with Text(path) as text:
        header = text.header(KEYS, "w")
        solver = header.single("solver_type")
        if solver not in READ:
            raise Wrong(
                f"solver_type is {solver!r:.50}, and only {', '.join(READ)} become a LinearSVC or LinearSVR here"
            )
        loss, multi_class = READ[solver]
        is_class, k = "epsilon" not in loss, header.integer("nr_class", 1)
        d, bias = header.integer("nr_feature"), real(header.single("bias"), "bias")
        if n_features not in (None, d):
            raise Wrong(f"nr_feature is {d}, and n_features={n_features} was asked for")
        classes = None
        if is_class:
            if k < 2:
                raise Wrong("nr_class must be at least 2, got 1: a model of one class has nothing to tell apart")
            classes = read_labels(header.several("label", k))
        columns = k if is_class and (k > 2 or multi_class == "crammer_singer") else 1
        weights = []
        for words in text:
            if len(words) != columns:
                raise Wrong(f"it must have {columns} weights, got {len(words)}")
            weights.append([real(word, "a weight") for word in words])
        if len(weights) != d + (bias >= 0.0):
            raise Wrong(
                f"the file ends with {len(weights)} lines of weights, and nr_feature and bias ask for "
                f"{d + (bias >= 0.0)}: it was cut off or added to"
            )
        table = np.array(weights, np.float64).reshape(len(weights), columns).T
        coef, intercept = np.ascontiguousarray(table[:, :d]), np.zeros(columns)
        if bias >= 0.0:
            with np.errstate(over="ignore"):
                intercept = table[:, d] * bias
            if not np.isfinite(intercept).all():
                raise Wrong(f"its weights times the bias of {bias} overflow")
    if columns == 1 and classes is not None:
        classes = classes[::-1].copy()  # a positive score is for our second
    machine = Machine("", coef, intercept, d, classes, loss=loss, multi_class=multi_class)
    return estimator_of(machine, "LIBLINEAR", intercept="regularized" if bias >= 0.0 else "none")
