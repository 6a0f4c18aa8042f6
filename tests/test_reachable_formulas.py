"""No formula is dead: of each operator that has one, a small program shows that ``fuse`` sees it, and makes a kernel of it.

What a formula is added for may be taken apart, or be replaced by another operator, before that. A function for each operator
goes through the passes that come before ``fuse``, and through it: the operator itself must be in a group then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from fxc.bridge.callables import resolve_operator
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import preset, set_target
from fxc.dialects.torch_ops.base import TorchOp
from fxc.driver.runner import run_pipeline
from fxc.passes.operators import table
from fxc.passes.operators.rules import Accumulation
from fxc.passes.operators.table import OPERATORS
from fxc.pipelines import parse_pipeline
from fxc.testing import parse
from tests.kernel_groups import CONTEXT, COVERED, Call, GroupBuilder
from tests.opinfo import coverage

X = (torch.arange(12.0).reshape(3, 4) + 2) / 8
B = X > 1
N = torch.arange(12).reshape(3, 4) % 3
LINE = torch.tensor([2, 0, 1])
IMAGE = torch.arange(48.0).reshape(1, 2, 4, 6)
CPU = torch.device("cpu")
VOLUME = torch.arange(96.0).reshape(1, 2, 3, 4, 4)


def _bitwise() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"):
        yield f"{name}.Tensor", (N, N + 1)
        yield f"{name}.{'Tensor_Scalar' if 'shift' in name else 'Scalar'}", (N, 2)
        yield f"{name}.Scalar_Tensor", (2, N)
    for name in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"):
        yield f"{name}.Tensor", (N, N)
        yield f"{name}.Scalar", (N, 2)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict(_bitwise()),
    "bitwise_not.default": (N,),
    "slice_scatter.default": (X, X[:2], 0, 0, 2),
    "gcd.default": (N, N + 1),
    "lcm.default": (N, N + 1),
    "div.Tensor_mode": (X, X + 1, {"rounding_mode": "floor"}),
    "div.Scalar_mode": (X, 2.0, {"rounding_mode": "floor"}),
    "clamp.default": (X, 0.5, 1.0),
    "clip.default": (X, 0.5, 1.0),
    "clamp.Tensor": (X, X - 1, X + 1),
    "clip.Tensor": (X, X - 1, X + 1),
    "where.self": (B, X, X + 1),
    "where.ScalarSelf": (B, 2.0, X),
    "where.ScalarOther": (B, X, 2.0),
    "where.Scalar": (B, 2.0, 3.0),
    "masked_fill.Scalar": (X, B, 2.0),
    "masked_fill.Tensor": (X, B, torch.tensor(2.0)),
    "round.decimals": (X, {"decimals": 1}),
    "special_round.default": (X,),
    "expand.default": (X[:, :1], [3, 4]),
    "expand_copy.default": (X[:, :1], [3, 4]),
    "prims.broadcast_in_dim.default": (X, [2, 3, 4], [1, 2]),
    "prims.convert_element_type.default": (N, torch.float32),
    "prims.var.default": (X, [1], 1.0),
    "permute.default": (X, [1, 0]),
    "permute_copy.default": (X, [1, 0]),
    "narrow.default": (X, 0, 1, 2),
    "select.int": (X, 0, 1),
    "select_copy.int": (X, 0, 1),
    "repeat.default": (X, [2, 1]),
    "repeat_interleave.self_int": (X, 2, 1),
    "view.default": (X, [4, 3]),
    "view_copy.default": (X, [4, 3]),
    "_unsafe_view.default": (X, [4, 3]),
    "reshape.default": (X, [4, 3]),
    "_reshape_copy.default": (X, [4, 3]),
    "_reshape_alias.default": (X, [4, 3], [3, 1]),
    "unflatten.int": (X, 1, [2, 2]),
    "cat.default": ([X, X + 1],),
    "concat.default": ([X, X + 1],),
    "concatenate.default": ([X, X + 1],),
    "stack.default": ([X, X + 1],),
    "constant_pad_nd.default": (X, [1, 1]),
    "pad.default": (X, [1, 1]),
    "reflection_pad1d.default": (X, [1, 1]),
    "replication_pad1d.default": (X, [1, 1]),
    "reflection_pad2d.default": (IMAGE, [1, 1, 1, 1]),
    "replication_pad2d.default": (IMAGE, [1, 1, 1, 1]),
    "reflection_pad3d.default": (VOLUME, [1] * 6),
    "replication_pad3d.default": (VOLUME, [1] * 6),
    "select_scatter.default": (X, X[0] + 1, 0, 1),
    "slice_backward.default": (X[:2], [3, 4], 0, 0, 2, 1),
    "select_backward.default": (X[0], [3, 4], 0, 1),
    "gather.default": (X, 1, N),
    "take.default": (X, N),
    "take_along_dim.default": (X, N, 1),
    "index_select.default": (X, 0, LINE),
    "index.Tensor": (X, [LINE]),
    "_unsafe_index.Tensor": (X, [LINE]),
    "embedding.default": (X, LINE),
    "one_hot.default": (N, 3),
    "scatter.src": (X, 0, N, X + 1),
    "scatter.value": (X, 0, N, 2.0),
    "scatter.reduce": (X, 0, N, X + 1, {"reduce": "add"}),
    "scatter_reduce.two": (X, 0, N, X + 1, "sum"),
    "scatter_add.default": (X, 0, N, X + 1),
    "index_copy.default": (X, 0, LINE, X + 1),
    "index_fill.int_Scalar": (X, 0, LINE, 2.0),
    "index_fill.int_Tensor": (X, 0, LINE, torch.tensor(2.0)),
    "index_add.default": (X, 0, LINE, X + 1),
    "index_put.default": (X, [LINE], X + 1),
    "_unsafe_index_put.default": (X, [LINE], X + 1),
    "embedding_dense_backward.default": (X, LINE, 5, -1, False),
    "prims.iota.default": (5000, {"start": 0, "step": 1, "dtype": torch.int64, "device": CPU, "requires_grad": False}),
    "to.dtype": (N, torch.float32),
    "_to_copy.default": (N, {"dtype": torch.float32}),
    "type_as.default": (N, X),
    "clone.default": (X.t(), {"memory_format": torch.contiguous_format}),
    "contiguous.default": (X.t(),),
    "expand_as.default": (X[:, :1], X),
    "view_as.default": (X, torch.ones(4, 3)),
    "slice.Tensor": (X, 0, 1, 3),
    "squeeze.default": (X[:, :1],),
    "squeeze.dim": (X[:, :1], 1),
    "squeeze.dims": (X[:, :1], [1]),
    "transpose.int": (X, 0, 1),
    "arange.default": (5000,),
    "arange.start": (1, 5000),
    "arange.start_step": (1, 10000, 2),
    "full.default": ([50, 100], 2.0),
    "ones.default": ([50, 100],),
    "zeros.default": ([50, 100],),
}
"""Operator of ``aten`` -> the arguments of a call, keywords last, where it takes others than a matrix for each tensor."""


CHUNK, HALF = (f'tensor<?x4xf32, #torch.meta<sizes = ["{size}", 4]>>' for size in ("2*s0", "s0"))
TURNED = 'tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"], strides = [1, "s0"]>>'
PLAIN = 'tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>'


def _cut(operator: str) -> str:
    return f"""
