"""Bugs planted at random in what passes leave, and how many of them the numerics check names.

    python -m tests.planted_bugs [COUNT]

A bug is one thing that is wrong in the module after a pass: an index of a ``linalg.generic``, an address, mask, stride, loop or
the grid of a kernel (``tests/kernel_mutations.py``), a buffer of the memory plan that lies on another one, or that is released
too early. The verifier is off after the pass, so that the numbers alone can show it. Some change nothing: softmax is the same
whatever is subtracted from its exponents. Of those that the check does not name, the machine code must compute what eager does.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.passes import ModulePass

import fxc
from fxc.api import pipeline_for
from fxc.compilation.passes import Passes
from fxc.dialects.entry import public_functions
from fxc.dialects.plan import AllocOp, FreeOp
from fxc.dialects.text.syntax import clone_module
from fxc.driver.pipeline import Anchored, Step
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.errors import NumericsError
from fxc.numerics.check_numerics import CheckNumerics
from fxc.numerics.reference_run import ReferenceRun
from fxc.pipelines import INFERENCE, parse_pipeline
from fxc.program.program import Program
from tests.kernel_mutations import MAY_DO_NOTHING, MUTATIONS, recorded_ops

Change = Callable[[Operation], None]
"""Plants a bug in an op."""


def moved_and_mirrored(x: Tensor) -> Tensor:
    return x.roll(1, 0).permute([0, 2, 1]).flip([0, 1, 2]) * 2


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x.t(), y[:, 1:]], 0).exp() + y[:1, :-1]


def softmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x * y, -1) - x.mean(0)


def layers(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(3):
        x = torch.layer_norm(torch.relu(x @ w + 1) + x, (20,))
    return x


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) / 4 + bias).masked_fill(bias > 1, -torch.inf).softmax(-1) @ v


def picked(x: Tensor, i: Tensor) -> Tensor:
    return x.gather(1, i).cumsum(1) + x[:, :3].amax(0)


def made(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


PROGRAMS: tuple[tuple[Callable[..., Any], tuple[Tensor, ...]], ...] = (
    (moved_and_mirrored, (made(5, 3, 4),)),
    (joined, (made(6, 4), made(3, 7))),
    (softmax, (made(9, 33), made(9, 33))),
    (layers, (made(7, 20), made(20, 20))),
    (attention, (made(2, 6, 8), made(2, 6, 8), made(2, 6, 8), made(6, 6))),
    (picked, (made(4, 9), torch.randint(0, 9, (4, 3), generator=torch.Generator().manual_seed(0)))),
)


# index rules


def _with_map(op: Operation, place: int, results: Sequence[Any]) -> None:
    assert isinstance(op, GenericOp)
    maps = list(op.indexing_maps)
    old = maps[place].data
    maps[place] = AffineMapAttr(AffineMap(old.num_dims, old.num_symbols, tuple(results)))
    op.properties["indexing_maps"] = ArrayAttr(maps)


def _index_changes(op: Operation) -> Iterator[tuple[str, Change]]:
    if not isinstance(op, GenericOp):
        return
    for place in range(len(op.inputs)):
        old = list(op.indexing_maps.data[place].data.results)
        for at, expression in enumerate(old):
            moved = [*old[:at], expression + 1, *old[at + 1 :]]
            yield "place + 1", lambda op, place=place, moved=moved: _with_map(op, place, moved)
            size = op.inputs[place].type.get_shape()[at]  # type: ignore[attr-defined]
            if size > 1:
                mirrored = [*old[:at], AffineConstantExpr(size - 1) - expression, *old[at + 1 :]]
                yield "place mirrored", lambda op, place=place, mirrored=mirrored: _with_map(op, place, mirrored)
            if at and old[at] != old[at - 1]:
                swapped = [*old[: at - 1], old[at], old[at - 1], *old[at + 1 :]]
                yield "places swapped", lambda op, place=place, swapped=swapped: _with_map(op, place, swapped)


# kernels


def _kernel_changes(op: Operation) -> Iterator[tuple[str, Change]]:
    for what, (applies, change) in MUTATIONS.items():
        if what not in MAY_DO_NOTHING and applies(op):
            yield what, change


# memory


def _memory_changes(op: Operation) -> Iterator[tuple[str, Change]]:
    if isinstance(op, AllocOp) and op.arena is not None:
        for other in _in_use_at(op):
            yield "on another buffer", lambda op, other=other: _put_at(op, other.start())
    if isinstance(op, FreeOp):
        for place, value in enumerate(op.operands):
            users = [each for each in _before(op) if value in each.operands]
            if len(users) > 1:
                yield "released too early", lambda op, place=place: _release_early(op, place)


def _before(op: Operation) -> Iterator[Operation]:
    assert op.parent is not None
    for each in op.parent.ops:
        if each is op:
            return
        yield each


def _in_use_at(op: AllocOp) -> Iterator[AllocOp]:
    """Buffers of the same arena that are made before ``op`` and read after it."""
    start, _ = _lifetime(op)
    for other in _before(op):
        if isinstance(other, AllocOp) and other.arena is op.arena and start < _lifetime(other)[1]:
            yield other


def _lifetime(op: AllocOp) -> tuple[int, int]:
    """The number of the op in its block, and that of the last one that reads its buffer."""
    assert op.parent is not None
    numbers = {each: number for number, each in enumerate(op.parent.ops)}
    readers = [numbers[use.operation] for use in op.buffer.uses if not isinstance(use.operation, FreeOp)]
    return numbers[op], max(readers, default=0)


def _put_at(op: Operation, offset: int) -> None:
    op.properties["offset"] = IntegerAttr(offset, i64)


def _release_early(op: Operation, place: int) -> None:
    """Release the value before its last reader."""
    value: SSAValue = op.operands[place]
    last = [each for each in _before(op) if value in each.operands][-1]
    assert last.parent is not None
    op.operands = [other for other in op.operands if other is not value]
    last.parent.insert_op_before(FreeOp.of([value]), last)
    if not op.operands:
        op.detach()
        op.erase()


KINDS: Mapping[str, Callable[[Operation], Iterator[tuple[str, Change]]]] = MappingProxyType(
    {
        "convert-fusion-to-linalg": _index_changes,
        "tile": _kernel_changes,
        "plan-memory": _memory_changes,
    }
)
"""Pass -> the bugs that may be in an op that it left."""


@dataclass(frozen=True)
class Before:
    """A program as it is before a pass, ``instance``, and the passes that come ``after`` it."""

    name: str
    program: Program
    instance: ModulePass
    after: Sequence[ModulePass]


@cache
def programs_before(number: int) -> dict[str, Before]:
    """A program as it is before each of ``KINDS``."""
    function, inputs = PROGRAMS[number]
    program = fxc.capture(function, inputs)
    options = fxc.Options(target="host")
    Passes("dce", options).run(program)  # names the machine
    found = dict[str, Before]()
    passes = list(_passes(parse_pipeline(pipeline_for(INFERENCE, options))))
    for number, instance in enumerate(passes):
        if instance.name in KINDS:
            found[instance.name] = Before(function.__name__, program.copy(), instance, passes[number + 1 :])
        run_pipeline(program.context, program.module, [instance], RunOptions(verify_each=False))
    return found


def _passes(steps: Sequence[Step]) -> Iterator[ModulePass]:
    for step in steps:
        if isinstance(step, ModulePass):
            yield step
        else:
            assert not isinstance(step, Anchored)
            yield from _passes(step.steps)


@cache
def _sites(number: int, name: str) -> list[tuple[int, int, str]]:
    """Where a bug can be after the pass: the number of the op, that of the change among those of the op, and what it is."""
    before = programs_before(number)[name]
    module = clone_module(before.program.module)
    before.instance.apply(before.program.context, module)
    live = set[Operation]()
    if name == "tile":  # what no program comes by changes nothing
        with recorded_ops() as live:
            ReferenceRun(before.program.state)(module, public_functions(module)[0])
    found = list[tuple[int, int, str]]()
    for place, op in enumerate(module.walk()):
        if name != "tile" or op in live:
            found += [(place, i, what) for i, (what, _) in enumerate(KINDS[name](op))]
    return found


@dataclass(frozen=True)
class Bug:
    """One bug: in what the pass ``where`` leaves of a program, the ``change``-th one in op ``place``."""

    program: int
    where: str
    what: str
    place: int
    change: int

    def plant(self, module: ModuleOp) -> str:
        """Put the bug into ``module``; the name of the op."""
        op = next(op for number, op in enumerate(module.walk()) if number == self.place)
        name = op.name
        _, change = list(KINDS[self.where](op))[self.change]
        change(op)
        return name


@dataclass(frozen=True)
class Found:
    """``error``: what the check says of a bug, None where it says nothing. ``is_idle``: the numbers are right all the same."""

    bug: Bug
    op: str
    error: NumericsError | None
    is_idle: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the check stopped at this pass, and said at which op."""
        return self.error is not None and f"pass {self.bug.where} " in self.error.message and self.error.op is not None


