"""FX node names, module paths and Python stack traces as MLIR locations, and back, without loss.

``loc("add_1"(fused["in forward: return x + y"("model.py":12:0), "module"("layers.0"("torch.nn.modules.linear.Linear"))]))``
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, CallSiteLoc, FileLineColLoc, FusedLoc, IntAttr, NameLoc, NoneAttr, StringAttr
from xdsl.ir import Attribute, Operation

ModuleStack = tuple[tuple[str, str, str], ...]
"""``(key, path, class)`` of each module around a node, outermost first, as in ``nn_module_stack``."""

Notes = tuple[tuple[str, str], ...]
"""Other facts of a node: ``type``, its annotation, and ``wrapped``, the mark of a function that torch.fx.wrap made a leaf."""

_FRAME = re.compile(r'  File "([^"]*)", line (\d+), in ([^\n]*)\n((?:    [^\n]*\n)*)')
_NOTHING = NoneAttr()
_WHOLE = "whole"
"""Marks a trace with outer indentation and newline, as Dynamo writes it; other traces are stripped."""


@lru_cache(8192)
def node_location(name: str, trace: str | None = None, modules: ModuleStack = (), notes: Notes = ()) -> NameLoc:
    """Return the location of the node ``name`` with FX's ``stack_trace`` and ``nn_module_stack``, and with ``notes``."""
    noted = [NameLoc(StringAttr(key), NameLoc(StringAttr(text), _NOTHING)) for key, text in notes]
    parts = [*_trace_locations(trace), *_module_locations(modules), *noted]
    inner: Attribute = _NOTHING if not parts else parts[0] if len(parts) == 1 else FusedLoc(tuple(parts), _NOTHING)
    return NameLoc(StringAttr(name), inner)


def with_regions(location: Attribute, regions: Mapping[str, Attribute]) -> Attribute:
    """Add the locations of submodules that a higher-order call reads, by name, to ``location``."""
    if not regions or not isinstance(location, NameLoc):
        return location
    named = [NameLoc(StringAttr("region"), NameLoc(StringAttr(name), place)) for name, place in regions.items()]
    parts = [part for part in _parts(location) if not isinstance(part, NoneAttr)]
    return NameLoc(location.desc, FusedLoc((*parts, *named), _NOTHING))


def region_location(location: Attribute, name: str) -> Attribute | None:
    """Return the location of the submodule ``name`` that a higher-order call reads."""
    for part in _parts(location):
        inner = part.location if isinstance(part, NameLoc) and part.desc.data == "region" else None
        if isinstance(inner, NameLoc) and inner.desc.data == name:
            return inner.location
    return None


def node_name(location: Attribute) -> str | None:
    """Return the FX node name of a location, or None if it has none."""
    location = _callee(location)
    return location.desc.data if isinstance(location, NameLoc) else None


def stack_trace(location: Attribute) -> str | None:
    """Return FX's ``stack_trace``, character for character."""
    frames, whole = list[str](), False
    for part in _parts(location):
        if not isinstance(part, NameLoc):
            continue
        if part.desc.data.startswith("trace:"):
            return part.desc.data.removeprefix("trace:")
        whole = whole or part.desc.data == _WHOLE
        if part.desc.data.startswith("in ") and isinstance(part.location, FileLineColLoc):
            frames.append(_frame_text(part.desc.data.removeprefix("in "), part.location))
    text = "".join(frames)
    return (text if whole else text.strip()) if frames else None


def module_stack(location: Attribute) -> ModuleStack:
    """Return the modules around a node, outermost first."""
    return tuple(
        (part.location.desc.data, part.location.location.desc.data, part.location.location.location.desc.data)
        for part in _parts(location)
        if isinstance(part, NameLoc) and part.desc.data == "module" and isinstance(part.location, NameLoc)
        if isinstance(part.location.location, NameLoc) and isinstance(part.location.location.location, NameLoc)
    )


def node_meta(location: Attribute) -> dict[str, Any]:
    """Return ``stack_trace`` and ``nn_module_stack`` of ``location``, as the ``meta`` of a node has them."""
    stack = {key: (path, cls) for key, path, cls in module_stack(location)}
    found = {"stack_trace": stack_trace(location), "nn_module_stack": stack or None}
    return {key: value for key, value in found.items() if value is not None}


