"""Models that ``torch.export`` cannot capture: the other routes that are tried, and the one error where all fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import fxc
from fxc.bridge.static_world import IS_PLAIN
from fxc.errors import CaptureError, FallbackWarning


class Doubled(torch.autograd.Function):
    """Writes to its argument."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad * 2


class Doubles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return [Doubled.apply(self.layer(inputs["x"])) + 1, Doubled.apply(inputs["x"])]  # type: ignore[list-item]


@pytest.mark.skipif(not IS_PLAIN, reason="torch.export, which captures it before PyTorch 2.13, records it with its derivative")
def test_functions_that_write_to_their_arguments() -> None:
    model, x = Doubles(), torch.randn(2, 3)
    compiled = fxc.compile(model, ({"x": x.clone()},))
    ours, eagers = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(compiled({"x": ours}), model({"x": eagers}))
    torch.testing.assert_close(ours, eagers)
    model.layer = nn.Linear(3, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled({"x": x.clone()}), model({"x": x.clone()}))


def test_a_derivative_of_such_a_function_is_refused() -> None:
    example = torch.randn(3, requires_grad=True)
    with pytest.raises(CaptureError, match=r"(?s)writes to its arguments cannot be captured.*hint: .*torch.compile"):
        fxc.compile(lambda x: Doubled.apply(x * 1), (example,), training=True)


@pytest.mark.parametrize("training", [False, True])
def test_such_a_function_of_what_requires_a_gradient_runs_in_parts(training: bool) -> None:
    call, x = lambda x: Doubled.apply(x * 1) * 3, torch.randn(3, requires_grad=True)
    with pytest.warns(FallbackWarning, match="writes to its argument"):
        compiled = fxc.compile(call, (x,), training=training, options={"fallback": True})
    torch.testing.assert_close(compiled(x), call(x))


class LastStates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 5, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        _, (hidden, cell) = self.layer(x)
        return hidden.permute(1, 0, 2).reshape(hidden.shape[1], -1), cell[-1] * cell.shape[2]


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dynamic_shapes", [None, ({0: torch.export.Dim("n")},)])
def test_states_of_an_lstm_have_three_dimensions(dynamic_shapes: Any, training: bool) -> None:
    """PyTorch's decomposition, which export asks for sizes, adds one before 2.13."""
    model, example = LastStates(), torch.randn(3, 2, 4)
    compiled = fxc.compile(model, (example,), training=training, dynamic_shapes=dynamic_shapes)
    for x in (example, example[:1]) if dynamic_shapes else (example,):
        torch.testing.assert_close(compiled(x), model(x))


