"""Conversion between tensor types and fake tensors, including symbolic sizes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, TupleType
from xdsl.ir import Attribute

from fxc.bridge.eager_strides import lay_out_as_eager
from fxc.bridge.values import SYMBOLIC_NUMBERS, is_sequence, torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import (
    NONE_TYPE,
    NUMBERS,
    VALUE,
    BoolType,
    FloatType,
    IntType,
    is_tensor,
    tensor_type,
    tuple_type,
)
from fxc.dialects.attributes.values import int_attr, str_attr
from fxc.errors import FxcError

if TYPE_CHECKING:  # known sizes need none of these, whose import takes as long as compiling some models
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

Names = Mapping[Any, Any]
"""Symbols of a shape environment -> symbols of the module, both SymPy's."""


def type_of(value: Any, names: Names = MappingProxyType({})) -> Attribute:
    """Return the IR type of a (fake) value: a tensor, a symbolic or plain number, None, or a nesting of them."""
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
    if is_sequence(value):
        return tuple_type([type_of(element, names) for element in value])
    return VALUE


def _tensor_type_of(tensor: torch.Tensor, names: Names) -> TensorType:
    dtype, layout = str(tensor.dtype).removeprefix("torch."), str(tensor.layout).removeprefix("torch.")
    sizes = tuple(_dim(s, names) for s in tensor.shape)
    device = str(tensor.device)
    if layout != "strided":
        return tensor_type(dtype, sizes, None, device, layout)
    symbolic = not all(isinstance(s, int) for s in sizes)
    strides = tuple(_dim(s, names) for s in tensor.stride())
    contiguous = symbolic and any(strides == _contiguous_expressions(tensor, names, least) for least in (None, 1))
    return tensor_type(dtype, sizes, None if contiguous else strides, device)


def _contiguous_expressions(tensor: torch.Tensor, names: Names, least: int | None) -> tuple[types.Dim, ...]:
    """Return the strides of a contiguous tensor of these sizes, as expressions.

    A symbolic size counts as positive, or as ``Max(least, size)``: PyTorch writes ``Max(1, u0)`` for data-dependent sizes.
    """
    import sympy
    import torch.utils._sympy.functions as torch_sympy

    maximum: Any = torch_sympy.Max
    step: Any = sympy.Integer(1)
    strides = list[types.Dim]()
    for size in reversed(tensor.shape):
        strides.append(_text(step, names))
        if not isinstance(size, torch.SymInt):
            step = step * sympy.Integer(max(int(size), 1))
        else:
            step = step * (expression_of(size) if least is None else maximum(least, expression_of(size)))
    return tuple(reversed(strides))


def has_autograd(device: str) -> bool:
    """Whether this PyTorch is built for ``device``. Elsewhere its autograd ends the process, even of fake tensors."""
    own = torch.accelerator.current_accelerator()
    return device in ("cpu", "meta", own and own.type)


