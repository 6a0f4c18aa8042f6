"""Calls that PyTorch's traces refuse, or record otherwise than eager executes them, and numbers of tensors as arguments."""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fxc
from fxc.errors import CaptureError, FallbackWarning


class Kind(enum.Enum):
    FIRST = 1


class Level(enum.IntEnum):
    ZERO = 0


ROWS, TWO = torch.linspace(-2, 3, 24).view(4, 6), torch.tensor(2)
MASK = torch.tensor([1, 0, 1, 0], dtype=torch.uint8)
IMAGE = torch.linspace(-1, 1, 72).view(1, 2, 6, 6)
convolution_backward, threshold_backward = torch.ops.aten.convolution_backward, torch.ops.aten.threshold_backward
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mask of uint8": (lambda x, m: x[m], (ROWS, MASK)),
    "mask of uint8, of columns": (lambda x, m: x[:, m] * 2, (ROWS.T, MASK)),
    "fill": (lambda x, v: (torch.full((3,), v.item()), x.masked_fill(x > 0, v.item())), (ROWS, TWO)),
    "comparison": (lambda x, v: (x * v.item() + v.item() ** 2, v.item() > 1), (ROWS, TWO)),
    "view": (lambda x, n: x.view(-1, n.item()) + 1, (ROWS, TWO)),
    "gradients of a convolution": (
        lambda g, x, w: convolution_backward(g, x, w, [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]),
        (torch.ones(1, 3, 4, 4), IMAGE, torch.linspace(-1, 1, 54).view(3, 2, 3, 3)),
    ),
    "threshold of integers": (lambda g, x: threshold_backward(g, x, 0), (ROWS[0], torch.arange(-2, 4))),
    "arange into a view": (lambda x: (torch.arange(3, out=x[:3]), x), (torch.zeros(6),)),
    "random": (lambda x: (torch.randn_like(x), torch.bernoulli(x.sigmoid()), torch.bernoulli(x, 0.3)), (ROWS,)),
    "enumeration": (lambda x: {"x": x * 2, "kind": Kind.FIRST, "level": Level.ZERO}, (ROWS,)),
}


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.clone() for arg in args)


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name: str) -> None:
    function, args = CALLS[name]
    compiled = fxc.compile(function, args, options={"fallback": False})
    found, expected = [], []
    for results, call in ((found, compiled), (expected, function)):
        torch.manual_seed(3)
        results.append(call(*_copied(args)))
    if name == "enumeration":
        assert (found[0].pop("kind"), found[0].pop("level")) == (expected[0].pop("kind"), expected[0].pop("level"))
    torch.testing.assert_close(found, expected)


def test_enumerations_are_saved_by_name() -> None:
    compiled = pickle.loads(pickle.dumps(fxc.compile(lambda x: (x * 2, Kind.FIRST, Level.ZERO), (ROWS,))))
    assert compiled(ROWS)[1:] == (Kind.FIRST, Level.ZERO)


@pytest.mark.parametrize("start", [0.0, 100.0])
def test_instance_norm_of_long_rows_in_half_precision_is_nearer_than_eager(start: float) -> None:
    torch.manual_seed(0)
    x = (torch.randn(1, 2, 70000) * 3 + start).half()
    exact = F.instance_norm(x.double())
    errors = [float((call(x) - exact).abs().max()) for call in (fxc.compile(F.instance_norm, (x,)), F.instance_norm)]
    assert errors[0] <= errors[1]


def _into(shape: Sequence[int], dtype: torch.dtype | None = None) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype)
        torch.mul(x, 2, out=out)
        return out + 1

    return call


def _maxima(x: torch.Tensor) -> Any:
    return torch.max(x, 0, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("call", [_into((0,)), _into((2, 2)), _into((24,)), _maxima])
@pytest.mark.filterwarnings("ignore:.*An output with one or more elements was resized")
def test_what_a_call_resizes_runs_in_parts(call: Callable[..., Any], training: bool) -> None:
    with pytest.raises(CaptureError, match="resizes the tensor that it writes to, which is not recorded"):
        fxc.compile(call, (ROWS,), training=training)
    torch._dynamo.reset()  # with which the shapes of the calls before would be free sizes
    with pytest.warns(FallbackWarning, match="resizes the tensor"):
        compiled = fxc.compile(call, (ROWS,), training=training, options={"fallback": True})
    torch.testing.assert_close(compiled(ROWS), call(ROWS))


def test_a_result_that_fits_is_written() -> None:
    call = _into((4, 6), torch.float64)
    torch.testing.assert_close(fxc.compile(call, (ROWS,))(ROWS), call(ROWS))


def test_an_error_of_the_model_itself_is_named() -> None:
    with pytest.raises(
        CaptureError, match=r"the model raises RuntimeError at these inputs: value cannot be converted to type int8_t"
    ):
        fxc.compile(
            lambda x: x.masked_fill(x > 0, float("inf")), (torch.arange(4, dtype=torch.int8),), options={"fallback": True}
        )


def _windows(x: torch.Tensor) -> torch.Tensor:
    x = x * 1
    torch._foreach_mul_([x[0:2], x[1:3]], 2.0)
    return x


def _swapped(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._foreach_add_([x[0], x[1]], [x[1], x[0]], alpha=2)
    return x


def _of_input(x: torch.Tensor) -> torch.Tensor:
    torch._foreach_mul_([x[:2], x[1:]], [2.0, 3.0])
    return x * 1


@pytest.mark.parametrize("function", [_windows, _swapped, _of_input])
def test_writes_to_lists_of_tensors_that_share_memory(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(1.0, 4.0)
    torch._dynamo.reset()
    compiled = [fxc.compile(function, (x.clone(),), training=training) for training in (False, True)]
    for each in (torch.compile(function, backend="fxc"), *compiled):
        torch.testing.assert_close(each(x.clone()), function(x.clone()))
