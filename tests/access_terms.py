"""Index arithmetic of kernels as polynomials of unknown integers, and conditions on these.

A number is a polynomial (``size_polynomials``) whose names are sizes and *unknowns*: a program's number, a loop's step,
a lane, a quotient, what is loaded. What is known of an unknown stands in ``Terms.about``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from fxc.dialects import tile
from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, is_natural, names_of, steps_of_size
from fxc.dialects.tile.types import element_of, shape_of
from tests.access_conditions import Condition, Unknown, at_least, both, divided, either, equal, implies, opposite

Lanes: TypeAlias = tuple[Steps, ...]
"""Which lane of a block, along each of its dimensions."""


def ends_of(type: Attribute) -> tuple[int, int]:
    """The smallest and the largest integer of ``type``."""
    bits = type.width.data if isinstance(type, IntegerType) else 64
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _is_bit(type: Attribute) -> bool:
    element = element_of(type)
    return isinstance(element, IntegerType) and element.width.data == 1


def _is_integer(type: Attribute) -> bool:
    return isinstance(element_of(type), (IntegerType, IndexType))


@dataclass
class Terms:
    """The numbers and conditions of a kernel's values, each made once. ``least``: names of sizes -> the least they may be.

    Sums and products of sizes, programs, loops and lanes do not overflow: they count elements of memory. Those of what is
    loaded may: the result is any number of its type then.
    """

    kernel: tile.KernelOp
    least: Mapping[str, int]
    sizes: Mapping[SSAValue, str] = field(default_factory=dict)
    """Scalars of the kernel -> what a launch gives for them, in names of sizes."""
    natural: set[str] = field(default_factory=set)
    """Unknowns that are never negative."""
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of what is computed of data: between which numbers it lies."""
    about: dict[str, list[Condition]] = field(default_factory=dict)
    divided: dict[str, tuple[Steps, Steps]] = field(default_factory=dict)
    """Quotients: of what, and by what."""
    selected: set[str] = field(default_factory=set)
    """Unknowns that are one of two numbers."""
    known: dict[Any, Any] = field(default_factory=dict)

    # unknowns

    def unknown(self, key: Any, *, natural: bool = False) -> Polynomial:
        """The same unknown for the same key."""
        if key not in self.known:
            name = f"%{len(self.known)}"
            self.known[key] = Polynomial.name(name)
            self.about[name] = []
            if natural:
                self.natural.add(name)
                self.about[name].append(at_least(self.known[key]))
        return self.known[key]

    def say(self, unknown: Polynomial, *facts: Condition) -> None:
        self.about[unknown.names()[0]] += facts

    def size(self, name: str) -> Steps:
        """A size that is not known, as what it is more than the least it may be."""
        return self.unknown(("size", name), natural=True) + self.least.get(name, 0)

    def of_sizes(self, number: Steps) -> Steps:
        """``number``, whose names are those of sizes."""
        if isinstance(number, int):
            return number
        total: Steps = 0
        for names, factor in number.terms:
            term: Steps = factor
            for name in names:
                term = term * self.size(name)
            total = total + term
        return total

    def data(self, key: Any, ends: tuple[int, int]) -> Polynomial:
        """Any number between ``ends``."""
        is_new = key not in self.known
        made = self.unknown(key, natural=ends[0] >= 0)
        if is_new:
            self.ends[made.names()[0]] = ends
            self.say(made, at_least(made, ends[0]), at_least(ends[1], made))
        return made

    def is_natural(self, number: Steps) -> bool:
        return is_natural(number) and all(name in self.natural for name in names_of(number))

    def _is_data(self, number: Steps) -> bool:
        return any(name in self.ends for name in names_of(number))

    def _ends(self, number: Steps) -> tuple[int, int] | None:
        """Between which numbers ``number`` lies; None where it is not made of data and numbers alone."""
        if isinstance(number, int):
            return number, number
        low = high = 0
        for names, factor in number.terms:
            if len(names) > 1 or (names and names[0] not in self.ends):
                return None
            own = [factor * end for end in self.ends[names[0]]] if names else [factor]
            low, high = low + min(own), high + max(own)
        return low, high

    def within(self, number: Steps, type: Attribute) -> Steps:
        """``number`` as an integer of ``type``: any one of these where it does not fit."""
        ends = ends_of(type)
        if (own := self._ends(number)) is not None and ends[0] <= own[0] and own[1] <= ends[1]:
            return number
        made = self.data(("within", number, ends), ends)
        if not self.about_is_done(made, "within"):
            self.say(made, implies(both(at_least(number, ends[0]), at_least(ends[1], number)), equal(made, number)))
        return made

    def about_is_done(self, unknown: Polynomial, what: str) -> bool:
        """Whether this was asked before."""
        key = ("done", what, unknown)
        done = key in self.known
        self.known[key] = True
        return done

    def chosen(self, condition: Condition, a: Steps, b: Steps) -> Steps:
        """``a`` where ``condition`` holds, else ``b``."""
        if isinstance(condition, bool) or a == b:
            return a if condition or a == b else b
        key = ("chosen", condition, a, b)
        natural = self.is_natural(a) and self.is_natural(b)
        if self._is_data(a) or self._is_data(b):
            found = [self._ends(each) or ends_of(IndexType()) for each in (a, b)]
            made = self.data(key, (min(low for low, _ in found), max(high for _, high in found)))
        else:
            made = self.unknown(key, natural=natural)
        if not self.about_is_done(made, "chosen"):
            self.selected |= {*made.names()}
            self.say(made, implies(condition, equal(made, a)), either(condition, equal(made, b)))
        return made

    def quotient(self, number: Steps, divisor: Steps) -> Steps:
        """The floor of the quotient by a ``divisor`` of 1 or more; any number where that is less."""
        if isinstance(divisor, int) and divisor < 1:
            return self.data(("quotient", number, divisor), ends_of(IndexType()))
        if isinstance(divisor, int) and isinstance(number, int):
            return number // divisor
        if isinstance(divisor, int):
            whole, rest = self._split(number, divisor)
            if whole:
                return whole + self.quotient(rest, divisor)
            if divisor == 1:
                return number
        positive = self._is_positive(divisor)
        made = self.unknown(("quotient", number, divisor), natural=self.is_natural(number) and positive is True)
        if not self.about_is_done(made, "quotient"):
            even = both(at_least(number, made * divisor), at_least(made * divisor + divisor - 1, number))
            facts = [even, implies(at_least(number), at_least(made))]
            self.divided[made.names()[0]] = (number, divisor)
            whole, rest = divided(number, divisor)
            if isinstance(divisor, Polynomial) and whole != 0:
                facts.append(equal(made, whole + self.quotient(rest, divisor)))
            self.say(made, implies(positive, both(*facts)))
        return made

    def rest(self, number: Steps, divisor: Steps) -> Steps:
        """What the quotient leaves; of a size, a number that is less, so that products with it are few."""
        quotient = self.quotient(number, divisor)
        if isinstance(divisor, int):
            return number - quotient * divisor
        positive = self._is_positive(divisor)
        made = self.unknown(("rest", number, divisor), natural=positive is True)
        if not self.about_is_done(made, "rest"):
            self.selected |= {*made.names()}
            inside = both(at_least(made), at_least(divisor - 1, made))
            self.say(made, equal(number, quotient * divisor + made), implies(positive, inside))
        return made

    def _is_positive(self, number: Steps) -> Condition:
        """Whether ``number`` is 1 or more; True where that needs no more than what its unknowns are."""
        least = number if isinstance(number, int) else dict(number.terms).get((), 0)
        return True if self.is_natural(number) and least >= 1 else at_least(number, 1)

    def _split(self, number: Steps, divisor: int) -> tuple[Steps, Steps]:
        """``number`` as a multiple of ``divisor``, and a rest."""
        if isinstance(number, int):
            return number // divisor, number % divisor
        whole: Steps = 0
        for names, factor in number.terms:
            term: Steps = factor // divisor
            whole = whole + (Polynomial(((names, term),)) if term and names else term)
        return whole, number - whole * divisor

    def unsigned(self, number: Steps, type: Attribute) -> Steps:
        """The number without a sign that has the same bits."""
        if self.is_natural(number):
            return number
        return self.chosen(at_least(number), number, number + 2 * (ends_of(element_of(type))[1] + 1))

    def less(self, a: Steps, b: Steps, type: Attribute, *, signed: bool) -> Condition:
        if signed or (self.is_natural(a) and self.is_natural(b)):
            return at_least(b - 1, a)
        negative = [opposite(at_least(each)) for each in (a, b)]
        alike = either(both(*negative), both(*map(opposite, negative)))
        return either(both(opposite(negative[0]), negative[1]), both(alike, at_least(b - 1, a)))

    def smaller(self, a: Steps, b: Steps, type: Attribute, *, signed: bool, largest: bool) -> Steps:
        """The smaller of two, or the ``largest``."""
        made = self.chosen(self.less(*((b, a) if largest else (a, b)), type, signed=signed), a, b)
        is_new = isinstance(made, Polynomial) and (signed or (self.is_natural(a) and self.is_natural(b))) and made not in (a, b)
        if is_new and not self.about_is_done(made, "smaller"):
            for each in (a, b):
                self.say(made, at_least(made, each) if largest else at_least(each, made))
        return made

    # sizes of the grid

    def programs(self) -> list[Steps]:
        """How many programs there are along each axis."""
        grid = self.kernel.grid
        if not hasattr(grid, "data") or not hasattr(grid.data, "results"):
            return list(self.kernel.programs)
        numbers = [self.number(argument, ()) for argument in self.kernel.indices()]
        return [self._affine(axis, numbers) for axis in grid.data.results]  # type: ignore[union-attr]

    def _affine(self, expression: AffineExpr, numbers: Sequence[Steps]) -> Steps:
        match expression:
            case AffineConstantExpr():
                return expression.value
            case AffineDimExpr():
                return numbers[expression.position]
            case AffineBinaryOpExpr():
                left, right = (self._affine(side, numbers) for side in (expression.lhs, expression.rhs))
                match expression.kind:
                    case AffineBinaryOpKind.Add:
                        return left + right
                    case AffineBinaryOpKind.Mul:
                        return left * right
                    case AffineBinaryOpKind.FloorDiv:
                        return self.quotient(left, right)
                    case AffineBinaryOpKind.CeilDiv:
                        return self.quotient(left + right - 1, right)
                    case AffineBinaryOpKind.Mod:
                        return self.rest(left, right)
        raise AssertionError(f"a grid has no {expression}")

    def program(self, axis: int) -> Polynomial:
        return self.unknown(("program", axis), natural=True)

    def step_of(self, loop: scf.ForOp) -> Steps:
        """A step of ``loop`` in its body."""
        start, step = self.number(loop.lb, ()), self.number(loop.step, ())
        return start + self.unknown(("step", loop), natural=True) * step

    # values

    def number(self, value: SSAValue, lanes: Lanes) -> Steps:
        """The integer that ``value`` is in a lane."""
        key = ("value", value, lanes)
        if key not in self.known:
            self.known[key] = self._number(value, lanes)
        return self.known[key]

    def condition(self, value: SSAValue, lanes: Lanes) -> Condition:
        """Whether ``value``, a bit, is set in a lane."""
        key = ("value", value, lanes)
        if key not in self.known:
            self.known[key] = self._condition(value, lanes)
        return self.known[key]

    def any_number(self, value: SSAValue, lanes: Lanes) -> Steps:
        return self.data(("any", value, lanes), ends_of(element_of(value.type)))

    def _number(self, value: SSAValue, lanes: Lanes) -> Steps:
        type = element_of(value.type)
        assert _is_integer(type) and not _is_bit(type)
        if isinstance(value, BlockArgument):
            return self._argument(value, lanes)
        op, number = value.owner, lambda operand: self.number(operand, lanes)
        assert isinstance(op, Operation)
        if (moved := _moved(op, lanes)) is not None:
            return self.number(op.operands[0], moved)
        if (rule := _ARITHMETIC.get(op.name)) is not None:
            made = rule(self, number(op.operands[0]), number(op.operands[1]), type)
            return self.within(made, type) if self._is_data(made) else made
        match op:
            case arith.ConstantOp():
                return self._constant(op, value, lanes)
            case tile.ProgramIdOp():
                return self.program(op.axis.value.data)
            case tile.IotaOp():
                return lanes[op.dim.value.data]
            case arith.SelectOp() | tile.SelectOp():
                condition = self.condition(op.operands[0], lanes if shape_of(op.operands[0].type) else ())
                return self.chosen(condition, number(op.operands[1]), number(op.operands[2]))
            case tile.ReduceOp() if op.kind.data in ("max", "min"):
                return self._one_of(op.value, op.dims.get_values(), lanes, op)
            case scf.IfOp():
                place = op.results.index(value)  # type: ignore[arg-type]
                yields = [_yielded(region.block, place) for region in op.regions]
                return self.chosen(self.condition(op.cond, ()), *map(number, yields))
        kind = op.kind.data if isinstance(op, tile.CastOp) else op.name.removeprefix("arith.")
        if kind in ("extsi", "extui", "trunci", "index_cast") and op.name in ("tile.cast", f"arith.{kind}"):
            return self._cast(kind, op.operands[0], lanes, type)
        return self.any_number(value, lanes)

    def _argument(self, value: BlockArgument, lanes: Lanes) -> Steps:
        owner = value.owner.parent_op()
        if isinstance(owner, scf.ForOp) and value.index == 0:
            return self.step_of(owner)
        if value in self.sizes:
            return self.of_sizes(steps_of_size(self.sizes[value]))
        return self.any_number(value, lanes)

    def _constant(self, op: arith.ConstantOp, value: SSAValue, lanes: Lanes) -> Steps:
        if isinstance(op.value, IntegerAttr):
            return op.value.value.data
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        listed = [int(number) for number in op.value.get_values()]
        return listed[0] if len({*listed}) == 1 else self.data(("any", value, lanes), (min(listed), max(listed)))

    def _cast(self, kind: str, value: SSAValue, lanes: Lanes, type: Attribute) -> Steps:
        if _is_bit(value.type):
            return self.chosen(self.condition(value, lanes), -1 if kind == "extsi" else 1, 0)
        number = self.number(value, lanes)
        if kind == "extui":
            return self.unsigned(number, value.type)
        return self.within(number, type) if kind == "trunci" or (type != IndexType() and ends_of(type)[1] < 2**62) else number

    def _one_of(self, value: SSAValue, dims: Sequence[int], lanes: Lanes, op: Operation) -> Steps:
        """What ``value`` is in one of the lanes along ``dims``."""
        rest = iter(lanes)
        found = list[Steps]()
        for dim, size in enumerate(shape_of(value.type)):
            if dim not in dims:
                found.append(next(rest))
                continue
            lane = self.unknown(("one of", op, dim, lanes), natural=True)
            if not self.about_is_done(lane, "one of"):
                self.say(lane, at_least(size - 1, lane))
            found.append(lane)
        return self.number(value, tuple(found))

    def _condition(self, value: SSAValue, lanes: Lanes) -> Condition:
        assert _is_bit(value.type)
        op, condition = value.owner, lambda operand: self.condition(operand, lanes)
        if isinstance(op, Operation):
            if (moved := _moved(op, lanes)) is not None:
                return self.condition(op.operands[0], moved)
            match op:
                case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                    return op.value.value.data != 0
                case arith.ConstantOp() if isinstance(op.value, DenseIntOrFPElementsAttr):
                    listed = {bool(number) for number in op.value.get_values()}
                    if len(listed) == 1:
                        return listed.pop()
                case tile.MaskOp():
                    place = self.number(op.start, ()) + lanes[op.dim.value.data]
                    return at_least(self.number(op.stop, ()) - 1, place)
                case arith.AndIOp():
                    return both(*map(condition, op.operands))
                case arith.OrIOp():
                    return either(*map(condition, op.operands))
                case arith.XOrIOp():
                    return _differ(*map(condition, op.operands))
                case arith.SelectOp() | tile.SelectOp():
                    chosen = self.condition(op.operands[0], lanes if shape_of(op.operands[0].type) else ())
                    a, b = map(condition, op.operands[1:])
                    return either(both(chosen, a), both(opposite(chosen), b))
                case arith.CmpiOp():
                    return self._compared(op.predicate.value.data, *op.operands, lanes, value)
                case tile.CompareOp() if _is_integer(op.lhs.type):
                    predicate = arith.CMPI_COMPARISON_OPERATIONS.index(op.kind.data)
                    return self._compared(predicate, op.lhs, op.rhs, lanes, value)
                case scf.IfOp():
                    place = op.results.index(value)  # type: ignore[arg-type]
                    a, b = (condition(_yielded(region.block, place)) for region in op.regions)
                    chosen = self.condition(op.cond, ())
                    return either(both(chosen, a), both(opposite(chosen), b))
        return Unknown(self.unknown(("any", value, lanes)).names()[0])

    def _compared(self, predicate: int, left: SSAValue, right: SSAValue, lanes: Lanes, value: SSAValue) -> Condition:
        kind, type = arith.CMPI_COMPARISON_OPERATIONS[predicate], left.type
        if _is_bit(type):
            a, b = (self.condition(side, lanes) for side in (left, right))
            if kind in ("eq", "ne"):
                return _differ(a, b) if kind == "ne" else opposite(_differ(a, b))
            return Unknown(self.unknown(("any", value, lanes)).names()[0])
        x, y = (self.number(side, lanes) for side in (left, right))
        if kind in ("eq", "ne"):
            return equal(x, y) if kind == "eq" else opposite(equal(x, y))
        less = partial(self.less, type=type, signed=kind[0] == "s")
        match kind[1:]:
            case "lt":
                return less(x, y)
            case "le":
                return opposite(less(y, x))
            case "gt":
                return less(y, x)
        return opposite(less(x, y))


