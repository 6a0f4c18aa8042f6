"""PyTorch's operator schemas, parsed from their text, ``(Tensor(a!) self, *, Scalar alpha=1) -> Tensor(a!)``; namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation

_ALIAS = re.compile(r"(?<=[\w\])?])(?<!Dict)(?<!Future)(?<!Await)(?<!RRef)\(([^()]*)\)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'')


@dataclass(frozen=True)
class Argument:
    """An argument: PyTorch's type text without alias marks, alias set (empty for none), and whether it is written."""

    name: str
    type: str
    default: str | None
    keyword_only: bool
    alias: str
    writes: bool

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


@dataclass(frozen=True)
class Return:
    """A result: type text without alias marks, and the alias set that it shares with an argument (empty for none)."""

    type: str
    alias: str
    writes: bool


@dataclass(frozen=True)
class Schema:
    """Arguments and results of one operator overload."""

    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    @cached_property
    def by_name(self) -> dict[str, Argument]:
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def positional(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if not a.keyword_only)

    @cached_property
    def keyword_only(self) -> frozenset[str]:
        return frozenset(a.name for a in self.arguments if a.keyword_only)

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.default is None)

    @cached_property
    def mutates(self) -> bool:
        return any(argument.writes for argument in self.arguments)


def parse_schema(text: str) -> Schema:
    """The schema of ``text``, an operator signature without the name. ValueError where it is malformed."""
    end = _closing(text)
    arrow = text.find("->", end)
    if not text.startswith("(") or arrow < 0:
        raise ValueError(f"not an operator signature: {text}")
    arguments, keyword_only = list[Argument](), False
    for part in _split(text[1:end]):
        if part == "*":
            keyword_only = True
        elif part != "...":  # variadic operators of TorchScript's interpreter, which no graph calls
            declaration, _, default = _partition_default(part)
            type_part, _, name = declaration.rpartition(" ")
            if not type_part:
                raise ValueError(f"not an operator argument: {part}")
            type, alias, writes = _aliased(type_part)
            arguments.append(Argument(name, type, default, keyword_only, alias, writes))
    results = text[arrow + 2 :].strip()
    parts = _split(results[1:-1]) if results.startswith("(") and _closing(results) == len(results) - 1 else [results]
    return Schema(tuple(arguments), tuple(_return(part) for part in parts))


def _return(text: str) -> Return:
    name = text.rpartition(" ")
    type_part = name[0] if name[0] and re.fullmatch(r"\w+", name[2]) and "->" not in name[2] else text
    type, alias, writes = _aliased(type_part)
    return Return(type, alias, writes)


def _aliased(type: str) -> tuple[str, str, bool]:
    """Type without alias marks, the alias set before any ``->``, and whether the set is written."""
    match = _ALIAS.search(type)
    if match is None:
        return type, "", False
    before = match.group(1).split("->")[0].strip()
    return _ALIAS.sub("", type), before.rstrip("!"), "!" in before


def _partition_default(text: str) -> tuple[str, str, str | None]:
    for i, char, depth in _outside_strings(text):
        if char == "=" and depth == 0:
            return text[:i].strip(), "=", text[i + 1 :].strip()
    return text.strip(), "", None


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets and strings."""
    parts, start = list[str](), 0
    for i, char, depth in _outside_strings(text):
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


def _closing(text: str) -> int:
    """Index of the bracket that closes the first one."""
    for i, _, depth in _outside_strings(text):
        if depth == 0:
            return i
    raise ValueError(f"unbalanced brackets: {text}")


def _outside_strings(text: str) -> Iterator[tuple[int, str, int]]:
    """Index, character, and the number of open brackets after it, without characters in quotes."""
    depth, after = 0, 0
    for i, char in enumerate(text):
        if i < after:
            continue
        if char in "'\"" and (string := _STRING.match(text, i)) is not None:
            after = string.end()
            continue
        depth += (char in "([") - (char in ")]")
        yield i, char, depth


FOREACH = "aten._foreach_"
"""The name prefix of operators that apply to each tensor of a list."""


def is_foreach(op: Operation) -> bool:
    """Whether ``op`` applies to each tensor of a list."""
    return op.name.startswith(f"torch.{FOREACH}")


def is_prim(op: Operation) -> bool:
    """Whether ``op`` is a ``prims`` operator, which PyTorch's decompositions use; these work element by element."""
    return op.name.startswith("torch.prims.")


def is_process_call(op: Operation) -> bool:
    """Whether ``op`` refers to a table of this process, so an equal op may mean something else in another process."""
    return op.name.startswith("torch.higher_order.triton_kernel_wrapper_")


def is_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of the oneDNN namespace."""
    return op.name.startswith("torch.mkldnn.")


def is_mkl_or_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of the MKL or oneDNN namespace; PyTorch's fake mode supports only some of these."""
    return op.name.startswith(("torch.mkldnn.", "torch.mkl."))
