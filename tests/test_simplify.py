"""The simplifying passes: numbers, memory and idempotence on the lit files and on random programs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from fxc.dialects.attributes.types import IntType, dtype_name, sizes, strides
from fxc.dialects.text.syntax import clone_module, parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from fxc.program.program import new_context

LIT_TESTS = Path(__file__).parent.parent / "lit_tests"
PASSES = ("canonicalize", "cse", "dce", "fold-uniform-values", "lower-simple-tuples")
FAMILIES = ("arithmetic", "logical", "permutations", "scalars", "splits", "views")
LIT_FILES = [
    *[(LIT_TESTS / "passes" / "simplify" / f"{name.replace('-', '_')}.mlir", name) for name in PASSES],
    *[(LIT_TESTS / "patterns" / f"{name}.mlir", "canonicalize") for name in FAMILIES],
]
CONTEXT = new_context()
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, -2.5, 3.0]
SYMBOLS = {"s0": 6}


def run(module: ModuleOp, names: Sequence[str]) -> ModuleOp:
    result = clone_module(module)
    for name in names:
        load(name)().apply(CONTEXT, result)
        verify(result)
    return result


def functions(module: ModuleOp) -> dict[str, FuncOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def tensor_of(type: TensorType, draw: random.Random) -> torch.Tensor:
    shape = [SYMBOLS.get(size, 6) if isinstance(size, str) else size for size in sizes(type)]
    dtype = getattr(torch, dtype_name(type.element_type))
    count = math.prod(shape)
    if dtype is torch.bool:
        flat = torch.tensor([draw.random() < 0.5 for _ in range(count)])
    elif dtype.is_floating_point or dtype.is_complex:
        flat = torch.tensor([draw.choice(SPECIAL) for _ in range(count)]).to(dtype)
    else:
        flat = torch.tensor([draw.randrange(-3, 4) for _ in range(count)], dtype=dtype)
    steps = strides(type)
    if steps is None:
        return flat.reshape(shape)
    value = torch.zeros(1 + sum((n - 1) * int(s) for n, s in zip(shape, steps, strict=True)), dtype=dtype)
    value = value.as_strided(shape, [int(s) for s in steps])
    value.copy_(flat.reshape(shape))
    return value


def argument(type: Attribute, seed: int) -> Any:
    if isinstance(type, TensorType):
        return tensor_of(type, random.Random(seed))
    if isinstance(type, IntType):
        return SYMBOLS.get(type.expression.data, 1)
    raise NotImplementedError(type)


def outcome(module: ModuleOp, name: str, seed: int, *, overlap: bool = False) -> tuple[list[Any], list[Any]]:
    """The arguments as the function leaves them, and what it returns, flat. ``overlap``: argument 1 is a view of argument 0."""
    function = functions(module)[name]
    args = [argument(type, seed + i) for i, type in enumerate(function.function_type.inputs.data)]
    if overlap:
        args[1] = args[0].view(args[1].shape)
    torch.manual_seed(seed)
    returned = ReferenceInterpreter(functions(module)).call(function, args)
    return args, list(torch.utils._pytree.tree_leaves(returned))


def memory_relation(args: list[Any], returned: list[Any]) -> list[tuple[int, int]]:
    """Which tensors that the caller holds share memory."""
    tensors = [t for t in (*args, *returned) if isinstance(t, torch.Tensor) and t.numel()]
    address = [t.untyped_storage().data_ptr() for t in tensors]
    return [(i, j) for i in range(len(address)) for j in range(i) if address[i] == address[j]]


def assert_same_bits(expected: list[Any], actual: list[Any]) -> None:
    assert len(expected) == len(actual)
    for a, b in zip(expected, actual, strict=True):
        if not isinstance(a, torch.Tensor):
            assert a == b
            continue
        assert (a.dtype, a.shape, a.stride(), a.device) == (b.dtype, b.shape, b.stride(), b.device)
        assert torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        if a.is_floating_point():
            assert torch.equal(torch.signbit(a) & ~torch.isnan(a), torch.signbit(b) & ~torch.isnan(b))


def assert_equivalent(before: ModuleOp, after: ModuleOp, name: str, seed: int, *, overlap: bool = False) -> None:
    args, expected = outcome(before, name, seed, overlap=overlap)
    new_args, actual = outcome(after, name, seed, overlap=overlap)
    assert_same_bits(args + expected, new_args + actual)
    assert memory_relation(args, expected) == memory_relation(new_args, actual)


RUNNABLE = {"cse": 18, "dce": 5, "lower_simple_tuples": 5, "canonicalize": 3}
"""How many functions of a lit file at least the interpreter runs; the others are there for their text alone."""


@pytest.mark.parametrize(("path", "name"), LIT_FILES, ids=lambda value: value.stem if isinstance(value, Path) else "")
def test_lit_files_keep_their_numbers(path: Path, name: str) -> None:
    ran, total = 0, 0
    for part in path.read_text().split("// -----"):
        before = parse_module(CONTEXT, part)
        for function in functions(before):
            total += 1
            try:
                outcome(before, function, 0)
            except Exception:
                continue
            for seed in range(3):
                assert_equivalent(before, run(before, [name]), function, seed)
            ran += 1
    assert ran >= RUNNABLE.get(path.stem, total - 3), f"only {ran} of {total} functions ran"


@pytest.mark.parametrize(("path", "name"), LIT_FILES, ids=lambda value: value.stem if isinstance(value, Path) else "")
def test_idempotent(path: Path, name: str) -> None:
    for part in path.read_text().split("// -----"):
        once = run(parse_module(CONTEXT, part), [name])
        assert print_module(run(once, [name])) == print_module(once)


LINE, SQUARE, TURNED = "tensor<4xf32>", "tensor<2x2xf32>", "tensor<2x2xf32, #torch.meta<strides = [1, 2]>>"
MOVES = {
    LINE: [("view.default", "[2, 2]", SQUARE), ("reshape.default", "[2, 2]", SQUARE), ("view.default", "[4]", LINE)],
    SQUARE: [
        ("t.default", "", TURNED), ("view.default", "[4]", LINE), ("transpose.int", "1, 0", TURNED),
        ("permute.default", "[0, 1]", SQUARE), ("contiguous.default", "", SQUARE),
    ],
    TURNED: [
        ("t.default", "", SQUARE), ("contiguous.default", "", SQUARE), ("reshape.default", "[4]", LINE),
        ("permute.default", "[1, 0]", SQUARE),
    ],
}  # fmt: skip
SAME_TYPE = [
    ("relu.default", ""), ("relu.default", ""), ("neg.default", ""), ("neg.default", ""), ("clone.default", ""),
    ("alias.default", ""), ("mul.Tensor", "1"), ("mul.Tensor", "2"), ("sub.Tensor", "0.0"), ("add.Tensor", "0.0"),
    ("rand_like.default", ""), ("to.dtype", "torch.float32"),
]  # fmt: skip
IN_PLACE = [("neg_.default", ""), ("relu_.default", ""), ("mul_.Tensor", "2"), ("zero_.default", "")]


def random_program(draw: random.Random, length: int, in_place: float) -> str:
    values = [("%x", LINE), ("%y", SQUARE)]
    lines = [f"func.func @main(%x: {LINE}, %y: {SQUARE}) {{"]
    for i in range(length):
        name, type = draw.choice(values[-6:] if draw.random() < 0.7 else values)
        result = type
        if i and draw.random() < 0.3:  # the same call again
            line, result = draw.choice(list(zip(lines[1:], [t for _, t in values[2:]], strict=True)))
            lines.append(f"  %v{i} = {line.split(' = ', 1)[1]}")
            values.append((f"%v{i}", result))
            continue
        if draw.random() < in_place:
            operator, extra = draw.choice(IN_PLACE)
        elif draw.random() < 0.4:
            operator, extra, result = draw.choice(MOVES[type])
        else:
            operator, extra = draw.choice(SAME_TYPE)
        arguments = f"{name}, {extra}" if extra else name
        lines.append(f"  %v{i} = torch.aten.{operator}({arguments}) : ({type}) -> {result}")
        values.append((f"%v{i}", result))
    returned = draw.choices(values, k=draw.randrange(1, 5))
    names, types = ", ".join(v for v, _ in returned), ", ".join(t for _, t in returned)
    return "\n".join([*lines, f"  fx.output(({names},)) : ({types}) -> ()", "}"])


def programs(count: int, in_place: float) -> Iterator[tuple[int, ModuleOp]]:
    for seed in range(count):
        draw = random.Random(seed)
        yield seed, parse_module(CONTEXT, random_program(draw, draw.randrange(2, 18), in_place))


@pytest.mark.parametrize("in_place", [0.0, 0.15])
@pytest.mark.parametrize("names", [("canonicalize",), ("cse",), ("dce",), PASSES], ids="+".join)
def test_random_programs(names: tuple[str, ...], in_place: float) -> None:
    changed = 0
    for seed, before in programs(40, in_place):
        after = run(before, names)
        assert_equivalent(before, after, "main", seed, overlap=seed % 2 == 1)
        again = run(after, [names[-1]])
        assert print_module(again) == print_module(after)
        changed += print_module(before) != print_module(after)
    assert changed > 13
