"""A program specialised to a call: which of its arguments require a gradient, as TorchScript's ``specializeTypes`` notes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr

from fxc.program import Program
from fxc.runtime.signature import Signature

MARK = "fx.requires_grad"
_INPUT = StringAttr("input")


def mark_gradients(program: Program, signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Marks ``fx.requires_grad`` on the inputs of this call, and on the parameters, that require a gradient.

    Where none does, nothing is marked: any may need one.
    """
    function = program.main
    inputs = iter(signature.leaves(tuple(args), kwargs) or ())
    facts = list[DictionaryAttr]()
    for known in function.arg_attrs or [DictionaryAttr({})] * len(function.args):
        kind, name = known.data.get("fx.kind", _INPUT), known.data.get("fx.name")
        value = next(inputs, None) if kind == _INPUT else program.state.get(name.data) if isinstance(name, StringAttr) else None
        marked = {MARK: UnitAttr()} if getattr(value, "requires_grad", False) else {}
        facts.append(DictionaryAttr({**known.data, **marked}))
    if any(MARK in known.data for known in facts):
        function.properties["arg_attrs"] = ArrayAttr(facts)
