"""Every fused kernel of the model zoo, forward and backward, on the inputs that it gets there, against eager.

    python -m tests.models.kernel_suite --only resnet --out build/kernels

The graphs are those that ``torch.compile(backend="fxc")`` compiles. Each group of their operators is recorded with its operands
while the graph runs, becomes kernels for each target, and these run on each engine of ``tests/kernel_engines.py``.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module
from torch.fx import GraphModule
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

import fxc
from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.syntax import print_module
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.pipelines import AOT
from tests.kernel_accuracy import Difference, Expected, difference
from tests.kernel_engines import ENGINES, functions_of, kernels_for, module_of
from tests.models.captures import kept, loss_of, model_of
from tests.models.zoo import ZOO

GROUPS = AOT.text(kernels=True, freeze=False).partition(",lower-kernels")[0]
"""The pipeline of graphs that become kernels, up to its groups."""

TARGETS = ("cpu:avx512", "cuda:sm_90")


@dataclass(frozen=True)
class Recorded:
    """A group of a graph of a model: a module whose ``main`` it is, and what it was given."""

    where: str
    module: ModuleOp
    arguments: list[Any]

    @property
    def key(self) -> int:
        """Equal for groups that compute the same."""
        nameless = self.module.clone()
        for op in nameless.walk():
            arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
            for value in (*op.results, *arguments):
                value.name_hint = None
            op.attributes = {name: found for name, found in op.attributes.items() if not name.startswith("tile.")}
        return zlib.crc32(print_module(nameless).encode())


@dataclass(frozen=True)
class KernelResult:
    """How the kernels of a group for a target did on an engine. ``kernels``: how many there are; 0 where none computes it."""

    where: str
    target: str
    engine: str
    kernels: int
    difference: Difference


@cache
def graphs_of(name: str, train: bool) -> list[tuple[str, GraphModule, list[Any]]]:
    """The graphs that AOTAutograd makes of a model, in the order in which they run, with what they are given."""
    model, inputs = model_of(name, train)
    found = list[tuple[str, GraphModule, list[Any]]]()

    def recorder(kind: str) -> Callable[..., Any]:
        def compile_graph(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            def run(*args: Any) -> Any:
                found.append((kind, graph, [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in args]))
                return graph(*args)

            return make_boxed_func(run)

        return compile_graph

    compilers = {"fw_compiler": recorder("forward"), "bw_compiler": recorder("backward")}
    with kept(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        if ZOO[name].dynamo:
            torch._dynamo.reset()
            results = torch.compile(model, backend=aot_autograd(**compilers), fullgraph=True)(*inputs)
        else:
            results = aot_module(model, **compilers)(*inputs)
        loss_of(results).backward()
        torch._dynamo.reset()
    return found


class _Recorder(ReferenceInterpreter):
    """Records each group with its operands."""

    def __init__(self, module: ModuleOp, where: str) -> None:
        super().__init__(functions_of(module))
        self.where, self.found = where, list[Recorded]()

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        if isinstance(op, GroupOp):
            given = [env[value] for value in op.inputs()]
            self.found.append(Recorded(f"{self.where}/{len(self.found)}", module_of(op), given))
        return super().op(op, env)


def recorded_groups(name: str, train: bool = True, kinds: Sequence[str] = ("forward", "backward")) -> list[Recorded]:
    """The groups of a model's graphs, each that computes the same once."""
    found = dict[int, Recorded]()
    for place, (kind, _, _) in enumerate(graphs_of(name, train)):
        if kind in kinds:
            for group in _groups_of_graph(name, train, place):
                found.setdefault(group.key, group)
    return list(found.values())


@cache
def _groups_of_graph(name: str, train: bool, place: int) -> list[Recorded]:
    kind, graph, arguments = graphs_of(name, train)[place]
    program = fxc.run_passes(fxc.import_fx(graph), GROUPS)
    recorder = _Recorder(program.module, f"{name}/{'train' if train else 'eval'}/{kind}")
    torch.manual_seed(0)
    with torch.no_grad():
        recorder.call(program.main, arguments)
    return recorder.found