func.func @main(%x: {CHUNK}) -> {HALF} {{
  %a, %b = torch.{operator}(%x, 2) : ({CHUNK}) -> ({HALF}, {HALF})
  %c = torch.aten.add.Tensor(%a, %b) : ({HALF}, {HALF}) -> {HALF}
  %d = torch.aten.exp.default(%c) : ({HALF}) -> {HALF}
  func.return %d : {HALF}
}}
"""


CUTS = ("aten.chunk.default", "aten.unsafe_chunk.default", "aten.tensor_split.sections")
PROGRAMS: dict[str, tuple[str, str]] = {
    **{name: ("pieces of sizes that are not known", _cut(name)) for name in CUTS},
    "aten.contiguous.default": (
        "a copy into an order that may be the same",
        f"""
func.func @main(%x: {TURNED}) -> {PLAIN} {{
  %a = torch.aten.contiguous.default(%x) : ({TURNED}) -> {PLAIN}
  %b = torch.aten.exp.default(%a) : ({PLAIN}) -> {PLAIN}
  func.return %b : {PLAIN}
}}
""",
    ),
    "aten.lift_fresh_copy.default": (
        "a copy of an argument that is returned",
        """
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %a = torch.aten.lift_fresh_copy.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %b = torch.aten.exp.default(%a) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %a, %b : tensor<3xf32>, tensor<3xf32>
}
""",
    ),
    "aten.scalar_tensor.default": (
        "a part of a decomposition",
        """
