"""``fuse{reductions=true}``: what groups with reductions and views compute, and which programs are one group."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves
from xdsl.dialects.func import FuncOp

import fxc
from fxc.dialects.base.effects import aliases
from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.syntax import print_module
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes.fusion.fuse.cost import MOST_VALUES
from fxc.passes.rewriting.remarks import remarking, wanted

FUSE = "fuse{reductions=true}"
TAKE_APART = "lower-to-torch,simplify,lower-simple-tuples,decompose-ops{reductions=true},simplify"
KERNELS = "convert-fusion-to-linalg,schedule,tile"
ATEN = torch.ops.aten


def run(program: fxc.Program, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that ``program`` returns, by the reference interpreter."""
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    torch.manual_seed(0)
    results = ReferenceInterpreter(functions).call(functions["main"], list(arguments))
    return [result for result in results if isinstance(result, torch.Tensor)]


def groups_of(program: fxc.Program) -> list[GroupOp]:
    return [op for op in program.module.walk() if isinstance(op, GroupOp)]


def outside_of(program: fxc.Program) -> list[str]:
    """The operators that are in no group."""
    found = [op for op in program.module.walk() if isinstance(op, TorchOp) and not isinstance(op.parent_op(), GroupOp)]
    return [op.operator.split(".")[1] for op in found]


def random_function(seed: int) -> Callable[..., list[torch.Tensor]]:
    """Pointwise ops, reductions and views of random values, some of which several others read."""

    def function(*arguments: torch.Tensor) -> list[torch.Tensor]:
        choose, values = random.Random(seed), list(arguments)
        for _ in range(choose.randrange(4, 22)):
            x = choose.choice(values[-6:])
            values.append(
                choose.choice([_unary, _unary, _binary, _binary, _binary, _reduced, _viewed, _viewed])(choose, x, values)
            )
        return choose.choices(values[3:], k=3)

    return function


