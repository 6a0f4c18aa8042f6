"""Models that no route captures as a whole run in PyTorch, with compiled parts, after one warning."""

from __future__ import annotations

import copy
import io
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError, PlanFileError


class Masked(nn.Module):
    """Reads its data in a Python condition."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.layer(x))
        if mask.any():
            y = y.masked_fill(mask, 0.0)
        return y * 2


X, SOME, NONE = torch.randn(3, 4), torch.tensor([True, False, False, True]), torch.zeros(4, dtype=torch.bool)
EYE = torch.eye(3, 4)
PACKED = torch.quantize_per_channel(torch.eye(4), torch.full((4,), 0.1), torch.zeros(4, dtype=torch.int64), 0, torch.qint8)


FALLBACK = {"fallback": True}


def _grown(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 10:
        x = x * 2
    return x


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "loop": (_grown, (torch.ones(3),), (torch.full((3,), 2.5),)),
    "dimension": (lambda x, d: x.sum(int(d)), (X, torch.tensor(1)), (X, torch.tensor(0))),
    "condition": (lambda x, a: x * 2 if a.item() > 2 else x - 1, (X, torch.tensor(3)), (X, torch.tensor(2))),
    "count": (lambda x, n: sum([x] * int(n)), (X, torch.tensor(3)), (X, torch.tensor(2))),
    "index": (lambda n: [5, 6, 7][n], (torch.tensor(0),), (torch.tensor(2),)),
    "size": (lambda n: torch.linspace(0, 1, n.item()), (torch.tensor(3),), (torch.tensor(6),)),
    "logic": (lambda a, b: bool(a) and not bool(b), (SOME[0], SOME[1]), (SOME[0], SOME[0])),
    "stored elements": (lambda x: torch.masked.sum(x.to_sparse()).to_dense(), (X,), (EYE,)),
    "stored number": (lambda x: x.to_sparse()._nnz() * x, (X,), (EYE,)),
    "stored rows": (lambda x: x.to_sparse_csr().values().sum(), (X,), (EYE,)),
    "sparse": (lambda x: x.values() * 2, (EYE.to_sparse(),), (X.to_sparse(),)),
    "quantized": (lambda x: x.dequantize() + 1, (PACKED,), (PACKED,)),
}


def _compiled(function: Any, args: tuple[Any, ...], **options: Any) -> Any:
    with pytest.warns(FallbackWarning, match="only parts of it are compiled"):
        return fxc.compile(function, args, **options, options=FALLBACK)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_compute_with_numbers_of_tensors(name: str) -> None:
    function, example, other = FUNCTIONS[name]
    compiled = _compiled(function, example)
    for args in (example, other):
        result, expected = compiled(*args), function(*args)
        assert type(result) is type(expected)
        torch.testing.assert_close(result, expected)


TRUE, FALSE, TWO = torch.tensor(True), torch.tensor(False), torch.tensor(2)

WHOLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "bool": (lambda a: a.item(), (TRUE,), (FALSE,)),
    "any": (lambda x: (x > 0).any().item(), (X,), (-X.abs(),)),
    "bools": (lambda a, b: (a.item() | b.item(), a.item() == b.item()), (TRUE, FALSE), (FALSE, FALSE)),
    "bool in arithmetic": (lambda x, a: (x * a.item(), torch.full((2,), a.item())), (X, TRUE), (X, FALSE)),
    "list of bools": (lambda x: (x > 0).tolist(), (X[0],), (-X[0],)),
    "one tensor twice": (lambda a, b: int(a) + int(b), (TWO, torch.tensor(3)), (TWO, TWO)),
    "floats": (lambda a, b: int(a) * float(b), (torch.tensor(2.5), TWO), (X[0, 0], TWO)),
    "sparse, and a write": (lambda a, x: torch.sparse.mm(a, x).add_(1), (EYE.to_sparse(), EYE.t()), (X.to_sparse(), EYE.t())),
    "start": (lambda x, start: x.narrow(0, start, 1) * 2, (X, torch.tensor(1)), (X, TWO)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_functions_whose_graph_computes_with_numbers_of_tensors(name: str) -> None:
    function, example, other = WHOLE[name]
    compiled = fxc.compile(function, example, options={"fallback": False})
    for args in (example, other):
        torch.testing.assert_close(compiled(*args), function(*args))
        assert type(compiled(*args)) is type(function(*args))


@pytest.mark.parametrize("training", [False, True])
def test_a_model_with_a_condition_on_its_data(training: bool) -> None:
    model, reference = (Masked() for _ in range(2))
    reference.load_state_dict(model.state_dict())
    before = copy.deepcopy(model.state_dict())
    compiled = _compiled(model, (X, SOME), training=training)
    torch.testing.assert_close(dict(model.state_dict()), dict(before))
    for mask in (SOME, NONE):
        result, expected = compiled(X, mask), reference(X, mask)
        torch.testing.assert_close(result, expected)
        assert result.requires_grad == training == compiled.training
    torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))
    model.eval()  # the mode of the compilation holds
    torch.testing.assert_close(copy.deepcopy(compiled)(X, NONE), reference(X, NONE))


class Counted(torch.autograd.Function):
    """Writes its second argument without stating it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
        calls.add_(1)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient * 3, None


