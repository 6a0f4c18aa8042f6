"""Check that tensors of a model and inputs of a call do not share memory in a way that a program cannot represent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from xdsl.ir import Operation, SSAValue

from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.errors import CaptureError
from fxc.export.plan_time_values import state_name
from fxc.passes.analysis.written_arguments import placed_arguments, written_arguments
from fxc.program.program import Program
from fxc.runtime.guards import PLAIN
from fxc.runtime.shared_memory import WITHOUT_SHARING, copied, elements_of, memory_range, share_bytes, starts_later


def refuse_partial_sharing(program: Program) -> None:
    """CaptureError if the program writes a tensor of the model that partially overlaps another one in memory.

    A program has no aliasing between different tensors. Two names of the same elements are one tensor.
    """
    pairs = [(first, second) for first, second, is_same in _overlapping(program.state) if not is_same]
    for first, second in _written(program, program.state, pairs):
        message = f"{first!r} and {second!r} share a part of their memory, and the model writes there"
        hint = f"register one, and compute the other from it in forward; or register a copy: {second} = {second}.clone()"
        raise CaptureError(message, hint=hint) from NotImplementedError(message)


def refuse_shared_inputs(program: Program, leaves: Sequence[Any] | None) -> None:
    """CaptureError if an input shares memory with another input or a tensor of the model, and the program writes one of them.

    A program assumes that inputs do not alias. ``leaves``: the inputs of the example call.
    """
    given = (argument for argument in program.main.args if state_name(program, argument) is None)
    inputs = {_name(program, argument): leaf for argument, leaf in zip(given, leaves or ()) if type(leaf) in PLAIN}
    tensors = {**program.state, **inputs}
    pairs = [(first, second) for first, second, _ in _overlapping(tensors) if first in inputs or second in inputs]
    for first, second in _written(program, tensors, pairs):
        message = f"the input {second!r} shares memory with {first!r}, and the model writes there"
        raise CaptureError(message, hint=WITHOUT_SHARING) from NotImplementedError(message)


def refuse_later_starts(program: Program, leaves: Sequence[Any] | None) -> None:
    """CaptureError if a tensor has a storage offset and the program counts offsets from the start of its storage.

    A program assumes that the storage offset is 0, of written tensors and of copies that retain it. ``leaves``: the inputs of
    the example call.
    """
    if not (placed := placed_arguments(program.module, program.main)):
        return
    written = written_arguments(program.main, or_returned=False)
    if views := placed - set(program.main.args):
        op = next(iter(views)).owner
        assert isinstance(op, Operation)
        message, hint = starts_later(f"the result of {op.name.removeprefix('torch.')}", "scatter into a copy of it, .clone()")
        raise CaptureError(message, hint=hint, op=op_text(op), place=place_of(op)) from NotImplementedError(message)
    given = (argument for argument in program.main.args if state_name(program, argument) is None)
    tensors = {**program.state, **{_name(program, argument): leaf for argument, leaf in zip(given, leaves or ())}}
    for argument in program.main.args:
        name = _name(program, argument)
        tensor = tensors.get(name)
        if argument in placed and isinstance(tensor, torch.Tensor) and (offset := tensor.storage_offset()):
            is_state = name in program.state
            way = f"register a copy, {name}.clone()" if is_state else copied(name.removeprefix("%"), argument in written)
            message, hint = starts_later(repr(name), way, offset)
            raise CaptureError(message, hint=hint) from NotImplementedError(message)


def placed_state(program: Program) -> set[str]:
    """The names of the model's tensors that must have storage offset 0."""
    placed = placed_arguments(program.module, program.main) & set(program.main.args)
    return {name for argument in placed if (name := state_name(program, argument)) is not None}


def written_state(program: Program) -> set[str]:
    """The names of the model's tensors that ``program`` may write."""
    return {name for argument in written_arguments(program.main) if (name := state_name(program, argument)) is not None}


def _name(program: Program, argument: SSAValue) -> str:
    return state_name(program, argument) or f"%{argument._name or argument.index}"  # type: ignore[attr-defined]


def _written(program: Program, tensors: Mapping[str, torch.Tensor], pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The ``pairs`` of tensors that overlap in memory and of which ``program`` may write at least one."""
    arguments = written_arguments(program.main, or_returned=False) if pairs else ()
    written = {_name(program, argument) for argument in arguments}
    for first, second in pairs:
        if (first in written or second in written) and share_bytes(tensors[first], tensors[second]):
            yield first, second


def _overlapping(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, str, bool]]:
    """Pairs of tensor names that share a storage and whose byte ranges overlap, and whether both have the same elements."""
    stored = defaultdict[int, list[str]](list)
    for name, tensor in tensors.items():
        has_memory = tensor.layout == torch.strided and tensor.numel() and not tensor._is_zerotensor()
        if has_memory and (start := tensor.untyped_storage().data_ptr()):
            stored[start].append(name)
    for names in stored.values():
        for first, second in combinations(names, 2):
            a, b = tensors[first], tensors[second]
            (a_start, a_end), (b_start, b_end) = memory_range(a), memory_range(b)
            if a_start < b_end and b_start < a_end:
                yield first, second, elements_of(a) == elements_of(b)
