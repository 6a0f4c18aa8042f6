"""Guards: the conditions under which a call may run compiled code, as one generated Python function.

A guard is a test, a Python expression over the values of a call, and the error for when it is false. ``all_of`` joins tests,
``CodeNames.function`` compiles them, and ``check`` raises the error of the first that fails. Tests refer to constants through
``CodeNames``, so no content of a file becomes part of generated code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, cast

import torch
from torch._C._dynamo.guards import TensorGuards
from torch.nn import Parameter

from fxc.errors import InputError
from fxc.runtime.lazy import forward_ad, is_recorded, transforms_are_active

PLAIN = (torch.Tensor, Parameter)
"""Plain tensor classes: code that takes addresses supports no others."""

CPU = torch.device("cpu")

Values = Sequence[Any]


@dataclass(frozen=True)
class Guard:
    """``test`` is true for a call that may run; ``error`` makes the exception otherwise, from the values of the call."""

    test: str
    error: Callable[[Values], InputError]


class CodeNames:
    """The names in generated code: constants that the code refers to beside its parameters."""

    def __init__(self, **names: Any) -> None:
        self.values: dict[str, Any] = {"Tensor": torch.Tensor, "plain": PLAIN, "strided": torch.strided} | names
        self._known = dict[int, str]()

    def of(self, value: Any) -> str:
        """Return the name of a constant."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"c{len(self._known)}"
            self.values[name] = value
        return name

    def function(self, parameters: Sequence[str], lines: Sequence[str]) -> Callable[..., Any]:
        """Compile a function from these parameters and lines of Python, with these names as its globals."""
        values = dict(self.values)
        exec(_code("\n    ".join([f"def call({', '.join(parameters)}):", *lines])), values)
        return values.pop("call")

    def check(self, guards: Sequence[Guard], parameters: Sequence[str], values: Values) -> None:
        """Raise the error of the first guard that fails for ``values`` of ``parameters``."""
        lines = [f"if not ({guard.test}): return {i}" for i, guard in enumerate(guards)]
        failed: int | None = self.function(parameters, [*lines, "return None"])(*values)
        if failed is not None:
            raise guards[failed].error(values)


@lru_cache(1024)
def _code(text: str) -> CodeType:
    """Compile ``text``. Code of small kernels and signatures is often equal but for constants, so it is cached."""
    return compile(text, "<guards>", "exec")


def all_of(tests: Iterable[str]) -> str:
    """Return the conjunction of ``tests`` as an expression."""
    return " and ".join(tests) or "True"


def tensor_tests(
    x: str,
    names: CodeNames,
    dtype: torch.dtype,
    device: torch.device,
    sizes: str,
    strides: str | None,
    *,
    is_plain: bool = False,
) -> tuple[str, str, str, str, str]:
    """Return tests of dtype, device, layout, sizes and strides of the tensor named ``x``.

    ``sizes`` and ``strides`` are tuples as Python text; strides are None for a contiguous tensor. ``is_plain``:
    ``plain_tests`` run before, which allows a faster test of the device.
    """
    if device == CPU:
        here = f"{x}.is_cpu"
    elif is_plain and device.type == "cuda" and cast(int | None, device.index) is not None:
        here = f"{x}.is_cuda and {x}.get_device() == {device.index}"
    else:
        here = f"{x}.device == {names.of(device)}"
    return (
        f"{x}.dtype is {names.of(dtype)}",
        here,
        f"{x}.layout is strided",
        f"{x}.shape == {sizes}",
        f"{x}.is_contiguous()" if strides is None else f"{x}.stride() == {strides}",
    )


def plain_tests(x: str, dtype: torch.dtype) -> list[str]:
    """Return tests that the memory of the tensor named ``x`` holds its elements.

    It is not an instance of a subclass, not a lazy conjugate or negative, and not a ZeroTensor, which has no memory.
    """
    lazy = [f"not {x}.is_neg()", f"not {x}._is_zerotensor()"] + [f"not {x}.is_conj()"] * dtype.is_complex
    return [f"type({x}) in plain", *lazy]


def acts_as_tensor(kind: Any) -> bool:
    """Whether the Python code of a tensor class does not see the functions that are called with its tensors."""
    function = kind.__torch_function__
    return function is torch._C._disabled_torch_function_impl or getattr(function, "__func__", None) is _OF_TENSOR


_OF_TENSOR = torch.Tensor.__torch_function__.__func__


def untransformed_tests(names: CodeNames) -> tuple[str, str, str]:
    """Return tests that no transform of torch.func, trace or forward-mode differentiation is active: those see operators."""
    no_transform, no_trace = (f"not {names.of(test)}()" for test in (transforms_are_active, is_recorded))
    return no_transform, no_trace, f"{names.of(forward_ad)}._current_level < 0"


class KnownTensors:
    """Compare tensors, in native code, with those that passed last.

    ``check`` compares class, dtype, device, sizes, strides, lazy bits and ``requires_grad``.
    """

    MOST = 8
    """The maximum number of ``learn`` calls: callers that alternate, such as grad mode on and off, do not rebuild guards."""

    def __init__(self) -> None:
        self.check: Callable[..., bool] = lambda *tensors: False
        self._left = self.MOST

    def learn(self, *tensors: torch.Tensor) -> bool:
        """Let ``check`` accept tensors like these, which passed the tests; return True."""
        if self._left > 0:
            self._left -= 1
            sizes, strides = [[*tensor.shape] for tensor in tensors], [[*tensor.stride()] for tensor in tensors]
            guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)  # type: ignore[call-arg]
            self.check = guards.check
        return True
