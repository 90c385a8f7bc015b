"""ONNX: the model as a graph of standard operators in float64, for any program that runs such graphs.

The input is ``X`` of shape (n, features). The outputs are ``scores``, the result of ``decision_function`` (for a
regressor, of ``predict``), and for a classifier ``label``. The package ``onnx`` is imported only here, while writing.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.kernels.pairs import pairs_of
from ..files import replacing
from ..version import __version__
from .machine import Machine, dense_vectors, machine_of, word_of

OPSET, IR_VERSION = 17, 8  # versions of the operators and of the file format, which runtimes have since 2022


def write(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator as an ONNX graph."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("an .onnx file needs the package onnx: pip install 'widemargin[onnx]'") from error
    machine = machine_of(model)
    graph = _Graph(onnx)
    scores = graph.scores(machine)
    if machine.classes is not None:
        scores = graph.decide(machine, scores, model)
    with replacing(path) as file:
        file.write(graph.finished(machine, scores).SerializeToString())


class _Graph:
    """The operators of a graph in order; a value is represented by the name of an operator's output."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Append an operator; returns the name of its output."""
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Append a constant; returns its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    # -- scores

    def scores(self, machine: Machine) -> str:
        """The scores, of shape (n, outputs); outputs may be pairs of classes."""
        coef = machine.of_pairs() if machine.in_pairs else machine.coef
        values = "X"
        if machine.kernel is not None:
            make = getattr(self, f"_{word_of(machine.kernel)}", None)
            if make is None:
                raise ValueError(
                    f"the kernel {machine.kernel.name!r} has no ONNX graph here: export to .npz, or train with another"
                )
            values = make(machine)
        product = self.op("MatMul", values, self.constant(coef.T))
        return self.op("Add", product, self.constant(machine.intercept))

    def _products(self, machine: Machine) -> str:
        return self.op("MatMul", "X", self.constant(dense_vectors(machine).T))

    _linear = _products

    def _shifted(self, machine: Machine) -> str:
        """γ⟨x, z⟩ + coef0."""
        product = self.op("Mul", self._products(machine), self.constant(machine.kernel.gamma))
        return self.op("Add", product, self.constant(machine.kernel.coef0))

    def _polynomial(self, machine: Machine) -> str:
        return self.op("Pow", self._shifted(machine), self.constant(float(machine.kernel.degree)))

    def _sigmoid(self, machine: Machine) -> str:
        return self.op("Tanh", self._shifted(machine))

    def _rbf(self, machine: Machine) -> str:
        """exp(−γ‖x − z‖²) by inner products of centred rows: far from the origin these would lose digits."""
        Z = dense_vectors(machine)
        centre = Z.mean(axis=0) if len(Z) else np.zeros(machine.n_features)
        Z = Z - centre
        x = self.op("Sub", "X", self.constant(centre))
        own = self.op("ReduceSum", self.op("Mul", x, x), self.constant([1], np.int64), keepdims=1)
        mixed = self.op("MatMul", x, self.constant(-2.0 * Z.T))
        distances = self.op("Add", self.op("Add", mixed, own), self.constant((Z**2).sum(axis=1)))
        distances = self.op("Max", distances, self.constant(0.0))
        return self.op("Exp", self.op("Mul", distances, self.constant(-machine.kernel.gamma)))

    def _laplacian(self, machine: Machine) -> str:
        """exp(−γ Σ |x_k − z_k|), feature by feature, so that memory is that of the kernel values."""
        helper, double = self.onnx.helper, self.onnx.TensorProto.DOUBLE
        body = helper.make_graph(
            [
                helper.make_node("Unsqueeze", ["x", "one"], ["column"]),
                helper.make_node("Sub", ["column", "z"], ["between"]),
                helper.make_node("Abs", ["between"], ["apart"]),
                helper.make_node("Add", ["before", "apart"], ["after"]),
            ],
            "feature",
            [helper.make_tensor_value_info(name, double, None) for name in ("before", "x", "z")],
            [helper.make_tensor_value_info("after", double, None)],
            [self.onnx.numpy_helper.from_array(np.array([1]), "one")],
        )
        Z = np.ascontiguousarray(dense_vectors(machine).T)
        nothing = self.op("MatMul", "X", self.constant(np.zeros_like(Z)))
        rows = self.op("Transpose", "X", perm=[1, 0])
        distances = self.op("Scan", nothing, rows, self.constant(Z), body=body, num_scan_inputs=2)
        return self.op("Exp", self.op("Mul", distances, self.constant(-machine.kernel.gamma)))

    def _precomputed(self, machine: Machine) -> str:
        return self.op("Gather", "X", self.constant(machine.support, np.int64), axis=1)

    # -- labels

    def decide(self, machine: Machine, scores: str, model: Any) -> str:
        """Append the output ``label``; returns the scores of ``decision_function``."""
        classes: Any = machine.classes
        if classes.size == 2:
            if machine.coef.shape[0] == 2:
                scores = self.op("MatMul", scores, self.constant([[-1.0], [1.0]]))
            scores = self.op("Reshape", scores, self.constant([-1], np.int64))
            code = self.op("Cast", self.op("Greater", scores, self.constant(0.0)), to=self.onnx.TensorProto.INT64)
        elif machine.in_pairs:
            code, scores = self._vote(classes.size, scores, model)
        else:
            code = self.op("ArgMax", scores, axis=1, keepdims=0)
        if classes.dtype.kind in "biuf":
            labels = self.constant(classes, {"b": np.bool_, "f": np.float64}.get(classes.dtype.kind, np.int64))
        else:
            labels = self.constant([str(label) for label in classes.tolist()], object)
        self.label_type = self.constants[-1].data_type
        self.op("Gather", labels, code, name="label", axis=0)
        return scores

    def _vote(self, k: int, scores: str, model: Any) -> tuple[str, str]:
        """(class numbers, scores of the classes, or of pairs with ``decision_function_shape="ovo"``)."""
        first, second = pairs_of(k)
        ones = np.eye(k)
        double = self.onnx.TensorProto.DOUBLE
        won = self.op("Cast", self.op("Greater", scores, self.constant(0.0)), to=double)
        lost = self.op("Sub", self.constant(1.0), won)
        votes = self.op(
            "Add", self.op("MatMul", won, self.constant(ones[first])),
            self.op("MatMul", lost, self.constant(ones[second])),
        )  # fmt: skip
        sums = self.op("MatMul", scores, self.constant(ones[first] - ones[second]))
        below = self.op("Mul", self.op("Add", self.op("Abs", sums), self.constant(1.0)), self.constant(3.0))
        both = self.op("Add", votes, self.op("Div", sums, below))
        code = self.op("ArgMax", both if model.break_ties else votes, axis=1, keepdims=0)
        return code, both if model.decision_function_shape == "ovr" else scores

    # -- the whole

    def finished(self, machine: Machine, scores: str) -> Any:
        """The checked ONNX model."""
        onnx, classes = self.onnx, machine.classes
        helper, types = onnx.helper, onnx.TensorProto
        flat = classes is None or classes.size == 2
        if flat:
            self.op("Reshape", scores, self.constant([-1], np.int64), name="scores")
        else:
            self.op("Identity", scores, name="scores")
        outputs = [helper.make_tensor_value_info("scores", types.DOUBLE, ["n"] if flat else ["n", None])]
        if classes is not None:
            outputs.insert(0, helper.make_tensor_value_info("label", self.label_type, ["n"]))
        rows = helper.make_tensor_value_info("X", types.DOUBLE, ["n", machine.n_features])
        graph = helper.make_graph(self.nodes, machine.name, [rows], outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="widemargin", producer_version=__version__
        )
        onnx.checker.check_model(model)
        return model
