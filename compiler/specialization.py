"""A program specialised to a call: which of its arguments require a gradient, as TorchScript's ``specializeTypes`` notes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr

from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.program import Program
from fxc.runtime.signature import Signature

MARK = "fx.requires_grad"


def mark_gradients(program: Program, signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Marks ``fx.requires_grad`` on the inputs of this call, and on the parameters, that require a gradient.

    Where none does, nothing is marked: any may need one.
    """
    function = program.main
    inputs = iter(signature.leaves(tuple(args), kwargs) or ())
    facts = list[DictionaryAttr]()
    for known in argument_attributes(function):
        kind, name = ArgumentFacts.of(known)
        value = next(inputs, None) if kind == "input" else None if name is None else program.state.get(name)
        marked = {MARK: UnitAttr()} if getattr(value, "requires_grad", False) else {}
        facts.append(DictionaryAttr({**known.data, **marked}))
    if any(MARK in known.data for known in facts):
        function.properties["arg_attrs"] = ArrayAttr(facts)
