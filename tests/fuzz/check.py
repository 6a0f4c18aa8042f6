"""Compiles a function on one of fxc's routes, and compares what it does with what eager does."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch

import fxc
from fxc.errors import CaptureError, InputError
from fxc.export.shared_state import refuse_later_starts
from tests.fuzz.outcome import Run, layout_difference, number_difference, run

MODES: dict[str, list[str]] = {
    "static": ["static"],
    "training": ["training", "training_host"],
    "compile": ["compile"],
    "dynamic": ["dynamic"],
    "dynamic_shapes": ["dynamic_shapes"],
    "frozen": ["frozen"],
    "saved": ["saved", "saved_trusted"],
    "passes": [],
}
"""Mode -> its routes; those of ``passes`` are random pipelines."""

REFUSED = (
    "counts from where that starts (as_strided with a storage_offset)",
    "as_strided of a tensor that is written reaches elements that are none of that tensor",
    "as_strided of a tensor that is written, and whose elements are not adjacent in memory",
    "Consider cloning the tensor before mutating it, or removing the mutation from your model.",
)
"""Ends of messages about what fxc.compile refuses (docs/explanation/status.md)."""

Function = Callable[..., Any]


class Difference(AssertionError):
    """``word``: ``wrong`` where the results are not eager's, ``error`` where there are none. ``kind``: the reason without
    numbers."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(f"{word}: {reason}")
        self.word, self.reason = word, reason
        self.kind = f"{word} " + re.sub(r"'[^']*'|\"[^\"]*\"|%\w+|-?\d[\w.-]*|\[.*?\]", "*", reason.split(":")[0])[:80]
        if word == "error":
            self.kind = f"{word} " + re.sub(r"'[^']*'|\"[^\"]*\"|%\w+|-?\d[\w.-]*|\[.*?\]", "*", reason)[:80]


class NotCounted(Exception):
    """Eager does not run it, or does not give numbers that can be compared."""


class DeviceLost(BaseException):
    """The device does nothing more in this process."""


def check(
    route: str,
    f: Function,
    inputs: Function,
    sizes: Sequence[tuple[int, int]] = ((),),
    numbers: bool = True,
    device: str = "cpu",
) -> None:
    """Raises ``Difference`` where ``f``, compiled, does not do what ``f`` does; ``NotCounted`` where eager does not run it."""
    if device == "cpu":
        return _check(route, f, inputs, sizes, numbers)
    if not (sizes := [size for size in sizes if _runs_on_cpu(f, inputs, size)]):
        raise NotCounted("not on the CPU")
    torch.set_default_device(device)
    try:
        _check(route, f, inputs, sizes, numbers)
    except Exception as error:
        if "CUDA error" in str(error):
            raise DeviceLost(str(error)) from error
        raise
    finally:
        torch.set_default_device(None)


def _runs_on_cpu(f: Function, inputs: Function, size: Any) -> bool:
    """Whether it does: a wrong index is an error there, and the end of a GPU's work for this process."""
    try:
        run(f, inputs(*size))
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return False
    return True


def _check(route: str, f: Function, inputs: Function, sizes: Sequence[tuple[int, int]], numbers: bool) -> None:
    compiled: Function | None = None
    for call, size in enumerate(sizes):
        try:
            gradients = any(value.requires_grad for value in inputs(*size))
            expected, orders = _eager(f, inputs, size, route, gradients)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            if call:
                continue
            raise NotCounted(str(error)) from None
        try:
            if compiled is None:
                compiled = compile_on(route, f, inputs(*size), free_sizes(inputs) if route == "dynamic_shapes" else None)
            actual = _run(compiled, inputs, size, orders)
        except Exception as error:
            if route == "dynamic_shapes" and isinstance(error, CaptureError):
                raise NotCounted(str(error)) from None  # torch.export finds that the sizes are not free
            if isinstance(error, CaptureError) and error.message.endswith(REFUSED):
                raise NotCounted(str(error)) from None
            if call and isinstance(error, InputError):
                continue  # nor are they all that were named
            inner = getattr(error, "inner_exception", error)  # of Dynamo's BackendCompilerFailed
            lines = str(inner).strip().splitlines() or [""]
            reason = f"{type(inner).__name__}: {lines[0]}"
            raise Difference("error", reason + _mark(route, f, inputs, size, orders, None, numbers)) from error
        difference = _difference(route, f, inputs, size, orders, expected, actual, numbers)
        if difference is not None:
            raise Difference("wrong", difference + _mark(route, f, inputs, size, orders, expected, numbers))


def free_sizes(inputs: Function) -> tuple[dict[int, Any], ...]:
    """Of each input, its dimensions of ``n`` and ``m`` as torch.export takes them."""
    names = {5: torch.export.Dim("n"), 7: torch.export.Dim("m")}  # others are at most 3
    return tuple({axis: names[size] for axis, size in enumerate(value.shape) if size in names} for value in inputs(5, 7))


