"""Serialize a host program as Python text: its code, and the values of its names.

    def main(x):
        linear = aten_mm(x, p_weight)
        ...

    # the objects that the names denote
    program(
        {
            "torch": torch,
            "aten_mm": torch.mm,
            "p_weight": state["weight"],
            "kernel_0": kernels["kernel_0"],
        },
        HostFacts(launches=1, library_calls=1),
        weights=[...],
    )

Loading a text executes it: only texts from a trusted source, such as the user's cache, may be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from math import isfinite
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

import torch

from fxc.runtime.arena import ArenaPart, Arenas, Place
from fxc.runtime.host_program import HostFacts, HostProgram, KernelCode, Weight
from fxc.runtime.memory_cache import MemoryCache, memory_cache
from fxc.runtime.native_kernel import TensorSpec, expected, origin, passed

_NAMES = "\n# the objects that the names denote\n"


@dataclass(frozen=True)
class HostText:
    """The ``text`` of a host program.

    Its kernels are compiled for the CPU ``features``, or if empty for the CPU that compiled them; their symbols end in
    ``entry``.
    """

    text: str
    features: str
    entry: str


class _NoText(Exception):
    """A value exists only in the process that made it."""


def program_text(program: HostProgram, state: Mapping[str, torch.Tensor], kernels: Sequence[str]) -> str | None:
    """Return the text of ``program`` over tensors and kernels with these names; None if a value has no text."""
    write = _Writer({id(tensor): name for name, tensor in state.items()}, frozenset(kernels)).text
    try:
        names = "".join(f"        {name!r}: {write(value)},\n" for name, value in program.globals.items())
        weights = "".join(f"        {write(weight)},\n" for weight in program.weights)
        written = [name for name, value in program.globals.items() if any(value is each for each in program.written_weights)]
        arguments = [
            f"{{\n{names}    }}",
            write(program.facts),
            f"weights=[\n{weights}    ]",
            f"calls_library={program.calls_library}",
            f"written_inputs={program.written_inputs}",
            f"written_weights={written}",
            f"boxed={program.boxed}",
        ]
        listed = "".join(f"    {each},\n" for each in arguments)
        return f"{program.source}{_NAMES}program(\n{listed})\n"
    except _NoText:
        return None


def program_of(stored: HostText, state: Mapping[str, torch.Tensor], code: KernelCode) -> HostProgram:
    """Run a text that ``program_text`` made, and return the program over these tensors and the kernels in ``code``.

    KernelError if this CPU cannot run the kernels. Other texts may raise any error.
    """
    from fxc.runtime.native_code import load_stored

    kernels = load_stored(code, stored.features, stored.entry)
    source, _, names = stored.text.rpartition(_NAMES)
    tools = {"program": partial(HostProgram, source, code=code), "state": state, "kernels": kernels}
    return eval(names, {**_TOOLS, **tools})


def operator(name: str) -> Callable[..., Any]:
    """Return the implementation of an operator, such as ``aten.add.Tensor``, without a Python frame, or AttributeError."""
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)._op


def _operators() -> dict[int, str]:
    """Return the names of the operators that this process has used so far, by ``id`` of the result of ``operator``."""
    spaces = [vars(space) for space in vars(torch.ops).values() if isinstance(space, torch._ops._OpNamespace)]
    packets = [vars(each) for space in spaces for each in space.values() if isinstance(each, torch._ops.OpOverloadPacket)]
    return {id(op._op): f"{op}" for packet in packets for op in packet.values() if isinstance(op, torch._ops.OpOverload)}


_MAKERS = (Arenas, HostFacts, ArenaPart, Place, TensorSpec, Weight, expected, memory_cache, operator, passed)
_TOOLS: Mapping[str, Any] = MappingProxyType({"torch": torch} | {each.__name__: each for each in _MAKERS})
"""The names in texts other than the tensors and kernels of a program."""


class _Writer:
    """Converts values to Python text. ``state``: the names of tensors by ``id``; ``kernels``: names of machine code."""

    def __init__(self, state: Mapping[int, str], kernels: frozenset[str]) -> None:
        self.state, self.kernels, self.operators = state, kernels, _operators()

    def text(self, value: Any) -> str:
        """Return the text of ``value``. _NoText if it has none."""
        kind = value.__class__
        if id(value) in self.state:
            return f"state[{self.state[id(value)]!r}]"
        if value is torch or isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return "torch" if value is torch else str(value)
        if value is None or value is ... or kind in (bool, int, str):
            return repr(value)
        if kind is float:
            return repr(value) if isfinite(value) else f"float({str(value)!r})"
        if kind in (tuple, list):
            listed = "".join(f"{self.text(each)}, " for each in value)
            return f"({listed})" if kind is tuple else f"[{listed}]"
        if kind is torch.device:
            return f"torch.device({str(value)!r})"
        if kind is Arenas:
            return f"Arenas({value.bytes}, {self.text(value.places)})"
        if is_dataclass(value) and kind.__name__ in _TOOLS:
            return f"{kind.__name__}({', '.join(self._fields(value))})"
        if kind in (BuiltinFunctionType, FunctionType, MethodType):
            return self._function(value)
        raise _NoText

    def _fields(self, value: Any) -> Iterator[str]:
        """Yield the arguments of a data class that differ from their defaults."""
        for field in fields(value):
            given = getattr(value, field.name)
            if field.default is MISSING or given != field.default:
                yield f"{field.name}={self.text(given)}" if field.default is not MISSING else self.text(given)

    def _function(self, value: Any) -> str:
        if (made := origin(value)) is not None:
            return f"{made[0]}({', '.join(map(self.text, made[1]))})"
        if id(value) in self.operators:
            return f"operator({self.operators[id(value)]!r})"
        name, owner = value.__name__, getattr(value, "__self__", None)
        if isinstance(owner, MemoryCache):
            return f"memory_cache().{name}"
        if owner is None and value.__module__ is None and name in self.kernels:
            return f"kernels[{name!r}]"
        for path in ("torch", value.__module__ or ""):
            if path.split(".")[0] == "torch" and _at(f"{path}.{name}") is value:
                return f"{path}.{name}"
        raise _NoText


def _at(path: str) -> Any:
    """Return the value of ``torch.a.b``; None if it does not exist."""
    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found
