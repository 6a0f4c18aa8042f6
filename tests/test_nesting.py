"""Named tuples and objects among inputs and outputs: as in the model, in text and in files."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._pytree import tree_structure, treespec_dumps
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser

import fxc
from fxc.bridge.instances import Instance, register_instances
from fxc.bridge.nesting import nesting_attr, spec_of
from fxc.errors import CaptureError, FxcError, InputError
from fxc.program.program import new_context

HOST: dict[str, Any] = {"target": "host"}


class Found(NamedTuple):
    values: Any
    extra: Any = None


class Sharper(Found):
    pass


Empty = namedtuple("Empty", [])


def local_class() -> Any:
    return namedtuple("Inner", ["first", "second"])


Local = local_class()

NESTS: dict[str, Any] = {
    "named": Found(0, 1),
    "deep": [Found((0, {"a": Found(1, [2])}), 3), (4,)],
    "empty": (Empty(), 0),
    "subclass": Sharper(0, (1, 2)),
    "of a function": Local(0, Local(1, 2)),
    "of PyTorch": (torch.ones(2, 2).max(0), 3),
    "plain": ((0, 1), {"a": [2]}),
    "ordered": OrderedDict(b=0, a=1),
}


@pytest.mark.parametrize("name", NESTS)
def test_text(name: str) -> None:
    spec = tree_structure(NESTS[name])
    attribute = nesting_attr(spec)
    assert spec_of(attribute) == spec
    read = Parser(new_context(), str(attribute)).parse_attribute()
    assert read == attribute and spec_of(read) == spec


def test_the_text_can_be_read() -> None:
    attribute = nesting_attr(tree_structure((Found(0, (1, 2)), torch.ones(2, 2).max(0))))
    assert str(attribute) == (
        f'#fx.nesting<((_, (_, _)), (_, _)), named = ["", "{__name__}.Found", "", "torch.return_types.max"]>'
    )
    assert str(nesting_attr(tree_structure((0, [1])))) == "#fx.nesting<(_, [_])>"


def model(found: Found) -> Any:
    return Found(found.values.sin(), {"best": found.values.max(0), "pair": (found.extra, found.values + 1)})


@pytest.mark.parametrize("training", [False, True])
def test_compiled_functions_take_and_return_them(training: bool) -> None:
    x = torch.randn(3, 4, requires_grad=training)
    given = Found(x, torch.ones(2))
    compiled = fxc.compile(model, (given,), training=training, options=HOST)
    mine, theirs = compiled(given), model(given)
    assert type(mine) is Found and type(mine.extra["best"]) is torch.return_types.max and type(mine.extra["pair"]) is tuple
    torch.testing.assert_close(mine.values, theirs.values)
    torch.testing.assert_close(tuple(mine.extra["best"]), tuple(theirs.extra["best"]))
    if training:
        [actual], [expected] = (torch.autograd.grad(each.values.sum(), x) for each in (mine, theirs))
        torch.testing.assert_close(actual, expected)
    with pytest.raises(InputError, match="nested otherwise"):
        compiled((x, torch.ones(2)))


@pytest.mark.slow
def test_saved_plans_keep_them(tmp_path: Path) -> None:
    given = Found(torch.randn(3, 4), torch.ones(2))
    with torch.no_grad():
        fxc.compile(model, (given,), options=HOST).plan.save(tmp_path / "plan")
        loaded = fxc.ExecutionPlan.load(tmp_path / "plan")
        assert type(loaded(given)) is Found
    code = (
        "import sys, fxc\n"
        "try: fxc.ExecutionPlan.load(sys.argv[1])\n"
        "except fxc.errors.FxcError as error: print(error)\n"
        "print(sys.argv[2] in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plan"), __name__], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "Found is not a class of 2 named elements that is imported in this process" in ran.stdout
    assert ran.stdout.endswith("False\n")


@pytest.mark.parametrize("name", ["os.system", "builtins.tuple", "torch.return_types.median_", "nowhere.At", "x", "__main__"])
def test_other_names_are_refused(name: str) -> None:
    attribute = Parser(new_context(), f'#fx.nesting<(_, _), named = ["{name}"]>').parse_attribute()
    with pytest.raises(FxcError, match="is not a class of 2 named elements"):
        spec_of(attribute)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(FxcError, match="cannot be written"):
        nesting_attr(tree_structure(OrderedDict(a=Found(0, 1))))


@dataclass
class Pair:
    first: Any
    second: Any


@dataclass
class Registered(Pair):
    pass


@dataclass
class Unnamed(Pair):
    pass


class Holder:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


torch.export.register_dataclass(Registered, serialized_type_name=f"{__name__}.Registered")
torch.export.register_dataclass(Unnamed)


class Row(list[Any]):
    pass


class Table(dict[str, Any]):
    pass


class Two(tuple[Any, ...]):
    __slots__ = ()


class Layer:
    def __init__(self, keys: torch.Tensor) -> None:
        self.keys, self.dtype, self.device, self.made_by = keys, keys.dtype, keys.device, Pair


class Cache(Table):
    """Items, attributes, and objects in a list among them."""

    def __init__(self, x: torch.Tensor) -> None:
        super().__init__(x=x + 1)
        self.layers = [Layer(x * 2), Layer(x * 3)]
        self.is_updated, self.length = {0: True}, len(x)


def _local_holder() -> type[Holder]:
    class Local(Holder):
        pass

    return Local


LOCAL = _local_holder()

INSTANCES: dict[str, Callable[[torch.Tensor], Any]] = {
    "dataclass": lambda x: Pair(x + 1, None),
    "nested": lambda x: (x, [Holder(x + 1)]),
    "list": lambda x: Row([x * 2]),
    "dict": lambda x: [Table(a=x * 2)],
    "cache": lambda x: Registered(Pair(Cache(x), x.max()), "text"),
    "local": lambda x: LOCAL(x + 1),
}


def _contents(value: Any) -> Any:
    """The classes, attributes and items of objects, with tensors as lists."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    attributes = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    parts = [(key, _contents(each)) for key, each in (*items, *attributes.items())]
    return type(value).__name__, parts or value


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", INSTANCES)
def test_objects_of_user_classes_are_made_in_each_call(name: str, training: bool, tmp_path: Path) -> None:
    model, x, y = INSTANCES[name], torch.randn(3), torch.randn(3)
    compiled = fxc.compile(model, (x,), training=training)
    result, expected = compiled(y), model(y)
    assert _contents(result) == _contents(expected) and compiled(y) is not result
    compiled.plan.save(path := tmp_path / "plan")
    if name != "local":  # a class that an import finds
        assert _contents(fxc.ExecutionPlan.load(path)(y)) == _contents(expected)


