"""What is asked of PyTorch at one size is asked at others, and what differs becomes a condition of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64

from fxc.bridge.tensors import FakeWorld
from fxc.dialects.attributes.types import IntType, conditions_of
from fxc.dialects.semantics import CannotInfer
from fxc.errors import CaptureError
from fxc.semantics.any_sizes import traced_for_any_sizes, traced_under_conditions


@pytest.mark.parametrize("limit", [1, 2, 11, 30, 1000])
def test_what_is_asked_of_a_size_is_asked_of_others(limit: int) -> None:
    seen = list[int]()

    def trace(world: FakeWorld) -> str:
        size = world.fake(IntType(StringAttr("s0")))
        with world.active():
            seen.append(size.node.hint)
            return "above" if size > limit else "below"

    with pytest.raises(CannotInfer, match="sizes that are not known"):
        traced_for_any_sizes(trace, FakeWorld(_SYMBOLS), _SYMBOLS)
    assert min(seen) <= limit < max(seen)
    module = ModuleOp([])
    assert traced_under_conditions(trace, _SYMBOLS, module) == ("above" if limit < 16 else "below")
    assert len(conditions_of(module)) == 1


@pytest.mark.parametrize("fault", [TypeError, KeyError, AttributeError, AssertionError, ValueError])
def test_a_fault_at_other_sizes_is_no_refusal(fault: type[Exception]) -> None:
    ours: dict[str, Any] = {"__name__": "fxc.rule"}
    exec("def rule(fault): raise fault", ours)

    def trace(world: FakeWorld) -> str:
        with world.active():
            if world.fake(IntType(StringAttr("s0"))) > 11:
                return "above"
        return ours["rule"](fault)

    for ask in (lambda: traced_for_any_sizes(trace, FakeWorld(_SYMBOLS), _SYMBOLS), lambda: _conditions(trace)):
        with pytest.raises(fault):
            ask()


def test_sizes_that_operators_refuse_give_no_other_answer() -> None:
    def trace(world: FakeWorld) -> str:
        with world.active():
            x = torch.empty(world.fake(IntType(StringAttr("s0"))), 3)
            x[12].sin()
        return "an answer"

    assert traced_for_any_sizes(trace, FakeWorld(_SYMBOLS), _SYMBOLS) == "an answer"


def test_where_a_rule_of_ours_cannot_tell_a_size_is_excluded() -> None:
    def trace(world: FakeWorld) -> str:
        with world.active():
            if world.fake(IntType(StringAttr("s0"))) > 11:
                return "above"
        raise CaptureError("not for these")

    with pytest.raises(CannotInfer, match="where s0 is 0 is unknown: CaptureError: not for these"):
        traced_for_any_sizes(trace, FakeWorld(_SYMBOLS), _SYMBOLS)
    assert _conditions(trace) == ("s0 > 11",)


_SYMBOLS = DictionaryAttr({"s0": DictionaryAttr({"hint": IntegerAttr(16, i64), "min": IntegerAttr(0, i64)})})


def _conditions(trace: Callable[[FakeWorld], str]) -> tuple[str, ...]:
    module = ModuleOp([])
    traced_under_conditions(trace, _SYMBOLS, module)
    return tuple(conditions_of(module))


NUMBERS: dict[str, Callable[..., Any]] = {
    "degrees of freedom": lambda x, n, one, none: (x.var(0, correction=n), x.std(1, correction=n) + 1),
    "an index without elements": lambda x, n, one, none: x[0, 0].gather(0, none).sum() + x * n,
    "parts whose sum is a size": lambda x, n, one, none: x.split_with_sizes([n - 2, one, x.shape[0] - n + 1]),
    "parts whose sum becomes a size": lambda x, n, one, none: x.split_with_sizes([one, n, one]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_integers_that_are_free(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(NUMBERS[name], backend="fxc", dynamic=True, options={"strict": True})
    for size in (5, 7, 4):
        inputs = torch.randn(size, size, size), size - 2, 1, torch.empty(size, 0, dtype=torch.int64)
        torch.testing.assert_close(compiled(*inputs), NUMBERS[name](*inputs))


@pytest.mark.slow
def test_sizes_that_only_the_forward_relates() -> None:
    """The sizes of scores and labels are equal, which the graph of the backward does not say."""

    def model(ids: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        following = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return torch.nn.functional.cross_entropy(weight[ids].view(-1, 6), following.view(-1))

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fxc")
    for sizes in ((2, 5), (3, 7), (4, 4)):
        ids, labels = torch.randint(0, 4, sizes), torch.randint(0, 6, sizes)
        weight = torch.randn(4, 6, requires_grad=True)
        (actual,) = torch.autograd.grad(compiled(ids, weight, labels), weight)
        (expected,) = torch.autograd.grad(model(ids, weight, labels), weight)
        torch.testing.assert_close(actual, expected)
