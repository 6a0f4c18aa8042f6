"""Index arithmetic: each rule is proved for all integers by z3, and what is made by them equals Python's own arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i64
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, value_at
from fxc.passes.analysis.index.forms import Form, Quotient, Symbol
from fxc.passes.analysis.index.maps import affine_of, form_of
from fxc.passes.analysis.index.ranges import Ranges, remainders_of

X, Y, A, B, C, K, Q, R, LOW, HIGH = z3.Ints("x y a b c k q r low high")


def floor(number: Any, divisor: Any) -> Any:
    """z3's division has the remainder from 0 on: the floor, for a divisor above 0."""
    return number / divisor


RULES: dict[str, tuple[Any, Any]] = {
    "division is the floor": (B > 0, z3.And(floor(X, B) * B <= X, (floor(X, B) + 1) * B > X)),
    "even parts leave a quotient": (B > 0, floor(B * K + R, B) == K + floor(R, B)),
    "a quotient of a quotient": (z3.And(A > 0, B > 0), floor(floor(X, A) + C, B) == floor(X + C * A, A * B)),
    "a remainder": (B > 0, X - B * floor(X, B) == X % B),
    "one number": (z3.And(B > 0, K * B <= X, X < (K + 1) * B), floor(X, B) == K),
    "shifted by divisors": (B > 0, floor(X, B) == floor(X + K * B, B) - K),
    "quotients keep order": (
        z3.And(B > 0, LOW <= X, X <= HIGH),
        z3.And(floor(LOW, B) <= floor(X, B), floor(X, B) <= floor(HIGH, B)),
    ),
    "bounds of a remainder": (B > 0, z3.And(X - B * floor(X, B) >= 0, X - B * floor(X, B) <= B - 1)),
    "a small remainder": (z3.And(B > 0, X >= 0, X <= HIGH), X - B * floor(X, B) <= HIGH),
    "a quotient with a rest of 0 or more": (
        z3.And(B > 0, R >= 0),
        z3.And(floor(B * K + R, B) >= K, floor(B * K + R, B) <= K + R),
    ),
    "a quotient with a small rest": (z3.And(B > 0, R >= 0, R < B), floor(B * K + R, B) == K),
    "a quotient with a rest from -b on": (z3.And(B > 0, R >= -B), floor(B * K + R, B) >= K - 1),
    "a quotient with a rest below 0": (z3.And(B > 0, R >= -B, R < 0), floor(B * K + R, B) == K - 1),
    "the ceiling": (B > 0, z3.And(-floor(-X, B) * B >= X, (-floor(-X, B) - 1) * B < X)),
    "an increasing term": (z3.And(A >= 0, LOW <= X, X <= HIGH), z3.And(A * LOW <= A * X, A * X <= A * HIGH)),
    "a decreasing term": (z3.And(A <= 0, LOW <= X, X <= HIGH), z3.And(A * HIGH <= A * X, A * X <= A * LOW)),
    "without a sign, what is negative is large": (
        z3.And(B >= 0, B < 2**63, X >= -(2**63), X < 2**63),
        (z3.If(X < 0, X + 2**64, X) < B) == z3.And(X >= 0, X < B),
    ),
}
"""What is assumed, and what follows. The rules of ``forms`` and of ``ranges``, and of what kernels make of them."""


@pytest.mark.parametrize("name", RULES)
def test_a_rule_holds_for_all_integers(name: str) -> None:
    assumed, claim = RULES[name]
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(assumed, z3.Not(claim))
    assert solver.check() == z3.unsat, solver


def test_a_rule_that_is_wrong_is_noticed() -> None:
    solver = z3.Solver()
    solver.add(B > 0, z3.Not(floor(X, B) == -floor(-X, B)))
    assert solver.check() == z3.sat


# random expressions

LOOPS, NAMES = 3, ("s0", "s1")


@st.composite
def sizes(draw: st.DrawFn) -> Steps:
    """A number, a name, or a product or a sum of both."""
    number, name = draw(st.integers(1, 7)), Polynomial.name(draw(st.sampled_from(NAMES)))
    kind = draw(st.sampled_from(["number", "number", "name", "product", "sum"]))
    return {"number": number, "name": name, "product": name * number, "sum": name + number}[kind]


Tree = Any
"""A loop, a number, or an operator and its operands."""

TREES: st.SearchStrategy[Tree] = st.recursive(
    st.one_of(st.integers(0, LOOPS - 1).map(lambda loop: ("loop", loop)), st.integers(-9, 9), sizes()),
    lambda inner: st.one_of(
        st.tuples(st.just("+"), inner, inner),
        st.tuples(st.just("-"), inner, inner),
        st.tuples(st.just("*"), inner, st.integers(-4, 4) | sizes()),
        st.tuples(st.just("//"), inner, sizes()),
        st.tuples(st.just("%"), inner, sizes()),
    ),
    max_leaves=8,
)


def form(tree: Tree) -> Form:
    match tree:
        case ("loop", loop):
            return Form.atom(loop)
        case ("+", left, right):
            return form(left) + form(right)
        case ("-", left, right):
            return form(left) - form(right)
        case ("*", left, right):
            return form(left) * right
        case ("//", left, right):
            return form(left) // right
        case ("%", left, right):
            return form(left) % right
    return Form(tree)