def test_a_custom_function_that_writes_its_argument() -> None:
    x, calls = X.clone().requires_grad_(), torch.zeros(())

    def function(x: torch.Tensor, calls: torch.Tensor) -> Any:
        return Counted.apply(x, calls) + calls

    torch.testing.assert_close(fxc.compile(function, (X, calls))(X, calls), X * 2 + 1)
    _compiled(function, (x, calls), training=True)(x, calls).sum().backward()
    assert x.grad is not None and x.grad.equal(torch.full_like(x, 3)) and calls == 2


def test_what_a_plan_would_have_is_the_error_of_the_capture() -> None:
    compiled = _compiled(Masked(), (X, SOME))
    assert repr(compiled) == "<fxc.Compiled in parts>"
    for name in ("plan", "ir", "signature", "stats"):
        with pytest.raises(CaptureError, match=r"(?s)data-dependent.*at: if mask.any\(\):.*hint: the Python control flow"):
            getattr(compiled, name)


def test_what_runs_in_parts_is_copied_and_pickled_with_its_model() -> None:
    for model, args in ((Masked().eval(), (X, SOME)), (_grown, (torch.ones(3),))):
        compiled = _compiled(model, args)
        expected = compiled(*args)
        torch.save(compiled, file := io.BytesIO())
        loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
        for other in (pickle.loads(pickle.dumps(compiled)), loaded, copy.copy(compiled), copy.deepcopy(compiled)):
            assert other(*args).equal(expected) and repr(other) == repr(compiled)
            with pytest.raises(CaptureError, match="data-dependent"):
                other.plan  # noqa: B018
    local = _compiled(lambda x: x * 2 if x.sum() > 0 else x, (X,))
    assert copy.deepcopy(local)(X).equal(local(X))
    with pytest.raises(PlanFileError, match=r"(?s)in parts cannot be pickled: .*lambda.*hint: define its functions"):
        pickle.dumps(local)


def test_later_calls_that_cannot_be_captured() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if len(x) > 3 and x.sum() > 0 else x * 2

    compiled = fxc.compile(function, (X,), options=FALLBACK | {"recompile": True})
    with pytest.warns(FallbackWarning, match="only parts of it are compiled: (?s:.*)data-dependent") as found:
        for x in (torch.ones(5, 4), -torch.ones(5, 4), torch.ones(6, 4), X):
            assert compiled(x).equal(function(x))
    assert len(found) == 1 and compiled.stats.size == 1


def _twice(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x) * 2


def test_a_free_size_out_of_its_bounds() -> None:
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},)
    wrong = r"dimension 0 of input x is 16, but s\d+ lies in \[2, 8\]"
    for options in ({}, {"recompile": True}):
        compiled = fxc.compile(_twice, (X,), dynamic_shapes=shapes, options={"fallback": False, **options})
        with pytest.raises((CaptureError, InputError), match=rf"{wrong}\n  hint: widen the bounds of this size"):
            compiled(torch.ones(16, 4))
        assert compiled(torch.ones(8, 4)).equal(_twice(torch.ones(8, 4)))
    compiled = fxc.compile(_twice, (X,), dynamic_shapes=shapes, options=FALLBACK | {"recompile": True})
    with pytest.warns(FallbackWarning, match=wrong):
        assert compiled(torch.ones(16, 4)).equal(_twice(torch.ones(16, 4)))
    assert compiled.plans == (compiled.plan,)


@pytest.mark.parametrize("options", [{"fallback": False}, {"strict": True}, {"pipeline": "canonicalize"}])
def test_options_that_exclude_it(options: dict[str, Any]) -> None:
    with warnings.catch_warnings(), pytest.raises(CaptureError, match="data-dependent"):
        warnings.simplefilter("error")
        fxc.compile(Masked(), (X, SOME), options={**FALLBACK, **options})


def test_a_model_that_fails_is_an_error_at_once() -> None:
    with pytest.raises(CaptureError, match="the model raises RuntimeError at these inputs: The size of tensor a"):
        fxc.compile(lambda x: x + torch.ones(5), (X,), options=FALLBACK)


