"""PyTorch's type promotion, for operators that do not compute in the dtype of their result."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import TensorType

from fxc.dialects.attributes.types import dtype_name, is_tensor

_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_PAIRS = {frozenset(["uint8", "int8"]): "int16", frozenset(["float16", "bfloat16"]): "float32"}


def promoted(operands: Iterable[TensorType | bool | int | float]) -> str:
    """The promoted dtype of tensors and Python numbers. Priority: tensors with dimensions, then 0-d tensors, then numbers.

    A float number with integer tensors counts as float32, PyTorch's default dtype.
    """
    groups: list[str | None] = [None, None, None]
    for operand in operands:
        if is_tensor(operand):
            place, dtype = (0 if operand.get_shape() else 1), dtype_name(operand.element_type)
        else:
            place, dtype = 2, "bool" if isinstance(operand, bool) else "int64" if isinstance(operand, int) else "float32"
        groups[place] = _join(groups[place], dtype)
    found = _prefer(groups[0], _prefer(groups[1], groups[2]))
    assert found is not None
    return found


def _join(a: str | None, b: str | None) -> str | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    return _PAIRS.get(frozenset([a, b])) or max(a, b, key=_ORDER.index)


def _prefer(higher: str | None, lower: str | None) -> str | None:
    """The promotion of a dtype of ``higher`` priority with one of ``lower``, which counts only if its kind is higher."""
    if higher is None or (higher != "bool" and not _is_float(lower)) or _is_float(higher):
        return lower if higher is None else higher
    return _join(higher, lower)


def _is_float(dtype: str | None) -> bool:
    return dtype is not None and "float" in dtype
