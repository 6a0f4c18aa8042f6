"""Elements at computed positions: ``tensor.extract``, within ``scf.if`` where the position may be out of range.

A number that the body computes is an atom of a form. Where it is the same for all lanes, the elements are loaded as usual from
another base; otherwise lanes are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import affine, arith, scf, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i1
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from fxc.dialects.attributes.size_polynomials import Steps, replaced
from fxc.dialects.tile import AssertOp, GatherOp, IterateOp, LoadOp
from fxc.dialects.tile.types import PtrType
from fxc.passes.analysis.index.forms import Atom, Form, Quotient, Symbol
from fxc.passes.analysis.index.maps import form_of
from fxc.passes.analysis.index.ranges import Ranges
from fxc.passes.kernels.tiling.dynamic import address, size_of_value
from fxc.passes.kernels.tiling.stages import Stage
from fxc.passes.kernels.tiling.writer import BlockWriter, Value, division

Values = Mapping[SSAValue, Value]

PLACED = (affine.ApplyOp, tensor.ExtractOp, scf.IfOp)
"""Ops of a body that compute a position from loops and numbers, or read there."""

FORMED = (linalg.IndexOp, *PLACED)
"""Ops of a body that have a form."""


def extract_of(op: Operation) -> tensor.ExtractOp:
    """The extraction that ``op`` is, or that it does where its condition holds."""
    first = op.true_region.block.first_op if isinstance(op, scf.IfOp) else op
    assert isinstance(first, tensor.ExtractOp)
    return first


def operands_of(op: Operation) -> Iterator[SSAValue]:
    """The values of the body that ``op`` reads, except sizes and loops, which its form contains."""
    if not isinstance(op, PLACED):
        yield from op.operands
        yield from op.captured() if isinstance(op, IterateOp) else ()
        return
    if isinstance(op, scf.IfOp):
        yield op.cond
    for apply in [op] if isinstance(op, affine.ApplyOp) else [index.owner for index in extract_of(op).indices]:
        assert isinstance(apply, affine.ApplyOp)
        yield from (number for number in apply.mapOperands[apply.map.data.num_dims :] if size_of_value(number) is None)


def forms_of(stage: Stage) -> Iterator[tuple[Operation, Form]]:
    """The forms of ops in the body of ``stage``, over its loops."""
    for op in stage.op.body.block.ops:
        if isinstance(op, linalg.IndexOp):
            if any(not isinstance(use.operation, affine.ApplyOp) for use in op.result.uses):
                yield op, Form(0, ((op.dim.value.data, 1),))
        elif isinstance(op, affine.ApplyOp):
            expression, symbols = _expression(op, [])
            yield op, Ranges(stage.sizes).simplified(form_of(expression, symbols))
        elif isinstance(op, tensor.ExtractOp | scf.IfOp):
            extract, symbols, place = extract_of(op), Symbols(), list[AffineExpr]()
            for index in extract.indices:
                assert isinstance(index.owner, affine.ApplyOp)
                expression, symbols = _expression(index.owner, symbols)
                place.append(expression)
            yield op, address(extract.tensor.type, place, stage.sizes, symbols)  # type: ignore[arg-type]


Symbols = list[SSAValue | Steps]
"""The symbols of an expression: sizes and computed values."""


def _expression(op: affine.ApplyOp, symbols: Symbols) -> tuple[AffineExpr, Symbols]:
    """The expression of ``op`` over loops and symbols. Its numbers are appended to ``symbols``."""
    map = op.map.data
    loops, numbers = op.mapOperands[: map.num_dims], op.mapOperands[map.num_dims :]
    dims = [AffineExpr.dimension(loop.owner.dim.value.data) for loop in loops]  # type: ignore[union-attr]
    first = len(symbols)

    def leaf(part: AffineExpr) -> AffineExpr:
        if isinstance(part, AffineDimExpr):
            return dims[part.position]
        return AffineExpr.symbol(first + part.position) if isinstance(part, AffineSymExpr) else part

    said = [size_of_value(number) for number in numbers]
    own = [number if size is None else size for number, size in zip(numbers, said, strict=True)]
    return replaced(map.results[0], leaf), [*symbols, *own]


def number(w: BlockWriter, form: Form, values: Values) -> Value:
    """The value of ``form`` as a 64-bit number, or a block with one in each lane."""
    names = [(atom, factor) for atom, factor in form.terms if _symbols(atom)]
    key = ("number", form, *(values[symbol].ssa for atom, _ in names for symbol in _symbols(atom)))
    if (found := w.find(key)) is not None:
        return found
    rest = Form(form.constant, tuple(term for term in form.terms if term not in names))
    total = w.number(rest) if rest != Form(0) or not names else None
    for atom, factor in names:
        if isinstance(atom, Symbol):
            part = values[atom.value]
        else:
            assert isinstance(atom, Quotient)
            part = _combined(w, division(atom), number(w, atom.form, values), w.number(Form(atom.divisor)))
        part = part if factor == 1 else _combined(w, arith.MuliOp, part, w.number(Form(factor)))
        total = part if total is None else _combined(w, arith.AddiOp, total, part)
    assert total is not None
    return w.save(key, total)


def read(w: BlockWriter, pointer: SSAValue, form: Form, values: Values, condition: Value | None) -> Value:
    """The elements at ``form`` where ``condition`` holds, else 0; a block where any of this differs between lanes."""
    symbols = [symbol for atom, _ in form.terms for symbol in _symbols(atom)]
    given = [values[symbol] for symbol in symbols]
    key = ("read", pointer, form, *(value.ssa for value in (*given, *([] if condition is None else [condition]))))
    if (found := w.find(key)) is not None:
        return found
    assert isinstance(pointer.type, PtrType)
    element, loops = pointer.type.value_type, {axis.loop for axis in w.axes}
    lanes = loops & form.loops() or any(value.is_block for value in (*given, *([] if condition is None else [condition])))
    if any(value.is_block for value in given) or loops & form.divided_loops():
        offsets = w.block(number(w, form, values))
        mask = _mask(w, condition)
        type = VectorType(element, w.shape)
        made = GatherOp.of(pointer, offsets.ssa, type, mask, None if mask is None else w.zero(element))
    else:
        base = _base(w, form, values)
        steps = w.strides(form, w.axes) if lanes else []
        mask = _mask(w, condition) if lanes else None if condition is None else condition.ssa
        type = VectorType(element, w.shape) if lanes else element
        made = LoadOp.of(pointer, base.ssa, steps, type, mask, None if mask is None else w.zero(element))
    return w.save(key, Value(w.add(made), w.depth))


def check(w: BlockWriter, condition: Value, message: str) -> None:
    """Make the launch fail where ``condition`` does not hold for an active lane."""
    key = ("assert", condition.ssa, message)
    if w.find(key) is not None:
        return
    ssa, depth = condition.ssa, condition.depth
    if condition.is_block and (mask := w.mask(w.depth, w.axes)) is not None:
        depth = max(depth, w.bounded(w.depth))
        others = w.add(arith.XOrIOp(mask, w.block(w.constant(arith.ConstantOp(IntegerAttr(1, i1)))).ssa), depth)
        ssa = w.add(arith.OrIOp(ssa, others), depth)
    w.add(AssertOp.of(ssa, message), depth)
    w.save(key, Value(condition.ssa, depth))


def write(w: BlockWriter, op: Operation, pointers: Mapping[SSAValue, SSAValue], form: Form, values: Values) -> Value:
    """The value of an op of a body that has ``form``."""
    if isinstance(op, linalg.IndexOp | affine.ApplyOp):
        return number(w, form, values)
    extract = extract_of(op)
    condition = values[op.cond] if isinstance(op, scf.IfOp) else None
    value = read(w, pointers[extract.tensor], form, values, condition)
    for conversion in list(op.true_region.block.ops)[1:-1] if isinstance(op, scf.IfOp) else ():
        value = w.apply(conversion, [value])
    return value


def computed(stage: Stage) -> list[SSAValue]:
    """The values that the body of ``stage`` computes from elements, without constants and positions."""
    needed, pending = dict[SSAValue, None](), [stage.element]
    while pending:
        value = pending.pop()
        if value not in needed and isinstance(value.owner, Operation):
            needed[value] = None
            pending += () if isinstance(value.owner, PLACED) else operands_of(value.owner)
    places = set(stage.numbers)
    for op in stage.op.body.block.ops:
        is_place = bool(op.operands) and all(value in places or _is_stated(value) for value in op.operands)
        if isinstance(op, linalg.IndexOp | affine.ApplyOp) or is_place:
            places.update(op.results)
    return [value for value in needed if value not in places and not _is_stated(value)]


def _is_stated(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)


def _base(w: BlockWriter, form: Form, values: Values) -> Value:
    """The address of the first lane, for a ``form`` whose numbers are the same for all lanes."""
    names = [(atom, factor) for atom, factor in form.terms if _symbols(atom)]
    base = w.offset(Form(form.constant, tuple(term for term in form.terms if term not in names)))
    if not names:
        return base
    own = number(w, Form(0, tuple(names)), values)
    key = ("index cast", own.ssa)
    cast = w.find(key) or w.save(key, Value(w.add(arith.IndexCastOp(own.ssa, IndexType()), own.depth), own.depth))
    return _combined(w, arith.AddiOp, base, cast)


def _mask(w: BlockWriter, condition: Value | None) -> SSAValue | None:
    """The mask of the lanes that are read, for blocks along all axes; None where all are."""
    mask = w.mask(w.depth, w.axes)
    if condition is None:
        return mask
    holds = w.block(condition).ssa
    return holds if mask is None else w.add(arith.AndIOp(holds, mask))


def _combined(w: BlockWriter, cls: type[Operation], left: Value, right: Value) -> Value:
    if left.is_block or right.is_block:
        left, right = w.block(left), w.block(right)
    key = (cls, left.ssa, right.ssa)
    if (found := w.find(key)) is not None:
        return found
    depth = max(left.depth, right.depth)
    return w.save(key, Value(w.add(cls(left.ssa, right.ssa), depth), depth))  # type: ignore[call-arg]


def _symbols(atom: Atom) -> list[SSAValue]:
    """The computed numbers in ``atom``."""
    if isinstance(atom, Symbol):
        return [atom.value]
    return [symbol.value for symbol in atom.form.symbols()] if isinstance(atom, Quotient) else []