def bugs(count: int, seed: int = 0) -> list[Bug]:
    """So many bugs, the same for the same seed."""
    chance = random.Random(seed)
    found = list[Bug]()
    while len(found) < count:
        program, where = chance.randrange(len(PROGRAMS)), chance.choice(list(KINDS))
        if sites := _sites(program, where):
            kind = chance.choice(sorted({what for *_, what in sites}))
            place, change, what = chance.choice([site for site in sites if site[2] == kind])
            found.append(Bug(program, where, what, place, change))
    return found


def check(bug: Bug) -> Found:
    """Run the pass with the bug in what it leaves, under the numerics check."""
    before = programs_before(bug.program)[bug.where]
    planted = list[str]()

    class Planted(ModulePass):
        name = bug.where

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            before.instance.apply(ctx, op)
            planted.append(bug.plant(op))

    program = before.program.copy()
    watcher = CheckNumerics(program, write=None)
    try:
        run_pipeline(program.context, program.module, [Planted()], RunOptions(verify_each=False, instrumentations=(watcher,)))
    except NumericsError as error:
        return Found(bug, planted[0], error)
    except fxc.errors.VerifyError:  # of the end of the pipeline
        pass
    return Found(bug, planted[0], None, is_idle(bug))


def is_idle(bug: Bug) -> bool:
    """Whether the machine code of a program with the bug computes what eager does. Its accesses are in bounds."""
    before, (function, inputs) = programs_before(bug.program)[bug.where], PROGRAMS[bug.program]
    program = before.program.copy()
    before.instance.apply(program.context, program.module)
    bug.plant(program.module)
    for instance in before.after:
        instance.apply(program.context, program.module)
    return torch.allclose(fxc.to_fx(program)(*inputs), function(*inputs), atol=1e-5, equal_nan=True)


