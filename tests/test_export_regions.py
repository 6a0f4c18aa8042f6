"""Regions of higher-order operators as submodules: equal ones shared, others of the same name kept apart."""

from __future__ import annotations

import torch

import fxc

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
