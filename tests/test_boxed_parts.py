"""The backward that ``torch.compile`` runs releases each saved tensor after its last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from fxc.api import compile_graph
from fxc.frontends.import_fx import import_fx
from fxc.measure.peak import peak_bytes
from fxc.options import Options

SIZE = 512
BYTES = 4 * SIZE * SIZE


def function(saved: Tensor, weight: Tensor, unused: Tensor) -> tuple[Tensor, Tensor]:
    return (saved @ weight) @ weight, weight.sum()


def inputs() -> list[Any]:
    return [torch.rand(SIZE, SIZE) / SIZE, torch.rand(SIZE, SIZE) / SIZE, torch.rand(2)]


@pytest.fixture(scope="module")
def part() -> Callable[[list[Any]], Any]:
    return compile_graph(import_fx(make_fx(function)(*inputs())), Options(target="host"), boxed=True).boxed()


def test_an_input_is_released_after_its_last_use(part: Callable[[list[Any]], Any]) -> None:
    plain = inputs()
    torch.testing.assert_close(part(list(plain)), function(*plain))

    def call(*, held: bool) -> None:
        given = [each.clone() for each in plain]
        holder = list(given) if held else []
        part(given)
        assert given == [] and len(holder) == 3 * held

    held = peak_bytes(lambda: call(held=True))
    assert peak_bytes(lambda: call(held=False)) <= held - BYTES


def test_inputs_that_do_not_fit_run_as_a_graph(part: Callable[[list[Any]], Any]) -> None:
    given = inputs()
    given[0] = given[0].t()
    torch.testing.assert_close(part(list(given)), function(*given))


def test_grad_mode_is_restored(part: Callable[[list[Any]], Any]) -> None:
    saved, *rest = inputs()
    assert torch.is_grad_enabled() and not part([saved.requires_grad_(), *rest])[0].requires_grad
    assert torch.is_grad_enabled()


def test_a_graph_takes_the_list() -> None:
    given = inputs()
    part = compile_graph(import_fx(make_fx(function)(*given)), Options(target=None), boxed=True).boxed()
    torch.testing.assert_close(part(list(given)), function(*given))
