"""A random program: inputs, steps and results, as the Python source that is run and printed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Input:
    """``code``: an expression that makes the tensor, with strides, storage offset and ``requires_grad``."""

    name: str
    code: str


@dataclass(frozen=True)
class Step:
    """A statement: an assignment, or a write. ``operator`` names what it calls."""

    operator: str
    code: str


@dataclass(frozen=True)
class Program:
    """``route``: how it is compiled. ``sizes``: values of ``n`` and ``m`` in the inputs, one pair a call; empty where
    sizes are numbers. ``numbers``: whether the values of the results are compared."""

    route: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...] = ()
    numbers: bool = True

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(step.operator for step in self.steps)

    @property
    def complexity(self) -> tuple[int, int, int]:
        return len(self.steps), len(self.inputs), len(self.source)

    @cached_property
    def source(self) -> str:
        """Two functions: ``inputs`` makes new inputs, ``f`` is what is compiled."""
        arguments = "n, m" if self.sizes else ""
        made = "".join(f"        {item.code},\n" for item in self.inputs)
        names = ", ".join(item.name for item in self.inputs)
        lines = [step.code for step in self.steps] + [f"return ({', '.join(self.results)},)"]
        body = textwrap.indent("\n".join(lines), "    ")
        return f"def inputs({arguments}):\n    return [\n{made}    ]\n\n\ndef f({names}):\n{body}\n"

    @property
    def check(self) -> str:
        """The call that compares ``f`` with eager."""
        more = f", sizes={list(self.sizes)}" if self.sizes else ""
        return f'check("{self.route}", f, inputs{more}{"" if self.numbers else ", numbers=False"})'

    @property
    def test(self) -> str:
        """A whole file for pytest."""
        head = "import torch\nimport torch.nn.functional as F\n\nfrom tests.fuzz.check import check\n\n\n"
        return f"{head}{self.source}\n\ndef test_{self.route}() -> None:\n    {self.check}\n"

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """``f`` and ``inputs``."""
        scope: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.source, "<program>", "exec"), scope)
        return scope["f"], scope["inputs"]
