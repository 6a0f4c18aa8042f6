"""A random program: inputs, steps and results, as the Python source that is run and printed."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Input:
    """``shape``: sizes, ``n`` and ``m`` where calls differ in them. ``layout``: how it lies in memory, along ``dim`` or in
    ``order``. ``seed``: which numbers it has. ``is_leaf``: where it requires a gradient, whether it is one for autograd."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    seed: int = 0
    layout: str = "contiguous"
    dim: int = 0
    order: tuple[int, ...] = ()
    requires_grad: bool = False
    is_leaf: bool = True

    @property
    def code(self) -> str:
        """An expression that makes the tensor, with strides and storage offset."""
        base: list[int | str] = list(self.shape)
        view = ""
        if self.layout == "transposed":
            base = [self.shape[self.order.index(i)] for i in range(len(base))]
            view = f".permute({', '.join(map(str, self.order))})"
        elif self.layout == "columns":
            base[-1] = f"{self.shape[-1]} + 2"
            view = "[..., 1:-1]"
        elif self.layout == "steps":
            base[self.dim] = f"{self.shape[self.dim]} * 2"
            view = "[" + ":, " * self.dim + "::2]"
        elif self.layout == "offset":
            base[0] = f"{self.shape[0]} + 1"
            view = "[1:]"
        elif self.layout == "expanded":
            base[self.dim] = 1
            view = f".expand({', '.join(map(str, self.shape))})"
        elif self.layout == "channels_last":
            view = ".to(memory_format=torch.channels_last)"
        free = [size for size in base if isinstance(size, str) and ("n" in size or "m" in size)]
        if not free:
            base = [eval(size) if isinstance(size, str) else size for size in base]
        count = " * ".join(f"({size})" if " " in str(size) else str(size) for size in base) if free else math.prod(base)  # type: ignore[arg-type]
        made = numbers(str(count), self.dtype, self.seed)
        reshaped = made if len(base) == 1 else f"{made}.reshape({', '.join(map(str, base)) or '()'})"
        gradient = "" if not self.requires_grad else ".requires_grad_()" if self.is_leaf else ".requires_grad_().clone()"
        return f"{reshaped}{view}{gradient}"


def numbers(count: str, dtype: str, seed: int) -> str:
    """``count`` different numbers in [-3.2, 3.2], which any floating type holds exactly; integers from -50 to 50."""
    mixed = f"(torch.arange({count}) * {(37, 23, 61, 7)[seed % 4]} + {11 * seed}) % 101"
    if dtype == "bool":
        return f"({mixed} % 3 == 0)"
    if dtype == "uint8":
        return f"({mixed}).to(torch.uint8)"
    if dtype.startswith("int"):
        return f"({mixed} - 50)" if dtype == "int64" else f"({mixed} - 50).to(torch.{dtype})"
    if dtype.startswith("complex"):
        part = f"(({mixed} - 50) / 16)" + ("" if dtype == "complex64" else ".to(torch.float64)")
        return f"torch.complex({part}, {part}.flip(0))"
    return f"(({mixed} - 50) / 16)" + ("" if dtype == "float32" else f".to(torch.{dtype})")


FACTORIES = tuple(f"torch.{name}" for name in ("arange", "eye", "full", "linspace", "ones", "randn", "tensor", "zeros"))


@dataclass(frozen=True)
class Step:
    """A statement: an assignment, or a write. ``operator`` names what it calls."""

    operator: str
    code: str


@dataclass(frozen=True)
class Program:
    """``route``: how it is compiled, or the pipeline that runs on it. ``sizes``: values of ``n`` and ``m`` in the inputs, one
    pair a call; empty where sizes are numbers. ``numbers``: whether the values of the results are compared. ``device``: where
    it runs."""

    route: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...] = ()
    numbers: bool = True
    device: str = "cpu"

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(step.operator for step in self.steps)

    @property
    def complexity(self) -> tuple[int, int, int]:
        sizes = sum(size if isinstance(size, int) else 3 for item in self.inputs for size in item.shape)
        return len(self.steps) + len(self.inputs) + len(self.results), sizes, len(self.source)

    @cached_property
    def source(self) -> str:
        """Two functions: ``inputs`` makes new inputs, ``f`` is what is compiled."""
        arguments = "n, m" if self.sizes else ""
        made = "".join(f"        {item.code},\n" for item in self.inputs)
        names = ", ".join(item.name for item in self.inputs)
        steps = [step.code for step in self.steps]
        lines = [*(steps if self.device == "cpu" else self._beside_inputs(steps)), f"return ({', '.join(self.results)},)"]
        body = textwrap.indent("\n".join(lines), "    ")
        return f"def inputs({arguments}):\n    return [\n{made}    ]\n\n\ndef f({names}):\n{body}\n"

    def _beside_inputs(self, steps: list[str]) -> list[str]:
        """Factories name the device of the first input: Dynamo of PyTorch 2.11 does not see the default device."""
        device = ast.parse(f"{self.inputs[0].name}.device", mode="eval").body
        trees = [ast.parse(step) for step in steps]
        for node in (node for tree in trees for node in ast.walk(tree)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in FACTORIES:
                node.keywords.append(ast.keyword("device", device))
        return [ast.unparse(tree) for tree in trees]

    @property
    def check(self) -> str:
        """The call that compares ``f`` with eager."""
        more = f", sizes={list(self.sizes)}" if self.sizes else ""
        more += "" if self.numbers else ", numbers=False"
        more += "" if self.device == "cpu" else f', device="{self.device}"'
        return f'check("{self.route}", f, inputs{more})'

    @property
    def test(self) -> str:
        """A whole file for pytest."""
        head = "import torch\nimport torch.nn.functional as F\n\nfrom tests.fuzz.check import check\n\n\n"
        name = "passes" if "," in self.route else self.route
        return f"{head}{self.source}\n\ndef test_{name}() -> None:\n    {self.check}\n"

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """``f`` and ``inputs``."""
        scope: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.source, "<program>", "exec"), scope)
        return scope["f"], scope["inputs"]
