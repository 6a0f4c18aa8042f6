"""Select the fastest strategy for a call by measuring small programs that contain only the call."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import enum_attr, str_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.library.freeze_parameters import FreezeParametersPass
from fxc.passes.library.packings import Packed, Strategy, product_into_argument
from fxc.passes.rewriting.functions import copy_op
from fxc.passes.rewriting.insertion import insert_call


class Choices:
    """Selects strategies for calls. Equal calls are measured once.

    The strategy with the least time is best. With a ``gain`` above 1, a later strategy is better than an earlier
    one if it takes less than ``gain`` times its time. The best one is used if it takes less than ``gain`` of the time of the
    original calls. Computations on ``own`` values only are not part of the time.
    """

    def __init__(self, ctx: FxcContext, gain: float, own: Set[SSAValue] = frozenset()) -> None:
        self._ctx, self._gain, self._own = ctx, gain, own
        self._measured_calls, self._structures = dict[Hashable, _Measured | None](), Structures()

    def take(self, ops: Sequence[TorchOp], strategies: Sequence[Strategy]) -> bool:
        """Replace ``ops``, a call and its fusible users, by the best of ``strategies``. False if none is faster."""
        return self.take_all([ops], strategies) == 1

    def take_all(self, calls: Sequence[Sequence[TorchOp]], strategies: Sequence[Strategy]) -> int:
        """Replace all of ``calls`` or none, by the sum of their times, since all share one layout of images.

        Returns the number of replaced calls.
        """
        found = [(ops, best) for ops in calls if (best := self._best_of(ops, strategies)) is not None]
        if sum(best.time for _, best in found) >= self._gain * sum(best.before for _, best in found):
            return 0
        return sum(self.put(ops, [best.strategy, *strategies]) for ops, best in found)

    def put(self, ops: Sequence[TorchOp], strategies: Sequence[Strategy]) -> bool:
        """Replace ``ops`` by the first of ``strategies`` that applies: a sum may have been fused into another call before."""
        for strategy in strategies:
            if (packed := strategy(self._ctx, ops[0])) is not None:
                _replace(self._ctx, ops, packed)
                return True
        return False

    def _best_of(self, ops: Sequence[TorchOp], strategies: Sequence[Strategy]) -> _Measured | None:
        key = tuple(self._structures.key(op) for op in ops)
        if key not in self._measured_calls:
            self._measured_calls[key] = self._measured(ops, strategies)
        return self._measured_calls[key]

    def _measured(self, ops: Sequence[TorchOp], strategies: Sequence[Strategy]) -> _Measured | None:
        candidates = {
            strategy: candidate
            for strategy in strategies
            if (candidate := _candidate(self._ctx, ops, self._own, strategy)) is not None
        }
        times = self._ctx.times([_unchanged(self._ctx, ops, self._own), *candidates.values()]) if candidates else None
        if times is None:
            return None
        best, bound = None, math.inf
        for strategy, time in zip(candidates, times[1:], strict=True):
            if time < bound:
                best, bound = _Measured(strategy, times[0], time), max(self._gain, 1.0) * time
        return best


@dataclass(frozen=True)
class _Measured:
    """The best strategy, and the times in milliseconds of the original calls and of it."""

    strategy: Strategy
    before: float
    time: float


def _replace(ctx: FxcContext, ops: Sequence[TorchOp], packed: Packed) -> None:
    """Replace ``ops`` by ``packed``, converted to the layout of the original result."""
    old, value = packed.replaced.results[0], packed.value
    if value.type != old.type:
        formats = {"memory_format": enum_attr("contiguous_format")}
        value = insert_call(ctx, "aten.clone.default", [value], packed.replaced, formats)
    value._name = old._name
    old.replace_all_uses_with(value)
    _erase(ops, packed)


def _erase(ops: Sequence[Operation], packed: Packed) -> None:
    """Erase those of ``ops`` that ``packed`` replaces."""
    for op in reversed(ops[: ops.index(packed.replaced) + 1]):
        Rewriter.erase_op(op)


def program_of(ops: Sequence[TorchOp], results: Sequence[SSAValue], own: Set[SSAValue]) -> ModuleOp:
    """A program that contains only ``ops`` and returns their ``results``."""
    inside = {result for op in ops for result in op.results}
    operands = [value for value in dict.fromkeys(value for op in ops for value in op.operands) if value not in inside]
    block = Block(arg_types=[value.type for value in operands])
    copies: dict[SSAValue, SSAValue] = dict(zip(operands, block.args, strict=True))
    block.add_ops([copy_op(op, copies) for op in ops])
    block.add_op(ReturnOp(*(copies[result] for result in results)))
    kinds = ["parameter" if value in own else "input" for value in operands]
    marks = ArrayAttr([_argument_attributes(kind, i) for i, kind in enumerate(kinds)])
    types = [value.type for value in operands], [result.type for result in results]
    return ModuleOp([FuncOp("main", types, Region(block), arg_attrs=marks)])


def _alone(ops: Sequence[TorchOp], own: Set[SSAValue]) -> ModuleOp:
    return program_of(ops, [ops[-1].results[0]], own)


def _unchanged(ctx: FxcContext, ops: Sequence[TorchOp], own: Set[SSAValue]) -> ModuleOp:
    """The program of the original ``ops``, in which a product writes to preallocated memory, as in a plan.

    Products of other libraries allocate their results in each call.
    """
    module = _alone(ops, own)
    [main] = module.ops
    assert isinstance(main, FuncOp) and main.arg_attrs is not None
    block = main.body.block
    first = next(op for op in block.ops if isinstance(op, TorchOp))
    if (packed := product_into_argument(ctx, first)) is None:
        return module
    first.results[0].replace_all_uses_with(packed.value)
    Rewriter.erase_op(first)
    main.properties["arg_attrs"] = ArrayAttr([*main.arg_attrs.data, _argument_attributes("input", len(block.args) - 1)])
    main.function_type = FunctionType.from_lists(block.arg_types, main.function_type.outputs.data)
    return module


def _argument_attributes(kind: str, index: int) -> DictionaryAttr:
    return DictionaryAttr({"fx.kind": str_attr(kind), "fx.name": str_attr(f"x{index}")})


def _candidate(ctx: FxcContext, ops: Sequence[TorchOp], own: Set[SSAValue], strategy: Strategy) -> ModuleOp | None:
    """The program of ``ops`` by ``strategy``, with inputs and results in the layouts that it expects."""
    module = _alone(ops, own)
    [main] = module.ops
    assert isinstance(main, FuncOp)
    copies = [op for op in main.body.block.ops if isinstance(op, TorchOp)]
    try:
        packed = strategy(ctx, copies[0])
    except VerifyException:  # PyTorch rejects it
        return None
    if packed is None:
        return None
    packed.replaced.results[0].replace_all_uses_with(packed.value)
    _erase(copies, packed)
    for op in list(main.body.block.ops):
        if op.name == "torch.aten.clone.default" and isinstance(argument := op.operands[0], BlockArgument):
            argument = Rewriter.replace_value_with_new_type(argument, op.results[0].type)
            op.results[0].replace_all_uses_with(argument)
            Rewriter.erase_op(op)
    block = main.body.block
    assert isinstance(block.last_op, ReturnOp)
    main.function_type = FunctionType.from_lists(block.arg_types, block.last_op.operand_types)
    FreezeParametersPass().apply(ctx, module)
    return module