def check(group: Recorded, targets: Sequence[str] = TARGETS, engines: Iterable[str] = ENGINES) -> Iterator[KernelResult]:
    """Runs the kernels of ``group``. An engine that raises is an outcome too."""
    expected = Expected.of(group.module, group.arguments)
    for target in targets:
        outcome = KernelResult(group.where, target, "", 0, Difference())
        try:
            kernels = kernels_for(group.module, target)
        except Exception as error:
            yield replace(outcome, engine="lowering", difference=Difference(wrong=_reason(error)))
            continue
        if kernels is None:
            yield replace(outcome, engine="lowering", difference=Difference(wrong="no kernel computes it"))
            continue
        for engine in filter(kernels.are_for, engines):
            try:
                found = difference(kernels.run(ENGINES[engine], group.arguments), expected)
            except Exception as error:
                found = Difference(wrong=_reason(error))
            yield replace(outcome, engine=engine, kernels=kernels.count, difference=found)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


KEPT = 1000.0
"""Units that eager may be off by in a result that says something of accuracy: where more is lost, terms cancel."""


def table(outcomes: Sequence[KernelResult]) -> str:
    """A line for each model, target and engine: kernels, mismatches, and the largest error with eager's at the same place."""
    rows = defaultdict[tuple[str, str, str], list[KernelResult]](list)
    for outcome in outcomes:
        rows[outcome.where.split("/")[0], outcome.target, outcome.engine].append(outcome)
        rows["all", outcome.target, outcome.engine].append(outcome)
    lines = [f"{'model':11}{'target':12}{'engine':13}{'groups':>7}{'kernels':>8}{'wrong':>6}{'max error':>11}{'of eager':>10}"]
    for (model, target, engine), found in sorted(rows.items(), key=lambda row: (row[0][0] == "all", row[0])):
        differences = [each.difference for each in found]
        right = [each for each in differences if not each.wrong and each.of_eager < KEPT]
        worst = max(right, key=lambda each: each.error, default=Difference())
        counts = f"{len(found):7}{sum(each.kernels for each in found):8}{sum(bool(each.wrong) for each in differences):6}"
        lines.append(f"{model:11}{target:12}{engine:13}{counts}{worst.error:11.2f}{worst.of_eager:10.2f}")
    note = "Errors are distances from float64, in units of the dtype's epsilon relative to the largest number of a result."
    return "\n".join([*lines, "", note])


def failures(outcomes: Sequence[KernelResult]) -> list[str]:
    wrong = [each for each in outcomes if each.difference.wrong]
    return [f"{each.where} {each.target} {each.engine}: {each.difference.wrong}" for each in wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--engines", default=",".join(ENGINES), help="where kernels run")
    parser.add_argument("--eval", action="store_true", help="models in eval mode too")
    parser.add_argument("--out", type=Path, help="folder for table.txt and a file of IR for each group that is wrong")
    options = parser.parse_args()
    torch.set_num_threads(1)
    outcomes, seen = list[KernelResult](), Counter[int]()
    for name in (name for name in sorted(ZOO) if options.only in name):
        for train in (True, False) if options.eval else (True,):
            for group in recorded_groups(name, train):
                seen[group.key] += 1
                if seen[group.key] == 1:
                    found = list(check(group, engines=options.engines.split(",")))
                    outcomes += found
                    for line in failures(found):
                        print(line, flush=True)
                    if options.out is not None and failures(found):
                        _write(group, options.out)
        graphs_of.cache_clear()
        _groups_of_graph.cache_clear()
        print(f"{name}: {len(outcomes)} runs", flush=True)
    print(table(outcomes))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "table.txt").write_text(table(outcomes) + "\n" + "\n".join(failures(outcomes)) + "\n")


def _write(group: Recorded, folder: Path) -> None:
    path = folder / f"{group.where.replace('/', '-')}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(print_module(group.module))
    torch.save(group.arguments, path.with_suffix(".pt"))


if __name__ == "__main__":
    main()
