"""Calls of functions of local tensors with DTensors: their layouts are checked, and results are DTensors again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_flatten, tree_unflatten

from fxc.errors import InputError

_AGAIN = "redistribute it, or compile again with an example of this layout"


@dataclass(frozen=True)
class DTensorPart:
    """A tensor as a part of a DTensor: its mesh, and a placement for each axis."""

    mesh: Any
    placements: tuple[Any, ...]

    @classmethod
    def of(cls, spec: Any) -> DTensorPart | None:
        """The part that PyTorch's specification states."""
        return None if spec is None else cls(spec.mesh, tuple(spec.placements))

    def __str__(self) -> str:
        return f"{self.placements} on {self.mesh}"


@dataclass(frozen=True)
class DistributedCall:
    """Calls ``run`` on the local tensors of its inputs.

    ``inputs`` and ``results``: what each leaf is a part of, or None. ``names``: those of the inputs. ``weights``: the DTensors
    of the model, each with the local tensor that the plan has for it. ``gradients``: what the gradient of each input is a part
    of, where ``run`` has one.
    """

    run: Callable[..., Any]
    names: Sequence[str]
    inputs: Sequence[DTensorPart | None]
    results: Sequence[DTensorPart | None]
    weights: Mapping[str, tuple[Any, Any]]
    gradients: Sequence[DTensorPart | None] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, nesting = tree_flatten((args, kwargs))
        for name, expected, value in zip(self.names, self.inputs, leaves, strict=False):
            if (found := DTensorPart.of(getattr(value, "_spec", None))) != expected:
                raise InputError(f"input {name} is {_text(found)}, but {_text(expected)} is expected", hint=_AGAIN)
        for name, (whole, local) in self.weights.items():
            if whole._local_tensor is not local:
                raise InputError(f"{name!r} has another local tensor than when it was compiled", hint="compile again")
        gradients = self.gradients if len(self.gradients) == len(leaves) else [None] * len(leaves)
        local = [local_of(*each) for each in zip(leaves, gradients, strict=True)]
        local_args, local_kwargs = tree_unflatten(local, nesting)
        returned, nesting = tree_flatten(self.run(*local_args, **local_kwargs))
        return tree_unflatten([_whole(*each) for each in zip(returned, self.results, strict=True)], nesting)


def local_of(value: Any, gradient: DTensorPart | None = None) -> Any:
    """The local tensor of a DTensor, whose ``gradient`` autograd makes a DTensor; other values unchanged."""
    from torch.distributed.tensor import DTensor

    if not isinstance(value, DTensor):
        return value
    return value._local_tensor if gradient is None else value.to_local(grad_placements=gradient.placements)


def differentiable(
    forward: Callable[..., Any], backward: Callable[..., Any], has_tangent: Sequence[bool]
) -> Callable[..., Any]:
    """A function of tensors that computes the results of ``forward``, of which those with ``has_tangent`` carry gradients.

    ``forward`` returns what ``backward`` takes after the results, and ``backward`` takes it in a list, with the tangents.
    """

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            found = forward(*values)
            results = tuple(found[: len(has_tangent)])
            ctx.save_for_backward(*found[len(has_tangent) :])
            constant = (
                each for each, has in zip(results, has_tangent, strict=True) if not has and isinstance(each, torch.Tensor)
            )
            ctx.mark_non_differentiable(*constant)
            return results

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *tangents: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            given = (tangent.contiguous() for tangent, has in zip(tangents, has_tangent, strict=True) if has)
            return tuple(backward([*ctx.saved_tensors, *given]))

    return Step.apply  # type: ignore[return-value]


def _whole(value: Any, part: DTensorPart | None) -> Any:
    from torch.distributed.tensor import DTensor

    return value if part is None else DTensor.from_local(value, part.mesh, part.placements, run_check=False)


def _text(part: DTensorPart | None) -> str:
    return "no DTensor" if part is None else f"a DTensor of {part}"
