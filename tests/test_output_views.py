"""What the outputs of ``fxc.compile`` share memory with: their inputs and each other, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

import fxc
from fxc.errors import CaptureError
from tests.fuzz.check import check

Function = Callable[..., Any]


def mutated(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x.view(-1)[:2]


def several_views(x: torch.Tensor) -> dict[str, Any]:
    early = x.t()
    x[1:].add_(1)
    return {"early": early, "all": x, "part": [x[0], x.unbind(1)[1]], "other": x.exp()}


def two_inputs(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)
    return x, y, x[0], y[1], before, before.t()


def other_dtype(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.mul_(2), x.view(torch.int32), x[:1].view(torch.int32)


def constant(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.fill_(3.0)
    return x[0], x[0].clone(), torch.full((4,), 3.0)


def copies_what_it_returns(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = y * 2
    x.copy_(z)
    return z, z.t()


def copies_an_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.copy_(y)
    return y


def no_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Views of a tensor that is laid out in one way are copies where it is laid out in another."""
    x.mul_(2)
    return x.contiguous(), x.reshape(-1), x.t().reshape(-1), x.t()


def reads_after(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = (x @ y).relu()
    x.mul_(2)
    return z, x.t(), x @ y, (x.exp() + 1).sum(1)


def unchanged(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x, x.t(), x[1], x + 1


def own(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    y.add_(1)
    return y, y.view(-1), y.split(2, 1)[1], y.sum(0)


def matrix(*sizes: int) -> torch.Tensor:
    return torch.randn(*(sizes or (3, 4)))


CASES: list[tuple[Function, tuple[torch.Tensor, ...]]] = [
    (mutated, (matrix(),)),
    (several_views, (matrix(),)),
    (several_views, (matrix(6, 8)[::2, ::2],)),
    (several_views, (matrix(4, 3).t(),)),
    (two_inputs, (matrix(), matrix())),
    (other_dtype, (matrix(),)),
    (constant, (matrix(),)),
    (copies_what_it_returns, (matrix(), matrix())),
    (copies_an_input, (matrix(), matrix())),
    (no_view, (matrix(),)),
    (no_view, (matrix(6, 8)[::2, ::2],)),
    (no_view, (matrix(4, 3).t(),)),
    (reads_after, (matrix(), matrix(4, 5))),
    (unchanged, (matrix(),)),
    (own, (matrix(),)),
]


def copied(values: Any) -> Any:
    """``values`` with tensors of the same strides in memory of their own."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)

    return tree_map_only(torch.Tensor, copy, values)


def shared(inputs: Any, outputs: Any) -> list[tuple[int, int, int]]:
    """Pairs that share memory, and how far their beginnings are apart."""
    tensors = [*tree_leaves(inputs), *tree_leaves(outputs)]
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    pairs = [(i, j) for i in range(len(tensors)) for j in range(i) if storages[i] == storages[j]]
    return [(i, j, tensors[i].data_ptr() - tensors[j].data_ptr()) for i, j in pairs]


def assert_as_eager(compiled: Function, function: Function, args: tuple[torch.Tensor, ...]) -> None:
    ours, eagers = copied(args), copied(args)
    got, expected = compiled(*ours), function(*eagers)
    torch.testing.assert_close((got, ours), (expected, eagers), check_stride=True)
    assert shared(ours, got) == shared(eagers, expected)


@pytest.mark.share(6)
@pytest.mark.parametrize("how", ["cpu", "graph", "training", "dynamic", "saved"])
@pytest.mark.parametrize(("function", "args"), CASES)
def test_outputs_share_memory_as_in_eager(function: Function, args: tuple[torch.Tensor, ...], how: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": None} if how == "graph" else {}
    sizes = tuple({0: torch.export.Dim.AUTO} for _ in args) if how == "dynamic" else None
    compiled: Any = fxc.compile(function, copied(args), training=how == "training", options=options, dynamic_shapes=sizes)
    if how == "saved":
        compiled.plan.save(tmp_path / "plan")
        compiled = fxc.ExecutionPlan.load(tmp_path / "plan")
    assert_as_eager(compiled, function, args)
    assert_as_eager(compiled, function, args)


def through_view(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(w)
    return x.t(), x[0] * 2


def test_gradients_through_views_of_what_was_written() -> None:
    def gradients(function: Function) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        leaf, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
        x = leaf * 1
        view, other = function(x, w)
        assert view._is_view() and view._base is x
        x.add_(1)
        view.mul_(3)
        return torch.autograd.grad((x * x).sum() + other.sum() + view.sum(), (leaf, w))

    example = torch.randn(3, 4, requires_grad=True) * 1, torch.randn(4, requires_grad=True)
    torch.testing.assert_close(gradients(fxc.compile(through_view, example, training=True)), gradients(through_view))


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, 3))
        self.seen: torch.Tensor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen[0].add_(x)
        return self.seen[0], self.seen.sum(0)


@pytest.mark.parametrize("options", [{}, {"freeze": True}, {"target": None}])
def test_views_of_buffers(options: dict[str, Any]) -> None:
    model = Counts()
    compiled = fxc.compile(model, (torch.ones(3),), options=options)
    row, _ = compiled(torch.ones(3))
    _, total = compiled(torch.ones(3))
    assert row.data_ptr() == model.seen.data_ptr()
    assert row.tolist() == total.tolist() == [2.0] * 3


def test_as_strided_of_a_written_tensor_that_is_not_dense_is_refused() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.as_strided((2,), (3,)) + 1

    with pytest.raises(CaptureError, match="as_strided of a tensor that is written"):
        fxc.compile(f, (torch.randn(6, 8)[::2, ::2],))
    x, y = torch.ones(6, 8), torch.ones(6, 8)
    torch.testing.assert_close(fxc.compile(f, (x.clone(),))(x), f(y))

    def before(x: torch.Tensor) -> torch.Tensor:
        y = x.as_strided((2,), (3,))
        x.mul_(2)
        return y + x[0, 0]

    with pytest.raises(CaptureError, match="as_strided of a tensor that is written"):
        fxc.compile(before, (torch.randn(6, 8)[::2, ::2],))


def test_as_strided_of_a_written_tensor_may_leave_out_its_gaps() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.as_strided((2, 2), (16, 4)) + x.mT.as_strided((2, 2), (2, 16), 0)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.as_strided((2,), (4,))
        x.mul_(2)
        y.add_(1)
        return y + x[0, 0]

    storage = torch.randn(6, 8)
    for function in (f, g):
        ours, eager = storage.clone(), storage.clone()
        compiled = fxc.compile(function, (storage.clone()[::2, ::2],))
        torch.testing.assert_close(compiled(ours[::2, ::2]), function(eager[::2, ::2]))
        assert torch.equal(ours, eager)


def test_a_copy_before_a_write_has_the_strides_of_what_it_copies() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.repeat_interleave(2, 0)
        x.sub_(2)
        return y[2:10, 1::2]

    for shape in ((2, 2), (3, 5)):
        x = torch.randn(shape)
        ours, eager = fxc.compile(f, (x.clone(),))(x.clone()), f(x.clone())
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()


WIDENED: dict[str, Function] = {
    "turned": lambda x: (lambda y: (y.permute(1, 0), y))(x.float()),
    "a part": lambda x: (lambda y: (y, y[1:], y.exp()))(x.float()),
    "parts": lambda x: (lambda y: (y[1:].sin(), y[1:], y.view(-1)[2:]))(x.double()),
    "used in views": lambda x: (lambda y: (y.t().exp(), y[0].sin(), y))(x.float()),
}


@pytest.mark.parametrize("route", ["compile", "torch.compile"])
@pytest.mark.parametrize("name", WIDENED)
def test_views_of_a_widened_tensor_share_its_memory(name: str, route: str) -> None:
    torch._dynamo.reset()
    x = torch.arange(6, dtype=torch.int16).view(2, 3)
    function = WIDENED[name]
    run = torch.compile(function, backend="fxc") if route == "torch.compile" else fxc.compile(function, [x])
    found, expected = run(x), function(x)
    torch.testing.assert_close(found, expected)
    memory = [[value.untyped_storage().data_ptr() for value in values] for values in (found, expected)]
    assert [[a == b for b in memory[0]] for a in memory[0]] == [[a == b for b in memory[1]] for a in memory[1]]


WRITTEN: dict[str, Function] = {
    "rows": lambda x, w: (x.mul_(w), x[1:]),
    "flat": lambda x, w: (x[None].add_(1), x.view(-1) if x.is_contiguous() else x.t(), x.sin() * w),
    "elements": lambda x, w: (x[0].mul_(w), x[1, 2:], x.unbind(1)[1]),
    "windows": lambda x, w: (x.neg_(), x.unfold(1, 2, 1), w * 2),
}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "at an offset": lambda x: torch.cat([x[:1], x])[1:],
    "with gaps": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "transposed": lambda x: x.t().contiguous().t(),
    "columns": lambda x: torch.cat([x, x], 1)[:, 3:7],
}


@pytest.mark.share(6)
@pytest.mark.parametrize("training, dynamic", [(False, None), (False, True), (True, None)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITTEN)
def test_torch_compile_returns_views_of_written_inputs(name: str, layout: str, training: bool, dynamic: bool | None) -> None:
    torch._dynamo.reset()
    function = WRITTEN[name]
    run = torch.compile(function, backend="fxc", dynamic=dynamic)
    for rows in (3, 5):
        pairs = [[LAYOUTS[layout](torch.linspace(1, 2, rows * 4).view(rows, 4)), torch.full((), 3.0)] for _ in range(2)]
        for _, w in pairs:
            w.requires_grad_(training)
        found, expected = run(*pairs[0]), function(*pairs[1])
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(pairs[0][0], pairs[1][0])
        for a, b in zip(found, expected):
            shared = [
                value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for value, (x, _) in zip((a, b), pairs)
            ]
            assert shared[0] == shared[1]
            assert not shared[1] or (a.stride(), a.storage_offset()) == (b.stride(), b.storage_offset())
        if training:
            totals = [sum((value * value).sum() for value in values if value.requires_grad) for values in (found, expected)]
            grads = [torch.autograd.grad(total, w)[0] for total, (_, w) in zip(totals, pairs)]
            torch.testing.assert_close(*grads)


@pytest.mark.parametrize("route", ["static", "training", "compile"])
def test_data_is_a_view_without_a_gradient(route: str) -> None:
    def written_later(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 1
        data = y.data
        y.mul_(3)
        return [y, data * 2]

    def of_a_view(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 1
        row = y[0].data
        y.add_(x)
        return [y * row]

    for function in (written_later, of_a_view):
        check(route, function, lambda: [torch.linspace(-1, 2, 12).view(3, 4).requires_grad_(route == "training")])


OF_TWO: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "broadcast": lambda x, y: torch.broadcast_tensors(x, y),
    "atleast": lambda x, y: torch.atleast_3d(x, y),
    "mesh": lambda x, y: torch.meshgrid(x[0], y[0], indexing="ij"),
    "type": lambda x, y: [x.type_as(y)],
    "loss": lambda x, y: (x, torch.nn.functional.mse_loss(x, y, reduction="none")),
}


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_view_of_one_of_two_beside_the_other_that_is_written(name: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first = OF_TWO[name](x, y)[0]
        y.sub_(2)
        return first.movedim(0, -1)

    compiled = fxc.compile(f, (torch.ones(5, 4), torch.ones(1, 4)))
    x, y = torch.ones(5, 4), torch.ones(1, 4)
    found = compiled(x, y)
    assert found.data_ptr() == x.data_ptr() and torch.equal(y, -torch.ones(1, 4))
    torch.testing.assert_close(found, f(x, y))
