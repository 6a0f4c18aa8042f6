"""What one trace would specialize without a word: grad mode, flags of tensors, and their class."""

from __future__ import annotations

import copy
import os
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError


class Branches(nn.Module):
    """Doubles or triples, as ``asks`` decides for the input ``x`` and the value ``y``."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def asks(self, x: Any, y: Any) -> bool:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y * 2 if self.asks(x, y) else y * 3


class GradMode(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return torch.is_grad_enabled()


class OfInput(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return x.requires_grad


class OfValue(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return y.requires_grad


class OfWeight(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return self.linear.weight.requires_grad


class IsLeaf(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return y.is_leaf


class HasGradient(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return self.linear.weight.grad is None


class HasNode(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return y.grad_fn is not None


class MadeInInferenceMode(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return x.is_inference()


class ByType(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return type(x) is torch.Tensor


class ByTypes(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return type(self.linear.weight) in (Tensor, nn.Parameter)


class ByClass(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return y.__class__ == Tensor


class ByName(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return type(x).__name__ == "Tensor"


KINDS = {Tensor: True, nn.Parameter: False}


class ByGlobalDict(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return KINDS.get(type(x), False)


class ByOwnDict(Branches):
    kinds = KINDS

    def asks(self, x: Any, y: Any) -> bool:
        return self.kinds[x.__class__]


class ByNewDict(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return {Tensor: True, nn.Parameter: False}[type(x)]


def is_no_tensor(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or type(x) is not Tensor


class ByHelper(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return is_no_tensor(x)


def compare(compiled: Any, model: nn.Module) -> None:
    for grad_mode in (True, False):
        for needs_gradient in (True, False):
            x = torch.randn(2, 3, requires_grad=needs_gradient)
            with torch.set_grad_enabled(grad_mode):
                torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("training", [False, True])
def test_grad_mode_is_compared_at_calls(training: bool, tmp_path: Path) -> None:
    model, x = GradMode(), torch.randn(2, 3)
    compiled = fxc.compile(model, (x,), training=training)
    torch.testing.assert_close(compiled(x), model(x))
    runs = [compiled]
    if not training:
        compiled.plan.save(tmp_path / "plan.fxc")
        runs.append(fxc.ExecutionPlan.load(tmp_path / "plan.fxc"))
    for run in runs:
        with torch.no_grad(), pytest.raises(InputError, match=r"reads torch.is_grad_enabled\(\), which was True"):
            run(x)
    compare(fxc.compile(model, (x,), training=training, options={"recompile": True}), model)
    with torch.no_grad():
        torch.testing.assert_close(fxc.compile(model, (x,))(x), model(x))


def inference_mode(x: Any) -> int:
    return int(torch.is_inference_mode_enabled())


def deterministic(x: Any) -> int:
    return int(torch.are_deterministic_algorithms_enabled())


def threads(x: Any) -> int:
    return torch.get_num_threads()


def seed(x: Any) -> int:
    return torch.initial_seed()


def environment(x: Any) -> int:
    return int(os.environ.get("FXC_TEST_FACTOR", "1")) + int(os.getenv("FXC_TEST_TERM") or 0)


@contextmanager
def other_threads() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(count + 1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


@contextmanager
def other_algorithms() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def other_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FXC_TEST_TERM", "7")
        yield


@contextmanager
def other_seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(torch.initial_seed() + 1)
        yield


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("factor", "other", "name"),
    [
        (inference_mode, torch.inference_mode, "is_inference_mode_enabled"),
        (deterministic, other_algorithms, "are_deterministic_algorithms_enabled"),
        (threads, other_threads, "get_num_threads"),
        (seed, other_seed, "initial_seed"),
        (environment, other_environment, "FXC_TEST_TERM"),
    ],
)
def test_state_of_the_process_is_compared_at_calls(factor: Any, other: Any, name: str, training: bool) -> None:
    linear, x = nn.Linear(3, 3), torch.randn(2, 3)

    def model(x: Tensor) -> Tensor:
        return linear(x) * (factor(x) % 100)

    compiled = fxc.compile(model, (x,), training=training)
    torch.testing.assert_close(compiled(x), model(x))
    with other(), pytest.raises(InputError, match=name):
        compiled(x)
    torch.testing.assert_close(compiled(x), model(x))


def test_the_default_dtype_is_compared_at_calls() -> None:
    compiled = fxc.compile(lambda x: x + torch.ones(3), (torch.randn(3),))
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(InputError, match=r"the default dtype was torch.float32 .* is torch.float64"):
            compiled(torch.randn(3, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x + 1)


def test_attributes_of_weights_are_compared_at_calls() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * self.weight.factor

    model, x = Scaled(3, 3), torch.randn(2, 3)
    model.weight.factor = 2
    compiled = fxc.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x))
    model.weight.factor = 3
    with pytest.raises(InputError, match=r"'weight.factor' was 2 .* and is 3"):
        compiled(x)


@dataclass(slots=True)
class Settings:
    scale: float
    inner: Any = None


class Configured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings, self.terms, self.numbers = Settings(2.0, Settings(3.0)), np.array([1.0, 2.0]), array("d", [4.0])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale * self.settings.inner.scale + float(self.terms[1]) + self.numbers[0]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda m: setattr(m.settings, "scale", 5.0), "'settings.scale' was 2.0"),
        (lambda m: setattr(m.settings.inner, "scale", 5.0), "'settings.inner.scale' was 3.0"),
        (lambda m: m.terms.__setitem__(1, 5.0), "'the elements of terms' are not those"),
        (lambda m: m.numbers.__setitem__(0, 5.0), "'the elements of numbers' are not those"),
    ],
)
def test_slots_and_arrays_are_compared_at_calls(change: Any, name: str) -> None:
    model, x = Configured(), torch.randn(2, 3)
    compiled = fxc.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x))
    change(model)
    with pytest.raises(InputError, match=name):
        compiled(x)
    torch.testing.assert_close(fxc.compile(model, (x,))(x), model(x))


def test_clocks_run_in_parts() -> None:
    def model(x: Tensor) -> Tensor:
        return x + time.perf_counter()

    x = torch.zeros((), dtype=torch.float64)
    with pytest.warns(FallbackWarning, match="what the model computes depends on time"):
        compiled = fxc.compile(model, (x,), options={"fallback": True})
    before = time.perf_counter()
    assert before <= compiled(x) <= compiled(x) <= time.perf_counter()
    assert len(fxc.compile(lambda x: x * 2 if time.time() else x, (x,)).plans) == 1, "a number that nothing depends on"


def test_versions_of_tensors_are_refused() -> None:
    with pytest.raises(CaptureError, match="reads the version of a tensor"):
        fxc.compile(lambda x: x * (x._version + 1), (torch.randn(3),))


@pytest.mark.parametrize("training", [False, True])
def test_what_pytorch_asks_is_no_question_of_the_model(training: bool) -> None:
    layer, x = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), torch.randn(2, 3, 4)
    model = nn.Sequential(layer.train(training))
    compiled = fxc.compile(model, (x,), training=training)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [OfInput, OfValue, OfWeight, IsLeaf, HasGradient, HasNode, MadeInInferenceMode])
def test_flags_are_compared_in_parts(kind: type[Branches], training: bool) -> None:
    model, x = kind(), torch.randn(2, 3)
    with pytest.raises(CaptureError, match=r"what the model computes depends on \w+ of a tensor"):
        fxc.compile(model, (x,), training=training)
    with pytest.warns(FallbackWarning, match=r"depends on \w+ of a tensor"):
        compiled = fxc.compile(model, (x,), training=training, options={"fallback": True})
    compare(compiled, model)
    model.linear.weight.grad = torch.zeros(3, 3)
    with torch.inference_mode():
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [ByType, ByTypes, ByClass, ByName, ByHelper, ByGlobalDict, ByOwnDict, ByNewDict])
def test_the_class_of_a_tensor_is_that_of_eager_mode(kind: type[Branches], training: bool) -> None:
    model, x = kind(), torch.randn(2, 3)
    torch.testing.assert_close(fxc.compile(model, (x,), training=training)(x), model(x))
    with pytest.raises(
        CaptureError, match=r"(compares the|has a) class of (a tensor|tensors as a key)(?s:.*)hint: use isinstance"
    ):
        fxc.compile(model, (x,), training=training, dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))


BACKENDS = dict[type, tuple[str, float]]()


def backend_of(x: Tensor) -> tuple[str, float]:
    """As in ``einops``: a missing class is looked up elsewhere, and kept."""
    if (found := BACKENDS.get(type(x))) is None:
        found = BACKENDS[type(x)] = OF_TENSORS
    return found


OF_TENSORS = "tensors", 2.0


class Remembers(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return backend_of(x)[1] == 2


def test_a_cache_by_class_is_captured_by_the_first_route() -> None:
    model, x = Remembers(), torch.randn(2, 3)
    for _ in range(2):
        compiled = fxc.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
        torch.testing.assert_close(compiled(x), model(x))
        assert {Tensor: OF_TENSORS} == BACKENDS


class Registers(nn.Module):
    """Makes a buffer in its first call, and names a dict by classes."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "scale"):
            self.register_buffer("scale", torch.ones(3))
        return x * self.scale if BACKENDS else x


