"""A program specialised to a call: which of its arguments require a gradient, as TorchScript's ``specializeTypes`` notes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, UnitAttr

from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.errors import CaptureError
from fxc.program.program import Program
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


def refuse_written_leaves(program: Program) -> None:
    """CaptureError where ``program``, without mutation, has a new value for a parameter that requires a gradient: autograd lets
    nothing write there where gradients are on, and of what reads the new value no gradient would come back."""
    known = argument_attributes(program.main)
    for attributes in program.main.res_attrs or ():
        index = attributes.data.get("fx.mutates")
        written = known[index.value.data] if isinstance(index, IntegerAttr) else DictionaryAttr({})
        name = ArgumentFacts.of(written).state_name
        if name is not None and MARK in written.data:
            raise CaptureError(
                f"the model writes to {name!r}, which requires a gradient, and is compiled for training",
                hint="write to it outside of the model, or use torch.compile(model, backend='fxc')",
            )