func.func @main(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %a = torch.aten.nansum.default(%x, [1]) : (tensor<3x4xf32>) -> tensor<3xf32>
  func.return %a : tensor<3xf32>
}
""",
    ),
    "fxc.uniform.default": (
        "random numbers of a seed",
        """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = torch.aten.rand_like.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %b = torch.aten.mul.Tensor(%x, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = torch.aten.exp.default(%b) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %c : tensor<3xf32>
}
""",
    ),
}
"""Operator -> where a kernel computes it, though not in a function of a call and pointwise work; and a program of that kind."""

OF_INDUCTOR = "prims.fma.default"
"""PyTorch has it once Inductor is loaded."""


def call_of(name: str) -> Call | None:
    given = ARGUMENTS.get(name.removeprefix("aten."))
    if given is None:
        return coverage.sample(name)
    *args, kwargs = given if isinstance(given[-1], dict) else (*given, {})
    target = resolve_operator(name)
    return Call(target, tuple(args), kwargs, target(*args, **kwargs))


def function_of(name: str, call: Call) -> FuncOp:
    """A function of pointwise work, ``call`` on what it gives, and pointwise work on the results."""
    builder = GroupBuilder()

    def add(target: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        result = target(*args, **kwargs)
        builder.call(Call(target, args, kwargs, result))
        return result

    def computed(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32
        return add(torch.ops.aten.mul.Tensor, leaf, 1.5) if is_float else leaf

    def pointwise(result: torch.Tensor) -> torch.Tensor:
        if result.dtype != torch.float32:
            result = add(torch.ops.aten._to_copy.default, result, dtype=torch.float32)
        return add(torch.ops.aten.exp.default, add(torch.ops.aten.add.Tensor, result, 1.5))

    args, kwargs = tree_map(computed, (call.args, dict(call.kwargs)))
    builder.call(Call(call.target, args, kwargs, call.result))
    outputs = [builder.values[id(pointwise(result))] for result in tree_leaves(call.result)]
    ops = list(builder.body.ops)
    for op in ops:
        op.detach()
    builder.block.add_ops([*ops, ReturnOp(*outputs)])
    types = FunctionType.from_lists(list(builder.block.arg_types), [value.type for value in outputs])
    return FuncOp(name, types, Region(builder.block), "public")


def in_groups(module: ModuleOp, target: str = "cpu", random: bool = False) -> set[tuple[str, str]]:
    """What is in a group of ``module`` at last: the name of the function, and the operator."""
    set_target(module, preset(target))
    run_pipeline(CONTEXT, module, parse_pipeline(f"canonicalize,optimize{{reductions=true random={str(random).lower()}}}"))
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    groups = [(function.sym_name.data, op) for function in functions for op in function.walk() if isinstance(op, GroupOp)]
    return {(name, op.operator) for name, group in groups for op in group.walk() if isinstance(op, TorchOp)}


def reached(names: Iterable[str], target: str = "cpu") -> set[str]:
    """Those of ``names`` that are in a group of a function that calls them."""
    calls = {name: call_of(name) for name in names}
    functions = [function_of(name, call) for name, call in calls.items() if call is not None]
    found = in_groups(ModuleOp(functions), target)
    return {operator for name, operator in found if name == operator}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_formula_is_used() -> None:
    scatters = {name for name, formula in COVERED.items() if isinstance(formula, Accumulation)}
    plain = COVERED.keys() - PROGRAMS.keys() - scatters - {OF_INDUCTOR}
    assert plain - reached(plain) == set()
    assert scatters - reached(scatters, "cuda:sm_90") == set()


@pytest.mark.parametrize("name", PROGRAMS)
def test_formulas_of_other_programs_are_used(name: str) -> None:
    assert name in COVERED and reached([name]) == set()
    assert ("main", name) in in_groups(parse(PROGRAMS[name][1]), random=name.startswith("fxc."))


def test_a_formula_of_what_is_taken_apart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "aten.nan_to_num.default"
    dead = replace(OPERATORS[name], formula=OPERATORS["aten.abs.default"].formula)
    monkeypatch.setattr(table, "OPERATORS", {**OPERATORS, name: dead})
    assert reached([name]) == set()
