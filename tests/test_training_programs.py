"""Training in kernels: what autograd runs forward and backward are host programs, as right as graphs and with less memory."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

import fxc
from fxc.artifact import cache as program_cache
from fxc.compilation import passes
from fxc.runtime.autograd import DifferentiableSubgraph, HostSubgraph
from tests.fuzz.check import check
from tests.training_models import MODELS, assert_same, both, leaf, weigh

HOST = {"target": "host"}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def compiled_of(model: Any, *inputs: Tensor, **options: Any) -> fxc.Compiled:
    return fxc.compile(model, inputs, training=True, options={**HOST, **options})


def parts_of(compiled: fxc.Compiled) -> list[DifferentiableSubgraph]:
    return [module for module in compiled.plan.module.modules() if isinstance(module, DifferentiableSubgraph)]


def programs_of(compiled: fxc.Compiled) -> list[HostSubgraph]:
    """Forward and backward of each part."""
    found = [module for part in parts_of(compiled) for module in (part.f, *part.df.children())]  # type: ignore[union-attr]
    assert all(isinstance(module, HostSubgraph) for module in found)
    return found  # type: ignore[return-value]


def gated(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.tanh(x @ w) * torch.sigmoid(x @ w), -1)


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_eager(name: str) -> None:
    model, inputs = MODELS[name]()
    twin, compiled = copy.deepcopy(model), compiled_of(model, *inputs)

    def steps(call: Callable[..., Tensor]) -> list[Tensor]:
        optimizer = torch.optim.SGD((model if call is compiled else twin).parameters(), lr=0.05)
        losses = list[Tensor]()
        for _ in range(3):
            optimizer.zero_grad()
            loss = (weigh(call(*inputs)) + call(*inputs).square().mean()) * 1e-3
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    both(compiled, twin, steps)
    assert len(programs_of(compiled)) >= 2


def test_what_plans_say_of_them() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    compiled = compiled_of(gated, x, w)
    forward, backward = programs_of(compiled)
    stats = compiled.plan.stats
    assert stats.launches == forward.host.facts.launches + backward.host.facts.launches > 0
    assert stats.library_calls == forward.host.facts.library_calls + backward.host.facts.library_calls > 0
    assert 0 < stats.arena_bytes < stats.sum_bytes
    assert "kernel_0(" in forward.code and "args.clear()" not in forward.code
    assert "args.clear()" in backward.code and "\n    del " in backward.code.partition("args.clear()")[2]


@pytest.mark.slow
def test_arguments_of_backward_are_released_before_it_ends() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    [_, backward] = programs_of(compiled_of(gated, x, w))
    made, alive = backward.host.globals["aten_mm_out" if "aten_mm_out" in backward.host.globals else "aten_mm"], list[bool]()
    given = [torch.randn(item.sizes) for item in backward.signature.inputs]  # type: ignore[union-attr]
    argument = weakref.ref(given[0])

    def watched(*args: Any, **kwargs: Any) -> Any:
        gc.collect()
        alive.append(argument() is not None)
        return made(*args, **kwargs)

    names = backward.host.main.__globals__
    for name in [name for name, value in names.items() if value is made]:
        names[name] = watched
    arguments = [None] * (max(backward.used) + 1)
    for place, tensor in zip(backward.used, given):
        arguments[place] = tensor  # type: ignore[call-overload]
    del given, tensor
    backward(arguments)
    assert not arguments and alive and not alive[-1]


def test_backward_again_through_what_is_retained() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    compiled = compiled_of(gated, x, w)
    loss, expected = weigh(compiled(x, w)), torch.autograd.grad(weigh(gated(x, w)), (x, w))
    for _ in range(3):
        found = torch.autograd.grad(loss, (x, w), retain_graph=True)
        assert_close(found, expected)
        weigh(compiled(leaf(torch.randn(6, 8)), w)).backward()  # works in the same arenas
    assert_close(found, expected)
    assert_close(torch.autograd.grad(loss, (x, w)), expected)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_gradients_that_are_not_there() -> None:
    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(x @ w) * 2
        return torch.sigmoid(y) * x, y.exp() + w.sum()

    x, w = torch.randn(6, 8), torch.randn(8, 8)
    compiled = compiled_of(f, leaf(x), leaf(w))

    def run(call: Callable[..., Any]) -> list[Any]:
        found = list[Any]()
        for used in (0, 1):
            a, b = leaf(x), leaf(w)
            found += torch.autograd.grad(weigh(call(a, b)[used]), (a, b))
        a = leaf(x)
        return [*found, *torch.autograd.grad(weigh(call(a, w)[0]), a)]

    both(compiled, f, run)
    assert len(programs_of(compiled)) > 2


def test_gradients_of_one_row_after_another_are_added_in_place() -> None:
    model, (ids,) = MODELS["tied"]()
    twin, compiled = copy.deepcopy(model), compiled_of(model, ids)
    both(compiled, twin, lambda call: weigh(call(ids)).backward())
    assert_same(model, twin)
    code = "".join(program.code for program in programs_of(compiled))
    assert "index_add_(" in code and "embedding_dense_backward" not in code


def test_gradients_of_rows_of_which_the_number_is_free() -> None:
    def f(x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        rows = torch.sin(x)
        return torch.nn.functional.embedding(index, rows), rows

    def inputs(n: int, m: int) -> list[Tensor]:
        return [torch.linspace(-1, 1, n * m).view(n, m).requires_grad_(), torch.arange(3).view(1, 3) % n]

    check("dynamic", f, inputs, [(3, 6), (2, 4)])


def test_large_buffers_lie_in_no_arena() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(torch.tanh(x @ w) @ w, -1)

    x, w = leaf(torch.randn(2048, 256)), leaf(torch.randn(256, 256) * 0.1)
    compiled = compiled_of(f, x, w)
    assert compiled.plan.stats.arena_bytes <= 1 << 20 < compiled.plan.stats.peak_bytes
    assert_close(torch.autograd.grad(weigh(compiled(x, w)), w), torch.autograd.grad(weigh(f(x, w)), w), rtol=1e-4, atol=1e-4)


def test_batches_of_gradients() -> None:
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    compiled = compiled_of(gated, leaf(x), leaf(w))
    found, expected = (torch.autograd.functional.jacobian(call, (x, w), vectorize=True) for call in (compiled, gated))
    assert_close(found, expected)


def test_threads_have_arenas_of_their_own() -> None:
    w = torch.randn(8, 8)
    compiled = compiled_of(gated, leaf(torch.randn(6, 8)), leaf(w))

    def gradients(call: Callable[..., Tensor], x: Tensor) -> Any:
        a, b = leaf(x), leaf(w)
        return torch.autograd.grad(weigh(call(a, b)), (a, b))

    inputs = [torch.randn(6, 8) for _ in range(24)]
    with ThreadPoolExecutor(4) as pool:
        assert_close([*pool.map(lambda x: gradients(compiled, x), inputs)], [gradients(gated, x) for x in inputs])


def test_other_tensors_go_through_the_graph() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    compiled = compiled_of(gated, x, w)
    forward, _ = programs_of(compiled)
    turned = torch.randn(8, 6).t()
    assert_close(forward(turned, w.detach()), forward(turned.contiguous(), w.detach()))
    assert not forward._fits((turned, w.detach())) and forward._fits((turned.contiguous(), w.detach()))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        assert compiled(mode.from_tensor(x.detach()), mode.from_tensor(w.detach())).shape == (6, 8)


def test_a_copy_works_apart() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    compiled = compiled_of(gated, x, w)
    twin = copy.deepcopy(compiled.plan)
    assert_close(torch.autograd.grad(weigh(twin(x, w)), x), torch.autograd.grad(weigh(compiled(x, w)), x))
    ours, theirs = programs_of(compiled), [m for m in twin.module.modules() if isinstance(m, HostSubgraph)]
    assert len(ours) == len(theirs) and not {id(m.host) for m in ours} & {id(m.host) for m in theirs}


def test_free_sizes_stay_graphs() -> None:
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)}, {})
    compiled = fxc.compile(gated, (x, w), training=True, dynamic_shapes=shapes, options=HOST)
    for rows in (6, 3):
        a = leaf(torch.randn(rows, 8))
        assert_close(torch.autograd.grad(weigh(compiled(a, w)), (a, w)), torch.autograd.grad(weigh(gated(a, w)), (a, w)))
    assert not any(isinstance(module, HostSubgraph) for module in compiled.plan.module.modules())


def test_what_was_compiled_before_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program_cache, "_START", math.inf)
    x, w = leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))
    first = compiled_of(gated, x, w, cache_plans=True)
    monkeypatch.setattr(passes, "run_pipeline", None)  # no pass can be run
    second = compiled_of(gated, x, w, cache_plans=True)
    assert [program.code for program in programs_of(first)] == [program.code for program in programs_of(second)]
    assert_close(torch.autograd.grad(weigh(first(x, w)), w), torch.autograd.grad(weigh(second(x, w)), w))


@pytest.mark.slow
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_keep_what_backward_needs(layer: type[nn.RNNBase]) -> None:
    """They are one call, whose derivative is PyTorch's."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.head = layer(5, 4, 2, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.head(self.layers(x * 2 + 1)[0]) * 3)

    model, x = Recurrent(), torch.randn(2, 7, 5)
    twin, compiled = copy.deepcopy(model), compiled_of(model, x)
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert_same(model, twin)


