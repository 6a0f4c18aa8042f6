"""Quantized tensors, modules and graphs: right by each route, with a free batch too; what no graph holds runs in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed  # pyright: ignore[reportUnusedImport]
from torch import Tensor, nn

import fxc
from tests.round_trips import round_trip

ROWS, IMAGES, STEPS = (
    torch.linspace(-2, 3, 64).view(4, 16),
    torch.linspace(-2, 3, 1200).view(4, 3, 10, 10),
    torch.randn(4, 5, 16),
)


def quantized(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.05, 3, torch.quint8)


def by_channel(x: Tensor) -> Tensor:
    return torch.quantize_per_channel(x.t(), torch.full((16,), 0.05), torch.zeros(16, dtype=torch.int64), 0, torch.qint8)


def decomposed(x: Tensor) -> Tensor:
    """As PT2E converts graphs: quantized activations and weights between operators on floats."""
    q, d = torch.ops.quantized_decomposed.quantize_per_tensor, torch.ops.quantized_decomposed.dequantize_per_tensor
    of_weight = torch.ops.quantized_decomposed.dequantize_per_channel
    weight = torch.arange(128, dtype=torch.int8).view(8, 16) - 64
    scales, zeros = torch.linspace(0.01, 0.02, 8), torch.zeros(8, dtype=torch.int64)
    x = d(q(x, 0.05, 3, 0, 255, torch.uint8), 0.05, 3, 0, 255, torch.uint8)
    y = nn.functional.linear(x, of_weight(weight, scales, zeros, 0, -128, 127, torch.int8)).relu()
    return d(q(y, 0.03, 0, 0, 255, torch.uint8), 0.03, 0, 0, 255, torch.uint8)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "dequantized": lambda x: quantized(x).dequantize() + 1,
    "returned": quantized,
    "by channel": lambda x: by_channel(x).dequantize(),
    "numbers": lambda x: quantized(x).int_repr(),
    "scale": lambda x: x * quantized(x).q_scale() + quantized(x).q_zero_point(),
    "relu": lambda x: torch.relu(quantized(x)).dequantize(),
    "sum": lambda x: torch.ops.quantized.add(quantized(x), quantized(x), 0.1, 0).dequantize(),
    "view": lambda x: quantized(x).view(-1).dequantize(),
    "fake": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, 0, 255),
    "decomposed": decomposed,
}


class Static(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.quantize, self.model, self.dequantize = (
            torch.ao.quantization.QuantStub(),
            model,
            torch.ao.quantization.DeQuantStub(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.dequantize(self.model(self.quantize(x)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def static(model: nn.Module, x: Tensor) -> nn.Module:
    wrapped = Static(model).eval()
    wrapped.qconfig = torch.ao.quantization.get_default_qconfig("x86")  # type: ignore[assignment]
    prepared = torch.ao.quantization.prepare(wrapped)
    prepared(x)
    return torch.ao.quantization.convert(prepared)


def dynamic(model: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.LSTM}, dtype=torch.qint8)


MODULES: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "dynamic": (lambda: dynamic(mlp()), ROWS),
    "dynamic LSTM": (lambda: dynamic(Recurrent().eval()), STEPS),
    "static": (lambda: static(mlp(), ROWS), ROWS),
    "static images": (lambda: static(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), IMAGES), IMAGES),
}
FREE = ({0: torch.export.Dim("batch", min=2, max=64)},)
ROUTES: dict[str, Callable[[Any, Tensor], Any]] = {
    "compile": lambda model, x: fxc.compile(model, (x,), options={"fallback": True}),
    "free": lambda model, x: fxc.compile(model, (x,), dynamic_shapes=FREE, options={"fallback": True}),
    "torch.compile": lambda model, x: torch.compile(model, backend="fxc", dynamic=True),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [*FUNCTIONS, *MODULES])
@pytest.mark.parametrize("route", ROUTES)
@torch.no_grad()
def test_quantized(name: str, route: str) -> None:
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make, x = MODULES[name] if name in MODULES else (lambda: FUNCTIONS[name], ROWS)
        model = make()
        compiled = ROUTES[route](model, x)
        for given in (x, *[torch.cat([x, x[:2] / 2])] * (route != "compile")):
            found, expected = compiled(given), model(given)
            found, expected = (each.int_repr() if each.is_quantized else each for each in (found, expected))
            torch.testing.assert_close(found, expected)


def test_sizes_that_cannot_be_free_are_an_error_also_where_a_model_may_run_in_parts() -> None:
    with pytest.raises(fxc.errors.CaptureError, match="Constraints violated"):
        fxc.compile(lambda x: x.view(4, 16) * 2, (ROWS,), dynamic_shapes=FREE, options={"fallback": True})


def wrapped_weights() -> nn.Module:
    """Weights that are subclasses of tensors and hold others."""
    from torch.testing._internal.two_tensor import TwoTensor

    model = mlp()
    for layer in model[::2]:  # type: ignore[index]
        held = (layer.weight.detach().clone() for _ in range(2))
        layer.weight = nn.Parameter(TwoTensor(*held), requires_grad=False)
    return model


def of_torchao(config: str) -> nn.Module:
    quantization = pytest.importorskip("torchao.quantization", reason="the extra models has it")
    model = mlp()
    quantization.quantize_(model, getattr(quantization, config)())
    return model


WRAPPED: dict[str, Callable[[], nn.Module]] = {"two tensors": wrapped_weights} | {
    config: lambda config=config: of_torchao(config)
    for config in ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig", "Float8WeightOnlyConfig")
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_weights_that_hold_tensors(name: str, tmp_path: Path) -> None:
    """A graph of FX is imported without loss, but no file holds the weights; fxc.compile runs the model in parts."""
    torch._dynamo.reset()
    model = WRAPPED[name]()
    graph = torch.fx.symbolic_trace(model)
    round_trip(graph)
    program = fxc.import_fx(graph)
    expected = unwrapped(model(ROWS))
    for run in (
        fxc.to_fx(program),
        fxc.Interpreter(program).run,
        fxc.compile(model, (ROWS,), options={"fallback": True}),
        torch.compile(model, backend="fxc"),
    ):
        torch.testing.assert_close(unwrapped(run(ROWS)), expected)
    with pytest.raises(fxc.errors.WeightsError, match="which a weights file cannot hold\n  hint: store a dense tensor"):
        program.save(tmp_path / "model.mlir")


def unwrapped(tensor: Tensor) -> Tensor:
    """The values of ``tensor``, or those of the first tensor that it holds."""
    return tensor.a if hasattr(tensor, "a") else tensor  # type: ignore[attr-defined]