def value(tree: Tree, loops: Mapping[int, int], names: Mapping[str, int]) -> int:
    match tree:
        case ("loop", loop):
            return loops[loop]
        case (operator, left, right):
            a, b = value(left, loops, names), value(right, loops, names)
            return {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0}[operator]
    return value_at(tree, names)


def value_of(form: Form, loops: Mapping[int, int], names: Mapping[str, int]) -> int:
    total = value_at(form.constant, names)
    for atom, factor in form.terms:
        if isinstance(atom, Quotient):
            divided, divisor = value_of(atom.form, loops, names), value_at(atom.divisor, names)
            assert divided >= 0 or not atom.is_natural
            own = divided // divisor
        else:
            own = loops[atom]  # type: ignore[index]
        total += own * value_at(factor, names)
    return total


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tree, dict[int, Steps], dict[str, int], dict[str, int]]:
    """An expression, how many steps loops have, what names are at least, and what they are."""
    tree, least = draw(TREES), {name: draw(st.integers(1, 3)) for name in NAMES}
    steps = {loop: draw(sizes()) for loop in range(LOOPS)}
    return tree, steps, least, {name: low + draw(st.integers(0, 4)) for name, low in least.items()}


def points(steps: Mapping[int, Steps], names: Mapping[str, int]) -> list[dict[int, int]]:
    """Some of the steps of all loops, the first and the last among them."""
    ends = [value_at(steps[loop], names) for loop in range(LOOPS)]
    return [
        dict(enumerate(point))
        for point in itertools.product(*(sorted({0, 1, end // 2, end - 1} & set(range(end))) for end in ends))
    ]


@pytest.mark.slow
@settings(max_examples=20 * settings().max_examples, deadline=None)
@given(cases())
def test_what_is_made_of_an_expression_has_its_value_and_lies_in_its_bounds(case: Any) -> None:
    tree, steps, least, names = case
    made, ranges = form(tree), Ranges(steps, least)
    simple, (low, high) = ranges.simplified(made), ranges.bounds(made)
    remainders, rest = remainders_of(simple)
    for loops in points(steps, names):
        expected = value(tree, loops, names)
        assert value_of(made, loops, names) == expected
        assert value_of(simple, loops, names) == expected
        assert value_of(rest, loops, names) + sum(value_of(each.form(), loops, names) for each in remainders) == expected
        assert low is None or value_at(low, names) <= expected
        assert high is None or expected <= value_at(high, names)


@pytest.mark.slow
@settings(max_examples=10 * settings().max_examples, deadline=None)
@given(cases())
def test_affine_maps_say_the_same(case: Any) -> None:
    tree, steps, least, names = case
    simple = Ranges(steps, least).simplified(form(tree))
    written = affine_of(simple, lambda name: AffineExpr.symbol(NAMES.index(name)))  # type: ignore[arg-type]
    again = form_of(written, [Polynomial.name(name) for name in NAMES])
    for loops in points(steps, names):
        expected = value(tree, loops, names)
        assert written.eval(list(loops.values()), list(names.values())) == expected
        assert value_of(again, loops, names) == expected


def test_what_a_reshape_cuts_and_joins_again_is_gone() -> None:
    d0, d1, s = Form.atom(0), Form.atom(1), Polynomial.name("s")
    for size in (4, s):
        line = d0 * size + d1
        ranges = Ranges({0: 3, 1: size})
        assert ranges.simplified(line // size) == d0
        assert ranges.simplified(line % size) == d1


def test_what_is_divided_is_not_negative_where_that_can_be_had() -> None:
    s = Polynomial.name("s")
    rolled = (Form(3) - Form.atom(0)) % 5
    assert (
        Ranges({0: 5}).simplified(rolled) == Form(8) - Form.atom(0) - Form.atom(Quotient(Form(8) - Form.atom(0), 5, True)) * 5
    )
    [(quotient, _)] = [
        term for term in Ranges({0: s}).simplified((Form.atom(0) - 1) % s).terms if isinstance(term[0], Quotient)
    ]
    assert isinstance(quotient, Quotient) and quotient.is_natural
    [(unknown, _)] = [term for term in Ranges({0: s}).simplified((Form.atom(0) - 5) % s).terms if isinstance(term[0], Quotient)]
    assert isinstance(unknown, Quotient)


def test_bounds_of_sizes_that_are_not_known() -> None:
    s, t = Polynomial.name("s"), Polynomial.name("t")
    ranges = Ranges({0: s, 1: t})
    line = Form.atom(0) * t + Form.atom(1)
    assert ranges.is_within(line, s * t) and not ranges.is_within(line, s * t - 1)
    assert ranges.is_within(-Form.atom(0) + (s - 1), s)
    assert ranges.is_within((Form.atom(0) - 7) % s, s)
    assert not ranges.is_within(Form.atom(0) + 1, s)
    assert Ranges({0: 3}, {"s": 3}).is_within(Form.atom(0), s) and not Ranges({0: 3}, {"s": 2}).is_within(Form.atom(0), s)


def test_of_what_is_divided_by_a_size_that_may_be_0_no_end_is_known() -> None:
    s, x = Polynomial.name("s"), Form.atom(0)
    for form in (x % s, Form.atom(Symbol(Block(arg_types=[i64]).args[0], s))):
        assert not Ranges({0: s + 1}).is_within(form, s)
        assert Ranges({0: s + 1}, {"s": 1}).is_within(form, s) and Ranges({0: s}).is_within(form, s)
        assert Ranges({0: s * 2 + 2}).is_within(x % (s + 1), s + 1)
