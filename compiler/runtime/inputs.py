"""Inputs of compiled code, and their guards: one guard for each condition, with its error."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fxc.errors import OTHER_VERSION, InputError
from fxc.runtime.guards import CodeNames, Guard, acts_as_tensor, tensor_tests
from fxc.runtime.shared_memory import WITHOUT_SHARING, back, copied, shared_pair, starts_later

Dim = int | str
"""A number, or an expression in symbols: equal symbols must get equal values within their bounds."""

_LARGEST_POWER = 64
"""The largest exponent. Larger exponents, from a file, could take unlimited time."""


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_POWER:
        raise ValueError("a power that no size has")
    return base**exponent


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: _power,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "max": max, "min": min, "abs": abs,
    "torch.sym_float": float, "torch._sym_sqrt": math.sqrt, "math.sqrt": math.sqrt,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc,
}  # fmt: skip
"""Function name, as in PyTorch's conditions -> implementation."""


def value_of(expression: Dim, known: Mapping[str, int]) -> int | None:
    """Return the value of an expression or condition; None if it has an unknown symbol or is more than arithmetic."""
    if isinstance(expression, int):
        return expression
    try:
        return _value(ast.parse(expression, mode="eval").body, known)
    except (SyntaxError, ValueError, LookupError, ArithmeticError, TypeError):
        return None


