"""A kernel as a Python function on tensors: check the arguments, allocate the results, call the code, and check its status.

A check has no importable name; its origin is the call from which another process can make it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fxc.errors import BoundsError, InputError
from fxc.runtime.guards import CPU, CodeNames, all_of, plain_tests, tensor_tests, untransformed_tests
from fxc.runtime.lazy import has_tangent, is_recorded, is_wrapped, resolved
from fxc.runtime.memory_cache import CACHED_FROM, memory_cache

Tensor = torch.Tensor


class Unknown(Protocol):
    """A size or stride that depends on the scalar arguments of a call."""

    def at(self, numbers: Mapping[str, int]) -> int:
        """Return the value for these values of symbols."""
        ...

    def text(self, name: Callable[[str], str] = str) -> str:
        """Return the expression as Python text, in which ``name`` maps symbols to their text."""
        ...

    def __rmul__(self, other: Any) -> Any: ...


Steps: TypeAlias = int | Unknown

WITHOUT_KERNELS = """compile the transformed function, as fxc.compile(torch.vmap(f), ...), or with options={"target": None}"""
"""The way out where a transform of torch.func reaches a kernel."""

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


def refuse_trace(what: str) -> None:
    """InputError in a trace: it records operators, and kernels are none."""
    if is_recorded():
        hint = "trace the function that was compiled, or compile the function that calls it, which then runs in parts"
        raise InputError(f"{what} runs in a trace, which does not record what it computes", hint=hint)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a kernel reads or makes; ``fill`` is the value of all elements before the kernel runs.

    Sizes and strides may be expressions in the ``symbol`` of scalar arguments; ``at`` returns the spec of a call.
    """

    name: str
    dtype: torch.dtype
    sizes: tuple[Steps, ...]
    strides: tuple[Steps, ...]
    fill: float | None = None
    device: torch.device = CPU

    @property
    def is_dynamic(self) -> bool:
        """Whether a size or stride is dynamic."""
        return any(not isinstance(number, int) for number in (*self.sizes, *self.strides))

    @property
    def contiguous(self) -> bool:
        expected, step = list[Any](), 1
        for size in reversed(self.sizes):
            expected.insert(0, step)
            step = step * (max(size, 1) if isinstance(size, int) else size)
        steps = zip(self.sizes, self.strides, expected, strict=True)
        return 0 in self.sizes or all(size == 1 or a == b for size, a, b in steps)

    def at(self, numbers: Mapping[str, int]) -> TensorSpec:
        """Return the spec for these values of symbols."""
        if not self.is_dynamic:
            return self
        sizes, strides = (
            tuple(n if isinstance(n, int) else n.at(numbers) for n in each) for each in (self.sizes, self.strides)
        )
        return replace(self, sizes=sizes, strides=strides)

    def complaint(self, value: Any) -> str:
        """Describe why the kernel cannot read ``value``, ignoring strides; empty if it can."""
        if not isinstance(value, Tensor):
            return f"is a {type(value).__name__}, but a tensor is expected"
        if _dispatch_of(type(value)) is not _dispatch_of(Tensor) and not isinstance(value, FakeTensor):
            return f"is a {type(value).__name__}, which has no elements"
        if is_wrapped(value) or has_tangent(value):
            return f"is a tensor of a transform (vmap, jvp), which has no memory: {WITHOUT_KERNELS}"
        if value.dtype is not self.dtype:
            return f"has dtype {value.dtype}, but {self.dtype} is expected"
        if value.device != self.device or value.layout is not torch.strided:
            return f"is a {value.layout} tensor on {value.device}, but a strided one on {self._place} is expected"
        return "" if tuple(value.shape) == self.sizes else f"has sizes {tuple(value.shape)}, but {self.sizes} is expected"

    @property
    def _place(self) -> str:
        return "the CPU" if self.device == CPU else str(self.device)

    def has_strides(self, value: Tensor) -> bool:
        """Whether the strides are those of the kernel; strides of dimensions of size 1 are ignored."""
        steps = zip(self.sizes, value.stride(), self.strides, strict=True)
        return not value.numel() or all(a == b for size, a, b in steps if size not in (0, 1))

    def laid_out(self, value: Tensor) -> Tensor:
        """Return ``value``, or a copy if its strides differ or it is lazy."""
        return resolved(value) if self.has_strides(value) else self.new().copy_(value)

    def new(self) -> Tensor:
        made = torch.empty_strided(self.known_sizes(), self.known_strides(), dtype=self.dtype, device=self.device)
        return made if self.fill is None else made.fill_(self.fill)

    @property
    def cached_bytes(self) -> int | None:
        """The size in bytes, if the memory of such a tensor is cached: large tensors on the CPU."""
        if self.is_dynamic or self.device != CPU or 0 in self.sizes:
            return None
        steps = zip(self.known_sizes(), self.known_strides(), strict=True)
        bytes = self.dtype.itemsize * (1 + sum((size - 1) * step for size, step in steps))
        return bytes if bytes >= CACHED_FROM else None

    def known_sizes(self) -> tuple[int, ...]:
        """The sizes, after ``at``."""
        return tuple(size for size in self.sizes if isinstance(size, int))

    def known_strides(self) -> tuple[int, ...]:
        """The strides, after ``at``."""
        return tuple(step for step in self.strides if isinstance(step, int))


