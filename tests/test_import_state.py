"""What a graph calls besides operators: state, modules, and functions, operators and classes of the user."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Tracer, symbolic_trace

import fxc
from fxc.dialects.verify.verifier import verify
from fxc.errors import TargetError
from fxc.program.program import Program
from tests.round_trips import graph_of, round_trip

# state


class Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("kept", torch.full((3,), 2.0))
        self.register_buffer("lost", torch.full((3,), 3.0), persistent=False)
        self.register_buffer("absent", None)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(Leaf(), nn.Linear(3, 3))
        self.b = self.a  # shared
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.a[1].weight
        self.constant = torch.tensor([1.0, math.nan, -0.0])

    def forward(self, x: Tensor) -> Tensor:
        leaf = self.a[0]
        y = x * leaf.weight + leaf.frozen + leaf.kept + leaf.lost
        return self.tied(self.b[1](self.a[1](y))) + self.constant.nan_to_num()


def test_state_keeps_identity_kind_and_persistence() -> None:
    model = Nested()
    traced = symbolic_trace(model)
    graph = round_trip(traced)
    for names in ("named_parameters", "named_buffers"):
        before, after = (dict(getattr(module, names)(remove_duplicate=False)) for module in (traced, graph))
        assert before.keys() == after.keys()
        assert all(before[name] is after[name] for name in before)
    assert traced.state_dict().keys() == graph.state_dict().keys()
    assert {n: p.requires_grad for n, p in graph.named_parameters()} == {
        n: p.requires_grad for n, p in traced.named_parameters()
    }
    x = torch.ones(2, 3)
    assert torch.equal(graph(x), model(x))
    assert graph.get_parameter("tied.weight") is graph.get_parameter("a.1.weight")


def test_state_from_files(tmp_path: Path) -> None:
    model = Nested()
    traced = symbolic_trace(model)
    fxc.import_fx(traced).save(tmp_path / "model.mlir")
    loaded = Program.load(tmp_path / "model.mlir")
    graph = fxc.to_fx(loaded)
    x = torch.ones(2, 3)
    assert torch.equal(graph(x), model(x))
    assert loaded.state["tied.weight"] is loaded.state["a.1.weight"]
    assert isinstance(graph.get_parameter("a.0.weight"), nn.Parameter)
    assert not graph.get_parameter("a.0.frozen").requires_grad
    assert graph.state_dict().keys() == traced.state_dict().keys()


def test_persistence_of_exported_buffers(tmp_path: Path) -> None:
    model = Nested()
    exported = torch.export.export(model, (torch.ones(2, 3),), strict=False)
    fxc.import_fx(exported).save(tmp_path / "model.mlir")
    for program in (fxc.import_fx(exported), Program.load(tmp_path / "model.mlir")):
        graph = fxc.to_fx(program)
        assert {"a.0.kept", "a.0.lost"} <= dict(graph.named_buffers()).keys()
        assert "a.0.kept" in graph.state_dict() and "a.0.lost" not in graph.state_dict()
        x = torch.ones(2, 3)
        assert torch.equal(graph(x), model(x))


def test_shared_module_is_called_twice() -> None:
    model = nn.Sequential(shared := nn.Linear(3, 3), nn.ReLU(), shared)
    graph = round_trip(symbolic_trace(model))
    assert torch.equal(graph(torch.ones(1, 3)), model(torch.ones(1, 3)))


def test_modes_of_modules_stay() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.Dropout(0.5)))
    model[0].eval()
    graph = round_trip(symbolic_trace(model))
    assert not graph.get_submodule("0").training
    assert graph.get_submodule("1.0").training


def test_hooks_run_where_the_module_is_live(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    x = torch.ones(2, 3)
    program = fxc.import_fx(symbolic_trace(model))
    assert torch.equal(fxc.to_fx(program)(x), model(x))
    program.save(tmp_path / "model.mlir")
    with pytest.raises(TargetError, match="hook"):
        fxc.to_fx(Program.load(tmp_path / "model.mlir"))


# functions, operators and classes of the user


def wrapped(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


torch.fx.wrap("wrapped")


def test_wrapped_function_is_live(tmp_path: Path) -> None:
    def function(x: Tensor) -> Tensor:
        return wrapped(x) + 1

    traced = symbolic_trace(function)
    graph = round_trip(traced)
    assert torch.equal(graph(torch.ones(2)), torch.full((2,), 3.0))
    program = fxc.import_fx(traced)
    program.save(tmp_path / "model.mlir")
    with pytest.raises(TargetError, match="wrapped"):
        fxc.to_fx(Program.load(tmp_path / "model.mlir"))


class Scaled(nn.Linear):
    """A leaf of the user's own class, by name not PyTorch's."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 3


