"""What the public docstrings say is so: parameters, defaults, attributes and examples."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import widemargin

ESTIMATORS = ["LinearSVC", "LinearSVR", "SVC", "SVR", "BudgetedSVC", "BudgetedSVR", "IncrementalSVC"]
MODULES = {"data", "kernels", "losses", "plots", "teaching"}
#: Further objects that users meet, by module; None is all that the module gives.
MET = {
    "data": None,
    "data.chunks": ["Summary"],
    "data.generators": None,
    "data.training": ["Passed"],
    "teaching": None,
    "plots": None,
    "history": ["Counters", "History"],
    "problems.objective": ["Certificate"],
    "running": ["Progress"],
    "estimators.paths": ["ParetoPath"],
    "estimators.grids": ["SVMGrid"],
    "warming": ["Warmed"],
    "solvers.budget": [
        "PegasosStep",
        "NormaStep",
        "ImplicitStep",
        "MarginPerceptronStep",
        "PassiveAggressiveStep",
        "Merge",
        "MultiMerge",
        "Project",
        "Projectron",
        "Nearest",
        "Remove",
        "Stop",
        "Forget",
    ],
    "solvers.pegasos": ["Bottou", "InverseTime", "Norma", "Constant"],
    "solvers.visits.sdca": ["KernelSDCA"],
    "solvers.visits.pegasos": ["KernelPegasos"],
    "files": [
        "dump",
        "load",
        "read_header",
        "read_npz",
        "write_npz",
        "savable",
        "check_savable",
        "packed",
        "unpacked",
        "digest",
    ],
}
if importlib.util.find_spec("dask") and importlib.util.find_spec("distributed"):
    MET["dask"] = None


def given_by(module):
    """The names that a module gives: those of ``__all__``, or all that are made in it and have no underscore."""
    made = [name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
    return getattr(module, "__all__", [name for name in made if not name.startswith("_")])


def public():
    """(name, object) of all that is documented: what widemargin gives, and what that gives."""
    for name in widemargin.__all__:
        if name not in MODULES:
            yield name, getattr(widemargin, name)
    for module, names in MET.items():
        home = importlib.import_module(f"widemargin.{module}")
        for name in given_by(home) if names is None else names:
            yield f"{module}.{name}", getattr(home, name)


def sections(doc):
    """The text of each section of a docstring, by its title; what comes first is the title ""."""
    parts = re.split(r"(?m)^([A-Z][A-Za-z ]+)\n-{3,}\n", doc)
    return {"": parts[0], **{title: text.rstrip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}}


def entries(text):
    """(name, type, description) of the entries of a section."""
    found = re.split(r"(?m)^(?=\S)", text or "")
    for entry in filter(str.strip, found):
        head, _, rest = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        yield name.strip(), kind.strip(), " ".join(rest.split())


def parameters_of(callable_):
    found = inspect.signature(callable_).parameters.values()
    stars = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    return [(stars.get(p.kind, "") + p.name, p.default) for p in found if p.name != "self"]


def faults_of(name, callable_, doc):
    """What a docstring says otherwise than the signature, in words."""
    parts = sections(doc)
    summary = parts[""].strip().split("\n\n")[0]
    if not summary.endswith((".", "…")) or "\n" in summary:
        yield f"{name}: the summary is no sentence in one line: {summary!r}"
    described = list(entries(parts.get("Parameters")))
    expected = parameters_of(callable_)
    if inspect.isclass(callable_) and not described and "Attributes" in parts:  # a result, which users only read
        known = [each[0] for each in entries(parts["Attributes"])]
        if known[: len(expected)] != [each[0] for each in expected]:
            yield f"{name}: attributes {known}, expected {[e[0] for e in expected]}"
        return
    if [each[0] for each in described] != [each[0] for each in expected]:
        yield f"{name}: parameters {[e[0] for e in described]}, expected {[e[0] for e in expected]}"
        return
    for (known, kind, text), (_, default) in zip(described, expected, strict=True):
        if not kind or not re.match(r"[A-Z\"`–\d]", text) or not text.endswith("."):
            yield f"{name}: {known} has no type, or is not described in whole sentences"
        said = re.search(r"default=(.+)$", kind)
        if default is inspect.Parameter.empty or known.startswith("*"):
            if said:
                yield f"{name}: {known} has no default, and one is documented"
        elif not said or not is_default(said[1], default):
            yield f"{name}: the default of {known} is {default!r}, documented as {kind!r}"


def is_default(said, default):
    if "<factory>" in repr(default):
        return True
    try:
        return ast.literal_eval(said) == default
    except (ValueError, SyntaxError):
        return said in (repr(default), getattr(default, "__name__", ""), str(default))


def methods_of(cls):
    """(name, function) of the public methods that widemargin itself defines."""
    for name in dir(cls):
        if name.startswith("_") or name.endswith("_request"):
            continue
        found = getattr(cls, name, None)
        if inspect.isroutine(found) and (getattr(found, "__module__", None) or "").startswith("widemargin"):
            yield name, found


def is_part(cls):
    """Whether a class is a solver, a step rule or a policy."""
    return any(hasattr(cls, method) for method in ("steps_per_epoch", "schedule", "prepare"))


def faults_of_class(name, cls):
    """What is wrong with the docstrings of a class and its methods; those of parts are told of where they are bases."""
    doc = inspect.getdoc(cls)
    if not getattr(cls, "_is_protocol", False):
        yield from faults_of(name, cls, doc)
    shown = sections(doc).get("Examples", "")
    if ">>>" not in shown:
        yield f"{name} has no example"
    for method, function in () if getattr(cls, "_is_protocol", False) else methods_of(cls):
        if is_part(cls) and method not in ("get_params", "set_params"):
            continue
        own = inspect.getdoc(function) or ""
        yield from faults_of(f"{name}.{method}", function, own)
        if "Examples" not in sections(own) and f".{method}(" not in shown:
            yield f"{name}.{method} is shown in no example"


def faults(found):
    for name, each in found:
        if inspect.isclass(each):
            yield from faults_of_class(name, each)
        else:
            yield from faults_of(name, each, inspect.getdoc(each))
            if ">>>" not in sections(inspect.getdoc(each)).get("Examples", ""):
                yield f"{name} has no example"


def test_docstrings_say_what_signatures_say():
    assert list(faults(public())) == []


def fitted(name, **parameters):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(widemargin, name)(**parameters).fit(X, (X["a"] > 0.0).to_numpy().astype(float))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_documented_attributes_are_those_that_fit_sets(name):
    models = [fitted(name)]
    if "SV" in name and name in ("SVC", "SVR", "IncrementalSVC"):
        models.append(fitted(name, kernel="linear"))
    found = {n for model in models for n in dir(model) if n.endswith("_") and n[0] != "_" and hasattr(model, n)}
    described = list(entries(sections(inspect.getdoc(getattr(widemargin, name)))["Attributes"]))
    assert {each[0] for each in described} == found
    assert [each[0] for each in described if not each[1] or not each[2].endswith(".")] == []


def doctests():
    """The examples of all public objects and their methods, each once."""
    finder, seen = doctest.DocTestFinder(recurse=False), set()
    for name, found in public():
        objects = [(name, found)]
        if inspect.isclass(found):
            objects += [(f"{name}.{method}", function) for method, function in methods_of(found)]
        for title, each in objects:
            doc = inspect.getdoc(each) or ""
            if ">>>" in doc and doc not in seen:
                seen.add(doc)
                yield from finder.find(each, title, globs={})


#: Starts processes of its own; tests/test_warmup.py has the same.
SLOW = {"warmup"}


def pyplot():
    """The pyplot that draws into memory; None where there is no matplotlib."""
    if not importlib.util.find_spec("matplotlib"):
        return None
    importlib.import_module("matplotlib").use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt = pyplot()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    said = []
    for test in doctests():
        if test.name not in SLOW and (plt or not test.name.startswith("plots.")):
            runner.run(test, out=said.append)
    if plt:
        plt.close("all")
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert runner.tries > 50


def test_examples_leave_no_folders():
    for name, each in public():
        docs = [inspect.getdoc(each), *(inspect.getdoc(f) for _, f in methods_of(each) if inspect.isclass(each))]
        assert not [name for doc in docs if "mkdtemp" in (doc or "")]


def test_the_page_names_all_of_them():
    page = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text()
    blocks = re.findall(r"currentmodule:: (\S+)\n.*?\n\n(.*?)```", page, re.DOTALL)
    listed = {f"{module}.{name}" for module, names in blocks for name in names.split()}
    known = {f"widemargin.{name}" for name, each in public()}
    assert known <= listed
