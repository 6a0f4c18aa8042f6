"""Streams: random plans, whose order an oracle looks at, and which a stand-in for an accelerator runs late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from random import Random
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

import fxc
from fxc.api import pipeline_for
from fxc.dialects.plan import STREAM, AllocOp, ArenaOp, RecordOp, WaitOp, stream_of
from fxc.dialects.text.syntax import print_module
from fxc.dialects.verify.verifier import verify
from fxc.errors import PipelineError
from fxc.export.host import host_program
from fxc.options import Options
from fxc.passes.plan.assign_streams import AssignStreamsPass, reduced
from fxc.passes.plan.plan_memory import PlanMemoryPass
from fxc.pipelines import INFERENCE, parse_pipeline
from fxc.program.program import new_context
from fxc.runtime.arena import Arenas
from fxc.runtime.cuda_graphs import Streams
from fxc.testing import parse, run_pass
from tests.stream_driver import LateAccelerator

CONTEXT = new_context()
META = '#torch.meta<device = "cuda:0">'
TENSOR = f"tensor<4x4xf32, {META}>"
TURNED = 'tensor<4x4xf32, #torch.meta<strides = [1, 4], device = "cuda:0">>'
TARGET = "#target.gpu<bandwidth = 1, event = {event}>"


@dataclass
class Writer:
    """The text of a plan, op by op. ``live``: names of tensors that may be used, with their types; ``own``: may be written."""

    live: list[tuple[str, str]] = field(default_factory=lambda: [("x", TENSOR), ("y", TENSOR)])
    lines: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])
    own: list[str] = field(default_factory=lambda: ["y"])
    bases: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, kind: str, a: int, b: int) -> None:
        (left, type), (right, other) = (self.live[-1 - place % len(self.live)] for place in (a, b))
        name = f"v{len(self.lines)}"
        result = f"({type}, {other}) -> {TENSOR}"
        if kind == "view":
            turned = TURNED if type == TENSOR else TENSOR
            self.line(f"%{name} = torch.aten.t.default(%{left}) : ({type}) -> {turned}", left)
            self.live.append((name, turned))
            self.bases[name] = self.bases.get(left, left)
            return
        if kind == "write":
            written = self.own[a % len(self.own)]
            if self.bases.get(right, right) == written:
                right, other = "x", TENSOR
            text = f"%{name} = torch.aten.add_.Tensor(%{written}, %{right}) : ({TENSOR}, {other}) -> {TENSOR}"
            self.line(text, written, right)
            return
        if kind == "out":
            self.line(f"%{name} = plan.alloc : {TENSOR}")
            arguments = f"({type}, {other}, {TENSOR}) -> {TENSOR}"
            self.line(f"%_{name} = torch.aten.mm.out(%{left}, %{right}, out = %{name}) : {arguments}", left, right, name)
        else:
            self.line(f"%{name} = torch.aten.mm.default(%{left}, %{right}) : {result}", left, right)
        self.own.append(name)
        self.live.append((name, TENSOR))

    def line(self, text: str, *used: str) -> None:
        self.lines.append((text, used))

    def text(self, returned: Sequence[int], event: int) -> str:
        """The plan, with releases behind last uses."""
        made = [(name, type) for name, type in self.live if name.startswith("v")]
        results = [made[place % len(made)] for place in returned] if made else []
        last = {name: place for place, (_, used) in enumerate(self.lines) for name in used}
        body = list[str]()
        for place, (text, _) in enumerate(self.lines):
            body.append(text)
            gone = [(n, type) for n, type in made if last.get(n) == place and n not in dict(results)]
            if gone:
                body.append(f"plan.free {', '.join(f'%{n}' for n, _ in gone)} : {', '.join(type for _, type in gone)}")
        values, types = (", ".join(parts) for parts in zip(*[(f"%{n}", type) for n, type in results], strict=True))
        inputs = ", ".join(f'%{name}: {TENSOR} {{fx.kind = "input", fx.name = "{name}"}}' for name in ("x", "y"))
        end = f"fx.output(({values},)) : ({types}) -> ()"
        lines = "\n    ".join([*body, end])
        function = f"func.func @main({inputs}) -> !fx.value {{\n    {lines}\n  }}"
        return f"builtin.module attributes {{fxc.target = {TARGET.format(event=event)}}} {{\n  {function}\n}}"


STEPS = st.lists(
    st.tuples(st.sampled_from(["out", "out", "call", "view", "write"]), st.integers(0, 5), st.integers(0, 9)),
    min_size=2,
    max_size=14,
)


@st.composite
def plans(draw: st.DrawFn) -> str:
    writer = Writer()
    for step in [("out", 0, 0), *draw(STEPS)]:
        writer.add(*step)
    return writer.text(
        draw(st.lists(st.integers(0, 9), min_size=1, max_size=2, unique=True)), draw(st.sampled_from([1, 1, 20000]))
    )


# the oracle: which ops meet, by the names in the text, and which are ordered, by reachability


def touched(op: Operation, bases: dict[SSAValue, SSAValue]) -> tuple[set[SSAValue], set[SSAValue]]:
    """What ``op`` reads and writes, of the tensors that names stand for."""
    operands = [bases[value] for value in op.operands]
    if op.name.endswith(".out"):
        return set(operands), {operands[-1]}
    if op.name.endswith("add_.Tensor"):
        return set(operands), {operands[0]}
    return set(operands), {bases[result] for result in op.results}


def meet(a: SSAValue, b: SSAValue) -> bool:
    """Whether two tensors have a byte in common."""
    if a is b:
        return True
    first, second = a.owner, b.owner
    if not (isinstance(first, AllocOp) and isinstance(second, AllocOp) and first.arena and first.arena is second.arena):
        return False
    return first.start() < second.start() + second.needed() and second.start() < first.start() + first.needed()


def races(block: Block) -> Iterator[tuple[Operation | Block, Operation]]:
    """Pairs of ops that may run at one time and must not. The block stands for the caller, who comes before it."""
    order, last = nx.DiGraph(), dict[int, Operation | Block]({0: block})
    found = list[tuple[Operation, set[SSAValue], set[SSAValue]]]()
    bases = dict[SSAValue, SSAValue]({value: value for value in block.args})
    for op in block.ops:
        is_view = op.name.endswith("t.default")
        bases |= {result: bases[op.operands[0]] if is_view else result for result in op.results}
        is_memory = isinstance(op, (ArenaOp, AllocOp)) and not op.operands
        is_event = isinstance(op, (RecordOp, WaitOp))
        if not (is_memory or is_event or op is block.last_op or (op.name.startswith("torch.aten") and not is_view)):
            continue
        stream = op.stream.value.data if isinstance(op, (RecordOp, WaitOp)) else stream_of(op)
        order.add_node(op)
        order.add_edges_from([(last[stream], op)] if stream in last else [])
        order.add_edges_from([(op.event.owner, op)] if isinstance(op, WaitOp) else [])
        last[stream] = op
        if not is_event:
            found.append((op, *touched(op, bases)))
    after = {node: nx.descendants(order, node) for node in order}
    for place, (op, reads, writes) in enumerate(found):
        starts_nothing = isinstance(op, (ArenaOp, AllocOp))
        if op not in after[block] and not starts_nothing:
            yield block, op
        arenas = {value.owner.arena for value in reads | writes if isinstance(value.owner, AllocOp) and value.owner.arena}
        for other, other_reads, other_writes in found[:place]:
            pairs = chain(product(reads | arenas, other_writes), product(writes, other_reads | other_writes))
            is_end = op is block.last_op and not isinstance(other, (ArenaOp, AllocOp))
            conflict = is_end or any(meet(a, b) for a, b in pairs)
            if conflict and op not in after[other] and not starts_nothing:
                yield other, op


def main_block(module: ModuleOp) -> Block:
    [function] = [op for op in module.ops if isinstance(op, FuncOp)]
    return function.body.block


def accepts(module: ModuleOp) -> bool:
    try:
        verify(module)
    except VerifyException:
        return False
    return True


def on_cpu(text: str) -> fxc.Program:
    """The plan, of tensors that are here."""
    for gone, there in ((f", {META}", ""), ('], device = "cuda:0">', "]>"), ("cuda:0", "cpu")):
        text = text.replace(gone, there)
    return fxc.Program.parse(text)


def outputs(program: fxc.Program, driver: LateAccelerator | None = None, random: Random | None = None) -> list[torch.Tensor]:
    """What the plan gives, and what it leaves of its inputs; on streams of ``driver``."""
    host = host_program(program)
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(4, 4, generator=generator) for _ in range(2)]
    with torch.no_grad():
        if driver is None:
            return [*tree_leaves(host.main(*inputs)), *inputs]
        if "streams" in host.globals:
            host.main.__globals__["streams"] = Streams(driver)  # type: ignore[arg-type]
        for pool in [value for value in host.globals.values() if isinstance(value, Arenas)]:
            pool.give_back(pool.take())  # memory that is there before
        with driver:
            results = tree_leaves(host.main(*inputs))
        driver.finish(random or Random(0))
        return [*results, *inputs]


@given(plans(), st.integers(2, 3), st.booleans(), st.integers(0, 1 << 30))
@settings(max_examples=24)
def test_random_plans(text: str, streams: int, memory_first: bool, seed: int) -> None:
    """Late work on streams gives what the plan gave; each wait is needed, and the verifier says what the oracle says."""
    module, passes = parse(text), [PlanMemoryPass(), AssignStreamsPass(streams)]
    for each in passes if memory_first else reversed(passes):
        each.apply(CONTEXT, module)
    assert not list(races(main_block(module)))
    assert accepts(module)
    late, expected = outputs(on_cpu(print_module(module)), LateAccelerator(), Random(seed)), outputs(on_cpu(text))
    torch.testing.assert_close(late, expected, equal_nan=True)
    assert max(map(stream_of, module.walk())) < streams
    for wait in [op for op in module.walk() if isinstance(op, WaitOp)]:
        following = wait.next_op
        assert following is not None
        wait.detach()
        assert list(races(main_block(module)))
        assert not accepts(module)
        Rewriter.insert_op(wait, InsertPoint.before(following))


@given(plans(), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=12), st.data())
@settings(max_examples=30)
def test_the_verifier_finds_what_the_oracle_finds(text: str, marks: list[tuple[int, int]], data: st.DataObject) -> None:
    """On plans with streams and events anywhere."""
    module = parse(text)
    PlanMemoryPass().apply(CONTEXT, module)
    block = main_block(module)
    ops = [op for op in block.ops if op.name.startswith("torch.aten") and not op.name.endswith("t.default")]
    for place, stream in marks:
        ops[place % len(ops)].attributes[STREAM] = IntegerAttr(stream, i64)
    events = list[RecordOp]()
    for op in [*ops, block.last_op]:
        assert op is not None
        for stream in data.draw(st.lists(st.integers(0, 2), max_size=2)):
            events.append(RecordOp.of(stream))
            Rewriter.insert_op(events[-1], InsertPoint.before(op))
        for event, stream in data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=3)) if events else ():
            Rewriter.insert_op(WaitOp.of(events[-1 - event % len(events)].event, stream), InsertPoint.before(op))
    assert accepts(module) == (not list(races(block)))


TWO = f"""
builtin.module attributes {{fxc.target = {TARGET.format(event=1)}}} {{
  func.func @main(
    %x: {TENSOR} {{fx.kind = "input", fx.name = "x"}}, %y: {TENSOR} {{fx.kind = "input", fx.name = "y"}}
  ) -> !fx.value {{
    %a = torch.aten.mm.default(%x, %x) : ({TENSOR}, {TENSOR}) -> {TENSOR}
    %b = torch.aten.mm.default(%y, %y) : ({TENSOR}, {TENSOR}) -> {TENSOR}
    %c = torch.aten.sub.Tensor(%a, %b) : ({TENSOR}, {TENSOR}) -> {TENSOR}
    plan.free %a, %b : {TENSOR}, {TENSOR}
    fx.output((%c,)) : ({TENSOR}) -> ()
  }}
}}
"""


def test_what_a_driver_is_asked_for() -> None:
    assigned, driver = run_pass(TWO, "assign-streams"), LateAccelerator()
    torch.testing.assert_close(outputs(on_cpu(assigned), driver, Random(1)), outputs(on_cpu(TWO)))
    assert driver.made == 1
    assert sorted(driver.log) == [(0, "aten.mm.default"), (0, "aten.sub.Tensor"), (1, "aten.mm.default")]
    assert driver.log[-1] == (0, "aten.sub.Tensor")


def test_a_wait_that_is_missing_shows_on_the_stand_in() -> None:
    """The stand-in does find races: without the last wait, some order gives other numbers."""
    program, expected = on_cpu(run_pass(TWO, "assign-streams")), outputs(on_cpu(TWO))[0]
    Rewriter.erase_op([op for op in program.module.walk() if isinstance(op, WaitOp)][-1])
    assert not accepts(program.module)
    found = [outputs(program, LateAccelerator(), Random(seed))[0] for seed in range(20)]
    assert not all(torch.allclose(each, expected) for each in found)


def test_the_allocator_is_told_which_streams_use_its_memory() -> None:
    """``b`` is made on stream 1 and read on stream 0; ``a`` and ``c`` stay where they are made."""
    source = host_program(fxc.Program.parse(run_pass(TWO, "assign-streams"))).source
    lines = [line.split("  #")[0].strip() for line in source.splitlines()]
    assert lines[lines.index("with streams.on(1): b = aten_mm(y, y)") + 1] == "streams.record_use(b, 0)"
    assert sum("record_use" in line for line in lines) == 1


def test_memory_is_kept_for_a_stream() -> None:
    class Tensor:
        def record_stream(self, stream: Any) -> None:
            self.stream = stream

    tensor, driver = Tensor(), LateAccelerator()
    Streams(driver).record_use(tensor, 3)  # type: ignore[arg-type]
    assert tensor.stream.number == driver.made == 1


def test_a_group_runs_on_its_stream() -> None:
    text = """
