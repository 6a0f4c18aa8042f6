"""fuse: gather pointwise ops into groups that one kernel may compute.

Assumes:    the torch level, one result a value (lower-simple-tuples).
Guarantees: a ``fusion.group`` holds at least two ops of one block and one device: pointwise operators of tensors, floats and
            constants that draw nothing and write nothing. A group grows from a consumer to its producers, the last first,
            until none fits: where that makes no cycle with what stays outside, moves past no write and no other op with a
            side effect than a draw, and leaves at most 128 inputs and outputs. Then an ``aten.cat`` of tensors of one type
            and shape takes in its producers: it is the last op of its group, reads nothing that is broadcast for it, and
            nothing that reads it is in a group with it. Then ``aten.chunk`` and ``aten.split`` into equal pieces move in
            where one group alone reads all the pieces, one for each tensor that is cut. What others read of a group is its
            result; numbers that it reads are copied into it. Running it again changes nothing.
Keeps:      lone ops; the arithmetic, op by op; random ops and the order of draws; ops with an integer operand that is not
            constant; ops of sparse tensors; concatenations of different shapes, chunks of unequal pieces. A chunk between
            pointwise ops stays between two groups, and a result that only a size query reads is one, where TorchScript
            rewrites both.
Cost:       a bit set of ancestors for each op; quadratic in the ops of a group.

Before:
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) {
      %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %b = torch.aten.mul.Tensor(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %c = torch.aten.sigmoid.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output((%c, %a)) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) {
      %a, %c = fusion.group ({
        %p = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %b = torch.aten.mul.Tensor(%p, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %q = torch.aten.sigmoid.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
        fusion.yield %p, %q : tensor<4xf32>, tensor<4xf32>
      }) -> (tensor<4xf32>, tensor<4xf32>)
      fx.output((%c, %a)) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fxc.dialects.effects import is_pure, is_random, writes
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.passes._constants import is_constant
from fxc.passes._fusion import Groups, is_host_constant, outputs
from fxc.passes._statistics import count
from fxc.passes.autodiff._functions import copy_op


@dataclass(frozen=True)
class FusePass(ModulePass):
    name = "fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in list(_blocks(op)):
            for run in list(_runs(block)):
                _fuse(block, run)


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks in ``op``, those of groups left out."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if not isinstance(inner, GroupOp):
                    yield from _blocks(inner)


def _runs(block: Block) -> Iterator[list[Operation]]:
    """The ops between those past which nothing may move, constants apart."""
    run = list[Operation]()
    for op in block.ops:
        if op.has_trait(IsTerminator) or not (is_pure(op) or (is_random(op) and writes(op) == [])):
            yield run
            run = []
        elif not is_constant(op):
            run.append(op)
    yield run


def _fuse(block: Block, run: Sequence[Operation]) -> None:
    groups = Groups(run)
    found = groups.groups()
    if not found:
        return
    anchor = run[-1].next_op
    pieces = groups.order(found)
    for op in run:
        op.detach()
    for piece in pieces:
        ops = [_group(piece)] if len(piece) > 1 else piece
        if anchor is None:
            block.add_ops(ops)
        else:
            block.insert_ops_before(ops, anchor)


def _group(members: Sequence[Operation]) -> GroupOp:
    """A group of ``members``, which are detached; others read its results in place of theirs."""
    given, body, copies = outputs(members), Block(), dict[SSAValue, SSAValue]()
    for op in members:
        for index, value in enumerate(op.operands):
            if is_host_constant(value):
                if value not in copies:
                    assert isinstance(value.owner, Operation)
                    body.add_op(copy_op(value.owner, copies))
                op.operands[index] = copies[value]
        body.add_op(op)
    body.add_op(YieldOp.of(given))
    group = GroupOp.of(Region(body))
    group.location = members[0].location
    inside = {*members, body.last_op}
    for old, new in zip(given, group.results, strict=True):
        new._name = old._name
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
    count("groups made")
    return group
