"""Between tensor types and fake tensors, symbolic sizes included."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sympy
import torch
import torch.utils._sympy.functions as torch_sympy
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, TupleType
from xdsl.ir import Attribute

from fxc.dialects import types
from fxc.dialects.types import NONE_TYPE, VALUE, BoolType, FloatType, IntType, tensor_type, tuple_type
from fxc.dialects.values import int_attr, str_attr
from fxc.errors import FxcError
from fxc.semantics.values import torch_dtype

Names = Mapping[sympy.Symbol, sympy.Symbol]
"""A shape environment's symbols -> the module's."""


def type_of(value: Any, names: Names = MappingProxyType({})) -> Attribute:
    """The IR type of a (fake) value: a tensor, a symbolic or plain number, None, or a nesting of them."""
    if isinstance(value, torch.Tensor):
        return _tensor_type_of(value, names)
    if value is None:
        return NONE_TYPE
    if isinstance(value, (bool, torch.SymBool)):
        return BoolType(str_attr(_expression(value, names)))
    if isinstance(value, (int, torch.SymInt)):
        return IntType(str_attr(_expression(value, names)))
    if isinstance(value, (float, torch.SymFloat)):
        return FloatType(str_attr(_expression(value, names)))
    if isinstance(value, (tuple, list)):
        return tuple_type([type_of(element, names) for element in value])
    return VALUE


def _tensor_type_of(tensor: torch.Tensor, names: Names) -> TensorType:
    dtype, layout = str(tensor.dtype).removeprefix("torch."), str(tensor.layout).removeprefix("torch.")
    sizes = tuple(_dim(s, names) for s in tensor.shape)
    device = str(tensor.device)
    if layout != "strided":
        return tensor_type(dtype, sizes, None, device, layout)
    symbolic = not all(isinstance(s, int) for s in sizes)
    contiguous = _contiguous_expressions(tensor, names) if symbolic else None
    strides = tuple(_dim(s, names) for s in tensor.stride())
    return tensor_type(dtype, sizes, None if strides == contiguous else strides, device)


def _contiguous_expressions(tensor: torch.Tensor, names: Names) -> tuple[types.Dim, ...]:
    """The strides of a contiguous tensor of these sizes, as expressions; a symbolic size counts as more than zero."""
    step, strides = sympy.Integer(1), list[types.Dim]()
    for size in reversed(tensor.shape):
        strides.append(_text(step, names))
        step = step * (size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(max(int(size), 1)))
    return tuple(reversed(strides))


def _dim(size: int | torch.SymInt, names: Names) -> types.Dim:
    return _text(size.node.expr, names) if isinstance(size, torch.SymInt) else size


def _text(expression: sympy.Expr, names: Names) -> types.Dim:
    return int(expression) if expression.is_Integer else str(expression.xreplace(names))


def _expression(value: Any, names: Names) -> str:
    symbolic = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
    return str(value.node.expr.xreplace(names)) if symbolic else str(value)


def symbols_of(values: Sequence[Any]) -> dict[str, Attribute]:
    """Name -> ``{hint, min, max}`` for every symbol in the sizes of fake tensors and in symbolic numbers."""
    found: dict[str, Attribute] = {}
    for value in values:
        parts = (
            [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) and value.layout is torch.strided else [value]
        )
        for part in parts:
            if isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                for symbol in part.node.expr.free_symbols:
                    if str(symbol) not in found:
                        found[str(symbol)] = _symbol_facts(part.node.shape_env, symbol)
    return dict(sorted(found.items()))


def _symbol_facts(env: ShapeEnv, symbol: sympy.Symbol) -> Attribute:
    facts: dict[str, Attribute] = {}
    known = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    hint = known.get(symbol)
    if hint is not None and getattr(hint, "is_Integer", False):
        facts["hint"] = int_attr(int(hint))
    bounds = env.var_to_range.get(symbol)
    if bounds is not None:
        for key, bound in (("min", bounds.lower), ("max", bounds.upper)):
            if bound.is_Integer and abs(int(bound)) < 2**31:
                facts[key] = int_attr(int(bound))
    return DictionaryAttr(facts)


class FakeWorld:
    """Makes fake values from types: one fake mode and shape environment, a symbol a name."""

    def __init__(self, symbols: DictionaryAttr | None = None) -> None:
        self.shape_env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=True)
        self._facts = dict(symbols.data) if symbols is not None else {}
        self._symbols = dict[str, torch.SymInt]()
        self._names = dict[sympy.Symbol, sympy.Symbol]()

    @property
    def is_symbolic(self) -> bool:
        """Whether any value of this world has a symbol."""
        return bool(self._symbols) or bool(self._facts)

    def fake(self, type: Attribute) -> Any:
        """A fake value of ``type``. FxcError where the type says too little."""
        if isinstance(type, TensorType):
            return self._tensor(type)
        if isinstance(type, TupleType):
            return tuple(self.fake(t) for t in type.types.data)
        if isinstance(type, (IntType, FloatType, BoolType)):
            return self._number(type)
        if type == NONE_TYPE:
            return None
        raise FxcError(
            f"the type {type} says too little to compute with",
            hint="give example inputs when capturing, or write the tensor type of every argument",
        )

    def type_of(self, value: Any) -> Attribute:
        """The type of a value that was computed from this world's fake values, in the module's symbols."""
        return type_of(value, self._names)

    def _tensor(self, type: TensorType) -> torch.Tensor:
        if (layout := types.layout(type)) != "strided":
            raise FxcError(f"cannot make a fake {layout} tensor", hint="keep sparse tensors outside of the compiled graph")
        sizes = [self._size(s) for s in types.sizes(type)]
        strides = types.strides(type)
        dtype, device = torch_dtype(type.element_type), torch.device(types.device(type))
        with self.mode:
            if strides is None:
                return torch.empty(sizes, dtype=dtype, device=device)
            return torch.empty_strided(sizes, [self._size(s) for s in strides], dtype=dtype, device=device)

    def _number(self, type: IntType | FloatType | BoolType) -> Any:
        text = type.expression.data
        if isinstance(type, IntType):
            return self._size(text)
        if isinstance(type, BoolType):
            return {"True": True, "False": False}.get(text, True)
        try:
            return float(text) if text else 1.0
        except ValueError:
            return 1.0

    def _size(self, size: types.Dim) -> int | torch.SymInt:
        if isinstance(size, int):
            return size
        if not size:
            with self.mode:
                return self.shape_env.create_unbacked_symint()
        expression = parse_expression(size)
        if expression.is_Integer:
            return int(expression)
        values = {name: self._symbol(name) for name in sorted(str(s) for s in expression.free_symbols)}
        renamed = expression.subs({sympy_symbol(name): value.node.expr for name, value in values.items()})
        return self.shape_env.create_symintnode(renamed, hint=_hint(renamed, self.shape_env))

    def _symbol(self, name: str) -> torch.SymInt:
        if name not in self._symbols:
            facts = self._facts.get(name)
            data = facts.data if isinstance(facts, DictionaryAttr) else {}
            number = {key: attr.value.data for key, attr in data.items() if isinstance(attr, IntegerAttr)}
            if name.startswith("u"):
                value = self.shape_env.create_unbacked_symint()
            else:
                hint = number.get("hint", max(number.get("min", 2), 5))
                from torch._dynamo.source import ConstantSource  # imports Dynamo, which static shapes need not pay for

                symbol = self.shape_env.create_symbol(hint, ConstantSource(name), DimDynamic.DYNAMIC, None)
                value = self.shape_env.create_symintnode(symbol, hint=hint)
                if isinstance(value, torch.SymInt):
                    low, high = number.get("min", 2), number.get("max")
                    self.shape_env.var_to_range[symbol] = ValueRanges(low, sympy.oo if high is None else high)  # type: ignore[arg-type]
            assert isinstance(value, torch.SymInt)
            self._names[value.node.expr] = sympy_symbol(name)
            self._symbols[name] = value
        return self._symbols[name]


def _hint(expression: sympy.Expr, env: ShapeEnv) -> int | None:
    known = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    value = expression.subs(known)
    return int(value) if value.is_Integer else None


def sympy_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, positive=not name.startswith("u") or None)


_BINARY: dict[type[ast.AST], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: torch_sympy.FloorDiv,
    ast.Mod: torch_sympy.Mod,
    ast.Pow: lambda a, b: a**b,
    ast.Div: lambda a, b: a / b,
}
_CALLS = ("FloorDiv", "Mod", "PythonMod", "CleanDiv", "CeilDiv", "ModularIndexing", "Max", "Min", "Where", "Identity")


def parse_expression(text: str) -> sympy.Expr:
    """The sympy expression of ``text``, read as arithmetic over symbols: nothing is evaluated. FxcError where it is not."""
    try:
        return _expression_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FxcError(f"not an expression in the module's symbols: {text!r}") from error


def _expression_of(node: ast.AST) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Name(id=name):
            return sympy_symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expression_of(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_expression_of(left), _expression_of(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return getattr(torch_sympy, name)(*map(_expression_of, args))
    raise ValueError(ast.dump(node))