def _value(node: ast.expr, known: Mapping[str, int]) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, known)

    match node:
        case ast.Constant(value=int(number) | float(number)):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not of(operand)
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](of(left), of(right))
        case ast.BoolOp(op=op, values=values):
            parts: list[Any] = [of(part) for part in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.Call(func=function, args=args, keywords=[]):
            return _CALLS[ast.unparse(function)](*map(of, args))
        case _:
            raise ValueError("more than arithmetic")


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""The constant of an input that is not specialized to a value."""


@dataclass(frozen=True)
class TensorInput:
    """A tensor input.

    ``strides`` is None for a contiguous tensor. ``moves``: any device is accepted. ``written``: the code may write it, so no
    other input may share its memory. ``values``: its elements, if the code is specialized to them. ``at_start``: it must begin
    at the start of its storage.
    """

    name: str
    dtype: str
    sizes: tuple[Dim, ...]
    device: str
    strides: tuple[Dim, ...] | None = None
    layout: str = "strided"
    moves: bool = False
    written: bool = False
    values: tuple[int, ...] | None = None
    at_start: bool = False

    def __post_init__(self) -> None:
        if not isinstance(getattr(torch, self.dtype, None), torch.dtype):
            raise InputError(f"input {self.name}: PyTorch has no dtype {self.dtype}", hint=OTHER_VERSION)
        try:
            torch.device(str(self.device))
        except RuntimeError as error:
            raise InputError(f"input {self.name}: PyTorch has no device {self.device}", hint=OTHER_VERSION) from error

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    @property
    def is_exact(self) -> bool:
        """Whether the spec consists of dtype, device, and static sizes and strides."""
        dims = (*self.sizes, *(self.strides or ()))
        return self.layout == "strided" and not self.moves and self.values is None and all(isinstance(n, int) for n in dims)


@dataclass(frozen=True)
class OtherInput:
    """An input that is not a tensor: one of ``types``, the ``constant`` that was baked in, or the value of ``symbol``.

    Without ``types`` it is any value, also a tensor.
    """

    name: str
    types: tuple[str, ...]
    constant: Any = ANY
    symbol: str | None = None


Inputs = Sequence[TensorInput | OtherInput]
Bounds = Mapping[str, tuple[int, int | None]]
Values = Sequence[Any]
Error = Callable[[Values], InputError]

_RECOMPILE = "compile again with an example of this kind"
_SUBCLASS = "pass it through .as_subclass(torch.Tensor), or compile again with an example of this class"
_WIDEN = "widen the bounds of this size: torch.export.Dim(name, min=..., max=...) in dynamic_shapes"
_FREE = "compile with dynamic_shapes to leave a size free, or with the option recompile"
_STRIDES = "compile with an example of these strides, or"
_MOST = 16
"""The maximum number of values in an error message."""


def input_guards(inputs: Inputs, bounds: Bounds, conditions: Sequence[str], names: CodeNames) -> Iterator[Guard]:
    """Yield the guards of the inputs ``x0``, ``x1``, ... and of their sizes.

    Guards of single inputs precede guards of several: the order of guards is that of errors.
    """
    writer = _Writer(bounds, names)
    yield from writer.inputs(inputs)
    for i, spec in enumerate(inputs):
        if isinstance(spec, TensorInput):
            yield from writer.elements(i, spec)
    yield from map(writer.condition, conditions)


def size_guards(inputs: Inputs, bounds: Bounds, conditions: Sequence[str], names: CodeNames) -> Iterator[Guard]:
    """Yield the guards of ``input_guards``, except those of strides and elements."""
    writer = _Writer(bounds, names)
    yield from writer.inputs(inputs)
    yield from map(writer.condition, conditions)


def memory_guards(inputs: Inputs, names: CodeNames) -> Iterator[Guard]:
    """Yield the guards of the memory of inputs that pass ``input_guards``.

    Some inputs must begin at the start of their storage, and none may share memory with an input that may be written.
    """
    tensors = {i: spec for i, spec in enumerate(inputs) if isinstance(spec, TensorInput) and spec.layout == "strided"}
    for i, spec in tensors.items():
        if spec.at_start:

            def later(values: Values, i: int = i, name: str = spec.name, is_written: bool = spec.written) -> InputError:
                message, hint = starts_later(f"input {name}", copied(name, is_written), values[i].storage_offset())
                return InputError(message, hint=hint)

            yield Guard(f"not x{i}.storage_offset()", later)
    written = {i for i, spec in tensors.items() if spec.written}
    if not written or len(tensors) == 1:
        return

    def together(values: Values) -> InputError:
        first, second = (inputs[i].name for i in shared_pair(values, written) or ())
        return InputError(f"input {second} shares memory with {first}, and the model writes there", hint=WITHOUT_SHARING)

    values = ", ".join(f"x{i}" for i in range(len(inputs)))
    yield Guard(f"{names.of(shared_pair)}(({values}), {names.of(written)}) is None", together)


@dataclass(frozen=True)
class _Symbol:
    """A symbol in tests: its name, the description of where a call defines it, and its value in a call."""

    text: str
    where: str
    value: Callable[[Values], int]


class _Writer:
    def __init__(self, bounds: Bounds, names: CodeNames) -> None:
        self.bounds, self.names = bounds, names
        self.symbols = dict[str, _Symbol]()

    def inputs(self, inputs: Inputs) -> Iterator[Guard]:
        """Yield the guards of each input, except those of strides and elements."""
        for i, spec in enumerate(inputs):
            yield from self.tensor(i, spec) if isinstance(spec, TensorInput) else self.other(i, spec)

    def tensor(self, i: int, spec: TensorInput) -> Iterator[Guard]:
        """Yield the guards of one tensor, except those of strides and elements."""
        x, names, wrong = f"x{i}", self.names, partial(_wrong, i, spec.name)
        is_static = all(isinstance(size, int) for size in spec.sizes)
        sizes = names.of(torch.Size(spec.sizes)) if is_static else ""  # type: ignore[arg-type]
        dtype, here, layout, shape, _ = tensor_tests(x, names, spec.torch_dtype, torch.device(spec.device), sizes, None)
        if spec.layout != "strided":
            layout = f"{x}.layout is {names.of(getattr(torch, spec.layout, None))}"
        yield Guard(f"isinstance({x}, Tensor)", wrong(lambda v: f"is a {type(v).__name__}, but a tensor is expected"))
        test = f"(type({x}) in plain or {names.of(acts_as_tensor)}(type({x})))"
        sees = "whose __torch_function__ would not see what is called"
        yield Guard(test, wrong(lambda v: f"is of the class {type(v).__name__}, {sees}", _SUBCLASS))
        yield Guard(dtype, wrong(lambda v: f"has dtype {v.dtype}, but torch.{spec.dtype} is expected", _RECOMPILE))
        if spec.moves:
            yield Guard(f"not {x}.is_meta", wrong(lambda _: "is on meta, where tensors hold no numbers", "move it before"))
        else:
            yield Guard(here, wrong(lambda v: f"is on {v.device}, not on {spec.device}", "move it with .to(...)"))
        yield Guard(layout, wrong(lambda v: f"has layout {v.layout}, but torch.{spec.layout} is expected"))
        rank = wrong(lambda v: _has_shape(spec, v), _RECOMPILE)
        if is_static:

            def wrong_shape(values: Values) -> InputError:
                axes = (n for n, (a, b) in enumerate(zip(spec.sizes, values[i].shape, strict=True)) if a != b)
                return (rank if values[i].dim() != len(spec.sizes) else self.wrong_size(i, spec, next(axes)))(values)

            yield Guard(shape, wrong_shape)
            return
        yield Guard(f"len(h{i} := {x}.shape) == {len(spec.sizes)}", rank)
        for axis, size in enumerate(spec.sizes):
            if isinstance(size, int):
                yield Guard(f"h{i}[{axis}] == {size}", self.wrong_size(i, spec, axis))
            elif size.isidentifier():
                where = f"dimension {axis} of input {spec.name}"
                yield self.symbol(size, f"h{i}[{axis}]", where, lambda values, axis=axis: values[i].shape[axis])

    def wrong_size(self, i: int, spec: TensorInput, axis: int) -> Error:
        return _wrong(i, spec.name, lambda v: f"{_has_shape(spec, v)} (dimension {axis})", _FREE)

    def other(self, i: int, spec: OtherInput) -> Iterator[Guard]:
        """Yield the guards of an input that is not a tensor."""
        x, wrong, expected = f"x{i}", partial(_wrong, i, spec.name), " or ".join(spec.types)
        if spec.types:
            yield Guard(f"not isinstance({x}, Tensor)", wrong(lambda _: f"is a tensor, but {expected} is expected", _RECOMPILE))
        if spec.constant is not ANY:
            hint = "compile again for this value, or with the option recompile"
            test = f"{self.names.of(same_constant)}({x}, {self.names.of(spec.constant)})"
            yield Guard(test, wrong(lambda v: f"is {v!r}, but {spec.constant!r} was baked in", hint))
        if spec.symbol is not None:
            test = f"(type({x}) is int or isinstance({x}, {self.names.of(torch.SymInt)}))"
            yield Guard(test, wrong(lambda v: f"is {v!r}, but an int is expected", _RECOMPILE))
            yield self.symbol(spec.symbol, x, f"input {spec.name}", lambda values: values[i])

    def symbol(self, symbol: str, test: str, where: str, value: Callable[[Values], int]) -> Guard:
        """Guard that ``test``, with ``value`` in a call, equals an earlier use of the symbol, or is within its bounds."""
        first = self.symbols.get(symbol)
        if first is not None:
            return Guard(
                f"{test} == {first.text}",
                lambda values: InputError(
                    f"{where} is {value(values)}, but {first.where} makes it {first.value(values)}", hint=_RECOMPILE
                ),
            )
        text = f"s{len(self.symbols)}"
        self.symbols[symbol] = _Symbol(text, where, value)
        low, high = self.bounds.get(symbol, (0, None))
        bounds = f"{symbol} lies in [{low}, {'inf' if high is None else high}]"
        upper = "" if high is None else f" <= {high}"
        return Guard(
            f"{low} <= ({text} := {test}){upper}",
            lambda values: InputError(f"{where} is {value(values)}, but {bounds}", hint=_WIDEN),
        )

    def elements(self, i: int, spec: TensorInput) -> Iterator[Guard]:
        """Yield the guards of sizes that are expressions, of strides, and of elements."""
        x, names, sizes, strides = f"x{i}", self.names, spec.sizes, spec.strides
        wrong = partial(_wrong, i, spec.name)
        if any(isinstance(size, str) and not size.isidentifier() for size in sizes):
            yield Guard(f"{names.of(_are)}({names.of(sizes)}, h{i}, {self.known()})", wrong(lambda v: _has_shape(spec, v)))
        if spec.layout != "strided":
            return
        if strides is None:
            copy = back(spec.name, "contiguous") if spec.written else "pass it through .contiguous()"
            error = wrong(lambda v: f"has strides {v.stride()}, but a contiguous tensor is expected", f"{_STRIDES} {copy}")
            yield Guard(f"{x}.is_contiguous()", error)
        else:
            is_exact = all(isinstance(n, int) for n in strides) and all(isinstance(size, int) and size > 1 for size in sizes)
            test = f"{x}.stride() == {names.of(strides)}"
            known = f"{names.of(_are_strides)}({names.of(strides)}, {x}, {self.known()})"
            hint = f"{_STRIDES} with the option recompile"
            error = wrong(lambda v: f"has strides {v.stride()}, but {strides} is expected", hint)
            yield Guard(test if is_exact else known, error)
        if (elements := spec.values) is not None:
            error = wrong(lambda _: "is fake, but its values matter", "pass a tensor that has some")
            yield Guard(f"not isinstance({x}, {names.of(FakeTensor)})", error)
            hint = "compile again for these values, or with the option recompile"
            error = wrong(lambda v: f"has the values {_listed(_elements(v))}, but {_listed(elements)} were baked in", hint)
            yield Guard(f"{names.of(_elements)}({x}) == {names.of(elements)}", error)

    def condition(self, text: str) -> Guard:
        """Guard an additional condition on sizes."""

        def error(values: Values) -> InputError:
            made = ", ".join(f"{symbol.where} is {symbol.value(values)}" for symbol in self.symbols.values())
            return InputError(f"it was compiled for sizes with {text}, but {made}", hint=_RECOMPILE)

        return Guard(f"bool({self.names.of(value_of)}({self.names.of(text)}, {self.known()}))", error)

    def known(self) -> str:
        """Return the text of a dictionary from symbols to their values in a call."""
        return f"{{{', '.join(f'{self.names.of(name)}: {symbol.text}' for name, symbol in self.symbols.items())}}}"


def _wrong(i: int, name: str, complaint: Callable[[Any], str], hint: str | None = None) -> Error:
    """Return the error of input ``i``, with ``complaint`` of its value as the message."""
    return lambda values: InputError(f"input {name} {complaint(values[i])}", hint=hint)


def _has_shape(spec: TensorInput, value: torch.Tensor) -> str:
    expected = ", ".join(map(str, spec.sizes)) + ("," if len(spec.sizes) == 1 else "")
    return f"has shape {tuple(value.shape)}, but ({expected}) is expected"


def _are(expected: Sequence[Dim], sizes: Sequence[int], known: Mapping[str, int]) -> bool:
    """Whether all sizes with known expected values equal them."""
    pairs = [(value_of(expression, known), size) for expression, size in zip(expected, sizes, strict=True)]
    return all(value is None or value == size for value, size in pairs)


def _are_strides(expected: Sequence[Dim], value: torch.Tensor, known: Mapping[str, int]) -> bool:
    """Like ``_are`` for strides; strides of dimensions with one element are ignored."""
    axes = [axis for axis, size in enumerate(value.shape) if size > 1 and value.numel()]
    steps = value.stride()
    return _are([expected[axis] for axis in axes], [steps[axis] for axis in axes], known)


def _elements(value: torch.Tensor) -> tuple[Any, ...]:
    return tuple(cast(Any, value.flatten()).tolist())


def _listed(values: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, values[:_MOST]))}{', ...' * (len(values) > _MOST)}]"


def same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values are the same constant: 1, 1.0 and True differ, so do 0.0 and -0.0, and nan equals itself.

    A scalar of NumPy that is a Python number, such as ``np.float64``, is that number.
    """
    if _python_type(a) is not _python_type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, complex):
        return (a.real.hex(), a.imag.hex()) == (b.real.hex(), b.imag.hex())
    return a is b or bool(a == b)


def _python_type(value: object) -> type[object]:
    kind = type(value)
    bases = (float, complex, str, bytes) if kind.__module__ == "numpy" else ()
    return next((base for base in bases if issubclass(kind, base)), kind)
