"""Check what a caller gives to a capture, before PyTorch sees it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fxc.bridge.values import is_dict, is_sequence
from fxc.errors import InputError


def check_call(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> None:
    """InputError if ``model`` cannot be called, or if ``dynamic_shapes`` names a dimension that a tensor does not have."""
    if not callable(model):
        raise InputError(f"the model is {model!r}, which cannot be called", hint="give a torch.nn.Module or a function")
    if not dynamic_shapes:
        return
    try:
        signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
        inputs = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return  # the capture reports a call that does not fit; some builtin functions have no signature
    shapes = dynamic_shapes if is_dict(dynamic_shapes) else dict(zip(inputs, dynamic_shapes, strict=False))
    for name in inputs.keys() & shapes.keys():
        _check_dimensions(name, inputs[name], shapes[name])


def _check_dimensions(name: str, value: Any, shapes: Any) -> None:
    if isinstance(value, torch.Tensor):
        for dimension in shapes if is_dict(shapes) else ():
            if dimension not in range(value.dim()):
                raise InputError(
                    f"dynamic_shapes names dimension {dimension!r} of {name}, which has {value.dim()} dimensions",
                    hint="dimensions count from 0",
                )
    elif is_dict(value) and is_dict(shapes):
        for key in value.keys() & shapes.keys():
            _check_dimensions(f"{name}[{key!r}]", value[key], shapes[key])
    elif is_sequence(value) and is_sequence(shapes):
        for index, (inner, shape) in enumerate(zip(value, shapes, strict=False)):
            _check_dimensions(f"{name}[{index}]", inner, shape)
