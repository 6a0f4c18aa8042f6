"""Training in channels_last, which the joint pipeline chooses: results, gradients and their strides are those of eager."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format

import fxc
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.channels_last import CONVOLUTIONS, images_of
from fxc.passes.library.layouts import is_only_channels_last
from fxc.passes.library.propagate_layouts import CLONE
from fxc.passes.operators.table import role_of
from fxc.program.program import Program
from fxc.torch_compile import capture_joint


def conv(inputs: int, outputs: int, size: int = 3, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, **options)


class Residual(nn.Module):
    """Convolutions with and without windows, statistics, a shortcut, pooling, and a product at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 7, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.one, self.two = nn.Sequential(conv(8, 8, bias=False), nn.BatchNorm2d(8), nn.ReLU()), conv(8, 16, 1)
        self.shortcut, self.head = conv(8, 16, 1, bias=False), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        y = torch.relu(self.two(self.one(x)) + self.shortcut(x))
        return self.head(y.mean((2, 3))), y


def _last(model: Any) -> nn.Module:
    return model.to(memory_format=torch.channels_last)


MODELS: dict[str, nn.Module] = {
    "residual": Residual(),
    "evaluated": Residual().eval(),
    "in channels_last": _last(Residual()),
    "depthwise": nn.Sequential(conv(3, 8), nn.SiLU(), conv(8, 8, 7, groups=8), nn.GELU(), conv(8, 16, 1), nn.AvgPool2d(2)),
    "grouped": nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 8, groups=2), nn.ReLU6(), conv(8, 8, groups=4)),
    "group norm": nn.Sequential(
        conv(3, 8), nn.GroupNorm(2, 8), nn.ReLU(), conv(8, 8), nn.GroupNorm(4, 8), nn.ReLU(), conv(8, 4)
    ),
    "transposed": nn.Sequential(conv(3, 8), nn.ReLU(), nn.ConvTranspose2d(8, 8, 2, 2), nn.ReLU(), conv(8, 8), conv(8, 3)),
    "one channel": nn.Sequential(nn.Conv2d(3, 1, 1), nn.Tanh(), conv(1, 8), nn.ReLU(), conv(8, 1)),
    "one pixel": nn.Sequential(
        conv(3, 8), nn.ReLU(), conv(8, 8), nn.AdaptiveAvgPool2d(1), conv(8, 4, 1), nn.Sigmoid(), conv(4, 8, 1)
    ),
    "one column": nn.Sequential(
        conv(3, 8), nn.ReLU(), nn.Conv2d(8, 8, (3, 16)), nn.ReLU(), conv(8, 8, 1), nn.ReLU(), conv(8, 8, 1)
    ),
    "other ranks": nn.Sequential(nn.Flatten(2), nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Unflatten(1, (8, 1, 1)), nn.Conv3d(8, 4, 1)),
    "large weight": nn.Sequential(
        conv(3, 32), nn.ReLU(), conv(32, 32), nn.ReLU(), conv(32, 32), nn.ReLU(), nn.MaxPool2d(4), conv(32, 32), nn.ReLU()
    ),
}


