"""Plans by argument spec: which calls share a plan, which have one made, and which plan goes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

import fxc
from fxc.errors import CaptureError, InputError, PipelineError
from fxc.runtime.cache import ArgumentSpec, PlanCache
from fxc.runtime.inputs import OtherInput, TensorInput, same_constant
from fxc.runtime.plan import Plan
from fxc.runtime.signature import Signature

RECOMPILE = {"recompile": True}


class Made:
    """A stand-in for the compiler: plans that return the number of the plan, specialised to all that they are given."""

    def __init__(self) -> None:
        self.count = 0
        self.wait = 0.0

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
        time.sleep(self.wait)
        self.count += 1
        number = self.count
        inputs = list[TensorInput | OtherInput]()
        for i, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                strides = None if value.is_contiguous() else value.stride()
                dtype = str(value.dtype).removeprefix("torch.")
                inputs.append(TensorInput(f"a{i}", dtype, tuple(value.shape), str(value.device), strides))
            else:
                inputs.append(OtherInput(f"a{i}", ("a constant",), value))
        graph = torch.fx.Graph()
        for i in range(len(args)):
            graph.placeholder(f"a{i}")
        graph.output(number)
        return Plan(torch.fx.GraphModule(torch.nn.Module(), graph), Signature(tuple(inputs), None, {}), True)


def cache(capacity: int = 16, gradients: bool = False) -> tuple[PlanCache, Made]:
    made = Made()
    return PlanCache(capacity, made, gradients=gradients), made


def call(plans: PlanCache, *args: Any) -> int:
    return plans.plan_for(args, {}).run(args, {})


T = torch.ones(2, 3)


@pytest.mark.parametrize(
    "one, other",
    [
        (T, T.double()),
        (T, T.to("meta")),
        (T, T[0]),
        (T, T[:1]),
        (T, torch.ones(3, 2).t()),
        (T, None),
        (T, 1.0),
        (None, 0),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (0.0, False),
        (1.0, complex(1.0)),
        ("a", "b"),
        (torch.float32, torch.float64),
    ],
    ids=str,
)
def test_these_differ(one: Any, other: Any) -> None:
    plans, made = cache()
    assert [call(plans, a) for a in (one, other, one, other)] == [1, 2, 1, 2]
    assert made.count == 2


@pytest.mark.parametrize(
    "one, other", [(T, T + 1), (T, torch.nn.Parameter(T)), (float("nan"), -float("nan")), ("ab", "a" + "b")]
)
def test_these_do_not(one: Any, other: Any) -> None:
    if isinstance(one, float):
        other = one  # the sign of a nan is lost in its text; the same nan is the same constant
    plans, made = cache()
    assert call(plans, one) == call(plans, other) == made.count == 1


def test_constants() -> None:
    assert same_constant(float("nan"), float("nan")) and not same_constant(complex(0, 0.0), complex(0, -0.0))


def test_devices_of_one_kind_and_of_others() -> None:
    """A kind is not told by its index alone: ``cuda:0`` is neither ``xpu:0`` nor ``cuda:1`` nor the CPU."""

    class Elsewhere(torch.Tensor):
        place = torch.device("cuda:0")

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return self.place

        @property
        def is_cpu(self) -> bool:  # type: ignore[override]
            return False

    def at(place: str) -> torch.Tensor:
        tensor = torch.ones(2).as_subclass(Elsewhere)
        tensor.place = torch.device(place)
        return tensor

    def spec(place: str) -> ArgumentSpec:
        return ArgumentSpec(Signature((TensorInput("x", "float32", (2,), place),), None, {}), None)

    places = ["cuda:0", "cuda:1", "xpu:0", "mps:0"]
    for mine in places:
        assert [p for p in [*places, "cpu"] if spec(p).matches((at(mine),), {}, False)] == [mine]
    assert not spec("cuda:0").matches((torch.ones(2),), {}, False)


def test_gradients_and_grad_mode() -> None:
    plans, made = cache(gradients=True)
    wants, plain = torch.ones(2, requires_grad=True), torch.ones(2)
    with torch.no_grad():
        assert call(plans, wants) == call(plans, plain) == 1, "no gradient flows: it does not matter what is required"
    assert [call(plans, wants), call(plans, plain), call(plans, wants)] == [2, 3, 2]
    with torch.no_grad():
        assert call(plans, wants) == 1
    assert made.count == 3


def test_gradients_do_not_matter_to_plans_without_them() -> None:
    plans, made = cache(gradients=False)
    assert call(plans, torch.ones(2, requires_grad=True)) == call(plans, torch.ones(2)) == made.count == 1


def test_the_plan_used_longest_ago_goes() -> None:
    plans, _ = cache(capacity=2)
    a, b, c = (torch.ones(n) for n in (1, 2, 3))
    assert [call(plans, x) for x in (a, b, a, c)] == [1, 2, 1, 3], "c takes the place of b"
    assert [call(plans, x) for x in (a, c, b)] == [1, 3, 4]
    stats = plans.stats
    assert (stats.hits, stats.misses, stats.evictions, stats.size) == (3, 4, 2, 2)
    assert [plan.run((b,), {}) for plan in plans.plans] == [4, 3]
    assert len(plans.specs) == 2


def test_a_cache_holds_at_least_one_plan() -> None:
    with pytest.raises(PipelineError, match="cache_size is 0"):
        cache(capacity=0)
    with pytest.raises(PipelineError, match="cache_size is -1"):
        fxc.compile(torch.nn.Linear(2, 2), (torch.ones(2),), options={"recompile": True, "cache_size": -1})


def test_a_failed_compilation_leaves_nothing_behind() -> None:
    plans, made = cache()

    def fail(args: Any, kwargs: Any) -> Plan:
        raise CaptureError("no")

    plans.make = fail
    with pytest.raises(CaptureError):
        call(plans, T)
    plans.make = made
    assert call(plans, T) == 1 and plans.stats.size == 1


def in_threads(count: int, work: Any) -> None:
    start, errors = threading.Barrier(count), list[BaseException]()

    def run(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors


def test_threads_make_each_plan_once() -> None:
    plans, made = cache()
    made.wait = 0.01
    found: list[list[int]] = [[] for _ in range(8)]
    inputs = [torch.ones(n) for n in range(1, 5)]

    def work(i: int) -> None:
        for step in range(200):
            found[i].append(call(plans, inputs[(i + step) % 4]) * 10 + (i + step) % 4)

    in_threads(8, work)
    assert made.count == 4
    assert len({n for row in found for n in row}) == 4, "each input has one plan for all threads"
    stats = plans.stats
    assert (stats.misses, stats.hits, stats.evictions) == (4, 8 * 200 - 4, 0)


def test_threads_and_evictions() -> None:
    """More inputs than plans are held: every call still gets a plan of its own sizes."""
    plans, made = cache(capacity=2)
    inputs = [torch.ones(n) for n in range(1, 5)]

    def work(i: int) -> None:
        for step in range(100):
            x = inputs[(i * step) % 4]
            assert plans.plan_for((x,), {}).signature.inputs[0].sizes == tuple(x.shape)  # type: ignore[union-attr]

    in_threads(6, work)
    stats = plans.stats
    assert stats.size <= 2 and stats.hits + stats.misses == 600 and stats.misses == made.count == stats.evictions + stats.size


# fxc.compile


@pytest.fixture
def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)).eval()


def test_without_recompile_another_shape_is_refused(net: torch.nn.Module) -> None:
    compiled = fxc.compile(net, (torch.ones(2, 4),))
    with pytest.raises(InputError, match="option recompile"):
        compiled(torch.ones(3, 4))
    assert (compiled.stats.hits, compiled.stats.misses) == (0, 1) and len(compiled.plans) == 1


def test_recompile(net: torch.nn.Module) -> None:
    compiled = fxc.compile(net, (torch.ones(2, 4),), options=RECOMPILE)
    for rows in (2, 3, 2, 3):
        torch.testing.assert_close(compiled(torch.ones(rows, 4)), net(torch.ones(rows, 4)))
    torch.testing.assert_close(compiled(torch.ones(4)), net(torch.ones(4)))
    stats = compiled.stats
    assert (stats.misses, stats.hits, stats.size) == (3, 3, 3)
    assert [plan.stats.hits for plan in compiled.plans] == [1, 2, 2] and compiled.plan is compiled.plans[-1]
    assert all(plan.stats.misses == 1 for plan in compiled.plans)


def test_plans_share_the_models_parameters(net: torch.nn.Module) -> None:
    compiled = fxc.compile(net, (torch.ones(2, 4),), options=RECOMPILE)
    compiled(torch.ones(3, 4))
    weight = net[0].weight  # type: ignore[index]
    assert all(any(p is weight for p in plan.module.parameters()) for plan in compiled.plans)
    with torch.no_grad():
        weight.mul_(2)
    for rows in (2, 3):
        torch.testing.assert_close(compiled(torch.ones(rows, 4)), net(torch.ones(rows, 4)))


def test_the_model_stays_as_it_is(net: torch.nn.Module) -> None:
    before = {name: value.clone() for name, value in net.state_dict().items()}
    compiled = fxc.compile(net, (torch.ones(2, 4),), options=RECOMPILE)
    compiled(torch.ones(3, 4))
    assert not net.training and all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


def test_the_mode_is_that_of_compile(net: torch.nn.Module) -> None:
    """A plan that is made later drops nothing out either, and the model's own mode does not change."""
    expected = net(torch.ones(3, 4))
    compiled = fxc.compile(net, (torch.ones(2, 4),), options=RECOMPILE)
    net.train()
    net[0].eval()  # type: ignore[index]
    torch.testing.assert_close(compiled(torch.ones(3, 4)), expected)
    assert net.training and [m.training for m in net] == [False, True, True, True]  # type: ignore[attr-defined]


