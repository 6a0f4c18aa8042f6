"""Memory beyond what schemas and types tell: where inputs begin in their storage, views that no schema declares, leaves whose
elements share memory. What comes is eager's, or one error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc
from fxc.errors import CaptureError, InputError
from fxc.frontends.eager_graphs import is_for_eager


def left_to_eager(function: Callable[..., Any], *inputs: torch.Tensor) -> list[bool]:
    """Whether ``torch.compile`` runs each graph of a call in eager mode."""
    graphs = list[bool]()

    def watch(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(is_for_eager(graph))
        return graph

    torch._dynamo.reset()
    torch.compile(function, backend=watch)(*inputs)
    return graphs


def written_part(x: Tensor) -> Tensor:
    x.as_strided((3,), (2,), 4).mul_(2)
    return x + 1


def read_part(x: Tensor) -> Tensor:
    x.mul_(3)
    return x.as_strided((3,), (2,), 4) * 2


def read_of_view(x: Tensor) -> Tensor:
    x.mul_(3)
    return x[2:].view(2, 5).as_strided((2, 2), (3, 1), 5).sin()


def scattered(x: Tensor) -> Tensor:
    x += 1
    return torch.as_strided_scatter(x, torch.ones(3), (3,), (2,), 4)


def overloads(x: Tensor) -> Tensor:
    torch.ops.aten.mul_.Tensor(x, 3)
    return torch.ops.aten.as_strided.default(x, [3], [2], 4) * 2


COUNTING = [written_part, read_part, read_of_view, scattered, overloads]


def _check(f: Callable[[Tensor], Tensor], compiled: Callable[[Tensor], Tensor], start: int) -> None:
    memory, expected_memory = torch.arange(20.0), torch.arange(20.0)
    result, expected = compiled(memory[start : start + 12]), f(expected_memory[start : start + 12])
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(memory, expected_memory)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", COUNTING)
def test_torch_compile_counts_in_storage(f: Callable[[Tensor], Tensor], dynamic: bool | None) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="fxc", dynamic=dynamic)
    for start in (0, 3, 4):
        _check(f, compiled, start)


@pytest.mark.parametrize("f", COUNTING)
def test_compile_counts_from_its_start_or_refuses(f: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    compiled = fxc.compile(f, (torch.arange(12.0),))
    _check(f, compiled, 0)
    _check(f, compiled, 0)
    memory = torch.arange(20.0)
    with pytest.raises(InputError, match="begins at element 3 of its storage"):
        compiled(memory[3:15])
    with pytest.raises(CaptureError, match="begins at element 4 of its storage"):
        fxc.compile(f, (memory[4:16],))
    compiled.plan.save(tmp_path / "plan.fxc")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan.fxc")
    _check(f, loaded, 0)
    with pytest.raises(InputError, match="begins at element 3 of its storage"):
        loaded(memory[3:15])
    torch.testing.assert_close(memory, torch.arange(20.0))


def test_what_is_not_written_may_begin_anywhere() -> None:
    def f(x: Tensor) -> Tensor:
        return x.as_strided((3,), (2,), 4) * 2

    compiled = fxc.compile(f, (torch.arange(12.0),))
    for start in (0, 3):
        _check(f, compiled, start)

    def copied(x: Tensor) -> Tensor:
        x.mul_(2)
        return (x + 1).as_strided((3,), (2,), 4)

    compiled = fxc.compile(copied, (torch.arange(12.0),))
    for start in (0, 3):
        _check(copied, compiled, start)


class Counting(torch.nn.Module):
    """A model that writes to a buffer, a view, and counts from where its storage starts."""

    held: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.arange(20.0)[3:15])

    def forward(self, x: Tensor) -> Tensor:
        self.held.mul_(2)
        return self.held.as_strided((3,), (2,), 4) + x


def test_buffers_that_begin_later() -> None:
    torch._dynamo.reset()
    with pytest.raises(CaptureError, match="'held' begins at element 3 of its storage"):
        fxc.compile(Counting(), (torch.ones(3),))
    torch.testing.assert_close(torch.compile(Counting(), backend="fxc")(torch.ones(3)), Counting()(torch.ones(3)))


def replaced(m: Counting) -> None:
    m.held = torch.arange(20.0)[4:16]


def other_data(m: Counting) -> None:
    m.held.data = torch.arange(20.0)[4:16]


@pytest.mark.parametrize("change", [replaced, other_data])
def test_buffers_that_begin_later_after_compile(change: Callable[[Counting], None]) -> None:
    model = Counting()
    model.held = torch.arange(12.0)
    compiled = fxc.compile(model, (torch.ones(3),))
    torch.testing.assert_close(compiled(torch.ones(3)), torch.tensor([9.0, 13.0, 17.0]))
    change(model)
    before = model.held.clone()
    with pytest.raises(InputError, match="'held' begins at element 4 of its storage"):
        compiled(torch.ones(3))
    torch.testing.assert_close(model.held, before)
    model.held = torch.arange(12.0) + 1
    torch.testing.assert_close(compiled(torch.ones(3)), torch.tensor([11.0, 15.0, 19.0]))


BEYOND: dict[str, Callable[[Tensor], Any]] = {
    "read after a write": lambda x: x.mul_(3) is x and x.as_strided((2,), (3,), 10) * 2,
    "viewed before a write": lambda x: (x.view(-1, 3).as_strided((2,), (3,), 10), x.mul_(3))[0] * 2,
    "copied after a write": lambda x: x.mul_(3) is x and torch.as_strided_copy(x, (2,), (3,), 10),
    "written": lambda x: (x.as_strided((2,), (3,), 10).mul_(5), x + 1)[1],
    "view of it written": lambda x: (x.as_strided((2, 1), (3, 1), 10)[1].fill_(5), x + 1)[1],
    "assigned": lambda x: x.as_strided((2,), (3,), 10).__setitem__(..., 1) or x + 1,
}
WITHIN: dict[str, Callable[[Tensor], Any]] = {
    "read before a write": lambda x: (x.as_strided((2,), (3,), 10) * 2, x.mul_(3))[0],
    "views returned": lambda x: (x.as_strided((2,), (3,), 10), x.mul_(3))[0],
    "views of views returned": lambda x: x.mul_(3) is x and (x.as_strided((2,), (3,), 10)[1:], x.as_strided((2,), (3,), 10)),
    "other elements": lambda x: x.mul_(3) is x and x.as_strided((2,), (4,), 2) * 2,
}
MEMORIES: dict[str, Callable[[Tensor], Tensor]] = {
    "behind it": lambda memory: memory[:12],
    "gaps": lambda memory: memory[:24:2],
}


def _memory_of(start: Callable[[Tensor], Tensor], f: Callable[[Tensor], Any]) -> tuple[Any, Tensor]:
    memory = torch.arange(40.0)
    return f(start(memory)), memory


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", BEYOND)
def test_elements_beside_a_written_argument_are_refused(name: str, memory: str) -> None:
    with pytest.raises(CaptureError, match="as_strided of a tensor that is written") as caught:
        fxc.compile(BEYOND[name], (MEMORIES[memory](torch.arange(40.0)),))
    assert caught.value.hint and caught.value.op and caught.value.place


@pytest.mark.parametrize(
    ("memory", "name"), [(memory, name) for memory in MEMORIES for name in WITHIN if memory != "gaps" or "views" not in name]
)
def test_elements_beside_a_written_argument_that_are_not_of_its_new_value(name: str, memory: str) -> None:
    compiled = fxc.compile(WITHIN[name], (MEMORIES[memory](torch.arange(40.0)),))
    for _ in range(2):
        found, expected = (_memory_of(MEMORIES[memory], f) for f in (compiled, WITHIN[name]))
        torch.testing.assert_close(found, expected)


def chunk_written(x: Tensor) -> Tensor:
    y = x * 1
    torch.unsafe_chunk(y, 2)[0].mul_(2)
    return y * y


def split_of_written(x: Tensor) -> Tensor:
    y = x * 1
    parts = torch.unsafe_split(y, 2)
    y.mul_(2)
    return parts[0] * parts[1]


def method_and_plus(x: Tensor) -> Tensor:
    y = x * 1
    first, second = y.unsafe_chunk(2)
    first += second
    return y * 2


def by_sizes(x: Tensor) -> Tensor:
    y = x * 1
    parts = torch.ops.aten.unsafe_split_with_sizes.default(y, [1, 3])
    torch.ops.aten.add_.Tensor(y, 1)
    return parts[1] * 3


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("f", [chunk_written, split_of_written, method_and_plus, by_sizes])
def test_undeclared_views_beside_writes(f: Callable[[Tensor], Tensor], gradients: bool) -> None:
    torch._dynamo.reset()
    x, other = (torch.arange(4.0, requires_grad=gradients) for _ in range(2))
    result, expected = torch.compile(f, backend="fxc")(x), f(other)
    torch.testing.assert_close(result, expected)
    if gradients:
        result.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
    else:
        torch.testing.assert_close(fxc.compile(f, (x,))(x), expected)


LEAVES: dict[str, Callable[[], Tensor]] = {
    "columns": lambda: torch.arange(3.0).view(3, 1).expand(3, 4),
    "rows": lambda: torch.arange(4.0).expand(3, 4),
    "all": lambda: torch.ones(()).expand(4, 4),
    "windows": lambda: torch.arange(6.0).unfold(0, 3, 1),
    "far windows": lambda: torch.arange(9.0).unfold(0, 3, 2),
}
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x.view_as(x),
    "transposed": lambda x: x.t(),
    "rows": lambda x: x[1:],
    "expanded": lambda x: x.expand(2, *x.shape),
    "expanded column": lambda x: x[:, :1].expand(x.shape),
    "nothing dropped": lambda x: F.dropout(F.dropout(x, 0.0).T, 0.0).reshape(-1),
    "of two": lambda x: (x * 2)[1:],
}


@pytest.mark.share(4)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_gradients_of_overlapping_leaves(leaf: str, view: str, dynamic: bool | None) -> None:
    torch._dynamo.reset()
    x, other = (LEAVES[leaf]().detach().requires_grad_() for _ in range(2))
    result, expected = torch.compile(VIEWS[view], backend="fxc", dynamic=dynamic)(x), VIEWS[view](other)
    weights = torch.randn(expected.shape)
    result.backward(weights)
    expected.backward(weights)
    torch.testing.assert_close(x.grad, other.grad)


@pytest.mark.parametrize("how", ["compile", "torch.compile"])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_dropout_between_recurrent_layers(kind: type[torch.nn.Module], how: str) -> None:
    torch._dynamo.reset()
    model, x = kind(4, 5, num_layers=2, dropout=1.0).train(), torch.randn(3, 2, 4)
    compiled = fxc.compile(model, (x,)) if how == "compile" else torch.compile(model, backend="fxc")
    result, expected = compiled(x)[0], model(x)[0]
    torch.testing.assert_close(result, expected)
    assert not torch.allclose(expected, model.eval()(x)[0])


def test_only_graphs_that_write_what_is_counted_in_go_to_eager() -> None:
    def chunks(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        parts = (x * 2).as_strided((2, 3, 4), (4, 4, 1))
        mask[0] = 1
        filled = torch.zeros(3, 4)
        filled[:2] = parts[0, :2]
        return parts.sum(0) + filled

    def written(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        parts = y.as_strided((2, 3), (2, 1), 1)
        y.add_(1)
        return parts

    assert left_to_eager(chunks, torch.randn(4, 4), torch.randn(3)) == [False]
    assert left_to_eager(written, torch.randn(4, 4)) == [True]


COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "select_scatter": lambda x: x.select_scatter(torch.zeros(2), 0, -1),
    "slice_scatter": lambda x: x.slice_scatter(torch.zeros(1, 2), 0, 1, 2),
    "diagonal_scatter": lambda x: x.diagonal_scatter(torch.zeros(2)),
    "of a view": lambda x: x.t()[None].select_scatter(torch.zeros(1, x.shape[0]), 1, 0)[0],
}


def rows(first: int) -> Tensor:
    return torch.arange(12.0 + 2 * first).view(6 + first, 2)[first:]


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copies_begin_where_their_operand_does(copy: Callable[[Tensor], Tensor]) -> None:
    """``as_strided`` of them counts from the start of a memory with what was before the operand."""

    def f(x: Tensor) -> Tensor:
        return copy(x).as_strided((3,), (1,), 2) * 2

    compiled = fxc.compile(f, (rows(0),))
    assert torch.equal(compiled(rows(0)), f(rows(0)))
    with pytest.raises(InputError, match="input x begins at element 4 of its storage, and the model counts"):
        compiled(rows(2))
    with pytest.raises(CaptureError, match=r"'%x' begins at element 4 of its storage") as caught:
        fxc.compile(f, (rows(2),))
    assert "pass x.clone()" in str(caught.value)
    for first in (0, 2):
        assert left_to_eager(f, rows(first)) == [first > 0]
        torch._dynamo.reset()
        assert torch.equal(torch.compile(f, backend="fxc")(rows(first)), f(rows(first)))


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copies_of_parts_begin_where_the_part_does(copy: Callable[[Tensor], Tensor]) -> None:
    def f(x: Tensor) -> Tensor:
        return copy((x + 1)[2:]).as_strided((3,), (1,), 2) * 2

    with pytest.raises(CaptureError, match=r"the result of aten.slice.Tensor may begin after the start of its storage"):
        fxc.compile(f, (rows(0),))
    torch._dynamo.reset()
    assert torch.equal(torch.compile(f, backend="fxc")(rows(0)), f(rows(0)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32], ids=str)
def test_what_is_copied_over_a_part_of_an_input_begins_in_its_own_memory(dtype: torch.dtype) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.clone().copy_(y)

    x, y = torch.arange(20.0)[10:], torch.arange(30, dtype=dtype)[5:25:2]
    torch._dynamo.reset()
    for result in (torch.compile(f, backend="fxc")(x, y), fxc.compile(f, (x, y))(x, y)):
        assert torch.equal(result, f(x, y))
        assert (result.storage_offset(), result.untyped_storage().nbytes()) == (0, 40)
