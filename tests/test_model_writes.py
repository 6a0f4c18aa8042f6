"""What a model writes to, through ``fxc.compile``: buffers under ``no_grad``, parameters, inputs that share memory."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError


class Averaged(nn.Module):
    """Keeps a moving average of what its layer gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.randn(3))
        self.register_buffer("average", torch.ones(3))
        self.average: torch.Tensor


class InPlace(Averaged):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        with torch.no_grad():
            self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y * self.average * self.scale


class Assigned(Averaged):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        with torch.no_grad():
            self.average = self.average * 0.9 + y.mean(0) * 0.1
        return y * self.average * self.scale


class ThroughViews(Averaged):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.t()
            first = self.average[:1]
            first.copy_(y.sum())
        return self.layer(x) * first + y.sum()


def normed() -> nn.Module:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", [InPlace, Assigned, ThroughViews, normed])
def test_buffers_written_under_no_grad(make: Callable[[], nn.Module], training: bool) -> None:
    torch.manual_seed(0)
    model = make()
    expected = deepcopy(model)
    x = torch.randn(2, 3)
    compiled = fxc.compile(model, (x,), training=training)
    for _ in range(2):
        results = []
        for run, owner in ((compiled, model), (expected, expected)):
            given = x.clone().requires_grad_(training)
            with torch.set_grad_enabled(training):
                y = run(given)
            leaves = [given, *owner.parameters()]
            grads = torch.autograd.grad(y.sum(), leaves, allow_unused=True) if training else ()
            results.append((y, grads, dict(owner.named_buffers())))
        torch.testing.assert_close(*results)


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, -2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scale.clamp_(-1, 1)
        return x * self.scale


@pytest.mark.slow
def test_parameters_written_under_no_grad() -> None:
    x, model = torch.ones(2), Clamped()
    with pytest.raises(CaptureError, match="writes to 'scale', which requires a gradient"):
        fxc.compile(model, (x,), training=True)
    with pytest.warns(FallbackWarning, match="writes to 'scale', which requires a gradient"):
        in_parts = fxc.compile(model, (x,), training=True, options={"fallback": True})
    assert torch.equal(model.scale, torch.tensor([2.0, -2.0]))
    expected = Clamped()
    for each, run in ((model, in_parts), (expected, expected)):
        for _ in range(2):
            run(x).pow(3).sum().backward()
            with torch.no_grad():
                each.scale.add_(3)
    assert torch.equal(model.scale.grad, expected.scale.grad) and torch.equal(model.scale, expected.scale)
    model = Clamped()
    with torch.no_grad():
        assert torch.equal(fxc.compile(model, (x,))(x), torch.tensor([1.0, -1.0]))
    assert torch.equal(model.scale, torch.tensor([1.0, -1.0]))
    frozen = Clamped().requires_grad_(False)
    assert torch.equal(fxc.compile(frozen, (x,), training=True)(x), torch.tensor([1.0, -1.0]))


