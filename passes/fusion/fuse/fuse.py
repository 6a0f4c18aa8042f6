"""Gather operations into groups that one kernel can compute.

Assumes  the torch level, one result per value (``lower-simple-tuples``).
Ensures  each ``fusion.group`` has at least two operations of one block and one device, and at most 128 inputs and
         outputs; with ``reductions = true`` it has operations that ``convert-fusion-to-linalg`` supports, including
         reductions and views. Results of groups are the values that operations outside read. Idempotent.
Leaves   the arithmetic; random operators and their order; operations that need a gradient; integer operands that are
         not constant; sparse tensors; unequal pieces; other single operations; functions that run once, when a plan is
         created (``fx.once``). See the class.
Cost     near linear, as most programs need one search for cycles per group: 5,000 operations in a chain take 0.3 s,
         with reductions 0.5 s. A chunk that may move loads PyTorch to infer types.

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

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.discardable import ONCE
from fxc.dialects.autodiff import GradOfOp
from fxc.dialects.base.effects import is_pure, is_random, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.target import is_deterministic, preset, target_of, toplevel
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_constant, is_scalar_constant
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.candidates import Groups, is_chunk, is_equal_call, is_pointwise
from fxc.passes.fusion.fuse.cost import CostModel
from fxc.passes.fusion.fuse.kernel_groups import Copies, Coverage, KernelGroups
from fxc.passes.fusion.fuse.motion import ChunkMotion, answer_queries, size_queries
from fxc.passes.operators.bias import rejoin_addmm
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of
from fxc.passes.rewriting.functions import copy_op, derivatives
from fxc.passes.rewriting.outlining import outputs
from fxc.passes.rewriting.remarks import remark, wanted


@dataclass(frozen=True)
class FusePass(ModulePass):
    """How groups grow, and which operations they contain.

    A group has pointwise operators of tensors, floats and constants without effects, whose results need no gradient, because
    autograd does not see the operations in a group. It grows from a consumer to its producers, the last first, where no path
    leaves the group and enters it again, and moves past no write or side effect other than that of a random operator.

    Then an ``aten.cat`` of tensors of one type and shape joins its producers: it is the last operation of its group, reads no
    broadcast value of the group, and its readers are in other groups. Then a split into equal pieces (``chunk``, ``split``,
    ``tensor_split``) joins the only group that reads all pieces; if only it and size queries read the result of a pointwise
    operation, it is first moved above that for kernels (``motion``).

    Queries of sizes are redirected to values that the group reads; numbers are copied into the group. A group has no two equal
    operations, unless other operations read both. A group never shares memory with its operands, so each of its views is read
    in it. An operation on pieces that are not contiguous may differ in the last bit, because PyTorch then runs other code.
    These stay alone: concatenations of different shapes, size queries that no operand type answers, and a chunk whose move
    would change the strides of its readers' results.

    With ``reductions = true`` a group copies views and conversions to a wider dtype that other operations read, too. Operands
    that are read at positions given by indices, as by ``embedding``, are computed before the group. The ``cost`` module decides
    which operations are fused with a reduction. On a CPU some reductions and gathers, and operations on tensors of different
    memory order, are separate groups. Slices that read the same tensor, not broadcast, are merged where they fit. A scatter of
    many updates is the last of its group on a GPU, where atomic updates are no slower than PyTorch's call; with
    ``fxc.deterministic`` it adds no floats. ``fxc-opt --remarks=fuse`` prints the rejected merges with reasons.
    """

    name = "fuse"

    reductions: bool = False
    """Whether groups take reductions and views. They then take only operations that kernels can compute."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = Kernels.of(op) if self.reductions else None
        move = self.reductions or target_of(toplevel(op)) is not None
        for block in list(_blocks(op, derivatives(op) | called_once(op))):
            for run in reversed(list(_runs(block))):  # changes in a run only affect size queries after it
                if run:
                    _fuse(ctx, block, run, kernels, move_chunks=move)
            if kernels is not None:
                rejoin_addmm(block)


