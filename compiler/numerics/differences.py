"""Differences of values: none, by a distance that may be rounding, or of a kind that rounding cannot cause."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from fxc.bridge.values import is_sequence

TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""dtype -> (relative, absolute) tolerance, as in ``torch.testing``."""

TIMES_THE_ROUNDING = 4.0
"""The allowed distance from the float64 result, as a multiple of the distance before or the dtype's tolerance."""


@dataclass(frozen=True)
class Difference:
    """A difference of two values.

    ``text``: a description. ``excess``: the distance in multiples of the dtype's tolerance; infinite for properties that must
    be equal: dtype, shape, integers, and positions of NaN and infinities.
    """

    text: str
    excess: float = math.inf


def difference(before: Any, after: Any, *, strict: bool = False) -> Difference | None:
    """Return the difference of ``after`` and ``before``; None if they are equal (NaN equals NaN, 0.0 equals -0.0).

    ``strict``: scale the absolute tolerance by the largest value of the tensor, if that is below one; for float64 runs, in
    which only a wrong result is far off.
    """
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        return _tensor_difference(before, after, strict)
    if isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor) or type(before) is not type(after):
        return Difference(f"a {_kind(before)} became a {_kind(after)}")
    if is_sequence(before):
        if len(before) != len(after):
            return Difference(f"{len(before)} elements became {len(after)}")
        found = [difference(old, new, strict=strict) for old, new in zip(before, after, strict=True)]
        return max((f for f in found if f is not None), key=lambda f: f.excess, default=None)
    if isinstance(before, (float, complex)):
        return _tensor_difference(torch.tensor(before), torch.tensor(after), strict)
    return None if before == after else Difference(f"{before!r} became {after!r}")


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def _tensor_difference(before: torch.Tensor, after: torch.Tensor, strict: bool) -> Difference | None:
    for what in ("dtype", "shape", "device", "layout"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            return Difference(f"{what} {_short(old)} became {_short(new)}")
    if before.numel() == 0 or before.is_meta:
        return None
    if before.layout is not torch.strided:
        before, after = before.to_dense(), after.to_dense()
    if not (before.is_floating_point() or before.is_complex()):
        wrong = before != after
        count = int(wrong.sum())
        return Difference(f"{count} of {before.numel()} elements differ{_example(before, after, wrong)}") if count else None
    relative, absolute = TOLERANCES.get(before.dtype) or (torch.finfo(before.dtype).eps, 1e-5)
    old, new = _parts(before), _parts(after)
    special = ~(torch.isfinite(old) & torch.isfinite(new))
    wrong = special & ~((old == new) | (old.isnan() & new.isnan()))
    if bool(wrong.any()):
        return Difference(f"NaN or infinity differs in {int(wrong.sum())} elements{_example(old, new, wrong)}")
    old, new = old.masked_fill(special, 0.0), new.masked_fill(special, 0.0)
    distance = (old - new).abs()
    worst = distance.max().item()
    if worst == 0.0:
        return None
    if strict:
        absolute = absolute * min(1.0, old.abs().max().item()) + 1e-12
    ratio = (distance / torch.maximum(old.abs(), new.abs())).nan_to_num(0.0)
    excess = (distance / (absolute + relative * old.abs())).max().item()
    count = int((distance > 0).sum())
    text = f"max abs difference {worst:.3g}, max rel {ratio.max().item():.3g}, in {count} of {old.numel()} elements"
    return Difference(text + _example(old, new, distance == worst), excess)


def is_rounding(exact: Any, before: Any, after: Any) -> bool:
    """Return whether ``after`` is about as close to the float64 result ``exact`` as ``before`` is."""
    return _excess_over(exact, after) <= TIMES_THE_ROUNDING * max(1.0, _excess_over(exact, before)) < math.inf


def _excess_over(exact: Any, value: Any) -> float:
    """Return the distance of ``value`` from its float64 result, in multiples of its dtype's tolerance; else infinity."""
    if not (isinstance(exact, torch.Tensor) and isinstance(value, torch.Tensor) and exact.shape == value.shape):
        return math.inf
    if not (value.is_floating_point() or value.is_complex()):
        return math.inf
    found = difference(exact.to(value.dtype), value)
    return 0.0 if found is None else found.excess


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a floating-point tensor as float64; a complex one as its real and imaginary parts."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.detach().resolve_conj().to(torch.complex128))
    return tensor.detach().to(torch.float64)


def _example(before: torch.Tensor, after: torch.Tensor, wrong: torch.Tensor) -> str:
    """Format the first element that ``wrong`` marks: `` ([0, 3]: 1.0 became 2.0)``."""
    index = [int(place) for place in wrong.nonzero()[0]]
    where = f"{index}: " if index else ""
    return f" ({where}{_number(before[tuple(index)])} became {_number(after[tuple(index)])})"


def _number(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def _short(value: Any) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")
