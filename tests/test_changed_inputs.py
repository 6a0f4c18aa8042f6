"""Objects, lists and dicts among the inputs: a call changes and returns them as the model does."""

from __future__ import annotations

import collections
import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError

X, PARTS = torch.tensor([[1.0], [2.0]]), {"fallback": True}


class Cache:
    def __init__(self, columns: int = 1) -> None:
        self.k, self.seen, self.device, self.kind = torch.ones(2, columns), 3, torch.device("cpu"), dict
        self.shape = torch.ones(2, 3).shape

    def grow(self, x: torch.Tensor) -> torch.Tensor:
        self.k = torch.cat([self.k, x], 1)
        return self.k


class Layered:
    def __init__(self, columns: int = 1, layers: int = 2) -> None:
        self.layers = [Cache(columns) for _ in range(layers)]

    def grow(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer.grow(x).sum()
        return x


@dataclass
class Pair:
    first: torch.Tensor
    second: Any = 3


class Layers(list[Any]):
    name = None


class Ring:
    def __init__(self) -> None:
        self.me, self.t = self, torch.ones(2, 1)


def grow(x: torch.Tensor, c: Any) -> Any:
    return c.grow(x).sum() + x, c


def in_place(x: torch.Tensor, c: Cache) -> torch.Tensor:
    c.k[:, :1] += x
    return c.k * 2


def read(x: torch.Tensor, p: Pair) -> torch.Tensor:
    return x * p.first + p.second


def attributes(x: torch.Tensor, c: Cache) -> dict[str, Any]:
    c.seen += 1
    c.more = Pair(x + 1, (x, Pair(x)))  # type: ignore[attr-defined]
    c.device, c.kind, c.shape = torch.device("meta"), Pair, x.shape  # type: ignore[assignment]
    del c.k
    return {"cache": c, "seen": c.seen}


def two(x: torch.Tensor, a: Cache, b: Cache) -> Any:
    a.k = a.k + x
    b.k = b.k * 2
    return a.k, b


def cross(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
    a.other, b.other = b, a
    return x + 1


def lists(x: torch.Tensor, values: Any) -> Any:
    values.append(x * 2)
    values[0] = values[0] + 1
    return values


def named(x: torch.Tensor, values: Any) -> Any:
    values["b"] = values.pop("a") + 1
    values["a"] = x
    return len(values), values["z"]


def subclass(x: torch.Tensor, values: Layers) -> Layers:
    values.append(x + 1)
    values.name = "n"  # type: ignore[assignment]
    return values


def ring(x: torch.Tensor, r: Ring) -> Ring:
    r.t = r.t + r.me.t * x
    return r


def alias(x: torch.Tensor, c: Cache) -> Cache:
    c.k, c.flat = x, x.view(-1)  # type: ignore[attr-defined]
    return c


def nested(x: torch.Tensor, values: dict[str, Any]) -> Any:
    return grow(x, values["c"][0])


def applied(x: torch.Tensor, module: Any) -> torch.Tensor:
    return module(x)


def added(x: torch.Tensor, value: Any) -> torch.Tensor:
    return x + value.a


CACHE = Cache()
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "grow": (grow, (X, Cache())),
    "in layers": (grow, (X, Layered())),
    "in place": (in_place, (X, Cache())),
    "dataclass": (read, (X, Pair(X + 1))),
    "attributes": (attributes, (X, Cache())),
    "two objects": (two, (X, Cache(), Cache())),
    "one object twice": (two, (X, CACHE, CACHE)),
    "objects that hold each other": (cross, (X, Cache(), Pair(X))),
    "list": (lists, (X, [X, X + 1])),
    "deque": (lists, (X, collections.deque([X, X + 1], maxlen=2))),
    "dict": (named, (X, {"a": X + 1, "z": X})),
    "ordered dict": (named, (X, collections.OrderedDict(a=X + 1, z=X))),
    "default dict": (named, (X, collections.defaultdict(list, a=X + 1, z=X))),
    "subclass of list": (subclass, (X, Layers([X]))),
    "holds itself": (ring, (X, Ring())),
    "alias": (alias, (X, Cache())),
    "in a dict": (nested, (X, {"c": (Cache(),)})),
}


def outline(value: Any, seen: dict[int, int] | None = None) -> Any:
    """``value`` as a tree of builtins, in which an object that is there twice is a number."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, (int, float, str, type, type(None), torch.device)):
        return value
    if id(value) in seen:
        return "seen", seen[id(value)]
    seen[id(value)] = len(seen)
    named: dict[str, Any] = getattr(value, "__dict__", {})
    items: list[Any] = [*value.items()] if hasattr(value, "items") else [*enumerate(value)] if hasattr(value, "__len__") else []
    return type(value), *([(key, outline(each, seen)) for key, each in pairs] for pairs in (items, sorted(named.items())))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_call_changes_its_inputs_as_the_model_does(name: str, training: bool) -> None:
    model, args = CASES[name]
    before, expected, given = outline(args), copy.deepcopy(args), copy.deepcopy(args)
    compiled = fxc.compile(model, args, training=training)
    assert outline(args) == before, "the example is not changed"
    assert outline((model(*expected), expected)) == outline((compiled(*given), given))
    assert compiled.plan.signature.returned or name == "dataclass" or not training


def test_gradients_of_what_a_call_writes() -> None:
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    given, expected = Cache(), Cache()
    fxc.compile(grow, (x, Cache()), training=True)(x, given)
    grow(y, expected)
    given.k.square().sum().backward()
    expected.k.square().sum().backward()
    assert x.grad is not None and y.grad is not None and x.grad.equal(y.grad)


def test_a_cache_grows_under_one_plan() -> None:
    layer = {"k": {1: Dim.AUTO}}
    compiled = fxc.compile(grow, (X, Layered(2)), dynamic_shapes={"x": None, "c": {"layers": [layer, layer]}})
    given, expected = Layered(), Layered()
    for _ in range(4):
        assert outline(compiled(X, given)) == outline(grow(X, expected)) and outline(given) == outline(expected)
    with pytest.raises(
        CaptureError, match=r"dynamic_shapes names 'key' of c.layers\[0\](?s:.*)hint: its attributes: device, k"
    ):
        fxc.compile(grow, (X, Layered()), dynamic_shapes={"x": None, "c": {"layers": [{"key": {1: Dim.AUTO}}, None]}})


def test_a_cache_grows_under_recompile() -> None:
    compiled = fxc.compile(grow, (X, Cache()), options={"recompile": True})
    given, expected = Cache(), Cache()
    for _ in range(3):
        assert outline(compiled(X, given)) == outline(grow(X, expected)) and outline(given) == outline(expected)
    assert compiled.stats.size == 3
    compiled(X, Cache(2))
    assert compiled.stats.size == 3


def test_saved_plans_change_their_inputs(tmp_path: Path) -> None:
    compiled, expected = fxc.compile(grow, (X, Layered())), Layered()
    grow(X, expected)
    assert isinstance(compiled.plan, fxc.ExecutionPlan)
    compiled.plan.save(tmp_path / "plan")
    loaded = [fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=trust) for trust in (False, True)]
    for plan in (*loaded, pickle.loads(pickle.dumps(compiled)), copy.deepcopy(compiled)):
        plan(X, given := Layered())
        assert outline(given) == outline(expected)


def changed(change: Callable[[Layered], Any]) -> Layered:
    made = Layered()
    change(made)
    return made


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "length": (lambda: Layered(2), r"input c__layers_0__k has shape \(2, 2\), but \(2, 1\) is expected(?s:.*)dynamic_shapes"),
    "layers": (
        lambda: Layered(1, 3),
        r"input 1.layers is nested otherwise .*: a list of 3, expected a list of 2",
    ),
    "class": (Cache, r"input 1 is nested otherwise(?s:.*): a \S*Cache, expected a \S*Layered"),
    "number": (lambda: changed(lambda c: setattr(c.layers[1], "seen", 4)), "input c__layers_1__seen is 4, but 3 was baked in"),
    "attribute": (lambda: changed(lambda c: setattr(c, "more", 4)), "input 1 is nested otherwise .*'layers', 'more', expected"),
    "device": (
        lambda: changed(lambda c: setattr(c.layers[1], "device", torch.device("meta"))),
        r"input 1.layers\[1\].device is nested otherwise .*: torch.device:meta, expected torch.device:cpu",
    ),
    "sharing": (
        lambda: changed(lambda c: c.layers.__setitem__(1, c.layers[0])),
        r"input 1.layers\[1\] is nested otherwise .*: an object given before \(number 2\), expected a \S*Cache",
    ),
    "no object": (lambda: 3, r"input 1 is nested otherwise .*: a single value, expected a \S*Layered"),
}


@pytest.fixture(scope="module")
def compiled() -> Any:
    return fxc.compile(grow, (X, Layered()))


@pytest.mark.parametrize("name", OTHERS)
def test_an_object_of_another_structure_is_an_error(name: str, compiled: Any) -> None:
    make, message = OTHERS[name]
    with pytest.raises(InputError, match=message):
        compiled(X, make())


def test_a_list_given_twice_is_refused_where_the_model_changes_it() -> None:
    def both(x: torch.Tensor, a: list[Any], b: list[Any]) -> torch.Tensor:
        a.append(x)
        b.append(x)
        return x + len(a)

    compiled, values = fxc.compile(both, (X, [X], [X])), [X]
    with pytest.raises(InputError, match="a list or dict is given twice"):
        compiled(X, values, values)
    with pytest.warns(FallbackWarning, match="changes an input, a list, which is given twice"):
        compiled = fxc.compile(both, (X, values, values), options=PARTS)
    assert compiled(X, values, values).equal(X + 3) and len(values) == 3


def calls(x: torch.Tensor, value: Any) -> torch.Tensor:
    value.second = value.first(x)
    return value.second


def test_inputs_that_hold_functions_and_modules_run_in_parts() -> None:
    module = torch.nn.Linear(1, 1)
    with pytest.warns(FallbackWarning, match=r"input 1.first is a torch.nn.modules.linear.Linear"):
        compiled = fxc.compile(calls, (X, Pair(module)), options=PARTS)  # type: ignore[arg-type]
    module.weight = torch.nn.Parameter(torch.zeros(1, 1))
    compiled(X, pair := Pair(module))  # type: ignore[arg-type]
    assert pair.second.equal(module(X))
    with pytest.warns(FallbackWarning, match=r"input 1 is a torch.nn.modules.linear.Linear"):
        compiled = fxc.compile(applied, (X, module), options=PARTS)
    module.weight = torch.nn.Parameter(torch.ones(1, 1))
    assert compiled(X, module).equal(module(X))


def test_an_input_that_the_model_holds_is_refused() -> None:
    class Holding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache = Cache()

        def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
            return x * 2 if cache is self.cache else cache.grow(x)

    model = Holding()
    with pytest.raises(CaptureError, match="a Cache, is also an attribute or variable of the model"):
        fxc.compile(model, (X, model.cache))
    assert fxc.compile(model, (X, Cache()))(X, Cache()).shape == (2, 2)


@dataclass
class Registered:
    a: torch.Tensor


def test_registered_classes_run_in_parts_where_the_model_changes_them() -> None:
    torch.export.register_dataclass(Registered, serialized_type_name="tests.Registered")

    def write(x: torch.Tensor, value: Registered) -> torch.Tensor:
        value.a = x * 2
        return value.a + 1

    with pytest.warns(FallbackWarning, match="of a class that is registered in PyTorch's pytree"):
        compiled = fxc.compile(write, (X, Registered(X)), options=PARTS)
    compiled(X, value := Registered(X))
    assert value.a.equal(X * 2)
    assert fxc.compile(added, (X, Registered(X)))(X, value).equal(X * 3)


@pytest.mark.parametrize("route", ["dynamo", "symbolic_trace"])
def test_routes_that_take_no_objects_say_so(route: str) -> None:
    with pytest.raises(CaptureError, match=f"route '{route}' takes no objects(?s:.*)hint: use route='export'"):
        fxc.capture(grow, (X, Cache()), route=route)


def test_lists_by_other_routes() -> None:
    with pytest.raises(CaptureError, match="changes a list or dict among its inputs"):
        fxc.capture(lists, (X, [X]), route="dynamo")
    program = fxc.capture(lists, (X, [X]), route="make_fx")
    assert "fx.returns" in program.main.attributes