def add_to_first(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    before = b * 2
    a.add_(1)
    return before + b


whole = torch.zeros(4, 4)


@pytest.mark.parametrize(
    "a, b", [(whole, whole.view(16)[8:].view(2, 4)), (whole[:, :3], whole[:, 2:3]), (whole, whole.view(4, 4))]
)
def test_written_inputs_that_share_memory(a: torch.Tensor, b: torch.Tensor) -> None:
    for first, second in ((a, b), (b, a)):
        with pytest.raises(CaptureError, match="input '%b' shares memory with '%a', and the model writes there"):
            fxc.compile(lambda a, b: (a.add_(1), b.sum())[1], (first, second))
    assert fxc.compile(lambda a, b: (a.sum() + b.sum(), a), (a, b))(a, b)[1] is a


def test_written_inputs_that_share_memory_in_a_later_call(tmp_path: Path) -> None:
    memory = torch.zeros(4, 4)
    compiled = fxc.compile(add_to_first, (torch.zeros(4, 2), torch.zeros(4, 2)), options={"target": "host"})
    compiled.plan.save(tmp_path / "plan")
    for run in (compiled, fxc.ExecutionPlan.load(tmp_path / "plan")):
        for _ in range(2):
            a, b = torch.ones(4, 2), torch.ones(4, 2)
            assert torch.equal(run(a, b), torch.full((4, 2), 3.0)) and torch.equal(a, torch.full((4, 2), 2.0))
            with pytest.raises(InputError, match="input b shares memory with a, and the model writes there"):
                run(memory.view(8, 2)[:4], memory.view(8, 2)[2:6])
            with pytest.raises(InputError, match="input b shares memory with a"):
                run(a, a)
    assert not memory.any()
    unwritten = fxc.compile(lambda a, b: a * 2 + b, (torch.zeros(3), torch.zeros(3)), options={"target": "host"})
    assert torch.equal(unwritten(torch.ones(3), torch.ones(3)), torch.full((3,), 3.0))
    x = torch.ones(3)
    assert torch.equal(unwritten(x, x), torch.full((3,), 3.0))


def test_inputs_that_share_no_element() -> None:
    cache = torch.zeros(4, 4)
    compiled = fxc.compile(add_to_first, (cache[:, ::2], cache[:, 1::2]))
    assert not compiled(cache[:, ::2], cache[:, 1::2]).any()
    assert cache.sum() == 8


def test_an_input_that_is_a_tensor_of_the_model() -> None:
    model = InPlace()
    with pytest.raises(CaptureError, match="input '%x' shares memory with 'average'"):
        fxc.compile(model, (model.average.expand(2, 3),))


def test_views_that_count_from_the_start_of_their_storage() -> None:
    """A buffer that shares an arena with others is not at the start of its storage."""
    weight = torch.arange(4.0)
    results = []
    for make in (lambda f, x: fxc.compile(f, (x,), training=True, options={"target": "host"}), lambda f, x: f):
        x = torch.ones(2, 8, requires_grad=True)
        run = make(lambda x: (x[0] * 2).as_strided((3, 4), (2, 1)) * weight, x)
        results.append(torch.autograd.grad(run(x).sum(), x))
    torch.testing.assert_close(*results)


class IdleDropouts(Averaged):
    """Writes to what dropouts give, which is what they are given."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(share)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.dropout(x, self.drop.p, self.training).mul_(2)
        y = self.layer(x)
        z = self.drop(y)
        z += self.scale
        return y * x.sum()


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("ahead", [False, True], ids=["torch.compile", "fxc.compile"])
def test_writes_to_what_a_dropout_gave_back(share: float, training: bool, ahead: bool) -> None:
    model, x = IdleDropouts(share).train(share == 0), torch.randn(4, 3)
    twin, given, expected_input = deepcopy(model), x.clone(), x.clone()
    expected = twin(expected_input)
    with torch.set_grad_enabled(training):
        compiled = fxc.compile(model, (x,), training=training) if ahead else torch.compile(model, backend="fxc")
        result = compiled(given)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(given, expected_input)
    if training:
        result.sum().backward()
        expected.sum().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_torch_compile_keeps_writes_to_numbers(shape: tuple[int, ...], dtype: torch.dtype, dynamic: bool | None) -> None:
    def zeroed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.zero_()
        return y

    def added(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        return x * y, y.mul_(x)

    for f in (zeroed, added):
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="fxc", dynamic=dynamic)
        for number in (2, 3):
            inputs = [torch.full(shape, number, dtype=dtype), torch.arange(3).to(dtype)]
            copies = [value.clone() for value in inputs]
            torch.testing.assert_close(compiled(*inputs), f(*copies))
            torch.testing.assert_close(inputs, copies)


Model = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SCALED: dict[str, tuple[Model, Model]] = {
    "itself": (lambda x, w: x.mul_(w).sin(), lambda x, w: (x * w).sin()),
    "a view": (lambda x, w: (x.flatten()[1:] * w, x.mul_(2))[0], lambda x, w: x.flatten()[1:] * w),
    "before": (lambda x, w: (torch.addcmul(w, x, x), x.zero_())[0], lambda x, w: w + x * x),
    "a branch": (
        lambda x, w: (torch.cond(x.sum() > 0, lambda x, w: x * w, lambda x, w: x.sin() * w, (x, w)), x.add_(1))[0],
        lambda x, w: x * w,
    ),
    "a returned view": (lambda x, w: x.mul_(w).view(-1), lambda x, w: (x * w).view(-1)),
}
"""Models that write what the derivative reads, eager autograd refuses most of them; and what they compute."""


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", SCALED)
def test_the_derivative_reads_inputs_as_they_were_before_they_are_written(name: str, target: str | None) -> None:
    def inputs() -> list[torch.Tensor]:
        return [torch.linspace(1, 2, 12).view(3, 4), torch.full((), 1.5, requires_grad=True)]

    (function, formula), given, copies = SCALED[name], inputs(), inputs()
    compiled = fxc.compile(function, inputs(), training=True, options={"target": target} if target else None)
    found, expected = compiled(*given), formula(*copies)
    torch.testing.assert_close(found, expected)
    weights = torch.arange(12)[: expected.numel()].reshape(expected.shape)
    (gradient,) = torch.autograd.grad((found * weights).sum(), given[1])
    torch.testing.assert_close(gradient, torch.autograd.grad((expected * weights).sum(), copies[1])[0])
    function(*copies)
    torch.testing.assert_close(given[0], copies[0])


def _written_first(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    x.add_(1)
    return x * y, x.item() + 1


def _written_last(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    number = x.item()
    x.add_(1)
    return x * y, number + 1


def _by_a_view(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    x.view(1)[0:1].mul_(2)
    return y * x.item(), x + 0


def _by_another(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    x.copy_(y)
    return y + x.item(), x.item() * 2


def _only_read(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    x.add_(1)
    return x * y, y.item() + 1


@pytest.mark.share(3)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("f", [_written_first, _written_last, _by_a_view, _by_another, _only_read])
def test_torch_compile_reads_numbers_of_what_is_written(
    f: Callable[..., object], dtype: torch.dtype, dynamic: bool | None
) -> None:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(f, backend="fxc", dynamic=dynamic)
        for number in (3, 5, -1):
            inputs, copies = ([torch.tensor(number, dtype=dtype), torch.tensor(2, dtype=dtype)] for _ in range(2))
            torch.testing.assert_close(compiled(*inputs), f(*copies))
            torch.testing.assert_close(inputs, copies)


@pytest.mark.parametrize("option", [{}, {"target": None}, {"freeze": True}])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.as_strided((4, 1, 2), (0, 5, 1), 1),
        lambda x: x.as_strided((2, 2), (3, 1), 1),
        lambda x: x.unfold(2, 3, 1),
        lambda x: x.expand(3, 1, 6),
        lambda x: x[:, :, ::2],
        lambda x: x[:, :, 4:4],
    ],
)
def test_what_may_share_memory_with_a_written_input_keeps_its_gaps_and_overlaps(
    view: Callable[[torch.Tensor], torch.Tensor], option: dict[str, object]
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        order = view(x.argsort(dim=-1, stable=True))  # its schema does not say that it is no view
        x.transpose(1, 2).abs_()
        return order

    x = torch.tensor([[[3.0, -1.0, 2.0, -5.0, 0.0, 7.0]]])
    given, copy = x.clone(), x.clone()
    found, expected = fxc.compile(function, (x.clone(),), options=option)(given), function(copy)
    assert torch.equal(found, expected) and torch.equal(given, copy)
    assert found.stride() == expected.stride()


def test_the_way_out_for_strides_of_a_written_input() -> None:
    """A copy alone would get the write."""

    def add(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    x = torch.ones(3, 4)
    compiled = fxc.compile(add, (torch.zeros(3, 4), x))
    cache = torch.zeros(4, 3).t()
    with pytest.raises(InputError, match=r"input cache has strides.*\n.*copy = cache.contiguous.*cache.copy_.copy."):
        compiled(cache, x)
    copy = cache.contiguous()
    assert torch.equal(compiled(copy, x), torch.full((3, 4), 2.0))
    cache.copy_(copy)
    assert torch.equal(cache, x)
    with pytest.raises(InputError, match=r"input x has strides.*\n.*pass it through .contiguous\(\)"):
        compiled(torch.zeros(3, 4), x.t().contiguous().t())
    again = fxc.compile(add, (torch.zeros(3, 4), x), options={"recompile": True})
    again(cache, x)
    assert torch.equal(cache, x * 2)


def test_the_way_out_for_gaps_of_a_written_input() -> None:
    def with_gaps(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.as_strided((6,), (1,)) * 2

    def memory() -> torch.Tensor:
        return torch.arange(12.0).view(3, 4)

    with pytest.raises(CaptureError, match="take the tensor of it in the model, or use torch"):
        fxc.compile(with_gaps, (memory()[:, :2],))
    whole, expected = memory(), memory()
    results = fxc.compile(lambda whole: with_gaps(whole[:, :2]), (whole,))(whole), with_gaps(expected[:, :2])
    torch.testing.assert_close(*results)
    assert torch.equal(whole, expected)
    torch._dynamo.reset()
    x, y = memory()[:, :2], memory()[:, :2]
    torch.testing.assert_close(torch.compile(with_gaps, backend="fxc")(x), with_gaps(y))
    assert torch.equal(x, y)


@pytest.mark.parametrize("how", ["fxc", "training", "torch.compile"])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.index_fill_(0, torch.arange(1), 2.0),
        lambda x: x.mul_(x.flip(0)),
        lambda x: x[0].neg_(),
    ],
)
def test_a_written_tensor_keeps_strides_of_one_element_by_which_convolutions_choose_their_format(
    write: Callable[[torch.Tensor], object], how: str
) -> None:
    weight = torch.tensor([[[0.5]], [[-2.0]]])

    def function(x: torch.Tensor) -> torch.Tensor:
        write(x)
        return torch.nn.functional.conv1d(x, weight)

    def given() -> torch.Tensor:
        return torch.tensor([[[1.0], [-3.0]]]).permute(0, 2, 1)

    if how == "torch.compile":
        compiled = torch.compile(function, backend="fxc")
    else:
        compiled = fxc.compile(function, (given(),), training=how == "training")
    found, expected = compiled(given()), function(given())
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


def test_results_that_may_be_views_of_a_written_input_share_memory() -> None:
    """Whether ``argsort`` returns a view is unknown, so its result is copied before the write, with its views."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = x.argsort(dim=0, stable=True)
        first, second = order.split(2)
        x.clamp_(max=1)
        return order.t(), order, second, first[1:]

    x = torch.randn(4, 3)
    compiled = fxc.compile(function, (x.clone(),))
    results, expected = compiled(x.clone()), function(x.clone())
    torch.testing.assert_close(results, expected)
    places = [[each.data_ptr() - those[1].data_ptr() for each in those] for those in (results, expected)]
    assert places[0] == places[1]
    assert [each.stride() for each in results] == [each.stride() for each in expected]


def test_a_copy_that_autograd_may_save_lies_as_the_written_input() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        row = x.as_strided((2,), (1,), 4)
        x.select(1, 0).relu_()
        return row * 2

    def given() -> torch.Tensor:
        return torch.arange(-6.0, 6).reshape(1, 6, 2)[:, ::2]

    graph = fxc.to_fx(fxc.run_passes(fxc.capture(function, (given(),)), "lower-to-torch"))
    x, y = given(), given()
    torch.testing.assert_close(graph(x), function(y))
    torch.testing.assert_close(x, y)
