"""Copy each differentiated function that launches kernels to a module, which becomes a host program.

Assumes  ``differentiate`` ran, and groups are kernels.
Ensures  each ``f`` of an ``autodiff.subgraph`` with a gradient, that launches kernels and has only tensors of known
         sizes and strides as arguments, has a nested module with ``autodiff.implements = @f``: ``main`` is a copy of f,
         beside the functions, kernels and declarations that it uses. Idempotent.
Leaves   f and the subgraph, because second derivatives depend on the operations of f; an f without kernels; with a
         remark, an f that has numbers or tensors of dynamic sizes as arguments.
Cost     a copy of each function and of its kernels.

Before:
  tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
  attributes {grid = array<i64: 2>} {
    %i = tile.program_id {axis = 0} : index
    %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
    %r = arith.negf %v : f32
    tile.store %r, %q[%i] : f32, !tile.ptr<f32>
    tile.return
  }
  func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
  func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
    func.return %d_u : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0],
                                   captured_inputs = [], captured_outputs = [], output_vjps = [0]>}
         : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }

After:
  tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
  attributes {grid = array<i64: 2>} {
    %i = tile.program_id {axis = 0} : index
    %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
    %r = arith.negf %v : f32
    tile.store %r, %q[%i] : f32, !tile.ptr<f32>
    tile.return
  }
  func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
  func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
    func.return %d_u : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0],
                                   captured_inputs = [], captured_outputs = [], output_vjps = [0]>}
         : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
  builtin.module @f_forward attributes {autodiff.implements = @f} {
    tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
    attributes {grid = array<i64: 2>} {
      %i = tile.program_id {axis = 0} : index
      %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
      %r = arith.negf %v : f32
      tile.store %r, %q[%i] : f32, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %u : tensor<2xf32>
    }
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.tile import LaunchOp
from fxc.passes.analysis.call_graph import functions_of, symbol_users_in
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.functions import symbols_of
from fxc.passes.rewriting.outlining import add_implementation, extracted, implementations, is_static
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class OutlineForwardsPass(ModulePass):
    name = "outline-forwards"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions, symbols = functions_of(op), symbols_of(op)
        for subgraph in symbol_users_in(op, SubgraphOp):
            f = None if subgraph.gradient is None else functions.get(subgraph.callee.root_reference.data)
            if f is None or implementations(op, f) or not any(isinstance(inner, LaunchOp) for inner in f.walk()):
                continue
            if not is_static(f):
                remark(self.name, "it reads what is no tensor of known sizes", f)
                continue
            add_implementation(op, f, extracted(op, f), symbols.fresh(f"{f.sym_name.data}_forward"))
            count("functions outlined")
