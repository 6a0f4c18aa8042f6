"""Merging nodes of a graph without making cycles, against networkx."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from fxc.passes.analysis.slices import Contraction


def _merged(graph: nx.DiGraph, a: int, b: int) -> nx.DiGraph:
    return nx.contracted_nodes(graph, a, b, self_loops=False, copy=True)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(40))
def test_a_merge_is_refused_just_where_it_would_make_a_cycle(seed: int) -> None:
    choose = random.Random(seed)
    count = choose.randrange(2, 25)
    sources = [sorted(choose.sample(range(i), choose.randrange(min(i, 3) + 1))) for i in range(count)]
    graph = nx.DiGraph([(j, i) for i, found in enumerate(sources) for j in found])
    graph.add_nodes_from(range(count))
    contraction, name = Contraction(sources), {i: i for i in range(count)}
    outcomes = set[bool]()
    for _ in range(60):
        a, b = choose.sample(range(count), 2)
        left, right = name[a], name[b]
        if left == right:
            assert contraction.merge(a, b)
            continue
        candidate = _merged(graph, left, right)
        expected = nx.is_directed_acyclic_graph(candidate)
        assert contraction.merge(a, b) == expected
        outcomes.add(expected)
        if expected:
            graph = candidate
            name = {i: left if root == right else root for i, root in name.items()}
        assert all((contraction.find(i) == contraction.find(j)) == (name[i] == name[j]) for i in name for j in name)
    assert outcomes
