"""Conditions on polynomials of unknown integers, in negation normal form, and quotients of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from fxc.dialects.attributes.size_polynomials import Monomial, Polynomial, Steps


@dataclass(frozen=True)
class AtLeast0:
    """``number`` is 0 or more."""

    number: Polynomial


@dataclass(frozen=True)
class Unknown:
    """A condition of which nothing is known, or its opposite."""

    name: str
    holds: bool = True


@dataclass(frozen=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    parts: tuple[Condition, ...]


Condition: TypeAlias = "bool | AtLeast0 | Unknown | All | Some"


def at_least(number: Steps, other: Steps = 0) -> Condition:
    """``number >= other``, which are integers: ``2 * x >= 3`` is ``x >= 2``."""
    difference = number - other
    if not isinstance(difference, Polynomial):
        return difference >= 0
    by = gcd(*(factor for names, factor in difference.terms if names))
    return AtLeast0(Polynomial(tuple((names, factor // by) for names, factor in difference.terms if factor // by)))


def equal(number: Steps, other: Steps) -> Condition:
    return both(at_least(number, other), at_least(other, number))


def both(*parts: Condition) -> Condition:
    found = [part for part in parts if part is not True]
    if any(part is False for part in found):
        return False
    return True if not found else found[0] if len(found) == 1 else All(tuple(found))


def either(*parts: Condition) -> Condition:
    return opposite(both(*map(opposite, parts)))


def opposite(condition: Condition) -> Condition:
    match condition:
        case AtLeast0(number):
            return at_least(-number - 1)
        case Unknown(name, holds):
            return Unknown(name, not holds)
        case All(parts):
            return Some(tuple(map(opposite, parts)))
        case Some(parts):
            return All(tuple(map(opposite, parts)))
    return not condition


def implies(condition: Condition, then: Condition) -> Condition:
    return either(opposite(condition), then)


def numbers_in(condition: Condition) -> Iterable[Polynomial]:
    match condition:
        case AtLeast0(number):
            yield number
        case All(parts) | Some(parts):
            for part in parts:
                yield from numbers_in(part)


def names_in(condition: Condition) -> Iterator[str]:
    if isinstance(condition, All | Some):
        for part in condition.parts:
            yield from names_in(part)
    elif isinstance(condition, AtLeast0):
        yield from condition.number.names()


def products_in(condition: Condition) -> Iterator[Monomial]:
    for number in numbers_in(condition):
        yield from (names for names, _ in number.terms if len(names) > 1)


def divided(number: Steps, divisor: Steps) -> tuple[Steps, Steps]:
    """``number`` as a multiple of ``divisor``, by its term with most factors, and a rest."""
    if not isinstance(divisor, Polynomial):
        return (number // divisor, number % divisor) if isinstance(number, int) else (0, number)
    (lead, by), whole = divisor.terms[0], 0
    for _ in range(4):
        more: Steps = 0
        for names, factor in number.terms if isinstance(number, Polynomial) else ():
            left = list(names)
            if all(left.count(name) >= lead.count(name) for name in lead) and factor % by == 0:
                for name in lead:
                    left.remove(name)
                more = more + (Polynomial(((tuple(left), factor // by),)) if left else factor // by)
        if more == 0:
            break
        whole, number = whole + more, number - divisor * more
    return whole, number


def share_of(count: Steps, divisor: Steps) -> Steps:
    """A count divided by ``divisor``; 0 where that leaves a rest."""
    whole, rest = divided(count, divisor)
    if isinstance(count, int) and isinstance(divisor, int):
        return 0 if rest else whole
    if isinstance(divisor, int) and isinstance(count, Polynomial) and all(factor % divisor == 0 for _, factor in count.terms):
        return Polynomial(tuple((names, factor // divisor) for names, factor in count.terms))
    return whole if rest == 0 and isinstance(count, Polynomial) and isinstance(divisor, Polynomial) else 0
