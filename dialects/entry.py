"""The entry function of a program, and its arguments that are tensors of the model."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

STATE_KINDS = frozenset({"parameter", "buffer", "constant"})
"""The ``fx.kind`` of function arguments that are tensors of the model."""


VALUES = "fx.values"
"""The attribute of a tensor argument with the element values that a program is specialized to; it is wrong for any others."""


class ArgumentFacts(NamedTuple):
    """Attributes of an argument: its ``fx.kind``, ``input`` by default, and its ``fx.name``."""

    kind: str
    name: str | None

    @classmethod
    def of(cls, attributes: DictionaryAttr) -> ArgumentFacts:
        kind, name = attributes.data.get("fx.kind"), attributes.data.get("fx.name")
        return cls(kind.data if isinstance(kind, StringAttr) else "input", name.data if isinstance(name, StringAttr) else None)

    @property
    def is_state(self) -> bool:
        """Whether the argument is a tensor of the model."""
        return self.kind in STATE_KINDS

    @property
    def state_name(self) -> str | None:
        """The name of the tensor in the model."""
        return self.name if self.is_state else None


def argument_attributes(function: FuncOp) -> list[DictionaryAttr]:
    """The attributes of each argument of ``function``."""
    found = function.arg_attrs
    return list(found) if found is not None else [DictionaryAttr({})] * len(function.function_type.inputs)


def public_functions(module: ModuleOp) -> list[FuncOp]:
    """The public functions."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return [f for f in functions if f.sym_visibility is None or f.sym_visibility.data != "private"]


def find_entry(module: ModuleOp) -> FuncOp | None:
    """``@main``, or the only public function; None where there is none or more than one."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    public = public_functions(module)
    return public[0] if len(public) == 1 else None


def updated_arguments(function: FuncOp) -> set[SSAValue]:
    """The arguments that ``function`` returns new values of: results marked ``fx.mutates``."""
    marks = [attrs.data.get("fx.mutates") for attrs in function.res_attrs or ()]
    return {function.args[mark.value.data] for mark in marks if isinstance(mark, IntegerAttr)}


def unchanging_arguments(function: FuncOp) -> set[SSAValue]:
    """The parameters, buffers and constants among the arguments that ``function`` returns no new values of."""
    updated = updated_arguments(function)
    found = zip(function.args, argument_attributes(function), strict=True)
    return {arg for arg, attributes in found if ArgumentFacts.of(attributes).is_state and arg not in updated}
