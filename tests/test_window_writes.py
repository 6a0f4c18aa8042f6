"""Writes to windows (``unfold``) and through ``expand`` change the elements of these alone, to what eager mode writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fxc
from fxc.errors import CaptureError
from tests.fuzz.check import check
from tests.test_storage_offsets import left_to_eager


def first(x: Tensor) -> Tensor:
    x.unfold(0, 2, 3).abs_()
    return x * 1


def last_is_cut(x: Tensor) -> Tensor:
    x.unfold(-1, 2, 3)[..., 0].mul_(3)
    return x + 1


def turned(x: Tensor) -> Tensor:
    windows = (x * 2).unfold(0, 1, 2)
    windows.transpose(0, -1).sub_(1)
    return windows.sum(-1)


def of_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:].unfold(0, 2, 2).add_(5)
    return y


def by_an_argument(x: Tensor) -> Tensor:
    y = x.clone()
    torch.nn.functional.relu(y.unfold(0, 2, 3), inplace=True)
    return y


def only_read(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = 1
    return y.unfold(0, 3, 1).sum(-1) + y.unfold(0, 2, 3).amax(-1).sum()


FUNCTIONS = [first, last_is_cut, turned, of_a_view, by_an_argument, only_read]
SIZES = [(3,), (4,), (5, 2), (8, 3), (7, 5)]


@pytest.mark.share(4)
@pytest.mark.parametrize("how", ["ahead", "compiled", "host"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_writes_to_windows(function: Callable[[Tensor], Tensor], how: str) -> None:
    for shape in SIZES:
        if how != "compiled" or shape == SIZES[3]:
            x = torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape)
            ours, eager = x.clone(), x.clone()
            torch._dynamo.reset()
            options: Any = {"target": "host"} if how == "host" else {}
            run = (
                torch.compile(function, backend="fxc")
                if how == "compiled"
                else fxc.compile(function, (x.clone(),), options=options)
            )
            assert_close(run(ours), function(eager))
            assert_close(ours, eager)


@pytest.mark.parametrize("how", ["ahead", "host"])
def test_windows_of_an_input_that_starts_within_its_storage(how: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y[0] = 1
        return x.unfold(0, 1, 3), y

    def input() -> Tensor:
        return torch.arange(48.0).view(4, 4, 3)[..., 1:2]

    options: Any = {"target": "host"} if how == "host" else {}
    assert_close(fxc.compile(function, (input(),), options=options)(input()), function(input()))


CUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda x: x[:, :5],
    "columns within": lambda x: x[1:, 3:8],
    "every other": lambda x: x[:, :10:2],
    "rows": lambda x: x[:5],
    "turned": lambda x: x.t()[:, :5],
}


def whole(x: Tensor) -> None:
    x.unfold(1, 2, 3).mul_(2)


def one_and_more(x: Tensor) -> None:
    w = x.unfold(1, 2, 3)
    w[:, 0].mul_(2)
    x.add_(1)
    w.exp_()


def one_after_another(x: Tensor) -> None:
    for window in x.unfold(1, 2, 3).unbind(1):
        window.mul_(2)
        x.sub_(1)


def placed(x: Tensor) -> None:
    first = x.as_strided(x.shape[:1], x.stride()[:1])
    first.mul_(2)
    x.mul_(3)


@pytest.mark.share(4)
@pytest.mark.parametrize("write", [whole, one_and_more, one_after_another, placed], ids=lambda write: write.__name__)
@pytest.mark.parametrize("cut", CUTS)
def test_windows_of_tensors_with_gaps_where_the_last_is_cut(cut: str, write: Callable[[Tensor], None]) -> None:
    def of_the_input(x: Tensor) -> Tensor:
        write(x)
        return x * 1

    def of_a_view(x: Tensor) -> Tensor:
        y = x * 1
        write(CUTS[cut](y))
        return y

    def table() -> Tensor:
        return torch.linspace(-1, 2, 132).view(11, 12)

    ours, eager = table(), table()
    compiled = fxc.compile(of_the_input, (CUTS[cut](table()),))
    assert_close(compiled(CUTS[cut](ours)), of_the_input(CUTS[cut](eager)), check_stride=True)
    assert_close(ours, eager)
    assert_close(fxc.compile(of_a_view, (table(),))(table()), of_a_view(table()), check_stride=True)


DIAGONALS: dict[str, Callable[[Tensor], Tensor]] = {
    "viewed": lambda x: x.view(4, -1),
    "rows": lambda x: x[1:],
    "turned": lambda x: x.t(),
    "columns": lambda x: x[:, 1:3],
    "cube": lambda x: x.view(-1)[:27].view(3, 3, 3),
    "steps": lambda x: x[::2, ::2],
}


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("how", ["ahead", "compiled"])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("view", DIAGONALS)
def test_diagonals_of_views(view: str, wrap: bool, how: str) -> None:
    def filled(x: Tensor) -> Tensor:
        DIAGONALS[view](x).fill_diagonal_(7.0, wrap=wrap)
        return x

    for shape in ((4, 9), (12, 3), (40, 2)):
        x = torch.linspace(-2, 3, shape[0] * shape[1]).view(shape)
        try:
            expected = filled(x.clone())
        except RuntimeError:
            continue  # it would leave the storage
        if not wrap or view not in ("columns", "steps"):  # wrapped around into gaps of an input: refused
            torch._dynamo.reset()
            run = torch.compile(filled, backend="fxc") if how == "compiled" else fxc.compile(filled, (x.clone(),))
            assert_close(run(x.clone()), expected)
        of_own = fxc.compile(lambda x: filled(x * 1), (x,), training=True)
        assert_close(of_own(x), expected)


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "windows": lambda x: x.unfold(0, 2, 3).abs_(),
    "windows, by the operator": lambda x: torch.ops.aten.unfold(x, 0, 2, 3).abs_(),
    "windows, by the overload": lambda x: torch.ops.aten.unfold.default(x, -1, 1, 2).abs_(),
    "windows of a view": lambda x: x[:, ::2].unfold(0, 2, 3).abs_(),
    "diagonal": lambda x: x.fill_diagonal_(2),
    "diagonal, by the operator": lambda x: torch.ops.aten.fill_diagonal_(x, 2),
    "diagonal, wrapped": lambda x: x.fill_diagonal_(2, wrap=True),
}
INPUTS: dict[str, Callable[[], Tensor]] = {
    "whole": lambda: torch.arange(-12.0, 20).view(8, 4),
    "columns": lambda: torch.arange(-12.0, 20).view(8, 4)[:, ::2],
    "later rows": lambda: torch.arange(-12.0, 20).view(8, 4)[1:],
    "turned, with gaps": lambda: torch.arange(-20.0, 12).view(4, 8).t()[:, ::2],
}


@pytest.mark.share(4)
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("write", WRITES)
def test_torch_compile_writes_to_windows_and_diagonals_of_any_view(write: str, given: str, made: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2 if made else x
        WRITES[write](y)
        return y + 0, x

    torch._dynamo.reset()
    ours, eager = INPUTS[given](), INPUTS[given]()
    compiled = torch.compile(function, backend="fxc")
    if write == "diagonal, wrapped" and given == "turned, with gaps":  # it would go on beyond the memory
        for run in (function, compiled):
            with pytest.raises(RuntimeError, match="out of bounds"):
                run(INPUTS[given]())
        return
    assert_close(compiled(ours), function(eager), rtol=0, atol=0, check_stride=True)
    assert_close(ours._base, eager._base, rtol=0, atol=0)


OVERLAPPING: dict[str, Callable[[Tensor], Any]] = {
    "every third": lambda x: x.unfold(0, 3, 1)[::3].mul_(2),
    "one": lambda x: x.unfold(0, 3, 1)[1].zero_(),
    "none": lambda x: x.unfold(0, 3, 1)[1:1].relu_(),
    "of nothing": lambda x: x[:, :0].unfold(0, 3, 1).relu_(),
}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("write", OVERLAPPING)
def test_writes_to_a_part_of_overlapping_windows(write: str, made: bool) -> None:
    """PyTorch's functionalization refuses them, so ``torch.compile`` runs them in eager mode."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2 if made else x
        OVERLAPPING[write](y)
        return y + 0, x

    torch._dynamo.reset()
    ours, eager = INPUTS["whole"](), INPUTS["whole"]()
    assert_close(torch.compile(function, backend="fxc")(ours), function(eager), rtol=0, atol=0)
    assert_close(ours, eager, rtol=0, atol=0)
    with pytest.raises(CaptureError, match="internal overlap"):
        fxc.compile(function, (INPUTS["whole"](),))


