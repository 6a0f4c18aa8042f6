"""How many kernels the models of the zoo become, and what goes through memory, beside what Inductor makes of the same graphs.

    python benchmarks/kernel_counts.py [--models gpt2,vit] [--modes inference,training] [--target host]

Small models, captured by torch.compile with AOTAutograd: the graph for inference, and in training those of the forward and the
backward, as Inductor gets them (its decompositions, its partitioner), with PyTorch's own random operators in both. A kernel of
Inductor is a node of its scheduler after fusion; no code is made of it. A call is an operator of the library. ``ratio`` is of
kernels and calls together. ``own``: where fxc gets the graphs of its own backend, which nothing has taken apart. Bytes: what
each kernel and call reads and writes, tensors as a whole; ``eager`` is the same of all operators, one by one. Branches of
higher-order operators are not counted, on either side.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast
from unittest import mock

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._inductor import config, ir
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode, Scheduler
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

import fxc
from fxc.compilation.passes import Passes
from fxc.dialects.base.effects import aliases
from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.options import Options
from fxc.program.program import Program

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import write_json

from tests.models.zoo import ZOO, load

PIPELINE = "lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"


@dataclass(frozen=True)
class Counts:
    """What a graph became."""

    kernels: int = 0
    calls: int = 0
    """Library calls: operators that are neither views nor in kernels."""
    bytes: int = 0

    @property
    def launches(self) -> int:
        return self.kernels + self.calls

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))


def counts_of(program: Program) -> Counts:
    """Of the IR: kernels that are launched, operators that are called, and the bytes of both."""
    functions = [op for op in program.module.ops if isinstance(op, FuncOp)]
    found = [op for function in functions for op in function.body.block.ops if _runs(op)]
    kernels = sum(isinstance(op, (LaunchOp, GroupOp)) for op in found)
    return Counts(kernels, len(found) - kernels, sum(map(_traffic, found)))


def _runs(op: Operation) -> bool:
    is_call = (
        isinstance(op, (TorchOp, HigherOrderOp))
        and not any(aliases(op))
        and any(isinstance(r.type, TensorType) for r in op.results)
    )
    return isinstance(op, (LaunchOp, GroupOp)) or (is_call and not isinstance(op, ConstantOp))


def _traffic(op: Operation) -> int:
    read = op.inputs() if isinstance(op, GroupOp) else dict.fromkeys(op.operands)
    return sum(map(bytes_of, (*read, *op.results)))


def bytes_of(value: SSAValue) -> int:
    if not isinstance(value.type, TensorType):
        return 0
    type = cast("TensorType[Attribute]", value.type)
    size = type.element_type.size if isinstance(type.element_type, FixedBitwidthType) else 0
    return math.prod(max(size, 1) for size in type.get_shape()) * size


def compiled(graph: GraphModule, target: str) -> tuple[Counts, Counts]:
    """``graph`` in kernels, and op by op."""
    program = fxc.import_fx(graph)
    eager = counts_of(fxc.run_passes(program, "lower-to-torch,dce"))
    Passes(PIPELINE, Options(target=target)).run(program)
    return counts_of(program), eager


class Scheduled(Exception):
    """Inductor's scheduler is done; nothing behind it is needed."""


def inductor_counts(graph: GraphModule, inputs: Sequence[Any], **options: Any) -> Counts:
    """What Inductor's scheduler makes of ``graph``."""
    schedules = list[Sequence[Any]]()

    def stop(scheduler: Scheduler) -> None:
        schedules.append(cast("list[Any]", scheduler.nodes).copy())
        raise Scheduled

    with mock.patch.object(Scheduler, "codegen", stop):
        try:
            compile_fx_inner(graph, inputs, **options)
        except Exception:
            if not schedules:
                raise
    kernels = calls = 0
    for node in schedules[0] if schedules else ():
        if isinstance(node, ExternKernelSchedulerNode):
            calls += not isinstance(node.node, ir.MultiOutput)
        else:
            kernels += not isinstance(node, NopKernelSchedulerNode)
    return Counts(kernels, calls)


