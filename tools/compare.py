"""``fxc run --compare``: compare the results of a program with those of the model that it came from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fxc.errors import InputError
from fxc.tools.sources import ModelSource, running

if TYPE_CHECKING:
    from fxc.program.execute import RunResult
    from fxc.program.program import Program


@dataclass(frozen=True)
class Verdict:
    """The differences of all results, and those beyond the tolerances; ``str()`` is the report."""

    differences: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_close(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if not self.differences and self.is_close:
            return "close to eager: no difference"
        if self.is_close:
            return "\n  ".join(["close to eager", *self.differences])
        return "\n  ".join(["NOT close to eager", *self.problems, *self.notes])


def inputs_of_source(program: Program, source: ModelSource) -> list[Any]:
    """The example inputs of the model in the input order of the program: matched by nesting, else by name, else in order."""
    from torch.utils._pytree import tree_leaves

    if _nesting(program) is not None:
        return tree_leaves((source.args, dict(source.kwargs)))
    match = _match(program, source)
    return [match.bound.arguments[name] if name in match.bound.arguments else match.leaves[i] for name, [i, *_] in match.places]


@dataclass(frozen=True)
class _Match:
    """For each program input, the matching leaves of the arguments of the model: (name, indices)."""

    bound: inspect.BoundArguments
    leaves: list[Any]
    spec: Any
    places: list[tuple[str, list[int]]]


def _match(program: Program, source: ModelSource) -> _Match:
    from torch.utils._pytree import MappingKey, keystr, tree_flatten_with_path

    from fxc.program.execute import arguments

    wanted = [argument.name for argument in arguments(program) if not argument.is_state]
    bound = inspect.signature(getattr(source.model, "forward", source.model)).bind(*source.args, **source.kwargs)
    bound.apply_defaults()
    flat, spec = tree_flatten_with_path(dict(bound.arguments))
    known = dict[str, list[int]]()
    for index, (path, _) in enumerate(flat):
        known.setdefault(cast(MappingKey[str, Any], path[0]).key, []).append(index)
        known[re.sub(r"\W+", "_", f"L{keystr(path)}")] = [index]  # the name that Dynamo gives to a local
    leaves = [leaf for _, leaf in flat]
    if all(name in known for name in wanted):
        return _Match(bound, leaves, spec, [(name, known[name]) for name in wanted])
    if len(leaves) != len(wanted):
        raise InputError(
            f"{source.name} takes {len(leaves)} inputs, but the program {len(wanted)}: {', '.join(wanted)}",
            hint="capture the model with --route export, which records how its inputs are nested",
        )
    return _Match(bound, leaves, spec, [(name, [index]) for index, name in enumerate(wanted)])


def _nesting(program: Program) -> Any:
    from fxc.bridge.nesting import INPUTS, spec_of

    attribute = program.main.attributes.get(INPUTS)
    return None if attribute is None else spec_of(attribute)


def compare_with_source(program: Program, source: ModelSource, values: Sequence[Any], outcome: RunResult, seed: int) -> Verdict:
    """Run the model on copies of the same inputs and compare leaf by leaf, with the tolerances of torch.testing."""
    import torch
    from torch.utils._pytree import tree_leaves

    from fxc.numerics.differences import difference

    args, kwargs = _call(program, source, values)
    model = source.model.module() if isinstance(source.model, torch.export.ExportedProgram) else source.model
    torch.manual_seed(seed)
    with running(source.name), torch.no_grad():
        expected = tree_leaves(model(*args, **kwargs))
    actual = tree_leaves(outcome.value)
    if len(actual) != len(expected):
        return Verdict((), (f"{len(actual)} results, but eager returns {len(expected)}",))
    pairs = enumerate(zip(expected, actual, strict=True))
    found = [(f"result {i}: {each.text}", each.excess) for i, (old, new) in pairs if (each := difference(old, new)) is not None]
    problems = tuple(text for text, excess in found if excess > 1)
    return Verdict(tuple(text for text, _ in found), problems, _notes(program, model))


def _call(program: Program, source: ModelSource, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """``values``, the flat inputs of the program, nested as the model takes them. Copied, as the model may write them."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

    def copied(value: object) -> object:
        return value.clone() if isinstance(value, torch.Tensor) else value

    copies: list[Any] = tree_map(copied, list(values))
    nesting = _nesting(program)
    if nesting is not None:
        args, kwargs = tree_unflatten(copies, nesting)
        return args, kwargs
    match = _match(program, source)
    leaves = list(match.leaves)
    for (_, places), value in zip(match.places, copies, strict=True):
        for index, leaf in zip(places, tree_leaves(value), strict=True):
            leaves[index] = leaf
    match.bound.arguments.update(tree_unflatten(leaves, match.spec))
    return match.bound.args, match.bound.kwargs


def _notes(program: Program, model: Any) -> tuple[str, ...]:
    """Possible reasons for a difference: weights that are not those of the model."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return ()
    known = model.state_dict()
    other = [
        name
        for name, tensor in program.state.items()
        if name in known and not (tensor.shape == known[name].shape and torch.equal(tensor, known[name]))
    ]
    return (f"note: {len(other)} tensors of the weights file differ from the model's, such as {other[0]}",) if other else ()
