"""The function that a program starts in, and which of its arguments are the model's own tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

STATE_KINDS = frozenset({"parameter", "buffer", "constant"})
"""The ``fx.kind`` of function arguments whose values are the model's own."""


def public_functions(module: ModuleOp) -> list[FuncOp]:
    """The functions that are not private."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return [f for f in functions if f.sym_visibility is None or f.sym_visibility.data != "private"]


def find_entry(module: ModuleOp) -> FuncOp | None:
    """``@main``, or the only function that is not private; None where there is none, or no one."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    public = public_functions(module)
    return public[0] if len(public) == 1 else None


def updated_arguments(function: FuncOp) -> set[SSAValue]:
    """The arguments that ``function`` returns new values of, with the mark ``fx.mutates``."""
    marks = [attrs.data.get("fx.mutates") for attrs in function.res_attrs or ()]
    return {function.args[mark.value.data] for mark in marks if isinstance(mark, IntegerAttr)}


def unchanging_arguments(function: FuncOp) -> set[SSAValue]:
    """The parameters, buffers and constants among the arguments that ``function`` returns no new values of."""
    updated = updated_arguments(function)
    attributes = list(function.arg_attrs or [DictionaryAttr({})] * len(function.args))
    kinds = [attrs.data.get("fx.kind") for attrs in attributes]
    found = zip(function.args, kinds, strict=True)
    return {arg for arg, kind in found if isinstance(kind, StringAttr) and kind.data in STATE_KINDS and arg not in updated}
