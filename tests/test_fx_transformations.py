"""The documentation of torch.fx from writing transformations to limits: FX on a graph, fxc on the program, side by side."""

from __future__ import annotations

import importlib
import io
import pdb
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx as fx
from torch import Tensor, nn

import fxc
from tests.graph_equality import assert_same_graph
from tests.round_trips import round_trip

X, Y = torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, 3, 12).reshape(3, 4)
ROUTES = pytest.mark.parametrize("route", ["symbolic_trace", "export"])

fx.wrap("len")
fx.wrap("sqrt")


def added(x: Tensor, y: Tensor) -> Tensor:
    return torch.add(x, y)


def normalize(x: Tensor) -> Tensor:
    return x / sqrt(len(x))


@fx.wrap
def sampled(x: Tensor, size: int) -> Tensor:
    return torch.randn(size)


class Dropped(nn.Module):
    """A model with a dropout, and with a value that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 4), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        torch.tanh(x)
        return self.drop(self.linear(x)).relu()


class Configured(nn.Module):
    def __init__(self, activated: bool) -> None:
        super().__init__()
        self.activated, self.linear = activated, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return torch.relu(x) if self.activated else x


def edited(change: Callable[[fx.Node], None], graph: fx.GraphModule) -> fx.GraphModule:
    """A transformation as FX's documentation writes it: visit the nodes, check the graph, write its code again."""
    for node in list(graph.graph.nodes):
        change(node)
    graph.graph.lint()
    graph.recompile()
    return graph


def graphs(model: Any, *inputs: Any) -> tuple[fx.GraphModule, fxc.Program]:
    return fx.symbolic_trace(model), fxc.capture(model, inputs, route="symbolic_trace")


def operators(graph: fx.GraphModule) -> list[Any]:
    return [node.target for node in graph.graph.nodes if node.op.startswith("call")]


# writing transformations


@ROUTES
def test_add_becomes_mul(route: str) -> None:
    def to_mul(node: fx.Node) -> None:
        if node.op == "call_function" and node.target is torch.add:
            node.target = torch.mul

    theirs = edited(to_mul, fx.symbolic_trace(added))
    result = fxc.replace_pattern(fxc.capture(added, (X, Y), route=route), torch.add, torch.mul)
    assert len(result.matches) == 1
    for run in (theirs, fxc.to_fx(result), fxc.compile(theirs, (X, Y)), fxc.compile(fxc.to_fx(result), (X, Y))):
        torch.testing.assert_close(run(X, Y), X * Y)


def test_a_relu_is_appended() -> None:
    def append(node: fx.Node) -> None:
        if node.op == "call_function" and node.target is torch.add:
            with node.graph.inserting_after(node):
                new = node.graph.call_function(torch.relu, args=(node,))
                node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)

    graph, program = graphs(added, X, Y)
    result = fxc.replace_pattern(program, torch.add, lambda x, y: torch.relu(torch.add(x, y)))
    theirs, ours = edited(append, graph), fxc.to_fx(result)
    assert operators(ours) == operators(theirs) == [torch.add, torch.relu]
    torch.testing.assert_close(ours(X, -Y), theirs(X, -Y))


def test_nodes_are_erased() -> None:
    def erase(node: fx.Node) -> None:
        if node.target == "drop":
            node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
            node.graph.erase_node(node)

    model = Dropped().eval()
    theirs = edited(erase, fx.symbolic_trace(model))
    assert theirs.graph.eliminate_dead_code()
    theirs.recompile()
    program = fxc.capture(model, (X,))
    assert "aten.tanh" in str(program) and "aten.dropout" in str(program)
    ours = fxc.to_fx(fxc.run_passes(program, "canonicalize,dce"))
    assert [getattr(target, "__name__", target) for target in operators(ours)] == ["linear.default", "relu.default"]
    assert operators(theirs) == ["linear", "relu"]
    torch.testing.assert_close(ours(X), theirs(X))


def test_batch_norm_is_folded() -> None:
    from torch.fx.experimental.optimization import fuse

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    images = torch.randn(2, 3, 8, 8)
    model(images)
    model.eval()
    theirs = fuse(model)
    ours = fxc.run_passes(fxc.capture(model, (images,)), "fold-batch-norm")
    assert operators(theirs) == ["0", "2"] and "aten.batch_norm" not in str(ours)
    torch.testing.assert_close(fxc.to_fx(ours)(images), theirs(images), rtol=1e-4, atol=1e-5)


def test_a_graph_of_inverses() -> None:
    """FX builds a graph from its last node to its first; the same code reads the graph of ``to_fx``."""
    inverses = {torch.sinh: torch.asinh, torch.exp: torch.log, torch.neg: torch.neg}

    def inverted(graph: fx.GraphModule) -> fx.GraphModule:
        new = fx.Graph()
        [source] = graph.graph.output_node().all_input_nodes
        value = new.placeholder("value")
        while source.op == "call_function":
            value = new.call_function(inverses[source.target], (value,))  # type: ignore[index]
            [source] = source.all_input_nodes
        new.output(value)
        return fx.GraphModule(nn.Module(), new)

    graph, program = graphs(lambda x: torch.exp(torch.neg(torch.sinh(x))), X)
    theirs, ours = inverted(graph), inverted(fxc.to_fx(program))
    assert_same_graph(theirs.graph, ours.graph)
    for run in (theirs, fxc.to_fx(fxc.import_fx(ours)), fxc.compile(ours, (graph(X),))):
        torch.testing.assert_close(run(graph(X)), X)


