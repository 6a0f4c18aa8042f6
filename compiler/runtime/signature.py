"""What a compiled callable takes: dtype, sizes and device of each input, and the nesting they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from fxc.errors import InputError


@dataclass(frozen=True)
class TensorInput:
    """A tensor input. A size is a number, or a symbol's name: equal names must get equal sizes within its bounds."""

    name: str
    dtype: str
    sizes: tuple[int | str, ...]
    device: str


@dataclass(frozen=True)
class OtherInput:
    """An input that is no tensor: a number, or a constant that was baked in."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Signature:
    """The inputs in order, the nesting (None where they come flat), and the bounds of each symbol."""

    inputs: tuple[TensorInput | OtherInput, ...]
    nesting: TreeSpec | None
    bounds: Mapping[str, tuple[int, int | None]]

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """InputError, naming the argument and what was expected, unless a call with these inputs fits."""
        leaves = self._leaves(args, kwargs)
        sizes = dict[str, tuple[int, str]]()
        for spec, value in zip(self.inputs, leaves, strict=True):
            if isinstance(spec, TensorInput):
                self._check_tensor(spec, value, sizes)
            elif isinstance(value, torch.Tensor):
                raise InputError(f"input {spec.name} is a tensor, but {' or '.join(spec.types)} is expected", hint=_RECOMPILE)

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        if self.nesting is None:
            if kwargs or len(args) != len(self.inputs):
                raise InputError(f"{len(self.inputs)} inputs are expected, but got {len(args) + len(kwargs)}", hint=_RECOMPILE)
            return list(args)
        ordered = {key: kwargs[key] for key in self.nesting.children()[1].context if key in kwargs}
        ordered |= {key: value for key, value in kwargs.items() if key not in ordered}
        leaves, nesting = tree_flatten((tuple(args), ordered))
        if nesting != self.nesting:
            raise InputError(
                f"the inputs are nested otherwise than in the example: {nesting}, expected {self.nesting}", hint=_RECOMPILE
            )
        return leaves

    def _check_tensor(self, spec: TensorInput, value: Any, sizes: dict[str, tuple[int, str]]) -> None:
        if not isinstance(value, torch.Tensor):
            raise InputError(f"input {spec.name} is a {type(value).__name__}, but a tensor is expected")
        if str(value.dtype) != f"torch.{spec.dtype}":
            raise InputError(f"input {spec.name} has dtype {value.dtype}, but torch.{spec.dtype} is expected", hint=_RECOMPILE)
        if str(value.device) != spec.device:
            raise InputError(
                f"input {spec.name} is on {value.device}, not on {spec.device}", hint="move it with .to(...)"
            )
        if value.dim() != len(spec.sizes):
            raise InputError(
                f"input {spec.name} has shape {tuple(value.shape)}, but {_shape(spec)} is expected", hint=_RECOMPILE
            )
        for axis, (expected, size) in enumerate(zip(spec.sizes, value.shape, strict=True)):
            if isinstance(expected, int):
                if size != expected:
                    raise InputError(
                        f"input {spec.name} has shape {tuple(value.shape)}, but {_shape(spec)} is expected (dimension {axis})",
                        hint="compile with dynamic_shapes to leave a size free, or compile again for this shape",
                    )
            elif expected.isidentifier():
                self._check_symbol(spec, axis, expected, size, sizes)

    def _check_symbol(self, spec: TensorInput, axis: int, name: str, size: int, sizes: dict[str, tuple[int, str]]) -> None:
        known, where = sizes.setdefault(name, (size, f"dimension {axis} of {spec.name}"))
        if known != size:
            raise InputError(f"dimension {axis} of input {spec.name} is {size}, but {where} makes it {known}")
        low, high = self.bounds.get(name, (0, None))
        if size < low or (high is not None and size > high):
            raise InputError(f"dimension {axis} of input {spec.name} is {size}, but {name} lies in [{low}, {high or 'inf'}]")


_RECOMPILE = "compile again with an example of this kind"


def _shape(spec: TensorInput) -> str:
    return "(" + ", ".join(map(str, spec.sizes)) + ("," if len(spec.sizes) == 1 else "") + ")"