def test_example_inputs_are_not_written() -> None:
    def function(x: torch.Tensor, cache: list[torch.Tensor]) -> Any:
        cache.append(x)
        return x.add_(1) if x.sum() > 0 else x

    x, cache = torch.ones(3), list[torch.Tensor]()
    _compiled(function, (x, cache))
    assert not cache and x.equal(torch.ones(3))


def test_weights_of_a_subclass_of_tensors() -> None:
    model = nn.Linear(4, 2, bias=False).requires_grad_(False)
    model.weight = nn.Parameter(TwoTensor(torch.ones(2, 4), torch.ones(2, 4)), requires_grad=False)
    torch.testing.assert_close(_compiled(model, (X,))(X).a, model(X).a)


@pytest.mark.slow
def test_a_reentrant_checkpoint() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.second, torch.relu(self.first(x)), use_reentrant=True).sum()

    model, x = Checkpointed(), torch.randn(3, 4)
    twin = copy.deepcopy(model)
    compiled = _compiled(model, (x,), training=True)
    compiled(x).backward()
    twin(x).backward()
    for actual, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(actual.grad, expected.grad)


HOOKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "an input": lambda x: x.register_hook(lambda gradient: gradient * 2),
    "a value": lambda x: (y := x * 1).register_hook(lambda gradient: gradient * 2) and y,
    "a node": lambda x: (y := x * 1).grad_fn.register_hook(lambda found, _: (found[0] * 2, *found[1:])) and y,
    "a node, before": lambda x: (y := x * 1).grad_fn.register_prehook(lambda given: (given[0] * 2,)) and y,
}


@pytest.mark.parametrize("of", HOOKS)
def test_hooks_on_gradients(of: str) -> None:
    """A trace loses them without a word."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = HOOKS[of](x)
        return (y if isinstance(y, torch.Tensor) else x) * 3

    x = torch.ones(3, requires_grad=True)
    with pytest.warns(FallbackWarning, match=r"register_hook is not recorded|depends on grad_fn of a tensor"):
        compiled = fxc.compile(doubled, (x,), training=True, options=FALLBACK)
    compiled(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0] * 3


class Effects(nn.Module):
    """Its forward changes which parameters are trained, and adds to their gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.weight.requires_grad_(False)
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            self.second(y).sum().backward()
        assert y.grad is not None
        return self.first(x) + y.grad


@pytest.mark.parametrize("training", [False, True])
def test_effects_of_autograd_are_of_calls_only(training: bool) -> None:
    model = Effects()
    twin, given = copy.deepcopy(model), torch.full((3, 3), 2.0)
    model.second.weight.grad = given
    with pytest.warns(FallbackWarning, match="not recorded"):
        compiled = fxc.compile(model, (torch.ones(2, 3),), training=training, options=FALLBACK)
    assert model.first.weight.requires_grad and model.second.bias.grad is None
    assert model.second.weight.grad is given and torch.equal(given, torch.full((3, 3), 2.0))
    model.second.weight.grad = None
    for each in (compiled, twin):
        with torch.set_grad_enabled(training):
            result = each(torch.ones(2, 3))
        if training:
            result.sum().backward()
    for found, expected in zip(model.parameters(), twin.parameters(), strict=True):
        assert found.requires_grad == expected.requires_grad
        torch.testing.assert_close(found.grad, expected.grad)