def test_overlapping_windows_of_a_written_tensor_are_compiled() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y.add_(1)
        return y.unfold(0, 3, 1).sum(-1)

    assert left_to_eager(function, INPUTS["whole"]()) == [False]


def test_windows_of_images_are_compiled() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y.add_(1)
        return torch.nn.functional.unfold(y, 2, stride=1)

    torch._dynamo.reset()
    x = torch.arange(32.0).view(2, 1, 4, 4)
    assert_close(torch.compile(function, backend="fxc")(x), function(x), rtol=0, atol=0)


@pytest.mark.parametrize("route", ["training", "training_host", "compile"])
@pytest.mark.parametrize("shape", [(3, 1), (3, 2)])
def test_gradients_of_windows_of_repeated_elements(shape: tuple[int, int], route: str) -> None:
    """An element of an expanded leaf has the gradient of its windows; ``as_strided`` shares it among the repeated ones."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        y.view(-1).abs_()
        return x.unfold(0, 1, 2) * torch.arange(1.0, 3.0)[:, None, None], y

    check(route, function, lambda: [torch.arange(3.0)[:, None].expand(shape)[:1].expand(shape).requires_grad_()])


EXPANDED: dict[str, Callable[[Tensor], Tensor]] = {
    "expand": lambda x: x.expand(1, -1),
    "expand twice": lambda x: x.expand(1, *x.shape).expand(1, 1, -1, -1),
    "as another": lambda x: x.expand_as(torch.zeros(1, *x.shape)),
    "broadcast": lambda x: torch.broadcast_to(x, (1, *x.shape)),
    "as it is": lambda x: x.expand(-1),
    "to nothing": lambda x: x.expand(0, 1, -1),
    "one element to none": lambda x: x[:1].expand(1, 0),
    "one element to many of none": lambda x: x[0].expand(3, 0, 2),
    "many of none": lambda x: x[:0].expand(2, -1),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("route", ["static", "training", "compile", "dynamic"])
@pytest.mark.parametrize("name", EXPANDED)
def test_a_write_through_expand_forgets_what_was_there(name: str, route: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y, z = torch.sinh(x * 400), x > 0
        EXPANDED[name](y).fill_(1.0)
        EXPANDED[name](z).logical_not_()
        return y, z, torch.where(z, x, y) * 2

    def inputs(n: int, m: int) -> list[Tensor]:
        return [torch.linspace(-2, 3, 4 * n)[:n].requires_grad_(route == "training")]

    check(route, f, inputs, [(9, 1), (6, 1)] if route == "dynamic" else [(9, 1)])