@dataclass(frozen=True)
class Kernels:
    """The criteria for groups that become kernels."""

    model: CostModel
    coverage: Coverage

    @classmethod
    def of(cls, op: ModuleOp) -> Kernels:
        module = toplevel(op)
        model = CostModel.of(target_of(module) or preset("cpu"), ordered=is_deterministic(module))
        return cls(model, Coverage(facts_of(module, "min")))


def _blocks(op: Operation, apart: Container[str]) -> Iterator[Block]:
    """The blocks in ``op`` except those of groups and of the functions ``apart``.

    Derivatives are fused once their gradients are known; functions that are called once are not worth a kernel.
    """
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                waits = isinstance(inner, FuncOp) and inner.sym_name.data in apart
                if not waits and not isinstance(inner, (GroupOp, GradOfOp)):
                    yield from _blocks(inner, apart)


def _runs(block: Block) -> Iterator[list[Operation]]:
    """The runs of ops between barriers, past which nothing may move, without constants."""
    run = list[Operation]()
    for op in block.ops:
        if op.has_trait(IsTerminator) or not (is_pure(op) or (is_random(op) and writes(op) == [])):
            yield run
            run = []
        elif not is_constant(op):
            run.append(op)
    yield run


def _fuse(ctx: Context, block: Block, run: Sequence[Operation], kernels: Kernels | None, *, move_chunks: bool) -> None:
    before, anchor = run[0].prev_op, run[-1].next_op
    copies = Copies(run, kernels.coverage) if kernels is not None else None
    while True:
        run = [op for op in _between(block, before, anchor) if not is_constant(op)]
        groups = Groups(run) if kernels is None else KernelGroups(run, kernels.model, kernels.coverage)
        found = groups.groups()
        if not (move_chunks and _move_chunks(ctx, groups)) and not _shrink(found):
            break
    if wanted("fuse"):
        explain(groups, found)
    if found:
        _gather(run, anchor, block, groups.order(found), {members[0] for members in found})
    if copies is not None:
        copies.rejoin(block)


def _gather(
    run: Sequence[Operation],
    anchor: Operation | None,
    block: Block,
    pieces: Sequence[list[Operation]],
    firsts: Container[Operation],
) -> None:
    """Replace ``run``, before ``anchor``, by ``pieces``: groups, which start with one of ``firsts``, and single ops."""
    for op in run:
        op.detach()
    for piece in pieces:
        ops = [_group(piece)] if piece[0] in firsts else piece
        if anchor is None:
            block.add_ops(ops)
        else:
            block.insert_ops_before(ops, anchor)


def _between(block: Block, before: Operation | None, anchor: Operation | None) -> Iterator[Operation]:
    op = block.first_op if before is None else before.next_op
    while op is not None and op is not anchor:
        yield op
        op = op.next_op


def _move_chunks(ctx: Context, groups: Groups) -> bool:
    assert isinstance(ctx, FxcContext)
    return any(map(is_chunk, groups.ops)) and ChunkMotion(ctx, groups).run()


def _shrink(found: Sequence[Sequence[Operation]]) -> bool:
    """Redirect size queries to values outside of groups, and erase ops that become unused. Returns whether anything changed."""
    changed = False
    for members in found:
        inside = set[Operation](members)
        for op in reversed(members):
            asked = {*size_queries(op.results[0])} if is_pointwise(op) else set[Operation]()
            if asked and all(use.operation in inside or use.operation in asked for use in op.results[0].uses):
                changed |= answer_queries(op)
            if all(result.first_use is None for result in op.results):
                inside.discard(op)
                Rewriter.erase_op(op)
                changed = True
    return changed


