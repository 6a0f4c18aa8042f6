"""Describe an operator or op in words: schema, flags, views and writes. Reads tables, never PyTorch."""

from __future__ import annotations

import inspect
from functools import cache

from xdsl.ir import Operation

from fxc.dialects import all_dialects
from fxc.dialects.torch_ops import Schema, parse_schema, table
from fxc.dialects.torch_ops.effects import EFFECTFUL_NAMESPACES, HIDDEN_WRITES, SIDE_EFFECTS, UNDECLARED_VIEWS

FLAGS = {
    "r": "random: samples from a generator",
    "p": "pointwise: each element of the result depends on the operands' elements at the same position",
    "R": "reduction",
    "d": "data-dependent: what it returns to the host depends on values",
    "y": "dynamic shape: the size of the result depends on values",
    "c": "composite: PyTorch itself decomposes it into other operators",
}
"""Flag of ``operators.tbl`` -> its meaning."""


@cache
def fxc_ops() -> dict[str, type[Operation]]:
    """The ops of fxc's dialects by name."""
    return {op.name: op for factory in all_dialects().values() for op in factory().operations}


@cache
def known_ops() -> list[str]:
    """All names: ``fx.call_module``, ``torch.aten.add.Tensor``."""
    return sorted([*fxc_ops(), *(f"torch.{operator}" for operator in table())])


def matches(text: str) -> list[str]:
    """The ops that match ``text``: one op, the overloads of one operator, or all with this prefix."""
    name = text.replace("::", ".")
    if name in fxc_ops():
        return [name]
    if name.removeprefix("torch.") in table():
        return [f"torch.{name.removeprefix('torch.')}"]
    for candidate in (name.rstrip("."), f"torch.{name.rstrip('.')}"):
        if overloads := [known for known in known_ops() if known.startswith(f"{candidate}.")]:
            return overloads
    return [known for known in known_ops() if known.startswith((name, f"torch.{name}"))]


def help_of(name: str) -> str:
    """The full description of the op ``name``."""
    if (cls := fxc_ops().get(name)) is not None:
        return f"{name}\n\n{inspect.getdoc(cls) or 'no documentation'}\n"
    operator = name.removeprefix("torch.")
    flags, signature = table()[operator]
    lines = [f"{name}", "", f"  {operator.rpartition('.')[0].replace('.', '::', 1)}{signature}", ""]
    lines += [f"  {fact}" for fact in facts(operator, flags, parse_schema(signature))]
    return "\n".join(lines) + "\n"


def facts(operator: str, flags: str, schema: Schema) -> list[str]:
    """Flags, writes, views and effects in words."""
    found = [FLAGS.get(flag, f"flag {flag}") for flag in flags]
    written = [argument.name for argument in schema.arguments if argument.writes]
    if written:
        found.append(f"mutates {', '.join(written)}")
    if operator in HIDDEN_WRITES:
        flag, names = HIDDEN_WRITES[operator]
        found.append(f"mutates {', '.join(names)} where {flag} is true, which its schema does not declare")
    for index, result in enumerate(schema.returns):
        tied = [a.name for a in schema.arguments if result.alias and a.alias in (result.alias, "*")]
        which = "its result" if len(schema.returns) == 1 else f"result {index}"
        if tied:
            found.append(
                f"{which} is {', '.join(tied)} itself"
                if result.writes
                else f"view: {which} shares memory with {', '.join(tied)}"
            )
    if operator in UNDECLARED_VIEWS:
        found.append(f"view: its result shares memory with {schema.arguments[0].name}, which its schema does not declare")
    if operator in SIDE_EFFECTS or operator.split(".")[0] in EFFECTFUL_NAMESPACES:
        found.append("side effect: it runs even if its results are unused")
    return found or ["pure: it has no effect but its results"]


def one_line(name: str) -> str:
    """A line of the list of ops."""
    if (cls := fxc_ops().get(name)) is not None:
        doc = (inspect.getdoc(cls) or "").strip()
        return f"{name}  {doc.split(chr(10), 1)[0]}"
    flags, signature = table()[name.removeprefix("torch.")]
    return f"{name}{signature}" + (f"  [{flags}]" if flags else "")


def overview() -> str:
    """The dialects: fxc's ops with a line each, and the number of PyTorch's operators by namespace."""
    lines = list[str]()
    for dialect, factory in sorted(all_dialects().items()):
        lines.append(f"{dialect}:")
        width = max((len(op.name) for op in factory().operations), default=0)
        for op in factory().operations:
            doc = (inspect.getdoc(op) or "").split("\n", 1)[0]
            lines.append(f"  {op.name.ljust(width)}  {doc}")
        lines.append("")
    counts = dict[str, int]()
    for operator in table():
        counts[operator.split(".")[0]] = counts.get(operator.split(".")[0], 0) + 1
    lines.append("operators of PyTorch:")
    lines += [f"  {f'torch.{name}.*':36} {count:5}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    lines += ["", "fxc ops NAME describes an operation; fxc ops torch.aten lists those with this prefix."]
    return "\n".join(lines) + "\n"
