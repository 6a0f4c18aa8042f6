"""The examples of the documentation of torch.fx: what FX does, and what fxc does with the same code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, List, Optional, Tuple  # noqa: UP035

import pytest
import torch
import torch.fx as fx
import torch.nn.functional as F
from torch import Tensor, nn

import fxc
from tests.graph_equality import assert_same_graph
from tests.round_trips import round_trip

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Overview(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.param, self.linear = nn.Parameter(torch.rand(3, 4)), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x + self.param).clamp(min=0.0, max=1.0)


class TopK(Overview):
    def forward(self, x: Tensor) -> Any:
        return torch.topk(torch.sum(self.linear(x + self.param).relu(), dim=-1), 3)


class Rectified(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x * 2) + 1


class Special(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.neg(x)


class WithLeaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.special = nn.Linear(4, 4), Special()

    def forward(self, x: Tensor) -> Tensor:
        return self.special(self.linear(x))


class LeafTracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Special) or super().is_leaf_module(m, module_qualified_name)


class MathTracer(fx.Tracer):
    def __init__(self) -> None:
        super().__init__(autowrap_modules=(math,), autowrap_functions=(rows,))


class Dropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, training=self.training)


class DropoutModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x)


def rows(x: Tensor) -> int:
    return len(x)


@fx.wrap
def wrapped_ones(x: Tensor, size: int) -> Tensor:
    return torch.ones(size)


def traced(model: Any, tracer: fx.Tracer | None = None) -> fx.GraphModule:
    tracer = tracer or fx.Tracer()
    graph = tracer.trace(model)
    return fx.GraphModule(tracer.root, graph)


# The annotations are objects, which `from __future__ import annotations` would make texts.
def annotated(x, y, z=(1, 2)):
    return x[0].sum(z[0]) * y, x[1]


annotated.__annotations__ = {"x": List[Tensor], "y": "int", "z": Optional[tuple], "return": Tuple[Tensor, Tensor]}  # noqa: UP006, UP045


def flagged(x: Tensor, flag: bool) -> Tensor:
    return x.relu() if flag else x * 2


def nested(x: dict[str, Tensor]) -> list[Tensor]:
    return [x["a"] + x["b"], x["a"]]


def constructed(x: Tensor) -> Tensor:
    return x + torch.zeros(4) + torch.ones(4)


GRAPHS: dict[str, tuple[Callable[[], fx.GraphModule], tuple[Any, ...]]] = {
    "overview": (lambda: traced(Overview()), (X,)),
    "top k": (lambda: traced(TopK()), (X,)),
    "annotations": (lambda: traced(annotated), ([X, X], 2)),
    "static control flow": (lambda: fx.symbolic_trace(flagged, {"flag": False}), (X, False)),
    "nested inputs": (lambda: fx.symbolic_trace(nested, {"x": {"a": fx.PH, "b": fx.PH}}), ({"a": X, "b": X + 1},)),
    "wrapped function": (lambda: traced(lambda x: x + wrapped_ones(x, 4)), (X,)),
    "wrapped module": (lambda: traced(lambda x: x / math.sqrt(rows(x)), MathTracer()), (X,)),
    "leaf module": (lambda: traced(WithLeaf(), LeafTracer()), (X,)),
    "tensor constructors": (lambda: traced(constructed), (X,)),
    "training flag": (lambda: traced(Dropout().eval()), (X,)),
    "training mode of a module": (lambda: traced(DropoutModule().eval()), (X,)),
    "exported": (lambda: fxc.to_fx(fxc.capture(Overview(), (X,))), (X,)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_imported_and_exported_without_loss(name: str) -> None:
    make, inputs = GRAPHS[name]
    graph = make()
    round_trip(graph)
    program = fxc.import_fx(graph)
    back = fxc.to_fx(program)
    assert_same_graph(graph.graph, back.graph)
    assert str(back.code).replace("([x], {})", "[x]").strip() == str(graph.code).strip()
    for run in (back, fxc.Interpreter(program).run):
        torch.testing.assert_close(run(*inputs), graph(*inputs))


def test_annotations_of_classes_that_no_module_has_are_dropped() -> None:
    class Local:
        pass

    def function(x, y):
        return x * 2

    function.__annotations__ = {"x": list[Tensor] | None, "y": Local}
    back = fxc.to_fx(fxc.import_fx(traced(function)))
    assert [node.type for node in back.graph.nodes] == [list[Tensor] | None, None, None, None]


def test_types_are_fake_tensors_of_the_nodes() -> None:
    """Passes of FX read and copy ``meta["val"]``, and the import reads it back, with symbolic sizes."""
    batch = torch.export.Dim("batch", min=2, max=64)
    for shapes in (None, ({0: batch},)):
        program = fxc.capture(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), (X,), dynamic_shapes=shapes)
        graph = fxc.to_fx(program)
        *_, relu, _ = graph.graph.nodes
        assert relu.meta["val"].shape[1] == 2 and relu.meta["val"].dtype == torch.float32
        again = fxc.import_fx(graph)
        assert "!fx.value" not in str(again)
        torch.testing.assert_close(fxc.to_fx(again)(X), graph(X))
    torch.testing.assert_close(fxc.to_fx(again)(X[:2]), graph(X[:2]))


def test_types_of_branches() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    program = fxc.capture(model, (X,))
    again = fxc.import_fx(fxc.to_fx(program))
    assert "!fx.value" not in str(program) + str(again)
    torch.testing.assert_close(fxc.to_fx(again)(X), model(X))


def test_an_exported_graph_is_called_by_the_names_of_the_model() -> None:
    def model(x: Tensor, *, scale: Tensor) -> dict[str, Any]:
        return {"scaled": x * scale, "both": [x, (scale,)]}

    graph = fxc.to_fx(fxc.capture(model, (X,), {"scale": X + 1}))
    torch.testing.assert_close(graph(x=X, scale=X), model(X, scale=X))
    assert "pytree" not in graph.code


# capture: customized tracing


def test_concrete_args_and_tracers_of_the_user() -> None:
    program = fxc.capture(flagged, (X, False), route="symbolic_trace", concrete_args={"flag": False})
    torch.testing.assert_close(fxc.Interpreter(program).run(X, False), fx.symbolic_trace(flagged, {"flag": False})(X, False))
    with pytest.raises(fxc.errors.CaptureError, match=r"hint: .*state the argument in concrete_args"):
        fxc.capture(flagged, (X, False), route="symbolic_trace")
    values = {"a": X, "b": X + 1}
    program = fxc.capture(nested, (values,), route="symbolic_trace", concrete_args={"x": {"a": fx.PH, "b": fx.PH}})
    assert "!fx.value" not in str(fxc.run_passes(program, "lower-to-torch"))
    torch.testing.assert_close(fxc.Interpreter(program).run(values), nested(values))
    model = WithLeaf()
    for tracer in (LeafTracer, LeafTracer()):
        program = fxc.capture(model, (X,), route="symbolic_trace", tracer=tracer)
        assert_same_graph(LeafTracer().trace(model), fxc.to_fx(program).graph)
    with pytest.raises(fxc.errors.CaptureError, match="takes no concrete_args or tracer\n  hint: use route='symbolic_trace'"):
        fxc.capture(model, (X,), tracer=LeafTracer)


def test_dynamic_control_flow_is_refused_by_both() -> None:
    def model(x: Tensor) -> Tensor:
        return x.relu() if x.sum() > 0 else x

    with pytest.raises(fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(model)
    with pytest.raises(fxc.errors.CaptureError, match=r"cannot be used as inputs to control flow\n  at: .*if x.sum"):
        fxc.capture(model, (X,), route="symbolic_trace")


def test_the_training_flag_is_baked_in_and_the_mode_of_a_module_is_not() -> None:
    for model, is_fixed in ((Dropout(), True), (DropoutModule(), False)):
        graph = fxc.to_fx(fxc.capture(model.train(), (X,), route="symbolic_trace")).eval()
        expected = fx.symbolic_trace(model).eval()
        assert (not torch.equal(graph(X), X)) == (not torch.equal(expected(X), X)) == is_fixed


def test_the_same_tensor_twice() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return x * 2 + y

    for route in ("export", "symbolic_trace", "dynamo", "make_fx"):
        program = fxc.capture(model, (X, X), route=route)
        torch.testing.assert_close(fxc.Interpreter(program).run(X, X + 1), fx.symbolic_trace(model)(X, X + 1))
        torch.testing.assert_close(fxc.to_fx(program)(X, X), model(X, X))


# writing transformations


def test_direct_manipulation_of_an_exported_graph() -> None:
    """FX's way works on the graph of ``to_fx``, and the result is a program again."""
    for route, relu in (("export", torch.ops.aten.relu.default), ("symbolic_trace", F.relu)):
        program = fxc.capture(Rectified(), (X,), route=route)
        graph = fxc.to_fx(program)
        [node] = graph.graph.find_nodes(op="call_function", target=relu)
        with graph.graph.inserting_after(node):
            new = graph.graph.call_function(torch.neg, (node,))
            node.replace_all_uses_with(new)
            new.args = (node,)
        graph.graph.lint()
        graph.recompile()
        again = fxc.run_passes(fxc.import_fx(graph), "propagate-shapes")
        torch.testing.assert_close(fxc.to_fx(again)(X), graph(X))
        torch.testing.assert_close(graph(X), 1 - F.relu(X * 2))


