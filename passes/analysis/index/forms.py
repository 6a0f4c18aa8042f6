"""Index expressions in canonical form: a sum of loops, computed numbers and quotients, each times a factor.

Symbolic sizes are polynomials (``Steps``). ``//`` rounds down, for numerators of either sign. The rules of the operators hold
for all integers, with divisors of 1 or more:

    (b * k + r) // b    is  k + r // b               multiples of the divisor leave the quotient
    (x // a + c) // b   is  (x + c * a) // (a * b)   nested quotients become one
    x mod b             is  x - b * (x // b)         a split index that is joined again cancels

Rules that hold only for some values of loops and sizes are in ``ranges``. ``tests/test_index_rules.py`` proves each rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Steps, divided, names_of

Atom: TypeAlias = "int | Quotient | Symbol"
"""A loop, by its number; a quotient of a form; or a computed number."""


@dataclass(frozen=True)
class Form:
    """``constant`` plus the sum of ``terms``: distinct atoms times factors that are not 0."""

    constant: Steps
    terms: tuple[tuple[Atom, Steps], ...] = ()

    @staticmethod
    def of(constant: Steps, terms: Mapping[Atom, Steps]) -> Form:
        return Form(constant, tuple((atom, factor) for atom, factor in terms.items() if factor))

    @staticmethod
    def atom(atom: Atom) -> Form:
        return Form(0, ((atom, 1),))

    def __hash__(self) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = hash((self.constant, self.terms))
        return found

    def __add__(self, other: Form | Steps) -> Form:
        if not isinstance(other, Form):
            return Form(self.constant + other, self.terms)
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Form.of(self.constant + other.constant, terms)

    def __neg__(self) -> Form:
        return self * -1

    def __sub__(self, other: Form | Steps) -> Form:
        return self + -other

    def __mul__(self, factor: Steps) -> Form:
        if factor == 1:
            return self
        return Form.of(self.constant * factor, {atom: each * factor for atom, each in self.terms})

    def __floordiv__(self, divisor: Steps) -> Form:
        """The quotient by ``divisor``, which is 1 or more, rounded down."""
        if divisor == 1:
            return self
        parts = {atom: divided(factor, divisor) for atom, factor in self.terms}
        whole, left = divided(self.constant, divisor)
        even = Form.of(whole, {atom: quotient for atom, (quotient, rest) in parts.items() if not rest})
        rest = Form.of(left, {atom: factor for atom, factor in self.terms if parts[atom][1]})
        match rest.terms:
            case () if isinstance(rest.constant, int) and isinstance(divisor, int):
                return even + rest.constant // divisor
            case ((Quotient(form, inner), 1),):
                return even + (form + rest.constant * inner) // (inner * divisor)
            case _:
                return even + Form.atom(Quotient(rest, divisor))

    def __mod__(self, divisor: Steps) -> Form:
        """The remainder of the division by ``divisor``, which is 1 or more: at least 0 and less than ``divisor``."""
        return self - (self // divisor) * divisor

    def atoms(self) -> Iterator[Atom]:
        """The atoms in this form and in its quotients."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Quotient):
                yield from atom.form.atoms()

    def names(self) -> list[str]:
        """The names of the sizes in this form."""
        found = [name for number in (self.constant, *(factor for _, factor in self.terms)) for name in names_of(number)]
        for atom, _ in self.terms:
            if isinstance(atom, Quotient):
                found += [*atom.form.names(), *names_of(atom.divisor)]
        return found

    def factor(self, loop: int) -> Steps:
        """The factor of ``loop`` outside of quotients: the change of the value in one step of the loop."""
        return dict(self.terms).get(loop, 0)

    def loops(self) -> set[int]:
        """The loops on which this form depends."""
        return {atom for atom in self.atoms() if isinstance(atom, int)}

    def divided_loops(self) -> set[int]:
        """The loops in quotients."""
        return {loop for atom, _ in self.terms if isinstance(atom, Quotient) for loop in atom.form.loops()}

    def symbols(self) -> list[Symbol]:
        """The distinct computed numbers."""
        return list(dict.fromkeys(atom for atom in self.atoms() if isinstance(atom, Symbol)))

    def renamed(self, names: Mapping[int, int]) -> Form:
        """The same form over other loops. A loop without a new name has one step and is dropped."""
        total = Form(self.constant)
        for atom, factor in self.terms:
            if isinstance(atom, Quotient):
                total += Form(0, ((Quotient(atom.form.renamed(names), atom.divisor, atom.is_natural), factor),))
            elif isinstance(atom, Symbol):
                total += Form(0, ((atom, factor),))
            elif atom in names:
                total += Form(0, ((names[atom], factor),))
        return total

    def only(self) -> Atom | None:
        """The atom that this form consists of; None where it is anything else."""
        return self.terms[0][0] if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 else None


@dataclass(frozen=True)
class Quotient:
    """``form`` divided by ``divisor``, which is 1 or more, rounded down. ``is_natural``: ``form`` is known to be 0 or more."""

    form: Form
    divisor: Steps
    is_natural: bool = False


@dataclass(frozen=True)
class Symbol:
    """A computed number, ``value``: at least 0, and less than ``size`` unless that is None."""

    value: SSAValue
    size: Steps | None = None
