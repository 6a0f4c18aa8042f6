"""Copies of the regions of a counted loop: consecutive iterations, and the condition of a later iteration."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import IntType
from fxc.dialects.attributes.values import int_attr, str_attr
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops import HigherOrderOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.matching import torch_op
from fxc.passes.analysis.region_calls import Leaf
from fxc.passes.analysis.type_joins import data_dependent, leaf_type, without_symbols
from fxc.passes.simplify.unroll_loops.counted_loops import CountedLoop


class LoopCopies:
    """Copies the regions of one loop. ``made``: the constants that the copies use.

    Data-dependent symbols that name carried numbers of the body have another value in each iteration, so copies drop them.
    """

    def __init__(self, op: HigherOrderOp, loop: CountedLoop) -> None:
        self.op, self.loop, self.body = op, loop, loop.body
        self.own = data_dependent([a.type for a in self.body.args]) - data_dependent(op.operand_types)
        self.counter = self.body.args[loop.index]
        self.made = list[ConstantOp]()

    def value(self, leaf: Leaf, type: Attribute, end: InsertPoint) -> SSAValue:
        if isinstance(leaf, SSAValue):
            return leaf
        constant = ConstantOp.of(leaf, type)
        constant.location = self.op.location
        Rewriter.insert_op(constant, end)
        self.made.append(constant)
        return constant.result

    def copy(self, values: Sequence[SSAValue], end: InsertPoint, trip: int | None = None) -> list[SSAValue]:
        """Insert a copy of the body applied to ``values``, and return its outputs. With ``trip`` a host counter is constant."""
        mapped: dict[SSAValue, SSAValue] = dict(zip(self.body.args, values, strict=True))
        counts = trip is not None and self.loop.start is not None and isinstance(self.counter.type, IntType)
        for op in list(self.body.ops)[:-1]:
            if counts and self.is_counting(op):
                continue
            Rewriter.insert_op(self.clone(op, mapped), end)
        outputs = list[SSAValue]()
        for index, leaf in enumerate(self.loop.outputs):
            if counts and index == self.loop.index:
                leaf = int_attr(self.loop.start + (trip + 1) * self.loop.step)  # type: ignore[operator]
            leaf = mapped.get(leaf, leaf) if isinstance(leaf, SSAValue) else leaf
            outputs.append(self.value(leaf, leaf_type(leaf), end))
        return outputs

    def is_counting(self, op: Operation) -> bool:
        """Whether ``op`` increments the counter, and its result has no other use."""
        output = self.loop.outputs[self.loop.index]
        assert isinstance(output, SSAValue)
        return op is output.owner and len(list(output.uses)) == 1

    def clone(self, op: Operation, mapped: dict[SSAValue, SSAValue]) -> Operation:
        copy = op.clone(mapped, clone_name_hints=False)
        for old, new in zip(op.walk(), copy.walk(), strict=True):
            new.location = old.location
            copy_names(old.results, new.results)
            for old_region, new_region in zip(old.regions, new.regions, strict=True):
                for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                    copy_names(old_block.args, new_block.args)
                    self.without_own_symbols(new_block.args)
            self.without_own_symbols(new.results)
        return copy

    def without_own_symbols(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            value._type = without_symbols(value.type, self.own.__contains__)

    def bodies(self, factor: int) -> Block:
        block = _like(self.body)
        end, values = InsertPoint.at_end(block), list[SSAValue](block.args)
        last = self.body.last_op
        assert last is not None
        for _ in range(factor - 1):
            values = [*self.copy(values, end), *values[len(self.loop.outputs) :]]
        mapped: dict[SSAValue, SSAValue] = dict(zip(self.body.args, values, strict=True))
        for op in self.body.ops:
            block.add_op(self.clone(op, mapped))
        return block

    def condition_ahead(self, factor: int) -> Block:
        """The condition of the last of the next ``factor`` iterations, which implies the others: the counter is monotonic."""
        block = _like(self.loop.condition)
        mapped: dict[SSAValue, SSAValue] = dict(zip(self.loop.condition.args, block.args, strict=True))
        old, counter = self.loop.condition.args[self.loop.index], block.args[self.loop.index]
        ahead, more = int_attr((factor - 1) * self.loop.step), {"location": self.op.location}
        if isinstance(counter.type, IntType):
            unnamed = IntType(str_attr(""))
            add: Operation = CallFunctionOp.build_call([counter, ahead], {}, [unnamed], target="operator.add", **more)
        else:
            add = torch_op("aten.add.Tensor").build_call([counter, ahead], {}, [counter.type], **more)
        block.add_op(add)
        mapped[old] = add.results[0]
        for op in self.loop.condition.ops:
            block.add_op(self.clone(op, mapped))
        if self.loop.may_wrap(factor):
            self.check_overflow(block, counter, add.results[0])
        return block

    def check_overflow(self, block: Block, counter: SSAValue, ahead: SSAValue) -> None:
        """Require in the condition that the counter does not wrap around in the next iterations."""
        last = block.last_op
        assert last is not None
        [test] = last.operands
        compare = torch_op("aten.gt.Tensor" if self.loop.step > 0 else "aten.lt.Tensor")
        moves = compare.build_call([ahead, counter], {}, [test.type], location=self.op.location)
        both = torch_op("aten.logical_and.default").build_call(
            [test, moves.results[0]], {}, [test.type], location=self.op.location
        )
        Rewriter.insert_op([moves, both], InsertPoint.before(last))
        last.operands = [both.results[0]]


def _like(block: Block) -> Block:
    """An empty block with the arguments of ``block``."""
    new = Block(arg_types=[argument.type for argument in block.args])
    copy_names(block.args, new.args)
    for old, argument in zip(block.args, new.args, strict=True):
        argument.location = old.location
    return new
