"""State of a kernel in the reference interpreter: the buffers of a launch, and programs that run in lockstep.

Memory behind pointers has a record of the reader and writer of each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn, TypeAlias

import torch
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from fxc.bridge.values import torch_dtype
from fxc.dialects import tile
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.kernel import INIT, KernelOp
from fxc.dialects.tile.types import PtrType, element_of
from fxc.errors import FxcError, KernelError, NoRuleError
from fxc.interpret.tile_ops import BINARY, CASTS
from fxc.runtime.shared_memory import memory_range, share_bytes

Tensor = torch.Tensor


class Launch:
    """One run of a kernel: its buffers and scalars."""

    def __init__(self, kernel: KernelOp, arguments: Sequence[Tensor | float], wide: bool) -> None:
        self.kernel, self.wide = kernel, wide
        self.buffers = dict[SSAValue, Buffer]()
        self.scalars = dict[SSAValue, Tensor]()
        self.copies = list[tuple[Tensor, Tensor]]()
        self.given = list[tuple[Any, BlockArgument]]()
        parameters = kernel.body.block.args
        if len(arguments) != len(parameters):
            raise kernel_error(f"the kernel takes {len(parameters)} arguments, but got {len(arguments)}", kernel)
        for parameter, value in zip(parameters, arguments, strict=True):
            if not isinstance(parameter.type, PtrType):
                self.scalars[parameter] = torch.tensor([value], dtype=self.dtype(parameter.type))
        self.grid = kernel.programs_for([int(self.scalars[argument].item()) for argument in kernel.indices()])
        for parameter, value in zip(parameters, arguments, strict=True):
            if isinstance(parameter.type, PtrType):
                self.buffers[parameter] = self.shared(parameter, value) or self.buffer(parameter, parameter.type, value)
                self.given.append((value, parameter))
        self.check_no_overlap()

    def dtype(self, element: Attribute) -> torch.dtype:
        found = torch.int64 if isinstance(element, IndexType) else torch_dtype(element)
        return torch.float64 if self.wide and found.is_floating_point else found

    def shared(self, parameter: BlockArgument, tensor: Any) -> Buffer | None:
        """Return the buffer of an earlier pointer to the same memory, if this one is written: one record covers both."""
        if self.kernel.access(parameter) == "read":
            return None
        same = [self.buffers[other] for value, other in self.given if _are_the_same(value, tensor)]
        for buffer in same:
            buffer.make_writable()
        return same[0] if same else None

    def check_no_overlap(self) -> None:
        """Raise KernelError if a written tensor shares memory with another argument, unless both are identical."""
        given = [(value, parameter) for value, parameter in self.given if value.numel()]
        for out, written in given:
            if self.kernel.access(written) == "read":
                continue
            for value, parameter in given:
                if not _are_the_same(value, out) and share_bytes(value, out):
                    what = f"%{argument_name(written)} is written, and shares memory with %{argument_name(parameter)}"
                    raise kernel_error(what, self.kernel)

    def buffer(self, parameter: BlockArgument, type: PtrType, value: Any) -> Buffer:
        kernel = self.kernel
        if not isinstance(value, Tensor) or value.dtype != self.dtype(type.pointee):
            given = value.dtype if isinstance(value, Tensor) else value
            raise kernel_error(f"%{argument_name(parameter)} points to {type.pointee}, but got {given}", kernel)
        extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        extent = extent if value.numel() else 0
        limit = kernel.elements(parameter)
        if limit is not None and limit > extent:
            raise kernel_error(f"%{argument_name(parameter)} points to {limit} elements, but the tensor has {extent}", kernel)
        flat = value.detach().as_strided((extent if limit is None else limit,), (1,))
        data = flat.cpu()
        if data.device != flat.device:
            self.copies.append((flat, data))
        access = kernel.access(parameter)
        initialized = access != "write" or INIT in kernel.argument_attributes(parameter)
        data = data.view(torch.int8) if data.dtype == torch.uint8 else data
        return Buffer(argument_name(parameter), data, access=access, initialized=initialized, parallel=prod(self.grid) > 1)


class Programs:
    """Some programs of a launch, in lockstep. ``active``: which of them are active; None for all.

    ``rules``: implementations of operation classes that are in neither ``BINARY`` nor ``CASTS``.
    """

    def __init__(self, launch: Launch, programs: Tensor, rules: Mapping[type[Operation], Rule]) -> None:
        self.launch, self.programs, self.rules = launch, programs, rules
        self.active: Tensor | None = None
        self.env = dict[SSAValue, Tensor](launch.scalars)

    def run(self) -> None:
        self.block(self.launch.kernel.body.block)

    def block(self, block: Block) -> list[Tensor]:
        """Run ``block`` and return the values that its terminator yields."""
        for op in block.ops:
            if isinstance(op, (tile.ReturnOp, tile.NextOp, scf.YieldOp)):
                return self.values(op)
            try:
                results = self.op(op)
            except FxcError:
                raise
            except Exception as error:
                raise kernel_error(f"{type(error).__name__}: {error}", op) from error
            self.env.update(zip(op.results, results, strict=True))
        return []

    def values(self, op: Operation) -> list[Tensor]:
        return [self.env[value] for value in op.operands]

    def op(self, op: Operation) -> Sequence[Tensor]:
        rule = self.rules.get(type(op))
        if rule is not None:
            return rule(self, op)
        if isinstance(op, tile.LastProgramOp):
            return []  # run by the launch
        if op.name in BINARY:
            return [BINARY[op.name](*self.values(op))]
        if op.name.removeprefix("arith.") in CASTS:
            dtype = self.launch.dtype(element_of(op.results[0].type))
            return [CASTS[op.name.removeprefix("arith.")](self.env[op.operands[0]], dtype)]
        raise NoRuleError(f"the reference interpreter does not run {op.name} in a kernel", op=op_text(op), place=place_of(op))

    def expanded(self, value: Tensor) -> Tensor:
        """Expand ``value`` to a row for each program."""
        return value.expand(len(self.programs), *value.shape[1:])


Rule: TypeAlias = Callable[[Programs, Any], Sequence[Tensor]]
"""Compute the results of an operation for all programs."""


def argument_name(argument: BlockArgument) -> str:
    return argument._name or str(argument.index)


def _are_the_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are identical, or views of the same byte range."""
    return a is b or (a.numel() > 0 and a.device == b.device and memory_range(a) == memory_range(b))


