"""Questions on long sizes, asked about symbols that stand for parts of these.

PyTorch simplifies products of sizes to compare and divide them, which takes seconds where these are floors and remainders of
floors: windows of an image, padded, stage after stage. Types that hold for any values of such parts hold for their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any, cast

import sympy
from torch.utils._sympy import value_ranges
from torch.utils._sympy.functions import Max, Min
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Block, Operation

from fxc.bridge.expressions import canonical, parse_expression, sympy_symbol
from fxc.bridge.tensors import FakeWorld, number_at, with_dims
from fxc.dialects.attributes.types import Dim, IntType
from fxc.dialects.attributes.values import int_attr, str_attr
from fxc.dialects.semantics import CannotInfer

_value_ranges: Any = value_ranges


class NamedSizes:
    """A copy of an operation in which symbols stand for floors, remainders and other functions in the sizes of its operands."""

    def __init__(self, op: Operation, symbols: DictionaryAttr) -> None:
        self._module, self._names, self._symbols = symbols, dict[Any, Any](), dict[str, Attribute]()
        operands = list(dict.fromkeys(op.operands))
        block = Block(arg_types=[with_dims(value.type, self._named) for value in operands])
        self.op = op.clone(dict(zip(operands, block.args, strict=True)))

    @property
    def symbols(self) -> DictionaryAttr:
        """The symbols in the copy, with their hints and limits."""
        return DictionaryAttr(self._symbols)

    def original(self, type: Attribute) -> Attribute:
        """``type``, of a result of the copy, in the symbols of the module."""
        parts = {symbol: part for part, symbol in self._names.items()}
        return with_dims(type, lambda dim: _changed(dim, lambda expression: expression.xreplace(parts)))

    def _named(self, dim: Dim) -> Dim:
        return _changed(dim, self._renamed)

    def _renamed(self, part: Any) -> Any:
        if isinstance(part, (sympy.Add, sympy.Mul, sympy.Pow, Max, Min)):
            return cast("Any", part).func(*map(self._renamed, part.args))
        if not part.free_symbols:
            return part
        if part.is_Symbol:
            return self._add(str(part), part, self._world._facts_of(str(part)))
        if part not in self._names:
            self._names[part] = self._symbol(part)
        return self._names[part]

    def _symbol(self, part: Any) -> Any:
        bounds = _value_ranges.bound_sympy(
            part, {sympy_symbol(name): range for name, range in self._world.named_ranges.values()}
        )
        limits = {key: int(bound) for key, bound in (("min", bounds.lower), ("max", bounds.upper)) if bound.is_Integer}
        kind, taken = "s" if bounds.lower >= 1 else "n", {*self._module.data, *self._symbols}
        return self._add(next(name for number in count() if (name := f"{kind}{number}") not in taken), part, limits)

    def _add(self, name: str, part: Any, limits: Mapping[str, int]) -> Any:
        """Return the symbol ``name`` for ``part``, with what ``part`` is at the hints of the module, and at other sizes."""
        facts = dict(limits)
        for key, values in (("hint", self._world.numbers), ("elsewhere", self._world.hints_elsewhere())):
            if (value := number_at(str(part), values)) is None:
                raise CannotInfer(f"{part} depends on data")
            facts[key] = value
        self._symbols[name] = DictionaryAttr({key: int_attr(value) for key, value in facts.items()})
        return sympy_symbol(name)

    @cached_property
    def _world(self) -> FakeWorld:
        world = FakeWorld(self._module)
        for name in self._module.data:
            world.fake(IntType(str_attr(name)))
        return world


def _changed(dim: Dim, change: Callable[[Any], Any]) -> Dim:
    if not isinstance(dim, str) or not dim:
        return dim
    expression = change(parse_expression(dim))
    return int(expression) if expression.is_Integer else canonical(str(expression))
