"""Outline differentiable operations into functions that are differentiated as a whole.

Assumes  the torch level, one result per value (``lower-simple-tuples``). ``fx.requires_grad`` on arguments and
         ``requires_grad`` on operations state which values need a gradient; without them, a value may need one.
Ensures  each slice of at least ``threshold`` differentiable operations, constants not counted, one of which needs a
         gradient, is a private function called by ``autodiff.subgraph``. Its outputs share no memory with each other
         or with its inputs. Effects and random operators stay in order.
Leaves   writes, calls, asserts, collectives, recurrent layers, operators that PyTorch cannot differentiate at these
         types or with data-dependent sizes; functions that are slices or derivatives already.
Cost     one PyTorch trace per different operation, reused by ``differentiate``; else near linear, as ``fuse``.

Before:
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<2xi64>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = torch.aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.sigmoid.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %n = fx.call_function @operator.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.tanh.default(%n) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %c, %a : tensor<4xf32>, tensor<4xf32>
  }

After:
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<2xi64>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a, %b = autodiff.subgraph @subgraph(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = fx.call_function @operator.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.tanh.default(%n) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %c, %a : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @subgraph(%x: tensor<4xf32> {fx.requires_grad}, %y: tensor<4xf32> {fx.requires_grad})
      -> (tensor<4xf32>, tensor<4xf32>) {
    %a = torch.aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.sigmoid.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %a, %b : tensor<4xf32>, tensor<4xf32>
  }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, TupleType, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.attributes.values import bool_attr
from fxc.dialects.autodiff import AddOp, SubgraphOp, ZeroOp, gradient_type, is_differentiable
from fxc.dialects.base.effects import aliases, has_side_effect, is_random, writes
from fxc.dialects.base.names import UniqueNames
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.effects import is_recurrent
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.memory import Memory, is_isolated
from fxc.passes.analysis.requires_grad import ARGUMENT, REQUIRES_GRAD, marked, requires_grad
from fxc.passes.analysis.slices import Slices
from fxc.passes.analysis.statistics import count
from fxc.passes.autodiff.activity import Activity
from fxc.passes.rewriting.functions import copy_op, differentiated_functions, symbols_of
from fxc.passes.rewriting.unpacking import unpack_tuples


@dataclass(frozen=True)
class CreateAutodiffSubgraphsPass(ModulePass):
    """How slices grow, and which values they return.

    A slice grows from a consumer to its producers, the last first, where no path leaves the slice and enters it again. It does
    not move past a write or a side effect other than that of a random operator. Branches of ``scf.if`` are searched separately.

    Of two outputs that share memory, or an output and an input, the later is removed from the slice with its dependents. So a
    slice may contain views, unlike in TorchScript. Operands become arguments once, constants are copied, and results that only
    the slice uses are not returned.
    """

    name = "create-autodiff-subgraphs"

    threshold: int = field(default=2, metadata={"minimum": 1})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for module in [inner for inner in op.walk() if isinstance(inner, ModuleOp)]:
            taken, symbols = differentiated_functions(module), symbols_of(module)
            for function in [inner for inner in module.body.block.ops if isinstance(inner, FuncOp)]:
                if function.sym_name.data not in taken and len(function.body.blocks) == 1:
                    _Function(module, symbols, ctx, function, self.threshold).run()


class _Function:
    def __init__(self, module: ModuleOp, symbols: UniqueNames, context: FxcContext, function: FuncOp, threshold: int) -> None:
        self.symbols = symbols
        self.module, self.context, self.semantics = module, context, context.semantics
        self.function, self.threshold = function, threshold
        self.views = dict[object, Sequence[tuple[int, int]] | None]()
        self.active, self.mergeable = set[SSAValue](), set[Operation]()
        self.memory = Memory(function, self.aliases)

    def run(self) -> None:
        block = self.function.body.block
        learning = zip(block.args, marked(self.function), strict=True)
        self.active.update(argument for argument, learns in learning if learns and is_differentiable(argument.type))
        self.classify(block)
        for inside in list(self.blocks(block)):
            for work in list(_work_blocks(inside)):
                self.slice(inside, work)

    def blocks(self, block: Block) -> Iterator[Block]:
        """``block`` and the blocks of its regions that see enclosing values."""
        yield block
        for op in block.ops:
            if op.regions and not is_isolated(op):
                for region in op.regions:
                    for inner in region.blocks:
                        yield from self.blocks(inner)

    # classification of ops

    def classify(self, block: Block) -> None:
        for op in block.ops:
            if op.regions and not is_isolated(op):
                for region in op.regions:
                    for inner in region.blocks:
                        self.classify(inner)
                self.active.update(result for result in op.results if requires_grad(result))
            elif not self.differentiable(op) and any(value in self.active for value in op.operands):
                self.active.update(result for result in op.results if requires_grad(result))

    def differentiable(self, op: Operation) -> bool:
        """Whether ``op`` may be in a slice, or is a constant. Records its results that need a gradient."""
        if is_constant(op) or isinstance(op, ZeroOp):
            return True
        if isinstance(op, AddOp):
            self.mergeable.add(op)
            return False  # the gradients that it adds may need gradients, too
        if not isinstance(op, (TorchOp, HigherOrderOp)) or _is_barrier(op) or "y" in getattr(op, "FLAGS", ""):
            return False
        if not op.results or any(isinstance(result.type, TupleType) for result in op.results):
            return False
        if isinstance(op, TorchOp) and is_recurrent(op.operator):
            return False  # as operators of each step they are slower than PyTorch's call, and slow to trace
        needs = [value in self.active for value in op.operands]
        cotangents = {i: gradient_type(r.type) for i, r in enumerate(op.results) if is_differentiable(r.type)}
        asked = any(needs) and any(requires_grad(op.results[i]) for i in cotangents)  # a query costs a trace
        try:
            vjp = self.semantics.vjp(op, needs, cotangents) if asked else None
            if vjp is not None and vjp.forward is not None:
                self.check_parts(op, vjp.forward)
        except VerifyException:
            return False
        self.mergeable.add(op)
        if vjp is not None and (vjp.gradients or vjp.forward is not None):
            reached = range(len(op.results)) if vjp.forward is not None else vjp.cotangents
            self.active.update(op.results[i] for i in reached if requires_grad(op.results[i]))
        return True

    def check_parts(self, op: Operation, forward: FuncOp) -> None:
        """VerifyException where ``forward`` cannot replace ``op``, because an op in it cannot be differentiated."""
        function = forward.clone()
        module = ModuleOp([function], attributes=dict(self.module.attributes))
        unpack_tuples(function)
        Activity(module, self.context, function, [value in self.active for value in dict.fromkeys(op.operands)]).split()
        last = function.body.block.last_op
        if last is None or last.operand_types != op.result_types:
            raise VerifyException(f"{op.name} has other types under autograd")

    def aliases(self, op: Operation) -> Iterable[tuple[int, SSAValue]]:
        """Like ``effects.aliases``, with the views that PyTorch returns where the schema of an operator declares none."""
        untold = isinstance(op, TorchOp) and "c" in op.FLAGS and not any(result.alias for result in op.SCHEMA.returns)
        if not untold and not isinstance(op, HigherOrderOp):
            return aliases(op)
        key = (op.name, frozenset(op.properties.items()), op.operand_types, *map(str, op.regions))
        if key not in self.views:
            try:
                self.views[key] = self.semantics.aliases(op)
            except VerifyException:
                self.views[key] = None
        shared = self.views[key]
        return aliases(op) if shared is None else [(i, op.operands[j]) for i, j in shared]

    # slices

    def slice(self, block: Block, work: list[Operation]) -> None:
        work = [op for op in work if not is_constant(op)]
        if sum(op in self.mergeable for op in work) < self.threshold:
            return
        slices = Slices(work, {op for op in work if op in self.mergeable}, self.is_active)
        found = [self.peeled(members) for members in slices.groups()]
        found = [members for members in found if len(members) >= self.threshold and any(map(self.is_active, members))]
        if found:
            self.reorder(block, work, slices, found)

    def is_active(self, op: Operation) -> bool:
        return any(result in self.active for result in op.results)

    def peeled(self, members: list[Operation]) -> list[Operation]:
        """``members`` without outputs that share memory with an input or an earlier output, and without their dependents."""
        while True:
            inside, inputs = set(members), _inputs(members)
            wrong = self.shared(_outputs(members, inside), inputs)
            if wrong is None:
                return members
            gone = {wrong.owner}
            for op in members:
                if any(value.owner in gone for value in op.operands):
                    gone.add(op)
            members = [op for op in members if op not in gone]

    def shared(self, outputs: list[SSAValue], inputs: list[SSAValue]) -> SSAValue | None:
        """The first of ``outputs`` that may share memory with an input or an earlier output."""
        taken = {self.memory.set_of(value) for value in inputs if _holds_memory(value)}
        for value in filter(_holds_memory, outputs):
            if (memory := self.memory.set_of(value)) in taken:
                return value
            taken.add(memory)
        return None

    def reorder(self, block: Block, work: list[Operation], slices: Slices, found: list[list[Operation]]) -> None:
        """Reorder the ops of ``work`` so that each slice is contiguous, and then outline the slices."""
        anchor = work[-1].next_op
        order = slices.order(found)
        for piece in order:
            for op in piece:
                op.detach()
        for piece in order:
            ops = piece if len(piece) == 1 and not any(members is piece for members in found) else [self.outlined(piece)]
            if anchor is None:
                block.add_ops(ops)
            else:
                block.insert_ops_before(ops, anchor)

    def outlined(self, members: list[Operation]) -> SubgraphOp:
        """The call of a new function that contains ``members``, which are detached."""
        inside, inputs = set(members), _inputs(members)
        outputs = _outputs(members, inside)
        name = self.symbols.fresh("subgraph")
        call = SubgraphOp.of(name, inputs, [value.type for value in outputs])
        call.location = members[0].location
        if not all(value in self.active for value in outputs):
            call.attributes[REQUIRES_GRAD] = ArrayAttr([bool_attr(value in self.active) for value in outputs])
        for old, new in zip(outputs, call.results, strict=True):
            new._name = old._name
            old.replace_uses_with_if(new, lambda use: use.operation not in inside)
            self.memory.replaced(old, new)
            if old in self.active:
                self.active.add(new)
        marks = [DictionaryAttr({ARGUMENT: UnitAttr()} if value in self.active else {}) for value in inputs]
        body = self.body(members, inputs, outputs)
        type = FunctionType.from_lists([value.type for value in inputs], [value.type for value in outputs])
        function = FuncOp(name, type, Region(body), "private", arg_attrs=ArrayAttr(marks))
        function.location = call.location
        self.module.body.block.add_op(function)
        count("subgraphs made")
        return call

    def body(self, members: list[Operation], inputs: list[SSAValue], outputs: list[SSAValue]) -> Block:
        body = Block(arg_types=[value.type for value in inputs])
        moved: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
        for value, argument in zip(inputs, body.args, strict=True):
            argument._name = value._name
        for op in members:
            for index, value in enumerate(op.operands):
                if value not in moved and isinstance(value.owner, Operation) and is_constant(value.owner):
                    body.add_op(copy_op(value.owner, moved))
                if value in moved:
                    op.operands[index] = moved[value]
            body.add_op(op)
        body.add_op(ReturnOp(*outputs))
        return body


def _work_blocks(block: Block) -> Iterator[list[Operation]]:
    """The runs of ops between barriers, past which nothing may move."""
    run = list[Operation]()
    for op in block.ops:
        if _is_barrier(op):
            yield run
            run = []
        else:
            run.append(op)
    yield run


def _is_barrier(op: Operation) -> bool:
    if op.has_trait(IsTerminator) or writes(op) != []:
        return True
    inside = [op, *(inner for region in op.regions for inner in region.walk() if not inner.has_trait(IsTerminator))]
    return any(writes(inner) != [] or (has_side_effect(inner) and not _only_samples(inner)) for inner in inside)


def _only_samples(op: Operation) -> bool:
    """Whether sampling random numbers is the only side effect of ``op``; ops in its regions are checked separately."""
    return is_random(op) or bool(op.regions)


def _inputs(members: list[Operation]) -> list[SSAValue]:
    """The distinct values that ``members`` read from outside, without constants."""
    made = {result for op in members for result in op.results}
    read = dict.fromkeys(value for op in members for value in op.operands if value not in made)
    return [value for value in read if not (isinstance(value.owner, Operation) and is_constant(value.owner))]


def _outputs(members: list[Operation], inside: set[Operation]) -> list[SSAValue]:
    """The results of ``members`` that other ops read."""
    results = (result for op in members for result in op.results)
    return [result for result in results if any(use.operation not in inside for use in result.uses)]


def _holds_memory(value: SSAValue) -> bool:
    return is_mutable(value.type)
