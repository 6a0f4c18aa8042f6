"""Fall back to ATen calls for groups that fail to compile, whichever pass or code generator fails.

The module is copied before its groups are lowered, which takes 0.2% of the compilation time of GPT-2. If a later step fails,
a search finds the failing groups: by the operation that the exception names, else by bisection. In the copy, each failing
group is replaced by its operators, and the copy is lowered again. An error that also occurs without groups is raised.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from xdsl.dialects.builtin import FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.fx import OutputOp
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.text.syntax import clone_module, print_module
from fxc.dialects.torch_ops import TorchOp
from fxc.driver import reproducer
from fxc.errors import FallbackWarning
from fxc.passes.kernels.source_lines import notes
from fxc.passes.kernels.tile_matmul.tile_matmul import LIBRARY
from fxc.passes.kernels.tiling.products import product_of
from fxc.passes.rewriting.one_group import time_limit
from fxc.program.program import Program
from fxc.runtime.object_cache import cache_key, default_cache_folder

FIRST = "convert-fusion-to-linalg"
"""The pass before which the module is copied."""

T = TypeVar("T")


class Checkpoint:
    """The module before its groups are lowered; an instrumentation of the pipeline."""

    def __init__(self) -> None:
        self.module: ModuleOp | None = None
        self.units = dict[Operation, int]()

    def take(self, module: ModuleOp) -> None:
        self.module = clone_module(module)
        self.units = {unit: number for number, unit in enumerate(_units(module))}

    def before_pass(self, run: Any) -> None:
        if run.name == FIRST and run.module.parent is None and run.anchor is None and self.module is None:
            self.take(run.module)

    def after_pass(self, run: Any) -> None: ...

    def after_failure(self, run: Any, error: BaseException) -> None: ...


@dataclass
class Lowering(Generic[T]):
    """The steps that compile a program.

    ``start`` runs all passes with a checkpoint. ``resume`` runs the passes from ``FIRST`` on; ``pipeline`` returns their
    text. ``finish`` generates code.
    """

    start: Callable[[Program, Checkpoint], object]
    resume: Callable[[Program], object]
    finish: Callable[[Program], T]
    pipeline: Callable[[], str]

    def run(self, program: Program) -> T:
        """Compile ``program`` and return the result of ``finish``.

        If ``program`` has a group limit, groups that fail run as ATen calls, each with a warning, and ``key`` becomes None.
        """
        checkpoint = Checkpoint()
        if program.group_limit is None:
            self.start(program, checkpoint)
            return self.finish(program)
        with time_limit(program.group_limit):
            is_lowered = False
            try:
                self.start(program, checkpoint)
                is_lowered = True
                return self.finish(program)
            except Exception as error:
                if checkpoint.module is None or not checkpoint.units or _is_memory(error):
                    raise
                program.key = None  # the key is for the program in which all groups are kernels
                failure = _Failure.of(error, checkpoint.units, in_code=is_lowered)
                return _Search(program, checkpoint.module, self).run(failure)


@dataclass(frozen=True)
class _Failure:
    """An error in lowering or code generation.

    ``unit`` is the number of the group that the exception names, or None. ``in_code`` means that code generation failed.
    """

    error: Exception
    in_code: bool
    unit: int | None = None

    @classmethod
    def of(cls, error: Exception, units: Mapping[Operation, int], *, in_code: bool) -> _Failure:
        for each in _chain(error):
            op = getattr(each, "op", None)
            while isinstance(op, Operation):
                if op in units:
                    return cls(error, in_code, units[op])
                op = op.parent_op()
        return cls(error, in_code)


@dataclass
class _Search(Generic[T]):
    """Searches for the largest set of groups that can be lowered together.

    ``module`` is the program before lowering, ``kept`` the groups that compile so far, ``best`` the result for these.
    """

    program: Program
    module: ModuleOp
    lowering: Lowering[T]
    kept: tuple[int, ...] = ()
    best: tuple[T, ModuleOp] | None = None
    refused: list[str] = field(default_factory=list[str])

    def run(self, failure: _Failure) -> T:
        self.search(tuple(range(len(_units(self.module)))), failure)
        self.require_none(failure.error)
        assert self.best is not None
        result, self.program.module = self.best
        for message in self.refused:
            warnings.warn(message, FallbackWarning, stacklevel=2)
        return result

    def search(self, numbers: tuple[int, ...], failure: _Failure | None = None) -> None:
        """Add the groups of ``numbers`` that compile to ``kept``. ``failure`` is the error of ``kept`` plus all ``numbers``."""
        while numbers:
            failure = failure or self.attempt(numbers)
            if failure is None:
                return
            number = numbers[0] if len(numbers) == 1 else failure.unit
            if number is not None and number in numbers:
                self.refused.append(self.message(number, numbers, failure))
                numbers = tuple(each for each in numbers if each != number)
            else:
                self.require_none(failure.error)
                half = len(numbers) // 2
                self.search(numbers[:half])
                numbers = numbers[half:]
            failure = None

    def attempt(self, numbers: Sequence[int]) -> _Failure | None:
        """Lower ``numbers`` together with ``kept``, and add them to ``kept`` on success."""
        wanted = tuple(sorted({*self.kept, *numbers}))
        self.program.module, units = _only(self.module, wanted)
        is_lowered = False
        try:
            self.lowering.resume(self.program)
            is_lowered = True
            self.best = self.lowering.finish(self.program), self.program.module
        except Exception as error:
            if _is_memory(error):
                raise
            return _Failure.of(error, units, in_code=is_lowered)
        self.kept = wanted
        return None

    def require_none(self, error: Exception) -> None:
        """Raise ``error`` if the program also fails to compile without any group."""
        if self.best is None and self.attempt(()) is not None:
            raise error

    def message(self, number: int, numbers: Sequence[int], failure: _Failure) -> str:
        unit = _units(self.module)[number]
        ops = [op for op in unit.walk() if isinstance(op, TorchOp)]
        lines = [f"  {note.data}" for note in notes(ops)]
        because = next(line for line in [*str(failure.error).splitlines(), type(failure.error).__name__] if line)
        return "\n".join([
            "operators that were to be one kernel run as calls of ATen, since the kernel cannot be compiled:",
            *lines,
            f"  because: {because}",
            f"  {self.written(number, numbers, failure)}",
        ])  # fmt: skip

    def written(self, number: int, numbers: Sequence[int], failure: _Failure) -> str:
        """Write a file that reproduces ``failure``: only the group if that fails too, else the program."""
        alone = _alone(self.module, _units(self.module)[number])
        if not self.fails(alone, failure.error):
            alone, _ = _only(self.module, {*self.kept, *numbers})
        replay = reproducer.Reproducer(
            self.lowering.pipeline(), allow_unregistered_dialect=self.program.context.allow_unregistered
        )
        text = print_module(alone, debuginfo=True)
        emitted = "llvm" if isinstance(target_of(alone), CpuAttr) else "triton"
        emit = f" --emit={emitted}" if failure.in_code else ""
        name = f"{cache_key(replay.pipeline, text, emit)[:16]}.mlir"
        for folder in (default_cache_folder() / "reproducers", Path(tempfile.gettempdir())):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                reproducer.write(folder / name, replay, text, str(failure.error), more=emit)
            except OSError:
                continue
            return f"replay with: fxc-opt --run-reproducer {folder / name}{emit}"
        return "no reproducer could be written"

    def fails(self, alone: ModuleOp, error: Exception) -> bool:
        """Whether ``alone`` fails with an error of the same class as ``error``."""
        program = replace(self.program, module=clone_module(alone), state={}, key=None)
        try:
            self.lowering.resume(program)
            self.lowering.finish(program)
        except Exception as other:
            return type(_chain(other)[-1]) is type(_chain(error)[-1])
        return False


def _units(module: ModuleOp) -> list[Operation]:
    """The operations that may become kernels, nested modules included: groups, and matrix products outside of groups."""
    groups = [group for each in module.walk() if isinstance(each, ModuleOp) for group in groups_of(each)]
    products = [op for op in module.walk() if not isinstance(op.parent_op(), GroupOp) and product_of(op) is not None]
    return [*groups, *products]


def _only(module: ModuleOp, numbers: Collection[int]) -> tuple[ModuleOp, dict[Operation, int]]:
    """A copy of ``module`` in which only the units ``numbers`` may become kernels, and a map from these units to numbers."""
    copy, kept = clone_module(module), dict[Operation, int]()
    for number, unit in enumerate(_units(copy)):
        if number in numbers:
            kept[unit] = number
        elif isinstance(unit, GroupOp):
            _dissolve(unit)
        else:
            unit.attributes[LIBRARY] = UnitAttr()
    return copy, kept


def _dissolve(group: GroupOp) -> None:
    """Replace ``group`` by the operations of its body."""
    *ops, end = group.body.block.ops
    for old, value in zip(group.results, end.operands, strict=True):
        old.replace_all_uses_with(value)
    for op in ops:
        op.detach()
    Rewriter.insert_op(ops, InsertPoint.before(group))
    Rewriter.erase_op(group)


def _alone(module: ModuleOp, unit: Operation) -> ModuleOp:
    """A module with the attributes of ``module`` whose ``main`` contains only ``unit``."""
    read = unit.inputs() if isinstance(unit, GroupOp) else list(dict.fromkeys(unit.operands))
    block = Block(arg_types=[value.type for value in read])
    values: dict[SSAValue, SSAValue] = dict(zip(read, block.args, strict=True))
    for value, argument in zip(read, block.args, strict=True):
        argument.name_hint = value.name_hint
    copy = unit.clone(values)
    block.add_ops([copy, OutputOp.build_call([tuple(copy.results)], {}, [], location=unit.location)])
    main = FuncOp("main", FunctionType.from_lists([value.type for value in read], []), Region(block))
    return ModuleOp([main], dict(module.attributes))


def _chain(error: BaseException) -> list[BaseException]:
    """``error`` and the chain of its causes."""
    found = [error]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def _is_memory(error: BaseException) -> bool:
    return any(isinstance(each, MemoryError) for each in _chain(error))