def note(location: Attribute, key: str) -> str | None:
    """Return the note ``key`` of a location, or None if it has none."""
    for part in _parts(location):
        if isinstance(part, NameLoc) and part.desc.data == key and isinstance(part.location, NameLoc):
            return part.location.desc.data
    return None


def places(op: Operation) -> str:
    """Return all locations in ``op``, in order, as text that is equal for equal locations in every process.

    Module keys, which are object addresses in some graphs, are replaced by numbers.
    """
    numbers = _Numbers()
    used = [numbers.of(location) for location in _locations(op)]
    return "\n".join([*numbers.texts, *map(str, used)])


def _locations(op: Operation) -> Iterator[Attribute]:
    for inner in op.walk():
        yield inner.location
        for region in inner.regions:
            for block in region.blocks:
                yield from (argument.location for argument in block.args)


class _Numbers:
    """Numbers equal locations equally; ``texts`` describes each in order, by the numbers of its parts."""

    def __init__(self) -> None:
        self.texts = dict[str, int]()
        self._known = dict[int, tuple[Attribute, int]]()  # by id: most are shared objects
        self._modules = dict[str, int]()

    def of(self, location: Attribute) -> int:
        known = self._known.get(id(location))
        if known is None:
            known = location, self.texts.setdefault(self._text(location), len(self.texts))
            self._known[id(location)] = known
        return known[1]

    def _text(self, location: Attribute) -> str:
        match location:
            case NameLoc(desc=StringAttr(data="module"), location=NameLoc() as module):
                number = self._modules.setdefault(module.desc.data, len(self._modules))
                return f"module {number} {self.of(module.location)}"
            case NameLoc():
                return f"{location.desc.data!r} {self.of(location.location)}"
            case FusedLoc():
                return f"{[self.of(part) for part in location.locations.data]} {self.of(location.metadata)}"  # type: ignore[attr-defined]
            case CallSiteLoc():
                return f"{self.of(location.callee)} at {self.of(location.caller)}"
            case FileLineColLoc():
                return f"{location.filename.data!r} {location.line} {location.column}"
            case _:
                return str(location)


def _parts(location: Attribute) -> tuple[Attribute, ...]:
    location = _callee(location)
    inner = location.location if isinstance(location, NameLoc) else location
    return tuple(inner.locations.data) if isinstance(inner, FusedLoc) else (inner,)  # type: ignore[attr-defined]


def _callee(location: Attribute) -> Attribute:
    while isinstance(location, CallSiteLoc):
        location = location.callee
    return location


@lru_cache(4096)
def _trace_locations(trace: str | None) -> tuple[Attribute, ...]:
    if not trace:
        return ()
    indented = trace if trace.startswith("  File") else f"  {trace}\n"
    frames = tuple(_frame(*match.groups()) for match in _FRAME.finditer(indented))
    text = "".join(_frame_text(f.desc.data.removeprefix("in "), f.location) for f in frames)  # type: ignore[arg-type]
    if text.strip() == trace:
        return frames
    if text == trace:
        return (*frames, NameLoc(StringAttr(_WHOLE), UNKNOWN_LOC))
    return (*frames, NameLoc(StringAttr("trace:" + trace), UNKNOWN_LOC))


@lru_cache(4096)
def _frame(file: str, line: str, function: str, code: str) -> NameLoc:
    lines = "\n".join(text[4:] for text in code.splitlines())
    return NameLoc(
        StringAttr(f"in {function}: {lines}" if code else f"in {function}"),
        FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(0)),
    )


def _frame_text(where: str, place: FileLineColLoc) -> str:
    function, colon, code = where.partition(": ")
    text = f'  File "{place.filename.data}", line {place.line.data}, in {function}\n'
    return text + "".join(f"    {line}\n" for line in code.split("\n")) if colon else text


@lru_cache(4096)
def _module_locations(modules: ModuleStack) -> tuple[Attribute, ...]:
    return tuple(_module_location(*module) for module in modules)


@lru_cache(4096)
def _module_location(key: str, path: str, cls: str) -> NameLoc:
    module = NameLoc(StringAttr(key), NameLoc(StringAttr(path), NameLoc(StringAttr(cls), _NOTHING)))
    return NameLoc(StringAttr("module"), module)