def _group(members: Sequence[Operation]) -> GroupOp:
    """A group of the detached ops ``members``. Outside users read the results of the group."""
    body, copies, given = Block(), dict[SSAValue, SSAValue](), outputs(members)
    for op in members:
        for index, value in enumerate(op.operands):
            if is_scalar_constant(value):
                if value not in copies:
                    assert isinstance(value.owner, Operation)
                    body.add_op(copy_op(value.owner, copies))
                op.operands[index] = copies[value]
        body.add_op(op)
    body.add_op(YieldOp.of(given))
    _merge_equal(body)
    group = GroupOp.of(Region(body))
    group.location = members[0].location
    inside = set(body.ops)
    for old, new in zip(group.yielded(), group.results, strict=True):
        new._name = old._name
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
    count("groups made")
    return group


def _merge_equal(body: Block) -> None:
    """Merge equal ops, except two that are both yielded, because readers may write one of the results."""
    yielded, seen = set(body.last_op.operands if body.last_op else ()), dict[object, list[Operation]]()
    for op in list(body.ops):
        alike = seen.setdefault((op.name, *map(id, op._operands)), [])
        first = next((other for other in alike if is_equal_call(op, other)), None)
        if first is None:
            alike.append(op)
            continue
        pairs = list(zip(op.results, first.results, strict=True))
        if any(old in yielded and new in yielded for old, new in pairs):
            continue
        for old, new in pairs:
            old.replace_all_uses_with(new)
            if old in yielded:
                yielded.add(new)
        Rewriter.erase_op(op)


def called_once(around: Operation) -> set[str]:
    """The names of functions that are only called by marked calls or by such functions; kernels are not worth it there."""
    calls = defaultdict[str, list[CallOp]](list)
    for op in around.walk():
        if isinstance(op, CallOp):
            calls[op.callee.root_reference.data].append(op)
    found, before = set[str](), -1
    while len(found) != before:
        before = len(found)
        found |= {
            name for name, called in calls.items() if all(ONCE in call.attributes or _caller(call) in found for call in called)
        }
    return found


def _caller(call: CallOp) -> str | None:
    function = call.parent_op()
    while function is not None and not isinstance(function, FuncOp):
        function = function.parent_op()
    return None if function is None else function.sym_name.data


GRADIENT = "gradient: autograd does not differentiate ops in a group"
OPERATOR = "operator: groups do not take it with these operands"
LAST = "concatenation: it is the last of its group"
EFFECTS = "effects: a group moves past no write, random operator or other side effect"


def explain(groups: Groups, found: Sequence[Sequence[Operation]]) -> None:
    """Write a remark on each rejected merge of ``groups``; ``found`` are the final groups."""
    home = {op: number for number, members in enumerate(found) for op in members}
    said = set[tuple[Operation, Operation]]()
    for (i, j), rule in sorted(groups.refused.items()):
        a, b = groups.ops[i], groups.ops[j]
        place = home.get(b, b)
        b = next((reader for reader in _readers(a) if home.get(reader, reader) == place), b)
        if home.get(a, a) != place and (a, b) not in said:
            said.add((a, b))
            remark("fuse", rule, a, b)
    for op in groups.ops:
        if (rule := groups.exclusion(op)) is not None:
            remark("fuse", rule, op)
    for members in found:
        for op in members:
            for producer, rule in _excluded(groups, op, set(members)):
                if (producer, op) not in said:
                    remark("fuse", rule, producer, op)


def _excluded(groups: Groups, op: Operation, members: set[Operation]) -> Iterator[tuple[Operation, str]]:
    """The producers of operands of ``op`` that no group could contain, with the reason."""
    for producer in dict.fromkeys(value.owner for value in op.operands):
        if not isinstance(producer, TorchOp) or producer in members or is_constant(producer):
            continue
        if needs_gradient(producer):
            yield producer, GRADIENT
        elif producer not in groups.index and producer.parent is op.parent and groups.is_member(producer):
            yield producer, EFFECTS
        elif role_of(producer) is Role.CONCATENATION:
            yield producer, LAST
        elif producer not in groups.mergeable:
            yield producer, OPERATOR


def _readers(op: Operation) -> Iterator[Operation]:
    return (use.operation for result in op.results for use in result.uses)
