"""The base of every ``torch`` op: a call of an operator overload, with the effects that its schema and the tables state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.core import OpTraits

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout
from fxc.dialects.attributes.values import NoneValueAttr, bool_attr, device_attr, dtype_attr, enum_attr, leaves
from fxc.dialects.base.effects import CallEffects, EffectsInterface
from fxc.dialects.torch_ops.effects import (
    BORROWING_NAMESPACES,
    CONVERSIONS,
    DROPOUTS,
    EFFECTFUL_NAMESPACES,
    HIDDEN_WRITES,
    RESHAPED_IN_PLACE,
    SIDE_EFFECTS,
    UNDECLARED_VIEWS,
    VIEWS_OF_EACH,
    is_fresh_composite,
)
from fxc.dialects.torch_ops.schema import Argument
from fxc.dialects.torch_ops.schema_call import SchemaCall


class TorchOp(SchemaCall, EffectsInterface):
    """A call of an operator of PyTorch. ``SchemaCall`` holds the arguments; this class states the effects."""

    traits: ClassVar[OpTraits] = OpTraits(lambda: (CallEffects(),))

    def writes(self) -> list[SSAValue]:
        if not self.SCHEMA.mutates and self.operator not in HIDDEN_WRITES:
            return []
        bound = self.bound()
        written = [
            leaf
            for argument in self.SCHEMA.arguments
            if argument.writes and argument.name in bound
            for leaf in leaves(bound[argument.name])
            if isinstance(leaf, SSAValue)
        ]
        if self.operator in HIDDEN_WRITES:
            flag, names = HIDDEN_WRITES[self.operator]
            if bound.get(flag) != bool_attr(False):
                values = (bound.get(name) for name in names)
                written += [value for value in values if isinstance(value, SSAValue)]
        return written

    def reshapes(self) -> list[SSAValue]:
        if not self.SCHEMA.mutates:
            return []
        in_place = self.operator.split(".")[1] in RESHAPED_IN_PLACE
        bound, arguments = self.bound(), self.SCHEMA.arguments
        written = [bound[a.name] for a in arguments if a.writes and a.name in bound and (in_place or a.keyword_only)]
        return [leaf for tree in written for leaf in leaves(tree) if isinstance(leaf, SSAValue)]

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        return iter(()) if _returns_own_memory(type(self)) or self._converts() else self._aliases()

    def _converts(self) -> bool:
        """Whether the result has another dtype than the first argument, of an operator that only then copies it."""
        if self.operator not in CONVERSIONS:
            return False
        source, result = self.operands[0].type, self.results[0].type
        return is_tensor(source) and is_tensor(result) and source.element_type != result.element_type

    def _aliases(self) -> Iterator[tuple[int, SSAValue]]:
        returns, undeclared = self.SCHEMA.returns, self._undeclared_aliases()
        if not undeclared and not any(r.alias for r in returns):
            return
        bound = self.bound()
        for i in range(len(self.results)):
            declared = returns[i].alias if len(returns) == len(self.results) else "|".join(r.alias for r in returns)
            sets = set(declared.split("|")) - {""}
            for argument in self.SCHEMA.arguments:
                tied = argument.alias and (argument.alias in sets or "*" in sets)
                if (tied or (not declared and argument in undeclared)) and argument.name in bound:
                    tied_to = list(leaves(bound[argument.name]))
                    if self.operator in VIEWS_OF_EACH and len(tied_to) == len(self.results):
                        tied_to = tied_to[i : i + 1]
                    yield from ((i, leaf) for leaf in tied_to if isinstance(leaf, SSAValue))

    def _undeclared_aliases(self) -> Sequence[Argument]:
        """Arguments that a result may share memory with although no alias set declares it."""
        schema = self.SCHEMA
        if self.operator in UNDECLARED_VIEWS:
            return schema.arguments[:1]
        if "c" not in self.FLAGS or is_fresh_composite(self.operator):
            return ()
        if self.operator in CONVERSIONS:
            return schema.arguments[:1]
        if self.is_random() and not any(isinstance(self.argument(name), SSAValue) for name in ("p", "train")):
            return ()  # random numbers are in new memory
        if not any(r.type.startswith("Tensor") for r in schema.returns):
            return ()
        return tuple(argument for argument in schema.arguments if argument.is_tensor)

    def may_retain(self) -> bool:
        namespace, name, *_ = self.operator.split(".")
        is_plain = namespace in BORROWING_NAMESPACES and name not in RESHAPED_IN_PLACE and not counts_in_storage(self)
        return not is_plain or any(map(_has_parts, self.result_types))

    def has_side_effect(self) -> bool:
        if self.operator == "aten._assert_tensor_metadata.default" and self._is_answered():
            return False
        in_order = self.operator in SIDE_EFFECTS or self.operator.split(".")[0] in EFFECTFUL_NAMESPACES
        return in_order or self.is_random()

    def _is_answered(self) -> bool:
        """Whether the type of the tensor states all that an assertion on its metadata checks."""
        type = self.operands[0].type
        if not is_tensor(type):
            return False
        stated = {
            "dtype": dtype_attr(dtype_name(type.element_type)),
            "device": device_attr(device(type)),
            "layout": enum_attr(layout(type)),
        }
        asked = {name: tree for name, tree in self.bound().items() if name != "a" and not isinstance(tree, NoneValueAttr)}
        return all(tree == stated.get(name) for name, tree in asked.items())

    def is_random(self) -> bool:
        return "r" in self.FLAGS and not self._is_inert_random()

    def _is_inert_random(self) -> bool:
        """Whether this is a dropout that is not training or drops nothing, so it samples nothing."""
        arguments, off = self.SCHEMA.by_name, bool_attr(False)
        for name in ("train", "training"):
            if name in arguments:
                default = off if arguments[name].default == "False" else None
                if self.properties.get(name, default) == off:
                    return True
        for name in ("p",) if self.operator in DROPOUTS else ("dropout_p", "dropout"):
            if name in arguments:
                given = self.properties.get(name)
                if isinstance(given, (IntegerAttr, FloatAttr)):
                    return given.value.data == 0
                return given is None and float(arguments[name].default or 1) == 0
        return False

    def is_view(self) -> bool:
        if "c" in self.FLAGS or self.SCHEMA.mutates:
            return False
        return self.operator in UNDECLARED_VIEWS or all(r.alias for r in self.SCHEMA.returns)

    def is_pure(self) -> bool:
        return not self.has_side_effect() and not self.writes()


def drops_nothing(op: TorchOp) -> bool:
    """Whether ``op`` is a dropout that returns its operand: it is not training, or ``p`` is 0."""
    return op.operator in DROPOUTS and not op.is_random()


@cache
def leaves_memory_alone(cls: type[Operation]) -> bool:
    """Whether no call of ``cls`` writes memory or returns memory of an operand, for any arguments; true for most operators.

    ``writes`` and ``aliases`` determine the same for a single call, at a higher cost.
    """
    if not issubclass(cls, TorchOp):
        return False
    return not cls.SCHEMA.mutates and cls.name.removeprefix("torch.") not in HIDDEN_WRITES and _returns_own_memory(cls)


@cache
def _returns_own_memory(cls: type[TorchOp]) -> bool:
    """Whether no result of a call of ``cls`` may share memory with an operand, for any operands."""
    if any(r.alias for r in cls.SCHEMA.returns):
        return False
    operator = cls.name.removeprefix("torch.")
    return operator not in UNDECLARED_VIEWS and ("c" not in cls.FLAGS or is_fresh_composite(operator))


def counts_in_storage(op: TorchOp) -> bool:
    """Whether ``op`` depends on the storage offset of an operand: ``as_strided`` with an offset does."""
    asks, takes_offset = _storage_offset_use(type(op))
    return asks or (takes_offset and op.argument("storage_offset") is not None)


@cache
def _storage_offset_use(cls: type[TorchOp]) -> tuple[bool, bool]:
    """Whether an operator returns a storage offset, and whether it takes one."""
    return cls.name == "torch.aten.sym_storage_offset.default", "storage_offset" in cls.SCHEMA.by_name


def _has_parts(type: Attribute) -> bool:
    """Whether a tensor of ``type`` may consist of other tensors and retain them, as a sparse one does."""
    return is_tensor(type) and layout(type) != "strided"
