"""A kernel as a Python function on tensors: checks them, makes the results, and calls the code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter

from fxc.errors import BoundsError, InputError

Tensor = torch.Tensor
CPU = torch.device("cpu")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a kernel reads or makes; ``fill`` is what all elements are before the kernel runs."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    fill: float | None = None
    device: torch.device = CPU

    @property
    def contiguous(self) -> bool:
        expected, step = list[int](), 1
        for size in reversed(self.sizes):
            expected.insert(0, step)
            step *= max(size, 1)
        steps = zip(self.sizes, self.strides, expected, strict=True)
        return 0 in self.sizes or all(size == 1 or a == b for size, a, b in steps)

    def complaint(self, value: Any) -> str:
        """Why the kernel cannot read ``value``, strides apart; empty where it can."""
        if not isinstance(value, Tensor):
            return f"is a {type(value).__name__}, but a tensor is expected"
        if _dispatch_of(type(value)) is not _dispatch_of(Tensor) and not isinstance(value, FakeTensor):
            return f"is a {type(value).__name__}, which holds no numbers of its own"
        if value.dtype is not self.dtype:
            return f"has dtype {value.dtype}, but {self.dtype} is expected"
        if value.device != self.device or value.layout is not torch.strided:
            return f"is a {value.layout} tensor on {value.device}, but a strided one on {self._place} is expected"
        if tuple(value.shape) != self.sizes:
            return f"has sizes {tuple(value.shape)}, but {self.sizes} is expected"
        return "is a lazy negation; take .resolve_neg() of it" if value.is_neg() else ""

    @property
    def _place(self) -> str:
        return "the CPU" if self.device == CPU else str(self.device)

    def lies_right(self, value: Tensor) -> bool:
        """Whether the strides are the kernel's; that of a dimension of size 1 does not matter."""
        steps = zip(self.sizes, value.stride(), self.strides, strict=True)
        return not value.numel() or all(size <= 1 or a == b for size, a, b in steps)

    def laid_out(self, value: Tensor) -> Tensor:
        """``value``, copied where its strides are others."""
        return value if self.lies_right(value) else self.new().copy_(value)

    def new(self) -> Tensor:
        made = torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=self.device)
        return made if self.fill is None else made.fill_(self.fill)


@dataclass(frozen=True)
class ScalarSpec:
    """A number: ``type`` is int or float, ``bits`` its width in the kernel."""

    name: str
    type: type
    bits: int


class TensorKernel:
    """Takes a tensor for each of ``inputs`` and a number for each of ``scalars``, gives a list of new tensors, ``outputs``.

    Of fake tensors the results are fake.

    InputError, which names the argument, for one that does not fit. ``copies``: tensors with other strides are copied, not
    refused. A kind of kernel says with ``_call`` how it is called, and with ``_start`` how it runs on tensors that fit: those
    that it reads, those that it writes, then numbers.
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

    def __call__(self, *arguments: Any) -> list[Tensor]:
        if len(arguments) != len(self.inputs) + len(self.scalars):
            expected = len(self.inputs) + len(self.scalars)
            raise InputError(f"kernel {self.name} takes {expected} arguments, but got {len(arguments)}")
        return self._call(*arguments)

    def into(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on ``arguments``, as a call takes them, and write into ``outputs``, which lie as new results would."""
        tensors = self.accepted(*arguments[: len(self.inputs)])
        numbers = [self.number(i, value) for i, value in enumerate(arguments[len(self.inputs) :])]
        for spec, value in zip(self.outputs, outputs, strict=True):
            if complaint := spec.complaint(value):
                raise InputError(f"{self._named(spec)} {complaint}")
            if not spec.lies_right(value):
                raise InputError(f"{self._named(spec)} has strides {value.stride()}, but {spec.strides} is expected")
            if spec.fill is not None:
                value.fill_(spec.fill)
        if not any(isinstance(value, FakeTensor) for value in (*tensors, *outputs)):
            self._start(*tensors, *outputs, *numbers)

    def write(self, *values: Any) -> None:
        """``into`` with the arguments, and then the outputs, one by one."""
        count = len(self.inputs) + len(self.scalars)
        self.into(values[:count], values[count:])

    def accepted(self, *tensors: Any) -> list[Tensor]:
        """The tensors, or copies of them, that the code may be given; InputError names the first that does not fit."""
        for spec, value in zip(self.inputs, tensors, strict=True):
            if complaint := spec.complaint(value):
                raise InputError(f"{self._named(spec)} {complaint}")
            if not self.copies and not spec.lies_right(value):
                raise InputError(f"{self._named(spec)} has strides {value.stride()}, but {spec.strides} is expected")
        return [spec.laid_out(value) for spec, value in zip(self.inputs, tensors, strict=True)]

    def fake_results(self, *tensors: Any) -> list[Tensor] | None:
        """The results, where some tensor is a fake one."""
        fake = next((value for value in tensors if isinstance(value, FakeTensor)), None)
        if fake is None:
            return None
        self.accepted(*tensors)
        with fake.fake_mode:
            return [spec.new() for spec in self.outputs]

    def number(self, index: int, value: Any) -> Any:
        """``value`` as scalar ``index`` takes it; InputError where it does not fit."""
        spec = self.scalars[index]
        if spec.type is float and isinstance(value, (int, float)):
            return float(value)
        limit = 1 << (spec.bits - 1)
        if spec.type is int and isinstance(value, int) and -limit <= value < max(limit, 2):
            return int(value)
        raise InputError(f"{self._named(spec)} is {value!r}, but {spec.type.__name__} of {spec.bits} bits is expected")

    def __deepcopy__(self, memo: Any) -> TensorKernel:
        return self  # code, and what never changes

    def _named(self, spec: TensorSpec | ScalarSpec) -> str:
        return f"argument {spec.name} of kernel {self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


