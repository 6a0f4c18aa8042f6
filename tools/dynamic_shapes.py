"""``--dynamic-shapes``: which sizes are free, as text or JSON.

``x:0=batch,1=seq[2..512]`` frees dimensions 0 and 1 of input ``x``; ``{"x": {"0": "batch"}, "cache": [null, {"0": "batch"}]}``
says the same for inputs of any nesting. Equal names are equal sizes; ``auto`` leaves the name to PyTorch.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from typing import Any, cast

from fxc.errors import InputError, nearest

_DIM = re.compile(r"([A-Za-z_]\w*)(?:\[(\d*)\.\.(\d*)\])?")


def parse_dynamic_shapes(texts: Sequence[str], model: Any, args: Sequence[Any]) -> dict[str, Any] | None:
    """As torch.export takes it: an entry for every argument. InputError where the text or a name is wrong."""
    if not texts:
        return None
    forward = model.forward if hasattr(model, "forward") else model
    try:
        names = list(inspect.signature(forward).bind(*args).arguments)
    except TypeError as error:
        raise InputError(f"the example inputs do not fit the model: {error}") from error
    dims = dict[str, Any]()
    given = dict[str, Any]()
    for text in texts:
        entries = _json(text) if text.lstrip().startswith("{") else dict(map(_entry, filter(None, text.split(";"))))
        for name, entry in entries.items():
            if name not in names:
                raise InputError(f"the model has no input {name!r}", hint=nearest(name, names) or f"inputs: {', '.join(names)}")
            given[name] = _shapes(entry, dims)
    return {name: given.get(name) for name in names}


def _json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"--dynamic-shapes is not JSON: {error}", hint='write {"x": {"0": "batch"}}') from error


def _entry(text: str) -> tuple[str, Any]:
    name, colon, rest = text.strip().partition(":")
    parts = [part.partition("=") for part in re.split(r",(?![^\[]*\])", rest)]
    if not colon or not all(axis.strip().isdigit() and dim for axis, _, dim in parts):
        raise InputError(f"--dynamic-shapes {text} is malformed", hint="write x:0=batch, or x:0=batch,1=seq[2..512]")
    return name.strip(), {axis.strip(): dim for axis, _, dim in parts}


def _shapes(entry: Any, dims: dict[str, Any]) -> Any:
    """An entry with its names as torch.export's dimensions: axes as a dict, nested inputs as a list."""
    if entry is None:
        return None
    if isinstance(entry, list):
        return tuple(_shapes(element, dims) for element in cast(list[Any], entry))
    if isinstance(entry, dict):
        entries = cast(dict[str, Any], entry)
        if all(key.isdigit() for key in entries):
            return {int(axis): _dim(dim, dims) for axis, dim in entries.items() if dim is not None}
        return {key: _shapes(element, dims) for key, element in entries.items()}
    raise InputError(f"--dynamic-shapes: {entry!r} is neither axes nor nested axes", hint='write {"0": "batch"}')


def _dim(text: Any, dims: dict[str, Any]) -> Any:
    from torch.export import Dim

    if text in ("auto", "dynamic"):
        return Dim.AUTO if text == "auto" else Dim.DYNAMIC
    found = _DIM.fullmatch(str(text).strip())
    if found is None:
        raise InputError(f"--dynamic-shapes: {text!r} is not a size name", hint="write batch, batch[2..64] or auto")
    name, low, high = found.groups()
    if name not in dims or low or high:
        dims[name] = Dim(name, min=int(low) if low else None, max=int(high) if high else None)
    return dims[name]