class Packs(nn.Module):
    """Packs sequences as long as their elements say."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = (x[:, :, 0] > -9).sum(1)
        outputs, (hidden, _) = self.layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(outputs, batch_first=True)[0], hidden


class Packed(Packs):
    def forward(self, sequence: Any) -> Any:
        return self.layer(sequence)[0].data


SEQUENCES, LENGTHS = torch.randn(3, 6, 4), torch.tensor([6, 4, 2])


@pytest.mark.parametrize(
    ("make", "args", "message"),
    [
        (Packs, (SEQUENCES,), "export cannot capture.*  dynamo: .*  make_fx: .*"),
        (Packed, (pack_padded_sequence(SEQUENCES, LENGTHS, batch_first=True),), "Packed takes a PackedSequence.*"),
    ],
)
def test_what_no_route_captures_is_one_error(make: Callable[[], nn.Module], args: tuple[Any, ...], message: str) -> None:
    model = make()
    with pytest.raises(CaptureError, match=rf"(?s)^{message}hint: .*backend='fxc'"):
        fxc.compile(model, args)
    with torch.no_grad():
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model, backend="fxc")(*args), model(*args))


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        return Doubled.apply(x * self.calls)


def test_what_is_kept_is_kept_by_no_route() -> None:
    model = Counted()
    with pytest.raises(CaptureError, match="make_fx: the model changes its attributes"):
        fxc.compile(model, (torch.randn(3),))
    assert model.calls == 0


class Int8(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-100, 100, (32, 64), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(32, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(x.bfloat16(), self.weight, self.scales)  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{}, {"freeze": True}, {"target": None}])
def test_packed_int8_weights(options: dict[str, Any]) -> None:
    model, x = Int8(), torch.randn(3, 64)
    torch.testing.assert_close(fxc.compile(model, (x,), options=options)(x), model(x))


P, Q = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 7.0])
NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: (x * 2, float(x.sum())),
    "of a sum of numbers": lambda x: (x, float(x[0]) + 1),
    "in a list": lambda x: {"x": x, "of": [float(x[0]), 1.0, None]},
    "beside an equal constant": lambda x: (x * 2, int(x.sum()), 6),
    "truth beside a constant": lambda x: (x, bool(float(x[0]) > 2), False),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_among_the_results_are_of_each_call(name: str, training: bool) -> None:
    function = NUMBERS[name]
    assert str(fxc.compile(function, (P,), training=training)(Q)) == str(function(Q))


TEXTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "with a format": lambda x: (x, f"{x.sum():.2f}"),
    "of a returned tensor": lambda x: (total := x.sum(), f"{total:.2f}"),
    "of a number": lambda x: (x, f"{x.sum().item()}"),
    "of a float": lambda x: (total := float(x.sum()), f"{total}"),
    "of a tensor": lambda x: (x, str(x.sum())),
    "in a key": lambda x: {f"{x.sum()}": x},
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_text_of_tensors_among_the_results_is_refused(name: str, training: bool) -> None:
    is_refused_by_dynamo = name == "of a float" and not IS_PLAIN  # PyTorch has text of a symbolic number from 2.13 on
    message = "data-dependent expression" if is_refused_by_dynamo else "text made of a tensor"
    with pytest.raises(CaptureError, match=rf"(?s){message}.*at: .*test_capture_routes.*hint: .*backend='fxc'"):
        fxc.compile(TEXTS[name], (P,), training=training)


def test_text_that_is_no_result_is_allowed() -> None:
    assert torch.equal(fxc.compile(lambda x: (print(x), x * 2)[1], (P,))(Q), Q * 2)
    assert fxc.compile(lambda x: (x, "FakeTensor zuf0", f"{x.shape}"), (P,))(Q)[1:] == ("FakeTensor zuf0", "torch.Size([3])")


COMPUTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "length": lambda x: x * len(str(x)),
    "length of a format": lambda x: x * len(f"{x}"),
    "part": lambda x: x * (2 if "1." in repr(x) else 3),
    "character": lambda x: x * ord(str(x)[8]),
    "hash": lambda x: x * (hash(str(x)) % 7),
    "of a number": lambda x: x * len(str(x[0].item())),
}


@pytest.mark.parametrize("sizes", [None, ({0: torch.export.Dim.AUTO},)])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_made_of_text_are_refused(name: str, training: bool, sizes: Any) -> None:
    with pytest.raises(CaptureError, match=r"(?s)computes with text made of a tensor.*at: .*hint: .*backend='fxc'"):
        fxc.compile(COMPUTED[name], (P,), training=training, dynamic_shapes=sizes)


def test_text_of_a_size_as_a_key() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * {f"{x.shape[0]}": 2, "": 3}[str(x.shape[0])]

    assert torch.equal(fxc.compile(f, (P,), dynamic_shapes=({0: torch.export.Dim.AUTO},))(Q[:2]), Q[:2] * 2)


def test_text_of_a_dynamic_size_is_refused() -> None:
    with pytest.raises(CaptureError, match="text made of a tensor or of a size"):
        fxc.compile(lambda x: (x, f"{x.shape[0]}"), (P,), dynamic_shapes=({0: torch.export.Dim("n")},))


def seeded(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(2)


def seeded_on_gpus(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.manual_seed(0)
    return x + torch.rand(2)


def seeded_by_method(x: torch.Tensor) -> torch.Tensor:
    torch.default_generator.manual_seed(0)
    return x + torch.rand(2)


def set_back(x: torch.Tensor) -> torch.Tensor:
    torch.set_rng_state(torch.get_rng_state())
    return x + torch.rand(2)


def forked(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        return x + torch.rand(2)


def seeded_and_caught(x: torch.Tensor) -> torch.Tensor:
    with suppress(CaptureError):
        torch.manual_seed(0)
    return x + torch.rand(2)


SEEDED: list[tuple[Callable[[torch.Tensor], torch.Tensor], str]] = [
    (seeded, r"torch\.random\.manual_seed"),
    (seeded_on_gpus, r"torch\.cuda\.random\.manual_seed"),
    (seeded_by_method, r"Generator\.manual_seed"),
    (set_back, r"torch\.random\.set_rng_state"),
    (forked, r"torch\.random\.fork_rng"),
    (seeded_and_caught, r"torch\.random\.manual_seed"),
]


@pytest.mark.parametrize(("function", "name"), SEEDED)
def test_seeds_are_refused(function: Callable[[torch.Tensor], torch.Tensor], name: str) -> None:
    x, generator, seed = torch.zeros(2), torch.default_generator, torch.initial_seed()
    message = rf"(?s)the model calls {name}, .*seed before the call, or use torch\.compile"
    for training in (False, True):
        with pytest.raises(CaptureError, match=message):
            fxc.compile(function, (x,), training=training)
    for route in ("export", "make_fx", "symbolic_trace"):
        with pytest.raises(CaptureError, match=message):
            fxc.capture(function, (x,), route=route)
    assert torch.default_generator is generator is torch.random.default_generator
    assert torch.initial_seed() == seed


def test_seeds_are_refused_by_dynamo() -> None:
    with pytest.raises(CaptureError, match=r"the model calls manual_seed: seed before the call, or use torch\.compile"):
        fxc.capture(seeded, (torch.zeros(2),), route="dynamo")


def test_other_threads_may_seed_while_a_model_is_captured() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=torch.manual_seed, args=(7,))
        thread.start()
        thread.join()
        return x + 1

    state = torch.get_rng_state()
    fxc.capture(run, (torch.zeros(2),))
    assert torch.initial_seed() == 7
    torch.set_rng_state(state)


class Gated(torch.autograd.Function):
    """Saves its argument; the backward is not that of the forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 0.5 * (1 + torch.tanh(x * x))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * ctx.saved_tensors[0]


@pytest.mark.parametrize("free", [False, True])
def test_an_autograd_function_that_saves_beside_writes(free: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:, 0] += 1
        return Gated.apply(y).sum(1)

    axes = ({0: torch.export.Dim("n"), 1: torch.export.Dim("m")},) if free else None
    example = torch.randn(3, 4, requires_grad=True)
    compiled = fxc.compile(function, (example,), training=True, dynamic_shapes=axes, options={"fallback": False})
    x = torch.randn(5, 7, requires_grad=True) if free else example
    results = compiled(x), function(x)
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(result.sin().sum(), x) for result in results))


@pytest.mark.parametrize("training", [False, True])
def test_a_module_that_dynamo_captures(training: bool) -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * float(x.numpy().sum())

    model, x = Sums(), torch.randn(2, 3)
    before = dict(vars(model))
    compiled = fxc.compile(model, (x,), training=training)
    assert vars(model) == before
    for each in (x, torch.randn(2, 3)):
        torch.testing.assert_close(compiled(each), model(each))