@pytest.mark.slow
def test_objects_by_other_routes() -> None:
    x = torch.randn(3)
    for route in ("dynamo", "make_fx"):
        program = fxc.capture(INSTANCES["dataclass"], (x,), route=route)
        assert fxc.to_fx(program)(x).first.equal(x + 1)


def test_a_file_makes_objects_only_of_classes_that_run_no_code() -> None:
    class Closing(Holder):
        def __del__(self) -> None:
            raise AssertionError("a file ran code")

    register_instances()
    for kind in (Closing, dict, type):
        spec = tree_structure(Instance(f"{kind.__module__}.{kind.__qualname__}", [{"x": 1}]))
        with pytest.raises(FxcError, match=r"cannot be read.*is not a class"):
            spec_of(StringAttr(treespec_dumps(spec)))


class Stored(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = Holder(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> Holder:
        self.cache.x = x + 1
        return self.cache


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "set": lambda x: (x, {1, 2}),
    "Two": lambda x: Two((x * 2,)),
    "builtin_function_or_method": lambda x: (x * 2, torch.relu),
    "Holder": Stored(),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_other_objects_are_refused(name: str, training: bool) -> None:
    with pytest.raises(CaptureError, match=f"the model returns a {name}, and(?s:.*)hint: return these, make the object"):
        fxc.compile(REFUSED[name], (torch.randn(3),), training=training)


def test_tuples_as_keys_are_refused() -> None:
    with pytest.raises(CaptureError, match="nesting of inputs or outputs cannot be written"):
        fxc.compile(lambda x: {(1, 2): x * 2}, (torch.randn(3),))


@pytest.mark.parametrize("training", [False, True])
def test_registered_dataclasses(training: bool) -> None:
    x, y = torch.randn(3), torch.randn(3)
    compiled = fxc.compile(lambda pair: [Registered(pair.first + 1, pair.second)], (Registered(x, 3),), training=training)
    [result] = compiled(Registered(y, 3))
    assert type(result) is Registered and torch.equal(result.first, y + 1) and result.second == 3
    with pytest.raises(CaptureError, match="serialized_type_name"):
        fxc.compile(lambda x: Unnamed(x + 1, x * 2), (x,), training=training)
