"""What a compiled callable takes: dtype, sizes, strides and device of each input, and the nesting they come in.

``Signature.fits`` is the check of every call and answers in a few microseconds; ``check`` explains what ``fits`` refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import TreeSpec, tree_flatten

from fxc.errors import InputError
from fxc.runtime import autocast
from fxc.runtime.host_program import PLAIN
from fxc.runtime.shared_memory import WITHOUT_SHARING, back, memory_range, share_bytes, starts_later
from fxc.runtime.size_expressions import Dim, value_of

_TENSOR, _STRIDED = torch.Tensor, torch.strided


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""The constant of an input that was not baked in."""


@dataclass(frozen=True)
class TensorInput:
    """A tensor input. ``strides`` is None for a contiguous one. ``moves``: it may come on any device. ``written``: what runs
    may write to it, so that no other input may share its memory. ``values``: its elements, where it may have no others.
    ``at_start``: it must begin where its storage does."""

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


@dataclass(frozen=True)
class OtherInput:
    """An input that is no tensor: one of ``types``, the ``constant`` that was baked in, or the value of ``symbol``."""

    name: str
    types: tuple[str, ...]
    constant: Any = ANY
    symbol: str | None = None


@dataclass(frozen=True)
class Signature:
    """The inputs in order, the nesting (None where they come flat), the bounds of each symbol, and where autocast is on.

    ``conditions``: what else the sizes must satisfy, as text over the symbols.
    """

    inputs: tuple[TensorInput | OtherInput, ...]
    nesting: TreeSpec | None
    bounds: Mapping[str, tuple[int, int | None]]
    autocast: autocast.Autocast = ()
    conditions: tuple[str, ...] = ()
    _tests: tuple[Any, ...] = field(init=False, repr=False, compare=False)
    _plain: tuple[Any, ...] | None = field(init=False, repr=False, compare=False)
    _nest: Any = field(init=False, repr=False, compare=False)
    _apart: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _at_start: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.nesting is not None and self.nesting.num_leaves != len(self.inputs):
            raise InputError(f"the nesting holds {self.nesting.num_leaves} inputs, but the program takes {len(self.inputs)}")
        object.__setattr__(self, "_tests", tuple(_test_of(spec, self.bounds) for spec in self.inputs))
        # the common case, inputs that are all contiguous on the CPU and of fixed sizes, has a loop of its own: 0.3 us a tensor
        plain = all(test is not None and test[0] is not None and test[2:] == (None, None, None) for test in self._tests)
        object.__setattr__(self, "_plain", tuple(test[:2] for test in self._tests) if plain else None)
        object.__setattr__(self, "_nest", _nest_of(self.nesting, len(self.inputs)))
        tensors = [i for i, spec in enumerate(self.inputs) if isinstance(spec, TensorInput) and spec.layout == "strided"]
        has_pairs = len(tensors) > 1 and any(map(self._is_written, tensors))
        object.__setattr__(self, "_apart", tuple(tensors) if has_pairs else ())
        placed = (i for i in tensors if isinstance(spec := self.inputs[i], TensorInput) and spec.at_start)
        object.__setattr__(self, "_at_start", tuple(placed))

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these inputs is one that the signature describes. Never raises; ``check`` says why not."""
        leaves = self.leaves(args, kwargs)
        return leaves is not None and self.fits_leaves(leaves)

    @property
    def is_flat(self) -> bool:
        """Whether the inputs come as positional arguments, none of them nested."""
        return type(self._nest) is int

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """The inputs in order, or None where they are nested otherwise."""
        nest = self._nest
        if type(nest) is int:
            return args if len(args) == nest and not kwargs else None
        if nest is not None:
            found = list[Any]()
            if _collect(args, nest[0], found) and _collect(kwargs, nest[1], found):
                return found
        try:
            return self._flat(args, kwargs)
        except InputError:
            return None

    @property
    def asks_of_memory(self) -> bool:
        """Whether some inputs must not share memory with others, or must begin where their storage does."""
        return bool(self._apart or self._at_start)

    def fits_memory(self, leaves: Sequence[Any]) -> bool:
        """Whether no input shares memory with another that may be written, and all begin where they must. They fit else."""
        if any(leaves[i].storage_offset() for i in self._at_start):
            return False
        reach = 0
        for start, end in sorted(memory_range(leaves[i]) for i in self._with_memory(leaves)):
            if start < reach:
                return self._shared(leaves) is None
            reach = end
        return True

    def _shared(self, leaves: Sequence[Any]) -> tuple[int, int] | None:
        """Two inputs that share memory, of which one may be written."""
        pairs = combinations(self._with_memory(leaves), 2)
        written = ((i, j) for i, j in pairs if self._is_written(i) or self._is_written(j))
        return next(((i, j) for i, j in written if share_bytes(leaves[i], leaves[j])), None)

    def _with_memory(self, leaves: Sequence[Any]) -> list[int]:
        return [i for i in self._apart if type(leaves[i]) in PLAIN and leaves[i].numel()]

    def _is_written(self, i: int) -> bool:
        spec = self.inputs[i]
        return isinstance(spec, TensorInput) and spec.written

    def fits_leaves(self, leaves: Sequence[Any]) -> bool:
        """``fits`` for inputs that are flat already."""
        return self._fit_each(leaves) and (not self.asks_of_memory or self.fits_memory(leaves))

    def _fit_each(self, leaves: Sequence[Any]) -> bool:
        if (self.autocast or autocast.is_on()) and self.autocast != autocast.current():
            return False
        if self._plain is not None:
            for value, (dtype, sizes) in zip(leaves, self._plain, strict=True):
                if (
                    not isinstance(value, _TENSOR)
                    or value.shape != sizes
                    or value.dtype is not dtype
                    or not (value.is_cpu and value.layout is _STRIDED and value.is_contiguous())
                ):
                    return False
            return True
        return self._fits_any(leaves)

    def _fits_any(self, leaves: Sequence[Any]) -> bool:
        values, explain = None, bool(self.conditions)
        for value, test in zip(leaves, self._tests, strict=True):
            if test is None:
                explain = True
                continue
            dtype, sizes, device, strides, dims = test
            if dtype is None and dims is None:
                if not same_constant(value, sizes):
                    return False
                continue
            if dtype is None:
                (name, low, high) = dims
                values = {} if values is None else values
                if type(value) is not int or value < low or value > high or values.setdefault(name, value) != value:
                    return False
                continue
            if (
                not isinstance(value, _TENSOR)
                or value.dtype is not dtype
                or not (value.is_cpu if device is None else value.device == device)
                or value.layout is not _STRIDED
                or not (value.is_contiguous() if strides is None else value.stride() == strides)
            ):
                return False
            if dims is None:
                if value.shape != sizes:
                    return False
                continue
            shape = value.shape
            if len(shape) != len(dims):
                return False
            values = {} if values is None else values
            for (name, low, high), size in zip(dims, shape, strict=True):
                if size < low or size > high or (name is not None and values.setdefault(name, size) != size):
                    return False
        if explain:
            try:
                self._explain(leaves)
            except InputError:
                return False
        return True

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """InputError, naming the argument and what was expected, unless a call with these inputs fits."""
        if self.fits(tuple(args), dict(kwargs)):
            return
        if self.autocast != autocast.current():
            there, here = autocast.text(self.autocast), autocast.text(autocast.current())
            raise InputError(
                f"it was compiled under {there}, but is called under {here}",
                hint="compile where it is called, enter autocast in the model itself, or use the option recompile",
            )
        self._explain(self._flat(args, kwargs))

    def _explain(self, leaves: Sequence[Any]) -> None:
        values = dict[str, tuple[int, str]]()
        for spec, value in zip(self.inputs, leaves, strict=True):
            if isinstance(spec, TensorInput):
                self._check_tensor(spec, value, values)
            else:
                self._check_other(spec, value, values)
        sizes = {name: size for name, (size, _) in values.items()}
        for spec, value in zip(self.inputs, leaves, strict=True):
            if isinstance(spec, TensorInput):
                _check_expressions(spec, value, sizes)
                _check_values(spec, value)
        for condition in self.conditions:
            if not value_of(condition, sizes):
                made = ", ".join(f"{where} is {size}" for size, where in values.values())
                raise InputError(f"it was compiled for sizes with {condition}, but {made}", hint=_RECOMPILE)
        for i in self._at_start:
            name = self.inputs[i].name
            if offset := leaves[i].storage_offset():
                message, hint = starts_later(f"input {name}", back(name, "clone"), offset)
                raise InputError(message, hint=hint)
        if (shared := self._shared(leaves)) is not None:
            first, second = (self.inputs[i].name for i in shared)
            message = f"input {second} shares memory with {first}, and the model writes there"
            raise InputError(message, hint=WITHOUT_SHARING)

    def _flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        if self.nesting is None:
            if kwargs or len(args) != len(self.inputs):
                raise InputError(f"{len(self.inputs)} inputs are expected, but got {len(args) + len(kwargs)}", hint=_RECOMPILE)
            return list(args)
        ordered = {key: kwargs[key] for key in self.nesting.children()[1].context if key in kwargs}
        ordered |= {key: value for key, value in kwargs.items() if key not in ordered}
        leaves, nesting = tree_flatten((tuple(args), ordered))
        if nesting != self.nesting:
            raise InputError(self._difference(self.nesting, nesting), hint=_RECOMPILE)
        return leaves

    def _difference(self, expected: TreeSpec, given: TreeSpec) -> str:
        """What of the arguments of a call is not as in the example."""
        (args, kwargs), (given_args, given_kwargs) = expected.children(), given.children()
        names = ", ".join(spec.name for spec in self.inputs)
        if (count := args.num_children) != given_args.num_children:
            return f"{count} positional inputs are expected, but got {given_args.num_children} (the inputs are {names})"
        for key in kwargs.context:
            if key not in given_kwargs.context:
                return f"input {key} is expected, but not given"
        for key in given_kwargs.context:
            if key not in kwargs.context:
                return f"input {key} is given, but not expected (the inputs are {names})"
        keys, old, new = [*range(count), *kwargs.context], args.children() + kwargs.children(), given_args.children()
        pairs = zip(keys, old, new + given_kwargs.children(), strict=True)
        return next(f"input {key} is nested otherwise than in the example: {b}, expected {a}" for key, a, b in pairs if a != b)

    def _check_tensor(self, spec: TensorInput, value: Any, values: dict[str, tuple[int, str]]) -> None:
        if not isinstance(value, torch.Tensor):
            raise InputError(f"input {spec.name} is a {type(value).__name__}, but a tensor is expected")
        if str(value.dtype) != f"torch.{spec.dtype}":
            raise InputError(f"input {spec.name} has dtype {value.dtype}, but torch.{spec.dtype} is expected", hint=_RECOMPILE)
        if spec.moves and value.is_meta:
            raise InputError(f"input {spec.name} is on meta, where tensors hold no numbers", hint="move it before")
        if not spec.moves and str(value.device) != spec.device:
            raise InputError(f"input {spec.name} is on {value.device}, not on {spec.device}", hint="move it with .to(...)")
        if str(value.layout) != f"torch.{spec.layout}":
            raise InputError(f"input {spec.name} has layout {value.layout}, but torch.{spec.layout} is expected")
        if value.dim() != len(spec.sizes):
            raise InputError(
                f"input {spec.name} has shape {tuple(value.shape)}, but {_shape(spec)} is expected", hint=_RECOMPILE
            )
        for axis, (expected, size) in enumerate(zip(spec.sizes, value.shape, strict=True)):
            if isinstance(expected, int):
                if size != expected:
                    raise InputError(
                        f"input {spec.name} has shape {tuple(value.shape)}, but {_shape(spec)} is expected (dimension {axis})",
                        hint="compile with dynamic_shapes to leave a size free, or with the option recompile",
                    )
            elif expected.isidentifier():
                self._check_symbol(f"dimension {axis} of input {spec.name}", expected, size, values)

    def _check_other(self, spec: OtherInput, value: Any, values: dict[str, tuple[int, str]]) -> None:
        if isinstance(value, torch.Tensor):
            raise InputError(f"input {spec.name} is a tensor, but {' or '.join(spec.types)} is expected", hint=_RECOMPILE)
        if spec.constant is not ANY and not same_constant(value, spec.constant):
            raise InputError(
                f"input {spec.name} is {value!r}, but {spec.constant!r} was baked in",
                hint="compile again for this value, or with the option recompile",
            )
        if spec.symbol is not None:
            if type(value) is not int and not isinstance(value, torch.SymInt):
                raise InputError(f"input {spec.name} is {value!r}, but an int is expected", hint=_RECOMPILE)
            self._check_symbol(f"input {spec.name}", spec.symbol, value, values)  # type: ignore[arg-type]

    def _check_symbol(self, where: str, name: str, size: int, values: dict[str, tuple[int, str]]) -> None:
        known, first = values.setdefault(name, (size, where))
        if known != size:
            raise InputError(f"{where} is {size}, but {first} makes it {known}")
        low, high = self.bounds.get(name, (0, None))
        if size < low or (high is not None and size > high):
            raise InputError(f"{where} is {size}, but {name} lies in [{low}, {'inf' if high is None else high}]")


_RECOMPILE = "compile again with an example of this kind"


def _check_expressions(spec: TensorInput, value: torch.Tensor, known: Mapping[str, int]) -> None:
    """Sizes and strides that are more than one symbol."""
    sizes = [value_of(size, known) for size in spec.sizes]
    if any(expected is not None and expected != size for expected, size in zip(sizes, value.shape, strict=True)):
        raise InputError(f"input {spec.name} has shape {tuple(value.shape)}, but {_shape(spec)} is expected")
    if spec.layout != "strided":
        return
    if spec.strides is None:
        if not value.is_contiguous():
            way = back(spec.name, "contiguous") if spec.written else "pass it through .contiguous()"
            raise InputError(
                f"input {spec.name} has strides {value.stride()}, but a contiguous tensor is expected",
                hint=f"compile with an example of these strides, or {way}",
            )
        return
    strides = [value_of(stride, known) for stride in spec.strides]
    moves = [size > 1 and value.numel() > 0 for size in value.shape]  # the stride of one element says nothing
    for expected, stride, matters in zip(strides, value.stride(), moves, strict=True):
        if matters and expected is not None and expected != stride:
            raise InputError(
                f"input {spec.name} has strides {value.stride()}, but {spec.strides} is expected",
                hint="compile with an example of these strides, or with the option recompile",
            )


def _check_values(spec: TensorInput, value: torch.Tensor) -> None:
    if spec.values is None:
        return
    if isinstance(value, FakeTensor):
        raise InputError(f"input {spec.name} is fake, but its values matter", hint="pass a tensor that has some")
    if (found := tuple(value.flatten().tolist())) != spec.values:
        raise InputError(
            f"input {spec.name} has the values {_listed(found)}, but {_listed(spec.values)} were baked in",
            hint="compile again for these values, or with the option recompile",
        )


def _listed(values: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, values[:_MOST]))}{', ...' * (len(values) > _MOST)}]"


_MOST = 16
"""Values that a message has."""


def same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values are one constant: 1, 1.0 and True differ, so do 0.0 and -0.0, and nan is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, complex):
        return (a.real.hex(), a.imag.hex()) == (b.real.hex(), b.imag.hex())
    return a is b or bool(a == b)


def _test_of(spec: TensorInput | OtherInput, bounds: Mapping[str, tuple[int, int | None]]) -> tuple[Any, ...] | None:
    """What ``fits_leaves`` compares: (dtype, sizes, device, strides, dims); None for what it leaves to ``_explain``.

    The dtype is None for a constant, which stands in the place of the sizes, and for a number, whose limits stand in ``dims``;
    the device is None for the CPU. ``dims``, where sizes have symbols: (symbol or None, lowest, highest) of each.
    """
    if isinstance(spec, OtherInput):
        if spec.symbol is not None:
            return (None, None, None, None, _limits(spec.symbol, bounds))
        return None if spec.constant is ANY else (None, spec.constant, None, None, None)
    dtype, device = getattr(torch, spec.dtype, None), torch.device(spec.device)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"input {spec.name}: PyTorch has no dtype {spec.dtype}")
    static = all(isinstance(size, int) for size in spec.sizes)
    idle = any(size in (0, 1) for size in spec.sizes)  # the stride of such a dimension may be any
    if spec.moves or spec.layout != "strided" or spec.values is not None or (spec.strides is not None and (idle or not static)):
        return None
    place = None if device == torch.device("cpu") else device
    if static:
        return (dtype, spec.sizes, place, spec.strides, None)
    dims = list[tuple[str | None, int, float]]()
    for size in spec.sizes:
        if isinstance(size, int):
            dims.append((None, size, size))
        elif size.isidentifier():
            dims.append(_limits(size, bounds))
        else:
            return None
    return (dtype, None, place, None, tuple(dims))


def _limits(symbol: str, bounds: Mapping[str, tuple[int, int | None]]) -> tuple[str, int, float]:
    low, high = bounds.get(symbol, (0, None))
    return (symbol, low, math.inf if high is None else high)


def _nest_of(nesting: TreeSpec | None, inputs: int) -> Any:
    """How to take leaves out quickly: a number of positional leaves, a (args, kwargs) pair for ``_collect``, or None."""
    if nesting is None:
        return inputs
    args, kwargs = nesting.children()
    if not kwargs.num_children and all(child.is_leaf() for child in args.children()):
        return args.num_children
    pair = _template(args), _template(kwargs)
    return None if None in pair else pair


_LEAF: Final = ()
_CONTAINERS = (tuple, list, dict)


def _template(spec: TreeSpec) -> Any:
    """(type, keys, children) of builtin containers, where children are None if all are leaves; ``_LEAF`` of a leaf.

    None where there is another container.
    """
    if spec.is_leaf():
        return _LEAF
    children = tuple(_template(child) for child in spec.children())
    if spec.type not in _CONTAINERS or None in children:
        return None
    flat = all(child == _LEAF for child in children)
    return (spec.type, list(spec.context) if spec.type is dict else len(children), None if flat else children)


def _collect(value: Any, template: Any, found: list[Any]) -> bool:
    """Appends the leaves of ``value``; False where it is nested otherwise, or holds dict keys in another order."""
    if not template:
        found.append(value)
        return True
    kind, keys, children = template
    if type(value) is not kind:
        return False
    if kind is dict:
        if list(value) != keys:
            return False
        value = value.values()
    elif len(value) != keys:
        return False
    if children is None:
        found.extend(value)
        return True
    return all([_collect(child, inner, found) for child, inner in zip(value, children, strict=True)])


def _shape(spec: TensorInput) -> str:
    return "(" + ", ".join(map(str, spec.sizes)) + ("," if len(spec.sizes) == 1 else "") + ")"
