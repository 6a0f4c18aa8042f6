"""Grows a program step by step: each step is run as it is drawn, and dropped where PyTorch does not take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from hypothesis import reject
from hypothesis import strategies as st

from tests.fuzz.outcome import overlap
from tests.fuzz.programs import Input, Program, Step

T = TypeVar("T")

MOST_ELEMENTS, LARGEST = 4000, 1e3
"""Of a value. Larger ones take time, and lose digits when they meet small ones."""


_CHECKPOINT = "torch.utils.checkpoint.checkpoint(lambda: {}, use_reentrant=False)"
FORMS = (
    *["{}{}"] * 7, "with torch.no_grad(): {}{}", "{}" + _CHECKPOINT, "{}" + _CHECKPOINT.format(_CHECKPOINT),
)  # fmt: skip
"""Statements; the gaps are for the name of the value with the equals sign, and for its expression."""


class Skip(Exception):
    """No value of the program fits the step."""


@dataclass
class Value:
    """``exact``: the same bits as eager's in any right compiler, so what jumps (``floor``, ``<``, ``argmax``) may follow."""

    name: str
    tensor: torch.Tensor
    exact: bool

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return self.tensor.ndim

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def floats(self) -> bool:
        return self.tensor.is_floating_point()


class Builder:
    """``generic``: arguments of operators that depend on sizes are written in terms of ``x.shape``."""

    def __init__(self, draw: st.DrawFn, route: str, generic: bool) -> None:
        self.draw, self.route, self.generic = draw, route, generic
        self.values: list[Value] = []
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.sizes: tuple[tuple[int, int], ...] = ()
        self.numbers = True
        self.scope: dict[str, Any] = {"torch": torch, "F": F}
        self.taken: list[Value] = []
        self.used: set[str] = set()
        self.recomputed: set[int] = set()
        """Memory that a checkpoint has read or made: its backward computes something else if that was written."""

    # choices

    def of(self, choices: Sequence[T]) -> T:
        if not choices:
            raise Skip
        return choices[0] if len(choices) == 1 else self.draw(st.sampled_from(choices))

    def int(self, least: int, most: int) -> int:
        if most < least:
            raise Skip
        return self.draw(st.integers(least, most))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def pick(
        self,
        *,
        floats: bool | None = None,
        integers: bool = False,
        exact: bool = False,
        ndim: int | None = None,
        least: int = 0,
        dtype: torch.dtype | None = None,
        some: bool = False,
        complex: bool = False,
        bools: bool = True,
    ) -> Value:
        """A value of the program, more often a late one. ``floats``: of a floating type, or not; ``integers``: an integer or
        bool; ``some``: with elements; ``least``: dimensions; ``complex``: complex ones fit too."""
        fit = [
            value
            for value in self.values
            if (floats is None or value.floats == floats)
            and (not integers or not (value.floats or value.dtype.is_complex))
            and (not exact or value.exact)
            and (ndim is None or value.ndim == ndim)
            and value.ndim >= least
            and (dtype is None or value.dtype == dtype)
            and (not some or value.tensor.numel() > 0)
            and (complex or not value.dtype.is_complex)
            and (bools or value.dtype != torch.bool)
        ]
        if not fit:
            raise Skip
        value = fit[-1 - self.draw(st.integers(0, len(fit) - 1))]
        self.taken.append(value)
        return value

    def dim(self, value: Value) -> int:
        if not value.ndim:
            raise Skip
        dim = self.draw(st.integers(0, value.ndim - 1))
        return dim - value.ndim if self.draw(st.integers(0, 3)) == 3 else dim

    def dims(self, value: Value) -> list[int]:
        """Some dimensions, in any order."""
        if not value.ndim:
            raise Skip
        return self.draw(st.lists(st.integers(0, value.ndim - 1), min_size=1, max_size=value.ndim, unique=True))

    def permutation(self, value: Value) -> list[int]:
        return self.draw(st.permutations(range(value.ndim)))

    def size(self, value: Value, dim: int) -> str:
        return f"{value}.shape[{dim}]" if self.generic else str(value.shape[dim])

    @property
    def input_names(self) -> set[str]:
        return {item.name for item in self.inputs}

    # steps

    def add_input(self, item: Input) -> None:
        sizes = dict(zip("nm", self.sizes[0])) if self.sizes else {}
        tensor = eval(item.code, self.scope, sizes)
        self.inputs.append(item)
        self.scope[item.name] = tensor
        self.values.append(Value(item.name, tensor, exact=True))

    def emit(self, operator: str, code: str, *, moves: bool = False, exact: bool | None = None) -> None:
        """A step that makes a value. ``moves``: each element of the result is one of an operand, or a constant."""
        name = f"v{len(self.steps)}"
        form = self._form() if self.numbers and operator != "pad" else FORMS[0]
        statement = form.format(f"{name} = ", code)
        try:
            exec(statement, self.scope)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            raise Skip from None
        result = self.scope.pop(name)
        if not isinstance(result, torch.Tensor) or not is_fit(result):
            raise Skip
        if exact is None:
            exact = all(value.exact for value in self.taken) and (moves or not is_inexact(result.dtype))
        self._used()
        self.steps.append(Step(operator, statement))
        self.scope[name] = result
        self.values.append(Value(name, result, exact))
        if "checkpoint" in form:
            self.recomputed.update(value.tensor.untyped_storage().data_ptr() for value in (*self.taken, self.values[-1]))

    def _form(self) -> str:
        """How a value is made where gradients are enabled: more often as it is, else without, or by checkpoints.

        PyTorch's checkpoints refuse random numbers in a graph, and its fake of a pad has a gradient under ``no_grad``.
        """
        return self.of(FORMS) if torch.is_grad_enabled() else FORMS[0]

    def write(self, operator: str, code: str, target: Value, *, moves: bool = False, view: str = "", reads: str = "") -> None:
        """A step that writes to ``target``, or to ``view`` of it, while it reads ``reads``."""
        memory = target.tensor.untyped_storage().data_ptr()
        sharing = [value for value in self.values if value.tensor.untyped_storage().data_ptr() == memory]
        # PyTorch refuses most writes to elements that lie on each other; what it forgets to refuse, fxc may
        if any(overlaps_itself(value.tensor) for value in sharing if value is target or value.name in self.input_names):
            raise Skip
        if memory in self.recomputed:
            raise Skip
        self._refuse_both(view or str(target), reads)
        version = target.tensor._version
        try:
            exec(code, self.scope)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            if target.tensor._version != version:
                reject()
            raise Skip from None
        if not is_fit(target.tensor):
            reject()
        self._used(target)
        if not (all(value.exact for value in self.taken) and (moves or not is_inexact(target.dtype))):
            for value in sharing:
                value.exact = False
        self.steps.append(Step(operator, code))

    def _refuse_both(self, written: str, read: str) -> None:
        """Where an element is read after it was written at another place, eager gives what its order of loops gives."""
        try:
            a, b = eval(written, self.scope), eval(read or "None", self.scope)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            raise Skip from None
        if isinstance(b, torch.Tensor) and overlap(a, b):
            where = [(value.data_ptr(), value.shape, value.stride()) for value in (a, b)]
            if where[0] != where[1]:
                raise Skip

    def _used(self, written: Value | None = None) -> None:
        self.used |= {value.name for value in self.taken if value is not written}

    def finished(self) -> Program:
        made = self.values[len(self.inputs) :]
        results = [value.name for value in made if value.name not in self.used]
        more = self.draw(st.sampled_from([0, 0, 0, 1, 2]))  # which may share memory with others
        for _ in range(more if results else max(more, 1)):
            results.append(self.of(list(reversed(self.values))).name)
        return Program(
            self.route, tuple(self.inputs), tuple(self.steps), tuple(dict.fromkeys(results)), self.sizes, self.numbers
        )


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements are at one place in memory."""
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride()):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < places.numel()


def is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def is_fit(tensor: torch.Tensor) -> bool:
    """Whether it is small, and its values are finite and of moderate size."""
    if tensor.numel() > MOST_ELEMENTS or tensor.ndim > 6 or tensor.is_sparse:
        return False
    if not tensor.numel() or tensor.dtype == torch.bool:
        return True
    largest = tensor.detach().abs().max() if is_inexact(tensor.dtype) else tensor.double().abs().max()
    return bool(largest <= (LARGEST if is_inexact(tensor.dtype) else 1e6))
