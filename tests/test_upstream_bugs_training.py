"""Programs whose results or gradients rewrites of PyTorch have got wrong, trained through both entry points.

The numbers are those of the list in ``pass_semantics``: PyTorch's issues, and defects found in PyTorch 2.13. Where a program
is an example of one pass, its test is in the lit file of the pass: loops in ``unroll_loops.mlir`` and ``dce.mlir``, undefined
gradients in ``specialize_autograd_zero.mlir``, blocks in ``cse_blocks.mlir``; keys of the plan cache in ``test_plan_cache.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import fxc

Function = Callable[..., Any]
Compile = Callable[..., Function]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


def by_fxc(function: Function, inputs: tuple[Any, ...]) -> Function:
    return fxc.compile(function, inputs, training=True)


def by_torch(function: Function, inputs: tuple[Any, ...], **options: Any) -> Function:
    return torch.compile(function, backend="fxc", **({"options": options} if options else {}))


BOTH = pytest.mark.parametrize("way", [by_fxc, by_torch])


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def step(function: Function, inputs: tuple[Any, ...], seed: int = 1) -> tuple[Any, list[Tensor | None]]:
    """Results and gradients at copies of ``inputs``. Each element has another weight in the loss."""
    copies = [each.detach().clone().requires_grad_(each.requires_grad) for each in inputs]
    torch.manual_seed(seed)
    results = function(*copies)
    floats = [each for each in tree_leaves(results) if each.requires_grad]
    sum((each * torch.linspace(0.5, 1.5, each.numel()).view(each.shape)).sum() for each in floats).backward()
    return results, [each.grad for each in copies]


def trains(way: Compile, function: Function, *inputs: Tensor, **options: Any) -> None:
    """The compiled function has the results and gradients of eager mode, at the first call and the second."""
    compiled, expected = way(function, inputs, **options), step(function, inputs)
    for _ in range(2):
        assert_close(step(compiled, inputs), expected)


# common subexpressions, constants, views


@BOTH
def test_equal_results_are_two_tensors(way: Compile) -> None:
    """pytorch#18500, 19576: the caller may write one of them."""
    x = torch.randn(4)
    compiled = way(lambda x: (x.sin(), x.sin(), torch.ones(3), torch.ones(3)), (x,))
    first, second, ones, others = compiled(x)
    first.zero_()
    ones.zero_()
    assert_close(second, x.sin())
    assert_close(others, torch.ones(3))
    assert_close(compiled(x)[2], torch.ones(3), msg="pytorch#106128: a constant is shared by calls")


@BOTH
def test_equal_operators_around_a_write(way: Compile) -> None:
    """pytorch#18491: a subgraph that is differentiated does not merge what a write outside of it separates."""

    def function(x: Tensor) -> Tensor:
        y = x * 2
        before = y * 3
        y.add_(1)
        return before.sin() * (y * 3).cos()

    trains(way, function, leaf(4))


@pytest.mark.slow
@BOTH
def test_gradients_of_broadcasts(way: Compile) -> None:
    """pytorch#13669, 30936: gradients are summed over broadcast dimensions, and have the rank of their operand."""
    trains(way, lambda a, b: a * b + b.sigmoid() * a, leaf(3, 1, 4), leaf(2, 1))
    trains(way, lambda a, b: torch.where(a > b, a, b).sin(), leaf(3, 4), leaf(1))
    trains(way, lambda a, b: (a @ b).sin(), leaf(4), leaf(3, 4, 2))
    trains(way, lambda a, b: (a @ b).sin(), leaf(2, 3, 4), leaf(4))
    trains(way, lambda a, b: (a @ b).exp(), leaf(4), leaf(4))
    trains(way, lambda a: a.squeeze().sin() * a.squeeze(0).cos().sum(), leaf(1, 1, 3))


