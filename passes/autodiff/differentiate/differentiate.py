"""Build the derivative of each ``autodiff.subgraph``.

Assumes  the functions of the subgraphs have one block of ``torch`` operations without mutation and calls, ending in
         ``func.return``; one to be differentiated again has been through ``specialize-autograd-zero``.
Ensures  df, the ``gradient``, takes gradients of outputs and values that f saves, ``fx.frozen`` without derivative, and
         returns those of the inputs that need one; what has no derivative in f is marked by ``requires_grad``.
         ``mode=forward`` makes ``@f_jvp`` and sets ``autodiff.jvp``; ``twice=true`` marks df ``autodiff.twice``.
Leaves   the order of f's outputs and all of f's inputs. Gradients that may be undefined are not summed:
         ``autodiff.add`` and ``autodiff.grad_of`` mark them for ``lower-grad-of`` and ``specialize-autograd-zero``.
Cost     one PyTorch trace per different operation, 5 to 50 ms; two walks of f.

Before:
  func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }

After:
  func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u, %t : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>, %u: tensor<2xf32>) -> tensor<2xf32> {
    %a = autodiff.grad_of "aten.tanh.default"(%d_u) ({
      %tanh_backward = torch.aten.tanh_backward.default(%d_u, %u) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      autodiff.yield %tanh_backward : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %b = autodiff.add(%d_t, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %c = autodiff.grad_of "aten.exp.default"(%b) ({
      %mul = torch.aten.mul.Tensor(%b, %t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      autodiff.yield %mul : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %c : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1],
                                   captured_inputs = [], captured_outputs = [1, 0], output_vjps = [0]>}
         : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.autodiff import AddOp, GradientAttr, MaterializeOp, SubgraphOp, SumToSizeOp, ZeroOp, is_differentiable
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import argument_attributes
from fxc.passes.analysis.requires_grad import REQUIRES_GRAD, marked, requires_grad
from fxc.passes.analysis.statistics import count
from fxc.passes.autodiff.activity import check
from fxc.passes.autodiff.differentiate.reverse import ReverseDerivative
from fxc.passes.rewriting.functions import copy_body, declare, fresh_symbol
from fxc.passes.rewriting.unpacking import unpack_tuples

JVP = "autodiff.jvp"
"""The attribute of a subgraph that names its forward-mode derivative."""


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """The values that derivatives compute and save.

    An operation whose backward needs values other than its operands and results (dropout, layer norm) is replaced in f by the
    operations that PyTorch runs for it under autograd. A duplicated output has a gradient per position. Where df needs only the
    size of a tensor, the size is saved instead. Gradients that no input needs are not computed. An f with other users is copied
    first.

    ``@f_jvp`` takes the inputs and their tangents, and returns the outputs and their tangents. ``twice=true`` uses the
    backwards that PyTorch uses for second derivatives, which are slower for some operators; ``linalg.solve`` and ``slogdet``
    always use them.
    """

    name = "differentiate"

    mode: Literal["reverse", "forward"] = "reverse"
    twice: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for module in [inner for inner in op.walk() if isinstance(inner, ModuleOp)]:
            _Module(module, ctx, self.mode, self.twice).run()


class _Module:
    def __init__(self, module: ModuleOp, context: FxcContext, mode: str, twice: bool) -> None:
        self.module, self.context, self.mode, self.twice = module, context, mode, twice
        self.done = dict[tuple[FuncOp, tuple[bool, ...]], tuple[str, GradientAttr | SymbolRefAttr]]()

    def run(self) -> None:
        for op in [inner for inner in self.module.walk() if isinstance(inner, SubgraphOp)]:
            if op.gradient is None and not (self.mode == "forward" and JVP in op.attributes):
                self.subgraph(op)

    def subgraph(self, op: SubgraphOp) -> None:
        function = op.function()
        if function is None or function.is_declaration:
            raise VerifyException(f"@{op.callee.root_reference.data} has no body to differentiate")
        needs = tuple(_needs(op, function))
        key = (function, needs)
        if key not in self.done:
            self.done[key] = self.differentiate(function, needs, op)
            count("functions differentiated")
        name, derivative = self.done[key]
        op.properties["callee"] = SymbolRefAttr(name)
        if isinstance(derivative, GradientAttr):
            op.properties["gradient"] = derivative
        else:
            op.attributes[JVP] = derivative

    def differentiate(
        self, function: FuncOp, needs: Sequence[bool], op: SubgraphOp
    ) -> tuple[str, GradientAttr | SymbolRefAttr]:
        if self.mode == "forward":
            name = ForwardDerivative(self.module, self.context, function, needs).run()
            return function.sym_name.data, SymbolRefAttr(name)
        if any(user is not op for user in _users(self.module, function.sym_name.data)):
            copy = function.clone()
            copy.properties["sym_name"] = type(function.sym_name)(fresh_symbol(self.module, function.sym_name.data))
            self.module.body.block.insert_op_after(copy, function)
            function = copy
        gradient = ReverseDerivative(self.module, self.context, function, needs, self.twice).run()
        return function.sym_name.data, gradient


def _needs(op: SubgraphOp, function: FuncOp) -> list[bool]:
    """For each input of ``function``, whether it needs a gradient, by its attributes or else by the operand of ``op``."""
    if any(attributes.data for attributes in argument_attributes(function)):
        return marked(function)
    return [requires_grad(value) for value in op.operands]


def _users(module: ModuleOp, name: str) -> list[Operation]:
    """The ops that call ``@name`` or use it as a derivative."""
    found = list[Operation]()
    for op in module.walk():
        if isinstance(op, (CallOp, SubgraphOp)):
            names = {op.callee.root_reference.data}
            if isinstance(op, SubgraphOp) and op.gradient is not None:
                names.add(op.gradient.df.root_reference.data)
            if name in names:
                found.append(op)
    return found


# forward mode: the derivative of one function, as a separate function


class ForwardDerivative:
    """Builds the forward-mode derivative ``@f_jvp``.

    It takes the arguments of f, and then a tangent for each input that needs one. It returns the results of f, and then a
    tangent for each differentiable output: ``autodiff.zero`` where the output does not depend on those inputs.
    """

    def __init__(self, module: ModuleOp, context: FxcContext, function: FuncOp, needs: Sequence[bool]) -> None:
        self.module, self.semantics, self.needs = module, context.semantics, needs
        self.function = function.clone()
        self.name = fresh_symbol(module, f"{function.sym_name.data}_jvp")
        self.after = function
        self.tangents = dict[SSAValue, SSAValue]()

    def run(self) -> str:
        self.function.properties["sym_name"] = StringAttr(self.name)
        self.function.properties.pop("arg_attrs", None)
        self.module.body.block.insert_op_after(self.function, self.after)
        unpack_tuples(self.function)
        block = self.function.body.block
        for argument, need in list(zip(block.args, self.needs, strict=True)):
            if need and is_differentiable(argument.type):
                tangent = block.insert_arg(argument.type, len(block.args))
                tangent._name = f"t_{argument._name}" if argument._name else None
                self.tangents[argument] = tangent
        last = block.last_op
        assert last is not None
        for op in list(block.ops)[:-1]:
            check(op)
            if any(value in self.tangents for value in op.operands):
                self.visit(op)
        outputs = list(last.operands)
        for value in list(outputs):
            if is_differentiable(value.type):
                if value not in self.tangents:
                    block.insert_op_before(zero := ZeroOp.of(value.type), last)
                    self.tangents[value] = zero.result
                outputs.append(self.tangents[value])
        last.operands = outputs
        self.function.properties["function_type"] = FunctionType.from_lists(
            [argument.type for argument in block.args], [value.type for value in outputs]
        )
        for op in self.function.walk():
            op.attributes.pop(REQUIRES_GRAD, None)
        return self.name

    def visit(self, op: Operation) -> None:
        if isinstance(op, (AddOp, MaterializeOp, SumToSizeOp)):
            raise VerifyException(f"{op.name} has no forward derivative: run specialize-autograd-zero first")
        if not any(is_differentiable(result.type) for result in op.results):
            return
        jvp = self.semantics.jvp(op, [value in self.tangents for value in op.operands])
        declare(self.module, jvp.declarations)
        arguments = [*dict.fromkeys(op.operands), *(self.tangents[op.operands[i]] for i in jvp.tangents)]
        copies, returned = copy_body(jvp.function, arguments, op)
        block = op.parent
        assert block is not None
        block.insert_ops_before(copies, op)
        stopped = [not requires_grad(result) for result in op.results]
        for index, tangent in zip(jvp.results, returned[len(op.results) :], strict=True):
            if not stopped[index]:
                self.tangents[returned[index]] = tangent
        for old, new in zip(op.results, returned, strict=False):
            name = old._name
            old.replace_all_uses_with(new)
            if isinstance(new.owner, Operation):
                new._name = name
        block.erase_op(op)
