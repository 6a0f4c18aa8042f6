"""Convert signatures to JSON and back, except for their nesting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fxc.errors import PlanFileError
from fxc.runtime.inputs import ANY, OtherInput, TensorInput
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    from torch.utils._pytree import TreeSpec


def signature_json(signature: Signature) -> dict[str, Any]:
    """``signature`` as JSON. PlanFileError for a constant that JSON cannot represent."""
    return {
        "inputs": [_input_json(spec) for spec in signature.inputs],
        "bounds": {name: list(bounds) for name, bounds in signature.bounds.items()},
        "autocast": [list(entry) for entry in signature.autocast],
        "conditions": list(signature.conditions),
    }


def signature_from(facts: Mapping[str, Any], nesting: TreeSpec | None) -> Signature:
    """The signature in ``facts``.

    KeyError, TypeError, ValueError or AttributeError if ``facts`` are not a signature; PlanFileError for invalid inputs.
    """
    inputs = facts["inputs"]
    if not isinstance(inputs, list):
        raise ValueError("its inputs are no list")
    bounds = {name: (int(low), None if high is None else int(high)) for name, (low, high) in facts["bounds"].items()}
    autocast = tuple((str(kind), str(dtype)) for kind, dtype in facts["autocast"])
    conditions = tuple(map(str, facts["conditions"]))
    return Signature(tuple(map(_input, cast(list[Any], inputs))), nesting, bounds, autocast, conditions)


def _input_json(spec: TensorInput | OtherInput) -> dict[str, Any]:
    if isinstance(spec, TensorInput):
        return {"tensor" if key == "name" else key: value for key, value in vars(spec).items()}
    entry: dict[str, Any] = {"other": spec.name, "types": list(spec.types), "symbol": spec.symbol}
    if spec.constant is not ANY:
        entry["constant"] = _constant_json(spec.name, spec.constant)
    return entry


def _input(entry: Mapping[str, Any]) -> TensorInput | OtherInput:
    if "tensor" in entry:
        dims = [*entry["sizes"], *(entry["strides"] or ()), *(entry["values"] or ())]
        if not all(type(dim) in (int, str) for dim in dims):
            raise ValueError(f"{dims} are no sizes")
        facts: dict[str, Any] = {
            key: tuple(cast(Sequence[Any], value)) if isinstance(value, list) else value
            for key, value in entry.items()
            if key != "tensor"
        }
        return TensorInput(entry["tensor"], **facts)
    constant = _constant(entry["constant"]) if "constant" in entry else ANY
    return OtherInput(entry["other"], tuple(entry["types"]), constant, entry["symbol"])


def _constant_json(name: str, value: Any) -> list[Any]:
    """[type, value]; floats are hexadecimal text, since JSON has no nan and may lose digits."""
    if value is None or type(value) in (bool, int, str):
        return [type(value).__name__, value]
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    raise PlanFileError(f"input {name} was baked in as a {type(value).__name__}, which a plan file cannot hold")


def _constant(entry: list[Any]) -> Any:
    match entry:
        case ["float", str(text)]:
            return float.fromhex(text)
        case ["complex", str(real), str(imag)]:
            return complex(float.fromhex(real), float.fromhex(imag))
        case ["NoneType" | "bool" | "int" | "str" as name, value] if type(value).__name__ == name:
            return value
        case _:
            raise ValueError(f"{entry} is no constant")
