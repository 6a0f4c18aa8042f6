"""Regions of higher-order operators as submodules: equal ones shared, others of the same name kept apart."""

from __future__ import annotations

import pytest
import torch
from torch.fx.graph import _BoxedCodeGen

import fxc
from fxc.export.graph_module import to_fx
from fxc.program.program import Program

TEXT = """
func.func @main(%p: tensor<i1>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {{
  %a = torch.higher_order.cond(%p, @yes, @no, (%x,)) ({{{neg}}}, {{{same}}}) : (tensor<i1>, tensor<3xf32>) -> (tensor<3xf32>)
  %b = torch.higher_order.cond(%p, @yes, @no, (%x,)) ({{{exp}}}, {{{same}}}) : (tensor<i1>, tensor<3xf32>) -> (tensor<3xf32>)
  %c = torch.higher_order.cond(%p, @yes, @no, (%x,)) ({{{neg}}}, {{{same}}}) : (tensor<i1>, tensor<3xf32>) -> (tensor<3xf32>)
  fx.output((%a, %b, %c)) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
}}
"""


def body(operator: str) -> str:
    return f"""
  ^bb0(%v: tensor<3xf32>):
    %r = torch.aten.{operator}.default(%v) : (tensor<3xf32>) -> tensor<3xf32>
    fx.output((%r,)) : (tensor<3xf32>) -> ()
  """


def test_regions_of_one_name_and_other_bodies() -> None:
    program = fxc.Program.parse(TEXT.format(neg=body("neg"), exp=body("exp"), same=body("relu")))
    graph = fxc.to_fx(program)
    assert sorted(name for name, _ in graph.named_children()) == ["no", "yes", "yes_1"]
    x = torch.randn(3)
    for predicate, expected in ((True, (-x, x.exp(), -x)), (False, (x.relu(),) * 3)):
        with torch.no_grad():
            torch.testing.assert_close(graph(torch.tensor(predicate), x), expected)


TWO_CALLS = """
func.func @main(%x: tensor<4xf32> {fx.kind = "input"}, %w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %n = func.call @first(%w) {fx.once} : (tensor<4xf32>) -> tensor<4xf32>
  %m = func.call @second(%w) {fx.once} : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.add.Tensor(%x, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.add.Tensor(%y, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%z) : (tensor<4xf32>) -> ()
}
func.func private @first(%w: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %e = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %e : tensor<4xf32>
}
func.func private @second(%w: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %e = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %e : tensor<4xf32>
}
"""


def test_calls_of_plan_time_share_an_operand() -> None:
    w, x = torch.randn(4), torch.randn(4)
    module = fxc.to_fx(Program.parse(TWO_CALLS, {"w": w}))
    torch.testing.assert_close(module(x), x + w.exp() - w)
    assert not any(node.op == "get_attr" and node.target == "w" for node in module.graph.nodes)


@pytest.mark.parametrize("name", ["or", "and", "lambda"])
def test_values_named_like_keywords_of_python(name: str) -> None:
    """A derivative takes values of the forward function, which the graph names as it likes."""
    text = f"""
        func.func @main(%x: tensor<2xf32>, %{name}: tensor<2xf32>) -> tensor<2xf32> {{
          %y = torch.aten.mul.Tensor(%x, %{name}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }}"""
    x = torch.ones(2)
    assert torch.equal(to_fx(Program.parse(text))(x, 3 * x), 3 * x)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("names", [("sum", "sum_1", "x"), ("sum", "x", "sum_1"), ("max", "max_2", "max_1")])
def test_values_named_like_builtins_of_python(names: tuple[str, ...], boxed: bool) -> None:
    """FX gives the node of an argument that is named like a builtin another name, which may be that of another argument."""
    a, b, c = names
    text = f"""
        func.func @main(%{a}: tensor<2xf32> {{fx.name = "{a}"}}, %{b}: tensor<2xf32>, %{c}: tensor<2xf32>) -> tensor<2xf32> {{
          %p = torch.aten.mul.Tensor(%{a}, %{b}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %y = torch.aten.sub.Tensor(%p, %{c}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }}"""
    module, x = to_fx(Program.parse(text)), torch.ones(2)
    if boxed:
        module.graph.set_codegen(_BoxedCodeGen())
        module.recompile()
    assert torch.equal(module([2 * x, 3 * x, 5 * x]) if boxed else module(2 * x, 3 * x, 5 * x), x)


def test_a_weight_named_like_an_argument() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum = torch.nn.Parameter(torch.ones(2))

        def forward(self, p_sum: torch.Tensor, sum: torch.Tensor, sum_1: torch.Tensor) -> torch.Tensor:
            return self.sum * p_sum + 2 * sum - sum_1

    inputs = (torch.rand(2), torch.rand(2), torch.rand(2))
    model = Model()
    for target in (None, "host"):
        compiled = fxc.compile(model, inputs, training=True, options={"target": target})
        torch.testing.assert_close(compiled(*inputs), model(*inputs))
