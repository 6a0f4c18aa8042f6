"""Compare a pattern with its replacement in eager mode, on random inputs like the example."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch.testing import make_tensor
from torch.utils._pytree import tree_leaves

from fxc.errors import CaptureError
from fxc.patterns.trace import PythonFunction, other_number
from fxc.runtime.shared_memory import copy_with

_TRIES = 32
_SIZES = (1, 2, 3, 4, 5, 7)
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_SPECIAL = (math.nan, 0.0)
"""Elements for which equations of real numbers fail, as ``x * 0 = 0``. Not infinities: folded weights differ there."""


def try_out(
    search: PythonFunction,
    replace: PythonFunction,
    inputs: Sequence[Any],
    needs: Sequence[bool],
    *,
    same_strides: bool,
    special_values: bool,
) -> bool:
    """Call both functions on inputs with other sizes, strides and dtypes, in the ranks of ``inputs``.

    With ``special_values``, also on inputs in which one element is NaN or zero.

    CaptureError with the inputs for which they differ: beyond the error of ``search`` itself and the tolerance of
    ``torch.testing``, or in dtype, sizes, device or, with ``same_strides``, strides. Inputs that one of them rejects do not
    count, unless they are the example. Returns whether gradients of all floating-point inputs agree, too.
    """
    choose, same = random.Random(0), True
    floats = [isinstance(value, torch.Tensor) and value.is_floating_point() for value in inputs]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        specials = _with_special_values(inputs, choose) if special_values else ()
        for number, values in enumerate(itertools.chain(_variants(inputs, choose), specials)):
            problem = _problem(search, replace, values, needs, same_strides=same_strides, must_run=number == 0)
            if problem is not None:
                raise CaptureError(problem, hint=f"correct it, or pass {_option(problem)} if the difference is intended")
            same = same and _problem(search, replace, values, floats, same_strides=False, must_run=False) is None
    return same


def _problem(
    search: PythonFunction,
    replace: PythonFunction,
    values: Sequence[Any],
    needs: Sequence[bool],
    *,
    same_strides: bool,
    must_run: bool,
) -> str | None:
    """How the functions differ for ``values``; None if they do not. ``must_run``: whether an error is a difference."""
    found = _outcome(search, values, needs)
    if isinstance(found, Exception):
        return f"the pattern cannot be called with the example: {_line(found)}" if must_run else None
    other = _outcome(replace, values, needs)
    if isinstance(other, Exception):
        return f"the replacement cannot be called with the example: {_line(other)}" if must_run else None
    difference = _difference(search, values, needs, found, other, same_strides)
    if difference is None:
        return None
    return f"the replacement differs from the pattern: {difference}, for {', '.join(map(_described, values))}"


def _variants(inputs: Sequence[Any], choose: random.Random) -> Iterator[list[Any]]:
    """Values like ``inputs``: first of their types, then of others. Equal sizes stay equal, except for one that becomes 1."""
    yield [_filled(value, list(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value for value in inputs]
    sizes = sorted({size for value in inputs if isinstance(value, torch.Tensor) for size in value.shape})
    for _ in range(_TRIES):
        mapped = {size: choose.choice([size, *_SIZES]) for size in sizes}
        dtype = choose.choice([None, *_DTYPES])
        shapes = [[mapped[size] for size in value.shape] if isinstance(value, torch.Tensor) else [] for value in inputs]
        if (tensors := [shape for shape in shapes if shape]) and choose.random() < 0.25:
            shape = choose.choice(tensors)
            shape[choose.randrange(len(shape))] = 1
        yield [_variant(value, shape, dtype, choose) for value, shape in zip(inputs, shapes, strict=True)]


def _with_special_values(inputs: Sequence[Any], choose: random.Random) -> Iterator[list[Any]]:
    """Values with the types of ``inputs``, one element of which is special."""
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
            for special in _SPECIAL:
                values = next(_variants(inputs, choose))
                values[index].view(-1)[choose.randrange(value.numel())] = special
                yield values


def _option(problem: str) -> str:
    """The option of ``register_pattern`` that accepts ``problem``."""
    if " strides " in problem.split(", for ")[0]:
        return "same_strides=False"
    return "special_values=False" if " with a NaN" in problem or " with a zero" in problem else "try_out=False"


def _variant(value: Any, shape: list[int], dtype: torch.dtype | None, choose: random.Random) -> Any:
    if not isinstance(value, torch.Tensor):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return other_number(value) if is_number and choose.random() < 0.5 else value
    kind = dtype if dtype is not None and value.is_floating_point() else value.dtype
    rank, layout = len(shape), choose.choice(["contiguous", "turned", "gaps", "expanded"])
    if layout == "turned" and rank > 1:
        order = choose.sample(range(rank), rank)
        back = [order.index(i) for i in range(rank)]
        return _filled(value, [shape[i] for i in order], kind).permute(back)
    if layout == "gaps" and rank:
        return _filled(value, [*shape[:-1], 2 * shape[-1]], kind)[..., ::2]
    if layout == "expanded" and rank:
        place = choose.randrange(rank)
        return _filled(value, [*shape[:place], 1, *shape[place + 1 :]], kind).expand(shape)
    return _filled(value, shape, kind)


def _filled(like: torch.Tensor, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Random values; integers are elements of ``like``, which may be positions."""
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool or not like.numel():
        return make_tensor(shape, dtype=dtype, device=like.device, low=None, high=None)
    return like.detach().reshape(-1)[torch.randint(like.numel(), shape, device=like.device)]


