"""The forward derivative of one function, as a function beside it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.autodiff import AddOp, MaterializeOp, SumToSizeOp, ZeroOp, is_differentiable
from fxc.dialects.context import FxcContext
from fxc.passes.analysis.requires_grad import REQUIRES_GRAD, requires_grad
from fxc.passes.autodiff.activity import check
from fxc.passes.rewriting.functions import copy_body, declare, fresh_symbol
from fxc.passes.rewriting.unpacking import unpack_tuples


class ForwardDerivative:
    """@f_jvp takes what f takes, and then a tangent for each input that needs one. It returns what f returns, and then a
    tangent for each differentiable output: ``autodiff.zero`` where it does not depend on those inputs."""

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
