"""What was assumed of sizes that are not known: the guards of PyTorch's shape environments that their ranges do not imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from fxc.bridge.tensors import FakeWorld, hints_of, symbolic_parts
from fxc.dialects.attributes.types import CONDITIONS, conditions_of
from fxc.dialects.attributes.values import str_attr

if TYPE_CHECKING:  # known sizes need none of these, which take as long to import as some models to compile
    import sympy


def conditions_on(values: Sequence[Any], ranges: Mapping[sympy.Symbol, Any]) -> list[str]:
    """What a capture assumed of the symbols in ``values`` beside their ``ranges``, as Python writes it."""
    env = next((value.node.shape_env for value in symbolic_parts(values)), None)
    if env is None:
        return []
    asked = [env.simplify(guard.expr) for guard in env.guards if not _is_about_strides(guard)]
    return list(dict.fromkeys(_written(_not_implied(asked, {**env.var_to_range, **ranges}), {})))


Hints = tuple[tuple[str, int], ...]
"""Names of symbols, and a size of each."""


def assumptions(world: FakeWorld) -> list[Any]:
    """What was assumed of the symbols of ``world`` beside their ranges."""
    if not world.has_guards:
        return []
    return list(dict.fromkeys(_not_implied([guard.expr for guard in world.shape_env.guards], _ranges(world))))


def written(assumed: Sequence[Any], world: FakeWorld) -> list[str]:
    """Assumptions of ``world`` as Python writes them, in the symbols of the module."""
    return _written(assumed, {symbol: name for symbol, (name, _) in world.named_ranges.items()})


def are_broken_elsewhere(assumed: Sequence[Any], world: FakeWorld) -> bool:
    """Whether a world with other guesses, of the symbols of ``world``, does not satisfy all assumptions."""
    names = {name: symbol for symbol, (name, _) in world.named_ranges.items()}
    sizes = {names[name]: hint for name, hint in world.hints_elsewhere().items()}
    return any(_is_false(condition, sizes) for condition in assumed)


def add_conditions(module: ModuleOp, conditions: Iterable[str]) -> None:
    if found := list(dict.fromkeys([*conditions_of(module), *conditions])):
        module.attributes[CONDITIONS] = ArrayAttr(list(map(str_attr, found)))


def _ranges(world: FakeWorld) -> dict[sympy.Symbol, Any]:
    return {**world.shape_env.var_to_range, **{symbol: range for symbol, (_, range) in world.named_ranges.items()}}


def _not_implied(conditions: Iterable[Any], ranges: Mapping[sympy.Symbol, Any]) -> list[Any]:
    """Those that not all sizes in ``ranges`` satisfy."""
    from torch.utils._sympy.value_ranges import bound_sympy

    found = []
    for condition in conditions:
        bounds = bound_sympy(condition, {symbol: ranges[symbol] for symbol in condition.free_symbols})
        if not (bounds.is_singleton() and bounds.lower):
            found.append(condition)
    return found


def _is_about_strides(guard: Any) -> bool:
    """Whether code of PyTorch, not the model, asked whether sizes are equal, as it does to tell how a tensor lies in memory."""
    import sympy

    is_of_torch = str(getattr(guard.sloc.framework_loc, "filename", "")).startswith(_TORCH)
    return is_of_torch and len(guard.expr.free_symbols) > 1 and guard.expr.func in (sympy.Eq, sympy.Ne)


_TORCH = str(Path(torch.__file__).parent)


def _written(conditions: Sequence[Any], names: Mapping[Any, str]) -> list[str]:
    import sympy
    from torch.utils._sympy.printers import PythonPrinter

    named = {symbol: sympy.Symbol(name, integer=True) for symbol, name in names.items()}
    return [PythonPrinter().doprint(condition.xreplace(named)) for condition in conditions]


def breaking(condition: Any, world: FakeWorld) -> list[Hints]:
    """Sizes in their ranges, one of them not its hint, that do not satisfy ``condition``: the smallest and the largest of those
    that are looked at; none where none is found.

    The numbers in the condition, and those of its two sides, are where its truth changes, and where what hangs on it may still
    be the same: 8 is ``Min(8, s)`` of the sizes from 8, and ``s`` at 8 only.
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
        if broken := [size for size in sizes if _is_false(condition, {**known, symbol: size})]:
            return [((name, size),) for size in dict.fromkeys((broken[0], broken[-1]))]
    return []


def _is_false(condition: Any, sizes: Mapping[Any, Any]) -> bool:
    import sympy

    try:
        return condition.subs(sizes) == sympy.false
    except ZeroDivisionError:  # there is no such size
        return False