def _outcome(function: PythonFunction, values: Sequence[Any], needs: Sequence[bool]) -> list[Any] | Exception:
    """The results of ``function`` on copies of ``values``, the gradients, and the copies; or its error."""
    own = [copy_with(value, {}) if isinstance(value, torch.Tensor) else value for value in values]
    for value, need in zip(own, needs, strict=False):
        if need:
            value.requires_grad_()
    try:
        with torch.set_grad_enabled(any(needs)), torch.random.fork_rng(devices=[]):  # equal samples for both functions
            results = [result for result in tree_leaves(function(*own)) if isinstance(result, torch.Tensor)]
            gradients: Sequence[Any] = ()
            differentiable = [result for result in results if result.requires_grad]
            if differentiable:
                wanted = [value for value, need in zip(own, needs, strict=False) if need]
                ones = [torch.ones_like(result) for result in differentiable]
                gradients = cast(Sequence[Any], torch.autograd.grad(differentiable, wanted, ones, allow_unused=True))
    except Exception as error:  # the functions may reject inputs by any error
        return error
    return [[result.detach() for result in results], [g for g in gradients if g is not None], own]


def _difference(
    search: PythonFunction, values: Sequence[Any], needs: Sequence[bool], found: Any, other: Any, same_strides: bool
) -> str | None:
    """How the outcomes differ; None if they are equal up to rounding."""
    (results, gradients, written), (new_results, new_gradients, new_written) = found, other
    if (len(results), len(gradients)) != (len(new_results), len(new_gradients)):
        return f"it returns {len(new_results)} tensors and {len(new_gradients)} gradients"
    exact: Any = None
    for i, (a, b) in enumerate(zip([*results, *gradients], [*new_results, *new_gradients], strict=True)):
        what = f"result {i}" if i < len(results) else f"gradient {i - len(results)}"
        if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
            return f"{what} is {_type(b)} instead of {_type(a)}"
        if same_strides and _strides(a) != _strides(b):
            return f"{what} has strides {b.stride()} instead of {a.stride()}"
        if not _close(a, b):
            exact = _exact(search, values, needs) if exact is None else exact
            if i >= len(exact) or not _is_as_good(a, b, exact[i]):
                return f"{what} differs by {_largest(a, b):.3g}"
    for value, a, b in zip(values, written, new_written, strict=True):
        if isinstance(value, torch.Tensor) and not _close(value, b.detach(), 0) and not _close(a.detach(), b.detach()):
            return f"it writes other values, which differ by {_largest(a, b):.3g}"
    return None


def _strides(tensor: torch.Tensor) -> list[int]:
    """The strides of dimensions that have more than one element."""
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1] if tensor.numel() else []


def _close(a: torch.Tensor, b: torch.Tensor, tolerance: float | None = None) -> bool:
    try:
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError:
        return False
    return True


def _exact(search: PythonFunction, values: Sequence[Any], needs: Sequence[bool]) -> list[torch.Tensor]:
    """The results and gradients of ``search`` in float64; none if it rejects it."""
    wide = [value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in values]
    found = _outcome(search, wide, needs)
    return [] if isinstance(found, Exception) else [*found[0], *found[1]]


def _is_as_good(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether the error of ``b`` is at most twice that of ``a``, for floating point numbers that round differently."""
    if not a.is_floating_point() or exact.dtype is not torch.float64 or not torch.equal(a.isfinite(), b.isfinite()):
        return False
    scale = torch.finfo(a.dtype).eps * float(exact.nan_to_num().abs().max())
    return _largest(b, exact) <= 2 * _largest(a, exact) + scale


def _largest(a: torch.Tensor, b: torch.Tensor) -> float:
    if not a.numel():
        return 0.0
    kind = torch.complex128 if a.is_complex() else torch.float64
    return float((a.detach().to(kind) - b.detach().to(kind)).abs().nan_to_num(torch.inf).max())


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    text = _type(value) + ("" if value.is_contiguous() else f" with strides {value.stride()}")
    if value.is_floating_point() and value.isnan().any():
        return f"{text} with a NaN"
    return f"{text} with a zero" if value.is_floating_point() and (value == 0).any() else text


def _type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
