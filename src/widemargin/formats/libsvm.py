"""LIBSVM's model text (Chang and Lin, 2011): ``svm_type``, ``kernel_type``, …, ``SV`` and one line for each vector.

A score is Σ coef k(x, vector) − rho. For two classes it is positive for the first label; more classes have one score
for each pair. A line is ``coef … index:value …`` with indices from 1 on, or ``coef … 0:number`` for a precomputed
kernel, with the number of the example from 1 on. A file does not tell the number of features, so the first vector is
written with the last feature even if that is 0.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.kernels.kernels import KERNELS
from ..core.kernels.pairs import pairs_of
from ..files import replacing
from .machine import Machine, estimator_of, machine_of, word_of
from .text import LARGEST, Header, Text, Wrong, integer, number, read_labels, real, written_labels

#: LIBSVM's names of kernels, which are the names of our classes in small letters.
KERNEL_TYPES = "linear, polynomial, rbf, sigmoid, precomputed"
#: LIBSVM's types of models, and whether they are classifiers.
SVM_TYPES = {"c_svc": True, "nu_svc": True, "epsilon_svr": False, "nu_svr": False}
KEYS = (
    "svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "probA", "probB",
    "prob_density_marks", "nr_sv",
)  # fmt: skip


# ---------------------------------------------------------------- out


def write(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a kernel model as LIBSVM's model text; refuses what LIBSVM cannot represent."""
    machine = machine_of(model)
    if machine.kernel is None:
        raise ValueError(
            f"LIBSVM's text is of kernel machines, and {machine.name} is linear: export to .liblinear, or train "
            "SVC with kernel='linear'"
        )
    if word_of(machine.kernel) not in KERNEL_TYPES.split(", "):
        raise ValueError(
            f"LIBSVM has no {machine.kernel.name} kernel, only {KERNEL_TYPES}: train with one of these, or "
            "export to .npz or .onnx"
        )
    if machine.classes is not None and machine.classes.size > 2 and not machine.in_pairs:
        own = "train with multi_class='ovo', or " if machine.name == "SVC" else ""
        raise ValueError(
            f"LIBSVM tells several classes apart by pairs, and this {machine.name} has a score for each of "
            f"{machine.classes.size}: {own}export to .npz or .onnx"
        )
    if machine.n_features > LARGEST:
        raise ValueError(f"LIBSVM's features have numbers up to {LARGEST}, and this model has {machine.n_features}")
    machine = _by_class(machine)
    lines = _header(machine)
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in (*lines, "SV")).encode())
        for coefficients, vector in zip(machine.coef.T, _vectors(machine), strict=True):
            file.write(f"{' '.join(map(number, coefficients))} {vector}\n".encode())


def _header(machine: Machine) -> list[str]:
    classes, kernel = machine.classes, machine.kernel
    own = {"svm_type": "epsilon_svr" if classes is None else "c_svc", "kernel_type": word_of(kernel)}
    given = kernel._asdict()
    own |= {key: str(given[key]) for key in ("degree",) if key in given}
    own |= {key: number(given[key]) for key in ("gamma", "coef0") if key in given}
    own |= {"nr_class": str(2 if classes is None else classes.size), "total_sv": str(machine.n_vectors)}
    own["rho"] = " ".join(number(0.0 - b) for b in machine.intercept)  # 0 − b avoids −0
    if classes is not None:
        labels = written_labels(classes, "LIBSVM")
        own["label"] = " ".join(labels if machine.in_pairs else labels[::-1])
        own["nr_sv"] = " ".join(str(int(count)) for count in machine.counts)
    return [f"{key} {value}" for key, value in own.items()]


def _by_class(machine: Machine) -> Machine:
    """The same model with vectors ordered by class, and the number of them of each class.

    Of two classes the first label is that of positive coefficients. Where pairs share all vectors, as in a compressed
    model, a vector is copied for each class that uses it.
    """
    if machine.classes is None or (machine.in_pairs and machine.counts is not None):
        return machine
    if not machine.in_pairs:
        second = machine.coef[0] <= 0.0
        return replace(_taken(machine, np.argsort(second, kind="stable")), counts=np.bincount(second, minlength=2))
    k = machine.classes.size
    first, other = pairs_of(k)
    blocks = np.zeros((k, k - 1, machine.n_vectors))
    blocks[first, other - 1] = machine.coef
    used = [np.flatnonzero(block.any(axis=0)) for block in blocks]
    coef = np.hstack([block[:, own] for block, own in zip(blocks, used, strict=True)])
    vectors = machine.vectors[np.concatenate(used)]
    return replace(machine, coef=coef, vectors=vectors, counts=np.array([own.size for own in used]))


def _taken(machine: Machine, order: np.ndarray) -> Machine:
    parts = {"vectors": machine.vectors, "support": machine.support}
    taken = {name: part[order] for name, part in parts.items() if part is not None}
    return replace(machine, coef=np.ascontiguousarray(machine.coef[:, order]), **taken)