def as_leaf(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``, which begins a graph of autograd now. FxcError on a device that has no autograd here."""
    if not has_autograd(kind := tensor.device.type):
        raise FxcError(f"this PyTorch is built without {kind}, and has no derivatives there", hint="differentiate on the CPU")
    return tensor.requires_grad_()


def expression_of(number: Any) -> Any:
    """Return the SymPy expression of a symbolic number."""
    return number.node.expr


def _dim(size: int | torch.SymInt, names: Names) -> types.Dim:
    return _text(expression_of(size), names) if isinstance(size, torch.SymInt) else size


def _text(expression: Any, names: Names) -> types.Dim:
    return int(expression) if expression.is_Integer else _written(expression, names)


def _expression(value: Any, names: Names) -> str:
    if not isinstance(value, SYMBOLIC_NUMBERS):
        return str(value)
    from fxc.bridge.expressions import readable

    text = _written(expression_of(value), names)
    return readable(text) if isinstance(value, torch.SymInt) else text


def _written(expression: Any, names: Names) -> str:
    from fxc.bridge.expressions import symbol_name, sympy_symbol

    named = ((symbol, names.get(symbol) or sympy_symbol(symbol_name(symbol))) for symbol in _free_symbols(expression))
    return _text_with(expression, tuple(named))


@lru_cache(1 << 14)
def _free_symbols(expression: Any) -> Sequence[Any]:
    return tuple(expression.free_symbols)


@lru_cache(1 << 14)
def _text_with(expression: Any, names: Sequence[tuple[Any, Any]]) -> str:
    """The canonical text of ``expression`` with these names of symbols. The types of a graph repeat few expressions."""
    from fxc.bridge.expressions import canonical

    return canonical(str(expression.xreplace(dict(names))))


def symbols_of(values: Sequence[Any]) -> dict[str, Attribute]:
    """Return name -> ``{hint, min, max}`` for every symbol in sizes of fake tensors and in symbolic numbers."""
    from fxc.bridge.expressions import symbol_name

    found: dict[str, Attribute] = {}
    for part in symbolic_parts(values):
        for symbol in expression_of(part).free_symbols:
            if (name := symbol_name(symbol)) not in found:
                facts: dict[str, Attribute] = {}
                hint = hints_of(part.node.shape_env).get(symbol)
                if hint is not None and getattr(hint, "is_Integer", False):
                    facts["hint"] = int_attr(int(hint))
                bounds = part.node.shape_env.var_to_range.get(symbol)
                if bounds is not None:
                    for key, bound in (("min", bounds.lower), ("max", bounds.upper)):
                        if bound.is_Integer and abs(int(bound)) < 2**31:
                            facts[key] = int_attr(int(bound))
                found[name] = DictionaryAttr(facts)
    return dict(sorted(found.items()))


def symbolic_parts(values: Sequence[Any]) -> Iterator[Any]:
    """Yield symbolic numbers: sizes and strides of tensors among ``values``, and others of ``values``."""
    for value in values:
        is_strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
        for part in [*value.shape, *value.stride()] if is_strided else [value]:
            if isinstance(part, SYMBOLIC_NUMBERS):
                yield part


class FakeWorld:
    """Makes fake values from types, with one fake mode and shape environment, and one symbol per name.

    ``other_guesses``: use other hints, and other values for unknown numbers, than by default. ``hints``: hints of some symbols,
    by name. ``oblivious``: PyTorch reads hints only where necessary (``backed_size_oblivious``), and emits more general size
    expressions. ``has_guesses``: whether the world has made values of unknown numbers.
    """

    def __init__(
        self,
        symbols: DictionaryAttr | None = None,
        *,
        other_guesses: bool = False,
        hints: Mapping[str, int] = MappingProxyType({}),
        oblivious: bool = False,
    ) -> None:
        self._other_guesses, self._hints, self.oblivious = other_guesses, dict(hints), oblivious
        self._facts = dict(symbols.data) if symbols is not None else {}
        self._symbols, self.has_guesses = dict[str, torch.SymInt](), False
        self._names = dict[Any, Any]()

    @cached_property
    def mode(self) -> FakeTensorMode:
        mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=True)
        mode.cache_enabled = False  # a cache hit returns two tensors where the operator returns one tensor twice
        lay_out_as_eager(mode)
        return mode

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """A context to compute with values of this world."""
        with self.mode, ExitStack() as stack:
            if self.oblivious:
                from torch.fx.experimental import _config

                stack.enter_context(_config.patch(backed_size_oblivious=True))  # type: ignore[attr-defined]
            if self._hints:  # a size of 1 stays a symbol, as in the world to compare with
                stack.enter_context(self.shape_env.suppress_guards())
            yield

    @cached_property
    def shape_env(self) -> ShapeEnv:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        env = ShapeEnv()
        known = [int(name[1:]) for name in self._facts if re.fullmatch(r"u\d+", name)]
        env.unbacked_symint_counter = max(known, default=-1) + 1  # fresh symbols have unused names
        return env

    @property
    def has_guards(self) -> bool:
        """Whether results depend on the hint of a symbol."""
        return "shape_env" in self.__dict__ and bool(self.shape_env.guards)

    @property
    def named_ranges(self) -> dict[sympy.Symbol, tuple[str, Any]]:
        """Symbol -> its name in the module, and the range that the module declares; guards may have narrowed it here."""
        return {own: (str(name), _range(*self._limits(str(name)))) for own, name in self._names.items()}

    @property
    def is_symbolic(self) -> bool:
        """Whether a value of this world has a symbol."""
        return bool(self._symbols) or bool(self._facts)

    @property
    def is_unmarked(self) -> bool:
        """Whether computations left no guards or guesses, and no symbols without a name."""
        if self.has_guesses or "shape_env" not in self.__dict__:
            return not self.has_guesses
        env = self.shape_env
        marks = env.guards or env.deferred_runtime_asserts or env.replacements
        return not marks and all(symbol in self._names for symbol in env.var_to_range)

    def fake(self, type: Attribute) -> Any:
        """Return a fake value of ``type``. FxcError if the type is not specific enough."""
        if is_tensor(type):
            return self._tensor(type)
        if isinstance(type, TupleType):
            return tuple(self.fake(t) for t in type.types.data)
        if isinstance(type, NUMBERS):
            return self._number(type)
        if type == NONE_TYPE:
            return None
        raise FxcError(
            f"the type {type} has too few facts to compute with",
            hint="give example inputs when capturing, or write the tensor type of every argument",
        )

    def argument(self, type: Attribute) -> Any:
        """``fake``, also of a sparse tensor, without elements: not for derivatives, which may be dense."""
        if not is_tensor(type) or types.layout(type) != "sparse_coo":
            return self.fake(type)
        sizes, dtype = [self._size(size) for size in types.sizes(type)], torch_dtype(type.element_type)
        with self.mode:
            return torch.empty(sizes, dtype=dtype, device=types.device(type), layout=torch.sparse_coo)

    def later(self, type: Attribute) -> Any:
        """Return a ``DeferredFake`` for static tensors, most of which are never used, else ``fake``."""
        if not is_tensor(type) or types.layout(type) != "strided":
            return self.fake(type)
        _ = torch_dtype(type.element_type), torch.device(types.device(type))  # reject unknown dtypes and devices
        is_static = all(isinstance(dim, int) for dim in (*types.sizes(type), *(types.strides(type) or ())))
        return DeferredFake(self, type) if is_static else self.fake(type)

    def type_of(self, value: Any) -> Attribute:
        """Return the type, in the module's symbols, of a value computed from fake values of this world."""
        return type_of(value, self._names)

    @property
    def numbers(self) -> dict[str, int]:
        """Name -> hint of the symbols of this world."""
        if "shape_env" not in self.__dict__:
            return {}
        hints = hints_of(self.shape_env)
        return {str(name): int(hints[symbol]) for symbol, name in self._names.items() if symbol in hints}

    def hints_elsewhere(self) -> dict[str, int]:
        """Return ``numbers`` of a world with ``other_guesses`` and the same symbols."""
        guesses = {name: self._other_hint(name, place) for place, name in enumerate(self._symbols)}
        return {name: guesses[name] for name in self.numbers}

    def _other_hint(self, name: str, place: int) -> int:
        """Return the hint of the symbol at position ``place`` with ``other_guesses``."""
        facts, (low, high) = self._facts_of(name), self._limits(name)
        if "elsewhere" in facts:
            return facts["elsewhere"]
        hint = facts.get("hint", max(low, 5))
        return min(2 * hint + 7 + 2 * place, sys.maxsize if high is None else high)

    def known_type_of(self, value: Any) -> Attribute:
        """``type_of``, with the unknown size for sizes that depend on symbols without a name in the module."""
        known = "shape_env" not in self.__dict__
        unnamed = [] if known else [symbol for symbol in self.shape_env.var_to_range if symbol not in self._names]
        if not unnamed:
            return self.type_of(value)
        import sympy

        return with_dims(type_of(value, {**self._names, **{s: sympy.Symbol(f"unnamed_{s}") for s in unnamed}}), _known)

    def _tensor(self, type: TensorType) -> torch.Tensor:
        if (layout := types.layout(type)) != "strided":
            raise FxcError(f"cannot make a fake {layout} tensor", hint="keep sparse tensors outside of the compiled graph")
        sizes = [self._size(s) for s in types.sizes(type)]
        strides = types.strides(type)
        dtype, device = torch_dtype(type.element_type), torch.device(types.device(type))
        steps = None if strides is None else [self._size(s) for s in strides]
        with torch._C._DisableTorchDispatch():
            if steps is None:
                meta = torch.empty(sizes, dtype=dtype, device="meta")
            else:
                meta = torch.empty_strided(sizes, steps, dtype=dtype, device="meta")
        return FakeTensor(self.mode, meta, device)

    def _number(self, type: IntType | FloatType | BoolType) -> Any:
        if isinstance(type, IntType):
            return self._size(type.expression.data)
        if (known := self.known_number(type)) is not None:
            return known
        self.has_guesses, other = True, self._other_guesses
        return not other if isinstance(type, BoolType) else 2.5 if other else 1.0

    def known_number(self, type: Attribute) -> bool | int | float | None:
        """Return the constant in a type, or None if the value depends on data."""
        text = type.expression.data if isinstance(type, NUMBERS) else ""
        try:
            if isinstance(type, BoolType):
                return {"True": True, "False": False}[text]
            return float(text) if isinstance(type, FloatType) else int(text)
        except (KeyError, ValueError):
            return None

    def unknown_number(self, type: Attribute) -> Any:
        """Return a symbolic number: with the expression in the type of a float or bool, else unbacked."""
        expression = self._in_symbols(type.expression.data) if isinstance(type, (FloatType, BoolType)) else None
        if expression is not None and isinstance(type, BoolType):
            from torch.fx.experimental.sym_node import SymNode

            return torch.SymBool(SymNode(expression, self.shape_env, bool, None))
        if expression is not None:
            value = expression.subs(hints_of(self.shape_env))
            return self.shape_env.create_symfloatnode(expression, hint=float(value) if value.is_number else None)
        with self.mode, self.shape_env.ignore_fresh_unbacked_symbols():
            if isinstance(type, BoolType):
                return self.shape_env.create_unbacked_symbool()
            return self.shape_env.create_unbacked_symfloat() if isinstance(type, FloatType) else self._size("")

    def _in_symbols(self, text: str) -> Any:
        """Return the expression of ``text`` over symbols of this world; None if it is not over sizes."""
        from fxc.bridge.expressions import parse_expression

        try:
            expression = parse_expression(text)
        except FxcError:
            return None
        if not all(re.fullmatch(r"[nsu]\d+", str(symbol)) for symbol in expression.free_symbols):
            return None
        return self._renamed(expression)

    def _renamed(self, expression: sympy.Expr) -> sympy.Expr:
        """Rename to symbols of this world, simultaneously: names of both may collide."""
        from fxc.bridge.expressions import sympy_symbol

        names = sorted(str(symbol) for symbol in expression.free_symbols)
        return expression.xreplace({sympy_symbol(name): expression_of(self._symbol(name)) for name in names})  # type: ignore[return-value]

    def _size(self, size: types.Dim) -> int | torch.SymInt:
        if isinstance(size, int):
            return size
        if not size:
            with self.mode:
                return self._unbacked(0, None)
        if re.fullmatch(r"-?\d+", size):
            return int(size)
        from fxc.bridge.expressions import parse_expression

        expression = parse_expression(size)
        if expression.is_Integer:
            return int(expression)
        renamed: Any = self._renamed(expression)
        value = renamed.subs(hints_of(self.shape_env))
        return self.shape_env.create_symintnode(renamed, hint=int(value) if value.is_Integer else None)

    def _unbacked(self, low: int, high: int | None) -> torch.SymInt:
        """Return a data-dependent size. It does not count as fresh, so traces need not bind it."""
        with self.shape_env.ignore_fresh_unbacked_symbols():
            value = self.shape_env.create_unbacked_symint()
        self.shape_env.var_to_range[expression_of(value)] = _range(low, high)
        return value

    def _facts_of(self, name: str) -> dict[str, int]:
        facts = self._facts.get(name)
        data = facts.data.items() if isinstance(facts, DictionaryAttr) else ()
        return {key: attr.value.data for key, attr in data if isinstance(attr, IntegerAttr)}

    def _limits(self, name: str) -> tuple[int, int | None]:
        number = self._facts_of(name)
        least = {"u": 0, "n": -sys.maxsize - 1}.get(name[0], 2)
        return number.get("min", least), number.get("max")

    def _symbol(self, name: str) -> torch.SymInt:
        if name not in self._symbols:
            from fxc.bridge.expressions import sympy_symbol

            low, high = self._limits(name)
            if name.startswith("u"):
                value = self._unbacked(low, high)
            else:
                hint = self._hints.get(name, self._facts_of(name).get("hint", max(low, 5)))
                if self._other_guesses:
                    hint = self._other_hint(name, len(self._symbols))
                from torch._dynamo.source import ConstantSource
                from torch.fx.experimental.symbolic_shapes import DimDynamic

                positive = None if name.startswith("n") else True
                symbol = self.shape_env.create_symbol(
                    hint, ConstantSource(name), DimDynamic.DYNAMIC, None, positive, do_not_specialize_zero_one=hint < 2
                )
                value = self.shape_env.create_symintnode(symbol, hint=hint)
                if isinstance(value, torch.SymInt):
                    self.shape_env.var_to_range[symbol] = _range(low, high)  # type: ignore[index]
            assert isinstance(value, torch.SymInt)
            self._names[expression_of(value)] = sympy_symbol(name)
            self._symbols[name] = value
        return self._symbols[name]


@dataclass(frozen=True)
class DeferredFake:
    """A fake tensor that is made on demand."""

    world: FakeWorld
    type: TensorType

    def make(self) -> torch.Tensor:
        return self.world.fake(self.type)


def with_dims(type: Attribute, change: Callable[[types.Dim], types.Dim]) -> Attribute:
    """``type`` with ``change`` of each size, stride and expression of a number."""
    if isinstance(type, TupleType):
        return tuple_type([with_dims(t, change) for t in type.types.data])
    if isinstance(type, NUMBERS):
        return type.__class__(str_attr(str(change(type.expression.data))))
    if not is_tensor(type):
        return type
    steps = types.strides(type)
    return tensor_type(
        types.dtype_name(type.element_type),
        tuple(map(change, types.sizes(type))),
        None if steps is None else tuple(map(change, steps)),
        types.device(type),
        types.layout(type),
    )


def _known(dim: types.Dim) -> Any:
    return "" if isinstance(dim, str) and re.search(r"\bunnamed_", dim) else dim


def _range(low: int, high: int | None) -> Any:
    import sympy
    from torch.utils._sympy.value_ranges import ValueRanges

    return ValueRanges(low, sympy.oo if high is None else high)


def number_at(dim: types.Dim, numbers: Mapping[str, int]) -> int | None:
    """Return the value of ``dim`` for these values of symbols; None if it has others."""
    return dim if isinstance(dim, int) else _value(dim, tuple(numbers.items()))


@lru_cache(1 << 12)
def _value(text: str, numbers: tuple[tuple[str, int], ...]) -> int | None:
    from fxc.bridge.expressions import number_of, sympy_symbol

    value = number_of(text, {sympy_symbol(name): number for name, number in numbers})
    return None if value == sys.maxsize else value


def hints_of(env: ShapeEnv) -> Any:
    """Return symbol -> hint; the attribute has another name in PyTorch 2.11."""
    return getattr(env, "backed_var_to_val" if hasattr(env, "backed_var_to_val") else "var_to_val")
