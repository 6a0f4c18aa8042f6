"""AOTAutograd's cache with graphs of fxc: what is found again, what is not, and what is not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters

import fxc
from fxc import aot_cache
from fxc.artifact import cache


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    monkeypatch.setenv("FXC_CACHE_PLANS", "1")
    yield
    torch.compiler.reset()


class Net(nn.Module):
    """Writes buffers, and takes random numbers."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(nn.functional.dropout(self.first(x), 0.3, self.training))))


def counted(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, str]:
    """The result of ``function`` compiled as in a new process, and whether its graph was found, missed or not looked up."""
    torch.compiler.reset()
    counters.clear()
    result = torch.compile(function, backend="fxc", fullgraph=True, options=options)(*args)
    found = [name for name in ("hit", "guard_miss", "miss", "bypass") if counters["aot_autograd"][f"autograd_cache_{name}"]]
    return result, " ".join(found) + " saved" * bool(counters["aot_autograd"]["autograd_cache_saved"])


def step(model: nn.Module, x: Tensor, call: Callable[[nn.Module], Any]) -> tuple[list[Tensor], Any]:
    """Result, gradients and buffers after a step."""
    torch.manual_seed(3)
    result, more = call(model)
    result.square().sum().backward()
    assert x.grad is not None
    found = [result.detach(), x.grad.clone(), *(cast(Tensor, weight.grad) for weight in model.parameters()), *model.buffers()]
    x.grad = None
    return found, more


def net(width: int = 8) -> Net:
    torch.manual_seed(0)
    return Net(width).train()


@pytest.mark.slow
def test_a_step_is_found_with_its_writes_and_random_numbers() -> None:
    x = torch.randn(5, 4, requires_grad=True)
    expected, _ = step(net(), x, lambda model: (model(x), None))
    for how in ("miss saved", "hit"):
        found, counts = step(net(), x, lambda model: counted(model, x))
        assert counts == how
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_compiled_autograd_that_is_switched_on_later() -> None:
    """It copies the operators of a backward that was compiled, or found in the cache, before."""
    x = torch.randn(5, 4, requires_grad=True)
    expected, _ = step(net(), x, lambda model: (model(x), None))
    for how in ("miss saved", "hit"):
        with ExitStack() as later:

            def call(model: nn.Module) -> Any:
                found = counted(model, x)
                later.enter_context(compiled_autograd._enable(partial(torch.compile, backend="fxc")))
                return found

            found, counts = step(net(), x, call)
        assert counts == how and counters["compiled_autograd"]["captures"] == 1
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_inference_is_found() -> None:
    model, x = net().eval(), torch.randn(5, 4)
    with torch.no_grad():
        for how in ("miss saved", "hit"):
            result, counts = counted(model, x)
            assert counts == how
            torch.testing.assert_close(result, model(x))


def test_numbers_that_are_written_are_found() -> None:
    """Each is a tensor of the graph; the other one has another key."""

    def written(number: float) -> Callable[[Tensor], Tensor]:
        def function(x: Tensor) -> Tensor:
            y = x.double()
            y[0] = number
            return y

        return function

    x = torch.randn(5, 4, requires_grad=True)
    for how in ("miss saved", "hit"):
        for function in (written(1.5), written(2.5)):
            result, counts = counted(function, x)
            assert counts == how
            torch.testing.assert_close(result, function(x))
            [found], [expected] = (torch.autograd.grad(y.sum(), x) for y in (result, function(x)))
            torch.testing.assert_close(found, expected)


def relu(x: Tensor) -> Tensor:
    return torch.relu(x) * 2


def thrice(x: Tensor) -> Tensor:
    return torch.relu(x) * 3


@pytest.mark.slow
def test_what_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    x, again = torch.randn(5, 4, requires_grad=True), cast(dict[str, Any], {})
    exec(compile("\n\n\n" + "def relu(x):\n    return x.relu() * 2\n", "lower.py", "exec"), {}, again)
    assert counted(relu, x)[1] == "miss saved"
    for options in ({"memory_budget": 0.5}, {"target": "cpu:avx2"}, {"autotune": True}):
        assert counted(relu, x, **options)[1].startswith("miss")
    assert counted(thrice, x)[1] == "miss saved"
    assert counted(again["relu"], x)[1] == "miss saved"
    assert counted(relu, torch.randn(6, 4, requires_grad=True))[1] == "miss saved"
    for width in (8, 9):
        assert counted(nn.Sequential(nn.Linear(4, width), nn.GELU()), x)[1] == "miss saved"
    with torch.no_grad():
        assert counted(relu, x)[1] == "miss saved"
    assert counted(relu, x)[1] == "hit"
    source = cache._source()
    assert source is not None
    monkeypatch.setattr(cache, "_source", lambda: f"{source} of the next version")
    assert counted(relu, x)[1] == "miss saved"
    monkeypatch.setattr(cache, "_source", lambda: None)  # edited
    assert counted(relu, x)[1] == ""


