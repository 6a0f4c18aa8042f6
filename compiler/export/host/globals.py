"""What the names of a host program stand for outside of its functions: operators, kernels, weights, constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from fxc.bridge.callables import operator_function
from fxc.export.host.names import UniqueNames


class Globals:
    """Objects by name. One object has one name."""

    def __init__(self) -> None:
        self.names = UniqueNames()
        self.values: dict[str, Any] = {"torch": torch}
        self.comments = dict[str, str]()
        self._known = dict[Any, str]()

    def bind(self, hint: str, value: Any, comment: str = "") -> str:
        """The name of ``value``; ``comment`` says in the program's head what it is."""
        key = repr(value) if isinstance(value, (torch.device, float, complex)) else id(value)
        name = self._known.get(key)
        if name is None:
            name = self.names.new(hint)
            self._known[key], self.values[name] = name, value
            if comment:
                self.comments[name] = comment
        return name

    def operator(self, operator: str) -> str:
        """The name of the operator ``aten.mm.out``. TargetError where this process has none of that name."""
        return self.bind(operator.removesuffix(".default").replace(".", "_"), operator_function(operator))

    def constant(self, value: Any) -> str:
        """A Python constant as text; what has no short text of its own gets a name."""
        print_one = _TEXTS.get(type(value))
        text = print_one(value) if print_one is not None else None
        return self.bind(_hint(value), value) if text is None else text


def _float(value: float) -> str | None:
    return repr(value) if math.isfinite(value) else None


_TEXTS: Mapping[type, Callable[[Any], str | None]] = MappingProxyType({
    type(None): repr,
    bool: repr,
    int: repr,
    str: repr,
    float: _float,
    type(...): lambda _: "...",
    torch.dtype: str,
    torch.layout: str,
    torch.memory_format: str,
})  # fmt: skip


def _hint(value: Any) -> str:
    """``cpu``, ``inf``: a name for what is no literal."""
    return str(getattr(value, "__name__", None) or value).replace(":", "_").replace("-", "minus_")