def test_a_graph_made_with_proxies() -> None:
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    x, y = (fx.Proxy(graph.placeholder(name), tracer) for name in ("x", "y"))
    graph.output(torch.cat([x.relu() + y, y]).node)
    module = fx.GraphModule(nn.Module(), graph)
    round_trip(module)
    torch.testing.assert_close(fxc.compile(module, (X, Y))(X, Y), torch.cat([X.relu() + Y, Y]))


# debugging


@ROUTES
def test_a_debugger_steps_through_the_generated_code(route: str) -> None:
    """``pdb`` stops at each line of an exported graph, as in a traced one, and shows its values."""
    program = fxc.capture(Dropped().eval(), (X,), route=route)
    for graph in (fx.symbolic_trace(Dropped().eval()), fxc.to_fx(program)):
        shown = io.StringIO()
        commands = io.StringIO("next\np [*locals()]\n" * 5 + "continue\n")
        debugger = pdb.Pdb(stdin=commands, stdout=shown, nosigint=True, readrc=False)
        debugger.runcall(type(graph).forward, graph, X)
        assert "'linear'" in shown.getvalue() and shown.getvalue().count("forward()") >= 4


@ROUTES
def test_generated_code_is_pasted_into_a_class(route: str) -> None:
    model = Configured(True)
    for graph in (fx.symbolic_trace(model), fxc.to_fx(fxc.capture(model, (X,), route=route))):
        space: dict[str, Any] = {"torch": torch}
        exec(graph.code, space)
        pasted = type("Pasted", (Configured,), {"forward": space["forward"]})(True)
        pasted.load_state_dict(model.state_dict())
        torch.testing.assert_close(pasted(X), model(X))


@ROUTES
def test_a_folder_is_a_module(route: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FX's folder runs code when it is imported; a saved program is read without."""
    monkeypatch.syspath_prepend(tmp_path)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    program = fxc.capture(model, (X,), route=route)
    for name, graph in ((f"fx_{route}", fx.symbolic_trace(model)), (f"fxc_{route}", fxc.to_fx(program))):
        graph.to_folder(tmp_path / name, "Saved")
        torch.testing.assert_close(importlib.import_module(name).Saved()(X), model(X))
        del sys.modules[name]
    program.save(tmp_path / "model.mlir")
    torch.testing.assert_close(fxc.to_fx(fxc.Program.load(tmp_path / "model.mlir"))(X), model(X))


def test_printed_graphs() -> None:
    graph, program = graphs(added, X, Y)
    ours = fxc.to_fx(program)
    assert (str(ours.graph), ours.code) == (str(graph.graph), graph.code)
    tables = [[(n.op, n.name, n.target, str(n.args), n.kwargs) for n in each.graph.nodes] for each in (graph, ours)]
    assert tables[0] == tables[1], "what print_tabular prints"


# limits of symbolic tracing


@pytest.mark.parametrize("activated", [False, True])
def test_static_control_flow(activated: bool) -> None:
    model = Configured(activated)
    graph, program = graphs(model, X)
    assert operators(fxc.to_fx(program)) == operators(graph) == ["linear", torch.relu][: 1 + activated]
    torch.testing.assert_close(fxc.compile(model, (X,))(X), graph(X))


def test_functions_of_python_are_recorded_where_they_are_wrapped() -> None:
    graph, program = graphs(normalize, X)
    round_trip(graph)
    assert operators(fxc.to_fx(program))[:2] == [len, sqrt]
    for run in (graph, fxc.to_fx(program), fxc.Interpreter(program).run, fxc.compile(normalize, (X,))):
        torch.testing.assert_close(run(X), normalize(X))

    def unwrapped(x: Tensor) -> Tensor:
        return x / x.__len__()

    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing"):
        fx.symbolic_trace(unwrapped)
    with pytest.raises(fxc.errors.CaptureError, match=r"'len' is not supported in symbolic tracing(?s:.*)\n  at: .*x.__len__"):
        fxc.capture(unwrapped, (X,), route="symbolic_trace")
    torch.testing.assert_close(fxc.compile(unwrapped, (X,))(X), unwrapped(X))


def test_a_random_constructor_is_one_constant_unless_it_is_wrapped() -> None:
    """``symbolic_trace`` embeds one sample in both; ``torch.export`` records the call."""

    def embedded(x: Tensor) -> Tensor:
        return x + torch.randn(4)

    def called(x: Tensor) -> Tensor:
        return x + sampled(x, 4)

    for model, is_constant in ((embedded, True), (called, False)):
        graph, program = graphs(model, X)
        for run in (graph, fxc.to_fx(program)):
            assert torch.equal(run(X), run(X)) == is_constant
        for run in (fxc.compile(model, (X,)), fxc.to_fx(fxc.capture(model, (X,)))):
            torch.manual_seed(5)
            found = run(X)
            torch.manual_seed(5)
            torch.testing.assert_close(found, model(X))
