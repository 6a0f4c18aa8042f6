"""Which claims about numbers follow from facts: z3 answers, with what follows for products of unknowns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import z3
from xdsl.dialects import scf

from fxc.dialects.attributes.size_polynomials import Monomial, Polynomial, Steps
from tests.access_conditions import (
    All,
    AtLeast0,
    Condition,
    Some,
    Unknown,
    at_least,
    both,
    either,
    names_in,
    opposite,
    products_in,
    share_of,
)
from tests.access_terms import Terms

EFFORT, MULTIPLIED, LITTLE = 10_000_000, 1_000_000, 50_000
"""Steps of z3 for a question, as many on every machine; with products; and at first for one on the way. What it can't answer
is not proved."""

ROUNDS = 3  # how often products of bounds are made
TRIES = ((LITTLE, 400), (EFFORT, 400), (EFFORT, 6000))
"""The steps for a question on the way, and the number of products of bounds a round, of the tries to answer a question."""


def disproved(
    terms: Terms,
    facts: Sequence[Condition],
    claims: Mapping[str, Condition],
    sizes: Sequence[Steps],
    steps: Sequence[tuple[Condition, Condition]],
) -> Iterator[tuple[str, str]]:
    """Which of ``claims`` do not follow from ``facts``, and why. ``steps`` may hold, with what follows, and help then."""
    left = {name: claim for name, claim in claims.items() if claim is not True and claim not in facts}
    if not left or any(fact is False for fact in facts):
        return
    for effort, most in TRIES:
        question = Question(terms, facts, left.values(), sizes, steps, effort, most)
        reasons = {name: reason for name, claim in left.items() if (reason := question.counterexample(claim)) is not None}
        if not (left := {name: left[name] for name in reasons}) or all(map(question.is_wrong, left.values())):
            break
    yield from reasons.items()


class Question:
    """What is known, as z3 understands it. Products of unknowns are unknowns of their own.

    ``effort``: steps of z3 for what is asked on the way; ``most``: products of bounds that are made in a round.
    """

    def __init__(
        self,
        terms: Terms,
        facts: Sequence[Condition],
        claims: Iterable[Condition],
        sizes: Sequence[Steps],
        steps: Sequence[tuple[Condition, Condition]],
        effort: int,
        most: int,
    ) -> None:
        self.terms, self.sizes, self.steps, self.names = terms, sizes, list(steps), dict[Monomial, z3.ArithRef]()
        self.solver = z3.Solver()
        self.effort, self.most = effort, most
        self.bounds, self.others = dict[Polynomial, None](), list[Some]()
        self.rounds = 0
        asked = [opposite(claim) for claim in claims]
        self.products = {names for each in (*facts, *asked) for names in products_in(each)}
        self.seen = seen = set[str]()
        pending = [name for each in (*facts, *asked) for name in names_in(each)]
        for fact in facts:
            self._add(fact)
        while pending:
            if (name := pending.pop()) not in seen:
                seen.add(name)
                for fact in terms.about.get(name, ()):
                    self._add(fact)
                    self.products |= set(products_in(fact))
                    pending += names_in(fact)
        self.natural = set(terms.natural)
        self.bounds |= dict.fromkeys(Polynomial.name(name) for name in sorted(seen & self.natural))

    def _add(self, fact: Condition) -> None:
        match fact:
            case All(parts):
                for part in parts:
                    self._add(part)
                return
            case AtLeast0(number):
                self.bounds[number] = None
            case Some():
                self.others.append(fact)
        self.solver.add(self.formula(fact))

    def formula(self, condition: Condition) -> z3.BoolRef:
        match condition:
            case AtLeast0(number):
                return self._linear(number) >= 0
            case Unknown(name, holds):
                return z3.Bool(name) if holds else z3.Not(z3.Bool(name))
            case All(parts):
                return z3.And(*map(self.formula, parts))
            case Some(parts):
                return z3.Or(*map(self.formula, parts))
        return z3.BoolVal(condition)

    def _linear(self, number: Polynomial) -> z3.ArithRef:
        return z3.Sum(*(self._unknown(names) * factor if names else z3.IntVal(factor) for names, factor in number.terms))

    def _unknown(self, names: Monomial) -> z3.ArithRef:
        if names not in self.names:
            self.names[names] = z3.Int("*".join(names))
        return self.names[names]

    def counterexample(self, claim: Condition) -> str | None:
        """Why ``claim`` does not follow; None where it does."""
        wrong = opposite(claim)
        while True:
            self.solver.push()
            self._assume(wrong)
            answer = self._check(EFFORT)
            found = None if answer == z3.unsat else self._model() if answer == z3.sat else str(self.solver.reason_unknown())
            self.solver.pop()
            if found is None or self.rounds == ROUNDS:
                return found
            self._more()
            self.rounds += 1

    def is_wrong(self, claim: Condition) -> bool:
        """Whether there are numbers, products of unknowns included, for which ``claim`` does not hold: no try can prove it."""
        solver = z3.Solver()
        solver.set("rlimit", MULTIPLIED)
        solver.add(self.solver.assertions(), self.formula(opposite(claim)))
        for names in [names for names in self.names if len(names) > 1]:
            solver.add(self.names[names] == z3.Product(*(self._unknown((name,)) for name in names)))
        return solver.check() == z3.sat

    def _assume(self, wrong: Condition) -> None:
        """Let ``wrong`` hold, and what follows for products."""
        self.solver.add(self.formula(wrong))
        if self.rounds and isinstance(wrong, AtLeast0):
            for factor in self._factors():
                if self._is_wanted(wrong.number, factor) and isinstance(product := wrong.number * factor, Polynomial):
                    self.solver.add(self._linear(product) >= 0)

    def _model(self) -> str:
        model = self.solver.model()
        meaning = dict[Polynomial, object]()
        for key, value in self.terms.known.items():
            if isinstance(value, Polynomial):
                meaning.setdefault(value, key)
        found = list[str]()
        for declared in model.decls():
            key = meaning.get(Polynomial.name(declared.name()))
            if key is not None and isinstance(key, tuple) and key[0] in ("size", "program", "lane", "step"):
                what = "of a loop" if isinstance(key[1], scf.ForOp) else key[1]
                found.append(f"{key[0]} {what} = {model[declared]}")
        return ", ".join(sorted(found))

    def _more(self) -> None:
        """Tell z3 what it doesn't know of products."""
        self._settle()
        self._bound_selected()
        self._bound_quotients()
        self._prove_steps()
        for names in sorted(self.products):
            if self.natural.issuperset(names):
                whole = Polynomial(((names, 1),))
                self.bounds.setdefault(whole)
                self.solver.add(self._linear(whole) >= 0)
                for place, name in enumerate(names):
                    rest = Polynomial(((names[:place] + names[place + 1 :], 1),))
                    some = at_least(Polynomial.name(name), 1)
                    self.solver.add(self.formula(either(some, at_least(0, whole))))
                    self.solver.add(self.formula(either(opposite(some), at_least(whole, rest))))
        made = {
            product: sum(len(names) > 1 and names not in self.products for names, _ in product.terms)
            for factor in self._factors()
            for bound in self.bounds
            if self._is_wanted(bound, factor)
            and isinstance(product := bound * factor, Polynomial)
            and product not in self.bounds
        }
        for product in sorted(made, key=lambda product: made[product])[: self.most]:
            self.bounds[product] = None
            self.products |= {names for names, _ in product.terms if len(names) > 1}
            self.solver.add(self._linear(product) >= 0)

    def _prove_steps(self) -> None:
        proved = [step for step in self.steps if not self._may_hold(opposite(step[0]))]
        self.steps = [step for step in self.steps if step not in proved]
        for fact in (fact for step in proved for fact in step if fact is not True):
            self._add(fact)

    def _bound_selected(self) -> None:
        """Look for bounds of numbers that are selected, such as places given by data: 0, and sizes."""
        multiplied = {name for names in self.products for name in names}
        for name in sorted(self.terms.selected & self.seen & multiplied):
            number = Polynomial.name(name)
            if name not in self.natural and not self._may_hold(at_least(-1, number)):
                self.natural.add(name)
                self._add(at_least(number))
            for size in self.sizes:
                self._bound(number, size, 1)

    def _bound_quotients(self) -> None:
        """Look for counts below which quotients lie: ``q < c`` where ``q >= c``, and so ``q * d >= c * d``, can't be.

        They are sizes, and shares of the grid.
        """
        multiplied = {name for names in self.products for name in names}
        counts = dict.fromkeys((*self.sizes, *self.terms.programs()))
        for name, (_, divisor) in self.terms.divided.items():
            if name in self.seen and (name in multiplied or isinstance(divisor, Polynomial)):
                quotient = Polynomial.name(name)
                counts |= dict.fromkeys(share for count in counts if (share := share_of(count, divisor)))
                for count in counts:
                    self._bound(quotient, count, divisor)
                for count in (1 << place for place in range(12)):
                    if name not in multiplied or self._bound(quotient, count, divisor):
                        break

    def _bound(self, quotient: Polynomial, size: Steps, divisor: Steps) -> bool:
        """Whether ``quotient``, by ``divisor``, is less than ``size``."""
        bound, above = at_least(size - 1, quotient), quotient - size
        if not isinstance(bound, AtLeast0) or bound.number in self.bounds:
            return isinstance(bound, AtLeast0)
        if self._may_hold(both(at_least(above), at_least(above * divisor))):
            return False
        self._add(bound)
        return True

    def _factors(self) -> list[Polynomial]:
        """What bounds may be multiplied by: parts of products that are not negative."""
        found = dict[Polynomial, None]()
        for names in sorted(self.products):
            for place in range(len(names)):
                rest = names[:place] + names[place + 1 :]
                if self.natural.issuperset(rest):
                    found[Polynomial(((rest, 1),))] = None
        return list(found)

    def _is_wanted(self, bound: Polynomial, factor: Polynomial) -> bool:
        """Whether the product of the two says something of a product that there is."""
        [(by, _)] = factor.terms
        return any(tuple(sorted((*names, *by))) in self.products for names, _ in bound.terms if names)

    def _settle(self) -> None:
        """Leave out of alternatives what can't be."""
        left = list[Some]()
        for fact in self.others:
            parts = [part for part in fact.parts if self._may_hold(part)]
            if len(parts) == len(fact.parts):
                left.append(fact)
            else:
                self.others = []
                self._add(either(*parts))
                left += self.others
        self.others = left

    def _may_hold(self, condition: Condition) -> bool:
        self.solver.push()
        self.solver.add(self.formula(condition))
        answer = self._check(self.effort)
        self.solver.pop()
        return answer != z3.unsat

    def _check(self, steps: int) -> z3.CheckSatResult:
        self.solver.set("rlimit", steps)
        return self.solver.check()
