"""fuse: gather ops into groups that one kernel may compute: pointwise ops, and on request reductions and views.

Assumes:    the torch level, one result a value (lower-simple-tuples).
Guarantees: a ``fusion.group`` holds at least two ops of one block and one device: pointwise operators of tensors, floats and
            constants that draw nothing and write nothing, and of which ``requires_grad`` does not say that a result needs a
            gradient: autograd sees no op in a group. A group grows from a consumer to its producers, the last first, until
            none fits: where that makes no cycle with what stays outside, moves past no write and no other op with a side
            effect than a draw, and leaves at most 128 inputs and outputs. Then an ``aten.cat`` of tensors of one type and
            shape takes in its producers: it is the last op of its group, reads nothing that is broadcast for it, and nothing
            that reads it is in a group with it. Then what cuts a tensor into equal pieces (``chunk``, ``split``,
            ``tensor_split``) moves in where one group alone reads all pieces. If only it and size queries read the result of
            a pointwise op, it moves above that op before: ``op(x, y)`` in pieces is op of the pieces of x and y, and of y as
            a whole where y is broadcast along the cut. What others read of a group is its result; what they only ask sizes
            of is none, as the queries ask what the group reads instead. Numbers that it reads are copied into it. No two
            ops in a group are equal, unless others read both. Running it again changes nothing.
            With ``reductions = true`` a group holds what ``convert-fusion-to-linalg`` has rules for, and nothing else:
            pointwise ops, reductions, and views between them; of a view that others read too it has a copy, and of what
            only has the elements of a tensor in a wider dtype. What an
            op reads at places that indices say, as ``embedding`` does, is made before its group. A group with a
            reduction goes on where that saves memory traffic on the machine in ``fxc.target`` (``_fusion_cost.py``): with
            the rows that were reduced, over no more than that, where there are enough rows to go round and what several
            stages compute again, or one at several places, is less than what memory takes, and no more than 256 operations, and
            where all together take no longer than 2048 additions. On a CPU some reductions and
            gathers, and ops whose tensors lie across each other, are groups alone. Slices that read the same tensor, which is
            not broadcast for them, become one where they fit. A scatter of many updates is the last of its group, on a GPU,
            where adding in memory is no slower than PyTorch's call, and, with ``fxc.deterministic``, sums no floats.
            ``fxc-opt --remarks=fuse`` prints what was refused and why.
Keeps:      other lone ops; the arithmetic, op by op; random ops and the order of draws; ops with an integer operand that is not
            constant; ops of sparse tensors; concatenations of different shapes, cuts into unequal pieces; size queries that
            no operand's type answers; a chunk whose move would change the strides of what its readers give. An op computed
            on pieces that are not contiguous may differ in the last bit, as PyTorch then runs other code. Views that are
            read by no op of a group, which never shares memory with what it reads. Functions that are only called when a plan
            is made (``fx.once``).
Cost:       near linear: a search for cycles in both directions in turn, which passes an op once for each group in most
            programs. 5,000 ops in a chain: 0.3 s, with reductions 0.5 s. A chunk that may move loads PyTorch, to say types.

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

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.autodiff import GradOfOp
from fxc.dialects.base.effects import is_pure, is_random, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.target import is_deterministic, preset, target_of
from fxc.passes.analysis.constants import is_constant, is_scalar_constant
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.bias import rejoin_addmm
from fxc.passes.fusion.fuse.candidates import Groups, is_chunk, is_equal_call, is_pointwise
from fxc.passes.fusion.fuse.chunk_motion import ChunkMotion
from fxc.passes.fusion.fuse.cost import CostModel
from fxc.passes.fusion.fuse.kernel_groups import Copies, Coverage, KernelGroups
from fxc.passes.fusion.fuse.plan_time_calls import called_once
from fxc.passes.fusion.fuse.remarks import explain
from fxc.passes.fusion.fuse.size_queries import answer_queries, size_queries
from fxc.passes.rewriting.functions import copy_op, derivatives
from fxc.passes.rewriting.outlining import outputs
from fxc.passes.rewriting.remarks import wanted


@dataclass(frozen=True)
class FusePass(ModulePass):
    name = "fuse"

    reductions: bool = False
    """Whether groups take reductions and views, and then nothing that kernels cannot compute."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = Kernels.of(op) if self.reductions else None
        for block in list(_blocks(op, derivatives(op) | called_once(op))):
            for run in reversed(list(_runs(block))):  # what changes in a run are queries after it
                if run:
                    _fuse(ctx, block, run, kernels)
            if kernels is not None:
                rejoin_addmm(block)


@dataclass(frozen=True)
class Kernels:
    """What groups of kernels are judged by."""

    model: CostModel
    coverage: Coverage

    @classmethod
    def of(cls, op: Operation) -> Kernels:
        module = op.get_toplevel_object()
        target = target_of(module) if isinstance(module, ModuleOp) else None
        ordered = isinstance(module, ModuleOp) and is_deterministic(module)
        least = facts_of(module, "min") if isinstance(module, ModuleOp) else {}
        return cls(CostModel.of(target or preset("cpu"), ordered=ordered), Coverage(least))


def _blocks(op: Operation, apart: Container[str]) -> Iterator[Block]:
    """The blocks in ``op`` but those of groups and of the functions ``apart``: derivatives are fused where their gradients
    are known, and what is called once is not worth a kernel."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                waits = isinstance(inner, FuncOp) and inner.sym_name.data in apart
                if not waits and not isinstance(inner, (GroupOp, GradOfOp)):
                    yield from _blocks(inner, apart)


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


def _fuse(ctx: Context, block: Block, run: Sequence[Operation], kernels: Kernels | None) -> None:
    before, anchor = run[0].prev_op, run[-1].next_op
    copies = Copies(run, kernels.coverage) if kernels is not None else None
    while True:
        run = [op for op in _between(block, before, anchor) if not is_constant(op)]
        groups = Groups(run) if kernels is None else KernelGroups(run, kernels.model, kernels.coverage)
        found = groups.groups()
        if not _move_chunks(ctx, groups) and not _shrink(found):
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
    """Put ``pieces`` in the place of ``run``, before ``anchor``: groups, which start with one of ``firsts``, and lone ops."""
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
    """Let size queries ask others than a group for what only they read of it, and drop what nothing reads then; whether
    anything changed."""
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
    """A group of ``members``, which are detached; others read its results in place of theirs."""
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
    """Let one op compute what several would, but for two that are both yielded: their readers may write one."""
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
