"""Results that Python code makes of tensors: numbers, which a graph can return, and text, for which it has no operator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from traceback import FrameSummary, extract_stack
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from xdsl.dialects.builtin import StringAttr

from fxc.bridge.location import user_line
from fxc.bridge.nesting import OUTPUTS
from fxc.dialects.attributes.values import leaves
from fxc.dialects.fx import OutputOp
from fxc.errors import CaptureError
from fxc.program.program import Program

_torch: Any = torch
FORMATS = (_torch.Tensor.__repr__, _torch.Tensor.__format__)
"""The functions that make text of a tensor."""


def _refusal(stack: Sequence[FrameSummary]) -> CaptureError:
    return CaptureError(
        "a result is text made of a tensor or of a size, and a program has no operator for text",
        place=user_line(stack),
        hint="return the tensor and format it in the caller, or use torch.compile(model, backend='fxc')",
    )


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
        return result

    def __enter__(self) -> Texts:
        for kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
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