@BOTH
def test_results_that_are_views(way: Compile) -> None:
    """pytorch#42027, 67732, 20734: views of results, of one another and of inputs have their gradients."""

    def of_results(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.tanh(x * 2)
        return y, y.t(), y.t()[0], y.view(-1)

    trains(way, of_results, leaf(3, 4))
    trains(way, lambda x: (x.t(), x.t().sin(), x.view(2, 6)), leaf(3, 4))
    trains(way, lambda x: torch.chunk(x.sin(), 2), leaf(4))


@pytest.mark.slow
@BOTH
def test_concatenations_and_chunks(way: Compile) -> None:
    """pytorch#10456, 14483, 12290, 14055: concatenations do not broadcast, and chunks may be broadcast or uneven."""

    def of_itself(x: Tensor, y: Tensor) -> Tensor:
        whole = torch.cat([x.sin(), y.cos()])
        return torch.cat([whole * 2, whole[:1] * x[:1]]).exp()

    def chunked(x: Tensor, y: Tensor) -> Tensor:
        first, second = (x * y).sigmoid().chunk(2, 1)
        return first * second.tanh()

    def uneven(x: Tensor) -> Tensor:
        parts = x.sin().chunk(3)
        return torch.cat([part.exp() * 2 for part in parts]) + parts[-1].sum()

    trains(way, of_itself, leaf(1, 3), leaf(4, 3))
    trains(way, chunked, leaf(3, 4), leaf(3, 1))
    trains(way, chunked, leaf(3, 4), leaf(4))
    trains(way, uneven, leaf(7))


@BOTH
def test_sums_of_products(way: Compile) -> None:
    """pytorch#64955, 44565: operands that are written between products; and factors of their sums."""

    def function(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        total = torch.add(a @ b + a @ c, a @ b, alpha=3)
        return total + (b.t() @ a.t()).t() + a @ c

    def written(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        total = a @ b
        a.mul_(2)
        return total + a @ b + a @ c + (b.t() @ a.t()).t()

    inputs = torch.randn(3, 4), torch.randn(4, 5), torch.randn(4, 5)
    trains(way, function, *(each.requires_grad_() for each in inputs))
    with torch.no_grad():
        first, second = inputs[0].clone(), inputs[0].clone()
        assert_close(way(written, (first.clone(), *inputs[1:]))(first, *inputs[1:]), written(second, *inputs[1:]))
        assert_close(first, second)


@BOTH
def test_gradients_of_lists_and_results_without_one(way: Compile) -> None:
    """A list may hold a tensor twice, and results of integers take no gradient."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values, positions = torch.cat([x, x, y * 2]).sort()
        return torch.stack([values, values]).sin(), positions, values.max(0).values

    trains(way, function, leaf(3), leaf(4))


# attention


def test_masks_of_attention() -> None:
    """pytorch#195782, 196118, 100619: masks are found on both sides, and their numbers are not rounded."""
    q, k, v = (torch.randn(2, 2, 4, 8) for _ in range(3))
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), torch.finfo(torch.float32).min)

    def after(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-2, -1) * 0.25 + mask, -1) @ v

    def before(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(mask + q @ k.transpose(-2, -1) * 0.25, -1) @ v

    def wide(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax((q @ k.transpose(-2, -1)).float() * 0.25 + mask, -1).half() @ v

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.25)

    examples = q, k, v, torch.randn(4, 4)
    with fxc.register_pattern(after, attention, examples, same_strides=False, special_values=False, name="masked"):
        for function in (after, before):
            compiled = fxc.compile(function, (q, k, v, mask), options={"target": None})
            assert "scaled_dot_product_attention" in str(compiled.ir)
            assert_close(compiled(q, k, v, mask), function(q, k, v, mask))
        halves = q.half(), k.half(), v.half(), mask
        assert_close(fxc.compile(wide, halves)(*halves), wide(*halves))


# random operators


def dropped(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(3):
        x = F.dropout(torch.tanh(x @ w), 0.5)
    return x.sin()


@pytest.mark.parametrize("budget", [0.0, 0.3, 1.0])
def test_random_numbers_under_a_memory_budget(budget: float) -> None:
    """pytorch#190758: the backward has the masks of the forward."""
    x, w = leaf(16, 16), leaf(16, 16)
    compiled = by_torch(lambda x, w: F.dropout(x @ w, 0.5) * 1.0, (x, w), memory_budget=budget)
    result, (gradient, _) = step(compiled, (x, torch.eye(16)))
    assert gradient is not None and torch.equal(gradient == 0, result == 0)
    trains(by_torch, dropped, x, w, memory_budget=budget)


def test_random_numbers_that_the_backward_does_not_read() -> None:
    """pytorch#172730, 143431, 144319: they are sampled once, also where nothing reads them, so later ones are eager's."""

    def noisy(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = checkpoint(lambda x: torch.tanh(x @ w) + torch.rand_like(x), x, use_reentrant=False)
        return y, torch.rand(3)

    def unread(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        torch.rand(3)
        y = torch.tanh(x @ w)
        torch.rand_like(x)
        return y, torch.rand(3)

    trains(by_torch, noisy, leaf(4, 4), leaf(4, 4))
    trains(by_fxc, unread, leaf(4, 4), leaf(4, 4))


@BOTH
def test_two_random_results_are_different(way: Compile) -> None:
    """Defects of PyTorch 2.13: functional samplers are merged, and so are 0.0 and -0.0."""
    x = torch.rand(64)
    compiled = way(lambda x: (torch.rand_like(x), torch.rand_like(x), torch.full((1,), 0.0), torch.full((1,), -0.0)), (x,))
    first, second, plus, minus = compiled(x)
    assert not torch.equal(first, second) and not plus.signbit() and minus.signbit()


# what the forward saves


def test_a_saved_tensor_that_is_a_gradient() -> None:
    """pytorch#114970: the gradient of a product with a number is a tensor of the forward."""
    trains(by_torch, lambda x, y: ((z := x.sin().exp()) * y, z), leaf(4), leaf(4))
    trains(by_torch, lambda x, y: (x.sin().exp() * y).sum(), leaf(4), leaf(4))


def test_a_result_of_several_that_must_be_saved() -> None:
    """pytorch#189723: marks of an operator with several results."""

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        several = operator in (torch.ops.aten.native_layer_norm.default, torch.ops.aten.max.dim)
        return CheckpointPolicy.MUST_SAVE if several else CheckpointPolicy.MUST_RECOMPUTE

    def inner(x: Tensor) -> Tensor:
        return torch.tanh(F.layer_norm(x, (4,)) * 2).max(1).values.sin()

    def function(x: Tensor) -> Tensor:
        contexts = partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(inner, x, use_reentrant=False, context_fn=contexts)

    trains(by_torch, function, leaf(3, 4))


def test_a_tensor_whose_size_alone_is_needed() -> None:
    """A tensor is not saved for its size, so it may be written."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        total = (x * 2).expand(y.shape[0], 4).sum() + x.sin().sum()
        y.zero_()
        return total

    trains(by_torch, function, leaf(4), torch.randn(3, 4))


def test_symbolic_sizes_and_random_states() -> None:
    """Symbolic sizes are the last results of the forward and the first arguments of the backward, also with a saved state."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        y = checkpoint(lambda x: F.dropout(torch.tanh(x @ w), 0.5), x, use_reentrant=False)
        return y.view(-1).sin() * x.shape[0] + y.mean()

    compiled = torch.compile(function, backend="fxc", dynamic=True)
    for batch in (3, 5, 7):
        inputs = leaf(batch, 4), leaf(4, 4)
        assert_close(step(compiled, inputs), step(function, inputs))


# writes in place


@BOTH
def test_writes_in_place(way: Compile) -> None:
    """pytorch#188084, 198096, 184543, 133249: overlapping views, views of what is written, and what is written twice."""
    x = torch.randn(4)

    def overlapping(x: Tensor) -> tuple[Tensor, Tensor]:
        wide = x.expand(3, 4)
        return wide + 1, x.add_(2)

    def other_value(x: Tensor) -> Tensor:
        y = x.sin()
        x.copy_(y + 1)
        return y.mul_(2) + x

    def through_views(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        y[1:].mul_(y[:-1] + 1)
        y.view(2, 2)[0].add_(y[2:])
        return y, x.mul_(y)

    def scattered(x: Tensor) -> Tensor:
        y = x.clone()
        y.index_put_((torch.tensor([0, 2]),), y[1:3] * 2)
        x[1:] = y[:-1]
        return y + x

    for function in (overlapping, other_value, through_views, scattered):
        mine, theirs = x.clone(), x.clone()
        torch._dynamo.reset()
        assert_close(way(function, (x.clone(),))(mine), function(theirs))
        assert_close(mine, theirs)
