"""Partitions of joint graphs: minimum cuts, budgets, and what forward and backward compute."""

from __future__ import annotations

import re
import time
from itertools import chain, combinations
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from fxc.dialects.autodiff import OFFLOADED
from fxc.dialects.text.syntax import clone_module, print_module
from fxc.driver.runner import run_pipeline
from fxc.errors import PipelineError
from fxc.passes.analysis.joint_graph import can_be_offloaded, joint_graph, mark_results, must_run
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.joint import offload_saved
from fxc.passes.joint.partition_min_cut.budgets import MOST, Budget, best_choices, evenly, peak_of
from fxc.passes.joint.partition_min_cut.dataflow import LONGEST_CHAIN, Dataflow
from fxc.passes.joint.partition_min_cut.minimum_cut import SINK, SOURCE, Network, Partition, UnboundedCut
from fxc.passes.joint.split_joint import split_joint
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from fxc.testing import parse
from tests.joint_programs import SIZE, captured, random_joint, run, run_parts, saved_bytes
from tests.models.zoo import ZOO, load

CAPACITIES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.one_of(st.none(), st.integers(0, 9))), max_size=24)
BUDGETS = (0.0, 1e-9, 0.25, 0.5, 0.75, 1 - 1e-9, 1.0)


def partitioned(module: ModuleOp, budget: float | str = 1.0, more: str = "") -> ModuleOp:
    found = clone_module(module)
    run_pipeline(new_context(), found, parse_pipeline(f'partition-min-cut{{budget="{budget}"}}{more}'))
    return found


@given(CAPACITIES)
@settings(max_examples=200, deadline=None)
def test_the_cut_is_minimal_and_nearest_to_the_sink(edges: list[tuple[int, int, int | None]]) -> None:
    network, graph = Network(), nx.DiGraph()
    graph.add_nodes_from(range(8))
    for _ in range(6):
        network.node()
    for start, end, capacity in edges:
        if start < end and (start, end) != (SOURCE, SINK):
            start, end = (start, end) if start != SINK else (end, SINK)
            network.add(start, end, capacity)
            total = (
                None if capacity is None else capacity + graph.get_edge_data(start, end, {"capacity": 0}).get("capacity", 10**6)
            )
            graph.add_edge(start, end, capacity=10**6 if total is None else total)
    value, (_, expected) = nx.minimum_cut(graph, SOURCE, SINK)
    try:
        found = network.sink_side()
    except UnboundedCut as unbounded:
        assert value >= 10**6 and unbounded.path[0] == SOURCE and unbounded.path[-1] == SINK
        return
    assert value < 10**6
    crossing = [(a, b) for a, b in graph.edges if a not in found and b in found]
    assert sum(graph.edges[edge]["capacity"] for edge in crossing) == value
    assert expected <= found


@pytest.mark.parametrize(
    ("weights", "values", "capacity", "saved"),
    [
        ((500, 300, 0), (3, 5, 1), 500, {1, 2}),
        ((6, 5, 5), (7, 5, 5), 10, {1, 2}),
        ((5, 5), (4, 4), 5, {0}),
        ((50004, 50004), (1, 1), 100000, {0}),
        ((3,), (1,), 2, set[int]()),
        ((), (), 0, set[int]()),
    ],
)
def test_knapsacks(weights: tuple[int, ...], values: tuple[int, ...], capacity: int, saved: set[int]) -> None:
    fitting = [choice for choice in best_choices(weights, values) if choice.weight <= capacity]
    assert fitting[-1].indices() == saved


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8))
def test_the_knapsack_is_exact_for_each_capacity(items: list[tuple[int, int]]) -> None:
    choices = best_choices([weight for weight, _ in items], [value for _, value in items])
    subsets = list(chain.from_iterable(combinations(range(len(items)), count) for count in range(len(items) + 1)))
    for capacity in range(sum(weight for weight, _ in items) + 1):
        fitting = [subset for subset in subsets if sum(items[i][0] for i in subset) <= capacity]
        best = [choice for choice in choices if choice.weight <= capacity][-1]
        assert best.value == max(sum(items[i][1] for i in subset) for subset in fitting)
        assert best.weight == sum(items[i][0] for i in best.indices())
    assert len(evenly(choices, 3)) <= 3 and evenly(choices, 3)[-1] is choices[-1]