_NOBODY, _SEVERAL = -1, -2


def kernel_error(message: str, op: Operation) -> KernelError:
    """Return an error at ``op``, including the kernel that contains it."""
    place, around = place_of(op), op
    while around is not None and not isinstance(around, KernelOp):
        around = around.parent_op()
    if around is not None and place != (kernel := f"in @{around.sym_name.data}"):
        place = f"{place}, {kernel}"
    return KernelError(message, op=op_text(op), place=place)


def _anything(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Return arbitrary values: NaN, true, or an integer that is no valid index."""
    if dtype.is_floating_point:
        return torch.full(shape, torch.nan, dtype=dtype)
    return torch.full(shape, True if dtype is torch.bool else torch.iinfo(dtype).min, dtype=dtype)


class Buffer:
    """The elements behind one pointer.

    ``data`` is flat and holds the values; ``written`` says which elements are initialized. ``parallel``: there are several
    programs. Every access is checked; KernelError names the element and the operation.
    """

    def __init__(self, name: str, data: torch.Tensor, *, access: str, initialized: bool, parallel: bool) -> None:
        self.name, self.data, self.access, self._is_parallel = name, data, access, parallel
        size = data.numel()
        self.written = torch.full((size,), initialized)
        self.writer = torch.full((size if access != "read" else 0,), _NOBODY)
        self.reader = torch.full((size if access != "read" else 0,), _NOBODY)

    def make_writable(self) -> None:
        """Allow reads and writes from now on."""
        self.access = "readwrite"
        self.writer = torch.full((self.data.numel(),), _NOBODY)
        self.reader = torch.full((self.data.numel(),), _NOBODY)

    def settle(self) -> None:
        """Switch to a single program after all others have finished: no access conflicts any more."""
        self._is_parallel = False
        self.writer.fill_(_NOBODY)
        self.reader.fill_(_NOBODY)

    def read(self, offsets: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, op: Operation) -> torch.Tensor:
        """Read the elements at ``offsets``; arbitrary where not ``mask``. All have one shape, programs along the first axis."""
        chosen, who = self._chosen(offsets, mask, programs, "read", op)
        self._check(~self.written[chosen], chosen, "element {} is read, but nothing wrote it", op)
        if self.access != "read":
            writer = self.writer[chosen]
            racy = ((writer != who) & (writer != _NOBODY)) if self._is_parallel else torch.zeros_like(who, dtype=torch.bool)
            self._check(racy, chosen, "one program reads element {}, another writes it", op)
            self._record(self.reader, chosen, who)
        result = _anything(offsets.shape, self.data.dtype)
        result[mask] = self.data[chosen]
        return result

    def write(
        self, offsets: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, op: Operation
    ) -> None:
        """Write the elements at ``offsets`` where ``mask`` is true."""
        chosen, who = self._chosen(offsets, mask, programs, "written", op)
        place = torch.arange(chosen.numel())
        last = torch.empty(self.data.numel(), dtype=torch.int64)
        last[chosen] = place
        twice = last[chosen] != place
        self._check(twice & (who == who[last[chosen]]), chosen, "two lanes of a program write element {}", op)
        self._check(twice, chosen, "two programs write element {}", op)
        self._claim(chosen, who, op)
        self.writer[chosen] = who
        self.written[chosen] = True
        self.data[chosen] = values[mask]

    def combine(
        self,
        kind: str,
        offsets: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor,
        programs: torch.Tensor,
        op: Operation,
    ) -> None:
        """Atomically combine the elements at ``offsets`` with values where ``mask`` is true; ``kind`` is "add", "max" or "min".

        Several lanes and programs may update the same element.
        """
        chosen, who = self._chosen(offsets, mask, programs, "added to", op)
        self._check(~self.written[chosen], chosen, "element {} is added to, but nothing wrote it", op)
        self._claim(chosen, who, op, atomic=True)
        self.writer[chosen] = torch.where(self.writer[chosen] == who, who, _SEVERAL)
        combine(self.data, chosen, values[mask], kind)

    def _chosen(
        self, offsets: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, verb: str, op: Operation
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, who = offsets[mask], programs[mask]
        outside = (chosen < 0) | (chosen >= self.data.numel())
        self._check(outside, chosen, f"element {{}} is {verb}, but there are {self.data.numel()}", op)
        return chosen, who

    def _claim(self, chosen: torch.Tensor, who: torch.Tensor, op: Operation, *, atomic: bool = False) -> None:
        """Reject elements that another program writes or reads."""
        if not self._is_parallel:
            return
        writer, reader = self.writer[chosen], self.reader[chosen]
        other = (writer != who) & (writer != _NOBODY) & ~(torch.tensor(atomic) & (writer == _SEVERAL))
        self._check(other, chosen, "two programs write element {}", op)
        self._check((reader != who) & (reader != _NOBODY), chosen, "one program reads element {}, another writes it", op)

    def _record(self, table: torch.Tensor, chosen: torch.Tensor, who: torch.Tensor) -> None:
        before = table[chosen]
        table[chosen] = torch.where((before == _NOBODY) | (before == who), who, _SEVERAL)
        table[chosen[table[chosen] != who]] = _SEVERAL

    def _check(self, wrong: torch.Tensor, chosen: torch.Tensor, message: str, op: Operation) -> None:
        if wrong.any():
            self._fail(message.format(int(chosen[wrong][0])), op)

    def _fail(self, message: str, op: Operation) -> NoReturn:
        raise kernel_error(f"%{self.name}: {message}", op)


# combination of tensor elements with updates, several of which may have the same position


def combine(flat: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, kind: str) -> None:
    """Combine the elements of ``flat`` at ``places``, int64, with ``updates``, in place; ``kind`` is "add", "max" or "min"."""
    if kind == "add":
        flat.index_put_((places,), updates, accumulate=True)
    else:
        flat.scatter_reduce_(0, places, updates, f"a{kind}")