def _differ(a: Condition, b: Condition) -> Condition:
    return either(both(a, opposite(b)), both(opposite(a), b))


def _yielded(block: Block, place: int) -> SSAValue:
    assert block.last_op is not None
    return block.last_op.operands[place]


def _moved(op: Operation, lanes: Lanes) -> Lanes | None:
    """The lane of the operand that a lane of the result is; None where ``op`` moves no lanes."""
    match op:
        case tile.SplatOp():
            return ()
        case tile.ExpandOp():
            dim = op.dim.value.data
            return (*lanes[:dim], *lanes[dim + 1 :])
        case tile.TransposeOp():
            order = list(op.permutation.get_values())
            return tuple(lanes[order.index(dim)] for dim in range(len(lanes)))
    return None


def _truncated(terms: Terms, a: Steps, b: Steps, type: Attribute) -> Steps:
    """A quotient towards 0, by 1 or more."""
    if terms.is_natural(a):
        return terms.quotient(a, b)
    return terms.chosen(at_least(a), terms.quotient(a, b), -terms.quotient(-a, b))


def _without_sign(terms: Terms, a: Steps, b: Steps, type: Attribute) -> tuple[Steps, Steps]:
    return terms.unsigned(a, type), terms.unsigned(b, type)


def _unsigned_rest(terms: Terms, a: Steps, b: Steps, type: Attribute) -> Steps:
    return terms.rest(*_without_sign(terms, a, b, type))


