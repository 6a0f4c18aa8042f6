"""Signatures of compiled callables: dtype, sizes, strides and device of each input, and the nesting of inputs.

``Signature.fits`` is the check of every call and takes a few microseconds; ``check`` explains why ``fits`` rejected a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from fxc.errors import InputError, nearest
from fxc.runtime import autocast
from fxc.runtime.guards import CodeNames, Guard, all_of
from fxc.runtime.inputs import OtherInput, TensorInput, input_guards, memory_guards, size_guards
from fxc.runtime.object_inputs import SAME, InputObject, Returned, holds_objects, opened
from fxc.runtime.process_state import Reads, difference

_RECOMPILE = "pass inputs like those of the example, or compile again with an example of this kind"


@dataclass(frozen=True)
class Signature:
    """The inputs in order, their nesting (None if flat), the bounds of each symbol, and the autocast state.

    ``conditions``: additional conditions on sizes, as text over the symbols. ``returned``: what the results are of a program
    that changes its inputs, or returns them. ``reads``: the state of the process that the model has read.
    ``ordered``: the keywords that a call gives in this order, because the model takes them as a dictionary.
    """

    inputs: tuple[TensorInput | OtherInput, ...]
    nesting: TreeSpec | None
    bounds: Mapping[str, tuple[int, int | None]]
    autocast: autocast.Autocast = ()
    conditions: tuple[str, ...] = ()
    returned: Returned | None = None
    reads: Reads = ()
    ordered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nesting is not None and self.nesting.num_leaves != len(self.inputs):
            raise InputError(f"the nesting holds {self.nesting.num_leaves} inputs, but the program takes {len(self.inputs)}")

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these inputs fits the signature. Never raises; ``check`` explains why not."""
        leaves = self.leaves(args, kwargs)
        return leaves is not None and self.fits_leaves(leaves)

    @cached_property
    def is_flat(self) -> bool:
        """Whether all inputs are positional arguments without nesting."""
        if self.nesting is None:
            return True
        args, kwargs = self.nesting.children()
        return not kwargs.num_children and all(child.is_leaf() for child in args.children())

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """Return the inputs in order, or None if their nesting differs."""
        if self.is_flat:
            return args if len(args) == len(self.inputs) and not kwargs else None
        if (found := self._take_out(args, kwargs)) is not None:
            return found
        try:
            return self._flat(args, kwargs)
        except InputError:
            return None

    @cached_property
    def _has_objects(self) -> bool:
        return self.nesting is not None and holds_objects(self.nesting)

    @cached_property
    def _take_out(self) -> Callable[..., tuple[Any, ...] | None]:
        """A function that extracts inputs from builtin containers; None for others, or for keywords in another order."""
        assert self.nesting is not None
        names, (args, kwargs) = CodeNames(), self.nesting.children()
        lines = [*_unpacking(args, "args", 0, names), *_unpacking(kwargs, "kwargs", args.num_leaves, names)]
        return names.function(["args", "kwargs"], [*lines, f"return ({''.join(f'{name}, ' for name in self.names)})"])

    @property
    def names(self) -> list[str]:
        """The names of the inputs in guards."""
        return [f"x{i}" for i in range(len(self.inputs))]

    def input_guards(self, names: CodeNames) -> list[Guard]:
        """Return the guards of the inputs, except those of their memory."""
        return [*input_guards(self.inputs, self.bounds, self.conditions, names)]

    def memory_guards(self, names: CodeNames) -> list[Guard]:
        """Return the guards of the memory of inputs that pass ``input_guards``."""
        return [*memory_guards(self.inputs, names)]

    def checked_sizes(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``run`` on flat inputs, with InputError for calls whose sizes break ``conditions``, if there are any."""
        if not self.conditions:
            return run

        def refuse(args: Sequence[Any]) -> None:
            names = CodeNames()
            names.check([*size_guards(self.inputs, self.bounds, self.conditions, names)], self.names, args)

        names = CodeNames(run=run, refuse=refuse)
        tests = [guard.test for guard in size_guards(self.inputs, self.bounds, self.conditions, names)]
        lines = [f"{', '.join(self.names)}, = args", f"if not ({all_of(tests)}): refuse(args)", "return run(*args)"]
        return names.function(["*args"], lines)

    def _guards(self, names: CodeNames) -> list[Guard]:
        return [self.context_guard(names), *self.input_guards(names), *self.memory_guards(names)]

    def context_guard(self, names: CodeNames) -> Guard:
        """Return the guard of the autocast state of a call, and of the state that the model has read."""
        there, current = self.autocast, autocast.current

        def elsewhere(_: Any) -> InputError:
            if (reason := difference(self.reads)) is not None:
                return InputError(f"the model reads {reason}", hint="compile where it is called, or use the option recompile")
            return InputError(
                f"it was compiled under {autocast.text(there)}, but is called under {autocast.text(current())}",
                hint="compile where it is called, enter autocast in the model itself, or use the option recompile",
            )

        test = f"{names.of(current)}() == {names.of(there)}" if there else f"not {names.of(autocast.is_on)}()"
        tests = [test, *(f"{names.of(getattr(torch, name))}() == {names.of(value)}" for name, value in self.reads)]
        return Guard(all_of(tests), elsewhere)

    @cached_property
    def fits_leaves(self) -> Callable[[Sequence[Any]], bool]:
        """``fits`` for flat inputs."""
        names = CodeNames()
        unpack = [f"{', '.join(self.names)}, = leaves"] if self.inputs else []
        return names.function(["leaves"], [*unpack, f"return {all_of(guard.test for guard in self._guards(names))}"])

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise InputError, naming the argument and what was expected, unless a call with these inputs fits."""
        if self.fits(tuple(args), dict(kwargs)):
            return
        names = CodeNames()
        names.check([self.context_guard(names)], [], [])
        names.check(self._guards(names), self.names, self._flat(args, kwargs))

    def _flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        if self.nesting is None:
            if kwargs or len(args) != len(self.inputs):
                raise InputError(f"{len(self.inputs)} inputs are expected, but got {len(args) + len(kwargs)}", hint=_RECOMPILE)
            return list(args)
        if len(self.ordered) > 1 and tuple([key for key in kwargs if key in self.ordered]) != self.ordered:
            message = f"the model takes the keywords {', '.join(self.ordered)} as a dictionary"
            raise InputError(message, hint="pass all of them, in this order, or compile with an example of another order")
        ordered = {key: kwargs[key] for key in self.nesting.children()[1].context if key in kwargs}
        ordered |= {key: value for key, value in kwargs.items() if key not in ordered}
        if self._has_objects:
            args, ordered, _ = opened(args, ordered)
        leaves, nesting = tree_flatten((tuple(args), ordered))
        if nesting != self.nesting:
            known = self.nesting.children()[1].context
            hint = next((nearest(key, known) for key in kwargs if key not in known), None) or _RECOMPILE
            raise InputError(self._difference(self.nesting, nesting), hint=hint)
        return leaves

    def _difference(self, expected: TreeSpec, given: TreeSpec) -> str:
        """Describe how the nesting of a call differs from that of the example."""
        (args, kwargs), (given_args, given_kwargs) = expected.children(), given.children()
        names = ", ".join(spec.name for spec in self.inputs)
        if (count := args.num_children) != given_args.num_children:
            return f"{count} positional inputs are expected, but got {given_args.num_children} (the inputs are {names})"
        for key in given_kwargs.context:
            if key not in kwargs.context:
                return f"input {key} is given, but not expected (the inputs are {names})"
        for key in kwargs.context:
            if key not in given_kwargs.context:
                return f"input {key} is expected, but not given"
        keys, old, new = [*range(count), *kwargs.context], args.children() + kwargs.children(), given_args.children()
        pairs = zip(keys, old, new + given_kwargs.children(), strict=True)
        return next(f"input {key}{_first_difference(a, b)}" for key, a, b in pairs if a != b)


def _first_difference(expected: TreeSpec, given: TreeSpec) -> str:
    """Where ``given`` differs from ``expected``, and how."""
    was, now = expected.children(), given.children()
    if expected.type != given.type or expected.context != given.context or len(was) != len(now):
        return f" is nested otherwise than in the example: {_outline(given)}, expected {_outline(expected)}"
    keys = [f".{key}" for key in expected.context] if expected.type is dict else [f"[{i}]" for i in range(len(was))]
    keys = [""] * len(was) if expected.type is InputObject else keys
    return next(f"{key}{_first_difference(a, b)}" for key, a, b in zip(keys, was, now, strict=True) if a != b)


def _outline(nesting: TreeSpec) -> str:
    """The container without what is inside."""
    name, inner = str(nesting.context), nesting.children()
    if nesting.is_leaf():
        return "a single value"
    if nesting.type is InputObject:
        return f"an object given before (number {name[1:]})" if name.startswith(SAME) else f"a {name}" if inner else name
    return f"a {nesting.type.__name__} of {', '.join(map(repr, nesting.context)) if nesting.type is dict else len(inner)}"


def _unpacking(spec: TreeSpec, value: str, first: int, names: CodeNames) -> Iterator[str]:
    """Yield lines that unpack ``value``, whose inputs start at number ``first``, or return None if its structure differs."""
    if spec.type not in (tuple, list, dict):
        yield "return None"
        return
    there = f"list({value}) == {names.of(list(spec.context))}" if spec.type is dict else f"len({value}) == {spec.num_children}"
    yield f"if not (type({value}) is {spec.type.__name__} and {there}): return None"
    children, inner = list[str](), list[Iterator[str]]()
    for child in spec.children():
        children.append(f"x{first}" if child.is_leaf() else f"{value}_{len(children)}")
        inner += [] if child.is_leaf() else [_unpacking(child, children[-1], first, names)]
        first += child.num_leaves
    if children:
        yield f"{', '.join(children)}, = {value}{'.values()' if spec.type is dict else ''}"
    yield from chain.from_iterable(inner)
