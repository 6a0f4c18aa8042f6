"""Tensors of classes whose Python code the operators of a model run: not one program, and never a program of plain tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError

PARTS = {"fallback": True}
ONES = torch.ones(3)


class Marked(torch.Tensor):
    scale = 3.0

    def twice(self) -> torch.Tensor:
        return self * 2


class Subtracting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(torch.sub if func is torch.add else func, types, args, kwargs or {})


class Scaling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 10 if func is torch.Tensor.sin else result


MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[], torch.Tensor]]] = {
    "a branch by class": (lambda x: x.sin() if isinstance(x, Marked) else x.cos(), lambda: ONES.as_subclass(Marked)),
    "methods of the class": (lambda x: x.twice() * x.scale, lambda: ONES.as_subclass(Marked)),
    "a function of the class": (lambda x: x.sin(), lambda: ONES.as_subclass(Scaling)),
    "a tensor of tensors": (lambda x: x.sin(), lambda: TwoTensor(ONES, ONES * 2)),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("case", MODELS)
def test_inputs_of_a_class_run_as_in_eager(case: str, training: bool) -> None:
    model, make = MODELS[case]
    with pytest.warns(FallbackWarning, match="an input is a tensor of the class"):
        compiled = fxc.compile(model, (make(),), training=training, options=PARTS)
    actual, expected = compiled(make()), model(make())
    torch.testing.assert_close(getattr(actual, "b", actual), getattr(expected, "b", expected), check_dtype=True)


def test_a_class_that_dynamo_cannot_follow_is_refused() -> None:
    x = ONES.as_subclass(Subtracting)
    with pytest.raises(CaptureError, match="of the class Subtracting") as caught:
        fxc.compile(lambda x: torch.add(x, 1), (x,), options=PARTS)
    assert ".as_subclass(torch.Tensor)" in (caught.value.hint or "")


def test_a_call_with_a_class_that_changes_functions_is_refused() -> None:
    compiled = fxc.compile(lambda x: torch.add(x, 1), (ONES,))
    with pytest.raises(InputError, match="is of the class Subtracting, whose __torch_function__"):
        compiled(ONES.as_subclass(Subtracting))
    torch.testing.assert_close(compiled(ONES.as_subclass(Marked)).as_subclass(torch.Tensor), ONES + 1)


def test_a_nested_tensor_that_the_model_makes() -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor([a, b], layout=torch.jagged) * 2

    args = torch.ones(2, 3), torch.ones(4, 3)
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(model, args, options=PARTS)
    torch.testing.assert_close(compiled(*args).values(), model(*args).values())


def test_a_lazy_module_is_called_once_before() -> None:
    model = nn.Sequential(nn.LazyLinear(4))
    with pytest.raises(InputError, match="parameters without a shape") as caught:
        fxc.compile(model, (torch.ones(1, 2),))
    assert caught.value.hint == "call the model once before"
    model(torch.ones(1, 2))
    torch.testing.assert_close(fxc.compile(model, (torch.ones(1, 2),))(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_scalars_of_numpy_that_are_numbers_of_python() -> None:
    compiled = fxc.compile(lambda x, a: x * a, (ONES, np.float64(2.5)))
    assert compiled(ONES, np.float64(2.5)).equal(ONES * 2.5) and compiled(ONES, 2.5).equal(ONES * 2.5)
    with pytest.raises(InputError, match="was baked in"):
        compiled(ONES, np.float64(3.5))
