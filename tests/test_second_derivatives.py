"""Second derivatives of programs with kernels: eager's, or an error; never what holds statistics for constants."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc

ROWS, IMAGES = torch.randn(4, 3, dtype=torch.float64), torch.randn(2, 6, 3, 2, dtype=torch.float64)
W3, B3, W6, B6 = (torch.randn(size, dtype=torch.float64) for size in (3, 3, 6, 6))

CASES: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), [ROWS]),
    "layer_norm, affine": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [ROWS, W3, B3]),
    "layer_norm, weight": (lambda x, w: F.layer_norm(x, (3,), w), [ROWS, W3]),
    "layer_norm in between": (lambda x: F.layer_norm(x.sin(), (3,)).tanh(), [ROWS]),
    "group_norm": (lambda x: F.group_norm(x, 2), [IMAGES]),
    "group_norm, affine": (lambda x, w, b: F.group_norm(x, 2, w, b), [IMAGES, W6, B6]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [IMAGES]),
    "batch_norm, affine": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [IMAGES, W6, B6]),
    "instance_norm": (F.instance_norm, [IMAGES]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (3,), w), [ROWS, W3]),
    "softmax": (lambda x: x.softmax(-1), [ROWS]),
    "log_softmax": (lambda x: x.log_softmax(-1), [ROWS]),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 0])), [ROWS]),
    "var": (lambda x: x.var(-1), [ROWS]),
    "std": (lambda x: x.std(-1), [ROWS]),
    "logsumexp": (lambda x: x.logsumexp(-1), [ROWS]),
    "norm": (lambda x: x.norm(dim=-1), [ROWS]),
    "cumprod": (lambda x: x.cumprod(-1), [ROWS]),
    "cumsum": (lambda x: x.cumsum(-1) ** 3, [ROWS]),
    "linear": (lambda x, w, b: F.linear(x, w.expand(5, 3), b[0].expand(5)).tanh(), [ROWS, W3, B3]),
}


def second(f: Callable[..., Tensor], arguments: list[Tensor], wanted: list[bool]) -> list[Tensor | None]:
    """Of a function of the first gradients, those of the arguments that are ``wanted``."""
    xs = [x.detach().clone().requires_grad_(is_wanted) for x, is_wanted in zip(arguments, wanted, strict=True)]
    inputs = [x for x in xs if x.requires_grad]
    result = f(*xs)
    weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result)
    first = torch.autograd.grad((result * weights).sum(), inputs, create_graph=True)
    total = sum((g * g * torch.linspace(1, 3, g.numel(), dtype=g.dtype).view_as(g)).sum() for g in first)
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, inputs, allow_unused=True))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("first_only", [False, True])
def test_second_derivatives_on_the_host(name: str, first_only: bool) -> None:
    f, arguments = CASES[name]
    wanted = [True] + [not first_only] * (len(arguments) - 1)
    examples = tuple(x.clone().requires_grad_(is_wanted) for x, is_wanted in zip(arguments, wanted, strict=True))
    compiled = fxc.compile(f, examples, training=True, options={"target": "host"})
    if "group_norm" in name:
        with pytest.raises(RuntimeError, match="cannot be differentiated again"):
            second(compiled, arguments, wanted)
        return
    torch.testing.assert_close(second(compiled, arguments, wanted), second(f, arguments, wanted))


@pytest.mark.parametrize("name", ["layer_norm, affine", "batch_norm", "instance_norm", "softmax", "var", "cumprod"])
def test_numeric_second_derivatives(name: str) -> None:
    f, arguments = CASES[name]
    xs = tuple(x.clone().requires_grad_() for x in arguments)
    compiled = fxc.compile(f, xs, training=True, options={"target": "host"})
    assert torch.autograd.gradgradcheck(compiled, xs)
