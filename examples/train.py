"""Trains a small GPT-2 and a small ConvNeXt, eagerly and through ``fxc.compile(training=True)``, and compares the losses.

    python examples/train.py [--steps 50] [--model gpt2] [--out build/train]

Both runs have one seed: the same weights, batches and dropout masks. What is left between the curves is float32's rounding.
"""

from __future__ import annotations

import copy
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fxc

MODELS = Path(__file__).parent / "models"
Batch = tuple[Tensor, Tensor]


def gpt2() -> tuple[nn.Module, Callable[[], Batch]]:
    """The next token of sequences where it depends on the two before; dropout is on."""
    model = runpy.run_path(str(MODELS / "gpt2.py"))["Model"](vocab=32, context=32, layers=4, width=64, heads=4, dropout=0.1)

    def batch() -> Batch:
        tokens = [torch.randint(32, (16,)), torch.randint(2, (16,))]
        for _ in range(31):
            tokens.append((tokens[-1] + 3 * (tokens[-2] % 4) + 1) % 32)
        sequence = torch.stack(tokens, 1)
        return sequence[:, :-1], sequence[:, 1:]

    return model, batch


def convnext() -> tuple[nn.Module, Callable[[], Batch]]:
    """The class of an image: a pattern under noise. Stochastic depth is on."""
    options = {"depths": (2, 2), "dims": (16, 32), "classes": 10, "drop_path": 0.1, "layer_scale": 0.5}
    model = runpy.run_path(str(MODELS / "convnext.py"))["Model"](**options)
    patterns = torch.randn(10, 3, 32, 32)

    def batch() -> Batch:
        classes = torch.randint(10, (16,))
        return patterns[classes] + torch.randn(16, 3, 32, 32), classes

    return model, batch


TASKS: dict[str, Callable[[], tuple[nn.Module, Callable[[], Batch]]]] = {"gpt2": gpt2, "convnext": convnext}


def train(model: nn.Module, forward: Callable[[Tensor], Any], batches: list[Batch]) -> list[float]:
    """The loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = list[float]()
    torch.manual_seed(1)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = cross_entropy(forward(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def show(eager: list[float], compiled: list[float]) -> None:
    """Ten rows of the curves, and how far apart they are."""
    print(f"{'step':>6} {'eager':>10} {'fxc':>10} {'difference':>12}")
    for step in sorted({round(i * (len(eager) - 1) / 9) for i in range(10)}):
        print(f"{step:6} {eager[step]:10.5f} {compiled[step]:10.5f} {compiled[step] - eager[step]:12.1e}")
    print(f"largest difference: {max(abs(a - b) for a, b in zip(eager, compiled, strict=True)):.1e}\n")


def plot(name: str, eager: list[float], compiled: list[float], path: Path) -> bool:
    """Writes both curves, and their difference below them; False where there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    above.plot(eager, label="eager", linewidth=3, alpha=0.5)
    above.plot(compiled, label="fxc", linewidth=1, color="black")
    above.set(title=f"{name}: AdamW, one seed", ylabel="loss")
    above.legend()
    below.plot([b - a for a, b in zip(eager, compiled, strict=True)])
    below.set(xlabel="step", ylabel="fxc - eager")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return True


@click.command()
@click.option("--steps", default=50, type=click.IntRange(1), show_default=True, help="steps of AdamW")
@click.option("--model", "models", multiple=True, type=click.Choice(list(TASKS)), help="may be repeated  [default: all]")
@click.option(
    "--out", default=Path("build/train"), type=click.Path(path_type=Path), show_default=True, help="folder of the plots"
)
def main(steps: int, models: tuple[str, ...], out: Path) -> None:
    """Trains small models eagerly and compiled, and compares the losses."""
    for name in models or TASKS:
        torch.manual_seed(0)
        model, batch = TASKS[name]()
        batches = [batch() for _ in range(steps)]
        twin = copy.deepcopy(model)
        compiled = fxc.compile(model, batches[0][:1], training=True)
        losses = train(twin, twin, batches), train(model, compiled, batches)
        print(f"{name}, {compiled.plan.stats.subgraph_calls} differentiable subgraphs")
        show(*losses)
        path = out / f"{name}.png"
        if plot(name, *losses, path):
            print(f"wrote {path}\n")
        else:
            print('no plot: matplotlib is missing, get it with pip install "fxc[examples]" or pip install matplotlib\n')


if __name__ == "__main__":
    main()