class NativeKernel(TensorKernel):
    """Machine code of the CPU; nothing that is given can make it read or write elsewhere.

    ``address`` is that of a function of all pointers, those of the outputs last, and then the numbers. ``shared``: the code
    uses OpenMP's threads. ``failures``: what went wrong, by the number that the function returns, from 1 on; then BoundsError.
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
            lines.insert(0, "get_num_threads()")  # tells OpenMP in a new thread what torch.set_num_threads has said
        names = {"code": code, "get_num_threads": torch.get_num_threads, "fail": self.fail}
        self._call = specialized(self, lines, names)
        self._start = function([*values, *scalar_names], lines, names)

    def fail(self, status: int) -> NoReturn:
        raise BoundsError(self.failures[status - 1], place=f"kernel {self.name}")


def specialized(kernel: TensorKernel, run: Sequence[str], globals: Mapping[str, Any]) -> Callable[..., list[Tensor]]:
    """The body of a call, written out for this kernel: a loop over its arguments would double what a call costs.

    ``run``: the lines that start the code for the tensors ``x0``, ``x1``, ..., the results ``y0``, ... and the numbers ``n0``,
    ...; ``globals``: what else they name.
    """
    tensors = [f"x{i}" for i in range(len(kernel.inputs))]
    tests, names = _tests(tensors, kernel.inputs)
    names |= {"kernel": kernel, **globals}
    results = [f"y{i}" for i in range(len(kernel.outputs))]
    names |= {f"new{i}": _maker(spec) for i, spec in enumerate(kernel.outputs)}
    scalars = [f"n{i}" for i in range(len(kernel.scalars))]
    lines = list[str]()
    if tensors:
        lines += [
            f"if not ({' and '.join(tests)}):",
            f"    if (fake := kernel.fake_results({', '.join(tensors)})) is not None:",
            "        return fake",
            f"    {', '.join(tensors)}, = kernel.accepted({', '.join(tensors)})",
        ]
    lines += [f"n{i} = kernel.number({i}, n{i})" for i in range(len(scalars))]
    lines += [f"{name} = new{i}()" for i, name in enumerate(results)]
    return function([*tensors, *scalars], [*lines, *run, f"return [{', '.join(results)}]"], names)


def specialized_write(kernel: TensorKernel, run: Sequence[str], globals: Mapping[str, Any]) -> Callable[..., None]:
    """The body of ``kernel.write``, written out, with ``run`` and ``globals`` as in ``specialized``."""
    tensors, results = [f"x{i}" for i in range(len(kernel.inputs))], [f"y{i}" for i in range(len(kernel.outputs))]
    scalars = [f"n{i}" for i in range(len(kernel.scalars))]
    tests, names = _tests([*tensors, *results], [*kernel.inputs, *kernel.outputs])
    arguments = ", ".join([*tensors, *scalars])
    lines = [f"if not ({' and '.join(tests)}):", f"    return kernel.into([{arguments}], [{', '.join(results)}])"]
    lines += [f"n{i} = kernel.number({i}, n{i})" for i in range(len(scalars))]
    filled = [(name, spec.fill) for name, spec in zip(results, kernel.outputs, strict=True) if spec.fill is not None]
    lines += [f"{name}.fill_({number!r})" for name, number in filled]
    return function(
        [*tensors, *scalars, *results], [*lines, *run], names | {"kernel": kernel, "inf": inf, "nan": nan, **globals}
    )


def _tests(values: Sequence[str], specs: Sequence[TensorSpec]) -> tuple[list[str], dict[str, Any]]:
    """What says in Python that the tensors of these names are as ``specs`` say, and what that names."""
    names: dict[str, Any] = {"plain": (Tensor, Parameter), "strided": torch.strided}
    tests = list[str]()
    for x, spec in zip(values, specs, strict=True):
        names |= {f"dtype_{x}": spec.dtype, f"sizes_{x}": torch.Size(spec.sizes), f"strides_{x}": spec.strides}
        lies_right = f"{x}.is_contiguous()" if spec.contiguous else f"{x}.layout is strided and {x}.stride() == strides_{x}"
        here = f"{x}.is_cpu" if spec.device == CPU else f"{x}.get_device() == {spec.device.index}"
        tests += [f"type({x}) in plain", f"{x}.dtype is dtype_{x}", f"{x}.shape == sizes_{x}", here]
        tests += [lies_right, f"not {x}.is_neg()"]
    return tests, names


def function(parameters: Sequence[str], lines: Sequence[str], globals: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of these parameters and lines of Python."""
    names = dict(globals)
    exec("\n    ".join([f"def call({', '.join(parameters)}):", *lines]), names)
    return names["call"]


def _dispatch_of(kind: type) -> Any:
    """What a class of tensors does in place of PyTorch's kernels; the same for all that hold numbers as Tensor does."""
    return getattr(kind, "__torch_dispatch__", None)


def _c_type(spec: ScalarSpec) -> Any:
    if spec.type is float:
        return ctypes.c_double if spec.bits == 64 else ctypes.c_float
    return {1: ctypes.c_bool, 8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32}.get(spec.bits, ctypes.c_int64)


def _maker(spec: TensorSpec) -> Callable[[], Tensor]:
    """Makes a new tensor, as fast as PyTorch lets Python do it."""
    fast = getattr(torch._C._dynamo.guards, f"_empty_strided_{spec.device.type}", None)  # type: ignore[attr-defined]
    if fast is None:
        return spec.new
    make = partial(fast, spec.sizes, spec.strides, spec.dtype)
    return make if spec.fill is None else lambda: make().fill_(spec.fill)