def test_lines_of_the_source_are_in_the_key() -> None:
    x, functions = torch.randn(3), list[Callable[..., Any]]()
    for lines in (1, 2):
        scope = dict[str, Any]({"torch": torch})
        exec(compile("\n" * lines + "def f(x):\n    return torch.sin(x) + 1\n", "model.py", "exec"), scope)
        functions.append(scope["f"])
    assert [counted(each, x)[1] for each in (*functions, *functions)] == ["miss saved", "miss saved", "hit", "hit"]


def test_what_is_not_looked_up() -> None:
    x = torch.randn(5, 4)
    for options in ({"freeze": True}, {"timing": True}, {"strict": True}, {"cache_plans": False}, {"target": None}):
        with torch.no_grad():
            assert counted(relu, x, **options)[1] == "", options
    with fxc.register_pattern(lambda x: x.sinh().cosh(), lambda x: x.cosh().sinh(), [x], try_out=False):
        assert counted(relu, x)[1] == ""


def test_an_operator_of_the_user_is_compiled_each_time() -> None:
    with torch.library._scoped_library("aot_cache_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
        for _ in range(2):
            assert counted(lambda: torch.ops.aot_cache_test.twice(torch.ones(5)) + 1)[1] == ""


@pytest.mark.parametrize("name", ["weight", "inner.weight"])
def test_a_graph_with_a_constant_is_compiled_each_time(name: str) -> None:
    """Its numbers are not in the key, however deep it lies."""
    graph = torch.fx.Graph()
    graph.output(graph.get_attr(name))
    root = nn.Module()
    root.inner, root.weight = nn.Linear(2, 2), nn.Parameter(torch.ones(2))
    assert not aot_cache._is_in_text(torch.fx.GraphModule(root, graph), ())


def test_graphs_of_dynamic_sizes_are_traced_each_time() -> None:
    for rows in (20, 30):
        x = torch.randn(rows, 6, requires_grad=True)
        torch._dynamo.mark_dynamic(x, 0)
        result, how = counted(relu, x)
        assert how == ""
        torch.testing.assert_close(result, relu(x))


def test_shared_memory_of_a_graph_that_was_found() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x.add_(1) + y

    for how in ("miss saved", "hit"):
        x, y = torch.ones(4), torch.ones(4)
        assert counted(function, x, y)[1] == how
        compiled, both = torch.compile(function, backend="fxc"), torch.ones(6)
        torch.testing.assert_close(compiled(x, y), torch.full((4,), 4.0))
        torch.testing.assert_close(compiled(both[:4], both[1:5]), torch.tensor([4.0, 4.0, 4.0, 3.0]))


def test_a_damaged_entry_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 4)
    assert counted(relu, x)[1] == "miss saved"
    monkeypatch.delattr(cache, "unpack_ready")
    result, how = counted(relu, x)
    assert how.startswith("bypass")
    torch.testing.assert_close(result, relu(x))


FLOATS: dict[str, Callable[[Tensor, float], Any]] = {
    "full": lambda x, k: (x * k, torch.full((2,), k)),
    "alpha": lambda x, k: torch.add(x, x, alpha=k) + k,
    "norm": lambda x, k: torch.norm(x, k) * k,
    "elu": lambda x, k: nn.functional.elu(x, k) * k,
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_that_changes_is_no_part_of_an_entry(name: str) -> None:
    """AOTAutograd compiles in what it was, without a guard of the entry: a later process would find that."""
    function, x = FLOATS[name], torch.tensor([0.3, -1.0, 2.0])
    for numbers in ((1.5, 7.0), (5.0, 4.0, 3.0)):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="fxc")
        for number in numbers:
            torch.testing.assert_close(compiled(x, number), function(x, number))
