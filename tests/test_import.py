"""Corner cases of FX graphs: every argument FX allows, unusual placeholders and outputs, regions, errors."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._higher_order_ops.map import map as higher_order_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import Graph, GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import fxc
from fxc.errors import CaptureError
from fxc.program.program import Program
from tests.graph_equality import assert_same_graph
from tests.round_trips import graph_of, round_trip

# arguments

ARGUMENTS: dict[str, Any] = {
    "none": None,
    "bools": (True, False, 1, 0),
    "ints": [0, -1, 2**31, -(2**63), 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40],
    "floats": [0.0, -0.0, 1.5, -2.0, 1e-300, 5e-324, 1e22, 0.1, 3.141592653589793, 1.7976931348623157e308],
    "not_finite": [math.inf, -math.inf, math.nan],
    "whole_floats": [1.0, 2, 2.0, 1e100, 123456789.0],
    "complex": [1j, complex(-0.0, 2.5), complex(math.nan, -math.inf)],
    "strings": ["", "mean", "naïve", "日本語", "🙂", 'quo"te', "back\\slash", "line\nbreak", "tab\t", "nul\0", "%x", "a = 1"],
    "nested": ((), [], {}, ((1,), [2, (3, [4, ()])]), [[[]]]),
    "dicts": {"a": 1, "b": [{"c": (None, True)}], "key with space": {}},
    "keys": {1: "int", 2.5: "float", None: "none", "": "empty"},
    "slices": [slice(None), slice(1, None, 2), slice(-1, 5), (slice(None, 3), Ellipsis, None)],
    "ellipsis": Ellipsis,
    "dtypes": [torch.float32, torch.bfloat16, torch.int8, torch.uint16, torch.complex64, torch.bool, torch.float8_e4m3fn],
    "quantized_dtypes": [torch.quint8, torch.qint32],
    "devices": [torch.device("cpu"), torch.device("cuda"), torch.device("cuda:1"), torch.device("meta")],
    "layouts": [torch.strided, torch.sparse_coo, torch.sparse_csr],
    "memory_formats": [torch.contiguous_format, torch.channels_last, torch.channels_last_3d, torch.preserve_format],
    "ranges": [range(3), range(1, 10, 2), range(5, 0, -1)],
    "sizes": torch.Size([2, 3]),
    "empty_size": torch.Size([]),
}


@pytest.mark.parametrize("value", ARGUMENTS.values(), ids=ARGUMENTS)
def test_argument(value: Any) -> None:
    def build(graph: Graph, x: Any) -> Any:
        by_position = graph.call_function(torch.add, (x, value))
        by_keyword = graph.call_method("view", (by_position,), {"other": value, "nested": [(value, x), {"k": value}]})
        return by_keyword

    round_trip(graph_of(build))


def test_operator_as_argument() -> None:
    operators = (torch.ops.aten.add.Tensor, torch.ops.higher_order.cond)
    round_trip(graph_of(lambda graph, x: graph.call_function(torch.add, (x, *operators, list(operators)), {"f": operators[0]})))


def test_node_inside_of_every_container() -> None:
    def build(graph: Graph, x: Any) -> Any:
        return graph.call_function(
            torch.add,
            ([x, (x, [x])], {"a": x, "b": {"c": (x,)}}, slice(x, None, x), (slice(None, x), ...)),
            {"out": [x, None, x]},
        )

    round_trip(graph_of(build))


def test_keywords_keep_their_order() -> None:
    def build(graph: Graph, x: Any) -> Any:
        first = graph.call_function(torch.ops.aten.add.Tensor, (x,), {"alpha": 2, "other": x})
        second = graph.call_function(torch.ops.aten.clamp.default, (first,), {"max": 1, "min": 0})
        third = graph.call_function(torch.ops.aten.where.self, (), {"condition": second, "self": x, "other": first})
        fourth = graph.call_function(torch.ops.aten.where.self, (second,), {"other": third, "self": x})
        fifth = graph.call_function(torch.ops.aten.index.Tensor, (), {"indices": [None, second, third], "self": fourth})
        return graph.call_function(torch.ops.aten.sum.dim_IntList, (fifth, [0]), {"dtype": torch.float64, "keepdim": True})

    graph = graph_of(build)
    round_trip(graph)
    generic = fxc.import_fx(graph).text(generic=True)
    assert_same_graph(graph.graph, fxc.to_fx(Program.parse(generic), lifted=True).graph, traces=False)


def test_arguments_that_equal_their_defaults_stay() -> None:
    def build(graph: Graph, x: Any) -> Any:
        passed = graph.call_function(torch.ops.aten.add.Tensor, (x, x), {"alpha": 1})
        return graph.call_function(torch.ops.aten.softmax.int, (passed, -1, None))

    round_trip(graph_of(build))


def test_names() -> None:
    graph = Graph()
    names = ["x", "x_1", "x_1_1", "_0", "add", "add_1", "return_", "self_1", "a" * 200]
    nodes = [graph.placeholder(name) for name in names]
    last = nodes[0]
    for node in nodes:
        last = graph.call_function(operator.add, (last, node))
    graph.output(last)
    round_trip(GraphModule(nn.Module(), graph))


def test_stack_traces_and_module_paths() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x).relu()

    exported = torch.export.export(Model(), (torch.ones(2, 3),), strict=False)
    graph = round_trip(exported)
    for before, after in zip(exported.graph.nodes, graph.graph.nodes, strict=True):
        if before.op == "call_function":
            assert before.meta["stack_trace"] == after.meta["stack_trace"]
            stacks = [{key: entry[0] for key, entry in node.meta["nn_module_stack"].items()} for node in (before, after)]
            assert stacks[0] == stacks[1]


def test_symbolic_numbers() -> None:
    def function(x: Tensor) -> Any:
        n = x.shape[0]
        return x.reshape(n // 2, 2 * x.shape[1]), n * 3 + 1, x.new_zeros(n + 1), x[: n - 1]

    graph = make_fx(function, tracing_mode="symbolic")(torch.ones(4, 6))
    back = round_trip(graph)
    for a, b in zip(back(torch.ones(8, 6), *[]), function(torch.ones(8, 6)), strict=True):
        torch.testing.assert_close(a, b)


def test_sizes_that_depend_on_data() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Any:
            places, positive = torch.nonzero(x), torch.masked_select(x, x > 0)
            return places.float().relu().sum(0), positive.relu() * 2, positive.shape[0], torch.unique(x.round())

    x = torch.randn(4, 3)
    exported = torch.export.export(Model(), (x,), strict=False)
    _equals_when_lowered(exported, Model(), x)


def test_indices_of_unique() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Any:
            values, inverse, counts = torch.unique(x.round(), return_inverse=True, return_counts=True)
            return values[inverse.long()], counts

    x = torch.randn(4, 3)
    exported = torch.export.export(Model(), (x,), strict=False)
    [unique] = exported.graph.find_nodes(op="call_function", target=torch.ops.aten._unique2.default)
    if unique.meta["val"][1].dtype != torch.int64:
        pytest.skip(f"torch.export of torch {torch.__version__} gives the indices of unique the dtype of the values")
    _equals_when_lowered(exported, Model(), x)


def _equals_when_lowered(exported: torch.export.ExportedProgram, model: nn.Module, x: Tensor) -> None:
    round_trip(exported)
    graph = fxc.to_fx(fxc.run_passes(fxc.import_fx(exported), "lower-to-torch,simplify"))
    for inputs in (x, -x.abs(), x.abs(), x * 5):
        torch.testing.assert_close(graph(inputs), model(inputs))


def test_sizes_computed_with_fractions() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.interpolate(x, scale_factor=1.7, mode="nearest") * 2

    x = torch.randn(1, 2, 5, 6)
    dims = {2: torch.export.Dim("height", min=3, max=40), 3: torch.export.Dim("width", min=3, max=40)}
    exported = torch.export.export(Model(), (x,), dynamic_shapes={"x": dims}, strict=False)
    traced = make_fx(Model(), tracing_mode="symbolic")(x)
    for captured in (exported, traced):
        round_trip(captured)
        graph = fxc.to_fx(fxc.run_passes(fxc.import_fx(captured), "lower-to-torch,simplify"))
        for size in ((5, 6), (11, 4)):
            inputs = torch.randn(1, 2, *size)
            torch.testing.assert_close(graph(inputs), Model()(inputs))


# placeholders and outputs


def test_placeholder_defaults() -> None:
    def function(x, y=2, z=None, s="mean", f=-0.0, t=(1, 2), d=torch.float32):
        return torch.sum(x * y + f, t, dtype=d)

    graph = round_trip(symbolic_trace(function))
    torch.testing.assert_close(graph(torch.ones(2, 3, 4)), function(torch.ones(2, 3, 4)))


def test_variadic_placeholders() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return x + args[0] * kwargs["scale"]

    graph = round_trip(symbolic_trace(Model()))
    one = torch.ones(2)
    torch.testing.assert_close(graph(one, one, one, scale=3), one + one * 3)


OUTPUTS: dict[str, Callable[[Any], Any]] = {
    "node": lambda x: x,
    "none": lambda x: None,
    "tuple": lambda x: (x,),
    "list": lambda x: [x, x],
    "dict": lambda x: {"a": x, "b": [x, {"c": (x, None)}]},
    "constants": lambda x: (1, -0.0, math.nan, "text", None, True, torch.float32, x),
    "only_constants": lambda x: {"a": 1, "b": (2.5, ())},
    "empty": lambda x: (),
    "deep": lambda x: (((((x,),),),),),
    "slice": lambda x: slice(x, 1, None),
}


@pytest.mark.parametrize("nest", OUTPUTS.values(), ids=OUTPUTS)
def test_output(nest: Callable[[Any], Any]) -> None:
    graph = graph_of(lambda _, x: nest(x))
    back = round_trip(graph)
    one = torch.ones(2)
    assert repr(back(one)) == repr(graph(one))


def test_placeholder_without_use_and_graph_without_inputs() -> None:
    round_trip(graph_of(lambda graph, x: graph.call_function(torch.ones, (2, 3))))
    graph = Graph()
    graph.output(graph.call_function(torch.zeros, ((2,),), {"dtype": torch.int64}))
    assert round_trip(GraphModule(nn.Module(), graph))().dtype == torch.int64


# higher-order operators


def two_ways(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: torch.cond(x.max() > 1, torch.exp, torch.neg, (x,)), (x,))


def loop(x: Tensor) -> Any:
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def mapped(x: Tensor) -> Tensor:
    return higher_order_map(lambda row, y: row * 2 + y, x, x[0].clone())


def scanned(x: Tensor) -> Any:
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)


HIGHER_ORDER = {"cond": two_ways, "while_loop": loop, "map": mapped, "scan": scanned}


@pytest.mark.slow
@pytest.mark.parametrize("function", HIGHER_ORDER.values(), ids=HIGHER_ORDER)
def test_higher_order_operator(function: Callable[..., Any]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x)

    x = torch.randn(4, 3)
    exported = torch.export.export(Model(), (x,), strict=False)
    round_trip(exported)
    program = fxc.import_fx(exported)
    assert "torch.higher_order." in str(program)
    for inputs in (x, -x.abs(), x.abs() + 2):
        expected = function(inputs)
        torch.testing.assert_close(fxc.to_fx(program)(inputs), expected)
        torch.testing.assert_close(fxc.to_fx(fxc.run_passes(program, "lower-to-torch,simplify"))(inputs), expected)


def test_checkpoint() -> None:
    layer = nn.Linear(3, 3)

    def function(x: Tensor) -> Tensor:
        return checkpoint(lambda x: torch.sin(layer(x)), x, use_reentrant=False) + 1  # type: ignore[no-any-return]

    graphs = list[GraphModule]()

    def backend(graph: GraphModule, _: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    expected = torch.compile(function, backend=backend, fullgraph=True)(torch.ones(2, 3))
    torch._dynamo.reset()
    (graph,) = graphs
    assert "tag_activation_checkpoint" in str(fxc.import_fx(graph))
    back = round_trip(graph)
    inputs = {"x": torch.ones(2, 3), "weight": layer.weight, "bias": layer.bias}
    values = [
        next(v for key, v in inputs.items() if key in str(node.target).rpartition("layer")[2] or key in node.name.split("_"))
        for node in graph.graph.nodes
        if node.op == "placeholder"
    ]
    (actual,) = back(*values)
    torch.testing.assert_close(actual, expected)


def test_auto_functionalized() -> None:
    @torch.library.custom_op("fxc_test_import::add_one_", mutates_args={"x"})
    def add_one_(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    def function(x: Tensor) -> Tensor:
        x = x.clone()
        add_one_(x, torch.ones_like(x))
        return x * 2

    graphs = list[GraphModule]()

    def keep(graph: GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    expected = torch.compile(function, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(torch.ones(3))
    torch._dynamo.reset()
    (graph,) = graphs
    assert "auto_functionalized" in str(fxc.import_fx(graph))
    (actual,) = round_trip(graph)(torch.ones(3))
    torch.testing.assert_close(actual, expected)


# errors


class Opaque:
    pass


def test_error_names_the_node_and_the_line() -> None:
    opaque = Opaque()
    traced = GraphModule(nn.Module(), graph := Graph())
    node = graph.call_function(torch.add, (graph.placeholder("x"), 1))
    node.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    return torch.add(x, opaque)\n'
    graph.output(node)
    object.__setattr__(node, "_args", (node.args[0], opaque))
    with pytest.raises(CaptureError) as caught:
        fxc.import_fx(traced)
    assert re.search(r"Opaque", caught.value.message)
    assert "model.py" in (caught.value.place or "") and "line 7" in (caught.value.place or "")
    assert "%add" in (caught.value.op or "")
    assert caught.value.hint


def test_error_without_a_line_names_the_node() -> None:
    traced = GraphModule(nn.Module(), graph := Graph())
    node = graph.call_function(torch.add, (graph.placeholder("x"), 1))
    graph.output(node)
    object.__setattr__(node, "_args", (node.args[0], object()))
    with pytest.raises(CaptureError) as caught:
        fxc.import_fx(traced)
    assert caught.value.place == "node add"


@pytest.mark.parametrize("kind", ["get_attr", "call_module"])
def test_error_for_a_name_that_the_module_lacks(kind: str) -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.create_node(kind, "missing.part", () if kind == "get_attr" else (x,)))
    traced = GraphModule(nn.Module(), Graph())
    traced._graph = graph
    with pytest.raises(CaptureError, match=r"'missing\.part'"):
        fxc.import_fx(traced)


def test_error_for_what_is_no_graph() -> None:
    with pytest.raises(CaptureError, match="not a Linear"):
        fxc.import_fx(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_error_for_the_wrong_number_of_examples() -> None:
    with pytest.raises(CaptureError, match="takes 1 inputs, but 2"):
        fxc.import_fx(symbolic_trace(nn.ReLU()), [torch.ones(1), torch.ones(1)])


ROWS = torch.linspace(-1, 2, 12).view(3, 4)


def _branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def _loop(x: Tensor) -> Tensor:
    return while_loop(lambda x: x.sum() < 9, lambda x: (x * 2 + 1,), (x,))[0]


@pytest.mark.parametrize("model", [_branches, _loop])
@pytest.mark.parametrize("has_types", [True, False])
def test_one_result_of_a_branch_or_loop_is_a_tuple(model: Any, has_types: bool) -> None:
    program = fxc.capture(model, (ROWS,))
    if not has_types:
        graph = fxc.to_fx(program)
        for part in (graph, *graph.children()):
            for node in part.graph.nodes:
                node.meta.clear()
        program = fxc.run_passes(fxc.import_fx(graph, (ROWS,)), "propagate-shapes")
    for result in (program, fxc.Transformer(program).transform()):
        torch.testing.assert_close(fxc.to_fx(result)(ROWS), model(ROWS))
        torch.testing.assert_close(fxc.Interpreter(result).run(ROWS), model(ROWS))