def _eager(f: Function, inputs: Function, size: Any, route: str, gradients: bool) -> tuple[Run, int]:
    """The run, and of how many orders there are derivatives."""
    if not gradients:
        return run(f, inputs(*size)), 0
    # AOTAutograd, which torch.compile uses, has no second derivatives
    if route.startswith("training"):
        try:
            return run(f, inputs(*size), 2), 2
        except (RuntimeError, NotImplementedError):
            pass
    return run(f, inputs(*size), 1), 1


def _run(compiled: Function, inputs: Function, size: Any, orders: int) -> Run:
    """The run; with first derivatives only where fxc says that it refuses second ones."""
    try:
        return run(compiled, inputs(*size), orders)
    except RuntimeError as error:
        if orders < 2 or "cannot be differentiated again" not in str(error):
            raise
    return run(compiled, inputs(*size), 1)


def _difference(
    route: str, f: Function, inputs: Function, size: Any, orders: int, expected: Run, actual: Run, numbers: bool
) -> str | None:
    # fxc.compile returns outputs that are views of a mutated input as separate values; AOTAutograd returns views
    same_views = route in ("compile", "dynamic")
    # frozen weights are copies
    copied = range(1, len(expected.inputs)) if route == "frozen" else ()
    found = layout_difference(expected, actual, same_views, copied)
    if found is not None or not numbers:
        return found
    if number_difference(expected, actual, strict=True) is None:
        return None
    return number_difference(expected, actual, _reference(f, inputs, size, orders))


def _reference(f: Function, inputs: Function, size: Any, orders: int) -> Run | None:
    try:
        return run(f, inputs(*size), orders, raised=True)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return None


def _mark(route: str, f: Function, inputs: Function, size: Any, orders: int, expected: Run | None, numbers: bool) -> str:
    """Whether AOTAutograd, which torch.compile uses, is wrong by itself; without ``expected``, whether it fails."""
    if route not in ("compile", "dynamic"):
        return ""
    torch._dynamo.reset()
    try:
        compiled = torch.compile(f, backend="aot_eager", dynamic=route == "dynamic" or None)
        other = run(compiled, inputs(*size), orders)
    except Exception:
        return "" if expected is not None else " (aot_eager too)"
    if expected is None:
        return ""
    found = _difference("compile", f, inputs, size, orders, expected, other, numbers)
    return "" if found is None else " (aot_eager too)"


class Frozen(torch.nn.Module):
    """``f`` with all but the first input as weights."""

    def __init__(self, f: Function, weights: list[torch.Tensor]) -> None:
        super().__init__()
        self.f = f
        for i, weight in enumerate(weights):
            if weight.is_floating_point():
                setattr(self, f"weight{i}", torch.nn.Parameter(weight, requires_grad=False))
            else:
                self.register_buffer(f"weight{i}", weight)
        self.names = [f"weight{i}" for i in range(len(weights))]

    def forward(self, first: torch.Tensor) -> Any:
        return self.f(first, *[getattr(self, name) for name in self.names])


def compile_on(route: str, f: Function, inputs: list[torch.Tensor], free: Any = None, **options: Any) -> Function:
    """A function that takes inputs like ``inputs``, which it may write to; their sizes may be others where ``free`` says so."""
    options |= {"target": "cuda"} if inputs[0].is_cuda else {"target": "host"} if route == "training_host" else {}
    if route in ("static", "dynamic_shapes"):
        training = any(value.requires_grad for value in inputs)
        return fxc.compile(f, inputs, training=training, dynamic_shapes=free, options=options)
    if route.startswith("training"):
        return fxc.compile(f, inputs, training=True, options=options)
    if route in ("compile", "dynamic"):
        torch._dynamo.reset()
        return torch.compile(f, backend="fxc", dynamic=route == "dynamic" or None, options=options)
    if route == "frozen":
        return _frozen(f, inputs, options)
    if not route.startswith("saved"):
        captured = fxc.capture(f, inputs)
        refuse_later_starts(captured, inputs)
        with redirect_stderr(StringIO()):  # of notes about rounding
            return fxc.to_fx(fxc.run_passes(captured, route, options=fxc.Options(check_numerics=True, strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan.zip")
        fxc.compile(f, inputs, options=options).plan.save(path)
        return fxc.ExecutionPlan.load(path, trust_kernels=route == "saved_trusted")


def _frozen(f: Function, inputs: list[torch.Tensor], options: dict[str, Any]) -> Function:
    first, *weights = inputs
    model = Frozen(f, weights)
    compiled = fxc.compile(model, [first], options={**options, "freeze": True})

    def call(*args: torch.Tensor) -> Any:
        found = compiled(args[0])
        with torch.no_grad():
            for given, weight in zip(args[1:], weights):
                given.untyped_storage().copy_(weight.untyped_storage())
        return found

    return call