OF_ONE_ELEMENT: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x.sin(), x * 2),
    "attention to what was before": lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "product": lambda x: x.mT.exp() @ x.sin(),
    "reshaped": lambda x: x.mT.exp().reshape(x.mT.shape).sin() * x.mT,
    "einsum": lambda x: torch.einsum("...ij,...ik->...jk", x.sin(), x),
    "windows": lambda x: x.unfold(-1, 2, 1).exp().mT.reshape(-1, 2).sin(),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 1, 2, 2), (2, 1, 3), (1, 3, 1, 2), (1, 2, 0)])
@pytest.mark.parametrize("name", OF_ONE_ELEMENT)
def test_strides_of_dimensions_of_one_element_lead_nowhere(name: str, shape: tuple[int, ...]) -> None:
    if takes(OF_ONE_ELEMENT[name], x := torch.randn(shape, dtype=torch.float64)):
        same_gradients(OF_ONE_ELEMENT[name], x)


def takes(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether eager takes such sizes."""
    try:
        function(x)
    except (IndexError, RuntimeError):
        return False
    return True


def same_gradients(function: Callable[[Tensor], Tensor], *inputs: Tensor, **options: Any) -> None:
    """At each of ``inputs``; it is compiled at the first."""
    compiled = fxc.compile(function, (leaf(inputs[0]),), training=True, options=HOST, **options)
    for x in map(leaf, inputs):
        result, expected = compiled(x), function(x)
        assert_close(result, expected, equal_nan=True)
        weights = torch.randn_like(expected)
        found, wanted = (torch.autograd.grad(value, x, weights) for value in (result, expected))
        assert_close(found, wanted, equal_nan=True)


OF_NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "cummax": lambda x: x.cummax(-1)[0] * 2,
    "cummin": lambda x: x.cummin(-1)[0] * 2,
    "cumsum": lambda x: x.cumsum(-1) * 2,
    "cumprod": lambda x: x.cumprod(-1) * 2,
    "logcumsumexp": lambda x: x.logcumsumexp(-1) * 2,
    "sort": lambda x: x.sort(-1)[0] * 2,
    "of sums": lambda x: (x.sin().cumsum(-1).cummax(-1)[0] * x).cumprod(-1),
    "in float64": lambda x: x.cumsum(-1, dtype=torch.float64).cummin(-1)[0],
    "from the end": lambda x: x.flip(-1).cumsum(-1).flip(-1).exp(),
    "median": lambda x: x.median(0)[0] * 2,
    "nanmedian": lambda x: x.nanmedian(0)[0] * 2,
    "k-th": lambda x: x.kthvalue(1, 0)[0] * 2,
    "mode": lambda x: x.mode(0)[0] * 2,
    "largest": lambda x: x.topk(0, -1)[0] * 2,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3), (0, 0)])
@pytest.mark.parametrize("name", OF_NOTHING)
def test_derivatives_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    if takes(OF_NOTHING[name], x := torch.zeros(shape)):
        same_gradients(OF_NOTHING[name], x)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OF_NOTHING)
def test_derivatives_of_any_number_of_rows(name: str) -> None:
    """``cumprod`` has a derivative whose parts depend on the size: autograd takes it where that is not known."""
    columns = {1: torch.export.Dim("columns", min=0, max=64)}
    same_gradients(OF_NOTHING[name], torch.randn(4, 3), torch.zeros(4, 0), torch.randn(4, 7), dynamic_shapes=(columns,))
