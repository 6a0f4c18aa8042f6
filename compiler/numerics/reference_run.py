"""Run a function on the reference interpreter with copies: its results, and the final values of its arguments."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects import tile
from fxc.dialects.attributes.types import NONE_TYPE, SYMBOLS, ValueType
from fxc.dialects.attributes.values import Tree
from fxc.dialects.autodiff import UNDEFINED, SubgraphOp, gradient_type
from fxc.dialects.entry import ArgumentFacts, argument_attributes, public_functions
from fxc.dialects.fx import CallMethodOp
from fxc.dialects.plan import AllocOp, ArenaOp, LaunchOp
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import InputError
from fxc.interpret import plan_level as plan_interpreter
from fxc.interpret.binding import Binding, without_new_values
from fxc.interpret.example_values import Seeded
from fxc.interpret.tile_level import launch
from fxc.interpret.torch_level import ReferenceInterpreter, Watch
from fxc.numerics.differences import Difference, difference
from fxc.passes.operators.peak_memory import TrainingStep

Subject: TypeAlias = func.FuncOp | SubgraphOp | TrainingStep
"""A function, a call of one that has a derivative, or the two parts of a joint graph."""

_Make: TypeAlias = Callable[[Attribute, str], Any]


@dataclass(frozen=True)
class ReferenceResult:
    """The outcome of a run.

    ``results``: flat, without the new values of arguments. ``arguments``: name -> value after the run, including copy-backs.
    """

    results: list[Any]
    arguments: dict[str, Any]

    def by_name(self) -> dict[str, Any]:
        """Return the values by their names in errors."""
        results = {f"result {i}": value for i, value in enumerate(self.results)}
        return results | {written_name(name): value for name, value in self.arguments.items()}

    def elements(self) -> int:
        """Return the number of elements of all tensors."""
        return sum(value.numel() for value in (*self.results, *self.arguments.values()) if isinstance(value, torch.Tensor))


def differences(before: ReferenceResult, after: ReferenceResult, *, strict: bool = False) -> Iterator[tuple[str, Difference]]:
    """Yield (result or argument, difference) for each that differs; arguments of one run only are not compared."""
    if len(before.results) != len(after.results):
        yield "the results", Difference(f"{len(before.results)} results became {len(after.results)}")
        return
    now = after.by_name()
    for name, old in before.by_name().items():
        if name in now and (found := difference(old, now[name], strict=strict)) is not None:
            yield name, found


@dataclass(frozen=True)
class ReferenceRun:
    """The configuration of a run: the program's tensors and live objects, else generated ones, and a seed.

    ``positive``: generated integers are nonzero, as they may be divisors. ``inputs``: values of the arguments that are not
    state, which are copied; None to generate them. ``generator``: the initial state of PyTorch's generator, instead of the
    seed. ``interpreter``: makes the interpreter, if it has another class.
    """

    state: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    live: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    positive: bool = False
    inputs: Sequence[Any] | None = None
    generator: torch.Tensor | None = None
    interpreter: Callable[..., ReferenceInterpreter] | None = None

    def __call__(
        self, module: ModuleOp, subject: Subject, *, float64: bool = False, watch: Watch | None = None
    ) -> ReferenceResult:
        """Run ``subject``: a function, the function of a subgraph and then its derivative, or a forward and then its backward.

        Nothing of the user's is written; the state of global generators is restored.
        """
        convert: Callable[[Any], Any] = widened if float64 else lambda value: value
        made_up = _MadeUp(module, self.seed, self.positive)

        def bound(module: ModuleOp) -> tuple[Binding, ReferenceInterpreter]:
            binding = Binding(module, self.state, self.live, made_up.state, convert)
            cls = self.interpreter or (Float64Interpreter if float64 else ReferenceInterpreter)
            return binding, binding.interpreter(cls, watch)

        binding, interpreter = bound(module)
        given = {f"input {i}": value for i, value in enumerate(self.inputs or ())}

        def make(type: Attribute, name: str) -> Any:
            if self.inputs is None:
                return convert(made_up(type, name))
            return tree_map_only(torch.Tensor, binding.copy, given[name])

        with torch.random.fork_rng(), torch.no_grad(), _filled():
            torch.manual_seed(self.seed)
            if self.generator is not None:
                torch.set_rng_state(self.generator)
            if isinstance(subject, SubgraphOp):
                return self._gradients(subject, interpreter, make)
            if isinstance(subject, TrainingStep):
                return self._step(subject, bound, make)
            return self._call(subject, binding, interpreter, make)

    def _call(self, function: func.FuncOp, binding: Binding, interpreter: ReferenceInterpreter, make: _Make) -> ReferenceResult:
        for name in [*self.state, *binding.tensors]:
            binding.tensor(name)
        names = list(_argument_names(function))
        values = [
            binding.tensor(name.removeprefix(_STATE), argument.type)
            if name.startswith(_STATE)
            else make(NONE_TYPE if UNDEFINED in attributes.data else argument.type, name)
            for name, argument, attributes in zip(names, function.args, argument_attributes(function), strict=True)
        ]
        results, new = without_new_values(function, interpreter.call(function, values))
        left = binding.named | {name.removeprefix(_STATE): value for name, value in zip(names, values, strict=True)}
        left |= {names[index].removeprefix(_STATE): value for index, value in new.items()}
        return ReferenceResult(tree_leaves(results), left)

    def _step(
        self, step: TrainingStep, bound: Callable[[ModuleOp], tuple[Binding, ReferenceInterpreter]], make: _Make
    ) -> ReferenceResult:
        """Return the results of the forward and the gradients of the backward, which takes what the forward saves."""
        count, primals = len(step.saved()), len(_inputs(step.forward))
        forward = self._call(step.forward, *bound(module_of(step.forward)), make)
        results, values = forward.results[: len(forward.results) - count], forward.results[len(forward.results) - count :]
        saved = sorted(values, key=lambda value: isinstance(value, torch.Tensor))  # numbers first

        def given(type: Attribute, name: str) -> Any:
            index = int(name.removeprefix("input "))
            return saved[index] if index < count else make(type, f"input {index - count + primals}")

        backward = self._call(step.backward, *bound(module_of(step.backward)), given)
        return ReferenceResult([*results, *backward.results], forward.arguments)

    def _gradients(self, subgraph: SubgraphOp, interpreter: ReferenceInterpreter, make: _Make) -> ReferenceResult:
        """Return the results of f, and the gradients that its derivative computes; undefined gradients become zeros."""
        f, gradient = subgraph.function(), subgraph.gradient
        assert f is not None and gradient is not None
        inputs = [make(type, f"input {i}") for i, type in enumerate(f.function_type.inputs)]
        outputs = list(interpreter.call(f, inputs))
        real = gradient.real_outputs.value.data
        given = [make(gradient_type(f.function_type.outputs.data[i]), f"gradient {i}") if i < real else None
                 for i in gradient.indices("input_vjps")]  # fmt: skip
        captured = [inputs[i] for i in gradient.indices("captured_inputs")]
        captured += [outputs[i] for i in gradient.indices("captured_outputs")]
        df = interpreter.functions[gradient.df.root_reference.data]
        found = zip(gradient.indices("output_vjps"), interpreter.call(df, [*given, *captured]), strict=True)
        made = {f"{GRADIENT}{i}": torch.zeros_like(inputs[i]) if each is None else each for i, each in found}
        return ReferenceResult(outputs[:real], made)


@contextmanager
def _filled() -> Generator[None, None, None]:
    """Fill uninitialized memory with NaN, so that two runs see the same."""
    modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])


def subjects(module: ModuleOp) -> dict[str, Subject]:
    """Return the parts of ``module`` that can run: public functions by name, functions with a derivative, and a split step."""
    found: dict[str, Subject] = {f"@{f.sym_name.data}": f for f in public_functions(module) if not f.is_declaration}
    if (step := TrainingStep.of(module)) is not None:
        found.setdefault(f"@{step.forward.sym_name.data}", step)
    for op in module.walk():
        if isinstance(op, SubgraphOp) and op.gradient is not None:
            found.setdefault(f"@{op.callee.root_reference.data} and its derivative", op)
    return found


def interface(subject: Subject) -> object:
    """Return the properties that two functions must share to take the same arguments."""
    if isinstance(subject, SubgraphOp):
        assert subject.gradient is not None
        real = subject.gradient.real_outputs.value.data
        vjps = {i for i in subject.gradient.indices("input_vjps") if i < real}
        return subject.operand_types, real, vjps, set(subject.gradient.indices("output_vjps"))
    return len(_inputs(subject)) if isinstance(subject, func.FuncOp) else _inputs_of_step(subject)


def why_not(module: ModuleOp, subject: Subject) -> str | None:
    """Return why the reference interpreter cannot run ``subject``; None if no obstacle is known."""
    if isinstance(subject, TrainingStep):
        if any("fx.mutates" in attributes.data for attributes in subject.backward.res_attrs or ()):
            return "its backward writes to arguments"
        return why_not(module_of(subject.forward), subject.forward) or why_not(module_of(subject.backward), subject.backward)
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    if isinstance(subject, func.FuncOp):
        for argument in subject.args:
            if isinstance(argument.type, ValueType):
                return f"the type of argument %{argument._name or argument.index} is not known"
        for op in subject.walk():
            if isinstance(op, TorchOp) and (name := _opaque(op)) is not None:
                return f"{op.operator} reads {name}, which only another operator can make"
    seen, pending = set[str](), [subject.callee.string_value() if isinstance(subject, SubgraphOp) else subject.sym_name.data]
    while pending:
        name = pending.pop()
        if name not in functions or functions[name].is_declaration:
            return f"@{name} is called, and has no body"
        seen.add(name)
        called = [op.callee.string_value() for op in functions[name].walk() if isinstance(op, (func.CallOp, SubgraphOp))]
        pending += [callee for callee in called if callee not in seen]
    return None


def _opaque(op: TorchOp) -> str | None:
    """Return an argument of the enclosing function with internal data of a library, which may crash on generated numbers."""
    for argument in op.SCHEMA.arguments:
        if argument.name in ("workspace", "reserve") and isinstance(op.argument(argument.name), BlockArgument):
            return argument.name
    return None


_STATE = "state "

GRADIENT = "the gradient of input "
"""The prefix of the names of gradients."""


def written_name(name: str) -> str:
    """Return the name, in errors, of the value of an argument after the run."""
    return name if name.startswith(GRADIENT) else f"what is left in {name}"


def _argument_names(function: func.FuncOp) -> Iterator[str]:
    """Yield ``state <name>`` for tensors of the model, ``input <index>`` for others, counted separately."""
    inputs = 0
    for attributes in argument_attributes(function):
        name = ArgumentFacts.of(attributes).state_name
        if name is not None:
            yield _STATE + name
        else:
            yield f"input {inputs}"
            inputs += 1


def _inputs(function: func.FuncOp) -> list[str]:
    return [name for name in _argument_names(function) if not name.startswith(_STATE)]


def _inputs_of_step(step: TrainingStep) -> int:
    return len(_inputs(step.forward)) + len(_inputs(step.backward)) - len(step.saved())


def module_of(function: func.FuncOp) -> ModuleOp:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    return module


class _MadeUp:
    """Values that depend only on a type, a name and the seed."""

    def __init__(self, module: ModuleOp, seed: int, positive: bool) -> None:
        self.symbols, self.seed, self.positive = module.attributes.get(SYMBOLS), seed, positive

    def __call__(self, type: Attribute, name: str) -> Any:
        value = Seeded(self.symbols, zlib.crc32(name.encode(), self.seed)).value(type)  # a generator takes 32 bits
        if isinstance(value, torch.Tensor) and (value.dtype, value.shape) == (torch.uint8, torch.get_rng_state().shape):
            return torch.get_rng_state()  # most likely one, and other bytes are none
        if isinstance(value, torch.Tensor) and self.positive and not (value.is_floating_point() or value.is_complex()):
            return torch.ones_like(value)
        return value

    def state(self, name: str, type: Attribute | None) -> Any:
        """Return a tensor of the state; vectors are positive, as a negative variance would make everything NaN."""
        if type is None:
            raise InputError(f"the tensor {name!r} is not declared")
        value = self(type, _STATE + name)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() < 2:
            return value.abs().add(0.5)
        return value


def snapshot(into: Callable[[Operation, SSAValue, Any], None]) -> Watch:
    """Return a watch that passes on a copy of each value that an operation makes, or writes in existing memory."""

    def watch(op: Operation, results: Sequence[Any], env: Mapping[SSAValue, Any]) -> None:
        made = list(zip(op.results, results, strict=True))
        if isinstance(op, (AllocOp, ArenaOp)):
            return
        written = [(out, env[out]) for out in op.outs] if isinstance(op, LaunchOp) else []
        for value, number in [*made, *written]:
            into(op, value, number.detach().clone() if isinstance(number, torch.Tensor) else number)

    return watch


_WIDE = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}
_METHODS = {"half": "double", "bfloat16": "double", "float": "double", "cfloat": "cdouble", "chalf": "cdouble"}


def widened(value: Any) -> Any:
    """Convert every floating-point tensor and dtype in ``value`` to float64, complex ones to complex128."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE:
            return leaf.to(_WIDE[leaf.dtype])
        return _WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return tree_map(one, value)


class Float64Interpreter(ReferenceInterpreter):
    """Runs a function with float64 inputs: constants, dtype arguments and new tensors become float64, too."""

    def python(self, trees: Sequence[Tree], env: Mapping[SSAValue, Any]) -> list[Any]:
        return widened(super().python(trees, env))

    def launch(self, op: tile.LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        return launch(op, operands, wide=True)

    def linalg(self, op: Operation, env: MutableMapping[SSAValue, Any], *, wide: bool = True) -> Any:
        return super().linalg(op, env, wide=wide)

    def plan(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        return self.planned(op, plan_interpreter.run(op, operands, wide=True))

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        if isinstance(op, CallMethodOp) and (method := _METHODS.get(op.call_target() or "")) is not None:
            return [getattr(env[op.operands[0]], method)()]
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return list(widened(list(super().op(op, env))))
        finally:
            torch.set_default_dtype(default)