class LeafTracer(Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Scaled) or super().is_leaf_module(m, module_qualified_name)


def test_class_of_the_user_is_live(tmp_path: Path) -> None:
    model = nn.Sequential(Scaled(3, 3), nn.ReLU())
    traced = GraphModule(model, LeafTracer().trace(model))
    graph = round_trip(traced)
    assert torch.equal(graph(torch.ones(2, 3)), model(torch.ones(2, 3)))
    fxc.import_fx(traced).save(tmp_path / "model.mlir")
    with pytest.raises(TargetError, match=r"class '.*Scaled'"):
        fxc.to_fx(Program.load(tmp_path / "model.mlir"))


@pytest.fixture
def custom_operator() -> Iterator[Any]:
    with torch.library._scoped_library("fxc_test_import", "FRAGMENT") as library:
        library.define("blend(Tensor a, Tensor b, *, float by=0.5, int[]? dims=None) -> (Tensor, Tensor[])")

        def blend(a: Tensor, b: Tensor, *, by: float = 0.5, dims: list[int] | None = None) -> tuple[Tensor, list[Tensor]]:
            return a * by + b, [a + 1, b + 1]

        library.impl("blend", blend, "CompositeExplicitAutograd")
        yield torch.ops.fxc_test_import.blend.default


def test_operator_registered_at_run_time(custom_operator: Any) -> None:
    def build(graph: Graph, x: Any) -> Any:
        call = graph.call_function(custom_operator, (x, x), {"by": 0.25})
        first = graph.call_function(operator.getitem, (call, 0))
        rest = graph.call_function(operator.getitem, (call, 1))
        return first, graph.call_function(operator.getitem, (rest, 1))

    captured = graph_of(build)
    text = fxc.import_fx(captured).text()
    declaration = "torch.operator @fxc_test_import.blend.default"
    assert text.count(declaration) == 1 and text.index(declaration) < text.index("torch.fxc_test_import.blend.default(")
    assert "float by=0.5" in text
    round_trip(captured)
    x = torch.ones(2)
    torch.testing.assert_close(fxc.to_fx(Program.parse(text))(x), captured(x))


def test_text_names_an_operator_that_is_not_registered() -> None:
    text = """
torch.operator @nowhere.f.default "(Tensor x) -> Tensor" flags ""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.nowhere.f.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%y) : (tensor<2xf32>) -> ()
}
"""
    program = Program.parse(text)
    verify(program.module)
    with pytest.raises(TargetError, match="nowhere::f"):
        fxc.to_fx(program)


def test_custom_op_decorator_under_export() -> None:
    @torch.library.custom_op("fxc_test_import::double", mutates_args=())
    def double(x: Tensor, times: int = 1) -> Tensor:
        return x * 2**times

    @double.register_fake
    def _(x: Tensor, times: int = 1) -> Tensor:
        return torch.empty_like(x)

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return double(x, 2) + 1

    exported = torch.export.export(Model(), (torch.ones(3),), strict=False)
    round_trip(exported)
    program = fxc.run_passes(fxc.import_fx(exported), "lower-to-torch,simplify")
    torch.testing.assert_close(fxc.to_fx(program)(torch.ones(3)), torch.full((3,), 5.0))


def test_packet_of_overloads(tmp_path: Path) -> None:
    traced = graph_of(lambda graph, x: graph.call_function(torch.ops.aten.masked_select, (x, x)))
    round_trip(traced)
    fxc.import_fx(traced).save(tmp_path / "model.mlir")
    loaded = fxc.to_fx(Program.load(tmp_path / "model.mlir"))
    assert [node.target for node in loaded.graph.nodes] == [node.target for node in traced.graph.nodes]
