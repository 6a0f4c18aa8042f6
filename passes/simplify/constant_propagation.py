"""Evaluate operations whose operands are constants.

Assumes  verified IR.
Ensures  calls on constants, and static sizes, are constants where PyTorch can compute them and ``torch.constant`` can
         hold them; numbers, strings and None are folded into their users; a ``cond`` with a constant predicate becomes
         its region, a ``while_loop`` that does not run its initial values; newly unused pure operations are erased.
Leaves   random and effectful calls; calls that raise; results of more than ``max-elements`` elements, not on the CPU or
         not contiguous; results of ``empty``; tensors that are written or returned, or share memory with such a tensor.
Cost     one walk. PyTorch is loaded only where a value must be computed.

Before:
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %n = torch.aten.sym_size.int(%x, 1) : (tensor<2x3xf32>) -> !torch.int
      %z = torch.aten.add.Tensor(%x, %y, alpha = %n) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
      func.return %z : tensor<2x3xf32>
    }
After:
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %z = torch.aten.add.Tensor(%x, %y, alpha = 3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      func.return %z : tensor<2x3xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.values import map_tree
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.text.call import CallOp
from fxc.dialects.torch_ops import HigherOrderOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.constants import Evaluation
from fxc.passes.analysis.region_calls import (
    Leaf,
    agreed_values,
    bind_constants,
    can_replace,
    initial_values,
    inline_region,
    never_runs,
    put_in_place,
    results_by_index,
    taken_region,
)
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class ConstantPropagationPass(ModulePass):
    """Evaluate operations whose operands are constants.

    A call that raises, such as an integer division by zero, is not folded and raises at run time. A tensor that is written or
    returned is computed anew in each execution.
    """

    name = "constant-propagation"

    max_elements: int = field(default=64, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            _Propagation(Evaluation(ctx, self.max_elements)).run(function.body)


class _Propagation:
    """One walk over a function, in which definitions precede uses."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.unread = list[SSAValue]()

    def run(self, body: Region) -> None:
        self.region(body)
        self.sweep()

    def region(self, region: Region) -> None:
        for block in region.blocks:
            op = block.first_op
            while op is not None:
                op = self.visit(op)

    def visit(self, op: Operation) -> Operation | None:
        """Simplify ``op``. Returns the next op to visit."""
        following = op.next_op
        if isinstance(op, ConstantOp):
            self.evaluation.learn(op.result, op.value)
        elif isinstance(op, HigherOrderOp):
            return self.higher_order(op)
        elif isinstance(op, CallOp):
            if not op.has_trait(IsTerminator):
                self.pass_constants(op)
                if (values := self.evaluation.fold(op)) is not None:
                    self.replace(op, values)
        else:
            for region in op.regions:
                self.region(region)
        return following

    def pass_constants(self, op: CallOp) -> None:
        """Fold the host constants that ``op`` reads into its arguments."""
        known = {value: constant for value in op._operands if (constant := self.evaluation.host(value)) is not None}
        if known:
            copy = op.with_trees(*map_tree(op.trees(), lambda leaf: known.get(leaf, leaf)))
            op.operands, op.properties = copy.operands, copy.properties
            copy.erase()
            self.unread += known

    def replace(self, op: Operation, values: Sequence[Attribute]) -> None:
        """Replace ``op`` by constants."""
        block = op.parent
        assert block is not None
        for result, value in zip(op.results, values, strict=True):
            constant = ConstantOp.of(value, result.type)
            constant.location = op.location
            constant.result._name = result._name
            block.insert_op_before(constant, op)
            result.replace_all_uses_with(constant.result)
            self.evaluation.learn(constant.result, value)
            self.unread.append(constant.result)
        self.unread += op.operands
        Rewriter.erase_op(op)
        count("calls folded")

    def higher_order(self, op: HigherOrderOp) -> Operation | None:
        """Replace ``op`` by the region that runs, or its results by known values.

        Known are the initial values of a loop that does not run, and each result of a ``cond`` for which both regions return
        the same value or equal constants.
        """
        self.unread += [*op.operands, *op.results]
        following, evaluation = op.next_op, self.evaluation
        if (region := taken_region(op, evaluation)) is not None and (first := inline_region(op, region)) is not None:
            evaluation.moved()
            count("conds inlined")
            return first
        if never_runs(op, evaluation):
            self.forward(op, initial_values(op, evaluation))
        bind_constants(op, evaluation)
        for region in op.regions:
            self.region(region)
        self.forward(op, agreed_values(op, evaluation))
        return following

    def forward(self, op: HigherOrderOp, leaves: Sequence[Leaf | None]) -> None:
        """Replace the results of ``op`` by values that are known without running it."""
        results = results_by_index(op)
        if results is None or len(results) != len(leaves):
            return
        for leaf, values in zip(leaves, results, strict=True):
            for value in values:
                if leaf is not None and can_replace(leaf, value):
                    new = put_in_place(leaf, value, op)
                    self.evaluation.memory(value).replaced(value, new)
                    if isinstance(new.owner, ConstantOp):
                        self.evaluation.learn(new, new.owner.value)
                    self.unread += [value, new]
                    count("results forwarded")

    def sweep(self) -> None:
        """Erase the pure ops whose results became unused."""
        while self.unread:
            op = self.unread.pop().owner
            if isinstance(op, Block) or op.parent is None or any(result.first_use is not None for result in op.results):
                continue
            if not op.has_trait(IsTerminator) and is_pure(op):
                self.unread += op.operands
                Rewriter.erase_op(op)
