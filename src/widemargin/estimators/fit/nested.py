"""Parameters of parameters: ``loss__delta``, ``kernel__gamma``, ``step__eta``, ``maintenance__threshold``.

Losses, kernels, step rules and policies are values: named tuples and frozen dataclasses. Therefore
``set_params(loss__delta=0.3)`` replaces the object instead of changing it. Objects that can change, such as solvers,
have ``get_params`` and ``set_params`` of their own, which scikit-learn calls.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

#: Objects that a parameter may be, for error messages.
EXAMPLES = {"loss": "Huberized", "kernel": "RBF", "step": "NormaStep", "maintenance": "Merge"}


def own_parameters(value: Any) -> dict[str, Any] | None:
    """The parameters of a named tuple or frozen dataclass by name; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def with_nested(estimator: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator by name, and those of its named tuples and frozen dataclasses."""
    found = dict(parameters)
    for part, value in parameters.items():
        own = own_parameters(estimator._meant(part, value)) or {}
        found.update({f"{part}__{name}": given for name, given in own.items()})
    return found


def without_nested(estimator: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters to set, with ``loss__delta`` and the like put into a new object for ``loss``."""
    found = {key: value for key, value in parameters.items() if "__" not in key}
    for key, value in parameters.items():
        part, nested, name = key.partition("__")
        if not nested:
            continue
        given = found.get(part, getattr(estimator, part, None))
        owner = estimator._meant(part, given)
        own = own_parameters(owner)
        if isinstance(owner, str):
            raise ValueError(
                f"{key} sets a parameter of a configured {part}, and {part} is the name {given!r}: give an object, "
                f"such as {part}={EXAMPLES.get(part, 'Pegasos')}({name}=…), or set {part} to one in the same call"
            )
        if own is None:
            found[key] = value
        elif name in own:
            found[part] = type(owner)(**own | {name: value})
        else:
            known = ", ".join(sorted(known for known in estimator.get_params() if "__" in known)) or "none"
            raise ValueError(
                f"{key} is no parameter of {type(estimator).__name__}: {part} is {given!r}; nested ones are: {known}"
            )
    return found


def refuse_twice(estimator: Any, part: str, *names: str) -> None:
    """Refuse parameters of an estimator that its loss or kernel object has too, unless they have their defaults."""
    owner = getattr(estimator, part)
    own = own_parameters(owner) or {}
    for name in names:
        value = getattr(estimator, name)
        if name in own and value != signature(type(estimator)).parameters[name].default:
            raise ValueError(
                f"{name} is given twice, as {name}={value!r} and in {part}={owner!r}: set it in the object, in "
                f"searches as {part}__{name}, and leave {name}= out"
            )
