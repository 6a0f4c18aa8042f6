"""Models that keep something in Python from one call to the next: a program would do the same in each call."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fxc
from fxc.errors import CaptureError

COUNTS = {"calls": 0}


class Counter:
    def __init__(self) -> None:
        self.calls = 0


COUNTER = Counter()
CALLS = 0


class Keeps(nn.Module):
    """``step`` is its forward."""

    def __init__(self, step: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step, self.inner = step, nn.Identity()
        self.number, self.flag, self.cache, self.last = 0, False, None, torch.zeros(2)
        self.listed, self.named, self.nested = list[Any](), dict[str, Any](), {"a": [0]}
        self.inner.number = 0
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(self, x)


def number(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number += 1
    return x * m.number


def fraction(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number += 0.5
    return x * m.number


def flag(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.flag = not m.flag
    return x * 2 if m.flag else x


def listed(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.listed.append(x)
    return x * len(m.listed)


def named(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.named["k"] = m.named.get("k", 0) + 1
    return x * m.named["k"]


def nested(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.nested["a"][0] += 1
    return x * m.nested["a"][0]


def submodule(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.inner.number += 1
    return x * m.inner.number


def tensor(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.last = m.last + x
    return m.last * 1


def first_input(m: Any, x: torch.Tensor) -> torch.Tensor:
    if m.cache is None:
        m.cache = x.mean()
    return x - m.cache


def first_call(m: Any, x: torch.Tensor) -> torch.Tensor:
    if not m.flag:
        m.flag = True
        return x * 5
    return x


def unused_number(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number += 1
    return x * 2


KEPT: list[tuple[Callable[[Any, torch.Tensor], torch.Tensor], str]] = [
    (number, "'number'"),
    (fraction, "'number'"),
    (flag, "'flag'"),
    (listed, r"'listed\[1\]'"),
    (named, r"named\['k'\]"),
    (nested, r"nested\['a'\]\[0\]"),
    (submodule, "'inner.number'"),
    (tensor, "'last'"),
    (first_input, "'cache'"),
    (first_call, "'flag'"),
    (unused_number, "'number'"),
]


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize(("step", "name"), KEPT)
def test_what_the_next_call_depends_on_is_refused(
    step: Callable[[Any, torch.Tensor], torch.Tensor], name: str, keyword: bool
) -> None:
    model, x = Keeps(step), torch.ones(2)
    before = {key: repr(value) for key, value in vars(model).items()}
    args, kwargs = ((), {"x": x}) if keyword else ((x,), {})
    with pytest.raises(CaptureError, match=f"(?s)a call of the model changes .*{name}.*register_buffer.*torch.compile"):
        fxc.compile(model, args, kwargs)
    assert {key: repr(value) for key, value in vars(model).items()} == before


@pytest.mark.parametrize("step", [number, listed, tensor, first_call])
def test_the_backend_of_torch_compile_follows(step: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
    torch._dynamo.reset()
    model, other = Keeps(step), Keeps(step)
    compiled, x = torch.compile(model, backend="fxc"), torch.ones(2)
    torch.testing.assert_close([compiled(x) for _ in range(4)], [other(x) for _ in range(4)])


def by_global(x: torch.Tensor) -> torch.Tensor:
    COUNTS["calls"] += 1
    return x * COUNTS["calls"]


def by_object(x: torch.Tensor) -> torch.Tensor:
    COUNTER.calls += 1
    return x * COUNTER.calls


def by_variable(x: torch.Tensor) -> torch.Tensor:
    global CALLS
    CALLS += 1
    return x * CALLS


def outer_variable() -> Callable[[torch.Tensor], torch.Tensor]:
    calls = 0

    def run(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    return run


def closure() -> Callable[[torch.Tensor], torch.Tensor]:
    counter, seen = Counter(), list[int]()

    def run(x: torch.Tensor) -> torch.Tensor:
        counter.calls += 1
        seen.append(1)
        return x * counter.calls

    return run


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (by_variable, "'CALLS'"),
        (outer_variable(), "'calls'"),
        (by_global, r"COUNTS\['calls'\]"),
        (by_object, "'COUNTER.calls'"),
        (closure(), r"'counter.calls'|seen\[1\]"),
    ],
)
def test_what_is_kept_outside_of_modules(function: Callable[[torch.Tensor], torch.Tensor], name: str) -> None:
    with pytest.raises(CaptureError, match=name):
        fxc.compile(function, (torch.ones(2),))
    assert COUNTS == {"calls": 0} and COUNTER.calls == CALLS == 0


def of_a_function(m: Any, x: torch.Tensor) -> torch.Tensor:
    return by_global(x)


def of_a_method(m: Any, x: torch.Tensor) -> torch.Tensor:
    return m.counted(x)


def of_an_object(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.counter.calls += 1
    return x * 2


class Counts(Keeps):
    def __init__(self, step: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__(step)
        self.counter = Counter()

    def counted(self, x: torch.Tensor) -> torch.Tensor:
        return by_object(x)


@pytest.mark.parametrize(
    ("step", "name"),
    [(of_a_function, r"COUNTS\['calls'\]"), (of_a_method, "'COUNTER.calls'"), (of_an_object, "'counter.calls'")],
)
def test_what_functions_methods_and_objects_keep(step: Callable[[Any, torch.Tensor], torch.Tensor], name: str) -> None:
    model = Counts(step)
    with pytest.raises(CaptureError, match=name):
        fxc.compile(model, (torch.ones(2),))
    assert COUNTS == {"calls": 0} and COUNTER.calls == model.counter.calls == 0


@pytest.mark.parametrize("before", [False, True])
def test_what_hooks_keep(before: bool) -> None:
    """What a hook appends would be a fake tensor at the capture, and nothing in a call."""
    model, kept = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), list[torch.Tensor]()
    if before:
        model[0].register_forward_pre_hook(lambda module, args: kept.append(args[0]))
    else:
        model[0].register_forward_hook(lambda module, args, result: kept.append(result))
    with pytest.raises(CaptureError, match=r"kept\[1\]"):
        fxc.compile(model, (torch.ones(1, 2),))
    assert not kept


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.weight = self.scale.detach() * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def made_before_calls(module: Any, *_: Any) -> None:
    module.weight = module.scale * 3


def made_by_keywords(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    module.weight = module.scale * 3
    return args, kwargs


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("hook", [made_before_calls, made_by_keywords])
def test_what_a_hook_makes_is_made_in_each_call(hook: Any, inside: bool, training: bool) -> None:
    """The utilities ``weight_norm`` and ``spectral_norm`` work so."""
    scaled, x = Scaled(), torch.ones(2)
    scaled.register_forward_pre_hook(hook, with_kwargs=hook is made_by_keywords)
    model = torch.nn.Sequential(scaled) if inside else scaled
    compiled = fxc.compile(model, (x,), training=training)
    for factor in (1.0, 10.0):
        with torch.no_grad():
            scaled.scale.fill_(factor)
        result = compiled(x)
        assert torch.equal(result, x * factor * 3) and result.requires_grad == training


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("norm", [torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm])
def test_weights_that_hooks_make(norm: Any, evaluated: bool) -> None:
    torch.manual_seed(0)
    model, x = norm(torch.nn.Linear(4, 3)).train(not evaluated), torch.ones(1, 4)
    other = copy.deepcopy(model) if norm is torch.nn.utils.spectral_norm else model
    compiled = fxc.compile(other, (x,))
    for _ in range(2):
        for each in {*model.parameters(), *other.parameters()}:
            torch.nn.init.constant_(each, 0.25)
        torch.testing.assert_close(compiled(x), model(x).detach())


def built_once(m: Any, x: torch.Tensor) -> torch.Tensor:
    if m.cache is None:
        m.cache = torch.arange(2.0).cos()
    return x + m.cache


def built_for_a_size(m: Any, x: torch.Tensor) -> torch.Tensor:
    if m.number < x.shape[0]:
        m.number = x.shape[0]
        m.cache = SimpleNamespace(table=torch.arange(float(m.number)).cos())
    return x + m.cache.table[: x.shape[0]]


def by_key(m: Any, x: torch.Tensor) -> torch.Tensor:
    if x.shape not in m.named:
        m.named[x.shape] = torch.ones(x.shape).tril() if x.dim() > 1 else torch.ones(x.shape)
    return x * m.named[x.shape]


def left_behind(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.last, m.cache, m.number, m.listed = x * 2, x, x.shape[0], [x, x + 1]
    m.pair, m.nested, m.queue = (x, 1, [x]), {"a": (1, {2})}, deque([x])
    return m.last + m.listed[1]


def buffers(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.total = m.total + x
    m.number = 7
    return m.total * 1


def eager_by_numpy(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.number = 7
    return x * 2 if torch.compiler.is_compiling() else torch.from_numpy(x.numpy()) * 2


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("step", [eager_by_numpy, built_once, built_for_a_size, by_key, left_behind, buffers])
def test_what_changes_nothing_that_is_computed(step: Callable[[Any, torch.Tensor], torch.Tensor], keyword: bool) -> None:
    model, other, x = Keeps(step), Keeps(step), torch.randn(2)
    compiled = fxc.compile(model, (), {"x": x}) if keyword else fxc.compile(model, (x,))
    for _ in range(3):
        x = torch.randn(2)
        torch.testing.assert_close(compiled(x=x) if keyword else compiled(x), other(x))


total = 1
"""A global variable with the name of an attribute."""


def reads_an_attribute(m: Any, x: torch.Tensor) -> torch.Tensor:
    return x * m.total


def test_a_global_variable_with_the_name_of_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Keeps(reads_an_attribute), torch.randn(2)
    compiled = fxc.compile(model, (x,))
    monkeypatch.setattr(sys.modules[__name__], "total", 2)
    torch.testing.assert_close(compiled(x), Keeps(reads_an_attribute)(x))
