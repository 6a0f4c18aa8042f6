"""Trains ConvNeXt (or GPT-2) on several ranks, with checkpoints, and compares each loss with eager mode's and one process's.

    torchrun --nproc-per-node=4 examples/train_convnext.py --layout spatial
    torchrun --nproc-per-node=2 examples/train_convnext.py --model gpt2 --layout tensor-parallel
    torchrun --nproc-per-node=2 --max-restarts=3 examples/train_convnext.py --checkpoint build/run --kill-rank 1 --kill-step 7

The last one kills a rank: torchrun starts all of them again, and they go on from the last checkpoint with the same losses.
``--full`` is ConvNeXt of depths 3, 3, 27, 3 and widths 256 to 2048, for GPUs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from models import convnext, gpt2  # the folder beside this file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn.functional import cross_entropy

from fxc.distributed import LAYOUTS, Distributed, StackedColwiseParallel, process_group, tensor_parallel

BATCH, WIDTH, CONTEXT, VOCAB = 8, 512, 32, 64


def split_gpt2(model: Any, mesh: DeviceMesh) -> Distributed:
    """Heads and hidden units are divided among the ranks."""
    for block in model.blocks:
        block.attention.heads //= mesh.size()
    return tensor_parallel(model, mesh, {
        "blocks.*.attention.qkv": StackedColwiseParallel(3),
        "blocks.*.attention.project": RowwiseParallel(),
        "blocks.*.mlp.0": ColwiseParallel(),
        "blocks.*.mlp.2": RowwiseParallel(),
    })  # fmt: skip


def build(name: str, full: bool) -> nn.Module:
    torch.manual_seed(0)
    if name == "gpt2":
        return gpt2.Model(vocab=VOCAB, context=CONTEXT, layers=2, width=64, heads=4, dropout=0)
    sizes: dict[str, Any] = {"depths": (1, 1, 2, 1), "dims": (8, 16, 32, 64), "classes": 10}
    if full:
        sizes = {"depths": (3, 3, 27, 3), "dims": (256, 512, 1024, 2048), "classes": 1000}
    return convnext.Model(**sizes, drop_path=0, layer_scale=0.1)


def make_batch(name: str, step: int, device: str) -> tuple[Tensor, Tensor]:
    """The batch of a step: the same on every rank, whatever was run before."""
    random = torch.Generator().manual_seed(step)
    if name == "gpt2":
        tokens = torch.randint(VOCAB, (BATCH, CONTEXT + 1), generator=random)
        return tokens[:, :-1].to(device), tokens[:, 1:].to(device)
    classes = torch.randint(10, (BATCH,), generator=random)
    images = torch.randn(BATCH, 3, 64, WIDTH, generator=random) + classes.reshape(-1, 1, 1, 1) / 5
    return images.to(device), classes.to(device)


@dataclass
class Run:
    """A model that is trained, and where its batches lie; on one process where there is no layout."""

    model: nn.Module
    layout: Distributed | None = None
    compiled: bool = False

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loss: Callable[[Tensor, Tensor], Tensor] = self._loss
        if self.compiled:
            self.loss = torch.compile(self._loss, backend="fxc", fullgraph=True)

    def _loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten())

    def step(self, inputs: Tensor, targets: Tensor) -> float:
        if self.layout:
            inputs, targets = self.layout.place(inputs, targets)
        loss = self.loss(inputs, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return self.layout.mean(loss) if self.layout else loss.item()

    def save(self, folder: Path) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)

    def load(self, folder: Path) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)


def last_checkpoint(folder: Path | None) -> tuple[int, Path | None]:
    """The steps that the newest complete checkpoint has seen; its file of metadata is written last."""
    found = sorted(folder.glob("step-*/.metadata")) if folder else []
    return (int(found[-1].parent.name.removeprefix("step-")), found[-1].parent) if found else (0, None)


@record  # torchrun prints the error of the first rank that fails
@click.command()
@click.option("--model", "name", default="convnext", type=click.Choice(["convnext", "gpt2"]), show_default=True)
@click.option("--layout", default="data-parallel", type=click.Choice([*LAYOUTS, "tensor-parallel"]), show_default=True)
@click.option("--full", is_flag=True, help="the large ConvNeXt, without the runs that it is compared with")
@click.option("--steps", default=20, type=click.IntRange(1), show_default=True)
@click.option("--compile/--no-compile", "compiled", default=True, show_default=True, help='by torch.compile(backend="fxc")')
@click.option("--checkpoint", type=click.Path(path_type=Path), help="folder: go on from its last checkpoint, and write more")
@click.option("--save-every", default=5, type=click.IntRange(1), show_default=True, help="steps")
@click.option("--timeout", default=300.0, show_default=True, help="seconds after which a collective fails")
@click.option("--kill-rank", type=int, help="this rank ends by SIGKILL, where there was no checkpoint")
@click.option("--kill-step", default=7, show_default=True, help="before this step")
def main(
    name: str,
    layout: str,
    full: bool,
    steps: int,
    compiled: bool,
    checkpoint: Path | None,
    save_every: int,
    timeout: float,
    kill_rank: int | None,
    kill_step: int,
) -> None:
    """Trains a small model on the ranks that torchrun starts, and compares the losses."""
    if (layout == "tensor-parallel") != (name == "gpt2"):
        raise click.UsageError("--layout=tensor-parallel is for --model=gpt2 and the others for --model=convnext")
    distribute = split_gpt2 if name == "gpt2" else LAYOUTS[layout]
    torch.set_num_threads(1)
    with process_group(timeout) as mesh:
        rank, runs = dist.get_rank(), dict[str, Run]()
        for title in ["fxc" if compiled else "layout", *(["eager"] if compiled and not full else [])]:
            placed = distribute(build(name, full).to(mesh.device_type), mesh)
            runs[title] = Run(placed.model, placed, compiled=title == "fxc")
        if rank == 0 and not full:
            runs["one process"] = Run(build(name, full).to(mesh.device_type))
        trained, *compared = runs.values()
        first, saved = last_checkpoint(checkpoint)
        if saved:
            trained.load(saved)
            click.echo(f"rank {rank}: goes on from step {first}, {saved}")
        if rank == 0:
            click.echo(f"{name}, {layout}, {mesh.size()} ranks\n  step" + "".join(f"{title:>14}" for title in runs))
        worst = 0.0
        for step in range(steps):
            batch = make_batch(name, step, mesh.device_type)
            if step < first:  # the runs to compare with begin at the first step
                for run in compared:
                    run.step(*batch)
                continue
            if rank == kill_rank and step == kill_step and not saved:
                os.kill(os.getpid(), signal.SIGKILL)
            losses = [run.step(*batch) for run in runs.values()]
            worst = max([worst, *(abs(loss / losses[0] - 1) for loss in losses)])
            if rank == 0:
                click.echo(f"{step:6}" + "".join(f"{loss:14.6f}" for loss in losses))
            if checkpoint and (step + 1) % save_every == 0:
                trained.save(checkpoint / f"step-{step + 1:06}")
        if rank == 0:
            click.echo(f"largest relative difference: {worst:.1e}")
        if worst > 1e-3:
            sys.exit(f"rank {rank}: the losses differ")


if __name__ == "__main__":
    main()
