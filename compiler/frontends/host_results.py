"""Results that Python code makes of tensors: numbers, which a graph can return, and text, for which it has no operator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from sys import _getframe as getframe
from traceback import FrameSummary, extract_stack
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from xdsl.dialects.builtin import StringAttr

from fxc.bridge.nesting import OUTPUTS
from fxc.bridge.values import SYMBOLIC_NUMBERS
from fxc.dialects.attributes.values import leaves
from fxc.dialects.fx import OutputOp
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.unrecorded import Unrecorded
from fxc.frontends.user_lines import user_line
from fxc.program.program import Program

_torch: Any = torch
FORMATS = (_torch.Tensor.__repr__, _torch.Tensor.__format__)
"""The functions that make text of a tensor."""


def _refusal(stack: Sequence[FrameSummary], what: str = "a result is text made of a tensor or of a size") -> CaptureError:
    message = f"{what}, and a program has no operator for text"
    hint = f"return the tensor and format it in the caller, or use {TORCH_COMPILE}"
    error = CaptureError(message, place=user_line(stack), hint=hint)
    error.__cause__ = Unrecorded(message)
    return error


class Text(str):
    """Text of a tensor or of its element, which may be printed. CaptureError where the model computes with it."""

    __slots__ = ()


def _refuse(*_: Any) -> Any:
    raise _refusal(extract_stack(), "the model computes with text made of a tensor")


for _name in (
    *(
        "__len__",
        "__iter__",
        "__getitem__",
        "__contains__",
        "__hash__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__eq__",
        "__ne__",
    ),
    *("count", "find", "rfind", "index", "rindex", "startswith", "endswith", "encode"),
    *("split", "rsplit", "partition", "rpartition", "splitlines"),
):
    setattr(Text, _name, _refuse)


class Texts(TorchFunctionMode):
    """Records the text that is made of tensors and of symbolic numbers in this context."""

    def __init__(self) -> None:
        super().__init__()
        self._made = dict[str, Sequence[FrameSummary]]()
        self._patches = ExitStack()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in FORMATS:
            self._made[result] = extract_stack()
            return Text(result)
        return result

    def __enter__(self) -> Texts:
        for kind in SYMBOLIC_NUMBERS:
            self._patches.enter_context(patch.object(kind, "__repr__", self._recorded(kind.__repr__)))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.close()

    def _recorded(self, plain: Any) -> Any:
        def text_of(number: Any) -> str:
            text = plain(number)
            if any(map(str.isalpha, text)):  # else a known number
                self._made[text] = extract_stack()
                # Whether number depends on an element of a tensor; a size may be a key of a dictionary as text.
                from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

                if free_unbacked_symbols(number) and not _is_in_torch(getframe(1)):
                    return Text(text)
            return text

        return text_of

    def refuse_results(self, program: Program) -> None:
        """CaptureError if recorded text is part of a string among the results of ``program``, or of a key."""
        output, strings = program.main.body.block.last_op, [str(program.main.attributes.get(OUTPUTS))]
        assert isinstance(output, OutputOp)
        strings += [leaf.data for leaf in leaves(output.trees()[0]) if isinstance(leaf, StringAttr)]
        for text, stack in self._made.items():
            if any(text in string for string in strings):
                raise _refusal(stack)


def _is_in_torch(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("torch", "sympy")


class Number:
    """A number of a graph, without its value, so that only the graph can compute with it."""

    def __repr__(self) -> str:
        raise _refusal(extract_stack())


class Output(torch.Tensor):
    """A tensor that a graph returns: its ``item()`` is a Number, and it has no text."""

    __torch_function__: Any = _torch._C._disabled_torch_function_impl

    number: Number | None = None

    def item(self) -> Any:
        self.number = self.number or Number()
        return self.number

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        raise _refusal(extract_stack())

    def __format__(self, format_spec: str) -> str:
        raise _refusal(extract_stack())


def stand_in(value: Any) -> Any:
    """An object that stands for the result ``value`` of a graph where Python handles it: no other object is identical to it."""
    return value.as_subclass(Output) if isinstance(value, torch.Tensor) else Number()
