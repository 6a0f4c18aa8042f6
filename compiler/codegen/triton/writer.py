"""Lines of a kernel's source, and how its values are written in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.codegen.triton.helpers import HELPERS
from fxc.codegen.triton.index_range import IndexRanges
from fxc.codegen.triton.names import value_names
from fxc.codegen.triton.spelling import block_shape, constant_value, dtype, element_type, full, literal
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import KernelOp, SplatOp
from fxc.errors import KernelError


class Writer:
    """Collects the body of one kernel. A number that is known has no line of its own: it stands where it is used."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.ranges = IndexRanges(kernel)
        self.names = value_names(kernel, frozenset(HELPERS))
        self.lines = list[str]()
        self.helpers = dict[str, None]()
        self.unseen = set[SSAValue]()
        """Pointers that were stored to: other threads of the program need a barrier before they load from them."""
        self._own_names = list[str]()
        self._depth, self._constants = 1, dict[int, int | float | None]()
        """``_constants``: values by identity, as hashing one is a Python call."""

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """A block of Python, never empty."""
        self._depth += 1
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")
        self._depth -= 1

    def assign(self, value: SSAValue, expression: str) -> None:
        self.line(f"{self.names[value]} = {expression}")

    def new_name(self, base: str) -> str:
        """``base``, or what it becomes where a value has that name."""
        taken, name = {*self.names.values(), *self._own_names}, base
        while name in taken:
            name += "_"
        self._own_names.append(name)
        return name

    def helper(self, name: str) -> str:
        """``name``, which the file will define."""
        self.helpers[name] = None
        return name

    def constant(self, value: SSAValue) -> int | float | None:
        """The number in all lanes of ``value``, where that is known."""
        if (key := id(value)) not in self._constants:
            self._constants[key] = self._constant(value)
        return self._constants[key]

    def _constant(self, value: SSAValue) -> int | float | None:
        if isinstance(value.type, IndexType):
            low, high = self.ranges.of(value)
            return low if low == high else None
        op = value.owner
        if isinstance(op, arith.ConstantOp):
            return constant_value(op.value)
        return self.constant(op.value) if isinstance(op, SplatOp) else None

    def text(self, value: SSAValue) -> str:
        """``value`` as an operand: a name, or a number that takes shape and type from the other operands."""
        number = self.constant(value)
        text = self.names[value] if number is None else literal(number, element_type(value.type))
        return self.typed(value) if text is None else text

    def typed(self, value: SSAValue) -> str:
        """``value`` with a shape and type of its own."""
        number = self.constant(value)
        if number is None:
            return self.names[value]
        return full(block_shape(value.type), number, element_type(value.type), self.ranges.bits)

    def dtype(self, type: Attribute) -> str:
        """``tl.float32`` for a block of ``f32``."""
        return dtype(element_type(type), self.ranges.bits)


def refusal(op: Operation, message: str, hint: str | None = None) -> KernelError:
    """The error that says why ``op`` cannot be printed."""
    return KernelError(message, op=op_text(op), place=place_of(op), hint=hint)