def _vectors(machine: Machine) -> Any:
    """The text of each vector, without coefficients."""
    if machine.kernel.is_table:
        yield from (f"0:{place + 1}" for place in machine.support.tolist())
        return
    d = machine.n_features
    rows = sp.csr_matrix(machine.vectors).sorted_indices()
    for k, (start, end) in enumerate(pairwise(rows.indptr)):
        entries = dict(zip(rows.indices[start:end].tolist(), rows.data[start:end].tolist(), strict=True))
        if k == 0:
            entries.setdefault(d - 1, 0.0)
        yield " ".join(f"{j + 1}:{number(value)}" for j, value in entries.items())


# ---------------------------------------------------------------- in


def read(path: str | os.PathLike[str], n_features: int | None = None) -> Any:
    """Read LIBSVM's model text as an :class:`SVC` or :class:`SVR` that predicts.

    Labels stay in the order of the file, by which LIBSVM decides between classes with equal votes.
    """
    with Text(path) as text:
        header = text.header(KEYS, "SV")
        kind = header.single("svm_type")
        if kind not in SVM_TYPES:
            raise Wrong(f"svm_type is {kind!r:.50}, and only {', '.join(SVM_TYPES)} become an SVC or SVR here")
        kernel = _kernel(header)
        is_class, k = SVM_TYPES[kind], header.integer("nr_class", 2)
        rows = k - 1 if is_class else 1
        rho = [real(word, "rho") for word in header.several("rho", k * (k - 1) // 2 if is_class else 1)]
        classes = counts = None
        total = header.integer("total_sv")
        if is_class:
            classes = read_labels(header.several("label", k))
            counts = np.array([integer(word, "nr_sv") for word in header.several("nr_sv", k)])
            if counts.sum() != total:
                raise Wrong(f"nr_sv are {counts.sum()} vectors together, and total_sv is {total}")
        coef, vectors, support = _read_vectors(text, rows, kernel.is_table, n_features)
        if coef.shape[1] != total:
            raise Wrong(
                f"the file ends with {coef.shape[1]} vectors, and total_sv is {total}: it was cut off or added to"
            )
    width = int(support.max(initial=0)) + 1 if kernel.is_table else vectors.shape[1]
    width = width if n_features is None else n_features
    machine = Machine(
        "", coef, 0.0 - np.array(rho), width, classes, is_class and k > 2, kernel, vectors, support, counts
    )
    if is_class and k == 2 and classes is not None and counts is not None:
        # our vectors are ordered by class, and a positive score is for the second class
        order = np.concatenate([np.arange(counts[0], total), np.arange(counts[0])])
        machine = replace(_taken(machine, order), classes=classes[::-1].copy(), counts=counts[::-1])
    return estimator_of(machine, "LIBSVM")


def _kernel(header: Header) -> Any:
    word = header.single("kernel_type")
    if word not in KERNEL_TYPES.split(", "):
        raise Wrong(f"kernel_type is {word!r:.50}, which is none of {KERNEL_TYPES}")
    cls = next(cls for cls in KERNELS.values() if word_of(cls) == word)
    values: dict[str, Any] = {}
    for name in cls._fields:
        if name not in header:
            raise Wrong(f"the lines above it lack {name!r}, which the {word} kernel has")
        given = header.single(name)
        values[name] = integer(given, name, 0, 1000) if name == "degree" else real(given, name)
    if values.get("gamma", 0.0) < 0.0:
        raise Wrong(f"gamma must be ≥ 0, got {values['gamma']}")
    return cls(**values)


def _read_vectors(text: Text, rows: int, is_table: bool, n_features: int | None) -> tuple[np.ndarray, Any, Any]:
    """(coefficients of shape (rows, vectors), CSR matrix, columns of a precomputed kernel) of the remaining lines."""
    coef: list[list[float]] = []
    data: list[float] = []
    indices: list[int] = []
    ends, support = [0], []
    most = LARGEST if n_features is None else n_features
    for words in text:
        if len(words) < rows or any(":" in word for word in words[:rows]):
            raise Wrong(f"it must begin with {rows} coefficients")
        coef.append([real(word, "a coefficient") for word in words[:rows]])
        if is_table:
            support.append(_number_of(words[rows:], most))
        last = 0
        for word in () if is_table else words[rows:]:
            index, colon, value = word.partition(":")
            if not colon:
                raise Wrong(f"{word!r:.50} is no index:value")
            place = integer(index, "an index", 1, most)
            if place <= last:
                raise Wrong(f"the index {place} comes after {last}: indices must rise")
            last = place
            indices.append(place - 1)
            data.append(real(value, "a value"))
        ends.append(len(data))
    table = np.array(coef, np.float64).reshape(len(coef), rows).T
    width = (max(indices, default=0) + 1) if n_features is None else n_features
    parts = np.array(data, np.float64), np.array(indices, np.int32), np.array(ends, np.int64)
    vectors = None if is_table else sp.csr_matrix(parts, shape=(len(coef), width))
    return np.ascontiguousarray(table), vectors, np.array(support, np.int64) if is_table else None


def _number_of(words: list[str], most: int) -> int:
    """The column of a precomputed kernel, from ``0:number``."""
    if len(words) != 1 or not words[0].startswith("0:"):
        raise Wrong("a vector of a precomputed kernel must be 0:number")
    value = real(words[0][2:], "the number of an example")
    return integer(str(int(value)) if value == int(value) else words[0][2:], "the number of an example", 1, most) - 1