def table(found: Sequence[Found]) -> str:
    """A line for each pass, op and kind of bug: how many were planted, and how many of these the check names."""
    rows = Counter[tuple[str, str, str]]((each.bug.where, each.op, each.bug.what) for each in found)
    named = Counter[tuple[str, str, str]]((each.bug.where, each.op, each.bug.what) for each in found if each.is_named)
    idle = Counter[tuple[str, str, str]]((each.bug.where, each.op, each.bug.what) for each in found if each.is_idle)
    lines = [f"{'pass':26}{'operation':16}{'bug':26}{'planted':>8}{'named':>7}{'idle':>6}"]
    lines += [f"{row[0]:26}{row[1]:16}{row[2]:26}{count:8}{named[row]:7}{idle[row]:6}" for row, count in sorted(rows.items())]
    return "\n".join([*lines, f"{'all':68}{rows.total():8}{named.total():7}{idle.total():6}"])


def missed(found: Sequence[Found]) -> list[str]:
    """What the check should name, and does not, a line each."""
    names = [PROGRAMS[each.bug.program][0].__name__ for each in found]
    pairs = [(name, each) for name, each in zip(names, found, strict=True) if not (each.is_named or each.is_idle)]
    return [f"{name}: {each.bug} in {each.op}: {each.error or 'the same numbers'}" for name, each in pairs]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    found = [check(bug) for bug in bugs(count)]
    print(table(found))
    print("\n".join(missed(found)))


if __name__ == "__main__":
    main()
