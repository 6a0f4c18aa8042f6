"""Calls of a program of local tensors with DTensors: their layouts are checked, and results are DTensors again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from fxc.errors import InputError

_AGAIN = "redistribute it, or compile again with an example of this layout"


@dataclass(frozen=True)
class Part:
    """A tensor as a part of a DTensor: its mesh, and a placement for each axis."""

    mesh: Any
    placements: tuple[Any, ...]

    @classmethod
    def of(cls, spec: Any) -> Part | None:
        """The part that PyTorch's specification states."""
        return None if spec is None else cls(spec.mesh, tuple(spec.placements))

    def __str__(self) -> str:
        return f"{self.placements} on {self.mesh}"


@dataclass(frozen=True)
class DistributedCall:
    """Calls ``run`` on the local tensors of its inputs.

    ``inputs`` and ``results``: what each leaf is a part of, or None. ``names``: those of the inputs. ``weights``: the DTensors
    of the model, each with the local tensor that the plan has for it.
    """

    run: Callable[..., Any]
    names: Sequence[str]
    inputs: Sequence[Part | None]
    results: Sequence[Part | None]
    weights: Mapping[str, tuple[Any, Any]]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, nesting = tree_flatten((args, kwargs))
        for name, expected, value in zip(self.names, self.inputs, leaves, strict=False):
            if (found := Part.of(getattr(value, "_spec", None))) != expected:
                raise InputError(f"input {name} is {_text(found)}, but {_text(expected)} is expected", hint=_AGAIN)
        for name, (whole, local) in self.weights.items():
            if whole._local_tensor is not local:
                raise InputError(f"{name!r} has another local tensor than when it was compiled", hint="compile again")
        local_args, local_kwargs = tree_unflatten([local_of(value) for value in leaves], nesting)
        returned, nesting = tree_flatten(self.run(*local_args, **local_kwargs))
        return tree_unflatten([_whole(*each) for each in zip(returned, self.results, strict=True)], nesting)


def local_of(value: Any) -> Any:
    """The local tensor of a DTensor; other values unchanged."""
    return value._local_tensor if isinstance(value, DTensor) else value


def _whole(value: Any, part: Part | None) -> Any:
    return value if part is None else DTensor.from_local(value, part.mesh, part.placements, run_check=False)


def _text(part: Part | None) -> str:
    return "no DTensor" if part is None else f"a DTensor of {part}"
