"""Sizes that a capture finds to be numbers, or new symbols: conditions, and what is right at which size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import fxc


@pytest.mark.slow
def test_a_number_found_for_a_size_of_the_module_is_checked() -> None:
    """Functionalization may find that a size is 2, from how slices of a small example lie: other sizes are not those."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weight = torch.arange(x.shape[0] * x.shape[-1] * 2).reshape(x.shape[0], x.shape[-1], 2).to(x.dtype)
        y[torch.zeros(1, dtype=torch.int64)] += 0
        return torch.bmm(x, weight)[None, 1:, 2:]

    def inputs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(n, 1, n), torch.ones(1)

    n = Dim("n")
    compiled = fxc.compile(function, inputs(2), dynamic_shapes=({0: n, 2: n}, {}))
    for size in (2, 9, 5):
        try:
            result = compiled(*inputs(size))
        except fxc.errors.InputError:
            continue
        torch.testing.assert_close(result, function(*inputs(size)))


def test_conditions_name_sizes_of_the_module_only() -> None:
    """The sizes of slices that a write makes are symbols of the capture, until they are found to be numbers."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.transpose(0, 1).abs_()
        return y.roll(1, 1), x[1:, 2:]

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="fxc", dynamic=True)
    for rows in (2, 7):
        x, y = -torch.ones(3, 5), torch.ones(rows, 1)
        torch.testing.assert_close(compiled(x[:, 1:-1], y), function(x.neg()[:, 1:-1], y))


@pytest.mark.slow
def test_an_expansion_after_writes_needs_its_size() -> None:
    """Functionalization first asks for a graph of all sizes: where that does not exist, the size is a condition."""

    def function(x: torch.Tensor) -> torch.Tensor:
        x.diagonal().fill_(2)
        pooled = torch.nn.functional.lp_pool2d(x.abs() + 0.5, 2, 3)
        pooled.diagonal().clamp_(0)
        return pooled.expand(1, -1, 2, -1)

    compiled = torch.compile(function, backend="fxc", dynamic=True)
    for size in ((16, 3, 9), (5, 4, 3)):
        x, y = torch.randn(size), torch.empty(size)
        y.copy_(x)
        torch.testing.assert_close(compiled(x), function(y))
        torch.testing.assert_close(x, y)


BY_DATA: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nonzero": lambda x: x.nonzero() + 1,
    "mask": lambda x: x.exp()[x > 0].sin(),
    "mask and size": lambda x: x[x > 0] * x.shape[0],
    "otherwise for one row": lambda x: x[x > 0] if x.shape[0] != 1 else x[x < 0],
    "item": lambda x: x.exp()[: x[-1].item()],
    "another item for one row": lambda x: x.exp()[: (x[-1] if x.shape[0] != 1 else x[0] - x[-1]).item()],
}


@pytest.mark.parametrize("name", BY_DATA)
def test_sizes_of_data_beside_free_sizes(name: str) -> None:
    function = BY_DATA[name]
    compiled = fxc.compile(function, (torch.ones(6, dtype=torch.int64),), dynamic_shapes=({0: Dim("n")},))
    for size in (5, 2, 1, 0):
        x = torch.ones(size, dtype=torch.int64)
        try:
            result = compiled(x)
        except fxc.errors.InputError:
            assert (size == 0 and "item" in name) or (size < 2 and "one row" in name)
            continue
        torch.testing.assert_close(result, function(x))


def test_a_mask_may_have_more_elements_than_what_it_selects_from() -> None:
    x, mask = torch.randn(1, 3, requires_grad=True), torch.ones(4, 3, dtype=torch.bool)
    compiled = fxc.compile(torch.masked_select, (x, mask), training=True)
    for chosen in (mask, mask.logical_not(), mask.triu()):
        result, expected = compiled(x, chosen), torch.masked_select(x, chosen)
        assert result.equal(expected)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x) for y in (result, expected)))


@pytest.mark.slow
def test_a_loop_over_a_size_is_captured_for_each_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        state = x[:, 0]
        for i in range(1, x.shape[1]):
            state = state * 0.5 + x[:, i]
        return state

    example, option = (torch.randn(3, 4),), {"recompile": True}
    with pytest.raises(fxc.errors.CaptureError, match=r"hint: the model needs this size as a number.*Dim.AUTO.*recompile"):
        fxc.compile(function, example, dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), options=option)
    compiled = fxc.compile(function, example, dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.AUTO},), options=option)
    for size in ((3, 4), (2, 7), (5, 7)):
        torch.testing.assert_close(compiled(x := torch.randn(size)), function(x))
    assert len(compiled.plans) == 2


def test_an_operator_that_takes_numbers_only_makes_a_condition() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rows = x.view(x.shape[0] * x.shape[1], x.shape[2])
        return torch.linspace(-1, 1, rows.shape[0])

    compiled = fxc.compile(function, (torch.ones(3, 16, 1),), dynamic_shapes=({0: Dim("m"), 1: Dim("n")},))
    assert compiled(torch.ones(6, 8, 1)).shape == (48,)
    with pytest.raises(fxc.errors.InputError, match="== 48"):
        compiled(torch.ones(4, 5, 1))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, -1, 0), (0, 1, -1), (-1,), (-1, 1)], ids=str)
def test_a_square_is_reshaped_as_eager_does(shape: tuple[int, ...]) -> None:
    """PyTorch does not see that n * n // n is n, so that it would copy what is a view. In ``shape``, 0 is n."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.pad(x, (0, 0), mode="circular")
        y[...] += 2
        return x.reshape([x.shape[1] if size == 0 else size for size in shape]), y

    n = Dim("n")
    compiled = fxc.compile(function, (torch.ones(8, 8).t(),), dynamic_shapes=({0: n, 1: n},))
    for size in (8, 5, 2):
        x = torch.arange(float(size * size)).reshape(size, size).t()
        (found, _), (expected, _) = compiled(x), function(x)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()
        assert (found.data_ptr() == x.data_ptr()) == (expected.data_ptr() == x.data_ptr())


