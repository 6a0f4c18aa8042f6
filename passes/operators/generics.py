"""Convert a group of torch ops to ``linalg.generic`` ops, one for each tensor that must be materialized.

A tensor is materialized if it is a result of the group, the total of a reduction, or a part of a concatenation. Other values
are recomputed at each use. Rules give the positions of these uses as index expressions over the loops, so views are free.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.attributes.size_polynomials import sizes_of
from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, tensor_of
from fxc.dialects.base.effects import is_pure
from fxc.dialects.fusion import YieldOp
from fxc.dialects.tile import AccumulateOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.index.ranges import Ranges
from fxc.passes.operators.accumulating import combined_dtype, encoded, kind_of, start_of
from fxc.passes.operators.bodies import Body, Group, old_of, rule_of
from fxc.passes.operators.record import Role
from fxc.passes.operators.reductions import SUM, dimensions
from fxc.passes.operators.rules import (
    Accumulation,
    Reduction,
    dtype_of,
    python_arguments,
    result_dtype,
    shape_of,
    tensors,
)
from fxc.passes.operators.scalars import (
    DTYPES,
    Scalar,
    Uncovered,
    computation_dtype,
    constant,
    holds,
    machine_type,
    stored,
    where,
)
from fxc.passes.operators.sizes import Sizes
from fxc.passes.operators.table import operator_of

NOTHING: Mapping[str, int] = MappingProxyType({})


class Generics:
    """Converts the ops of ``source``, the body of a group, to ``linalg`` ops in the new block ``target``."""

    def __init__(self, source: Block, around: Sequence[SSAValue] = (), least: Mapping[str, int] = NOTHING) -> None:
        """``around``: values from which dynamic sizes can be read. ``least``: size name -> its minimum."""
        self.group = Group(source, Sizes(_outside(source), around, least))
        self.wholes = dict[SSAValue, SSAValue]()
        """Result -> the tensor that is concatenated from pieces. No op in the group reads it."""
        self.combined = dict[Hashable, SSAValue]()
        """Reductions by source and kind, so that equal ones are shared: the mean in a variance reuses the sum."""

    def convert(self) -> Block:
        """The block of linalg ops. Uncovered if an op, a type or an argument has no rule."""
        group, last = self.group, self.group.source.last_op
        assert isinstance(last, YieldOp)
        wanted = set(last.operands)
        for op in group.source.ops:
            if isinstance(op, TorchOp):
                self._op(op, wanted)
            elif op is not last and not (isinstance(op, ConstantOp) and not is_tensor(op.result.type)):
                raise Uncovered(op.name)
        made = group.tensors | self.wholes
        group.target.add_op(YieldOp.of([made[value] for value in last.operands]))
        for value in (*group.sizes.read, *(result for op in group.target.ops for result in op.results)):
            if is_tensor(value.type):
                group.sizes.check(value.type)
        group.sizes.put_first(group.target)
        return group.target

    def _op(self, op: TorchOp, wanted: set[SSAValue]) -> None:
        check_call(op)
        if (role := operator_of(op).role) in (Role.CONCATENATION, Role.STACK) and op.results[0] in wanted:
            self._concatenate(op, adds=role is Role.STACK)
        elif isinstance(rule := rule_of(op), Reduction):
            self._reduce(op, rule)
        elif isinstance(rule, Accumulation):
            self._accumulate(op, rule)
        for result in op.results:
            if result in wanted and result not in self.group.tensors and result not in self.wholes:
                self.group.tensors[result] = self._materialize(result, result.type)
            for made in (self.group.tensors, self.wholes):
                if result in made:
                    made[result].name_hint = result.name_hint

    def _materialize(self, value: SSAValue, type: Attribute, added: Sequence[int] = ()) -> SSAValue:
        """Materialize ``value`` by a generic, as a tensor of ``type``, in which the dimensions ``added`` of size 1 are new."""
        assert is_tensor(type)
        body = Body(self.group, sizes_of(type))
        index = tuple(loop for dim, loop in enumerate(body.loops) if dim not in added)
        element = stored(body.element(value, index), dtype_name(type.element_type))
        empty = self.group.empty(type)
        body.block.insert_arg(type.element_type, len(body.block.args))
        return body.generic(element, empty, range(len(body.shape)))

    def _concatenate(self, op: TorchOp, *, adds: bool) -> None:
        """Concatenate the materialized parts, for users outside of the group. Users inside select elements of the parts."""
        arguments, [result] = python_arguments(op), op.results
        shape, parts = shape_of(result), arguments["tensors"]
        dim: int = arguments.get("dim", 0) % max(len(shape), 1)
        if any(dtype_of(part) != dtype_of(result) or len(shape_of(part)) + adds != len(shape) for part in parts):
            return
        pieces = list[SSAValue]()
        for part in parts:
            size = 1 if adds else shape_of(part)[dim]
            type = self.group.tensor_type(dtype_of(part), (*shape[:dim], size, *shape[dim + 1 :]), device(part.type))
            pieces.append(self._materialize(part, type, [dim] if adds else []))
        self.wholes[result] = self.group.add(tensor.ConcatOp(pieces, dim, tensor_of(result)))

    def _reduce(self, op: TorchOp, rule: Reduction) -> None:
        """Materialize the total of a reduction."""
        [source], [result] = tensors(op), op.results
        if rule.of_some and not all(map(Ranges({}, self.group.sizes.least).is_positive, shape_of(source))):
            raise Uncovered("an extreme of what may have no elements")
        dtype = computation_dtype(rule.accumulation(result_dtype(op)))
        dims, first = dimensions(op), None
        if rule.centred:
            first = self._combined(source, SUM, dims, dtype, None)
        elif rule.extreme is not None:
            first = self._combined(source, rule.extreme, dims, rule.extreme.accumulation(dtype_of(source)), None)
        made = self._combined(source, rule, dims, dtype, first)
        made.name_hint = result.name_hint
        self.group.totals[result] = made
        if made.type == result.type and rule.finish is None and made not in self.group.tensors.values():
            self.group.tensors[result] = made

    def _combined(self, source: SSAValue, rule: Reduction, dims: Sequence[int], dtype: str, first: SSAValue | None) -> SSAValue:
        """The total of ``source`` along ``dims``, or of its elements after ``rule`` relates them to a ``first`` reduction."""
        if dtype == "uint8":
            raise Uncovered("a reduction of unsigned numbers")
        key = source, rule.combine, rule.start(dtype), tuple(dims), dtype, first
        if key not in self.combined:
            self.combined[key] = self._loops_of(source, rule, dims, dtype, first)
        return self.combined[key]

    def _loops_of(self, source: SSAValue, rule: Reduction, dims: Sequence[int], dtype: str, first: SSAValue | None) -> SSAValue:
        body = Body(self.group, shape_of(source))
        element = body.element(source, body.loops)
        kept = [dim for dim in range(len(body.shape)) if dim not in dims]
        if first is not None:
            known = body.load(first, tuple(body.loops[dim] for dim in kept))
            if rule.extreme is not None:
                element = element.to(known.dtype)
                element = where(element.eq(known) | element.is_nan(), body.place(dims), rule.start(dtype))
            else:
                distance = element.to(dtype) - known / body.count(dims, known.dtype)
                element = distance * distance
        type = self.group.tensor_type(dtype, [body.shape[dim] for dim in kept], device(tensor_of(source)))
        filled = self._filled(rule.start(dtype), dtype, type)
        element = element.to(dtype)
        total = Scalar(body.block, body.block.insert_arg(machine_type(dtype), len(body.block.args)), dtype)
        return body.generic(rule.combine(total, element).value, filled, kept)

    def _accumulate(self, op: TorchOp, rule: Accumulation) -> None:
        """Materialize the total of all updates. Updates and their positions are computed by separate loops."""
        [result], kind, dtype, shape = op.results, kind_of(op), combined_dtype(op), rule.shape(op)
        place = device(tensor_of(result))

        def loops(dtype: str, element: Callable[[Body], Scalar]) -> SSAValue:
            body, type = Body(self.group, shape), self.group.tensor_type(dtype, shape, place)
            value = element(body).to(dtype).value
            empty = self.group.empty(type)
            body.block.insert_arg(type.element_type, len(body.block.args))
            return body.generic(value, empty, range(len(shape)))

        scale = python_arguments(op).get("alpha", 1)
        updates = loops(dtype, lambda body: encoded(op, body.element(*rule.update(op, body.loops))) * scale)
        places = loops("int64", lambda body: body.made(rule.place(op, body.loops, body.places)))
        type = self.group.tensor_type(dtype, shape_of(result), place)
        filled = self._filled(start_of(op), dtype, type)
        made = self.group.add(AccumulateOp.of(kind, updates, places, filled))
        made.name_hint = result.name_hint
        self.group.totals[result] = made
        if type == tensor_of(result) and old_of(op, self.group.is_outside) is None:
            self.group.tensors[result] = made

    def _filled(self, number: float, dtype: str, type: TensorType) -> SSAValue:
        """A tensor of ``type`` in which every element is ``number``."""
        start = constant(self.group.target, number, dtype).value
        return self.group.add(linalg.FillOp([start], [self.group.empty(type)], [type]))


def check_call(op: TorchOp) -> None:
    """Uncovered unless ``op`` works on dense tensors of one device, of dtypes that kernels support, and on numbers that its
    result can have: others are an error of many operators."""
    if not is_pure(op) or op.is_packed:
        raise Uncovered(f"{op.operator} with effects")
    devices = set[str]()
    for value in (*op.operands, *op.results):
        if not is_tensor(type := value.type):
            continue
        if layout(type) != "strided":
            raise Uncovered("a tensor that is not dense")
        if dtype_name(type.element_type) not in DTYPES:
            raise Uncovered(f"elements of {type.element_type}")
        devices.add(device(type))
    if len(devices) > 1:
        raise Uncovered("tensors of several devices")
    for name, argument in python_arguments(op).items():
        is_number = isinstance(argument, (int, float)) and op.SCHEMA.by_name[name].type.startswith(("Scalar", "float"))
        if is_number and not holds(result_dtype(op), argument):
            raise Uncovered(f"{name} = {argument} is not in the range of {result_dtype(op)}")


def _outside(source: Block) -> list[SSAValue]:
    """The distinct values that the ops of ``source`` read from outside."""
    operands = dict.fromkeys(value for op in source.ops for value in op.operands)
    return [value for value in operands if not (isinstance(value.owner, Operation) and value.owner.parent is source)]
