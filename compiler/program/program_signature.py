"""The runtime signature of a program: the inputs of its entry function, without the tensors of the model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, UnitAttr
from xdsl.ir import Attribute

from fxc.bridge.nesting import INPUTS, RETURNS, returned_of, spec_of
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import (
    NUMBERS,
    SYMBOLS,
    BoolType,
    IntType,
    ValueType,
    conditions_of,
    dtype_name,
    is_tensor,
)
from fxc.dialects.entry import VALUES, ArgumentFacts, argument_attributes
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.passes.analysis.written_arguments import placed_arguments, written_arguments
from fxc.passes.plan.bring_inputs import MOVES
from fxc.program.program import Program
from fxc.runtime import autocast
from fxc.runtime.inputs import ANY, OtherInput, TensorInput
from fxc.runtime.signature import Signature


def signature_of(program: Program) -> Signature:
    """Inputs in call order, with the nesting of the captured model if the program records one."""
    function = program.main
    inputs = list[TensorInput | OtherInput]()
    for argument, attributes in zip(function.args, argument_attributes(function), strict=True):
        facts = ArgumentFacts.of(attributes)
        if facts.is_state:
            continue
        label = facts.name if facts.name is not None else argument._name or f"#{argument.index}"
        type = argument.type
        if is_tensor(type):
            inputs.append(
                TensorInput(
                    label,
                    dtype_name(type.element_type),
                    types.sizes(type),
                    types.device(type),
                    types.strides(type),
                    types.layout(type),
                    values=_values(attributes),
                )
            )
        else:
            inputs.append(_other(label, type))
    nesting = function.attributes.get(INPUTS)
    return Signature(
        tuple(inputs),
        None if nesting is None else spec_of(nesting),
        _bounds(program),
        conditions=conditions_of(program.module),
        returned=returned_of(function.attributes.get(RETURNS)),
    )


def with_constants(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
    """``signature`` with facts of the example call that the IR does not have: constants (strings, None), and autocast state."""
    signature = replace(signature, autocast=autocast.current())
    leaves = signature.leaves(args, kwargs)
    if leaves is None:
        return signature
    inputs = tuple(
        replace(spec, types=_CONSTANT, constant=value)
        if isinstance(spec, OtherInput) and spec.types in ((), _CONSTANT)
        else spec
        for spec, value in zip(signature.inputs, leaves, strict=True)
    )
    return replace(signature, inputs=inputs)


def with_writes(signature: Signature, program: Program) -> Signature:
    """``signature`` of the captured ``program`` with the inputs that it may write, and those that must start their storage.

    Also with the state of the process that the model has read.
    """
    written = written_arguments(program.main, or_returned=False)
    placed = placed_arguments(program.module, program.main)
    facts = map(ArgumentFacts.of, argument_attributes(program.main))
    given = [argument for argument, known in zip(program.main.args, facts, strict=True) if not known.is_state]
    inputs = tuple(
        replace(spec, written=argument in written, at_start=argument in placed) if isinstance(spec, TensorInput) else spec
        for spec, argument in zip(signature.inputs, given, strict=True)
    )
    return replace(signature, inputs=inputs, reads=program.reads)


def with_findings(signature: Signature, program: Program) -> Signature:
    """``signature`` with results of the pipeline: which inputs may be on any device, and the conditions that it assumed."""
    names = {ArgumentFacts.of(attributes).name for attributes in argument_attributes(program.main) if MOVES in attributes.data}
    inputs = list(signature.inputs)
    for i, spec in enumerate(inputs):
        if isinstance(spec, TensorInput) and spec.name in names:
            inputs[i] = replace(spec, moves=True)
    return replace(signature, inputs=tuple(inputs), conditions=conditions_of(program.module))


def _values(attributes: DictionaryAttr) -> tuple[int, ...] | None:
    found = attributes.data.get(VALUES)
    return tuple(map(int, found.get_values())) if isinstance(found, DenseArrayBase) else None


_CONSTANT = ("a constant",)


def _other(name: str, type: Attribute) -> OtherInput:
    if not isinstance(type, NUMBERS):
        return OtherInput(name, () if isinstance(type, ValueType) else _CONSTANT)
    text = type.expression.data
    if isinstance(type, IntType) and text.isidentifier():
        return OtherInput(name, ("an int",), symbol=text)
    return OtherInput(name, ("a number",), _number(type, text))


def _number(type: Attribute, text: str) -> Any:
    """The number that a type states as its value, or ANY."""
    if isinstance(type, BoolType):
        return {"True": True, "False": False}.get(text, ANY)
    try:
        return int(text) if isinstance(type, IntType) else float(text)
    except ValueError:
        return ANY


def _bounds(program: Program) -> dict[str, tuple[int, int | None]]:
    symbols = program.module.attributes.get(SYMBOLS)
    bounds = dict[str, tuple[int, int | None]]()
    for name, facts in symbols.data.items() if isinstance(symbols, DictionaryAttr) else ():
        if isinstance(facts, DictionaryAttr):
            low, high = facts.data.get("min"), facts.data.get("max")
            least = -sys.maxsize - 1 if name.startswith("n") else 0
            bounds[name] = (
                low.value.data if isinstance(low, IntegerAttr) else least,
                high.value.data if isinstance(high, IntegerAttr) else None,
            )
    return bounds


# Specialization of a program to a call: which arguments require a gradient, like TorchScript's ``specializeTypes``


MARK = "fx.requires_grad"


def mark_gradients(program: Program, signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Mark with ``fx.requires_grad`` the inputs of this call and the parameters that require a gradient.

    If none does, nothing is marked, which means that any of them may.
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
    """CaptureError where ``program``, without mutation, has a new value for a parameter that requires a gradient.

    Autograd allows such a write where gradients are off only, and uses of the new value would have no gradient.
    """
    known = argument_attributes(program.main)
    for attributes in program.main.res_attrs or ():
        index = attributes.data.get("fx.mutates")
        written = known[index.value.data] if isinstance(index, IntegerAttr) else DictionaryAttr({})
        name = ArgumentFacts.of(written).state_name
        if name is not None and MARK in written.data:
            message = f"the model writes to {name!r}, which requires a gradient, and is compiled for training"
            cause = NotImplementedError("a program has no gradient of the new value")  # in parts it has
            raise CaptureError(message, hint=f"write to it outside of the model, or use {TORCH_COMPILE}") from cause
