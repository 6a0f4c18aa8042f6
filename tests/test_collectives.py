"""Distributed programs: run on two ranks before and after the passes, and simulated for many."""

from __future__ import annotations

from time import perf_counter

import pytest
import torch
from torch import distributed
from xdsl.dialects.func import FuncOp

import fxc
from fxc.api import compile_graph
from fxc.dialects.dist import CollectiveOp
from fxc.measure.links import measure
from fxc.measure.program_times import fuse_for_host, operation_times
from fxc.options import Options
from fxc.passes.dist.links import COLLECTIVES, COMMUNICATION, COMPUTE, Link, Links, Timeline, links_attr, simulate
from fxc.program.program import new_context
from fxc.testing import parse, run_pass
from tests.ranks import run

_TEXT = """
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "GROUP" on @mesh(dp)
func.func @main(%x: tensor<4x4xf32>, %p: tensor<2x4xf32>, %q: tensor<2x4xf32>) {
  %g = torch._c10d_functional.all_gather_into_tensor.default(%p, 2, "GROUP") : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %gw = torch._c10d_functional.wait_tensor.default(%g) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = torch.aten.mm.default(%x, %gw) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = torch._c10d_functional.all_gather_into_tensor.default(%q, 2, "GROUP") : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %hw = torch._c10d_functional.wait_tensor.default(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = torch.aten.mm.default(%y, %hw) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = torch._c10d_functional.all_reduce.default(%z, "sum", "GROUP") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %aw = torch._c10d_functional.wait_tensor.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch._c10d_functional.all_reduce.default(%y, "sum", "GROUP") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %bw = torch._c10d_functional.wait_tensor.default(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = torch._c10d_functional.all_reduce.default(%bw, "max", "GROUP") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %mw = torch._c10d_functional.wait_tensor.default(%m) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = torch._c10d_functional.reduce_scatter_tensor.default(%z, "sum", 2, "GROUP") : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %rw = torch._c10d_functional.wait_tensor.default(%r) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = torch._c10d_functional.reduce_scatter_tensor.default(%y, "sum", 2, "GROUP") : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %sw = torch._c10d_functional.wait_tensor.default(%s) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = torch._c10d_functional.all_to_all_single.default(%z, [2, 2], [2, 2], "GROUP") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %tw = torch._c10d_functional.wait_tensor.default(%t) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = torch._c10d_functional.broadcast.default(%z, 1, "GROUP") : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %cw = torch._c10d_functional.wait_tensor.default(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output((%aw, %bw, %mw, %rw, %sw, %tw, %cw)) : (VALUES) -> ()
}
"""
TYPES = ["tensor<4x4xf32>"] * 3 + ["tensor<2x4xf32>"] * 2 + ["tensor<4x4xf32>"] * 2
PROGRAM = _TEXT.replace("VALUES", ", ".join(TYPES))

SCHEDULED = (
    "convert-torch-to-dist,remove-redundant-redistributions,sink-waits,bucket-collectives,choose-reductions,hoist-collectives"
)