def images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True, scope="module")
def weights() -> None:
    """Equal ones in each run: in bfloat16 the error of a step depends on them, as eager's does."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for layer in (layer for model in MODELS.values() for layer in model.modules()):
            if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)):
                layer.reset_parameters()


def step(model: Callable[..., Any], x: Tensor) -> list[Tensor]:
    """The results of a step, and the gradient of the input."""
    x = x.clone().requires_grad_()
    found = model(x)
    results: list[Tensor] = [*found] if isinstance(found, tuple) else [found]
    torch.stack([result.float().square().sum() for result in results]).sum().backward()
    assert x.grad is not None
    return [*(result.detach() for result in results), x.grad]


def check(model: nn.Module, x: Tensor, *, close: float = 1e-3, dynamic: bool = False, autocast: bool = False) -> None:
    """Compare a step, the gradients of parameters and the buffers with eager, and all strides."""
    torch.compiler.reset()
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found, wanted = step(torch.compile(ours, backend="fxc", dynamic=dynamic), x), step(theirs, x)
    for steps, each in ((found, ours), (wanted, theirs)):
        steps += [*(p.grad for p in each.parameters() if p.grad is not None), *each.buffers()]
    for one, other in zip(found, wanted, strict=True):
        error, size = (float(each.double().square().sum() ** 0.5) for each in (one - other, other))
        assert error <= close * (1 + size), one.shape
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)


def joint(model: nn.Module, x: Tensor) -> Program:
    torch.compiler.reset()
    return capture_joint(copy.deepcopy(model), (x,))


def in_last(program: Program, target: str = "cpu") -> tuple[int, int, int]:
    """How many convolutions and gradients of such are in ``program`` after the joint passes, how many of them read an image in
    channels_last, and the copies between layouts."""
    pipeline = "lower-to-torch,canonicalize,cse,dce,lower-simple-tuples,propagate-layouts{convolutions=true}"
    module = fxc.run_passes(program, pipeline, options={"target": target}).module
    calls = [op for op in module.walk() if isinstance(op, TorchOp) and role_of(op) in CONVOLUTIONS]
    copies = [op for op in module.walk() if op.name == CLONE and op.operands[0].type != op.results[0].type]
    return len(calls), sum(any(is_only_channels_last(x.type) for x in images_of(op)) for op in calls), len(copies)


COUNTS = {
    "residual": (8, 8, 5),
    "in channels_last": (8, 7, 0),
    "depthwise": (6, 6, 5),
    "grouped": (6, 6, 6),
    "group norm": (6, 6, 6),
    "other ranks": (4, 0, 0),
    "large weight": (8, 7, 7),
}
"""By model: the counts of ``in_last``."""


@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_that_of_eager(name: str) -> None:
    check(MODELS[name], images(4, 3, 16, 16))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", COUNTS)
def test_convolutions_and_their_gradients_read_channels_last(name: str) -> None:
    assert in_last(joint(MODELS[name], torch.randn(4, 3, 16, 16))) == COUNTS[name]


@pytest.mark.slow
def test_the_number_of_images_may_be_free() -> None:
    x = torch.randn(4, 3, 16, 16)
    torch._dynamo.mark_dynamic(x, 0)
    assert in_last(joint(MODELS["residual"], x)) == COUNTS["residual"]


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["channels_last", "free sizes", "bfloat16", "autocast", "one image", "empty"])
def test_a_step_of_other_inputs_is_that_of_eager(kind: str) -> None:
    model, x = MODELS["residual"], images(4, 3, 16, 16)
    if kind == "channels_last":
        check(model, x.to(memory_format=torch.channels_last))
    elif kind == "free sizes":
        check(model, x, dynamic=True)
    elif kind == "bfloat16":
        check(copy.deepcopy(model).bfloat16(), x.bfloat16(), close=0.1)
    elif kind == "autocast":
        check(model, x, close=0.1, autocast=True)
    else:
        check(copy.deepcopy(model).eval(), x[: kind == "one image"])


def _as_cudnn(image: Tensor, weight: Tensor, _: object) -> torch.memory_format:
    """The format of cuDNN's results, which PyTorch without CUDA cannot tell."""
    found: list[torch.memory_format] = [suggest_memory_format(each) for each in (image, weight)]
    return torch.channels_last if torch.channels_last in found else torch.contiguous_format


@pytest.mark.slow
def test_a_gpu_gains_where_convolutions_are_large_and_not_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(*layers: nn.Module, target: str = "cuda:sm_90") -> tuple[int, int, int]:
        program = joint(nn.Sequential(*layers), torch.randn(2, 3, 32, 32, requires_grad=True))
        text = re.sub(r"strides = \[[^]]*\](?=>)", lambda m: m[0] + ', device = "cuda:0"', program.text())
        text = re.sub(r"(tensor<[0-9x]*x?f32)>", r'\1, #torch.meta<device = "cuda:0">>', text)
        with monkeypatch.context() as patch:
            patch.setattr(torch._C, "_conv_determine_backend_memory_format", _as_cudnn)
            return in_last(Program.parse(text), target)

    def four(*changed: nn.Module) -> list[nn.Module]:
        return [conv(3, 128), *(changed or [conv(128, 128)]), nn.ReLU(), conv(128, 128), nn.SiLU(), conv(128, 128)]

    assert counts(*four()) == (8, 8, 8)
    assert counts(*four(), target="rocm:gfx942") == (8, 0, 0)
    assert counts(*four(conv(128, 128, groups=2))) == (8, 0, 0)
    assert counts(*four(conv(128, 64), conv(64, 128))) == (10, 0, 0)
    assert counts(*(conv(size, 64) for size in (3, 64, 64, 64))) == (8, 0, 0)
    inner = [nn.Sequential(conv(128, 128), nn.ReLU()) for _ in range(4)]
    assert counts(conv(3, 128), *inner, nn.Flatten(2), nn.Conv1d(128, 128, 1)) == (12, 10, 9)