func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x"}) -> !fx.value {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %g = fusion.group ({
    %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %b : tensor<4xf32>
  }) {plan.stream = 1 : i64} -> (tensor<4xf32>)
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  fx.output((%g,)) : (tensor<4xf32>) -> ()
}
"""
    lines = [line.split("  #")[0].strip() for line in host_program(fxc.Program.parse(text)).source.splitlines()]
    assert "with streams.on(1): a = aten_sin(x)" in lines and "with streams.on(1): b = aten_cos(a)" in lines


@given(st.lists(st.sets(st.integers(0, 30)), max_size=12))
def test_fewest_edges(wanted: list[set[int]]) -> None:
    sources = [{source % number for source in found} if number else set[int]() for number, found in enumerate(wanted)]
    graph = nx.DiGraph((source, number) for number, found in enumerate(sources) for source in found)
    edges = {(source, number) for number, found in enumerate(reduced(sources)) for source in found}
    assert edges == set(nx.transitive_reduction(graph).edges)


def test_there_is_at_least_one_stream() -> None:
    with pytest.raises(PipelineError, match=r"option streams of pass assign-streams is int \(at least 1\), got 0"):
        run_pass(TWO, "assign-streams{streams=0}")


def test_an_option_of_compile() -> None:
    text = pipeline_for(INFERENCE, Options(target="cuda:sm_90", streams=3))
    assert text.endswith(",lower-to-plan{streams=3}") and list(parse_pipeline(text))
    assert "streams" not in pipeline_for(INFERENCE, Options(target="cuda:sm_90"))
