"""One run of a function on the reference interpreter over copies: what it returned, and what it left in its arguments."""

from __future__ import annotations

import copy
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, ModuleDeclOp, OutputOp, TensorDeclOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import SYMBOLS, ValueType
from fxc.dialects.values import Tree
from fxc.errors import InputError
from fxc.semantics.float64 import Float64Interpreter, widened
from fxc.semantics.interpret import Interpreter, Watch
from fxc.semantics.modules import build_module
from fxc.semantics.seeded import Seeded

STATE_KINDS = ("parameter", "buffer", "constant")


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
        convert = widened if float64 else lambda value: value
        memory = _Memory(self, module, convert)
        for name in [*self.state, *memory.tensors]:
            memory.tensor(name, None)
        block = function.body.block
        names = list(_argument_names(function))
        values = [
            memory.tensor(name.removeprefix(_STATE), argument.type)
            if name.startswith(_STATE)
            else convert(memory.made_up(argument.type, name))
            for name, argument in zip(names, block.args, strict=True)
        ]
        interpreter = (Float64Interpreter if float64 else Interpreter)(
            {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)},
            tensor=lambda name: memory.tensor(name, None),
            submodule=memory.submodule,
            live=dict(self.live),
            watch=watch,
        )
        with torch.random.fork_rng(), torch.no_grad(), _filled():
            torch.manual_seed(self.seed)
            returned = interpreter.call(function, values)
        return _outcome(function, returned, names, values, memory)


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
    OutputOp,
    func.ReturnOp,
)

_STATE = "state "


def _argument_names(function: func.FuncOp) -> Iterator[str]:
    """``state <name>`` for the model's own tensors, ``input <index>`` for others, counted among themselves."""
    attributes = list(function.arg_attrs) if function.arg_attrs is not None else [DictionaryAttr({})] * len(function.args)
    inputs = 0
    for attrs in attributes:
        kind, name = attrs.data.get("fx.kind"), attrs.data.get("fx.name")
        if isinstance(kind, StringAttr) and kind.data in STATE_KINDS and isinstance(name, StringAttr):
            yield _STATE + name.data
        else:
            yield f"input {inputs}"
            inputs += 1


class _Memory:
    """Copies of the program's tensors and modules, each made once, so that tied weights stay tied."""

    def __init__(self, run: ReferenceRun, module: ModuleOp, convert: Callable[[Any], Any]) -> None:
        symbols = module.attributes.get(SYMBOLS)
        self.run, self.convert = run, convert
        self.symbols = symbols
        self.tensors = {op.sym.data: op for op in module.ops if isinstance(op, TensorDeclOp)}
        self.modules = {op.path: op for op in module.ops if isinstance(op, ModuleDeclOp)}
        self.named = dict[str, Any]()
        self.copies = dict[int, Any]()
        self.built = dict[str, torch.nn.Module]()

    def tensor(self, name: str, type: Attribute | None) -> Any:
        if name not in self.named:
            own = self.run.state.get(name)
            if own is not None:
                self.named[name] = self.copies.setdefault(id(own), self.copy(own))
            elif type is None and name not in self.tensors:
                raise InputError(f"the tensor {name!r} is not declared")
            else:
                self.named[name] = self.convert(self.made_up(type or self.tensors[name].type, _STATE + name))
        return self.named[name]

    def made_up(self, type: Attribute, name: str) -> Any:
        """A value that depends on nothing but ``type``, ``name`` and the seed.

        Vectors of state are positive: they are scales and variances, and a negative variance would make everything NaN.
        """
        value = Seeded(self.symbols, self.run.seed * 2**32 + zlib.crc32(name.encode())).value(type)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() < 2 and name.startswith(_STATE):
            return value.abs().add(0.5)
        if isinstance(value, torch.Tensor) and self.run.positive and not (value.is_floating_point() or value.is_complex()):
            return torch.ones_like(value)
        return value

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            result = self.convert(tensor.detach().clone())
            parameter = isinstance(tensor, torch.nn.Parameter)
            return torch.nn.Parameter(result, requires_grad=tensor.requires_grad) if parameter else result

    def submodule(self, path: str) -> torch.nn.Module:
        if path not in self.built:
            live = self.run.live.get(path)
            if not isinstance(live, torch.nn.Module):
                self.built[path] = build_module(
                    path, self.modules, self.tensors, lambda n: self.tensor(n, None), dict(self.run.live)
                )
            else:
                for name, tensor in [*live.named_parameters(), *live.named_buffers()]:
                    if id(tensor) not in self.copies:
                        self.copies[id(tensor)] = self.named.setdefault(f"{path}.{name}", self.copy(tensor))
                self.built[path] = copy.deepcopy(live, dict(self.copies))
        return self.built[path]


def _outcome(function: func.FuncOp, returned: Any, names: Sequence[str], values: Sequence[Any], memory: _Memory) -> Outcome:
    """Divides what was returned into results and new values of arguments (``fx.mutates``), which replace what lies there."""
    terminator = function.body.block.last_op
    if isinstance(terminator, OutputOp):
        leaves = list(_leaves(terminator.trees()[0][0], returned))
    else:
        leaves = [(None, value) for value in returned]
    attributes = iter(function.res_attrs or ())
    arguments: dict[str, Any] = dict(memory.named)
    arguments.update(zip(names, values, strict=True))
    arguments = {name.removeprefix(_STATE): value for name, value in arguments.items()}
    results = list[Any]()
    for leaf, value in leaves:
        attrs = next(attributes, None) if leaf is None or isinstance(leaf, SSAValue) else None
        target = None if attrs is None else attrs.data.get("fx.mutates")
        if isinstance(target, IntegerAttr):
            arguments[names[target.value.data].removeprefix(_STATE)] = value
        else:
            results += tree_flatten(value)[0]
    return Outcome(results, arguments)


def _leaves(tree: Tree, value: Any) -> Iterator[tuple[SSAValue | Attribute, Any]]:
    """The leaves of a returned tree, each with its value."""
    if isinstance(tree, (list, tuple)):
        for element, part in zip(tree, value, strict=True):
            yield from _leaves(element, part)
    elif isinstance(tree, dict):
        for element, part in zip(tree.values(), value.values(), strict=True):
            yield from _leaves(element, part)
    elif isinstance(tree, slice):
        yield from _leaves((tree.start, tree.stop, tree.step), (value.start, value.stop, value.step))
    else:
        yield tree, value


def snapshot(into: Callable[[Operation, int, Any], None]) -> Watch:
    """A watch that passes on a copy of every result, as it is when the op returns."""

    def watch(op: Operation, results: Sequence[Any]) -> None:
        for i, value in enumerate(results):
            into(op, i, value.detach().clone() if isinstance(value, torch.Tensor) else value)

    return watch