RULES: dict[Any, Callable[[Any], Any]] = {F.relu: lambda x: (x > 0) * x}


def decomposed(model: fx.GraphModule) -> fx.GraphModule:
    """Retracing with Proxy, as FX's documentation does it."""
    graph = fx.Graph()
    env: dict[str, Any] = {}
    tracer = fx.proxy.GraphAppendingTracer(graph)
    for node in model.graph.nodes:
        if node.op == "call_function" and node.target in RULES:
            args = [fx.Proxy(env[x.name], tracer) if isinstance(x, fx.Node) else x for x in node.args]
            env[node.name] = RULES[node.target](*args).node
        else:
            env[node.name] = graph.node_copy(node, lambda x: env[x.name])
    return fx.GraphModule(model, graph)


def swapped(base: Any) -> Any:
    """FX's example of a subclass of Interpreter and Transformer, with ``base`` as the class that it derives from."""

    class Swap(base):
        def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if target in (torch.sigmoid, torch.ops.aten.sigmoid.default):
                return torch.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if target == "neg":
                call_self, *tail = args
                return call_self.sigmoid(*tail, **kwargs)
            return super().call_method(target, args, kwargs)

    return Swap


def test_proxy_retracing() -> None:
    graph = decomposed(fx.symbolic_trace(Rectified()))
    program = fxc.capture(Rectified(), (X,), route="symbolic_trace")
    torch.testing.assert_close(decomposed(fxc.to_fx(program))(X), graph(X))
    result = fxc.replace_pattern(program, F.relu, RULES[F.relu])
    torch.testing.assert_close(fxc.to_fx(result)(X), graph(X))
    names = [
        [node.target for node in each.nodes if node.op == "call_function"] for each in (fxc.to_fx(result).graph, graph.graph)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("route", ["symbolic_trace", "export"])
def test_interpreter_and_transformer(route: str) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.sigmoid(x).neg() if route == "symbolic_trace" else torch.sigmoid(x).abs()

    graph = fx.symbolic_trace(model)
    program = fxc.capture(model, (X,), route=route)
    expected = swapped(fx.Interpreter)(graph).run(X)
    torch.testing.assert_close(swapped(fxc.Interpreter)(program).run(X), expected)
    torch.testing.assert_close(swapped(fx.Transformer)(graph).transform()(X), expected)
    transformed = swapped(fxc.Transformer)(program).transform()
    torch.testing.assert_close(fxc.to_fx(transformed)(X), expected)
    lowered = fxc.run_passes(transformed, "lower-to-torch")
    assert "!fx.value" not in str(lowered)
    torch.testing.assert_close(fxc.to_fx(lowered)(X), expected)


def test_hooks_are_called_as_in_fx() -> None:
    def logged(base: Any, log: list[tuple[str, str]]) -> Any:
        def hook(name: str) -> Any:
            def call(self: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                log.append((name, str(target)))
                return getattr(base, name)(self, target, args, kwargs)

            return call

        names = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
        return type("Logged", (base,), {name: hook(name) for name in names})

    logs: list[list[tuple[str, str]]] = [[], []]
    graph = fx.symbolic_trace(Overview())
    for base, log, given in ((fx.Interpreter, logs[0], graph), (fxc.Interpreter, logs[1], fxc.import_fx(graph))):
        logged(base, log)(given).run(X)
    assert logs[0] == logs[1] and len({name for name, _ in logs[0]}) == 6


def test_profiler() -> None:
    profiler = fxc.Profiler(fxc.capture(Overview(), (X,)))
    for _ in range(2):
        torch.testing.assert_close(profiler.run(X), fxc.to_fx(profiler.program)(X))
    head, *lines = profiler.summary().splitlines()
    assert head.split() == ["value", "operation", "calls", "mean", "ms", "share"] and len(lines) == 3
    assert {tuple(line.split()[:3]) for line in lines} >= {("%linear", "torch.aten.linear.default", "2")}
    assert sum(float(line.split()[-1].rstrip("%")) for line in lines) == pytest.approx(100, abs=0.2)


def test_shape_propagation() -> None:
    """FX's passes on the graph of ``to_fx``, and the types of the program."""
    from torch.fx.passes.shape_prop import ShapeProp

    graph = fx.symbolic_trace(Overview())
    ShapeProp(graph).propagate(X)
    program = fxc.run_passes(fxc.import_fx(graph, (X,)), "lower-to-torch")
    typed = {node.name: node.meta["val"].shape for node in fxc.to_fx(program).graph.nodes if "val" in node.meta}
    for node in graph.graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            assert node.meta["tensor_meta"].shape == typed[node.name]


# patterns


@pytest.mark.slow
def test_patterns_of_graphs_filters_literals_and_callbacks() -> None:
    from torch.fx.subgraph_rewriter import replace_pattern_with_filters

    def model(x: Tensor) -> Tensor:
        return torch.clamp(x, 0.0, 2.0) + torch.clamp(x + 1, 0.0, 3.0)

    def pattern(x: Tensor) -> Tensor:
        return torch.clamp(x, 0.0, 1.0)

    def scaled(x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    graphs = fx.symbolic_trace(pattern), fx.symbolic_trace(scaled)
    for search, new in (graphs, (graphs[0].graph, graphs[1].graph)):
        theirs = fx.symbolic_trace(model)
        known = replace_pattern_with_filters(theirs, search, new, ignore_literals=True)
        for route in ("symbolic_trace", "export"):
            program = fxc.capture(model, (X,), route=route)
            assert not fxc.replace_pattern(program, search, new).matches
            result = fxc.replace_pattern(program, search, new, ignore_literals=True)
            torch.testing.assert_close(fxc.to_fx(result)(X), theirs(X))
            assert [match.replaced for match in result.matches] == [("clamp",), ("clamp_1",)]
            assert [match.replacements for match in result.matches] == [("clamp",), ("clamp_1",)]
            assert [match.nodes_map for match in result.matches] == [{"clamp": "clamp"}, {"clamp": "clamp_1"}]
            assert len(known) == 2

    def by_the_limit(match: Any) -> Any:
        limit = match.ops[-1].trees()[0][2].value.data
        return lambda x: x * limit

    program = fxc.capture(model, (X,))
    first = [lambda match: match.arguments == ("x",)]
    rules: dict[str, Any] = {"ignore_literals": True, "replacement_callback": by_the_limit}
    torch.testing.assert_close(fxc.to_fx(fxc.replace_pattern(program, pattern, **rules))(X), X * 2 + (X + 1) * 3)
    result = fxc.replace_pattern(program, pattern, match_filters=first, **rules)
    torch.testing.assert_close(fxc.to_fx(result)(X), X * 2 + torch.clamp(X + 1, 0, 3))
    traced_program = fxc.capture(model, (X,), route="symbolic_trace")
    torch.testing.assert_close(fxc.to_fx(fxc.replace_pattern(traced_program, pattern, **rules))(X), X * 2 + (X + 1) * 3)
    with pytest.raises(fxc.errors.InputError, match="pass either replacement or replacement_callback"):
        fxc.replace_pattern(program, pattern)
    with pytest.raises(fxc.errors.CaptureError, match=r"the pattern takes 1 parameters, but .* takes 2"):
        fxc.replace_pattern(program, pattern, replacement_callback=lambda match: torch.add, ignore_literals=True)


# parts of graphs, debugging


@pytest.mark.parametrize("route", ["export", "symbolic_trace"])
def test_split_module(route: str) -> None:
    from torch.fx.passes.split_module import split_module

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    graph = fxc.to_fx(fxc.capture(model, (X,), route=route))
    split = split_module(graph, graph, lambda node: int(node.name in ("linear_1", "_2")))
    torch.testing.assert_close(split(X), model(X))
    torch.testing.assert_close(fxc.Interpreter(fxc.import_fx(split)).run(X), model(X))
    parts = [node.target for node in split.graph.find_nodes(op="call_module")]
    assert parts == ["submod_0", "submod_1"]
    split.submod_1 = torch.compile(split.submod_1, backend="fxc")
    with torch.no_grad():
        torch.testing.assert_close(split(X), model(X))


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate"])
def test_minimizer(method: str) -> None:
    from torch.fx.passes.net_min_base import _MinimizerBase, _MinimizerSettingBase

    def wrong(part: fx.GraphModule, inputs: Any) -> Any:
        program = fxc.import_fx(part, inputs)
        return fxc.to_fx(fxc.replace_pattern(program, torch.sigmoid, torch.tanh))(*inputs)

    class Minimizer(_MinimizerBase):
        def __init__(self, run: Any, graph: fx.GraphModule) -> None:
            self.run = run
            super().__init__(
                graph, (X,), lambda a, b, names: (0.0, torch.allclose(a, b)), _MinimizerSettingBase(traverse_method=method)
            )

        def run_a(self, mod: fx.GraphModule, inputs: Any, report_idx: int = -1) -> Any:
            return mod(*inputs)

        def run_b(self, mod: fx.GraphModule, inputs: Any, report_idx: int = -1) -> Any:
            return self.run(mod, inputs)

    model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 4)).eval().requires_grad_(False)
    graph = fxc.to_fx(fxc.capture(model, (X,)))
    assert [node.target for node in Minimizer(wrong, graph).minimize()] == [torch.ops.aten.sigmoid.default]
    assert not Minimizer(lambda part, inputs: fxc.compile(part, inputs)(*inputs), graph).minimize()


def test_folder_and_retracing(tmp_path: Any) -> None:
    graph = fxc.to_fx(fxc.capture(Overview(), (X,), route="symbolic_trace"))
    graph.to_folder(tmp_path / "module", "Model")
    assert "self.linear" in (tmp_path / "module" / "module.py").read_text()
    again = fx.Tracer().trace(graph)
    assert_same_graph(graph.graph, again, traces=False)


# quantized models


@pytest.mark.filterwarnings("ignore")
def test_quantized_graphs(tmp_path: Any) -> None:
    """Imported without loss. A file cannot hold packed weights."""
    from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    graph = convert_fx(prepare_fx(model, QConfigMapping().set_global(default_dynamic_qconfig), (X,)))
    round_trip(graph)
    program = fxc.import_fx(graph)
    for run in (fxc.to_fx(program), fxc.Interpreter(program).run):
        assert torch.equal(run(X), graph(X))
    program.save(tmp_path / "model.mlir")
    with pytest.raises(
        fxc.errors.TargetError, match=r"a TorchScript object, .* cannot hold\n  op: .*\n  hint: import it in the"
    ):
        fxc.to_fx(fxc.Program.load(tmp_path / "model.mlir"))