def test_a_buffer_that_the_first_call_makes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, Tensor, OF_TENSORS)
    with pytest.raises(CaptureError, match="registers or removes 'scale'") as caught:
        fxc.compile(Registers(), (torch.randn(2, 3),))
    assert "call the model once" in (caught.value.hint or "")


KINDS = {Tensor: 3.0, nn.Parameter: 3.0}


class Rests(Branches):
    """Names a dict by classes, and looks none up."""

    def asks(self, x: Any, y: Any) -> bool:
        return len(KINDS) == 2


class Misses(Branches):
    """Looks a class up, and goes without."""

    def asks(self, x: Any, y: Any) -> bool:
        return type(y) in KINDS


def test_a_dict_by_classes_in_which_none_is_looked_up() -> None:
    model, x, free = Rests(), torch.randn(2, 3), ({0: torch.export.Dim("rows", min=2)},)
    compiled = fxc.compile(model, (x,), dynamic_shapes=free)
    torch.testing.assert_close(compiled(x), model(x))
    assert list(KINDS) == [Tensor, nn.Parameter]
    with pytest.raises(CaptureError, match="has a class of tensors as a key"):
        fxc.compile(Misses(), (x,), dynamic_shapes=free)
    assert list(KINDS) == [Tensor, nn.Parameter]


