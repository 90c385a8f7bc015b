"""The house: knowledge sits on the thing it is about, and others read it there."""

import ast
from functools import cache
from pathlib import Path

import widemargin
from widemargin import solvers
from widemargin.core.kernels import kernels

SOURCES = Path(widemargin.__file__).parent
HOME = SOURCES / "core" / "kernels" / "kernels.py"
#: The registry of solvers, in which "linear" is a kind of problem.
REGISTRY = SOURCES / "solvers" / "__init__.py"
CLASSES = {cls.__name__ for cls in (*kernels.KERNELS.values(), kernels.BlackBox)}
FILES = sorted(SOURCES.rglob("*.py"))


@cache
def nodes(file):
    """All nodes of a file's syntax tree, which is parsed once."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def names_in(file):
    """Names that the code of a file uses or imports; docstrings are not code."""
    names = set()
    for node in nodes(file):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add(node.name.split(".")[-1])
    return names


def test_kernel_classes_are_named_in_their_own_file_only():
    others = [file for file in FILES if file not in (HOME, SOURCES / "kernels.py")]  # which hands them to users
    found = {file.relative_to(SOURCES).as_posix(): CLASSES & names_in(file) for file in others}
    assert {file: names for file, names in found.items() if names} == {}


def test_names_of_kernels_are_listed_in_their_own_file_only():
    for file in FILES:
        for node in nodes(file) if file not in (HOME, REGISTRY) else ():
            if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Compare)):
                found = {child.value for child in ast.iter_child_nodes(node) if isinstance(child, ast.Constant)}
                most = 0 if isinstance(node, ast.Compare) else 1  # "linear" alone is also a kind of problem
                assert len(found & set(kernels.KERNELS)) <= most, f"{file.name}, line {node.lineno}"


def test_solver_classes_are_named_in_their_own_file_and_the_registry_only():
    homes = {}
    for names in solvers.REGISTRY.values():
        for entry in names.values():
            module, name = entry.split(":")
            package = SOURCES if module.startswith("..") else SOURCES / "solvers"
            homes[name] = package / f"{module.lstrip('.').replace('.', '/')}.py"
    for file in FILES:
        if file.name != "__init__.py":  # packages hand public names on
            found = {name for name in homes if homes[name] != file} & names_in(file)
            assert not found, f"{file.relative_to(SOURCES)} names {sorted(found)}"


def functions():
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef):
                yield file.relative_to(SOURCES).as_posix(), node


def test_functions_are_held_in_one_head():
    long = {(file, node.name) for file, node in functions() if node.end_lineno - node.lineno >= 60}
    many = {
        (file, node.name)
        for file, node in functions()
        if node.name != "__init__"
        and file != "backends/programs.py"  # a program gets each of its arrays by itself
        and len([a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg != "self"]) > 10
    }
    assert (long, many) == (set(), set())
