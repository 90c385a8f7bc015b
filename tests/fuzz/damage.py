"""Changes of whole files, for programs that look at what becomes of those who read them."""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
from fuzz_files import ODD

#: What a number of a header is changed into.
NUMBERS = (0, 1, -1, 10**6, -(10**9), 2**31, 2**63, {"float": "nan"}, 1e300)


def refilled(array: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """An array with one value, in one place or everywhere."""
    values = [0, 1, -1, 2, 10**9, -(10**9), 10**12, 2**31 - 1, -(2**31)]
    values += [np.nan, np.inf, -np.inf, 1e300, 1e-300, 0.5] if array.dtype.kind == "f" else []
    value = values[int(rng.integers(len(values)))]
    found, everywhere = array.copy(), bool(rng.random() < 0.5)
    with np.errstate(all="ignore"):
        filler = np.array(value).astype(array.dtype)
        if everywhere or not array.size:
            found[...] = filler
        else:
            found.reshape(-1)[int(rng.integers(array.size))] = filler
    return found, f"{value} {'everywhere' if everywhere else 'in one place'}"


def change_array(array: np.ndarray, others: list[np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """(An array that is not as it was, what was done to it)."""
    kind, numeric = int(rng.integers(10)), array.dtype.kind in "biuf"
    if kind < 3 and array.ndim:  # along one axis, with more of the same or less
        axis = int(rng.integers(array.ndim))
        size = array.shape[axis]
        new = int(rng.choice([0, 1, max(size - 1, 0), size + 1, 2 * size, 10 * size + 7]))
        if size == 0:
            return np.ones([max(n, 1) for n in array.shape], array.dtype), "resized from nothing"
        return np.ascontiguousarray(np.take(array, np.arange(new) % size, axis)), f"resized from {size} to {new}"
    if kind < 7 and numeric:
        return refilled(array, rng)
    if kind == 7:
        return rng.permutation(array.reshape(-1)).reshape(array.shape), "permuted"
    if kind == 8:
        other = others[int(rng.integers(len(others)))]
        return other.copy(), f"{other.dtype} of shape {other.shape}, another array"
    if numeric and array.size and rng.random() < 0.7:  # within the range of what is there
        return rng.choice(array.reshape(-1), array.shape), "drawn anew"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        dtype = str(rng.choice(["<f4", "<f8", "<i4", "<i8", "|b1", "|u1"]))
        return (array.astype(dtype), f"made {dtype}") if numeric else (array[..., None], "given a dimension")


def places(tree: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """(list or dictionary, place in it, path) of all values of a tree."""
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        yield tree, key, f"{path}/{key}"
        if isinstance(tree[key], (dict, list)):
            yield from places(tree[key], f"{path}/{key}")


def change_header(header: dict, rng: np.random.Generator) -> str:
    """Change one value of a header in place; returns what was done."""
    groups: dict[str, list[tuple[Any, Any, str]]] = {}
    for place in places({name: header[name] for name in ("random", "content", "widemargin", "kind") if name in header}):
        leaf = not isinstance(place[0][place[1]], (dict, list))
        if leaf or rng.random() < 0.1:
            groups.setdefault(re.sub(r"\d+", "#", place[2]), []).append(place)
    several = list(groups.values())[int(rng.integers(len(groups)))]
    holder, key, path = several[int(rng.integers(len(several)))]
    old = holder[key]
    if rng.random() < 0.1:
        del holder[key]
        return f"{path} dropped"
    if rng.random() < 0.05 and isinstance(holder, dict):
        holder["more"] = copy.deepcopy(old)
        return f"a key added beside {path}"
    if isinstance(old, (int, float)) and not isinstance(old, bool) and rng.random() < 0.8:
        new = [*NUMBERS, old + 1, old - 1, 2 * old, 99 * old + 7]
    elif isinstance(old, str) and rng.random() < 0.7:
        texts = sorted({str(h[k]) for h, k, _ in places(header) if isinstance(h[k], str)})
        new = [texts[int(rng.integers(len(texts)))]]
    else:
        new = [not old, *ODD]
    holder[key] = copy.deepcopy(new[int(rng.integers(len(new)))])
    return f"{path} from {old!r:.40} to {holder[key]!r:.60}"


def change(header: dict, arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """Change one thing of a file in place; returns what was done."""
    sizes = header["content"].get("parts", {}).get("sizes") if isinstance(header["content"], dict) else None
    if isinstance(sizes, list) and any(type(n) is int and n > 0 for n in sizes) and rng.random() < 0.5:
        return change_ended(arrays, sizes, rng)
    if rng.random() < 0.4 or not arrays:
        return change_header(header, rng)
    name = list(arrays)[int(rng.integers(len(arrays)))]
    arrays[name], said = change_array(arrays[name], list(arrays.values()), rng)
    return f"{name}: {said}"


def change_ended(arrays: dict[str, np.ndarray], sizes: list[int], rng: np.random.Generator) -> str:
    """Change what a checkpoint keeps of a run that has ended, which is an archive in an array."""
    at = int(rng.choice([k for k, n in enumerate(sizes) if n > 0]))
    start = sum(n for n in sizes[:at] if n > 0)
    whole = arrays["content/ended"]
    with np.load(BytesIO(whole[start : start + sizes[at]].tobytes())) as file:
        inner = {name: file[name] for name in file.files}
    header = json.loads(bytes(inner.pop("header")))
    said = change(header, inner, rng)
    buffer = BytesIO()
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **inner)
    new = np.frombuffer(buffer.getvalue(), np.uint8)
    arrays["content/ended"] = np.concatenate([whole[:start], new, whole[start + sizes[at] :]])
    sizes[at] = new.size
    return f"ended {at}: {said}"
