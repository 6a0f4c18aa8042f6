"""State that a model keeps between calls, wherever it lies, is refused and put back; caches hold no tensors of a capture."""

from __future__ import annotations

import array
import contextvars
import copy
import functools
import itertools
import sys
import threading
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch
from torch import nn

import fxc
from fxc.errors import CaptureError, InputError
from fxc.frontends.state_reads import StateReads


class Slots:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Counted:
    n = 0

    def __call__(self) -> int:
        self.n += 1
        return self.n


class Makes(OrderedDict[str, Any]):
    """Its items are what its entries make."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()

    def update(self, *_: Any, **__: Any) -> None:
        raise AssertionError


class Registry:
    numbers: ClassVar[dict[str, int]] = {}

    @classmethod
    def next(cls) -> int:
        cls.numbers["n"] = cls.numbers.get("n", 0) + 1
        return cls.numbers["n"]


class Global:
    n = 0


LOCAL, VARIABLE = threading.local(), contextvars.ContextVar("variable", default=0)
LOCAL.n = 0


def named() -> None:
    """A function with an attribute."""


def count(owner: Any, name: str = "n") -> int:
    setattr(owner, name, getattr(owner, name, 0) + 1)
    return getattr(owner, name)


def counted(items: Any, key: Any) -> int:
    items[key] += 1
    return int(items[key])


def of_variable() -> int:
    VARIABLE.set(VARIABLE.get() + 1)
    return VARIABLE.get()


def of_class() -> int:
    Global.n += 1
    return Global.n


def appended(items: Any) -> int:
    items.append(0)
    return len(items)


def numbers() -> Iterator[int]:
    n = 0
    while True:
        n += 1
        yield n


class Keeps(nn.Module):
    def __init__(self, held: Any, number: Callable[[Any], Any]) -> None:
        super().__init__()
        self.held, self.number = held, number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.number(self.held)


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "namespace": (lambda: SimpleNamespace(n=0), count),
    "arguments": (lambda: Namespace(n=0), count),
    "slots": (Slots, count),
    "deep": (lambda: SimpleNamespace(a=SimpleNamespace(b=[SimpleNamespace(n=0)])), lambda held: count(held.a.b[0])),
    "list of objects": (lambda: [Counted()], lambda held: held[0]()),
    "dict of objects": (lambda: {"a": Counted()}, lambda held: held["a"]()),
    "deque": (deque, appended),
    "ordered": (lambda: OrderedDict(n=0), lambda held: counted(held, "n")),
    "counter": (Counter, lambda held: counted(held, "n")),
    "defaults": (lambda: defaultdict(int), lambda held: counted(held, "n")),
    "made": (lambda: Makes(n=lambda: 1), lambda held: (held.__setitem__(str(len(held)), int), len(held))[1] - held["n"]),
    "numpy": (lambda: np.zeros(1), lambda held: counted(held, 0)),
    "array": (lambda: array.array("i", [0]), lambda held: counted(held, 0)),
    "bytes": (lambda: bytearray(1), lambda held: counted(held, 0)),
    "partial": (lambda: functools.partial(Counted()), lambda held: held()),
    "bound": (lambda: Counted().__call__, lambda held: held()),
    "weak": (lambda: WeakKeyDictionary({Counted: 0}), lambda held: counted(held, Counted)),
    "count": (itertools.count, next),
    "iterator": (lambda: iter(range(1, 100)), next),
    "generator": (numbers, next),
    "thread": (lambda: None, lambda held: count(LOCAL)),
    "variable": (lambda: None, lambda held: of_variable()),
    "class": (lambda: None, lambda held: of_class()),
    "class method": (lambda: None, lambda held: Registry.next()),
    "function": (lambda: None, lambda held: count(named)),
}
FORWARD_ONLY = ("count", "iterator", "generator")
"""Iterators, which cannot be put back."""


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_model_keeps_is_refused_and_put_back(kind: str, training: bool) -> None:
    make, number = KINDS[kind]
    model, x = Keeps(make(), number), torch.ones(2)
    with pytest.raises(CaptureError, match=r"a call of the model changes .*, on which the next one depends"):
        fxc.compile(model, (x,), training=training, options={"fallback": True})
    assert kind in FORWARD_ONLY or model.held is None or model(x).tolist() == [1, 1]


steps = 0


def advanced() -> int:
    global steps
    steps += 1
    return steps


def test_globals_of_a_file_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for held in (Global, LOCAL, named):
        monkeypatch.setattr(held, "n", 5, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "steps", 5)
    monkeypatch.setattr(Registry, "numbers", {"n": 5})
    VARIABLE.set(5)
    for number in (of_class, Registry.next, of_variable, advanced, lambda: count(LOCAL), lambda: count(named)):
        model = Keeps(number, lambda held: held())
        with pytest.raises(CaptureError, match="on which the next one depends"):
            fxc.compile(model, (torch.ones(2),))
        assert model(torch.ones(2)).tolist() == [6, 6]


@functools.lru_cache
def positions(count: int) -> torch.Tensor:
    return torch.arange(count)


FILLED: dict[int, torch.Tensor] = {}


def filled(count: int) -> torch.Tensor:
    if count not in FILLED:
        FILLED[count] = torch.arange(count)
    return FILLED[count]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("cached", [positions, filled])
def test_caches_hold_no_tensors_of_a_capture(cached: Callable[[int], torch.Tensor], training: bool) -> None:
    positions.cache_clear()
    FILLED.clear()
    model, x = Keeps(cached, lambda held: held(3)), torch.ones(3)
    for _ in range(2):
        compiled = fxc.compile(model, (x,), training=training)
        assert not FILLED and not positions.cache_info().currsize
        assert compiled(x).tolist() == [0, 1, 2]
    assert model(x).tolist() == [0, 1, 2]
    assert fxc.compile(model, (x,), training=training)(x).tolist() == [0, 1, 2]  # with a cache that eager mode filled


class Factor:
    value = 2


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * scaled.factor  # type: ignore[attr-defined]


CHANGED: dict[str, tuple[Callable[[Any], Any], Any, Callable[[Any], Any]]] = {
    "class": (lambda held: Factor.value, None, lambda held: setattr(Factor, "value", 3)),
    "namespace": (lambda held: held.a, Namespace(a=2), lambda held: setattr(held, "a", 3)),
    "deque": (lambda held: held[0], deque([2]), lambda held: held.__setitem__(0, 3)),
    "function": (lambda held: scaled(torch.ones(())), None, lambda held: setattr(scaled, "factor", 3)),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_what_changes_between_calls_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Factor, "value", 2)
    monkeypatch.setattr(scaled, "factor", 2, raising=False)
    number, held, change = CHANGED[kind]
    model, x = Keeps(copy.copy(held), number), torch.ones(2)
    compiled = fxc.compile(model, (x,))
    assert compiled(x).tolist() == [2, 2]
    change(model.held)
    with pytest.raises(InputError, match="was 2 when the model was compiled, and is 3"):
        compiled(x)


def test_state_that_a_hook_keeps_is_refused() -> None:
    model, kept = nn.Linear(2, 2), deque[torch.Tensor]()
    model.register_forward_hook(lambda module, args, result: kept.append(result))
    with pytest.raises(CaptureError, match=r"a call of the model changes 'kept\["):
        fxc.compile(model, (torch.ones(2),))
    assert not kept


class Chain(nn.Module):
    """Its call runs ``links[0].link0``, whose code names ``link1``, and so on."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.links, known = Links(), dict[str, Any](__name__=__name__)
        for i in range(length):
            exec(f"def link{i}(links, x):\n    return links.link{i + 1}(links, x)", known)
            setattr(self.links, f"link{i}", known[f"link{i}"])
        setattr(self.links, f"link{length}", lambda links, x: x + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.links.link0(self.links, x)


class Links:
    pass


def test_the_search_grows_linearly_with_the_names_that_lead_to_names(monkeypatch: pytest.MonkeyPatch) -> None:
    visits, search = list[str](), StateReads._function
    monkeypatch.setattr(StateReads, "_function", lambda self, function: (visits.append(""), search(self, function))[1])

    def count(length: int) -> int:
        visits.clear()
        model = Chain(length)
        reads = StateReads({"": model}, model, frozenset())
        assert reads.is_read(f"link{length}")
        return len(visits)

    assert count(80) < 2.2 * count(40)
