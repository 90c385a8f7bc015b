"""The house: knowledge sits on the thing it is about, and others read it there."""

import ast
from pathlib import Path

import pytest

import widemargin
from widemargin.core import kernels

SOURCES = Path(widemargin.__file__).parent
HOME = SOURCES / "core" / "kernels.py"
#: The registry of solvers, in which "linear" is a kind of problem.
REGISTRY = SOURCES / "solvers" / "__init__.py"
CLASSES = {cls.__name__ for cls in (*kernels.KERNELS.values(), kernels.BlackBox)}


def names_in(file):
    """Names that the code of a file uses or imports; docstrings are not code."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.split(".")[-1]


@pytest.mark.parametrize("file", sorted(SOURCES.rglob("*.py")), ids=lambda file: file.relative_to(SOURCES).as_posix())
def test_kernel_classes_are_named_in_their_own_file_only(file):
    assert file == HOME or not CLASSES & set(names_in(file))


def test_names_of_kernels_are_listed_in_their_own_file_only():
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if file not in (HOME, REGISTRY) else ():
            listed = isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Compare))
            found = {child.value for child in ast.iter_child_nodes(node) if isinstance(child, ast.Constant)}
            assert not listed or not found & set(kernels.KERNELS), f"{file.name}, line {node.lineno}"
