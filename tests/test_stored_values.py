"""What a call stores in attributes, lists, dicts and variables is assigned at each call, as in eager mode."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError

NAMED: dict[str, Any] = {}
LAST: Any = None


class Last:
    value: ClassVar[Any] = None


class Stores(nn.Module):
    """``step`` is its forward."""

    def __init__(self, step: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step, self.linear, self.layers = step, nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.aux: Any = None
        self.number, self.cache, self.listed, self.named = 0, None, [None, None], dict[str, Any]()
        self.refilled, self.memory = list[Any](), torch.zeros(2, 4)
        self.register_buffer("steps", torch.zeros(()))
        self.queue, self.object = deque([None], maxlen=1), SimpleNamespace(value=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(self, x)

    def kept(self) -> list[Any]:
        """Tensors and numbers of all places."""
        own = [vars(self)[name] for name in ("aux", "number", "listed", "named")]
        variable = self.step.kept() if hasattr(self.step, "kept") else None
        others = [vars(self.layers[0]).get("last"), [*self.queue], self.object.value, NAMED, LAST, Last.value, by_function.last]
        return [leaf for leaf in tree_leaves([own, others, variable]) if isinstance(leaf, (torch.Tensor, int, float))]


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    global LAST
    NAMED.clear()
    LAST = Last.value = by_function.last = None


def loss(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.aux = y.pow(2).mean()
    return y.relu()


def detached(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.aux = y.detach()
    return y.relu()


def nested(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.aux, m.number = {"a": [y, (x, 3)], "sizes": y.shape}, x.shape[0]
    return y.relu()


def in_a_list(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.listed[1], m.queue[0] = m.linear(x), x + 1
    return m.listed[1] + 1


def in_a_dict(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.named["last"] = NAMED["last"] = m.linear(x)
    return NAMED["last"] * 2


def in_an_object(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.object.value = m.linear(x)
    return m.object.value + 1


def in_a_global(m: Any, x: torch.Tensor) -> torch.Tensor:
    global LAST
    LAST = m.linear(x)
    return LAST * 2


def in_a_class(m: Any, x: torch.Tensor) -> torch.Tensor:
    Last.value = m.linear(x)
    return Last.value * 2


def by_function(x: torch.Tensor) -> torch.Tensor:
    by_function.last = x * 2
    return x + 1


by_function.last = None


def in_a_function(m: Any, x: torch.Tensor) -> torch.Tensor:
    return m.linear(by_function(x))


def in_a_submodule(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.layers(x)
    m.layers[0].last = y
    return y


def of_weights(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = m.linear.weight.pow(2).sum()
    return m.linear(x)


def the_result(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = y = m.linear(x)
    return y


def the_input(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = [x, x.t()]
    return m.linear(x)


def written_later(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.aux = y
    y.add_(1)
    return y * 2


def beside_a_cache(m: Any, x: torch.Tensor) -> torch.Tensor:
    if m.cache is None:
        m.cache = torch.arange(4.0).cos()
    m.aux = m.linear(x)
    return m.aux + m.cache


def each_layer(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = []
    for _ in range(3):
        x = m.linear(x)
        m.aux.append(x)
    return x


def drawn(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = torch.rand(4)
    return m.linear(x) * m.aux


def a_number(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.number = round(y.sum().item(), 3)
    return y


def refilled(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.refilled.clear()
    for _ in range(2):
        x = m.linear(x)
        m.refilled.append(x)
    m.aux = m.refilled
    return x


def a_weight(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.aux = m.steps
    m.steps.add_(1)
    return m.linear(x)


def filled(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    values = torch.zeros(2)
    values[0] = y.mean()
    m.aux, m.listed[0] = values, torch.zeros(2, 4)
    m.listed[0][1] = y[0]
    return y


def copied(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.memory.copy_(x[:2].detach())
    m.aux = m.memory.clone()
    return m.linear(x)


def of_a_kept_tensor(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.memory[:1] = x[:1].detach()
    m.aux = m.memory[:1]
    return m.linear(x)


def in_branches(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.linear(x)
    m.aux = y.mean()
    return torch.where(y.sum() > 0, y * 2, y) + torch.cond(x.shape[0] > 0, torch.sin, torch.cos, (y,))


def in_a_variable() -> Callable[[Any, torch.Tensor], torch.Tensor]:
    last: Any = None

    def step(m: Any, x: torch.Tensor) -> torch.Tensor:
        nonlocal last
        last = m.linear(x)
        return last * 2

    step.kept = lambda: last
    return step


STEPS = [
    *[loss, detached, nested, in_a_list, in_a_dict, in_an_object, in_a_global, in_a_class, in_a_function, in_a_submodule],
    *[of_weights, the_result, the_input, written_later, beside_a_cache, each_layer, drawn, in_a_variable, a_number],
    *[refilled, a_weight, filled, copied, of_a_kept_tensor, in_branches],
]


def pair(step: Callable[..., Any]) -> tuple[Stores, Stores]:
    model, other = (Stores(step() if step is in_a_variable else step) for _ in range(2))
    other.load_state_dict(model.state_dict())
    return model, other


def memory(tensors: list[Any]) -> list[list[bool]]:
    """Which tensors share memory."""
    starts = [each.untyped_storage().data_ptr() for each in tensors if isinstance(each, torch.Tensor)]
    return [[a == b for b in starts] for a in starts]


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["inference", "training", "dynamic", "recompile"])
@pytest.mark.parametrize("step", STEPS)
def test_a_call_stores_what_the_model_stores(step: Callable[..., Any], kind: str) -> None:
    model, other = pair(step)
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)},) if kind == "dynamic" else None
    example, is_training = torch.randn(3, 4), kind == "training"
    compiled = fxc.compile(
        model, (example,), training=is_training, dynamic_shapes=shapes, options={"recompile": kind == "recompile"}
    )
    assert not any(isinstance(each, torch.Tensor) for each in model.kept()), "a compilation stores nothing"
    for i in range(3):
        x = torch.randn(3 + i * (kind in ("dynamic", "recompile")), 4)
        xs, results, stored = [x.clone().requires_grad_(is_training) for _ in range(2)], list[Any](), list[list[Any]]()
        for each, (run, owner) in zip(xs, ((compiled, model), (other, other)), strict=True):
            torch.manual_seed(i)
            results.append(run(each))
            stored.append(owner.kept())
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(stored[0], stored[1])
        assert memory([xs[0], results[0], *stored[0]]) == memory([xs[1], results[1], *stored[1]])
        if is_training:
            gradients = list[Any]()
            for each, owner, result, tensors in zip(xs, (model, other), results, stored, strict=True):
                values = [value for value in (result, *tensors) if isinstance(value, torch.Tensor) and value.requires_grad]
                total = sum((value.pow(2).sum() for value in values), torch.zeros(()))
                gradients.append((len(values), torch.autograd.grad(total, [each, *owner.parameters()], allow_unused=True)))
            torch.testing.assert_close(*gradients)


def test_a_loss_that_a_layer_stores_trains_the_model() -> None:
    model, other = pair(loss)
    compiled = fxc.compile(model, (torch.randn(3, 4),), training=True)
    for run, owner in ((compiled, model), (other, other)):
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.1)
        for i in range(3):
            optimizer.zero_grad()
            torch.manual_seed(i)
            (run(torch.randn(3, 4)).sum() + owner.aux).backward()
            optimizer.step()
    torch.testing.assert_close(model.state_dict(), other.state_dict())


def test_saved_and_copied_plans_return_the_results_only(tmp_path: Path) -> None:
    model, other = pair(loss)
    x = torch.randn(3, 4)
    compiled = fxc.compile(model, (x,))
    compiled.plan.save(tmp_path / "plan.fxc")
    for run in (fxc.ExecutionPlan.load(tmp_path / "plan.fxc"), copy.deepcopy(compiled.plan)):
        torch.testing.assert_close(run(x), other(x))
        assert model.aux is None
    torch.testing.assert_close(fxc.to_fx(fxc.capture(model, (x,)))(x), other(x))


def object_made(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.object = SimpleNamespace(value=m.linear(x))
    return m.object.value * 2


def deleted(m: Any, x: torch.Tensor) -> torch.Tensor:
    del m.cache
    m.cache = None
    m.aux = m.linear(x)
    vars(m).pop("number", None)
    return m.aux + 1


@pytest.mark.parametrize("step", [object_made, deleted])
def test_what_is_not_recorded_runs_in_parts(step: Callable[..., Any]) -> None:
    model, other = pair(step)
    with pytest.warns(FallbackWarning, match="what a call of the model stores in"):
        compiled = fxc.compile(model, (torch.randn(3, 4),), options={"fallback": True})
    for _ in range(2):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close([model.aux, model.object.value], [other.aux, other.object.value])


def first_kept(m: Any, x: torch.Tensor) -> torch.Tensor:
    if m.aux is None:
        m.aux = x * 2
    return m.linear(x)


def test_a_value_of_the_first_call_is_refused() -> None:
    with pytest.raises(CaptureError, match="a call of the model changes 'aux'"):
        fxc.compile(Stores(first_kept), (torch.randn(3, 4),))


def by_size(m: Any, x: torch.Tensor) -> torch.Tensor:
    result = x * m.number
    m.number = x.shape[0]
    return result


def largest(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number = max(m.number, x.shape[0])
    return x * m.number


def average(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number = 0.5 * m.number + 0.5 * x.mean().item()
    return x * m.number


@pytest.mark.parametrize("step", [by_size, largest, average])
def test_numbers_of_the_call_before_are_refused(step: Callable[..., Any]) -> None:
    model = Stores(step)
    model.number = 4  # as many as the rows of the example
    with pytest.raises(CaptureError, match="a call of the model changes 'number'"):
        fxc.compile(model, (torch.randn(4, 4),), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    assert model.number == 4


class Lazy(nn.Module):
    """Makes what ``kind`` says at the first call."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear, self.kind, self.made = nn.Linear(4, 4), kind, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.made:
            self.made = True
            if self.kind == "parameter":
                self.scale = nn.Parameter(torch.ones(4))
            elif self.kind == "buffer":
                self.register_buffer("scale", torch.ones(4))
            else:
                self.scale = nn.Linear(x.shape[-1], 1)
        return self.linear(x) * (self.scale(x) if self.kind == "submodule" else self.scale)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["parameter", "buffer", "submodule"])