class Draws(nn.Module):
    def __init__(self, draw: Callable[[Draws], Any]) -> None:
        super().__init__()
        self.layer, self.draw, self.own = nn.Linear(4, 4), draw, [random.Random(3)]
        self.generator, self.states = np.random.default_rng(3), np.random.RandomState(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.draw(self)


DRAWS: dict[str, Callable[[Draws], Any]] = {
    "random": lambda m: random.random(),
    "random, of two": lambda m: 2.0 if random.random() < 0.5 else 3.0,
    "random, chosen": lambda m: random.choice([1, 2, 3]),
    "numpy": lambda m: float(np.random.rand()),
    "numpy, array": lambda m: torch.from_numpy(np.random.rand(4)).float(),
    "numpy, generator": lambda m: float(m.generator.random()),
    "numpy, states": lambda m: int(m.states.randint(9)),
}


def _seeded(model: Draws) -> None:
    random.seed(1)
    np.random.seed(1)
    model.generator, model.states = np.random.default_rng(1), np.random.RandomState(1)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_outside_of_pytorch_are_those_of_each_call(name: str, training: bool) -> None:
    model = Draws(DRAWS[name])
    before = random.getstate(), pickle.dumps((np.random.get_state(), model.generator, model.states))
    with pytest.warns(FallbackWarning, match="the model draws from"):
        compiled = fxc.compile(model, (X,), training=training, options=FALLBACK)
    assert before == (random.getstate(), pickle.dumps((np.random.get_state(), model.generator, model.states)))
    _seeded(model)
    expected = [model(X) for _ in range(4)]
    _seeded(model)
    torch.testing.assert_close([compiled(X) for _ in range(4)], expected)
    assert len({float(each.detach().sum()) for each in expected}) > 1


@pytest.mark.parametrize("name", DRAWS)
def test_draws_outside_of_pytorch_without_parts(name: str) -> None:
    with pytest.raises(CaptureError, match=r"(?s)the model draws from .*hint: draw with torch.rand"):
        fxc.compile(Draws(DRAWS[name]), (X,))


def test_draws_that_dynamo_repeats_are_refused() -> None:
    with pytest.raises(CaptureError, match=r"draws from a random.Random.*\n.*hint: draw with random.random"):
        fxc.compile(Draws(lambda m: m.own[0].random()), (X,), options=FALLBACK)


class Equation(nn.Module):
    """The error of a differential equation of ``u``, which the model is."""

    def __init__(self, of_input: bool) -> None:
        super().__init__()
        self.u, self.of_input = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), of_input

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.of_input else x.detach().requires_grad_()
        u = self.u(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return ((second + u) ** 2).mean()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="Dynamo traces no derivatives")
@pytest.mark.parametrize("of_input", [False, True])
def test_training_through_derivatives(of_input: bool) -> None:
    model, x = Equation(of_input), X.clone().requires_grad_(of_input)
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(model, (x,), training=True, options=FALLBACK)
    inputs = [x] * of_input + list(model.parameters())
    losses = [compiled(x), model(x)]
    torch.testing.assert_close(*losses)
    found, expected = (torch.autograd.grad(loss, inputs, allow_unused=True) for loss in losses)
    torch.testing.assert_close(found, expected)


def _noisy(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + torch.randn(3, generator=generator)


def _seeded_noisy(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        return _noisy(x, generator)


def test_generators_of_the_model_and_of_the_caller() -> None:
    """No capture draws from one that is an input."""
    x, given, own = torch.zeros(3), torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    with pytest.warns(FallbackWarning):
        seeded, noisy = fxc.compile(_seeded_noisy, (x,), options=FALLBACK), fxc.compile(_noisy, (x, given), options=FALLBACK)
    for _ in range(2):
        assert torch.equal(seeded(x), _seeded_noisy(x)) and torch.equal(noisy(x, given), _noisy(x, own))


class _Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.sin.default else result


def _in_mode(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with _Doubled():
        return x.sin() + y


def _in_double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    torch.set_default_dtype(torch.float64)
    ones = torch.ones(3)
    torch.set_default_dtype(torch.float32)
    return ones / 3, x + y


def _data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.data = y * 2
    return x + 1


def _of_empty(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    own = torch.empty(0).set_(y)  # type: ignore[arg-type]
    own.add_(1)
    return own * 2, x + y


HIDDEN: dict[str, Callable[..., Any]] = {
    "mode": _in_mode,
    "default dtype": _in_double,
    "data": _data,
    "set_": lambda x, y: x.set_(y * 2) + 1,
    "set_ of an empty tensor": _of_empty,
    "vector_to_parameters": lambda x, y: nn.utils.vector_to_parameters(y.view(-1), [x]) or x * 2,
}


@pytest.mark.filterwarnings("ignore::fxc.errors.FallbackWarning")
@pytest.mark.parametrize("name", HIDDEN)
def test_what_traces_do_not_record(name: str) -> None:
    """By torch.compile, too, which runs such graphs in eager mode."""
    torch._dynamo.reset()
    for compiled in (fxc.compile(HIDDEN[name], (X, X), options=FALLBACK), torch.compile(HIDDEN[name], backend="fxc")):
        given, own = ([X.clone(), X.clone()] for _ in range(2))
        for _ in range(2):
            torch.testing.assert_close((compiled(*given), given), (HIDDEN[name](*own), own), rtol=0, atol=1e-6)


def _by_leaf(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(2)
    return x * (2 if y.is_leaf else 3) + y


def test_inputs_that_are_no_leaves() -> None:
    """They are none when the parts are compiled: the model may write to them."""
    x = X.clone().requires_grad_()
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(_by_leaf, (x, x * 1), training=True, options=FALLBACK)
    (found,), (expected,) = (torch.autograd.grad(called(x, (x * 1)[:3]).sum(), x) for called in (compiled, _by_leaf))
    torch.testing.assert_close(found, expected)
