"""Entries of the operator table, read from the registry of the running PyTorch."""

from __future__ import annotations

from typing import TypeGuard

import torch

import fxc.bridge.random_numbers  # noqa: F401  # pyright: ignore[reportUnusedImport]  # registers fxc::uniform

_TAGS = (
    ("r", torch.Tag.nondeterministic_seeded),
    ("p", torch.Tag.pointwise),
    ("R", getattr(torch.Tag, "reduction", None)),
    ("d", torch.Tag.data_dependent_output),
    ("y", torch.Tag.dynamic_output_shape),
)


def schema_text(schema: torch._C.FunctionSchema) -> str:
    """Return the schema without its name: ``(Tensor self, *, float p=0.5) -> Tensor``."""
    text = str(schema)
    return text[text.index("(") :]


def flags_of(op: torch._ops.OpOverload) -> str:
    """Return the flag letters of ``op`` in the table."""
    flags = "".join(letter for letter, tag in _TAGS if tag is not None and tag in op.tags)
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    composite = torch._C._dispatch_has_kernel(op.name()) and op.has_kernel_for_dispatch_key(key)
    return flags + ("c" if composite else "")


def is_overload(value: object) -> TypeGuard[torch._ops.OpOverload]:
    """Whether ``value`` is an operator overload."""
    return isinstance(value, torch._ops.OpOverload)


def is_random(function: object) -> bool:
    """Whether ``function`` is a random operator. A call stays without uses: removing it changes later random numbers."""
    return is_overload(function) and torch.Tag.nondeterministic_seeded in function.tags


def operator_name(op: torch._ops.OpOverload | torch._ops.HigherOrderOperator) -> str:
    """Return the registry name, ``aten.add.Tensor`` or ``higher_order.cond``: the operation name after ``torch.``."""
    if isinstance(op, torch._ops.HigherOrderOperator):
        return f"higher_order.{op.name()}"
    namespace, name = op._schema.name.split("::")
    return f"{namespace}.{name}.{op._overloadname}"
