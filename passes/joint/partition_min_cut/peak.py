"""The peak of memory of a plan: forward, then backward."""

from __future__ import annotations

from xdsl.ir import Operation

from fxc.passes.analysis.peak_memory import Simulation
from fxc.passes.joint.partition_min_cut.dataflow import Dataflow
from fxc.passes.joint.partition_min_cut.minimum_cut import Partition


def peak_of(flow: Dataflow, plan: Partition) -> int:
    """The most bytes that are live at once, without arguments. A value is computed again just before its first use."""
    graph, simulation = flow.graph, Simulation(flow.costs.sizes)
    again = set(plan.recomputed)
    needed = {*flow.ancestors(plan.saved), *(number for number, needed in enumerate(flow.in_forward) if needed)}
    simulation.run([flow.ops[number] for number in sorted(needed)])
    simulation.own(graph.tangents)
    simulation.run(_backward(flow, again))
    return simulation.result([*graph.results, *graph.gradients]).peak


def _backward(flow: Dataflow, again: set[int]) -> list[Operation]:
    """The operations of the backward in order, each recomputed one before the first that reads its results."""
    found, done, waiting = list[Operation](), set[int](), [number for number in reversed(flow.run_backward)]
    while waiting:
        number = waiting[-1]
        makers = {maker for value in flow.reads[number] if (maker := flow.owner(value)) in again} - done
        if number not in done and makers:
            waiting += sorted(makers, reverse=True)
            continue
        waiting.pop()
        if number not in done:
            done.add(number)
            found.append(flow.ops[number])
    return found
