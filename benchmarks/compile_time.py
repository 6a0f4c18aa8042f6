"""What compiling costs, in milliseconds of CPU: start-up, each stage on a large graph, how it grows, and GPT-2.

    python benchmarks/compile_time.py [--sizes 1000,5000,20000] [--json FILE] [--no-gpt2]

The graph is synthetic: blocks of fifteen ATen ops as an exported transformer has them, with stack traces. Times are the
least of a few runs on one thread. A stage that is linear has the exponent 1.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import math
import operator
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from results import cpu_name, write_json
from xdsl.passes import ModulePass

ROOT = Path(__file__).parent.parent
THREE_LINES = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %a : tensor<2xf32>\n}\n"
TEN_PASSES = (
    "canonicalize", "cse", "constant-propagation", "constant-pooling", "dce",
    "inline", "symbol-dce", "lower-simple-tuples", "cse", "dce",
)  # fmt: skip
KERNELS = ("lower-simple-tuples", "fuse{reductions=true}", "convert-fusion-to-linalg", "schedule", "tile")
"""From operators to kernels."""

TRACE = '  File "model.py", line {line}, in forward\n    x = self.block(x)\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="1000,2000,5000,10000,20000", help="ops of the synthetic graph")
    parser.add_argument("--runs", type=int, default=3, help="runs of each measurement; the least counts")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--no-gpt2", action="store_true", help="leave out GPT-2")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    start = start_up(options.runs)
    stages = {size: synthetic(size, options.runs) for size in sizes}
    gpt2 = {} if options.no_gpt2 else gpt2_stages()
    show(start, stages, gpt2)
    if options.json:
        exponents = {name: exponent(stages, name) for name in stages[sizes[0]]}
        write_json(options.json, {"start_up": start, "synthetic": stages, "exponents": exponents, "gpt2": gpt2})


def start_up(runs: int) -> float:
    """CPU of a process that runs fxc-opt on three lines, interpreter included."""
    command = [sys.executable, "-c", "from fxc.tools.fxc_opt import main; main()"]
    times = list[float]()
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=THREE_LINES, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(1000 * min(times), 1)


def synthetic(size: int, runs: int) -> dict[str, float]:
    """Stage -> milliseconds for a graph of about ``size`` ops."""
    from fxc.bridge.location import node_location
    from fxc.dialects.text.syntax import clone_module, parse_module, print_module
    from fxc.dialects.verify.verifier import verify
    from fxc.driver.runner import run_pipeline
    from fxc.frontends.import_fx import import_fx
    from fxc.pipelines import parse_pipeline
    from fxc.program.program import new_context

    graph = transformer_graph(size)
    stages: dict[str, float] = {}

    def imported() -> Any:
        node_location.cache_clear()  # or a second run would find its locations made
        return import_fx(graph)

    program = timed(stages, "import", runs, imported)
    text = timed(stages, "print", runs, lambda: print_module(program.module))
    module = timed(stages, "parse", runs, lambda: parse_module(new_context(), text))
    timed(stages, "verify", runs, lambda: verify(module))
    timed(stages, "clone", runs, lambda: clone_module(module))

    least = math.inf
    for _ in range(runs):
        copy, pipeline = clone_module(module), parse_pipeline(",".join(TEN_PASSES))
        spent: dict[str, float] = {}
        timed(spent, "ten passes", 1, partial(run_pipeline, new_context(), copy, pipeline))
        least = min(least, spent["ten passes"])
    stages["ten passes"] = least
    stages["total"] = round(sum(stages[name] for name in ("import", "print", "parse", "ten passes")), 1)
    for name in dict.fromkeys(TEN_PASSES):
        copy = clone_module(module)
        context, step = new_context(), cast(ModulePass, parse_pipeline(name)[0])
        timed(stages, f"  {name}", 1, partial(step.apply, context, copy))
    return stages | kernel_stages(clone_module(module))


def kernel_stages(module: Any) -> dict[str, float]:
    """Stage -> milliseconds, from operators to the source of Triton kernels; one run, as each changes the module."""
    from fxc.codegen.triton.printer import print_kernels
    from fxc.dialects.target import preset, set_target
    from fxc.driver.gc_pause import collections_paused
    from fxc.pipelines import parse_pipeline
    from fxc.program.program import new_context

    stages: dict[str, float] = {}
    set_target(module, preset("cuda:sm_80"))
    for name in KERNELS:
        context, step = new_context(), cast(ModulePass, parse_pipeline(name)[0])
        with collections_paused():  # as ``run_pipeline`` does
            timed(stages, f"  {name}", 1, partial(step.apply, context, module))
    timed(stages, "  print Triton", 1, lambda: print_kernels(module))
    stages.pop("  lower-simple-tuples")  # a row of its own above
    return {"kernels": round(sum(stages.values()), 1), **stages}


def timed(stages: dict[str, float], name: str, runs: int, run: Callable[[], Any]) -> Any:
    """What ``run`` returns; the least of its times goes to ``stages``."""
    times, result = list[float](), None
    for _ in range(runs):
        result = None  # nothing of the run before is left
        gc.collect()
        started = time.process_time()
        result = run()
        times.append(time.process_time() - started)
    stages[name] = round(1000 * min(times), 1)
    return result


def transformer_graph(size: int) -> Any:
    """An FX graph of ``size`` ops: layers of attention-like and elementwise ops, with what an export records on nodes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    aten, graph = torch.ops.aten, torch.fx.Graph()
    with FakeTensorMode():
        wide, square, flat = torch.empty(4, 8, 16), torch.empty(16, 16), torch.empty(32, 16)
        third, heads, mean = torch.empty(4, 8, 4), torch.empty(4, 8, 4, 4), torch.empty(4, 8, 1)
        turned = heads.transpose(1, 2)

    def node(target: Any, args: tuple[Any, ...], value: Any, **kwargs: Any) -> Any:
        made = graph.call_function(target, args, kwargs)
        layer = len(graph.nodes) // 140
        path = f"layers.{layer}"
        made.meta = {
            "val": value,
            "stack_trace": TRACE.format(line=10 + layer % 50),
            "nn_module_stack": {f"L__self___{path}": (path, "model.Layer")},
        }
        return made

    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    x.meta["val"], weight.meta["val"] = wide, square
    count = 0
    while count < size:
        h = node(aten.view.default, (x, [32, 16]), flat)
        h = node(aten.mm.default, (h, weight), flat)
        h = node(aten.view.default, (h, [4, 8, 16]), wide)
        parts = node(aten.split.Tensor, (h, 4, -1), (third,) * 4)
        first, second = (node(operator.getitem, (parts, i), third) for i in (0, 3))
        h = node(aten.cat.default, ([first, second, first, second], -1), wide)
        h = node(aten.view.default, (h, [4, 8, 4, 4]), heads)
        h = node(aten.transpose.int, (h, 1, 2), turned)
        h = node(aten.transpose.int, (h, 1, 2), heads)
        h = node(aten.reshape.default, (h, [4, 8, 16]), wide)
        m = node(aten.mean.dim, (h, [-1], True), mean)
        h = node(aten.sub.Tensor, (h, m), wide, alpha=1 + count)
        x = node(aten.add.Tensor, (x, node(aten.relu.default, (h,), wide)), wide)
        count += 15
    graph.output((x,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def gpt2_stages() -> dict[str, float]:
    """GPT-2 small without its weights: PyTorch's capture, our import, and the pipelines."""
    import torch

    import fxc
    from fxc.driver.runner import run_pipeline
    from fxc.frontends.import_fx import import_fx
    from fxc.pipelines import parse_pipeline

    spec = importlib.util.spec_from_file_location("gpt2", ROOT / "examples" / "models" / "gpt2.py")
    assert spec is not None and spec.loader is not None
    gpt2 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpt2)
    stages: dict[str, float] = {}
    with torch.device("meta"):
        model = gpt2.Model().eval()
    inputs = [value.to("meta") for value in gpt2.get_inputs()]
    exported = timed(stages, "torch.export", 1, lambda: torch.export.export(model, tuple(inputs), strict=False))
    program = timed(stages, "import", 1, lambda: import_fx(exported))
    for name in ("lower-to-torch", "simplify"):
        steps = parse_pipeline(name)
        timed(stages, name, 1, lambda steps=steps: run_pipeline(program.context, program.module, steps))
    timed(stages, "print", 1, lambda: str(program))
    stages["total without export"] = round(sum(stages.values()) - stages["torch.export"], 1)
    assert isinstance(program, fxc.program.program.Program)
    return stages


def exponent(stages: dict[int, dict[str, float]], name: str) -> float | None:
    """The slope of log time over log size, by least squares."""
    points = [(math.log(size), math.log(times[name])) for size, times in stages.items() if times.get(name, 0) > 0]
    if len(points) < 2:
        return None
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return round(sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points), 2)


def show(start: float, stages: dict[int, dict[str, float]], gpt2: dict[str, float]) -> None:
    print(f"{cpu_name()}; milliseconds of CPU\n\nfxc-opt on three lines: {start}\n")
    rows = [["ops", *map(str, stages), "exponent"]]
    for name in next(iter(stages.values())):
        rows.append([name, *(f"{times[name]:.1f}" for times in stages.values()), str(exponent(stages, name) or "")])
    print_rows(rows)
    if gpt2:
        print("\nGPT-2 small")
        print_rows([[name, f"{value:.1f}"] for name, value in gpt2.items()])


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        print(first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)), sep="  ")


if __name__ == "__main__":
    main()
