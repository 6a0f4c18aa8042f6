"""The defaults that users set for new tensors are not those of fxc's own: memory, masks and interpreters stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc
from fxc.errors import InputError
from fxc.export.host import host_program
from fxc.program.execute import execute


@pytest.fixture(params=["meta", torch.float64], ids=["device", "dtype"])
def _default(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tensors made without a device have no memory; made without a dtype, they are float64."""
    if isinstance(request.param, str):
        torch.set_default_device(request.param)
    else:
        torch.set_default_dtype(request.param)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        numbers = torch.linspace(-1, 2, 35, device="cpu", dtype=torch.float32).sin()
        self.weight, self.scale = nn.Parameter(numbers.view(7, 5)), nn.Parameter(numbers[:7].clone())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        product = nn.functional.layer_norm(nn.functional.linear(x, self.weight), (7,), self.scale)
        return product.softmax(-1), torch.where(x > 0, x, 2.0).cumsum(0), (x * 2).sum(0) + torch.arange(5, device="cpu")


ROUTES: dict[str, dict[str, Any]] = {
    "inference": {},
    "training": {"training": True},
    "frozen": {"options": {"freeze": True}},
    "free sizes": {"dynamic_shapes": ({0: torch.export.Dim("n")},)},
    "checked": {"options": {"check_numerics": "call"}},
}


def inputs() -> Tensor:
    return torch.arange(200, device="cpu").view(40, 5).sin().to(torch.float32)


@pytest.mark.share(2)
@pytest.mark.usefixtures("_default")
@pytest.mark.parametrize("arguments", ROUTES.values(), ids=ROUTES)
def test_compile(arguments: dict[str, Any]) -> None:
    model, x = Model(), inputs()
    torch.testing.assert_close(fxc.compile(model, (x,), **arguments)(x), model(x))


@pytest.mark.share(2)
@pytest.mark.usefixtures("_default")
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(dynamic: bool) -> None:
    torch._dynamo.reset()
    model, x = Model(), inputs()
    found, expected = torch.compile(model, backend="fxc", dynamic=dynamic)(x), model(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(sum(map(_total, y)), model.weight) for y in (found, expected)))


def _total(value: Tensor) -> Tensor:
    return value.square().sum()


@pytest.mark.usefixtures("_default")
def test_results_that_are_cached_in_memory_of_the_process() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.relu() + 1, (x * 2).softmax(-1).sum(0)

    x = torch.arange(600_000, device="cpu").view(600, 1000).to(torch.float32).sin()
    compiled = fxc.compile(f, (x,))
    for _ in range(3):
        torch.testing.assert_close(compiled(x), f(x))


LITERAL = """
func.func @main(%x: tensor<2xf32> {fx.kind = "input", fx.name = "x"}) -> !fx.value {
  %c = torch.constant([1, 2]) : tensor<2xi64, #torch.meta<device = "meta">>
  fx.output((%c,)) : (tensor<2xi64, #torch.meta<device = "meta">>) -> ()
}
"""


@pytest.mark.parametrize("run", [fxc.to_fx, host_program, lambda program: lambda x: execute(program, [x]).value])
def test_constants_are_on_the_device_of_their_type(run: Callable[[fxc.Program], Any]) -> None:
    made = run(fxc.Program.parse(LITERAL))
    [constant] = (made.main if hasattr(made, "main") else made)(torch.ones(2))
    assert constant.device.type == "meta" and constant.shape == (2,)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_constants_of_a_device_that_is_not_here() -> None:
    """The graph can be read; what runs is an error that names the device."""
    program = fxc.Program.parse(LITERAL.replace('"meta"', '"cuda:0"'))
    assert "_tensor_constant0" in fxc.to_fx(program).code
    with pytest.raises(InputError, match="no tensor can be made on cuda:0"):
        host_program(program)
    with pytest.raises(InputError, match="no tensor can be made on cuda:0"):
        execute(program, [torch.ones(2)])