def _square(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[1], -1)


def _row(x: torch.Tensor) -> torch.Tensor:
    return x[:-1].flatten()


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("reshaped", [_square, _row])
@pytest.mark.parametrize("written", ["result", "input", "view", "intermediate", "only the result", "none", "before"])
def test_whether_a_reshape_is_a_view_is_a_condition_where_a_later_write_depends_on_it(
    reshaped: Callable[[torch.Tensor], torch.Tensor], written: str
) -> None:
    """The example is copied; the square, or one row, would be a view."""

    def function(x: torch.Tensor) -> torch.Tensor:
        given = x
        if written in ("before", "intermediate", "only the result"):
            x = x.add_(1) if written == "before" else (x * 2)
        first, y = x[0], reshaped(x)
        if written not in ("none", "before"):
            {"input": x, "view": first}.get(written, y).add_(1)
        return (given if written == "only the result" else x).sum(1) + y.sum()

    sizes = {0: Dim("rows", min=2), 1: Dim("columns", min=2)}
    compiled = fxc.compile(function, (torch.ones(5, 6).t(),), dynamic_shapes=(sizes,))
    is_condition = written not in ("none", "before", "only the result")
    for size, is_view in (((5, 6), False), ((4, 3), False), ((3, 3), reshaped is _square), ((3, 2), reshaped is _row)):
        x = torch.arange(float(size[0] * size[1])).reshape(size).t()
        copied = x.clone(memory_format=torch.preserve_format)
        if is_view and is_condition:
            with pytest.raises(fxc.errors.InputError, match="it was compiled for sizes with"):
                compiled(x)
            continue
        torch.testing.assert_close(compiled(x), function(copied))
        torch.testing.assert_close(x, copied)


BOOLS: dict[str, Any] = {
    "tensor": lambda x, n: torch.tensor((n > 0).item()) & (x > 0),
    "where": lambda x, n: torch.where(torch.tensor((n > 0).item()), x, -x),
    "full": lambda x, n: x + torch.full((3,), (n > 0).item()).sum(),
}


@pytest.mark.parametrize("name", BOOLS)
def test_a_bool_of_a_tensor_that_becomes_a_tensor(name: str) -> None:
    function, free = BOOLS[name], torch.export.Dim.AUTO
    compiled = fxc.compile(function, (torch.ones(4), torch.tensor(4)), dynamic_shapes=({0: free}, {}))
    for x in (torch.ones(4), torch.arange(-2.0, 5)):
        for n in (4, -1):
            assert torch.equal(compiled(x, torch.tensor(n)), function(x, torch.tensor(n)))