def test_a_large_knapsack_never_exceeds_the_capacity() -> None:
    weights, values = [(i * i * 7919) % 100003 for i in range(1, 101)], [(i * 104729) % 997 for i in range(100)]
    choices = best_choices(weights, values)
    assert len(choices) <= MOST and choices[-1].value == sum(values)
    assert all(choice.weight == sum(weights[i] for i in choice.indices()) for choice in choices[:: len(choices) // 9])


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(BUDGETS))
@settings(max_examples=40, deadline=None)
def test_parts_compute_what_the_joint_graph_does(seed: int, budget: float) -> None:
    module = parse(random_joint(seed))
    marked = partitioned(module, budget)
    graph = joint_graph(marked)
    assert not graph.demand().missing
    assert not [op for op in graph.demand().ops if op not in graph.backward and must_run(op)]
    assert print_module(partitioned(module, budget)) == print_module(marked)
    values = [torch.randn(SIZE, SIZE) for _ in range(3)]
    torch.manual_seed(seed)
    expected = run(module, values)
    torch.manual_seed(seed)
    found = run_parts(partitioned(module, budget, ",split-joint"), len(graph.results), values[:2], values[2:])
    assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_offloaded_tensors_come_back(seed: int) -> None:
    """Copies to the host are copies on the host, too."""
    module = partitioned(parse(random_joint(seed)))
    graph = joint_graph(module)
    saved = [value for value in graph.demand().saved if can_be_offloaded(value)]
    for value in saved:
        assert isinstance(value, OpResult)
        mark_results(value.op, [value.index], OFFLOADED)
    values, count = [torch.randn(SIZE, SIZE) for _ in range(3)], len(graph.results)
    torch.manual_seed(seed)
    expected = run(clone_module(module), values)
    run_pipeline(new_context(), module, parse_pipeline("split-joint"))
    copies = [len(re.findall(r"_to_copy.default\(.*device = ", text)) for text in print_module(module).split("@backward")]
    assert copies == [len(saved)] * 2
    torch.manual_seed(seed)
    assert_close(run_parts(module, count, values[:2], values[2:]), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.slow
def test_torch_compile_offloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With memory of the host in the place of an accelerator's."""
    monkeypatch.setattr(offload_saved, "device", str)
    moved, plain = list[str](), split_joint._Body.moved

    def record(body: Any, value: SSAValue, to: str) -> SSAValue:
        moved.append(to)
        return plain(body, value, to)

    monkeypatch.setattr(split_joint._Body, "moved", record)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4), torch.nn.Softmax(-1))
    x = torch.randn(3, 8)
    model(x).square().sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    torch.compiler.reset()
    options: dict[str, Any] = {"offload": 1.0, "fallback": False}
    torch.compile(model, backend="fxc", options=options)(x).square().sum().backward()
    assert "cpu" in moved
    assert_close([parameter.grad for parameter in model.parameters()], expected)


@pytest.mark.slow
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_more_budget_saves_more_and_has_a_higher_peak(seed: int) -> None:
    module = parse(random_joint(seed))
    figures = [_figures(partitioned(module, budget)) for budget in BUDGETS]
    assert figures == sorted(figures) and [peak for _, peak in figures] == sorted(peak for _, peak in figures)
    peak = figures[-1][1]
    under = [_figures(partitioned(module, budget)) for budget in (2, peak - 1, peak, peak + 1)]
    assert [found for _, found in under] == sorted(found for _, found in under) and under[0][1] <= figures[0][1]
    assert under[1][1] < peak or under[1][1] == under[0][1]
    assert under[2] == under[3] == figures[-1]


def _figures(module: ModuleOp) -> tuple[int, int]:
    """The bytes that are saved, and the simulated peak."""
    graph = joint_graph(module)
    flow, demand = Dataflow(graph), graph.demand()
    again = [flow.ops.index(op) for op in demand.ops if op not in graph.backward]
    return saved_bytes(graph, HintedSizes(module).bytes), peak_of(flow, Partition(tuple(demand.saved), tuple(again)))


def test_budgets() -> None:
    assert Budget.of(0.5) == Budget(fraction=0.5) and Budget.of("1") == Budget()
    assert [Budget.of(text).bytes for text in (1.5e9, "64MB", "64 MiB", "7B")] == [1_500_000_000, 64_000_000, 64 << 20, 7]
    with pytest.raises(PipelineError, match=r"a budget is a fraction from 0 to 1, or bytes such as 1\.5e9"):
        parse_pipeline("joint{budget=-0.5}")


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("name", [entry.name for entry in ZOO.values() if entry.dynamo and entry.train_mode])
def test_models(name: str) -> None:
    """As many bytes as PyTorch's partition saves, or fewer, and the results of the joint graph."""
    for joint in captured(*load(name)):
        marked = partitioned(joint.module)
        ours, theirs = saved_bytes(joint_graph(marked), HintedSizes(marked).bytes), joint.bytes_of_pytorch()
        print(f"{name}: saves {ours} bytes, PyTorch {theirs}")
        assert ours <= theirs
        tangents = joint.tangents()
        torch.manual_seed(0)
        expected = run(clone_module(joint.module), [*joint.primals, *tangents])
        torch.manual_seed(0)
        found = run_parts(partitioned(joint.module, more=",split-joint"), joint.count, joint.primals, tangents)
        assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("length", "saved"), [(LONGEST_CHAIN - 9, ["h"]), (LONGEST_CHAIN + 9, ["h", f"v{LONGEST_CHAIN + 1}"])])
def test_long_chains_are_not_computed_again(length: int, saved: list[str]) -> None:
    kind = "tensor<4x4xf32>"
    lines = [f"%h = torch.aten.mm.default(%x, %x) : ({kind}, {kind}) -> {kind}"]
    lines += [f"%v{i} = torch.aten.sin.default(%{f'v{i - 1}' if i else 'h'}) : ({kind}) -> {kind}" for i in range(length)]
    reads = ["h", *(f"v{i}" for i in range(length - 1))]
    lines += [
        f"%g{i} = torch.aten.mul.Tensor(%{f'g{i - 1}' if i else 'd'}, %{read}) : ({kind}, {kind}) -> {kind}"
        for i, read in enumerate(reads)
    ]
    module = parse(
        f"func.func @main(%x: {kind}, %d: {kind} {{autodiff.tangent}}) attributes {{autodiff.forward_results = 1 : i64}} {{\n"
        + "\n".join(lines)
        + f"\nfx.output([%v{length - 1}, %g{length - 1}]) : ({kind}, {kind}) -> ()\n}}"
    )
    assert [value.name_hint for value in joint_graph(partitioned(module)).demand().saved] == saved
    assert [value.name_hint for value in joint_graph(partitioned(module, 0.0)).demand().saved] in ([], ["h"])


def test_a_large_graph_takes_seconds() -> None:
    """The time is 0.5 s on a laptop; PyTorch takes 5 s for a graph of this size."""
    module = parse(random_joint(1, 3500))
    start = time.process_time()
    partitioned(module)
    assert time.process_time() - start < 30
