"""Ranges of index expressions over all values of loops, sizes and computed numbers, and the simplifications that they allow.

Rules, for a divisor ``b`` of 1 or more (``tests/test_index_rules.py`` proves each):

    x // b           is  k                        where  k * b <= x < (k + 1) * b
    x // b           is  (x + k * b) // b - k     makes the numerator 0 or more, so that its sign need not be checked
    l // b <= x // b <= h // b                    where  l <= x <= h
    0 <= x - b * (x // b) <= min(h, b - 1)        where  0 <= x <= h; else from 0 to b - 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, divided, is_natural, shifted
from fxc.passes.analysis.index.forms import Atom, Form, Quotient, Symbol

Bounds: TypeAlias = "tuple[Steps | None, Steps | None]"
"""The smallest and the largest value; None where a bound is not known."""

_SHIFTS = (1, 2, 3, 4, 8)
"""The multiples of a symbolic divisor that are attempted to make a numerator nonnegative."""


@dataclass(frozen=True)
class Remainder:
    """``form mod divisor``, which a sum contains as ``form - divisor * (form // divisor)``."""

    quotient: Quotient
    factor: Steps

    def form(self) -> Form:
        quotient = self.quotient
        return (quotient.form - Form.atom(quotient) * quotient.divisor) * self.factor


@dataclass(frozen=True)
class Ranges:
    """Ranges of forms. ``loops``: the number of steps of each loop. ``least``: size name -> its lower bound, 0 by default.

    Queries assume that each loop has at least one step, so a size that a loop runs over is 1 or more. A quotient by a size that
    may be 0, and an index in a dimension of that size, have no known bounds: a pad of ``x mod s`` has elements where ``x`` has
    none.
    """

    loops: Mapping[int, Steps]
    least: Mapping[str, int] = field(default_factory=dict[str, int])

    @cached_property
    def _least(self) -> Mapping[str, int]:
        found = dict(self.least)
        for size in self.loops.values():
            if isinstance(size, Polynomial) and len(size.terms) == 1:
                for name in size.names():
                    found[name] = max(found.get(name, 0), 1)
        return found

    def is_natural(self, number: Steps | None) -> bool:
        """Whether ``number`` is known to be 0 or more."""
        if not isinstance(number, Polynomial):
            return number is not None and number >= 0
        return is_natural(number) or is_natural(shifted(number, self._least))

    def is_positive(self, size: Steps) -> bool:
        """Whether ``size`` is known to be 1 or more, by the bounds of its names or because it divides the length of a loop."""
        if isinstance(size, int) or self.is_natural(size - 1):
            return self.is_natural(size - 1)
        parts = (divided(steps, size) for steps in self.loops.values() if isinstance(steps, Polynomial))
        return any(whole != 0 and rest == 0 for whole, rest in parts)

    def is_within(self, form: Form, size: Steps) -> bool:
        """Whether ``form`` is known to be at least 0 and less than ``size``."""
        low, high = self.bounds(form)
        return self.is_natural(low) and high is not None and self.is_natural(size - 1 - high)

    def bounds(self, form: Form) -> Bounds:
        remainders, rest = remainders_of(form)
        low, high = self._sum(rest)
        for remainder in remainders:
            low, high = _plus((low, high), self._times(self._remainder(remainder.quotient), remainder.factor))
        return (low, high) if not remainders else self._tighter((low, high), self._sum(form))

    def simplified(self, form: Form) -> Form:
        """``form`` with quotients of one possible value replaced, and numerators shifted to 0 or more where possible."""
        if not any(isinstance(atom, Quotient) for atom, _ in form.terms):
            return form
        total = Form(form.constant)
        for atom, factor in form.terms:
            total += (self._divided(atom) if isinstance(atom, Quotient) else Form.atom(atom)) * factor
        return total

    def _divided(self, quotient: Quotient) -> Form:
        again, total = self.simplified(quotient.form) // quotient.divisor, Form(0)
        for atom, factor in again.terms:
            total += (self._settled(atom) if isinstance(atom, Quotient) else Form.atom(atom)) * factor
        return total + again.constant

    def _settled(self, quotient: Quotient) -> Form:
        divisor, (low, high) = quotient.divisor, self.bounds(quotient.form)
        shift = 0 if self.is_natural(low) else self._shift(low, divisor)
        if shift is None or low is None:
            return Form.atom(quotient)
        start = low + divisor * shift
        moved = quotient.form + divisor * shift
        if high is not None:
            whole = self._quotient(start, divisor)
            if whole[0] is not None and whole[0] == whole[1]:
                end = high + divisor * shift
                if self.is_natural(divisor * (whole[0] + 1) - 1 - end):
                    return Form(whole[0] - shift)
        return Form.atom(Quotient(moved, divisor, is_natural=True)) - shift

    def _shift(self, low: Steps | None, divisor: Steps) -> int | None:
        """How many divisors must be added to the lower bound ``low`` to make it nonnegative; None where that is not known."""
        if isinstance(low, int) and isinstance(divisor, int):
            return -(low // divisor)
        return None if low is None else next((k for k in _SHIFTS if self.is_natural(low + divisor * k)), None)

    def _sum(self, form: Form) -> Bounds:
        total: Bounds = (form.constant, form.constant)
        for atom, factor in form.terms:
            total = _plus(total, self._times(self._atom(atom), factor))
        return total

    def _times(self, bounds: Bounds, factor: Steps) -> Bounds:
        low, high = (None if end is None else end * factor for end in bounds)
        if self.is_natural(factor):
            return low, high
        return (high, low) if self.is_natural(-factor) else (None, None)

    def _atom(self, atom: Atom) -> Bounds:
        if isinstance(atom, int):
            steps = self.loops[atom]
            return 0, max(steps - 1, 0) if isinstance(steps, int) else steps - 1
        if isinstance(atom, Symbol):
            return 0, None if atom.size is None or not self.is_positive(atom.size) else atom.size - 1
        low, high = self.bounds(atom.form)
        return self._quotient(low, atom.divisor)[0], self._quotient(high, atom.divisor)[1]

    def _quotient(self, number: Steps | None, divisor: Steps) -> Bounds:
        """The bounds of ``number // divisor``, rounded down."""
        if number is None or not self.is_positive(divisor):
            return None, None
        whole, rest = divided(number, divisor)
        if isinstance(number, int) and isinstance(divisor, int):
            return whole, whole
        if self.is_natural(rest):
            return whole, whole if self.is_natural(divisor - 1 - rest) else whole + rest
        if self.is_natural(divisor + rest):
            return whole - 1, whole - 1 if self.is_natural(-1 - rest) else None
        return None, None

    def _remainder(self, quotient: Quotient) -> Bounds:
        if not self.is_positive(quotient.divisor):
            return None, None
        low, high = self.bounds(quotient.form)
        most = quotient.divisor - 1
        is_small = self.is_natural(low) and high is not None and self.is_natural(most - high)
        return 0, high if is_small else most

    def _tighter(self, first: Bounds, second: Bounds) -> Bounds:
        """The tighter bounds of two ranges of the same number."""
        low = self._larger(first[0], second[0])
        high = self._larger(None if first[1] is None else -first[1], None if second[1] is None else -second[1])
        return low, None if high is None else -high

    def _larger(self, first: Steps | None, second: Steps | None) -> Steps | None:
        if first is None or second is None:
            return second if first is None else first
        return second if self.is_natural(second - first) else first


def remainders_of(form: Form) -> tuple[Sequence[Remainder], Form]:
    """The remainders in ``form`` and the rest of the sum. A remainder is extracted only where that shortens the sum."""
    found, rest = list[Remainder](), form
    for atom, factor in form.terms:
        if isinstance(atom, Quotient):
            scale, left = divided(-factor, atom.divisor)
            if left == 0 and scale != 0:
                without = rest - Remainder(atom, scale).form()
                if len(without.terms) < len(rest.terms) - len(atom.form.terms) + 1:
                    found.append(Remainder(atom, scale))
                    rest = without
    return found, rest


def _plus(first: Bounds, second: Bounds) -> Bounds:
    low, high = (None if a is None or b is None else a + b for a, b in zip(first, second, strict=True))
    return low, high