def test_what_the_first_call_registers(kind: str, training: bool) -> None:
    model, x = Lazy(kind), torch.randn(3, 4)
    before = {*model.state_dict()}
    with pytest.raises(CaptureError, match=r"registers or removes 'scale'.*(?s:.*)hint: call the model once"):
        fxc.compile(model, (x,), training=training)
    assert {*model.state_dict()} == before
    with pytest.warns(FallbackWarning, match="registers or removes 'scale'"):
        compiled = fxc.compile(model, (x,), training=training, options={"fallback": True})
    assert {*model.state_dict()} == before
    result = compiled(x)
    assert {*model.state_dict()} > before
    torch.testing.assert_close(compiled(x), result)
    torch.testing.assert_close(fxc.compile(model, (x,), training=training)(x), model(x))


class Late(nn.Module):
    """Its buffer is None before the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale = torch.ones(4)
        return self.linear(x) * self.scale


def test_a_buffer_that_was_none() -> None:
    """torch.export takes its new value for that of an input."""
    model, x = Late(), torch.randn(3, 4)
    before = x.clone()
    with pytest.warns(FallbackWarning, match="registers or removes 'scale'"):
        compiled = fxc.compile(model, (x,), options={"fallback": True})
    assert model.scale is None
    torch.testing.assert_close(compiled(x), model.linear(x))
    assert torch.equal(x, before) and torch.equal(model.scale, torch.ones(4))


@pytest.mark.parametrize("shapes", [None, ({0: torch.export.Dim.AUTO},)])
@pytest.mark.parametrize("training", [False, True])
def test_a_container_that_the_caller_replaces_gets_what_is_stored(training: bool, shapes: Any) -> None:
    def step(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.linear(x)
        m.named["mean"], m.listed[1] = y.mean(), y.sum()
        return y * 2

    model, x = Stores(step), torch.randn(4, 4)
    compiled = fxc.compile(model, (x,), training=training, dynamic_shapes=shapes)
    other = copy.deepcopy(model)
    for _ in range(3):
        before = model.named, dict(model.named)
        for each in (model, other):
            each.named, each.listed = {}, [None, None]
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close(model.kept(), other.kept())
        assert len(model.named) == 1 and before[0] == before[1]
    model.named = None  # type: ignore[assignment]
    with pytest.raises(InputError, match="'named' was"):
        compiled(x)


@pytest.mark.parametrize("training", [False, True])
def test_a_list_to_which_each_call_adds(training: bool) -> None:
    model, x = Stores(lambda m, x: m.refilled.append(x.mean()) or m.linear(x)), torch.randn(4, 4)
    other = copy.deepcopy(model)
    with pytest.raises(CaptureError, match=r"changes 'refilled\[1\]', on which the next one depends"):
        fxc.compile(model, (x,), training=training)
    with pytest.warns(FallbackWarning, match=r"'refilled\[1\]'"):
        compiled = fxc.compile(model, (x,), training=training, options={"fallback": True})
    for new in (True, True, False, False):
        for each in (model, other):
            each.refilled = [] if new else each.refilled
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close(model.refilled, other.refilled)