@dataclass(frozen=True)
class ScalarSpec:
    """A scalar argument: ``type`` is int or float, ``bits`` its width in the kernel, ``symbol`` the size that it is, if any."""

    name: str
    type: type
    bits: int
    symbol: str = ""


class TensorKernel:
    """A kernel that takes a tensor for each of ``inputs`` and a number for each of ``scalars``, and returns new ``outputs``.

    The results of fake tensors are fake. InputError, which names the argument, if one does not fit. ``copies``: tensors with
    other strides are copied instead of rejected. Subclasses define ``_call``, the implementation of a call, and ``_start``,
    which runs the code on arguments that fit: tensors that it reads, tensors that it writes, then numbers.
    """

    _call: Callable[..., list[Tensor]]
    _start: Callable[..., None]

    def __init__(
        self,
        name: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        scalars: Sequence[ScalarSpec] = (),
        *,
        copies: bool = False,
    ) -> None:
        self.name, self.inputs, self.outputs, self.scalars = name, tuple(inputs), tuple(outputs), tuple(scalars)
        self.copies = copies
        self.is_dynamic = any(scalar.symbol for scalar in self.scalars)

    def __call__(self, *arguments: Any) -> list[Tensor]:
        if len(arguments) != len(self.inputs) + len(self.scalars):
            expected = len(self.inputs) + len(self.scalars)
            raise InputError(f"kernel {self.name} takes {expected} arguments, but got {len(arguments)}")
        return self._call(*arguments)

    def into(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on ``arguments``, as in a call, and write into ``outputs``, which have the layout of new results."""
        numbers = [self.number(i, value) for i, value in enumerate(arguments[len(self.inputs) :])]
        tensors = self.accepted(*arguments[: len(self.inputs)], sizes=self.sizes(*numbers))
        specs = self.at(self.outputs, numbers)
        for spec, value in zip(specs, outputs, strict=True):
            if complaint := spec.complaint(value):
                raise InputError(f"{self._named(spec)} {complaint}")
            if not spec.has_strides(value):
                raise InputError(f"{self._named(spec)} has strides {value.stride()}, but {spec.strides} is expected")
        written = [resolved(value) for value in outputs]
        for spec, value in zip(specs, written, strict=True):
            if spec.fill is not None:
                value.fill_(spec.fill)
        if not any(isinstance(value, FakeTensor) for value in (*tensors, *outputs)):
            self._start(*tensors, *written, *numbers)
        for value, new in zip(outputs, written, strict=True):
            if new is not value:
                value.copy_(new)

    def write(self, *values: Any) -> None:
        """Call ``into`` with the arguments, then the outputs, as positional arguments."""
        count = len(self.inputs) + len(self.scalars)
        self.into(values[:count], values[count:])

    def sizes(self, *numbers: Any) -> dict[str, Any]:
        """Return the sizes among the ``numbers`` of a call, by symbol."""
        return {spec.symbol: number for spec, number in zip(self.scalars, numbers, strict=True) if spec.symbol}

    def at(self, specs: Sequence[TensorSpec], numbers: Sequence[Any]) -> Sequence[TensorSpec]:
        """Return ``specs`` for a call with ``numbers``."""
        return [spec.at(self.sizes(*numbers)) for spec in specs] if self.is_dynamic else specs

    def accepted(self, *tensors: Any, sizes: Mapping[str, int] = _NO_SIZES) -> list[Tensor]:
        """Return the tensors, copied where needed, for the code; InputError names the first that does not fit."""
        refuse_trace(f"kernel {self.name}")
        specs = [spec.at(sizes) for spec in self.inputs] if self.is_dynamic else self.inputs
        for spec, value in zip(specs, tensors, strict=True):
            if complaint := spec.complaint(value):
                raise InputError(f"{self._named(spec)} {complaint}")
            if not self.copies and not spec.has_strides(value):
                raise InputError(f"{self._named(spec)} has strides {value.stride()}, but {spec.strides} is expected")
        return [spec.laid_out(value) for spec, value in zip(specs, tensors, strict=True)]

    def fake_results(self, *tensors: Any, sizes: Mapping[str, int] = _NO_SIZES) -> list[Tensor] | None:
        """Return fake results if a tensor is fake, else None."""
        fake = next((value for value in tensors if isinstance(value, FakeTensor)), None)
        if fake is None:
            return None
        self.accepted(*tensors, sizes=sizes)
        with fake.fake_mode:
            return [spec.at(sizes).new() for spec in self.outputs]

    def number(self, index: int, value: Any) -> Any:
        """Convert ``value`` to the type of scalar ``index``; InputError if it does not fit."""
        spec = self.scalars[index]
        if spec.type is float and isinstance(value, (int, float)):
            return float(value)
        limit = 1 << (spec.bits - 1)
        if spec.type is int and isinstance(value, int) and -limit <= value < max(limit, 2):
            return int(value)
        raise InputError(f"{self._named(spec)} is {value!r}, but {spec.type.__name__} of {spec.bits} bits is expected")

    def __deepcopy__(self, memo: Any) -> TensorKernel:
        return self  # immutable: code and specs

    def _named(self, spec: TensorSpec | ScalarSpec) -> str:
        return f"argument {spec.name} of kernel {self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


class NativeKernel(TensorKernel):
    """A machine code kernel for the CPU. Checks on its arguments make out-of-bounds accesses impossible.

    ``address`` is that of a function of all pointers, those of the outputs last, and then the numbers. ``shared``: the code
    uses OpenMP's threads. ``failures``: error messages by the status that the function returns, from 1 on, raised as
    BoundsError.
    """

    def __init__(
        self,
        name: str,
        address: int,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        scalars: Sequence[ScalarSpec] = (),
        *,
        copies: bool = False,
        shared: bool = False,
        failures: Sequence[str] = (),
    ) -> None:
        super().__init__(name, inputs, outputs, scalars, copies=copies)
        self.shared = shared
        pointers = [ctypes.c_void_p] * (len(inputs) + len(outputs))
        self.failures = tuple(failures)
        code = ctypes.CFUNCTYPE(ctypes.c_int if failures else None, *pointers, *map(_c_type, scalars))(address)
        values = [*(f"x{i}" for i in range(len(inputs))), *(f"y{i}" for i in range(len(outputs)))]
        scalar_names = [f"n{i}" for i in range(len(scalars))]
        arguments = [*(f"{value}.data_ptr()" for value in values), *scalar_names]
        lines = [f"code({', '.join(arguments)})"]
        if failures:
            lines = [f"if status := {lines[0]}: fail(status)"]
        if shared:
            lines.insert(0, "get_num_threads()")  # makes torch.set_num_threads effective for OpenMP in a new thread
        names = {"code": code, "get_num_threads": torch.get_num_threads, "fail": self.fail}
        self._call = specialized(self, lines, names)
        self._start = CodeNames(**names).function([*values, *scalar_names], lines)
        self._write = specialized_write(self, lines, names) if self.is_dynamic else super().write

    def write(self, *values: Any) -> None:
        self._write(*values)

    def fail(self, status: int) -> NoReturn:
        raise BoundsError(self.failures[status - 1], place=f"kernel {self.name}")


def specialized(kernel: TensorKernel, run: Sequence[str], globals: Mapping[str, Any]) -> Callable[..., list[Tensor]]:
    """Generate the body of a call for this kernel: a generic loop over its arguments doubles the cost of a call.

    ``run``: the lines that start the code for the tensors ``x0``, ``x1``, ..., the results ``y0``, ... and the numbers ``n0``,
    ...; ``globals``: the other names in these lines.
    """
    tensors = [f"x{i}" for i in range(len(kernel.inputs))]
    names = CodeNames(kernel=kernel, **globals)
    tests = _tests(kernel, tensors, kernel.inputs, names)
    results = [f"y{i}" for i in range(len(kernel.outputs))]
    makers = [names.of(_maker(spec)) for spec in kernel.outputs]
    scalars = [f"n{i}" for i in range(len(kernel.scalars))]
    listed = ", ".join([*tensors, f"sizes=kernel.sizes({', '.join(scalars)})"] if kernel.is_dynamic else tensors)
    numbers = [f"n{i} = kernel.number({i}, n{i})" for i in range(len(scalars))]
    lines = numbers if kernel.is_dynamic else []
    if tensors:
        lines = [
            *lines,
            f"if not ({tests}):",
            f"    if (fake := kernel.fake_results({listed})) is not None:",
            "        return fake",
            f"    {', '.join(tensors)}, = kernel.accepted({listed})",
        ]
    lines = lines if kernel.is_dynamic else [*lines, *numbers]
    makes = [
        f"{_text(kernel, spec.sizes)}, {_text(kernel, spec.strides)}" if spec.is_dynamic else "" for spec in kernel.outputs
    ]
    lines = [*lines, *(f"{name} = {makers[i]}({makes[i]})" for i, name in enumerate(results))]
    return names.function([*tensors, *scalars], [*lines, *run, f"return [{', '.join(results)}]"])


def _text(kernel: TensorKernel, dims: Sequence[Steps]) -> str:
    """Return ``dims`` as Python text over the numbers ``n0``, ..."""
    names = {scalar.symbol: f"n{i}" for i, scalar in enumerate(kernel.scalars) if scalar.symbol}
    return f"({''.join(f'{dim if isinstance(dim, int) else dim.text(names.__getitem__)}, ' for dim in dims)})"


def specialized_write(kernel: TensorKernel, run: Sequence[str], globals: Mapping[str, Any]) -> Callable[..., None]:
    """Generate the body of ``kernel.write``, with ``run`` and ``globals`` as in ``specialized``."""
    tensors, results = [f"x{i}" for i in range(len(kernel.inputs))], [f"y{i}" for i in range(len(kernel.outputs))]
    scalars = [f"n{i}" for i in range(len(kernel.scalars))]
    names = CodeNames(kernel=kernel, inf=inf, nan=nan, **globals)
    tests = _tests(kernel, [*tensors, *results], [*kernel.inputs, *kernel.outputs], names)
    arguments = ", ".join([*tensors, *scalars])
    lines = [f"if not ({tests}):", f"    return kernel.into([{arguments}], [{', '.join(results)}])"]
    lines += [f"n{i} = kernel.number({i}, n{i})" for i in range(len(scalars))]
    filled = [(name, spec.fill) for name, spec in zip(results, kernel.outputs, strict=True) if spec.fill is not None]
    lines += [f"{name}.fill_({number!r})" for name, number in filled]
    return names.function([*tensors, *scalars, *results], [*lines, *run])


def _tests(kernel: TensorKernel, values: Sequence[str], specs: Sequence[TensorSpec], names: CodeNames) -> str:
    """Return an expression that is true if the tensors with these names fit ``specs``."""
    pairs = zip(values, specs, strict=True)
    each = (test for x, spec in pairs for test in spec_tests(x, names, spec, partial(_text, kernel)))
    no_transform, *others = untransformed_tests(names)
    unwrapped = f"({no_transform} or not any(map({names.of(is_wrapped)}, ({''.join(f'{x}, ' for x in values)}))))"
    return all_of([unwrapped, *others, *each])


def spec_tests(
    x: str, names: CodeNames, spec: TensorSpec, text: Callable[[Sequence[Steps]], str] = lambda _: ""
) -> tuple[str, ...]:
    """Return tests that the tensor named ``x`` fits ``spec`` and is not lazy.

    ``text``: converts dynamic sizes or strides to Python text.
    """
    sizes = text(spec.sizes) if spec.is_dynamic else names.of(torch.Size(spec.known_sizes()))
    strides = text(spec.strides) if spec.is_dynamic else names.of(spec.known_strides())
    tests = tensor_tests(x, names, spec.dtype, spec.device, sizes, None if spec.contiguous else strides, is_plain=True)
    return (*plain_tests(x, spec.dtype), *tests)


def _dispatch_of(kind: type) -> Any:
    """Return the ``__torch_dispatch__`` of a tensor class; equal for all classes that store elements like Tensor."""
    return getattr(kind, "__torch_dispatch__", None)


def _c_type(spec: ScalarSpec) -> Any:
    if spec.type is float:
        return ctypes.c_double if spec.bits == 64 else ctypes.c_float
    return {1: ctypes.c_bool, 8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32}.get(spec.bits, ctypes.c_int64)


def _maker(spec: TensorSpec) -> Callable[..., Tensor]:
    """Return the fastest allocator of such tensors available in Python; it takes sizes and strides if ``spec`` is dynamic."""
    fast = getattr(torch._C._dynamo.guards, f"_empty_strided_{spec.device.type}", None)  # type: ignore[attr-defined]
    if fast is None or (spec.is_dynamic and spec.fill is not None):

        def new(sizes: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
            return replace(spec, sizes=sizes, strides=steps).new()

        return new if spec.is_dynamic else spec.new
    if spec.is_dynamic:

        def empty(sizes: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
            return fast(sizes, steps, spec.dtype)

        return empty
    bytes, arguments = spec.cached_bytes, (spec.sizes, spec.strides, spec.dtype)
    make = partial(fast, *arguments) if bytes is None else partial(memory_cache().new, bytes, *arguments)
    fill = spec.fill
    return make if fill is None else lambda: make().fill_(fill)


T = TypeVar("T")

_ORIGINS = WeakKeyDictionary[Any, tuple[str, tuple[Any, ...]]]()


def made_by(name: str, made: T, *args: Any) -> T:
    """Register ``made`` as the result of ``name(*args)``, for ``origin``."""
    _ORIGINS[made] = name, args
    return made


def origin(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name of the function that made ``value``, and its arguments; None if unknown."""
    try:
        return _ORIGINS.get(value)
    except TypeError:  # unhashable, or not weakly referenceable
        return None


def expected(spec: TensorSpec) -> Callable[[Any], torch.Tensor]:
    """Return a check of a tensor against ``spec``: copies it if strides differ, raises InputError for other mismatches."""
    names = CodeNames()
    lines = [
        f"if {all_of(spec_tests('value', names, spec))}: return value",
        f"return {names.of(partial(_accepted, spec))}(value)",
    ]
    return made_by("expected", names.function(["value"], lines), spec)


def _accepted(spec: TensorSpec, value: Any) -> torch.Tensor:
    if complaint := spec.complaint(value):
        raise InputError(f"{spec.name} {complaint}", hint="PyTorch's operator returned another tensor than it had promised")
    return spec.laid_out(value)


def passed(kernel: str, failures: Sequence[str]) -> Callable[[int], None]:
    """Return a function that checks the status of ``kernel``: 0, or the 1-based index in ``failures``, then BoundsError."""

    def check(status: int) -> None:
        if status:
            raise BoundsError(failures[status - 1], place=f"kernel {kernel}")

    return made_by("passed", check, kernel, failures)
