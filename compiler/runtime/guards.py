"""Guards: what must hold at a call for what was compiled to be run, as one generated Python function.

A guard is a test, an expression in Python over the values of a call, and the error where it is false. ``all_of`` joins tests,
``Names.function`` compiles them, and ``check`` raises the error of the first that fails. Texts of tests name constants through
``Names``, so that nothing of a file is ever part of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards
from torch.nn import Parameter

from fxc.errors import InputError

PLAIN = (torch.Tensor, Parameter)
"""Classes of tensors that are nothing but their numbers: of others, code that takes addresses knows nothing."""

CPU = torch.device("cpu")

Values = Sequence[Any]


@dataclass(frozen=True)
class Guard:
    """``test`` is true of a call that may go on; ``error`` is what to raise else, made of the call's values."""

    test: str
    error: Callable[[Values], InputError]


class Names:
    """What texts of tests name: constants beside the parameters of the function that they become part of."""

    def __init__(self, **names: Any) -> None:
        self.values: dict[str, Any] = {"Tensor": torch.Tensor, "plain": PLAIN, "strided": torch.strided} | names
        self._known = dict[int, str]()

    def of(self, value: Any) -> str:
        """The name of a constant."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"c{len(self._known)}"
            self.values[name] = value
        return name

    def function(self, parameters: Sequence[str], lines: Sequence[str]) -> Callable[..., Any]:
        """A function of these parameters and lines of Python, with these names as its globals."""
        values = dict(self.values)
        exec(_code("\n    ".join([f"def call({', '.join(parameters)}):", *lines])), values)
        return values.pop("call")

    def check(self, guards: Sequence[Guard], parameters: Sequence[str], values: Values) -> None:
        """Raise the error of the first guard that fails for ``values`` of ``parameters``."""
        lines = [f"if not ({guard.test}): return {i}" for i, guard in enumerate(guards)]
        failed = self.function(parameters, [*lines, "return None"])(*values)
        if failed is not None:
            raise guards[failed].error(values)


@lru_cache(1024)
def _code(text: str) -> CodeType:
    """Texts of small kernels and signatures are often equal: they differ in constants."""
    return compile(text, "<guards>", "exec")


def all_of(tests: Iterable[str]) -> str:
    """An expression that is true where all ``tests`` are."""
    return " and ".join(tests) or "True"


def tensor_tests(
    x: str, names: Names, dtype: torch.dtype, device: torch.device, sizes: str, strides: str | None, *, is_plain: bool = False
) -> tuple[str, str, str, str, str]:
    """Tests of dtype, device, layout, sizes and strides of the tensor called ``x``.

    ``sizes`` and ``strides`` are texts of tuples; strides are None for a contiguous tensor. ``is_plain``: ``plain_tests`` are
    made before, so that a quicker test of the device does.
    """
    if device == CPU:
        here = f"{x}.is_cpu"
    elif is_plain and device.type == "cuda" and device.index is not None:
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
    """Tests that the memory of the tensor called ``x`` holds its numbers: no class in between, no lazy conjugate or negative,
    and no zeros without memory."""
    lazy = [f"not {x}.is_neg()", f"not {x}._is_zerotensor()"] + [f"not {x}.is_conj()"] * dtype.is_complex
    return [f"type({x}) in plain", *lazy]


class KnownTensors:
    """``check``: whether tensors have the class, dtype, device, sizes, strides, lazy bits and grad flag of those learnt last,
    found out in native code."""

    MOST = 8
    """How often is learnt: callers that take turns, with grad mode on and off say, are not to make a guard each time."""

    def __init__(self) -> None:
        self.check: Callable[..., bool] = lambda *tensors: False
        self._left = self.MOST

    def learn(self, *tensors: torch.Tensor) -> bool:
        """``tensors`` have been found to be right; True."""
        if self._left > 0:
            self._left -= 1
            sizes, strides = [[*tensor.shape] for tensor in tensors], [[*tensor.stride()] for tensor in tensors]
            guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)  # type: ignore[call-arg]
            self.check = guards.check
        return True
