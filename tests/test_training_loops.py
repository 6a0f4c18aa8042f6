"""Training loops through both routes, as they are written: 20 steps have eager's losses, and end with its parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

import fxc
from tests.recorded_plans import recorded

STEPS = 20
ROUTES = ("fxc.compile", "torch.compile")


class Block(nn.Module):
    def __init__(self, width: int = 16, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.Linear(width, 3 * width, bias=False)
        self.feed = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.attention(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return x + self.feed(x)


class Model(nn.Module):
    """A small language model whose blocks may be checkpointed."""

    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.words, self.head, self.blocks = nn.Embedding(11, 16), nn.Linear(16, 11), nn.ModuleList([Block(), Block()])
        self.checkpointed = checkpointed

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(11, (3, 9), generator=generator) for _ in range(STEPS)]


def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


Call = Callable[..., Any]
Compile = Callable[..., Any]


def scheduled(model: nn.Module, call: Call, compile: Compile) -> list[Any]:
    """AdamW on groups, clipped gradients, warm-up and cosine schedules, and a moving average of the weights."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 5),
        ],
        milestones=[5],
    )
    average, losses = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)), list[Any]()
    for ids in batches():
        loss = loss_of(call(ids), ids)
        loss.backward()
        losses += [loss.detach(), nn.utils.clip_grad_norm_(model.parameters(), 0.5)]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        average.update_parameters(model)
    return [losses, list(average.module.parameters())]


def accumulated(model: nn.Module, call: Call, compile: Compile, parts: int = 4) -> list[Any]:
    """Gradients of several batches for each step of SGD."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), list[Tensor]()
    for i, ids in enumerate(batches(), 1):
        loss = loss_of(call(ids), ids) / parts
        loss.backward()
        losses.append(loss.detach())
        if i % parts == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i % 2 == 0)
    return losses


def mixed(model: nn.Module, call: Call, compile: Compile) -> list[Any]:
    """The forward under autocast, which needs no scaled gradients in bfloat16."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), list[Tensor]()
    for ids in batches():
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(call(ids), ids)
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def compiled_step(model: nn.Module, call: Call, compile: Compile) -> list[Any]:
    """The optimizer step is compiled, with a learning rate in a tensor that a schedule writes."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2))
    schedule, losses = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), list[Tensor]()
    step = compile(optimizer.step)
    for ids in batches():
        loss = loss_of(call(ids), ids)
        loss.backward()
        losses.append(loss.detach())
        step()
        schedule.step()
        optimizer.zero_grad()
    return losses


LOOPS = {loop.__name__: loop for loop in (scheduled, accumulated, mixed, compiled_step)}


def trained(loop: Any, route: str, checkpointed: bool) -> tuple[Any, nn.Module, int]:
    """What the loop returns, the model after it, and how many plans were made."""
    torch.manual_seed(0)
    model = Model(checkpointed)
    call: Call = model
    with recorded() as plans:
        if route == "torch.compile":
            call = torch.compile(model, backend="fxc")
        elif route == "fxc.compile":
            with torch.autocast("cpu", torch.bfloat16, enabled=loop is mixed):
                call = fxc.compile(model, (batches()[0],), training=True)
        compile = (lambda step: step) if route == "eager" else partial(torch.compile, backend="fxc")
        torch.manual_seed(2)
        return loop(model, call, compile), model, len(plans)


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("checkpointed", [False, True], ids=["saved", "checkpointed"])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("route", ROUTES)
def test_losses_are_those_of_eager(route: str, loop: str, checkpointed: bool) -> None:
    actual, model, plans = trained(LOOPS[loop], route, checkpointed)
    expected, twin, _ = trained(LOOPS[loop], "eager", checkpointed)
    exact = {} if loop != "mixed" else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(actual, expected, **exact)
    if not exact:
        torch.testing.assert_close(dict(model.named_parameters()), dict(twin.named_parameters()), rtol=1e-4, atol=1e-5)
    assert plans <= 2 + 2 * (loop == "compiled_step")  # forward and backward; the first optimizer step makes its state


def per_sample(model: nn.Module, weights: dict[str, Tensor], ids: Tensor) -> Any:
    """A gradient for each sample, as for differential privacy."""

    def loss(weights: dict[str, Tensor], ids: Tensor) -> Tensor:
        return loss_of(torch.func.functional_call(model, weights, (ids[None],)), ids[None])

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, ids)


def directional(model: nn.Module, weights: dict[str, Tensor], ids: Tensor) -> Any:
    """The loss and its derivative along the weights, in forward mode."""

    def loss(weights: dict[str, Tensor]) -> Tensor:
        logits = torch.func.functional_call(model, weights, (ids,))
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())

    return torch.func.jvp(loss, (weights,), (weights,))


def learned(model: nn.Module, weights: dict[str, Tensor], ids: Tensor) -> Any:
    """The gradient after a step of an inner loop, as in meta-learning."""

    def inner(weights: dict[str, Tensor], ids: Tensor) -> Tensor:
        return loss_of(torch.func.functional_call(model, weights, (ids,)), ids)

    def outer(weights: dict[str, Tensor]) -> Tensor:
        gradients = torch.func.grad(inner)(weights, ids)
        return inner({name: value - 0.1 * gradients[name] for name, value in weights.items()}, ids.flip(0))

    return torch.func.grad_and_value(outer)(weights)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("transformed", [per_sample, directional, learned])
@pytest.mark.parametrize("route", ROUTES)
def test_transforms_of_functions(route: str, transformed: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 11))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    run = partial(transformed, copy.deepcopy(model))
    ids, *others = batches()
    if route == "torch.compile":
        compiled = torch.compile(run, backend="fxc")
    else:
        compiled = fxc.compile(run, (weights, ids))
    for each in (ids, others[0]):
        torch.testing.assert_close(compiled(weights, each), run(weights, each), rtol=1e-4, atol=1e-5)
