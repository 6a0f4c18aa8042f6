"""Assumptions on unknown sizes: guards of PyTorch's shape environments that the ranges of sizes do not imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from fxc.bridge.tensors import FakeWorld, hints_of, symbolic_parts
from fxc.dialects.attributes.types import CONDITIONS, conditions_of
from fxc.dialects.attributes.values import str_attr

if TYPE_CHECKING:  # known sizes need none of these, whose import takes as long as compiling some models
    import sympy


def conditions_on(values: Sequence[Any], ranges: Mapping[sympy.Symbol, Any]) -> list[str]:
    """Return the assumptions of a capture on the symbols in ``values``, beyond their ``ranges``, as Python text."""
    env = next((value.node.shape_env for value in symbolic_parts(values)), None)
    if env is None:
        return []
    asked = [env.simplify(guard.expr) for guard in env.guards if not _is_about_strides(guard)]
    return list(dict.fromkeys(_written(_not_implied(asked, {**env.var_to_range, **ranges}), {})))


def ranges_of(program: Any) -> dict[Any, Any]:
    """Return the range of each symbol of an ExportedProgram."""
    return program.range_constraints


Hints = tuple[tuple[str, int], ...]
"""Names of symbols, each with a size."""


def assumptions(world: FakeWorld) -> list[Any]:
    """Return the assumptions on the symbols of ``world``, beyond their ranges."""
    if not world.has_guards:
        return []
    conditions = [_in_known_symbols(guard.expr, world) for guard in world.shape_env.guards]
    return list(dict.fromkeys(_not_implied(conditions, _ranges(world))))


def _in_known_symbols(condition: Any, world: FakeWorld) -> Any:
    """``condition`` with the numbers that were found for symbols of the world that the module does not have."""
    found = world.shape_env.replacements
    others = [symbol for symbol in condition.free_symbols if symbol not in world.named_ranges]
    return condition.subs({symbol: found[symbol] for symbol in others if symbol in found})


def written(assumed: Sequence[Any], world: FakeWorld) -> list[str]:
    """Return assumptions of ``world`` as Python text, in the symbols of the module."""
    return _written(assumed, {symbol: name for symbol, (name, _) in world.named_ranges.items()})


def are_broken_elsewhere(assumed: Sequence[Any], world: FakeWorld) -> bool:
    """Whether the sizes of a world with other guesses violate some assumption."""
    names = {name: symbol for symbol, (name, _) in world.named_ranges.items()}
    sizes = {names[name]: hint for name, hint in world.hints_elsewhere().items()}
    return any(_is_false(condition, sizes) for condition in assumed)


def add_conditions(module: ModuleOp, conditions: Iterable[str]) -> None:
    if found := list(dict.fromkeys([*conditions_of(module), *conditions])):
        module.attributes[CONDITIONS] = ArrayAttr(list(map(str_attr, found)))


def _ranges(world: FakeWorld) -> dict[sympy.Symbol, Any]:
    return {**world.shape_env.var_to_range, **{symbol: range for symbol, (_, range) in world.named_ranges.items()}}


def _not_implied(conditions: Iterable[Any], ranges: Mapping[sympy.Symbol, Any]) -> list[Any]:
    """Return the conditions that some sizes in ``ranges`` violate."""
    from torch.utils._sympy import value_ranges

    module: Any = value_ranges
    found = list[Any]()
    for condition in conditions:
        bounds = module.bound_sympy(condition, {symbol: ranges[symbol] for symbol in condition.free_symbols})
        if not (bounds.is_singleton() and bounds.lower):
            found.append(condition)
    return found


def _is_about_strides(guard: Any) -> bool:
    """Whether code of PyTorch, not of the model, compared sizes for equality, as it does to determine memory layouts.

    An equality with a number from 2 on is one of an operator that takes numbers only, as ``linspace`` does.
    """
    import sympy

    expression = guard.expr
    if len(expression.free_symbols) < 2 or expression.func not in (sympy.Eq, sympy.Ne):
        return False
    is_number = expression.func is sympy.Eq and any(side.is_Integer and side > 1 for side in expression.args)
    return not is_number and str(getattr(guard.sloc.framework_loc, "filename", "")).startswith(_TORCH)


_TORCH = str(Path(torch.__file__).parent)


def _written(conditions: Sequence[Any], names: Mapping[Any, str]) -> list[str]:
    import sympy
    from torch.utils._sympy.printers import PythonPrinter

    named = {symbol: sympy.Symbol(name, integer=True) for symbol, name in names.items()}
    printer: Any = PythonPrinter()
    return [printer.doprint(condition.xreplace(named)) for condition in conditions]


def breaking(condition: Any, world: FakeWorld) -> list[Hints]:
    """Return sizes within their ranges that violate ``condition``, one symbol at a time different from its hint.

    Candidates are numbers near the constants in the condition and near the values of its sides, where its truth changes, and
    where dependent results may still agree: for sizes from 8, ``Min(8, s)`` is 8, and it equals ``s`` only at 8. Returns the
    smallest and the largest violating candidate of the first symbol that has some, else nothing.
    """
    import sympy

    known = hints_of(world.shape_env)
    numbers = {int(number) for number in condition.atoms(sympy.Integer)} | {int(value) for value in known.values()}
    for side in condition.args:
        value = side.subs(known)
        numbers |= {int(value)} if value.is_Integer else set()
    numbers |= {2 * max(numbers) + 7}
    for symbol in sorted(condition.free_symbols, key=str):
        name, range = world.named_ranges.get(symbol, ("", None))
        if range is None or symbol not in known:
            continue
        low = int(range.lower)
        looked_at = sorted({low, low + 1} | {abs(number) + step for number in numbers for step in (-1, 0, 1)})
        sizes = [size for size in looked_at if range.lower <= size <= range.upper]
        rest = _at(condition, {other: size for other, size in known.items() if other != symbol})
        if broken := [size for size in sizes if rest is not None and _is_false(rest, {symbol: size})]:
            return [((name, size),) for size in dict.fromkeys((broken[0], broken[-1]))]
    return []


def _is_false(condition: Any, sizes: Mapping[Any, Any]) -> bool:
    import sympy

    return _at(condition, sizes) == sympy.false


def _at(condition: Any, sizes: Mapping[Any, Any]) -> Any:
    """``condition`` at these sizes; None where it is undefined."""
    import sympy

    try:
        return condition.xreplace({symbol: sympy.sympify(size) for symbol, size in sizes.items()})
    except ZeroDivisionError:
        return None