def check_rank() -> None:
    """Run the program on one of two ranks: as it is, with operations of ``dist``, and compiled."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.set_num_threads(1)
    world = distributed.group.WORLD
    assert world is not None
    text = PROGRAM.replace("GROUP", world.group_name)
    torch.manual_seed(rank)
    inputs = [torch.randn(4, 4), torch.randn(2, 4), torch.randn(2, 4)]
    expected = fxc.Interpreter(fxc.Program.parse(text)).run(*inputs)
    scheduled = fxc.Program.parse(run_pass(text, SCHEDULED))
    for found in (
        fxc.Interpreter(scheduled).run(*inputs),
        fxc.to_fx(scheduled)(*inputs),
        compile_graph(fxc.Program.parse(text), Options(target="host")).flat()(*inputs),
    ):
        torch.testing.assert_close(tuple(found), tuple(expected))
    parts = [torch.empty_like(inputs[1]) for _ in range(ranks)]
    distributed.all_gather(parts, inputs[1])
    product = inputs[0] @ torch.cat(parts)
    distributed.all_reduce(product)
    torch.testing.assert_close(expected[1], product)
    links = measure(torch.device("cpu"), "dp")
    assert [link.collective for link in links] == list(COLLECTIVES) and min(link.bytes_per_us for link in links) > 0


@pytest.mark.slow
def test_two_ranks() -> None:
    """What passes moved and merged computes on both ranks what eager calls do."""
    run(check_rank, 2, timeout=100)


def _collectives(text: str) -> list[CollectiveOp]:
    return [op for op in parse(text).walk() if isinstance(op, CollectiveOp)]


def test_the_passes_merge_what_they_can() -> None:
    before = _collectives(run_pass(PROGRAM, "convert-torch-to-dist"))
    after = _collectives(run_pass(PROGRAM, SCHEDULED))
    assert len(before) == 9
    names = sorted(op.name.removeprefix("dist.") for op in after)
    assert names == ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]


def test_one_all_reduce_of_63() -> None:
    """Gradients of 63 parameters, each reduced and awaited where it is computed: one message, or three of a third."""
    text = data_parallel(63)
    for pipeline, expected in (("bucket-collectives", 1), (f"bucket-collectives{{bytes={21 * 4096}}}", 3)):
        found = _collectives(run_pass(text, f"convert-torch-to-dist,sink-waits,{pipeline}"))
        assert len(found) == expected and sum(len(op.inputs) for op in found) == 63


def data_parallel(parameters: int) -> str:
    """A backward that reduces the gradient of each of ``parameters`` parameters."""
    tensor, lines, last = "tensor<32x32xf32>", list[str](), "%x"
    for i in range(parameters):
        lines += [
            f"%y{i} = torch.aten.mm.default({last}, %x) : ({tensor}, {tensor}) -> {tensor}",
            f'%r{i} = torch._c10d_functional.all_reduce.default(%y{i}, "sum", "0") : ({tensor}) -> {tensor}',
            f"%w{i} = torch._c10d_functional.wait_tensor.default(%r{i}) : ({tensor}) -> {tensor}",
        ]
        last = f"%y{i}"
    values, types = ", ".join(f"%w{i}" for i in range(parameters)), ", ".join([tensor] * parameters)
    lines.append(f"fx.output(({values},)) : ({types}) -> ()")
    head = 'dist.mesh @mesh "cpu" (dp = 2)\ndist.group @dp "0" on @mesh(dp)\n'
    return head + f"func.func @main(%x: {tensor}) -> ({types}) {{\n" + "\n".join(lines) + "\n}"


def test_times_grow_as_the_algorithms_do() -> None:
    """Measured for 4 ranks, a ring of 8 has 7 / 3 of the steps; an all_reduce of many ranks goes by trees."""
    module = parse(run_pass(data_parallel(1), "convert-torch-to-dist"))
    module.attributes["dist.links"] = links_attr([Link(kind, 4, 30.0, 100.0) for kind in ("all_reduce", "all_gather")])
    [op] = [op for op in module.walk() if isinstance(op, CollectiveOp)]
    bytes = 32 * 32 * 4

    def time(ranks: int, kind: str) -> float:
        return Links(module, {"dp": ranks}).time(op, kind)

    assert time(1, "all_reduce") == 0
    assert time(4, "all_reduce") == pytest.approx(30 + bytes / 100)
    assert time(8, "all_gather") == pytest.approx(30 * 7 / 3 + bytes / 100 * (7 / 8) / (3 / 4))
    assert time(1024, "all_reduce") == pytest.approx(30 * 10 / 2 + bytes / 100)


def test_the_timeline_at_1024_ranks_is_quick() -> None:
    """Compilation and simulation of 63 reductions take seconds, for any number of ranks."""
    start = perf_counter()
    module = parse(run_pass(data_parallel(63), SCHEDULED))
    [main] = [op for op in module.ops if isinstance(op, FuncOp)]
    found = {ranks: simulate(module, main, {"dp": ranks}) for ranks in (2, 64, 1024)}
    assert perf_counter() - start < 10
    assert found[2].time < found[64].time < found[1024].time
    assert found[1024].messages() == 1 and found[1024].in_flight == 63 * 4096
    assert found[2].exposed() == pytest.approx(found[2].time - found[2].busy(COMPUTE))


def test_measured_computations() -> None:
    """Operations of the fused program have the times that were measured; one that reads a number has an estimate."""
    types = "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
    module = parse(f"""
dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<64x64xf32>, %n: i64) -> tensor<64x64xf32> {{
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %w = dist.wait %r : tensor<64x64xf32>
  %a = torch.aten.mm.default(%w, %x) : {types}
  %b = torch.aten.mm.default(%a, %a) : {types}
  %c = torch.aten.exp.default(%b) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = torch.aten.add.Tensor(%c, %w) : {types}
  %e = torch.aten.roll.default(%d, [%n], [0]) : (tensor<64x64xf32>, i64) -> tensor<64x64xf32>
  fx.output(%e) : (tensor<64x64xf32>) -> ()
}}""")
    context = new_context()
    fuse_for_host(context, module)
    [main] = [op for op in module.ops if isinstance(op, FuncOp)]
    times = operation_times(context, module, main)
    first, second, group = times
    assert group.name == "fusion.group" and first.name == second.name == "torch.aten.mm.default"
    assert times[first] == times[second] > 0 and times[group] > 0
    timelines = [simulate(module, main, {}, {op: scale * time for op, time in times.items()}) for scale in (1, 3)]
    assert [each.messages() for each in timelines] == [1, 1]
    assert timelines[1].busy(COMPUTE) - timelines[0].busy(COMPUTE) == pytest.approx(2 * sum(times.values()))


def test_early_starts_hide_communication() -> None:
    """Each gather but the first is hidden behind a product, also with memory for one result that waits."""
    tensor, part = "tensor<1024x1024xf32>", "tensor<512x1024xf32>"
    lines, last = list[str](), "%x"
    for i in range(4):
        lines += [
            f"%g{i} = dist.all_gather over @dp (%p{i}) : ({part}) -> {tensor}",
            f"%w{i} = dist.wait %g{i} : {tensor}",
            f"%y{i} = torch.aten.mm.default({last}, %w{i}) : ({tensor}, {tensor}) -> {tensor}",
        ]
        last = f"%y{i}"
    arguments = ", ".join([f"%x: {tensor}", *(f"%p{i}: {part}" for i in range(4))])
    body = "\n".join([*lines, f"fx.output({last}) : ({tensor}) -> ()"])
    text = f'dist.group @dp "0" ranks [0, 1]\nfunc.func @main({arguments}) {{\n{body}\n}}'

    one_waits = f"hoist-collectives{{bytes={1 << 22}}}"

    def timeline(pipeline: str, start: float = 0.0) -> Timeline:
        module = parse(run_pass(text, pipeline))
        module.attributes["dist.links"] = links_attr([Link("all_gather", 2, 100.0, 2000.0, start_us=start)])
        [main] = [op for op in module.ops if isinstance(op, FuncOp)]
        return simulate(module, main, {})

    plain, early, bounded = (timeline(p) for p in ("", "hoist-collectives", one_waits))
    gather = plain.busy(COMMUNICATION) / 4
    assert plain.exposed() == pytest.approx(4 * gather) and plain.in_flight == 1 << 22
    assert early.exposed() == pytest.approx(gather) and early.in_flight == 4 << 22
    assert bounded.exposed() == pytest.approx(gather) and bounded.in_flight == 1 << 22
    assert timeline(one_waits, 50.0).exposed() == pytest.approx(gather + 3 * 50.0)  # the first start is a part of its wait