def _and(terms: Terms, a: Steps, b: Steps, type: Attribute) -> Steps:
    if isinstance(b, int) and b >= 0 and b & (b + 1) == 0:
        return a - terms.quotient(a, b + 1) * (b + 1)
    return terms.data(("and", a, b), ends_of(type))


def _shifted(terms: Terms, a: Steps, b: Steps, type: Attribute, *, left: bool = False) -> Steps:
    if isinstance(b, int) and 0 <= b < 63:
        return a * (1 << b) if left else terms.quotient(a, 1 << b)
    return terms.data(("shifted", a, b, left), ends_of(type))


def _smaller(signed: bool, largest: bool) -> Any:
    return lambda terms, a, b, type: terms.smaller(a, b, type, signed=signed, largest=largest)


_ARITHMETIC: Mapping[str, Any] = {
    "arith.addi": lambda terms, a, b, type: a + b,
    "arith.subi": lambda terms, a, b, type: a - b,
    "arith.muli": lambda terms, a, b, type: a * b,
    "arith.floordivsi": lambda terms, a, b, type: terms.quotient(a, b),
    "arith.ceildivsi": lambda terms, a, b, type: -terms.quotient(-a, b),
    "arith.divsi": _truncated,
    "arith.remsi": lambda terms, a, b, type: a - _truncated(terms, a, b, type) * b,
    "arith.divui": lambda terms, a, b, type: terms.quotient(*_without_sign(terms, a, b, type)),
    "arith.remui": _unsigned_rest,
    "arith.minsi": _smaller(True, False),
    "arith.maxsi": _smaller(True, True),
    "arith.minui": _smaller(False, False),
    "arith.maxui": _smaller(False, True),
    "arith.andi": _and,
    "arith.shli": partial(_shifted, left=True),
    "arith.shrsi": _shifted,
}
