"""The examples of the documentation of torch.fx: what FX does, and what fxc does with the same code."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
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


annotated.__annotations__ = {"x": List[Tensor], "y": "int", "z": Optional[tuple], "return": Tuple[Tensor, Tensor]}  # noqa: UP006, UP007, UP045


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


def test_an_exported_graph_is_called_by_the_names_of_the_model() -> None:
    def model(x: Tensor, *, scale: Tensor) -> dict[str, Any]:
        return {"scaled": x * scale, "both": [x, (scale,)]}

    graph = fxc.to_fx(fxc.capture(model, (X,), {"scale": X + 1}))
    torch.testing.assert_close(graph(x=X, scale=X), model(X, scale=X))
    assert "pytree" not in graph.code
