"""A kernel of machine code as a Python function on tensors: checks them, makes the results, and calls the code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter

from fxc.errors import InputError

Tensor = torch.Tensor


@dataclass(frozen=True)
class TensorSpec:
    """A tensor on the CPU that a kernel reads or makes; ``fill`` is what all elements are before the kernel runs."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    fill: float | None = None

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
        if not value.is_cpu or value.layout is not torch.strided:
            return f"is a {value.layout} tensor on {value.device}, but a strided one on the CPU is expected"
        if tuple(value.shape) != self.sizes:
            return f"has sizes {tuple(value.shape)}, but {self.sizes} is expected"
        return "is a lazy negation; take .resolve_neg() of it" if value.is_neg() else ""

    def lies_right(self, value: Tensor) -> bool:
        """Whether the strides are the kernel's; that of a dimension of size 1 does not matter."""
        steps = zip(self.sizes, value.stride(), self.strides, strict=True)
        return not value.numel() or all(size <= 1 or a == b for size, a, b in steps)

    def laid_out(self, value: Tensor) -> Tensor:
        """``value``, copied where its strides are others."""
        return value if self.lies_right(value) else self.new().copy_(value)

    def new(self) -> Tensor:
        made = torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device="cpu")
        return made if self.fill is None else made.fill_(self.fill)


@dataclass(frozen=True)
class ScalarSpec:
    """A number: ``type`` is int or float, ``bits`` its width in the kernel."""

    name: str
    type: type
    bits: int


class NativeKernel:
    """Takes a tensor for each of ``inputs`` and a number for each of ``scalars``, gives a list of new tensors, ``outputs``.

    Of fake tensors the results are fake.

    InputError, which names the argument, for one that does not fit; nothing that is given can make the code read or write
    elsewhere. ``copies``: tensors with other strides are copied, not refused. ``shared``: the code uses OpenMP's threads.
    ``address`` is that of a function of all pointers, those of the outputs last, and then the numbers.
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
    ) -> None:
        self.name, self.inputs, self.outputs, self.scalars = name, tuple(inputs), tuple(outputs), tuple(scalars)
        self.copies, self.shared = copies, shared
        pointers = [ctypes.c_void_p] * (len(inputs) + len(outputs))
        code = ctypes.CFUNCTYPE(None, *pointers, *map(_c_type, scalars))(address)
        self._call = _specialized(self, code)

    def __call__(self, *arguments: Any) -> list[Tensor]:
        if len(arguments) != len(self.inputs) + len(self.scalars):
            expected = len(self.inputs) + len(self.scalars)
            raise InputError(f"kernel {self.name} takes {expected} arguments, but got {len(arguments)}")
        return self._call(*arguments)

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

    def __deepcopy__(self, memo: Any) -> NativeKernel:
        return self  # code, and what never changes

    def _named(self, spec: TensorSpec | ScalarSpec) -> str:
        return f"argument {spec.name} of kernel {self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def _specialized(kernel: NativeKernel, code: Callable[..., None]) -> Callable[..., list[Tensor]]:
    """The body of a call, written out for this kernel: a loop over its arguments would double what a call costs."""
    names: dict[str, Any] = {"plain": (Tensor, Parameter), "strided": torch.strided, "kernel": kernel, "code": code}
    tensors, tests = [f"x{i}" for i in range(len(kernel.inputs))], list[str]()
    for i, spec in enumerate(kernel.inputs):
        names |= {f"dtype{i}": spec.dtype, f"sizes{i}": torch.Size(spec.sizes), f"strides{i}": spec.strides}
        lies_right = f"x{i}.is_contiguous()" if spec.contiguous else f"x{i}.layout is strided and x{i}.stride() == strides{i}"
        tests += [f"type(x{i}) in plain", f"x{i}.dtype is dtype{i}", f"x{i}.shape == sizes{i}", f"x{i}.is_cpu"]
        tests += [lies_right, f"not x{i}.is_neg()"]
    results = [f"y{i}" for i in range(len(kernel.outputs))]
    names |= {f"new{i}": _maker(spec) for i, spec in enumerate(kernel.outputs)}
    scalars = [f"n{i}" for i in range(len(kernel.scalars))]
    pointers = [f"{name}.data_ptr()" for name in (*tensors, *results)]
    lines = [f"def call({', '.join([*tensors, *scalars])}):"]
    if tensors:
        lines += [
            f"    if not ({' and '.join(tests)}):",
            f"        if (fake := kernel.fake_results({', '.join(tensors)})) is not None:",
            "            return fake",
            f"        {', '.join(tensors)}, = kernel.accepted({', '.join(tensors)})",
        ]
    lines += [f"    n{i} = kernel.number({i}, n{i})" for i in range(len(scalars))]
    lines += [f"    {name} = new{i}()" for i, name in enumerate(results)]
    if kernel.shared:
        names["get_num_threads"] = torch.get_num_threads
        lines.append("    get_num_threads()")  # tells OpenMP in a new thread what torch.set_num_threads has said
    lines += [f"    code({', '.join([*pointers, *scalars])})", f"    return [{', '.join(results)}]"]
    exec("\n".join(lines), names)
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
    fast = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None)  # type: ignore[attr-defined]
    if fast is None:
        return spec.new
    make = partial(fast, spec.sizes, spec.strides, spec.dtype)
    return make if spec.fill is None else lambda: make().fill_(spec.fill)
