"""What tests of patterns share: programs in which calls are replaced, and a registry that is empty after each test."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, default_partition, make_boxed_func
from torch import Tensor

import fxc
from fxc.patterns import registry
from fxc.patterns.trace import parameter_count

X = torch.linspace(-2, 2, 12).reshape(3, 4)
Y = torch.linspace(1, 3, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def registry_emptied() -> Iterator[None]:
    """No registered pattern stays after a test."""
    yield
    for equation in registry.registered():
        registry.remove(equation)


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def program_of(function: Callable[..., Any], *args: Tensor, route: str = "export", **more: Any) -> fxc.Program:
    return fxc.capture(function, args, route=route, **more)


def run(program: fxc.Program, *args: Tensor) -> Any:
    return fxc.to_fx(program)(*args)


def names(program: fxc.Program) -> list[str]:
    """The operators of the entry function, short."""
    return [op.name.removeprefix("torch.aten.").removesuffix(".default") for op in program.main.walk()][1:-1]


def count(function: Callable[..., Any], pattern: Callable[..., Any], *args: Tensor, **more: Any) -> int:
    """How often ``pattern`` matches in ``function``; the replacement is the pattern's own value, so results stay."""
    program, wanted = program_of(function, *args), parameter_count(pattern)
    if wanted <= len(args):
        more.setdefault("example_inputs", args[:wanted])  # one trace instead of one for each rank
    return len(fxc.replace_pattern(program, pattern, pattern, **more).matches)


def joint_program(function: Callable[..., Any], *args: Tensor) -> fxc.Program:
    """The joint graph of ``function``, as AOTAutograd makes it, without ``detach``, which does nothing there."""
    found = list[fxc.Program]()

    def partition(joint: Any, inputs: Any, **more: Any) -> Any:
        plain = copy.deepcopy(joint)
        for node in plain.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
            node.replace_all_uses_with(node.args[0])
            plain.graph.erase_node(node)
        found.append(fxc.import_fx(plain))
        return default_partition(joint, inputs, **more)

    aot_function(function, lambda graph, _: make_boxed_func(graph), partition_fn=partition)(*args)
    return found[0]
