"""Unroll counted loops.

Assumes  verified IR; best after ``lower-simple-tuples`` and ``constant-propagation``, before ``canonicalize,cse,dce``.
Ensures  a counted ``while_loop`` (``counted_loops.py``) with a body of at most ``max-body`` operations is replaced by
         copies of its body if its number of iterations is known and at most ``max-trips``, else by a loop of ``factor``
         copies and one for the rest, marked ``fx.unrolled``. The order of effects stays. Idempotent.
Leaves   loops that are not counted, whose body writes to memory, or whose types change between iterations; unused
         results of the body (``dce``).
Cost     one walk, and the copies. PyTorch is loaded where the start is computed, as by ``zeros([])``.

Before:
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), ()) ({
      ^bb0(%i: !torch.int, %a: tensor<4xf32>):
        %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
        fx.output(%c) : (!torch.bool) -> ()
      }, {
      ^bb0(%i: !torch.int, %a: tensor<4xf32>):
        %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
        %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
      }) : (tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
      func.return %r : tensor<4xf32>
    }
After:
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %b = torch.aten.tanh.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %b_1 = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %b_1 : tensor<4xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import BoolType, FloatType, IntType, is_tensor
from fxc.dialects.attributes.values import RegionAttr, int_attr, str_attr
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops import HigherOrderOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.constants import Evaluation
from fxc.passes.analysis.region_calls import WHILE_LOOP, Leaf, can_replace, initial_values, put_in_place, results_by_index
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.type_joins import data_dependent, leaf_type, without_symbols
from fxc.passes.simplify.unroll_loops.counted_loops import CountedLoop, counted_loop

UNROLLED = "fx.unrolled"
_SCALARS = (IntType, FloatType, BoolType)


@dataclass(frozen=True)
class UnrollLoopsPass(ModulePass):
    name = "unroll-loops"

    max_trips: int = field(default=63, metadata={"minimum": 0, "maximum": 4096})
    max_body: int = field(default=32, metadata={"minimum": 0})
    factor: int = field(default=8, metadata={"minimum": 1, "maximum": 1024})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        loops = [inner for inner in op.walk() if isinstance(inner, HigherOrderOp) and inner.operator == WHILE_LOOP]
        for loop in reversed(loops):  # the walk visits outer loops first
            if UNROLLED in loop.attributes:
                continue
            evaluation = Evaluation(ctx, max_elements=1)
            counted = counted_loop(loop, evaluation)
            if counted is None or sum(map(_runs, counted.body.walk())) > self.max_body:
                continue
            unroller = _Unroller(loop, counted)
            if counted.trips == 0:
                unroller.drop(initial_values(loop, evaluation))
            elif counted.trips is not None and counted.trips <= self.max_trips:
                unroller.repeat(counted.trips)
            elif self.factor > 1:
                unroller.split(self.factor)


def _runs(op: Operation) -> bool:
    return not isinstance(op, ConstantOp) and not op.has_trait(IsTerminator)


class _Unroller:
    """Replaces one loop. Inner loops are replaced before outer ones. ``made``: the constants that the copies use.

    Where a tensor counter may wrap around, the number of iterations is unknown. Data-dependent symbols that name carried
    numbers of the body have another value in each iteration, so copies drop them.
    """

    def __init__(self, op: HigherOrderOp, loop: CountedLoop) -> None:
        self.op, self.loop, self.body = op, loop, loop.body
        self.own = data_dependent([a.type for a in self.body.args]) - data_dependent(op.operand_types)
        self.counter = self.body.args[loop.index]
        self.made = list[ConstantOp]()

    def drop(self, values: Sequence[Leaf | None]) -> None:
        """Replace the results of a loop that does not run by copies of its initial values."""
        results = results_by_index(self.op)
        if results is None or len(results) != len(values):
            return
        pairs = [(leaf, value) for leaf, found in zip(values, results, strict=True) for value in found]
        if all(leaf is not None and can_replace(leaf, value) for leaf, value in pairs):
            for leaf, value in pairs:
                assert leaf is not None
                put_in_place(leaf, value, self.op)
            self.erase()

    def repeat(self, trips: int) -> None:
        """Replace the loop by ``trips`` copies of the body."""
        results = results_by_index(self.op)
        if results is None or len(results) != len(self.loop.outputs) or not self.types_are_stable():
            return
        named = [leaf for leaf in self.loop.outputs if isinstance(leaf, SSAValue) and isinstance(leaf.type, _SCALARS)]
        if len(set(named)) != len(named) or not all(map(self.can_be, self.loop.outputs, results)):
            return
        block = self.op.parent
        assert block is not None
        end = InsertPoint.before(self.op)
        values = [self.value(leaf, leaf_type(leaf), end) for leaf in self.loop.inputs]
        carried = len(self.loop.outputs)
        for trip in range(trips):
            values = [*self.copy(values, end, trip), *values[carried:]]
        for value, found in zip(values, results, strict=False):
            for result in found:
                if value.type != result.type:
                    value._type = result.type
                result.replace_all_uses_with(value)
        self.erase()
        for constant in self.made:
            if constant.result.first_use is None:
                Rewriter.erase_op(constant)
        count("loops unrolled")

    def split(self, factor: int) -> None:
        """Replace the loop by one of ``factor`` iterations at a time, followed by the original loop for the rest."""
        (condition, body, first, *rest), _ = self.op.trees()
        if not self.types_are_stable() or type(first) not in (list, tuple) or len(first) != len(self.loop.outputs):
            return
        names = [RegionAttr(StringAttr(f"{name.target.data}_by_{factor}")) for name in (condition, body)]
        types = [without_symbols(argument.type, self.own.__contains__) for argument in self.body.args[: len(first)]]
        regions = [Region(self.condition_ahead(factor)), Region(self.bodies(factor))]
        mark: dict[str, Attribute] = {UNROLLED: UnitAttr()}
        main = type(self.op).build_call(
            [*names, first, *rest], {}, types, regions=regions, attributes=mark, location=self.op.location
        )
        Rewriter.insert_op(main, InsertPoint.before(self.op))
        tail = self.op.with_trees([condition, body, type(first)(main.results), *rest], {})
        tail.attributes |= mark
        Rewriter.insert_op(tail, InsertPoint.before(self.op))
        for old, new in zip(self.op.results, tail.results, strict=True):
            old.replace_all_uses_with(new)
        self.op.detach()
        self.op.erase()
        count("loops split")

    # copies of the regions

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

    # types

    def types_are_stable(self) -> bool:
        """Whether the initial values and the outputs of each iteration have the types that the body takes."""
        arguments = self.body.args
        pairs = [*zip(self.loop.inputs, arguments, strict=True), *zip(self.loop.outputs, arguments, strict=False)]
        return all(self.fits(leaf_type(leaf), argument.type) for leaf, argument in pairs)

    def fits(self, type: Attribute, expected: Attribute) -> bool:
        if isinstance(expected, _SCALARS):
            return isinstance(type, expected.__class__)
        own = is_tensor(expected) and not data_dependent([expected]).isdisjoint(self.own)
        return type == expected and not own

    def can_be(self, leaf: Leaf, results: Sequence[SSAValue]) -> bool:
        """Whether ``leaf``, an output of the last copy, can replace ``results``. A new number may take their symbolic type."""
        fresh = not isinstance(leaf, SSAValue) or isinstance(leaf.owner, Operation)
        types = {result.type for result in results}
        same = types <= {leaf_type(leaf)}
        return same or (
            fresh and len(types) == 1 and all(isinstance(t, _SCALARS) and self.fits(leaf_type(leaf), t) for t in types)
        )

    def erase(self) -> None:
        """Erase the loop and the selections from its packed result, which are unused."""
        for result in self.op.results:
            _erase_readers(result)
        Rewriter.erase_op(self.op)


def _erase_readers(value: SSAValue) -> None:
    for use in list(value.uses):
        assert is_pure(use.operation)
        _erase_readers(use.operation.results[0])
        Rewriter.erase_op(use.operation)


def _like(block: Block) -> Block:
    """An empty block with the arguments of ``block``."""
    new = Block(arg_types=[argument.type for argument in block.args])
    copy_names(block.args, new.args)
    for old, argument in zip(block.args, new.args, strict=True):
        argument.location = old.location
    return new