def _unary(choose: random.Random, x: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    return choose.choice([torch.neg, torch.sigmoid, torch.abs, torch.tanh, torch.square])(x)


def _binary(choose: random.Random, x: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    y = choose.choice([value for value in values if _broadcasts(x, value)])
    return choose.choice([torch.add, torch.mul, torch.maximum])(x, y)


def _broadcasts(x: torch.Tensor, y: torch.Tensor) -> bool:
    sizes = list(zip(reversed(x.shape), reversed(y.shape), strict=False))
    return all(a == b or 1 in (a, b) for a, b in sizes) and x.dim() + y.dim() <= 8


def _reduced(choose: random.Random, x: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    if x.dim() == 0:
        return x.exp()
    reduce = choose.choice([torch.sum, torch.mean, torch.amax, torch.amin, torch.var])
    dims = choose.sample(range(x.dim()), choose.randrange(1, x.dim() + 1))
    return reduce(x, dims, keepdim=choose.random() < 0.7)


def _viewed(choose: random.Random, x: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    views: list[Callable[[], torch.Tensor]] = [lambda: x.unsqueeze(0), lambda: x.reshape(-1), lambda: x.squeeze()]
    if x.dim() >= 1:
        views += [lambda: x.select(0, x.shape[0] - 1), lambda: x.expand(2, *x.shape)]
    if x.dim() >= 1 and x.shape[-1] > 2:
        views.append(lambda: x[..., 1:])
    if x.dim() >= 2:
        views += [lambda: x.transpose(0, -1), lambda: x.permute(*reversed(range(x.dim())))]
    result = choose.choice(views)()
    return result if result.dim() <= 4 else x.neg()


@pytest.mark.share(3)
@pytest.mark.parametrize("start", range(0, 120, 10))
def test_random_programs(start: int) -> None:
    torch.manual_seed(start)
    arguments = [torch.randn(4, 6), torch.randn(6), torch.randn(4, 1)]
    made = 0
    for seed in range(start, start + 10):
        plain = fxc.run_passes(fxc.capture(random_function(seed), arguments), "lower-to-torch,dce")
        fused = fxc.run_passes(plain, FUSE)
        verify(fused.module)
        for a, b in zip(run(fused, arguments), run(plain, arguments), strict=True):
            same = a.numpy().tobytes() == b.numpy().tobytes() and a.shape == b.shape and a.stride() == b.stride()
            assert same, f"program {seed}:\n{plain}\nbecame\n{fused}"
        assert print_module(fxc.run_passes(fused, FUSE).module) == print_module(fused.module)
        for group in groups_of(fused):
            assert not any(aliases(group)) and len(group.inputs()) + len(group.results) <= MOST_VALUES
        made += len(groups_of(fused))
    assert made > 5


@pytest.mark.share(3)
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_random_programs_as_kernels(start: int) -> None:
    torch.manual_seed(start)
    arguments = [torch.randn(4, 6), torch.randn(6), torch.randn(4, 1)]
    for seed in range(start, start + 10):
        plain = fxc.run_passes(fxc.capture(random_function(seed), arguments), "lower-to-torch,dce")
        kernels = fxc.run_passes(plain, f"{FUSE},{KERNELS}")
        assert not groups_of(kernels), f"program {seed}:\n{plain}\nkept\n{kernels}"
        torch.testing.assert_close(run(kernels, arguments), run(plain, arguments), equal_nan=True, msg=f"program {seed}")


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def _layer_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = x + r
    return F.layer_norm(hidden, (64,), w, b), hidden


def _randn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X, R, W, B = _randn(8, 16, 64), _randn(8, 16, 64).flip(0), _randn(64), _randn(64).flip(0)
IMAGE, C, V = _randn(4, 8, 6, 6), _randn(8), _randn(8).abs() + 0.1
LABELS = torch.arange(32) * 3
MASK = _randn(16, 16) > 0

ONE: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "gelu": (lambda x: F.gelu(x * 2) + 1, (X,)),
    "gelu with tanh, gated": (lambda x, y: F.gelu(x, approximate="tanh") * y, (X, R)),
    "softmax": (lambda x: torch.softmax(x * 0.125, -1), (X,)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), (_randn(64, 256),)),
    "softmax in half precision": (lambda x: torch.softmax(x, -1), (X.bfloat16(),)),
    "masked softmax": (lambda x, m: torch.softmax(x.masked_fill(m, -1e4), -1), (_randn(2, 4, 16, 16), MASK)),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), (X,)),
    "layer norm and residual": (_layer_norm, (X, R, W, B)),
    "layer norm in half precision": (lambda x, w: F.layer_norm(x, (64,), w), (X.bfloat16(), W.bfloat16())),
    "native layer norm": (lambda x, w, b: ATEN.native_layer_norm(x, [64], w, b, 1e-5), (X, W, B)),
    "rms norm": (lambda x, w: F.rms_norm(x, (64,), w, 1e-6), (X, W)),
    "rms norm by hand": (_rms_norm, (X, W)),
    "batch norm and relu": (lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b)), (IMAGE, C, V, C.flip(0), C)),
    "batch norm in training and relu": (lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), (IMAGE, C, V)),
    "softmax, backward": (lambda g, y: ATEN._softmax_backward_data(g, y, -1, torch.float32), (R, X)),
    "log_softmax, backward": (lambda g, y: ATEN._log_softmax_backward_data(g, y, -1, torch.float32), (R, -X.abs())),
    "gelu, backward": (lambda g, x: ATEN.gelu_backward(g * 2, x), (R, X)),
    "silu, backward": (lambda g, x: ATEN.silu_backward(g * 2, x), (R, X)),
    "layer norm, backward of x": (
        lambda g, x, m, r, w: ATEN.native_layer_norm_backward(g, x, [64], m, r, w, None, [True, False, False])[0],
        (R, X, X.mean(-1, keepdim=True), X.std(-1, keepdim=True), W),
    ),
    "batch norm, backward": (
        lambda g, x, w, m, r: ATEN.native_batch_norm_backward(g, x, w, None, None, m, r, True, 1e-5, [True, True, True]),
        (IMAGE.flip(0), IMAGE, C, C, V),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_group_and_one_kernel(name: str) -> None:
    function, arguments = ONE[name]
    fused = fxc.run_passes(fxc.capture(function, arguments), f"{TAKE_APART},{FUSE}")
    assert len(groups_of(fused)) == 1 and not outside_of(fused), str(fused)
    kernels = fxc.run_passes(fused, KERNELS)
    assert sum(isinstance(op, LaunchOp) for op in kernels.module.walk()) == 1 and not groups_of(kernels)
    expected = [result for result in tree_leaves(function(*arguments)) if isinstance(result, torch.Tensor)]
    half = arguments[0].dtype == torch.bfloat16
    for program in (fused, kernels):
        results = run(program, arguments)
        torch.testing.assert_close(results, expected, rtol=1e-2 if half else 1e-4, atol=1e-2 if half else 1e-4)
        assert [result.stride() for result in results] == [result.stride() for result in expected]


MORE: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int, list[str]]] = {
    "dropout and add": (lambda x, r: F.dropout(x, 0.1, True) + r, (X, R), 1, ["bernoulli"]),
    "cross entropy": (F.cross_entropy, (_randn(32, 100), LABELS), 2, []),
    "layer norm, backward": (
        lambda g, x, m, r, w, b: ATEN.native_layer_norm_backward(g, x, [64], m, r, w, b, [True, True, True]),
        (R, X, X.mean(-1, keepdim=True), X.std(-1, keepdim=True), W, B), 2, [],
    ),
    "batch norm with statistics": (
        lambda x, w, b: ATEN._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        (IMAGE, C, V), 1, ["squeeze", "squeeze"],
    ),
    "group norm": (lambda x, w, b: F.group_norm(x, 4, w, b), (IMAGE, C, V), 2, []),
}  # fmt: skip
"""Function, arguments, groups, and the operators outside. The sum over all rows is of other rows than they; the derivatives by
the weights of a norm have other rows than that by its input, and the channels of ``group_norm`` other rows than its groups; a
view that is returned is in no group."""


