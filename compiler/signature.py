"""The runtime signature of a program: what its entry function takes beside the model's own tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, TensorType

from fxc.dialects import types
from fxc.dialects.types import SYMBOLS, dtype_name
from fxc.program import STATE_KINDS, Program
from fxc.runtime.signature import OtherInput, Signature, TensorInput
from fxc.semantics.nesting import INPUTS, spec_of


def signature_of(program: Program) -> Signature:
    """Inputs in call order, with the nesting of the captured model where the program records one."""
    function = program.main
    inputs = list[TensorInput | OtherInput]()
    attributes = list(function.arg_attrs or [DictionaryAttr({})] * len(function.args))
    for argument, attrs in zip(function.args, attributes, strict=True):
        kind, name = attrs.data.get("fx.kind"), attrs.data.get("fx.name")
        if isinstance(kind, StringAttr) and kind.data in STATE_KINDS:
            continue
        label = name.data if isinstance(name, StringAttr) else argument._name or f"#{argument.index}"
        type = argument.type
        if isinstance(type, TensorType):
            inputs.append(TensorInput(label, dtype_name(type.element_type), types.sizes(type), types.device(type)))
        else:
            inputs.append(OtherInput(label, ("a number", "a constant")))
    nesting = function.attributes.get(INPUTS)
    return Signature(tuple(inputs), None if nesting is None else spec_of(nesting), _bounds(program))


def _bounds(program: Program) -> dict[str, tuple[int, int | None]]:
    symbols = program.module.attributes.get(SYMBOLS)
    bounds = dict[str, tuple[int, int | None]]()
    for name, facts in symbols.data.items() if isinstance(symbols, DictionaryAttr) else ():
        if isinstance(facts, DictionaryAttr):
            low, high = facts.data.get("min"), facts.data.get("max")
            bounds[name] = (
                low.value.data if isinstance(low, IntegerAttr) else 0,
                high.value.data if isinstance(high, IntegerAttr) else None,
            )
    return bounds
