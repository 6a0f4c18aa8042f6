"""Example values for types: random in a safe range, reproducible by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, TupleType
from xdsl.ir import Attribute

from fxc.bridge.values import torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import NONE_TYPE, BoolType, FloatType, IntType
from fxc.errors import InputError

GIVE_INPUTS = "read the inputs from a file: fxc run FILE --inputs FILE.safetensors"

DEFAULT_SIZE = 4
"""The value of a symbol without a hint in the module."""


class Seeded:
    """Generates values of types. Floats are normal, integers 0 or 1 (usually valid indices), symbols have their hints."""

    def __init__(self, symbols: Attribute | None = None, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.hints = {name: _hint(facts) for name, facts in _entries(symbols)}

    def value(self, type: Attribute) -> Any:
        """Return a value of ``type``. InputError if the type is not specific enough."""
        match type:
            case TensorType():
                return self.tensor(type)
            case IntType():
                return self.number(type.expression.data, 1)
            case FloatType():
                return float(self.number(type.expression.data, 1))
            case BoolType():
                return type.expression.data != "False"
            case TupleType():
                return tuple(self.value(element) for element in type.types.data)
            case _ if type == NONE_TYPE:
                return None
            case _:
                raise InputError(f"no value can be made up for the type {type}", hint=GIVE_INPUTS)

    def tensor(self, type: TensorType) -> torch.Tensor:
        """Return a tensor with the sizes, strides, dtype and device of ``type``."""
        if (layout := types.layout(type)) != "strided":
            raise InputError(f"no value can be made up for a {layout} tensor", hint=GIVE_INPUTS)
        dtype, device = torch_dtype(type.element_type), types.device(type)
        sizes = self.sizes(type)
        strides = types.strides(type)
        steps = types.contiguous_strides(sizes) if strides is None else [self.size(step) for step in strides]
        last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        flat = self.elements(last + 1 if all(sizes) else 0, dtype)
        try:
            return flat.to(device).as_strided(sizes, steps)
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"no tensor can be made on {device}: {str(error).splitlines()[0]}", hint=GIVE_INPUTS) from error

    def elements(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype.is_complex:
            return torch.randn(count, dtype=torch.complex64, device="cpu", generator=self.generator).to(dtype)
        if dtype.is_floating_point:
            return torch.randn(count, dtype=torch.float32, device="cpu", generator=self.generator).to(dtype)
        return torch.randint(0, 2, (count,), device="cpu", generator=self.generator).to(dtype)

    def sizes(self, type: TensorType) -> list[int]:
        return [self.size(size) for size in types.sizes(type)]

    def size(self, size: types.Dim) -> int:
        return size if isinstance(size, int) else self.number(size, DEFAULT_SIZE)

    def number(self, text: str, otherwise: int) -> Any:
        """Return the value of an expression in the module's symbols; ``otherwise`` if it has none."""
        if not text:
            return otherwise
        try:
            return float(text) if "." in text else int(text)
        except ValueError:  # imports SymPy, which known sizes do not need
            import sympy

            from fxc.bridge.expressions import parse_expression

            expression = parse_expression(text)
        hints: dict[Any, Any] = {symbol: self.hints.get(str(symbol), DEFAULT_SIZE) for symbol in expression.atoms(sympy.Symbol)}
        value = expression.subs(hints)
        return int(value) if isinstance(value, sympy.Integer) else otherwise


def _entries(symbols: Attribute | None) -> list[tuple[str, Attribute]]:
    return list(symbols.data.items()) if isinstance(symbols, DictionaryAttr) else []


def _hint(facts: Attribute) -> int:
    known: Mapping[str, Attribute] = facts.data if isinstance(facts, DictionaryAttr) else {}
    hint, low = known.get("hint"), known.get("min")
    if isinstance(hint, IntegerAttr):
        return hint.value.data
    return max(DEFAULT_SIZE, low.value.data) if isinstance(low, IntegerAttr) else DEFAULT_SIZE
