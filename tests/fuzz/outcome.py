"""What a run gives, and how two runs differ: values, dtypes, shapes, strides, shared memory, writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.testing._comparison import default_tolerances

RAISED = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass
class Run:
    """``storages``: of each input, all of its memory afterwards; ``gradients``: of first and of second order."""

    results: list[torch.Tensor]
    inputs: list[torch.Tensor]
    storages: list[torch.Tensor] = field(default_factory=list)
    gradients: list[list[torch.Tensor | None]] = field(default_factory=list)


class InFloat64(TorchFunctionMode):
    """Where a call names a floating type, it gets float64 (complex128)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(RAISED.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in args)
        kwargs = {name: RAISED.get(arg, arg) if isinstance(arg, torch.dtype) else arg for name, arg in (kwargs or {}).items()}
        return func(*args, **kwargs)

    def __enter__(self) -> Any:
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self.before)


def memory(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory that ``tensor`` lies in, as one dimension."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return whole.set_(tensor.detach().untyped_storage())


def run(f: Callable[..., Any], inputs: list[torch.Tensor], orders: int = 0, raised: bool = False) -> Run:
    """``orders``: of derivatives. ``raised``: all floating numbers are float64."""
    with ExitStack() as stack:
        if raised:
            inputs = [_raise(value) for value in inputs]
            stack.enter_context(InFloat64())
        if not orders:
            stack.enter_context(torch.no_grad())
        sources = [_source(value) for value in inputs if value.requires_grad]
        results = list(f(*inputs))
        found = Run(results, inputs)
        if orders:
            # PyTorch's fill of integers with a number that has a gradient makes them require one, which none can have
            read_later = [value for value in inputs if not value.is_leaf and (value.is_floating_point() or value.is_complex())]
            found.gradients = derivatives([*results, *read_later], sources, orders)
    found.storages = [memory(value) for value in inputs]
    return found


def _raise(value: torch.Tensor) -> torch.Tensor:
    """The same with its place in memory, gaps included."""
    whole = memory(value).to(RAISED.get(value.dtype, value.dtype))
    raised = whole.as_strided(value.shape, value.stride(), value.storage_offset()).requires_grad_(value.requires_grad)
    return raised if value.is_leaf else raised.clone()


def _source(value: torch.Tensor) -> torch.Tensor | GradientEdge:
    """Where gradients of the numbers go that ``value`` has now: it may be written later."""
    return value if value.is_leaf else get_gradient_edge(value)


def derivatives(
    results: list[torch.Tensor], leaves: Sequence[torch.Tensor | GradientEdge], orders: int
) -> list[list[torch.Tensor | None]]:
    """Of a weighted sum of the results with respect to ``leaves``; then of one of those gradients, where there are any."""
    found: list[list[torch.Tensor | None]] = []
    values: Sequence[torch.Tensor | None] = results
    for order in range(orders):
        roots = [value for value in values if value is not None and value.requires_grad]
        if not roots or not leaves:
            found.append([None] * len(leaves))
            continue
        weighted = [(root * weights(root)).sum().real.double() for root in roots]
        last = order + 1 == orders
        values = torch.autograd.grad(sum(weighted), leaves, create_graph=not last, allow_unused=True)  # type: ignore[arg-type]
        found.append(list(values))
    return found


def weights(value: torch.Tensor) -> torch.Tensor:
    """The same numbers in each dtype."""
    eighths = torch.linspace(-8, 16, value.numel(), dtype=torch.float64).round()
    return (eighths / 8).to(value.dtype).reshape(value.shape)


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the stretches of memory from first to last element meet."""
    if not a.numel() or not b.numel() or a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    (a0, a1), (b0, b1) = _extent(a), _extent(b)
    return a0 < b1 and b0 < a1


def _extent(value: torch.Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


def is_dense(value: torch.Tensor) -> bool:
    """Whether the elements of ``value`` lie side by side in memory, in some order of dimensions."""
    return value.numel() < 2 or _extent(value)[1] - _extent(value)[0] == value.numel() * value.element_size()


def strides(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride for size, stride in zip(value.shape, value.stride()) if size > 1) if value.numel() else ()


def layout_difference(expected: Run, actual: Run, same_views: bool, copied: Sequence[int] = ()) -> str | None:
    """What is different beside numbers. Without ``same_views``, results that are views of an input that was written may be
    copies; results may be apart from inputs in ``copied`` in any case."""
    if len(actual.results) != len(expected.results):
        return f"{len(actual.results)} results for {len(expected.results)}"
    written = [] if same_views else [value for value in expected.inputs if value._version]
    apart = [any(overlap(e, value) for value in written) for e in expected.results]
    # the new value of such an input is dense in a program, and so is what takes its strides from it
    follows = any(value._version and not is_dense(value) for value in expected.inputs)
    for i, (a, e) in enumerate(zip(actual.results, expected.results)):
        if a.device != e.device:
            return f"device of result {i}: {a.device} for {e.device}"
        if a.dtype != e.dtype:
            return f"dtype of result {i}: {a.dtype} for {e.dtype}"
        if a.shape != e.shape:
            return f"shape of result {i}: {list(a.shape)} for {list(e.shape)}"
        if strides(a) != strides(e) and not apart[i] and not follows:
            return f"strides of result {i}: {list(a.stride())} for {list(e.stride())}"
    for i, (a, e) in enumerate(zip(actual.results, expected.results)):
        if a.is_conj() != e.is_conj() or a.is_neg() != e.is_neg():
            return f"result {i} is conjugated or negated when it is read"
        for kind, others, their in (("input", actual.inputs, expected.inputs), ("result", actual.results, expected.results)):
            for j, (other, its) in enumerate(zip(others, their)):
                if kind == "result" and (j >= i or (apart[i] and apart[j])):
                    continue
                if kind == "input" and (apart[i] or j in copied):
                    continue
                if overlap(a, other) != overlap(e, its):
                    shares = "shares" if overlap(a, other) else "does not share"
                    return f"memory of result {i}: {shares} that of {kind} {j}"
    return None


def number_difference(expected: Run, actual: Run, reference: Run | None = None, strict: bool = False) -> str | None:
    """The first tensor with other numbers than eager's; results, then memory of inputs, then gradients."""
    kinds = [("result", expected.results, actual.results, reference.results if reference else None)]
    kinds.append(("input", expected.storages, actual.storages, _same_storages(expected, reference)))
    for order, (e, a) in enumerate(zip(expected.gradients, actual.gradients)):
        above = reference.gradients[order] if reference and order < len(reference.gradients) else None
        kinds.append((f"gradient{order + 1}", e, a, above))  # type: ignore[arg-type]
    given = [value.dtype for value in [*expected.inputs, *expected.results] if value.is_floating_point() or value.is_complex()]
    for kind, wanted, found, exact in kinds:
        for i, (e, a) in enumerate(zip(wanted, found)):
            ref = exact[i] if exact is not None and i < len(exact) else None
            difference = differs(e, a, ref, given, strict, sums=kind.startswith("gradient"))
            if difference:
                return f"{kind} {i}: {difference}"
    return None


def _same_storages(expected: Run, reference: Run | None) -> list[torch.Tensor] | None:
    if reference is None or [s.shape for s in reference.storages] != [s.shape for s in expected.storages]:
        return None
    return reference.storages


def differs(
    expected: torch.Tensor | None,
    actual: torch.Tensor | None,
    reference: torch.Tensor | None,
    given: Sequence[torch.dtype] = (),
    strict: bool = False,
    sums: bool = False,
) -> str | None:
    """How ``actual`` is further from ``reference`` than eager's ``expected`` is, beyond a small multiple; without a reference,
    than torch.testing allows for its dtype and those that it was computed from, ``given``; ``strict``: than rounding allows.

    ``sums``: of numbers of order one, which may cancel; what is left is then rounding, of which eager's may happen to be none.
    The reference is rounded too: the mean of numbers of order one whose sum is 0 may be 1e-16 in float64, where eager happens
    to round as it does and ``actual`` is exact."""
    if expected is None or actual is None:
        one = expected if actual is None else actual
        if one is None:
            return None
        zeros = torch.zeros_like(one)  # for which None stands
        expected, actual = expected if expected is not None else zeros, actual if actual is not None else zeros
    expected, actual = expected.detach().resolve_conj(), actual.detach().resolve_conj()
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{list(actual.shape)} for {expected.dtype}{list(expected.shape)}"
    if not (expected.is_floating_point() or expected.is_complex()):
        return None if torch.equal(actual, expected) else _described(actual, expected)
    eps = torch.finfo(expected.dtype).eps
    wide = torch.complex128 if expected.is_complex() else torch.float64
    e, a = expected.to(wide), actual.to(wide)
    if torch.allclose(a, e, rtol=4 * eps, atol=1e-30, equal_nan=True):
        return None
    if strict:
        return "other numbers"
    if expected.dtype == wide:  # but what it was computed from may be rounded
        eps = max(torch.finfo(dtype).eps for dtype in (wide, *given))
    if reference is None or reference.shape != expected.shape or eps == torch.finfo(wide).eps:
        rtol, atol = default_tolerances(actual.dtype, *given)
        try:
            torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError:
            return _described(actual, expected)
        return None
    r = reference.detach().to(wide)
    finite = r.isfinite() & e.isfinite()
    if not torch.equal(a[~finite].isfinite(), e[~finite].isfinite()):
        return _described(actual, expected)
    errors = (e - r)[finite].abs()
    rounding = eps if sums else torch.finfo(wide).eps
    allowed = 8 * (errors.max() if errors.numel() else 0) + 16 * eps * r[finite].abs() + rounding
    if bool(((a - r)[finite].abs() <= allowed).all()):
        return None
    return _described(actual, expected)


def _described(actual: torch.Tensor, expected: torch.Tensor) -> str:
    wrong = ~torch.isclose(actual, expected, equal_nan=True)
    if not wrong.any():
        return "further from float64 than eager"
    place = wrong.nonzero()[0].tolist()
    values = f"{actual[tuple(place)].item()} for {expected[tuple(place)].item()}"
    return f"{values} at {place}, {int(wrong.sum())} of {wrong.numel()} elements"
