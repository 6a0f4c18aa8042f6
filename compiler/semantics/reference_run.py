"""One run of a function on the reference interpreter over copies: what it returned, and what it left in its arguments."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import SYMBOLS, ValueType
from fxc.errors import InputError
from fxc.semantics import plan_interpreter
from fxc.semantics.binding import Binding, without_new_values
from fxc.semantics.float64 import Float64Interpreter, widened
from fxc.semantics.interpret import Interpreter, Watch
from fxc.semantics.seeded import Seeded


@dataclass(frozen=True)
class Outcome:
    """``results``: flat, without the new values of arguments. ``arguments``: name -> value after the run, copy-backs done."""

    results: list[Any]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ReferenceRun:
    """How to run: the program's own tensors and live objects (made up where it has none), and the seed of all that is made up.

    ``positive``: no integer that is made up is zero, as it may be a divisor.
    """

    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    live: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    positive: bool = False

    def __call__(
        self, module: ModuleOp, function: func.FuncOp, *, float64: bool = False, watch: Watch | None = None
    ) -> Outcome:
        """Runs ``function``. Nothing of the user's is written; the global generators are as before."""
        made_up = _MadeUp(module, self.seed, self.positive)
        convert = widened if float64 else lambda value: value
        binding = Binding(module, self.state, self.live, made_up.state, convert)
        for name in [*self.state, *binding.tensors]:
            binding.tensor(name)
        names = list(_argument_names(function))
        values = [
            binding.tensor(name.removeprefix(_STATE), argument.type)
            if name.startswith(_STATE)
            else convert(made_up(argument.type, name))
            for name, argument in zip(names, function.body.block.args, strict=True)
        ]
        interpreter = binding.interpreter(Float64Interpreter if float64 else Interpreter, watch)
        with torch.random.fork_rng(), torch.no_grad(), _filled():
            torch.manual_seed(self.seed)
            returned = interpreter.call(function, values)
        results, new = without_new_values(function, returned)
        left = binding.named | {name.removeprefix(_STATE): value for name, value in zip(names, values, strict=True)}
        left |= {names[index].removeprefix(_STATE): value for index, value in new.items()}
        return Outcome(tree_leaves(results), left)


@contextmanager
def _filled() -> Iterator[None]:
    """Memory that nothing was written to holds NaN, so that two runs find the same in it."""
    modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])


def public_functions(module: ModuleOp) -> list[func.FuncOp]:
    """The functions with a body that callers outside can see."""
    return [
        op
        for op in module.ops
        if isinstance(op, func.FuncOp)
        and not op.is_declaration
        and (op.sym_visibility is None or op.sym_visibility.data != "private")
    ]


def why_not(module: ModuleOp, function: func.FuncOp) -> str | None:
    """Why the reference interpreter cannot run ``function``; None where it can."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    seen, pending = {function.sym_name.data}, [function]
    for argument in function.args:
        if isinstance(argument.type, ValueType):
            return f"the type of argument %{argument._name or argument.index} is not known"
    while pending:
        current = pending.pop()
        for op in current.walk():
            if op is current or isinstance(op, _RUNNABLE):
                continue
            if not isinstance(op, func.CallOp):
                return f"the reference interpreter does not run {op.name}"
            name = op.callee.string_value()
            if name not in functions or functions[name].is_declaration:
                return f"@{name} is called, and has no body"
            if name not in seen:
                seen.add(name)
                pending.append(functions[name])
    return None


_RUNNABLE = (
    TorchOp,
    HigherOrderOp,
    ConstantOp,
    CallFunctionOp,
    CallMethodOp,
    CallModuleOp,
    GetAttrOp,
    LaunchOp,
    *plan_interpreter.OPS,
    OutputOp,
    func.ReturnOp,
)

_STATE = "state "


def _argument_names(function: func.FuncOp) -> Iterator[str]:
    """``state <name>`` for the model's own tensors, ``input <index>`` for others, counted among themselves."""
    inputs = 0
    for attributes in argument_attributes(function):
        name = ArgumentFacts.of(attributes).state_name
        if name is not None:
            yield _STATE + name
        else:
            yield f"input {inputs}"
            inputs += 1


class _MadeUp:
    """Values that depend on nothing but a type, a name and the seed."""

    def __init__(self, module: ModuleOp, seed: int, positive: bool) -> None:
        self.symbols, self.seed, self.positive = module.attributes.get(SYMBOLS), seed, positive

    def __call__(self, type: Attribute, name: str) -> Any:
        value = Seeded(self.symbols, self.seed * 2**32 + zlib.crc32(name.encode())).value(type)
        if isinstance(value, torch.Tensor) and self.positive and not (value.is_floating_point() or value.is_complex()):
            return torch.ones_like(value)
        return value

    def state(self, name: str, type: Attribute | None) -> Any:
        """Vectors of state are positive: they are scales and variances, and a negative variance would make everything NaN."""
        if type is None:
            raise InputError(f"the tensor {name!r} is not declared")
        value = self(type, _STATE + name)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() < 2:
            return value.abs().add(0.5)
        return value


def snapshot(into: Callable[[Operation, int, Any], None]) -> Watch:
    """A watch that passes on a copy of every result, as it is when the op returns."""

    def watch(op: Operation, results: Sequence[Any]) -> None:
        for i, value in enumerate(results):
            into(op, i, value.detach().clone() if isinstance(value, torch.Tensor) else value)

    return watch