def test_sizes_that_are_free_share_a_plan(net: torch.nn.Module) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    compiled = fxc.compile(net, (torch.ones(2, 4),), dynamic_shapes=({0: batch},), options=RECOMPILE)
    for rows in (2, 3, 50):
        compiled(torch.ones(rows, 4))
    assert compiled.stats.misses == 1
    with pytest.raises(CaptureError):
        compiled(torch.ones(65, 4))  # no plan can be made for what dynamic_shapes forbid
    compiled(torch.ones(7, 4))
    assert compiled.stats.size == 1


def test_none_and_constants() -> None:
    def f(x: torch.Tensor, bias: torch.Tensor | None, mode: str = "add", times: float = 1.0) -> torch.Tensor:
        y = x if bias is None else x + bias
        return y * times if mode == "add" else y - times

    x = torch.randn(3)
    compiled = fxc.compile(f, (x, None), options=RECOMPILE)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, None), {}),
        ((x, x), {}),
        ((x, x), {"mode": "sub"}),
        ((x, x), {"mode": "sub", "times": 2.0}),
        ((x, x), {"times": 2.0, "mode": "sub"}),
        ((x, x, "sub", 2.0), {}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            torch.testing.assert_close(compiled(*args, **kwargs), f(*args, **kwargs))
    assert compiled.stats.misses == 5, "keywords in another order are the same call"


def test_training_and_no_grad(net: torch.nn.Module) -> None:
    compiled = fxc.compile(net, (torch.ones(2, 4),), training=True, options=RECOMPILE)
    assert compiled(torch.ones(2, 4)).requires_grad
    x = torch.ones(2, 4, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad is not None and net[0].weight.grad is not None  # type: ignore[index]
    with torch.no_grad():
        assert not compiled(x).requires_grad
    assert [plan.training for plan in compiled.plans] == [False, True, True]
    assert compiled(torch.ones(2, 4)).requires_grad and compiled.stats.size == 3


def test_threads_compile_and_call(net: torch.nn.Module) -> None:
    compiled = fxc.compile(net, (torch.ones(2, 4),), options=RECOMPILE)
    inputs = [torch.randn(rows, 4) for rows in (2, 3, 4)]
    expected = [net(x).detach() for x in inputs]

    def work(i: int) -> None:
        for step in range(30):
            n = (i + step) % 3
            torch.testing.assert_close(compiled(inputs[n]), expected[n])

    in_threads(4, work)
    stats = compiled.stats
    assert (stats.misses, stats.hits) == (3, 4 * 30 - 2)


def test_options_from_the_environment() -> None:
    options = fxc.Options.from_env({"FXC_RECOMPILE": "1", "FXC_CACHE_SIZE": "3"})
    assert (options.recompile, options.cache_size) == (True, 3)
    with pytest.raises(fxc.errors.FxcError, match="FXC_CACHE_SIZE is 'many'"):
        fxc.Options.from_env({"FXC_CACHE_SIZE": "many"})
