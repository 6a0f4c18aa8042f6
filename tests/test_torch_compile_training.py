"""Training through ``torch.compile(backend="fxc")``: written buffers, results that share memory, calls in all modes."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional
from torch.testing import assert_close

from tests.test_joint_graph import leaf, train_both, weigh


@pytest.fixture(autouse=True)
def fresh() -> Generator[None, None, None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


class Network(nn.Module):
    """Batch norm, dropout and a counter, which Dynamo returns because it is assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.BatchNorm1d(16)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.count: Tensor

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.count += 1
        return self.second(functional.dropout(functional.gelu(self.norm(self.first(x))), 0.3))


def steps_of_both(model: nn.Module, step: Callable[[Any], Any]) -> None:
    """Compare what ``step`` returns, gradients and buffers for ``model`` in eager mode and compiled."""
    twin = copy.deepcopy(model)
    results = list[Any]()
    for call in (torch.compile(model, backend="fxc"), twin):
        torch.manual_seed(1)
        results.append(step(call))
    assert_close(*results, rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
    assert_close(list(model.buffers()), list(twin.buffers()), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_counter_that_is_assigned(dynamic: bool) -> None:
    train_both(Network(), (leaf(4, 8),), (leaf(7, 8),), dynamic=dynamic, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_marked_size_is_compiled_once() -> None:
    model = Network()
    compiled = torch.compile(model, backend="fxc")
    counters.clear()
    for size in (4, 7, 2, 12):
        x = torch.randn(size, 8)
        torch._dynamo.mark_dynamic(x, 0)
        weigh(compiled(x)).backward()
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_two_calls_before_the_backward() -> None:
    """The second call overwrites the statistics, of which the backward of the first has copies."""
    x = torch.randn(4, 8)

    def step(call: Any) -> Tensor:
        first = call(x)
        second = call(first * 2)
        (weigh(first) + weigh(second)).backward()
        return second

    steps_of_both(Network(), step)


@pytest.mark.parametrize(("size", "padding"), [((5, 5), (2, 1)), ((3, 9), 4)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_gradients_of_depthwise_weights(size: tuple[int, int], padding: Any, layout: torch.memory_format) -> None:
    """They are a kernel, where eager mode calls oneDNN; strides are eager's."""
    model = nn.Conv2d(8, 8, size, padding=padding, groups=8)
    x = torch.randn(2, 8, 9, 10, requires_grad=True).to(memory_format=layout)
    train_both(model, (x.detach().requires_grad_(),), rtol=1e-5, atol=1e-4)
    expected = torch.autograd.grad(model(x).sum(), model.weight)[0].stride()
    assert model.weight.grad is not None
    assert torch.autograd.grad(torch.compile(model, backend="fxc")(x).sum(), model.weight)[0].stride() == expected


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_gradients_of_depthwise_weights_that_are_not_finite(value: float) -> None:
    """Padding does not count. oneDNN multiplies an infinity by it, which is NaN, in some layouts."""
    model = nn.Conv2d(2, 2, 5, padding=2, groups=2)
    x, gradient = torch.randn(2, 2, 6, 6), torch.randn(2, 2, 6, 6)
    gradient[0, 0, 0, 0] = x[1, 1, 5, 2] = value
    x.requires_grad_()
    found = torch.autograd.grad(torch.compile(model, backend="fxc")(x), model.weight, gradient)[0]
    x, expected = x.detach(), torch.empty_like(found)
    for i, j in itertools.product(range(5), range(5)):
        met = gradient[:, :, max(2 - i, 0) : 8 - i, max(2 - j, 0) : 8 - j]
        expected[:, 0, i, j] = (met * x[:, :, max(i - 2, 0) : 4 + i, max(j - 2, 0) : 4 + j]).sum((0, 2, 3))
    assert found.isfinite().any(-1).any(-1).all()
    assert_close(found, expected, rtol=1e-5, atol=1e-4, equal_nan=True)


class Averaged(nn.Module):
    """Copies an argument, which the backward reads, to a buffer, and reads the new value of another buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.register_buffer("last", torch.zeros(4))
        self.register_buffer("mean", torch.zeros(4))
        self.last: Tensor
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.last.copy_(x)
        self.mean = self.mean * 0.9 + x * 0.1
        return self.scale * x.sin() * self.mean.exp()


def test_new_values_of_buffers_that_the_backward_reads() -> None:
    given = torch.randn(3, 4)

    def step(call: Any) -> Tensor:
        total = torch.stack([weigh(call(x)) for x in given]).sum()
        total.backward()
        return total

    steps_of_both(Averaged(), step)


def test_results_are_the_buffers() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(()))
            self.register_buffer("b", torch.zeros(()))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            with torch.no_grad():
                self.a = self.a.add_(1)
                self.b = self.b.copy_(self.a)
            return x.sin() * x, self.a, self.b

    model = Model()
    compiled = torch.compile(model, backend="fxc")
    for call in range(1, 4):
        x = leaf(4)
        y, a, b = compiled(x)
        assert a is model.a and b is model.b and a is not b and a == b == call
        [gradient] = torch.autograd.grad(y.sum(), x)
        assert_close(gradient, x.sin() + x * x.cos())


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_all_modes_of_one_compiled_function(mode: Any) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin() + 1, x.view(-1)

    compiled, x = torch.compile(model, backend="fxc"), leaf(3, 4)
    compiled(x)
    with mode():
        for result, expected in zip(compiled(x), model(x), strict=True):
            assert result.requires_grad == expected.requires_grad and result.is_inference() == expected.is_inference()
            assert_close(result, expected)


class Reversed(torch.autograd.Function):
    """A view with the negative gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class Both(torch.autograd.Function):
    """Two views."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(-1), x.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].view(3, 4) * 2 + gradients[1].t() * 3


@pytest.mark.parametrize(
    "model",
    [
        lambda x: Reversed.apply(x),
        lambda x: Reversed.apply(x).view(4, 3),
        lambda x: (Reversed.apply(x), x.view(-1)),
        lambda x: Reversed.apply(x.t())[0],
        lambda x: Reversed.apply((x * 2).t()),
        lambda x: Both.apply(x * 1),
    ],
)
def test_views_that_custom_functions_return(model: Callable[[Tensor], Any]) -> None:
    train_both(model, (leaf(3, 4),))


SIGNS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "abs": lambda x, k: x * abs(k),
    "max": lambda x, k: x + torch.sym_max(k, 0),
    "floor division": lambda x, k: x * (k // 2),
    "negative axis": lambda x, k: x.sum(k % 2 - 1),
    "slice": lambda x, k: x[:, k - 1 : k + 3],
    "length": lambda x, k: x[: torch.sym_min(abs(k), 2)],
    "pad": lambda x, k: functional.pad(x, (k, k)),
}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("numbers", [(3, -1, 0), (-1, 3)])
def test_numbers_of_any_sign(name: str, numbers: tuple[int, ...]) -> None:
    """A number among the arguments has a symbol as a size has, but it may be negative."""
    model = SIGNS[name]
    train_both(model, *((leaf(4, 5), number) for number in numbers), dynamic=True)


class Deep(nn.Module):
    """What a backward can recompute."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.gelu(layer(x).sin()) * torch.tanh(x)
        return x.square().mean()


def saved_bytes(result: Tensor) -> int:
    return sum(t.nbytes for t in result.grad_fn.saved_tensors)  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_budget_with_a_marked_size() -> None:
    """The sizes of the first call decide what is saved, and gradients are right at others."""
    model, x, y, budget = Deep(), torch.randn(64, 16), torch.randn(200, 16), 0.3
    torch._dynamo.mark_dynamic(x, 0)
    known = saved_bytes(torch.compile(model, backend="fxc", options={"memory_budget": budget})(x.clone()))
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(model, backend="fxc", options={"memory_budget": budget})
    assert saved_bytes(compiled(x)) == known < saved_bytes(torch.compile(Deep(), backend="fxc")(x.clone()))
    for each in (x, y):
        found, expected = (torch.autograd.grad(call(each), list(model.parameters())) for call in (compiled, model))
        assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert counters["stats"]["unique_graphs"] == 2  # the one of the other model is the second


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True])
def test_a_backward_that_runs_again(warm: bool) -> None:
    """No saved tensor is written, whether or not the backward was compiled for a call that runs once."""
    model, x = Deep(), leaf(8, 16)
    compiled = torch.compile(model, backend="fxc")
    if warm:
        compiled(x).backward()
    result = compiled(x)
    expected = torch.autograd.grad(model(x), (x, *model.parameters()))
    for keep in (True, True, False):
        assert_close(torch.autograd.grad(result, (x, *model.parameters()), retain_graph=keep), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_gradient_penalty() -> None:
    """Second derivatives are those of torch.func in the compiled function, under a budget, too."""
    model, x = Deep(), torch.randn(8, 16)

    def penalised(x: Tensor) -> Tensor:
        return model(x) + (torch.func.grad(model)(x).norm(dim=1) - 1).square().mean()

    compiled = torch.compile(penalised, backend="fxc", fullgraph=True, options={"memory_budget": 0.3})
    found, expected = (torch.autograd.grad(call(x), list(model.parameters())) for call in (compiled, penalised))
    assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"memory_budget": 0.3}])
def test_compiled_autograd(options: dict[str, Any]) -> None:
    """The backward that it copies has operators, also after the one of another mode is in AOTAutograd's cache."""
    model, x = Network(), torch.randn(8, 8)

    def step(x: Tensor) -> Tensor:
        torch.manual_seed(1)
        result = model(x).square().sum()
        result.backward()
        return result

    def gradients(call: Callable[[Tensor], Tensor]) -> list[Tensor | None]:
        model.zero_grad()
        call(x)
        return [p.grad for p in model.parameters()]

    torch.compile(model, backend="fxc", options=options)(x)
    expected = gradients(step)
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled = torch.compile(step, backend="fxc", options=options)
        for _ in range(2):
            assert_close(gradients(compiled), expected, rtol=1e-4, atol=1e-5)
    assert counters["compiled_autograd"]["captures"] == 1


POSITIONS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], torch.dtype]] = {
    "127 of 128": (lambda x: x.sort(1).values, (64, 128), torch.int8),
    "128 of 129": (lambda x: x.flip(1).cummax(1).values, (64, 129), torch.int16),
    "the last dimension": (lambda x: x.sort().values, (64, 32768), torch.int16),
    "32768 of 32769": (lambda x: x.cummin(1).values, (1, 32769), torch.int32),
    "a dimension that is removed": (lambda x: x.max(0).values, (3, 8192), torch.int8),
    "images": (lambda x: functional.max_pool2d(x, 3, 2, 1), (4, 8, 33, 33), torch.int16),
    "many equal images": (lambda x: functional.adaptive_max_pool2d(x, 4), (512, 1, 8, 16), torch.int8),
    "volumes": (lambda x: functional.max_pool3d(x, 2), (1, 2, 32, 32, 33), torch.int32),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_saved_narrow(name: str) -> None:
    function, shape, dtype = POSITIONS[name]
    x = torch.arange(float(math.prod(shape))).flip(0).reshape(shape).requires_grad_()
    weight = torch.randn(function(x).shape)
    [expected] = torch.autograd.grad(function(x), x, weight)
    result = torch.compile(function, backend="fxc")(x)
    assert dtype in (saved := [each.dtype for each in result.grad_fn.saved_tensors]) and torch.int64 not in saved  # type: ignore[union-attr]
    [found] = torch.autograd.grad(result, x, weight)
    assert torch.equal(found, expected)


def _written(x: Tensor, write: Callable[[Tensor, Tensor], Any], view: Callable[[Tensor], Tensor], first: bool) -> Any:
    made = torch.zeros(3, 2)
    write(made, x)
    return (view(made), made) if first else (made, view(made))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("view", [lambda t: t[0], lambda t: t[1:], lambda t: t.t(), lambda t: t.view(-1)])
@pytest.mark.parametrize("write", [Tensor.add_, lambda t, x: t.__setitem__(1, x), lambda t, x: t[:2].mul_(x)])
def test_a_view_of_a_written_result_has_its_gradient(write: Any, view: Any, first: bool) -> None:
    x = leaf(2)
    results = []
    for function in (_written, torch.compile(_written, backend="fxc")):
        made = function(x, write, view, first)
        results.append((made, torch.autograd.grad(sum(weigh(each) for each in made), x, allow_unused=True)))
        assert [each.requires_grad for each in made] == [True, True]
    assert_close(results[1], results[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extreme", [torch.amin, torch.amax])
def test_what_the_backward_recomputes_equals_what_the_forward_computed(extreme: Any, dtype: torch.dtype) -> None:
    """The gradient of an extreme goes to the elements that are equal to it."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        m = a[:, None] * b
        return extreme((1 - m).div(1 - m.amax(0)[:, None]), 0)

    torch.manual_seed(0)
    inputs = [torch.randn(16, dtype=dtype, requires_grad=True) for _ in range(2)]
    gradients = [torch.autograd.grad(run(*inputs).sum(), inputs) for run in (function, torch.compile(function, backend="fxc"))]
    assert_close(gradients[1], gradients[0])