@pytest.mark.parametrize("name", MORE)
def test_groups_and_what_is_left(name: str) -> None:
    function, arguments, count, left = MORE[name]
    fused = fxc.run_passes(fxc.capture(function, arguments), f"{TAKE_APART},{FUSE}")
    assert (len(groups_of(fused)), sorted(outside_of(fused))) == (count, left), str(fused)
    torch.manual_seed(0)
    expected = [result for result in tree_leaves(function(*arguments)) if isinstance(result, torch.Tensor)]
    for program in (fused, fxc.run_passes(fused, KERNELS)):
        torch.testing.assert_close(run(program, arguments), expected, rtol=1e-4, atol=1e-4)


def test_variance_far_from_zero() -> None:
    """What is taken apart subtracts the mean first: E[x^2] - E[x]^2 would have no digit left."""
    x = X + 1e4
    fused = fxc.run_passes(fxc.capture(lambda x: F.layer_norm(x, (64,)), (x,)), f"{TAKE_APART},{FUSE}")
    exact = F.layer_norm(x.double(), (64,)).float()
    for program in (fused, fxc.run_passes(fused, KERNELS)):
        [result] = run(program, [x])
        assert (result - exact).abs().max() <= 2 * (F.layer_norm(x, (64,)) - exact).abs().max()


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.sum(1, keepdim=True)
        columns = x.sum(0, keepdim=True)
        return x * rows * columns


def test_remarks_name_rules_and_lines() -> None:
    lines = list[str]()
    program = fxc.run_passes(fxc.capture(Sums(), (_randn(128, 256),)), "lower-to-torch")
    with remarking({"fuse"}, lines.append):
        assert wanted("fuse") and not wanted("dce")
        fxc.run_passes(program, FUSE)
    assert not wanted("fuse")
    [line] = lines
    assert line.startswith("remark: fuse: rows: ") and line.endswith("\n")
    assert "rows = x.sum(1, keepdim=True)" in line and "return x * rows * columns" in line and line.count(__file__) == 2


def _work(steps: int) -> tuple[int, int]:
    """How many operations loops over ``steps`` steps have, each of which reads the one before in two sums; and how many ops of
    the torch level they are made of."""

    def function(x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        out = []
        for t in range(steps):
            x = x - 0.1 * noise[t] * (x * noise[t]).sum(1, keepdim=True)
            out.append((x * x).sum(1))
        return torch.stack(out)

    program = fxc.capture(function, (torch.randn(4, 8), torch.randn(steps, 4, 8)))
    before = fxc.run_passes(program, "lower-to-torch,canonicalize,optimize{reductions=true}")
    after = fxc.run_passes(before, "convert-fusion-to-linalg")
    return sum(1 for _ in after.module.walk()), sum(1 for _ in before.module.walk())


@pytest.mark.slow
def test_kernels_grow_with_the_loop_and_not_with_its_square() -> None:
    """What stages compute again is bounded, also where groups meet that read the same tensor through views."""
    (small, few), (large, many) = _work(20), _work(60)
    assert large / small < 1.25 * many / few
