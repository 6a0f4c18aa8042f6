"""Copy each derivative to a module, specialized to the gradients of the outputs that the program uses.

Assumes  ``differentiate`` ran.
Ensures  each ``df`` of an ``autodiff.subgraph`` has a nested module with ``autodiff.implements = @df``: ``main`` is a
         copy of df marked ``plan.boxed`` (arguments are in a list, each released after its last use), beside the
         functions and declarations that it uses. Idempotent.
Leaves   f, df and the subgraph, as another set of gradients starts from df; subgraphs without a gradient, or whose df
         has no body.
Cost     a copy of each derivative.

Before:
  func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u, %t : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
    %a = autodiff.grad_of "aten.neg.default"(%d_u) ({
      %neg = torch.aten.neg.default(%d_u) : (tensor<2xf32>) -> tensor<2xf32>
      autodiff.yield %neg : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %b = autodiff.add(%d_t, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    func.return %b : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1],
                                   captured_inputs = [], captured_outputs = [1], output_vjps = [0]>}
         : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }

After:
  func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u, %t : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
    %a = autodiff.grad_of "aten.neg.default"(%d_u) ({
      %neg = torch.aten.neg.default(%d_u) : (tensor<2xf32>) -> tensor<2xf32>
      autodiff.yield %neg : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %b = autodiff.add(%d_t, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    func.return %b : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1],
                                   captured_inputs = [], captured_outputs = [1], output_vjps = [0]>}
         : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
  builtin.module @f_df_10 attributes {autodiff.implements = @f_df} {
    func.func @main(%d_u: tensor<2xf32> {autodiff.defined}, %d_t: tensor<2xf32> {autodiff.undefined},
                    %t: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> attributes {plan.boxed} {
      %a = autodiff.grad_of "aten.neg.default"(%d_u) ({
        %neg = torch.aten.neg.default(%d_u) : (tensor<2xf32>) -> tensor<2xf32>
        autodiff.yield %neg : tensor<2xf32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      %b = autodiff.add(%d_t, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      func.return %b : tensor<2xf32>
    }
  }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.dialects.autodiff import DEFINED, UNDEFINED, SubgraphOp
from fxc.dialects.entry import argument_attributes, find_entry
from fxc.dialects.plan import BOXED
from fxc.passes.analysis.call_graph import functions_of, symbol_users_in
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.functions import symbols_of
from fxc.passes.rewriting.outlining import add_implementation, extracted, implementations


@dataclass(frozen=True)
class SpecializeDerivativesPass(ModulePass):
    """Copy each derivative to a module, specialized to the gradients of the outputs that the program uses.

    Arguments of ``main`` are marked ``autodiff.defined``; gradients of outputs that only df uses are marked
    ``autodiff.undefined``. These are the states in a first backward where the program uses all results of f.
    """

    name = "specialize-derivatives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions, symbols = functions_of(op), symbols_of(op)
        for subgraph in symbol_users_in(op, SubgraphOp):
            df = None if subgraph.gradient is None else functions.get(subgraph.gradient.df.root_reference.data)
            if subgraph.gradient is None or df is None or df.is_declaration:
                continue
            # Which incoming gradients are defined in a first backward where the program uses all results of f.
            real = subgraph.gradient.real_outputs.value.data
            given = tuple(i < real for i in subgraph.gradient.indices("input_vjps"))
            if any(given_gradients(made, len(given)) == given for made in implementations(op, df)):
                continue
            digits = "".join("01"[there] for there in given)
            add_implementation(op, df, specialized(op, df, given), symbols.fresh(f"{df.sym_name.data}_{digits}"))
            count("derivatives specialized")


def given_gradients(module: ModuleOp, count: int) -> tuple[bool, ...]:
    """Which of the first ``count`` arguments of the entry of ``module`` are marked as defined."""
    main = find_entry(module)
    return () if main is None else tuple(DEFINED in each.data for each in argument_attributes(main)[:count])


def specialized(module: ModuleOp, df: FuncOp, given: Sequence[bool]) -> ModuleOp:
    """A module that computes ``df`` where the incoming gradients marked in ``given`` are defined."""
    made = extracted(module, df)
    main = find_entry(made)
    assert main is not None
    known = argument_attributes(main)
    values = [True] * (len(known) - len(given))  # a value may be a gradient, too: of a scan over nothing it is the operand
    marks = [DEFINED if there else UNDEFINED for there in (*given, *values)]
    marked = [DictionaryAttr({**old.data, mark: UnitAttr()}) for old, mark in zip(known, marks, strict=True)]
    main.properties["arg_attrs"] = ArrayAttr(marked)
    main.attributes[BOXED] = UnitAttr()
    return made
