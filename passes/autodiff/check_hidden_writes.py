"""Reject writes that autograd does not record, where a gradient depends on them.

Assumes  the torch level with mutation, after ``lower-grad-mode``: operations under ``no_grad`` read ``detach``.
Ensures  the module is unchanged. With ``gradients=true`` it is an error where memory is written through one tensor, and
         read later, also by a caller, through another, different to autograd: its elements are new, its
         gradient is that of the old; and where what is written to a ``detach`` has a gradient, and it is read later.
Leaves   such writes where nothing reads the other tensor, or no gradient passes through the reader; writes to a tensor
         whose ``detach`` is read; writes to trained parameters, which are rejected elsewhere; writes of regions to
         operands of their op.
Cost     one walk; where there is such a write, PyTorch runs each different operation once: 0.4 ms.

Before:
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %w = torch.aten.mul_.Tensor(%y, 2) : (tensor<4xf32>) -> tensor<4xf32>
    %r = torch.aten.mul.Tensor(%y, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    func.return %r : tensor<4xf32>
  }

After:
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %w = torch.aten.mul_.Tensor(%y, 2) : (tensor<4xf32>) -> tensor<4xf32>
    %r = torch.aten.mul.Tensor(%y, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    func.return %r : tensor<4xf32>
  }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TupleType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.autodiff import is_differentiable
from fxc.dialects.base.effects import aliases, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.text.diagnostics import OpRefusedException
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.base import drops_nothing, leaves_memory_alone
from fxc.dialects.torch_ops.effects import DETACHES, UNDECLARED_VIEWS
from fxc.passes.analysis.memory import representative, unite
from fxc.passes.analysis.requires_grad import ARGUMENT, marked


@dataclass(frozen=True)
class CheckHiddenWritesPass(ModulePass):
    """Reject writes that autograd does not record, where a gradient depends on them.

    Autograd treats these as different tensors: ``detach`` of a tensor, and results of operators that share memory without
    declaring it, such as ``unsafe_chunk``. ``functionalize`` represents both by one value, which has one gradient.
    """

    name = "check-hidden-writes"

    gradients: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration] if self.gradients else ():
            facts = zip(function.args, argument_attributes(function), strict=True)
            learned = [arg for arg, known in facts if ARGUMENT in known.data and ArgumentFacts.of(known).state_name is not None]
            for block in function.body.blocks:
                names = _Names(block, learned)
                if any(names.others(value) for inner in block.ops for value in _written(inner)):
                    gradients = _Gradients(ctx, names, dict(zip(function.args, marked(function), strict=True)))
                    gradients.check(block)
                    for argument in function.args:  # the caller may read it later
                        gradients.read(names.of(argument))


class _Names:
    """The tensors of a block as autograd distinguishes them: a value and its views are one tensor.

    Other tensors, such as ``detach`` of it, may share its memory.
    """

    def __init__(self, block: Block, learned: Iterable[SSAValue]) -> None:
        self._tensors, self._memories = dict[SSAValue, SSAValue](), dict[SSAValue, SSAValue]()
        others = list[tuple[SSAValue, SSAValue, bool]]()
        for op in block.ops:
            if leaves_memory_alone(type(op)) or op.has_trait(IsTerminator):
                continue
            is_detached = isinstance(op, TorchOp) and op.operator in DETACHES
            is_other = is_detached or (isinstance(op, TorchOp) and op.operator in UNDECLARED_VIEWS)
            for index, operand in aliases(op):
                result = op.results[index]
                if not (is_mutable(result.type) and is_mutable(operand.type)):
                    continue
                if is_other:
                    unite(self._tensors, result, op.results[0])
                    others.append((result, operand, is_detached))
                elif representative(self._memories, result) is not representative(self._memories, operand):
                    unite(self._tensors, result, operand)  # else a result that may be either of two tensors would make them one
                unite(self._memories, result, operand)
        self._made_of = dict[SSAValue, tuple[SSAValue, bool]]()
        for result, operand, is_detached in others:
            self._made_of.setdefault(self.of(result), (self.of(operand), is_detached))
        self._learned = {representative(self._memories, argument) for argument in learned}

    def of(self, value: SSAValue) -> SSAValue:
        return representative(self._tensors, value)

    def others(self, value: SSAValue) -> set[SSAValue]:
        """The other tensors that share the memory of ``value``; none for memory of ``learned`` arguments."""
        name, memory = self.of(value), representative(self._memories, value)
        if memory in self._learned:
            return set()
        made = {*self._made_of, self.of(memory)} - {name}
        return {other for other in made if representative(self._memories, other) is memory}

    def is_detach(self, name: SSAValue) -> bool:
        """Whether tensor ``name`` is a ``detach`` of another, or a view of one."""
        is_detached = False
        while not is_detached and (found := self._made_of.get(name)) is not None:
            name, is_detached = found
        return is_detached

    def is_detached_from(self, name: SSAValue, other: SSAValue) -> bool:
        """Whether tensor ``name`` is a ``detach`` of ``other``, or a view of one."""
        is_detached = False
        while (found := self._made_of.get(name)) is not None:
            name, is_detached = found[0], is_detached or found[1]
            if name is other:
                return is_detached
        return False


class _Gradients:
    """The tensors of a block that require a gradient, and those written through another tensor, as of the visited op."""

    def __init__(self, context: FxcContext, names: _Names, arguments: dict[SSAValue, bool]) -> None:
        self.context, self.names = context, names
        self.requiring = {names.of(argument) for argument, requires in arguments.items() if requires}
        self.writers = dict[SSAValue, list[tuple[Operation, SSAValue]]]()
        self.learned_by = dict[SSAValue, Operation]()
        """A tensor that requires a gradient since it was written -> the operation that wrote it."""

    def check(self, block: Block) -> None:
        """OpRefusedException at a write through one tensor where another is read later and needs a gradient."""
        for op in block.ops:
            flags = [self.names.of(operand) in self.requiring for operand in op.operands]
            carried = self.carried(op, flags)
            for operand, flag in zip(op.operands, flags, strict=True):
                if op.has_trait(IsTerminator) or (any(carried) if flag else any(map(_is_differentiable, op.results))):
                    self.read(self.names.of(operand))
            for result, flag in zip(op.results, carried, strict=True):
                if flag:
                    self.requiring.add(self.names.of(result))
                elif self.names.of(result) in map(self.names.of, _written(op)):  # ``detach_`` returns the same tensor
                    self.requiring.discard(self.names.of(result))
            for value in _written(op):
                if any(flags) and not op.results:
                    self.requiring.add(self.names.of(value))
                if any(flags) and self.names.of(value) in self.requiring:
                    self.learned_by.setdefault(self.names.of(value), op)
                for other in self.names.others(value):
                    self.writers.setdefault(other, []).append((op, self.names.of(value)))

    def read(self, name: SSAValue) -> None:
        if name in self.learned_by and name in self.requiring and self.names.is_detach(name):
            raise OpRefusedException(
                "a detached tensor is written, which shares memory with another, and is read later; the gradient of what was"
                " written would be lost",
                self.learned_by[name],
                "write to a clone() of it",
            )
        for writer, written in self.writers.get(name, ()):
            has_other = written in self.requiring and not self.names.is_detached_from(name, written)
            if name in self.requiring or has_other:
                raise OpRefusedException(
                    "a tensor is written that shares memory with another, which is read later and has a gradient, and of which"
                    " autograd does not see that it is written",
                    writer,
                    "compute a new tensor instead",
                )

    def carried(self, op: Operation, flags: Sequence[bool]) -> Sequence[bool]:
        """Which results require a gradient according to PyTorch; where PyTorch cannot tell, all differentiable ones."""
        if not any(flags):
            return [False] * len(op.results)
        able = list(map(_is_differentiable, op.results))
        if not isinstance(op, TorchOp) or not any(able):
            return able
        try:
            found = self.context.semantics.requires_grad(op, flags)
        except VerifyException:
            return able
        return found if len(found) == len(able) else able


def _is_differentiable(value: SSAValue) -> bool:
    return is_differentiable(value.type) or isinstance(value.type, TupleType)


def _written(op: Operation) -> list[SSAValue]:
    if op.has_trait(IsTerminator) or leaves_memory_alone(type(op)) or (isinstance(op, TorchOp) and drops_nothing(op)):
        return []
    return [value for value in writes(op) or () if is_mutable(value.type)]
