"""Conversion between IR attributes and Python values, including PyTorch's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch.utils._python_dispatch import _disable_current_modes
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.callables import function_name, is_allowed, resolve_function
from fxc.bridge.operators import is_overload, operator_name
from fxc.dialects.attributes.types import device, dtype_name, is_tensor
from fxc.dialects.attributes.values import (
    DeviceAttr,
    DTypeAttr,
    FunctionAttr,
    LayoutAttr,
    MemoryFormatAttr,
    Tree,
    device_attr,
    enum_attr,
    map_tree,
    scalar_attr,
    scalar_of,
    str_attr,
)
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.errors import OTHER_VERSION, CaptureError, InputError, TargetError

SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Numbers that a trace does not know."""


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether ``value`` is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether ``value`` is a tuple."""
    return isinstance(value, tuple)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether ``value`` is a dict."""
    return isinstance(value, dict)


def attribute_of(value: Any) -> Attribute:
    """Return the attribute of a Python constant. CaptureError if the IR has none."""
    if (attr := scalar_attr(value)) is not None:
        return attr
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return enum_attr(str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return device_attr(str(value))
    if isinstance(value, str):
        return str_attr(str(value))
    if is_overload(value) or isinstance(value, torch._ops.HigherOrderOperator):
        return FunctionAttr(StringAttr(f"torch.ops.{operator_name(value)}"))
    if callable(value) and is_allowed(value):
        return FunctionAttr(StringAttr(function_name(value)))
    raise CaptureError(
        f"a {type(value).__module__}.{type(value).__qualname__} cannot be written as an argument: {_short(value)}",
        hint="pass numbers, strings, dtypes, devices, tensors and nestings of them",
    )


def value_of(attr: Attribute) -> Any:
    """Return the Python constant of ``attr``; the inverse of ``attribute_of``."""
    match attr:
        case DTypeAttr() | LayoutAttr() | MemoryFormatAttr():
            found = getattr(torch, attr.value.data, None)
            if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
                raise TargetError(f"PyTorch has no torch.{attr.value.data}", hint=OTHER_VERSION)
            return found
        case DeviceAttr():
            return torch.device(attr.value.data)
        case FunctionAttr():
            return resolve_function(attr.target.data)
        case _:
            return scalar_of(attr)


def tree_of(value: Any, leaf: Callable[[Any], SSAValue | Attribute]) -> Tree:
    """Convert a Python nesting to a tree of call arguments; ``leaf`` converts non-containers to SSA values or attributes."""
    return map_tree(value, leaf, attribute_of)


def python_of(tree: Tree, leaf: Callable[[SSAValue | Attribute], Any]) -> Any:
    """Convert a tree of call arguments to a Python nesting; ``leaf`` converts SSA values and attributes."""
    return map_tree(tree, leaf, value_of)


def torch_dtype(element: Attribute) -> torch.dtype:
    """Return the dtype of an element type; TargetError if the running PyTorch lacks it."""
    name = dtype_name(element)
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TargetError(f"PyTorch {torch.__version__} has no dtype {name}", hint=OTHER_VERSION)
    return found


def tensor_of(literal: TensorLiteralAttr, type: TensorType) -> torch.Tensor:
    """Return a new CPU tensor with the bytes of ``literal``."""
    dtype, raw = torch_dtype(type.element_type), literal.bytes
    shape = type.get_shape()
    with _disable_current_modes():
        if not raw:
            return torch.empty(shape, dtype=dtype, device="cpu")
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape).clone()


def literal_of(tensor: torch.Tensor) -> TensorLiteralAttr:
    """Return the bytes of a plain tensor, row-major."""
    with _disable_current_modes():
        flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return TensorLiteralAttr(StringAttr(raw.hex()))


def constant_value(op: ConstantOp) -> Any:
    """Return the tensor, on the CPU, or the host value of a ``torch.constant``."""
    if isinstance(op.value, TensorLiteralAttr):
        assert is_tensor(op.result.type)
        return tensor_of(op.value, op.result.type)
    return value_of(op.value)


def run_time_constant(op: ConstantOp) -> Any:
    """Return the value of a ``torch.constant`` in a program that runs: a tensor is on the device of its type.

    InputError if there is no such device.
    """
    value = constant_value(op)
    if not is_tensor(op.result.type):
        return value
    try:
        return value.to(device(op.result.type))
    except (RuntimeError, AssertionError) as error:
        message = f"no tensor can be made on {device(op.result.type)}: {str(error).splitlines()[0]}"
        raise InputError(message, hint="run it where PyTorch has this device") from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
