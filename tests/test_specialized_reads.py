"""What one trace would specialize without a word: grad mode, flags of tensors, and their class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


class ByType(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return type(x) is torch.Tensor


class ByTypes(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return type(self.linear.weight) in (Tensor, nn.Parameter)


class ByClass(Branches):
    def asks(self, x: Any, y: Any) -> bool:
        return y.__class__ == Tensor


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


@pytest.mark.parametrize("training", [False, True])
def test_what_pytorch_asks_is_no_question_of_the_model(training: bool) -> None:
    layer, x = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), torch.randn(2, 3, 4)
    model = nn.Sequential(layer.train(training))
    compiled = fxc.compile(model, (x,), training=training)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [OfInput, OfValue, OfWeight, IsLeaf])
def test_flags_are_compared_in_parts(kind: type[Branches], training: bool) -> None:
    model, x = kind(), torch.randn(2, 3)
    with pytest.raises(CaptureError, match=r"what the model computes depends on (requires_grad|is_leaf) of a tensor"):
        fxc.compile(model, (x,), training=training)
    with pytest.warns(FallbackWarning, match=r"depends on (requires_grad|is_leaf)"):
        compiled = fxc.compile(model, (x,), training=training, options={"fallback": True})
    compare(compiled, model)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [ByType, ByTypes, ByClass, ByHelper])
def test_the_class_of_a_tensor_is_that_of_eager_mode(kind: type[Branches], training: bool) -> None:
    model, x = kind(), torch.randn(2, 3)
    torch.testing.assert_close(fxc.compile(model, (x,), training=training)(x), model(x))
    with pytest.raises(CaptureError, match=r"compares the class of a tensor.*(?s:.*)hint: use isinstance"):
        fxc.compile(model, (x,), training=training, dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))


class Others(Branches):
    """Names the classes of tensors, and compares others."""

    def asks(self, x: Any, y: Any) -> bool:
        return type(x) is list or bool(Tensor([1.0]).numel() == 2)


def test_other_comparisons_are_captured_by_the_first_route() -> None:
    model, x = Others(), torch.randn(2, 3)
    compiled = fxc.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    torch.testing.assert_close(compiled(x), model(x))
