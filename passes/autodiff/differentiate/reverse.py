"""The reverse-mode derivative of one function: f gets extra outputs in place, and df is a new function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import IntType, dims_of
from fxc.dialects.attributes.values import MemoryFormatAttr, Tree, bool_attr, enum_attr, int_attr, str_attr
from fxc.dialects.autodiff import (
    AddOp,
    GradientAttr,
    GradOfOp,
    MaterializeOp,
    SumToSizeOp,
    YieldOp,
    contiguous_type,
    gradient_type,
    is_differentiable,
)
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import PositionalCall
from fxc.dialects.semantics import Vjp
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.requires_grad import FROZEN, REQUIRES_GRAD
from fxc.passes.autodiff.activity import TWICE, UNREACHED, Activity
from fxc.passes.rewriting.functions import copy_body, copy_op, declare, fresh_symbol, owner_block
from fxc.passes.rewriting.unpacking import unpack_tuples

_ATTEMPTS = 4
_SIZES = frozenset(["torch.aten.sym_size.int", "torch.aten.sym_numel.default", "torch.aten.sym_stride.int"])


class ReverseDerivative:
    def __init__(
        self, module: ModuleOp, context: FxcContext, function: FuncOp, needs: Sequence[bool], twice: bool = False
    ) -> None:
        self.module, self.context, self.function, self.needs, self.twice = module, context, function, needs, twice
        self.semantics, self.block = context.semantics, function.body.block
        self.reverse = Block()
        self.gradients = dict[SSAValue, SSAValue]()
        self.inactive = set[SSAValue]()

    def run(self) -> GradientAttr:
        unpack_tuples(self.function)
        self.activity = Activity(self.module, self.context, self.function, self.needs, self.twice)
        self.activity.split()
        last = self.block.last_op
        assert last is not None
        outputs = list(last.operands)
        real, temporaries = len(outputs), self.build(outputs)
        input_vjps = [i for i, value in enumerate(outputs) if value in self.activity.active]
        self.save_sizes_only()
        captured_inputs, captured_outputs, moved = self.capture(outputs)
        input_vjps += [outputs.index(value, real) for value in temporaries]
        self.redirect(moved)
        self.extend(outputs)
        returned = [arg.index for arg in self.block.args if arg in self.gradients]
        return self.finish(real, input_vjps, captured_inputs, captured_outputs, returned)

    def build(self, outputs: Sequence[SSAValue]) -> list[SSAValue]:
        """Build the reverse block. Returns the temporaries that have a gradient.

        The temporaries are known only once the block is built. Their gradients come from outside, and the handling of a
        gradient depends on the layout of the whole sum. So the block is built again with these temporaries, until they stay the
        same.
        """
        temporaries = list[SSAValue]()
        for _ in range(_ATTEMPTS):
            self.reverse, self.gradients = Block(), dict[SSAValue, SSAValue]()
            for value in (*(value for value in outputs if value in self.activity.active), *temporaries):
                self.accumulate(value, self.argument(value))
            for op in reversed(list(self.block.ops)[:-1]):
                self.backward(op)
            self.reverse.add_op(ReturnOp(*(self.gradients[arg] for arg in self.block.args if arg in self.gradients)))
            self.remove_unused()
            known = {*outputs, *self.block.args}
            found = [value for value in self.read() if value not in known and self.may_have_gradient(value)]
            if found == temporaries:
                return temporaries
            temporaries = found
            self.reverse.erase()
        raise VerifyException(f"what the derivative of @{self.function.sym_name.data} saves does not settle")

    def may_have_gradient(self, temporary: SSAValue) -> bool:
        """Whether ``temporary`` may have a gradient; with ``twice``, possibly only in a second backward."""
        return temporary in (self.activity.active if self.twice else self.gradients)

    # the reverse block

    def argument(self, value: SSAValue) -> BlockArgument:
        """A new argument of df: the gradient of an output or temporary."""
        argument = self.reverse.insert_arg(gradient_type(value.type), len(self.reverse.args))
        argument._name = f"d_{value._name}" if value._name else None
        return argument

    def accumulate(self, value: SSAValue, gradient: SSAValue) -> None:
        if value in self.gradients:
            *ops, total = self.sum(self.gradients[value], gradient)
            self.reverse.add_ops([*ops, total])
            gradient = total.results[0]
        self.gradients[value] = gradient

    def sum(self, a: SSAValue, b: SSAValue) -> list[Operation]:
        """The ops that add two gradients, the sum last.

        Both are first brought to one layout, so that the type of the sum holds whichever of them is undefined.
        """
        ops = list[Operation]()
        if a.type != b.type or gradient_type(a.type) != a.type:
            a, b = (_contiguous(value, ops) for value in (a, b))
        return [*ops, AddOp.of(a, b, type=a.type)]

    def backward(self, op: Operation) -> None:
        given = {i: self.gradients[r] for i, r in enumerate(op.results) if r in self.gradients and r in self.activity.active}
        if not given:
            return
        label = op.name.removeprefix("torch.")
        if isinstance(op, (AddOp, MaterializeOp, SumToSizeOp)):
            self.backward_of_gradient(op, given[0], label)
            return
        if len(given) > 1:
            ops = list[Operation]()
            given = {i: _contiguous(gradient, ops) for i, gradient in given.items()}
            self.reverse.add_ops(ops)
        vjp = self.activity.vjp(op, {i: gradient.type for i, gradient in given.items()})
        if vjp is None or vjp.backward is None:
            return
        declare(self.module, vjp.declarations)
        self.grad_of(op, label, vjp, given)

    def grad_of(self, op: Operation, label: str, vjp: Vjp, given: Mapping[int, SSAValue]) -> None:
        assert vjp.backward is not None
        gradients = [given[i] for i in vjp.cotangents]
        body = Block()
        arguments: list[SSAValue] = gradients
        if len(gradients) > 1:  # one of them may be undefined where the body runs
            ops = list[Operation]()
            values = [op.results[i] for i in vjp.cotangents]
            filled = [MaterializeOp.of(g, _size(v, ops), type=g.type) for v, g in zip(values, gradients, strict=True)]
            body.add_ops([*ops, *filled])
            arguments = [m.results[0] for m in filled]
        arguments = [*arguments, *(op.operands[i] for i in vjp.operands), *(op.results[i] for i in vjp.results)]
        copies, returned = copy_body(vjp.backward, arguments, op)
        body.add_ops([*copies, YieldOp.of(returned)])
        self.add_grad_of(op, label, gradients, body, [op.operands[i] for i in vjp.gradients])

    def add_grad_of(
        self, op: Operation, label: str, gradients: Sequence[SSAValue], body: Block, values: Sequence[SSAValue]
    ) -> None:
        grad_of = GradOfOp.of(label, gradients, Region(body))
        grad_of.location = op.location
        self.reverse.add_op(grad_of)
        for value, result in zip(values, grad_of.results, strict=True):
            result._name = f"d_{value._name}" if value._name else None
            self.accumulate(value, result)

    def backward_of_gradient(self, op: Operation, gradient: SSAValue, label: str) -> None:
        """Differentiate an op on gradients, which is linear: a sum passes its gradient on, ``sum_to_size`` expands it."""
        values = [value for value in op.operands if value in self.activity.active]
        body = Block()
        yielded: list[SSAValue] = [gradient] * len(values)
        assert isinstance(op, PositionalCall)
        if isinstance(op, SumToSizeOp) and dims_of(values[0]) != dims_of(gradient):
            expand = op_class("torch.aten.expand_as.default")
            assert expand is not None and issubclass(expand, TorchOp)
            call = expand.build_call([gradient, values[0]], {}, [values[0].type])
            body.add_op(call)
            clone = _clone(call.results[0], contiguous_type(values[0].type))
            body.add_op(clone)
            yielded = [clone.results[0]]
        body.add_op(YieldOp.of(yielded))
        self.add_grad_of(op, label, [gradient], body, values)

    # values of f that df reads

    def remove_unused(self) -> None:
        """Erase the ops with unused results, and the gradients that these results represent."""
        for op in reversed(list(self.reverse.ops)):
            if op.results and all(result.first_use is None for result in op.results):
                gone = set(op.results)
                self.gradients = {value: g for value, g in self.gradients.items() if g not in gone}
                self.reverse.erase_op(op)

    def primals(self) -> Iterator[tuple[Operation, int, SSAValue]]:
        """(op, index, value) for each operand in the reverse block that is defined in f."""
        for op in self.reverse.walk():
            for index, value in enumerate(op.operands):
                if owner_block(value) is self.block:
                    yield op, index, value

    def readers(self) -> dict[SSAValue, list[Operation]]:
        """Each value of f that df reads, and the ops of df that read it."""
        found = dict[SSAValue, list[Operation]]()
        for op, _, value in self.primals():
            found.setdefault(value, []).append(op)
        return found

    def read(self) -> list[SSAValue]:
        """The values of f that df reads for more than their sizes: inputs first, then in program order."""
        order = {value: i for i, value in enumerate(_defined(self.block))}
        read = [value for value, ops in self.readers().items() if not _reads_sizes(ops) and not _is_constant(value)]
        return sorted(read, key=order.__getitem__)

    def save_sizes_only(self) -> None:
        """Move size queries from df to f, for values of f that df does not use otherwise."""
        for value, ops in self.readers().items():
            for op in ops if _reads_sizes(ops) else ():
                op.detach()
                if isinstance(value, BlockArgument):
                    self.block.insert_op_before(op, self.block.first_op)  # type: ignore[arg-type]
                else:
                    assert isinstance(value.owner, Operation)
                    self.block.insert_op_after(op, value.owner)

    def capture(self, outputs: list[SSAValue]) -> tuple[list[int], list[int], dict[SSAValue, SSAValue]]:
        """Turn the values of f that df reads into arguments of df, and copy constants. Appends temporaries to ``outputs``."""
        moved = dict[SSAValue, SSAValue]()
        for value in self.readers():
            if isinstance(value.owner, Operation) and _is_constant(value):
                copy = copy_op(value.owner, {})
                self.reverse.insert_op_before(copy, self.reverse.first_op)  # type: ignore[arg-type]
                moved[value] = copy.results[0]
        inputs, from_outputs = list[BlockArgument](), list[int]()
        for value in self.read():
            if isinstance(value, BlockArgument) and value not in outputs:
                inputs.append(value)
                continue
            if value not in outputs:
                outputs.append(value)
            from_outputs.append(outputs.index(value))
        for value in (*inputs, *(outputs[i] for i in from_outputs)):
            argument = self.reverse.insert_arg(value.type, len(self.reverse.args))
            argument._name = value._name
            moved[value] = argument
            if self.is_inactive(value):
                self.inactive.add(argument)
        return [value.index for value in inputs], from_outputs, moved

    def redirect(self, moved: Mapping[SSAValue, SSAValue]) -> None:
        for op, index, value in list(self.primals()):
            op.operands[index] = moved[value]

    # the functions

    def extend(self, outputs: Sequence[SSAValue]) -> None:
        """Let f return ``outputs``. Its ``requires_grad`` now states which results have no derivative: autograd sees none."""
        last = self.block.last_op
        assert last is not None
        last.operands = outputs
        self.function.properties["function_type"] = FunctionType.from_lists(
            [argument.type for argument in self.block.args], [value.type for value in outputs]
        )
        self.function.properties.pop("res_attrs", None)
        self.function.properties.pop("arg_attrs", None)
        for op in self.function.walk():
            op.attributes.pop(REQUIRES_GRAD, None)
        for op in self.block.ops:
            if any(map(self.is_inactive, op.results)) and self.activity.active.isdisjoint(op.results):
                op.attributes[REQUIRES_GRAD] = ArrayAttr([bool_attr(False)] * len(op.results))

    def is_inactive(self, value: SSAValue) -> bool:
        """Whether ``value`` has no derivative although values of its type may have one."""
        return is_differentiable(value.type) and value not in self.activity.active

    def finish(
        self, real: int, input_vjps: list[int], captured_inputs: list[int], captured_outputs: list[int], returned: list[int]
    ) -> GradientAttr:
        last = self.reverse.last_op
        assert last is not None
        type = FunctionType.from_lists([argument.type for argument in self.reverse.args], last.operand_types)
        name = fresh_symbol(self.module, f"{self.function.sym_name.data}_df")
        marks = [DictionaryAttr({FROZEN: UnitAttr()} if arg in self.inactive else {}) for arg in self.reverse.args]
        df = FuncOp(name, type, Region(self.reverse), "private", arg_attrs=ArrayAttr(marks) if self.inactive else None)
        df.location = self.function.location
        if self.twice and not self.activity.refused:
            df.attributes[TWICE] = UnitAttr()
        asked = [arg for arg, need in zip(self.block.args, self.needs, strict=True) if need and is_differentiable(arg.type)]
        if unreached := [arg.index for arg in asked if arg.index not in returned]:
            self.function.attributes[UNREACHED] = ArrayAttr(map(int_attr, unreached))
        self.module.body.block.insert_op_after(df, self.function)
        return GradientAttr.of(name, real, input_vjps, captured_inputs, captured_outputs, returned)


def _defined(block: Block) -> Iterator[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _size(value: SSAValue, ops: list[Operation]) -> list[Tree]:
    """The size of ``value`` as arguments of a call. Queries of symbolic sizes are appended to ``ops``."""
    found = list[Tree]()
    for dim, size in enumerate(dims_of(value)):
        if isinstance(size, str):
            query = op_class("torch.aten.sym_size.int")
            assert query is not None and issubclass(query, TorchOp)
            ops.append(op := query.build_call([value, int_attr(dim)], {}, [IntType(str_attr(size))]))
            found.append(op.results[0])
        else:
            found.append(int_attr(size))
    return found


def _reads_sizes(ops: Sequence[Operation]) -> bool:
    return all(op.name in _SIZES for op in ops)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and is_constant(value.owner)


def _contiguous(gradient: SSAValue, ops: list[Operation]) -> SSAValue:
    """``gradient`` in row-major layout; an op that copies it is appended to ``ops`` where it has another layout."""
    type = contiguous_type(gradient.type)
    if gradient.type == type:
        return gradient
    clone = _clone(gradient, type)
    body = Block([clone, YieldOp.of(clone.results)])
    ops.append(grad_of := GradOfOp.of("contiguous", [gradient], Region(body)))
    grad_of.results[0]._name = gradient._name
    return grad_of.results[0]


def _clone(value: SSAValue, type: Attribute) -> Operation:
    clone = op_class("torch.aten.clone.default")
    assert clone is not None and issubclass(clone, TorchOp)
    contiguous = enum_attr("contiguous_format")
    assert isinstance(contiguous, MemoryFormatAttr)
    return clone.build_call([value], {"memory_format": contiguous}, [type])
