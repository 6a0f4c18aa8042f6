"""Constants: which ops and values are constant, of what kind, or computed from tensors of the model only; evaluation of ops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike, IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_mutable, is_tensor
from fxc.dialects.attributes.values import NoneValueAttr
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import find_entry, unchanging_arguments
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import is_uninitialized
from fxc.passes.analysis.memory import Memory, is_isolated, writes_anything
from fxc.passes.analysis.shape_queries import answer


def is_host_constant(value: Attribute) -> bool:
    """Whether ``value`` is a number, a string or None: the constants besides tensors that ``torch.constant`` holds."""
    return isinstance(value, (IntegerAttr, FloatAttr, StringAttr, NoneValueAttr))


def is_constant(op: Operation) -> bool:
    """Whether ``op`` has one result, whose value is stated by the attributes of ``op``."""
    return len(op.results) == 1 and not op._operands and not op.regions and op.has_trait(ConstantLike)


def is_scalar_constant(value: SSAValue) -> bool:
    """Whether ``value`` is a number, a string or None, defined by a constant op."""
    return not is_tensor(value.type) and isinstance(value.owner, Operation) and is_constant(value.owner)


def constant_of(value: SSAValue) -> Attribute | None:
    """The attribute of a value that a ``torch.constant`` defines, else None."""
    owner = value.owner
    return owner.value if isinstance(owner, ConstantOp) else None


def readable_entry(module: ModuleOp) -> FuncOp | None:
    """The entry of a program whose weights may be read at compile time; None where it has several blocks or writes memory."""
    entry = find_entry(module)
    return None if entry is None or len(entry.body.blocks) != 1 or writes_anything(entry) else entry


def unchanging_ops(entry: FuncOp) -> tuple[list[Operation], set[SSAValue]]:
    """The ops of ``entry`` that compute only from unchanging arguments, and the values that are equal in every call.

    The values are the results of these ops and the unchanging arguments.
    """
    known, found = unchanging_arguments(entry), list[Operation]()
    for op in entry.body.block.ops:
        read = [value for value in op.operands if not is_scalar_constant(value)]
        if isinstance(op, TorchOp) and op.results and not op.regions and is_pure(op) and read and known.issuperset(read):
            known.update(op.results)
            found.append(op)
    return found, known


class Evaluation:
    """The constants of one function that a walk from its top has found so far."""

    def __init__(self, context: FxcContext, max_elements: int) -> None:
        self.context, self.max_elements = context, max_elements
        self._known = dict[SSAValue, Attribute]()
        self._memories = dict[Operation, Memory]()

    def memory(self, value: SSAValue) -> Memory:
        """The alias sets of the scope of ``value``, computed on first use."""
        op = value.owner.parent_op()
        while op is not None and not is_isolated(op):
            op = op.parent_op()
        assert op is not None
        if op not in self._memories:
            self._memories[op] = Memory(op)
        return self._memories[op]

    def moved(self) -> None:
        """Discard the alias sets, because ops moved to another region."""
        self._memories.clear()

    def learn(self, value: SSAValue, constant: Attribute) -> None:
        self._known[value] = constant

    def known(self, value: SSAValue) -> Attribute | None:
        """The constant that every reader of ``value`` sees; None for a tensor that is written."""
        constant = self._known.get(value)
        if isinstance(constant, TensorLiteralAttr) and self.is_written(value):
            return None
        return constant

    def constant(self, leaf: SSAValue | Attribute) -> Attribute | None:
        """The constant that is passed as this argument of a call, else None."""
        return leaf if isinstance(leaf, Attribute) else self.known(leaf)

    def host(self, value: SSAValue) -> Attribute | None:
        """The number, string or None constant of ``value``; None where it has no such constant."""
        constant = self._known.get(value)
        return constant if constant is not None and is_host_constant(constant) else None

    def fold(self, op: Operation) -> list[Attribute] | None:
        """The results of ``op`` where they are constants that executions may share, else None."""
        constant = bool(op.results) and all(value in self._known for value in op._operands)
        size = answer(op)
        if (not constant and size is None) or not _may_fold(op):
            return None
        if size is not None and not any(map(self.is_written, op.operands)):
            return [size]
        if not constant or not all(map(self._may_hold, op.results)):
            return None
        operands = [known for value in op.operands if (known := self.known(value)) is not None]
        if len(operands) != len(op.operands) or any(map(self.has_identity, op.results)):
            return None
        return self.evaluate(op, operands)

    def evaluate(self, op: Operation, operands: Sequence[Attribute]) -> list[Attribute] | None:
        """The results that PyTorch computes for ``op``; None where ``torch.constant`` cannot hold them."""
        values = self.context.semantics.evaluate(op, operands, self.max_elements)
        if values is None or len(values) != len(op.results):
            return None
        try:
            for value, result in zip(values, op.results, strict=True):
                ConstantOp.of(value, result.type).verify_()
        except VerifyException:
            return None
        return list(values)

    def run(self, block: Block, wanted: SSAValue, inputs: Mapping[SSAValue, Attribute]) -> Attribute | None:
        """The constant value of ``wanted`` when ``block`` runs on ``inputs``; None where it is unknown or an op is impure."""
        values, needed, steps = dict(inputs), {wanted}, list[Operation]()
        for op in reversed(block.ops):
            if not op.has_trait(IsTerminator) and not is_pure(op):
                return None
            if not needed.isdisjoint(op.results):
                if not isinstance(op, ConstantOp) and not (_may_fold(op) and all(map(self._may_hold, op.results))):
                    return None
                steps.append(op)
                needed.update(op.operands)
        if any(argument in needed and argument not in values for argument in block.args):
            return None
        for op in reversed(steps):
            computed = [op.value] if isinstance(op, ConstantOp) else self.evaluate(op, [values[v] for v in op.operands])
            if computed is None:
                return None
            values.update(zip(op.results, computed, strict=True))
        return values.get(wanted)

    def _may_hold(self, result: SSAValue) -> bool:
        """Whether a constant can represent a value of this type; checked before anything is computed."""
        type = result.type
        if not is_tensor(type):
            return isinstance(type, (types.IntType, types.FloatType, types.BoolType, types.ValueType))
        shape = [size for size in types.sizes(type) if isinstance(size, int)]
        plain = types.strides(type) is None and types.device(type) == "cpu" and types.layout(type) == "strided"
        return plain and len(shape) == len(types.sizes(type)) and math.prod(shape) <= self.max_elements

    def is_written(self, value: SSAValue) -> bool:
        return is_mutable(value.type) and self.memory(value).is_written(value)

    def has_identity(self, result: SSAValue) -> bool:
        """Whether the memory of ``result`` may be written, so that each execution needs a separate tensor."""
        return is_mutable(result.type) and (self.is_written(result) or self.memory(result).reaches_output(result))


def _may_fold(op: Operation) -> bool:
    return isinstance(op, (TorchOp, CallFunctionOp)) and is_pure(op) and not is_uninitialized(op)


def truth(constant: Attribute | None) -> bool | None:
    """Whether a constant predicate is true: a bool, a number, or a tensor of one element."""
    if isinstance(constant, IntegerAttr):
        return constant.value.data != 0
    if isinstance(constant, TensorLiteralAttr):
        return any(constant.bytes)
    return None
