"""Export ops of the ``plan`` level to FX nodes: allocations, kernel launches, copies. A release has no node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import add, mul
from types import MappingProxyType
from typing import Any

import torch
from xdsl.dialects.builtin import TensorType

from fxc.bridge.values import torch_dtype
from fxc.codegen.contract import KernelLaunch
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import Steps, sizes_of, strides_of
from fxc.dialects.attributes.types import IntType, tensor_of
from fxc.dialects.plan import AllocOp, ArenaOp, ArenaType, BringOp, FreeOp, LaunchOp, RecordOp, ViewOp, WaitOp
from fxc.dialects.target import target_of
from fxc.export.module_tree import set_module
from fxc.runtime.arena import Place
from fxc.runtime.cuda_graphs import Streams

Rule = Callable[[Any, Any], None]
"""Adds an op to the graph that a body of ``fxc.export.fx`` builds."""


def _arena(body: Any, op: ArenaOp) -> None:
    type = op.arena.type
    assert isinstance(type, ArenaType)
    arguments = {"dtype": torch.uint8, "device": torch.device(type.device.data)}
    body.env[op.arena] = body.create("call_function", torch.empty, (type.bytes.data,), arguments, "arena", op.location)


def _alloc(body: Any, op: AllocOp) -> None:
    type = op.buffer.type
    if isinstance(type, ArenaType):
        given = (body.env[op.arena], 0, op.start(), op.needed())
        body.env[op.buffer] = body.create("call_function", torch.narrow, given, {}, op.buffer._name, op.location)
        return
    sizes, strides, dtype = _layout(body, op, type)
    if op.arena is not None:
        arguments: Any = (body.env[op.arena], op.start(), dtype, sizes, strides)
        target, options = buffer_in, {}
    else:
        arguments, target = (sizes, strides), torch.empty_strided
        options = {"dtype": dtype, "device": torch.device(types.device(type))}
    body.env[op.buffer] = body.create("call_function", target, arguments, options, op.buffer._name, op.location)


def _layout(body: Any, op: AllocOp | ViewOp, type: TensorType) -> tuple[tuple[Any, ...], tuple[Any, ...], torch.dtype]:
    """Sizes, strides and dtype of ``type``. Dynamic sizes and strides are computed from the operands of the allocation."""
    numbers = {number.type.expression.data: body.env[number] for number in op.operands if isinstance(number.type, IntType)}
    sizes, strides = (
        tuple(_number(body, number, numbers) for number in numbers_of(type)) for numbers_of in (sizes_of, strides_of)
    )
    return sizes, strides, torch_dtype(type.element_type)


def _number(body: Any, number: Steps, numbers: Mapping[str, Any]) -> Any:
    """``number`` as a node; ``numbers`` maps the names in it to nodes."""
    if isinstance(number, int):
        return number

    def apply(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        return body.create("call_function", function, (a, b), {}, None, None)

    products = [reduce(partial(apply, mul), [numbers[name] for name in names], factor) for names, factor in number.terms]
    return reduce(partial(apply, add), products)


def _view(body: Any, op: ViewOp) -> None:
    sizes, strides, _ = _layout(body, op, tensor_of(op.result))
    given = (body.env[op.source], sizes, strides)
    body.env[op.result] = body.create("call_function", torch.as_strided, given, {}, op.result._name, op.location)


def buffer_in(
    arena: torch.Tensor, offset: int, dtype: torch.dtype, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> torch.Tensor:
    """The tensor at byte ``offset`` of ``arena``."""
    return Place(offset, dtype, sizes, strides).within(arena)  # type: ignore[return-value]


def _launch(body: Any, op: LaunchOp) -> None:
    base = op.callee.root_reference.data
    name, count = base, 0
    while hasattr(body.root, name):
        count += 1
        name = f"{base}_{count}"
    set_module(body.root, name, KernelLaunch(op, target_of(body.exporter.program.module)))
    body.create("call_module", name, [body.env[value] for value in op.operands], {}, base, op.location)


def _bring(body: Any, op: BringOp) -> None:
    arguments = (body.env[op.source], torch.device(types.device(tensor_of(op.result))))
    body.env[op.result] = body.create("call_method", "to", arguments, {}, op.result._name, op.location)


def _record(body: Any, op: RecordOp) -> None:
    body.env[op.event] = body.create("call_function", _STREAMS.record, (op.stream.value.data,), {}, "event", op.location)


def _wait(body: Any, op: WaitOp) -> None:
    body.create("call_function", _STREAMS.wait, (body.env[op.event], op.stream.value.data), {}, None, op.location)


_STREAMS = Streams()

PLAN_NODES: Mapping[type, Rule] = MappingProxyType({
    ArenaOp: _arena,
    AllocOp: _alloc,
    ViewOp: _view,
    LaunchOp: _launch,
    FreeOp: lambda body, op: None,
    BringOp: _bring,
    RecordOp: _record,
    WaitOp: _wait,
})  # fmt: skip
"""Op class -> the function that adds its node."""