@dataclass
class Graph:
    """A graph that AOTAutograd made, with what Inductor made of it where it was Inductor's."""

    part: str
    module: GraphModule
    inductor: Counts | None = None


def inductor_graphs(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[Graph]:
    """The graphs that Inductor gets of ``model``, the backward last."""
    found = list[Graph]()

    def record(graph: GraphModule, example: Sequence[Any], **options: Any) -> Any:
        kept = copy.deepcopy(graph)
        part = "backward" if options.get("is_backward") else "forward"
        found.append(Graph(part, kept, inductor_counts(graph, example, **options)))
        return make_boxed_func(kept.forward)

    def backend(graph: GraphModule, example: Sequence[Any]) -> Any:
        return compile_fx(graph, example, inner_compile=record)

    with config.patch(force_disable_caches=True, fallback_random=True):
        _step(model, inputs, backend)
    return found


def own_graphs(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[Graph]:
    """The graphs that ``torch.compile(backend="fxc")`` gets of ``model``, the backward last."""
    found = list[Graph]()

    def record(part: str) -> Callable[..., Any]:
        def keep(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            found.append(Graph(part, copy.deepcopy(graph)))
            return make_boxed_func(graph.forward)

        return keep

    _step(model, inputs, aot_autograd(fw_compiler=record("forward"), bw_compiler=record("backward")))
    return found


def _step(model: torch.nn.Module, inputs: tuple[Any, ...], backend: Callable[..., Any]) -> None:
    """One call of ``model``, with the backward where it trains."""
    torch.compiler.reset()
    with warnings.catch_warnings(), torch.set_grad_enabled(model.training), dynamo_config.patch(allow_rnn=True):
        warnings.simplefilter("ignore")
        result = torch.compile(model, backend=backend)(*inputs)
        if model.training:
            leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            torch.stack([(leaf * leaf).sum() for leaf in leaves]).sum().backward()
    torch.compiler.reset()


@dataclass
class Row:
    """A line of the table."""

    name: str
    fxc: Counts = Counts()
    eager: Counts = Counts()
    own: Counts = Counts()
    inductor: Counts = Counts()

    def text(self) -> str:
        share = self.fxc.bytes / max(self.eager.bytes, 1)
        ratio = self.fxc.launches / max(self.inductor.launches, 1)
        counts = (f"{counts.kernels} + {counts.calls}" for counts in (self.fxc, self.inductor, self.own))
        return f"| {' | '.join([self.name, *counts, f'{ratio:.2f}', f'{share:.2f}'])} |"


def rows(name: str, modes: Sequence[str], target: str) -> Iterator[Row]:
    """The lines of a model: inference, and forward and backward of training."""
    for mode in modes:
        model, inputs = load(name)
        model.train(mode == "training")
        parts = dict[str, Row]()
        for graph in inductor_graphs(model, inputs):
            row = parts.setdefault(graph.part, Row(f"{name}, {graph.part if mode == 'training' else mode}"))
            kernels, eager = compiled(graph.module, target)
            row.fxc, row.eager, row.inductor = row.fxc + kernels, row.eager + eager, row.inductor + (graph.inductor or Counts())
        for graph in own_graphs(model, inputs):
            parts[graph.part].own += compiled(graph.module, target)[0]
        yield from parts.values()


HEADER = ("graph", "fxc: kernels + calls", "Inductor", "fxc, own graphs", "ratio", "bytes / eager")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=",".join(sorted(ZOO)), help="names of the zoo")
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--target", default="host", help="the machine that fxc makes kernels for")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    found = list[Row]()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for name in options.models.split(","):
        for row in rows(name, options.modes.split(","), options.target):
            print(row.text(), flush=True)
            found.append(row)
    write_json(options.json, [asdict(row) for row in found])


if __name__ == "__main__":
    main()