class Others(Branches):
    """Names the classes of tensors, and compares others."""

    def asks(self, x: Any, y: Any) -> bool:
        return type(x) is list or bool(Tensor([1.0]).numel() == 2)


def test_other_comparisons_are_captured_by_the_first_route() -> None:
    model, x = Others(), torch.randn(2, 3)
    compiled = fxc.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    torch.testing.assert_close(compiled(x), model(x))


class Frozen(nn.Module):
    """A part of it computes without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x)
        with torch.no_grad():
            z = self.linear(x)
        return y * 2, y + z


def test_grad_mode_inside_of_autocast() -> None:
    """torch.export loses its switches there."""
    model = Frozen()
    other = copy.deepcopy(model)
    x = torch.randn(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(fxc.compile(model, (x,))(x), other(x))
        with pytest.warns(FallbackWarning, match="inside of autocast is not recorded"):
            compiled = fxc.compile(model, (x,), training=True, options={"fallback": True})
        gradients = list[Any]()
        for run, owner in ((compiled, model), (other, other)):
            given = x.clone().requires_grad_()
            a, b = run(given)
            gradients.append(torch.autograd.grad((a + b).float().pow(2).sum(), [given, *owner.parameters()]))
    torch.testing.assert_close(*gradients, rtol=2e-2, atol=5e-2)  # sums of bfloat16 in another order


def test_what_needs_no_gradient_inside_of_autocast_is_recorded() -> None:
    class Rotated(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                angles = torch.arange(3.0).cos()
            return super().forward(x) * angles

    model, x = Rotated(3, 3), torch.randn(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(fxc.compile(model, (x,), training=True)(x), model(x))
