"""Runs a program on the reference interpreter: binds its state and its inputs to the entry function.

What the program writes, it writes to copies: neither its own tensors nor the caller's inputs change.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.fx import ModuleDeclOp, OutputOp, TensorDeclOp
from fxc.dialects.types import SYMBOLS, ValueType
from fxc.errors import FxcError, InputError, WeightsError
from fxc.program import STATE_KINDS, Program

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Argument:
    """An argument of the entry function. ``kind`` is ``input``, ``parameter``, ``buffer`` or ``constant``."""

    name: str
    kind: str
    type: Attribute
    default: Attribute | None

    @property
    def is_state(self) -> bool:
        return self.kind in STATE_KINDS


@dataclass(frozen=True)
class Outcome:
    """``value``: what was returned, nested as the captured model had it. ``written``: new values of arguments, by name."""

    value: Any
    written: dict[str, torch.Tensor] = field(default_factory=dict)


def arguments(program: Program) -> list[Argument]:
    """The arguments of the entry function, in order."""
    function = program.main
    attributes = function.arg_attrs or [DictionaryAttr({})] * len(function.args)
    return [
        Argument(
            _text(attrs, "fx.name") or value._name or f"arg{value.index}",
            _text(attrs, "fx.kind") or "input",
            value.type,
            attrs.data.get("fx.default"),
        )
        for value, attrs in zip(function.args, attributes, strict=True)
    ]


def seeded_inputs(program: Program, seed: int = 0) -> dict[str, Any]:
    """Made-up values for the runtime inputs, by name: random of their types, the same for the same seed."""
    return _seeded(program, seed, [argument for argument in arguments(program) if not argument.is_state])


def seeded_state(program: Program, seed: int = 0) -> dict[str, torch.Tensor]:
    """Made-up values for every tensor that the program names, in the place of a weights file."""
    from fxc.semantics.seeded import Seeded

    maker = Seeded(program.module.attributes.get(SYMBOLS), seed)
    declared = {op.sym.data: maker.value(op.type) for op in program.module.ops if isinstance(op, TensorDeclOp)}
    return declared | _seeded(program, seed, [argument for argument in arguments(program) if argument.is_state])


def _seeded(program: Program, seed: int, wanted: Sequence[Argument]) -> dict[str, Any]:
    from fxc.semantics.seeded import Seeded
    from fxc.semantics.values import value_of

    maker = Seeded(program.module.attributes.get(SYMBOLS), seed)
    made = dict[str, Any]()
    for argument in wanted:
        if argument.default is not None:
            made[argument.name] = value_of(argument.default)
        elif isinstance(argument.type, ValueType):
            raise InputError(
                f"input {argument.name} has no type to make a value of", hint="capture the model with example inputs"
            )
        else:
            made[argument.name] = maker.value(argument.type)
    return made


def execute(program: Program, inputs: Sequence[Any], *, lifted: bool = False, seed: int | None = None) -> Outcome:
    """Runs the entry function on ``inputs``, one a runtime input in order.

    ``lifted``: results come flat, new values of arguments among them, as the function returns them. ``seed`` sets PyTorch's
    generator first. Raises InputError for inputs that do not fit or an op that fails, with the op; TargetError for a callee
    that a program may not name; WeightsError for a tensor without a value.
    """
    import torch

    from fxc.semantics.interpret import error_of

    run = BoundProgram(program)
    values = run.bind(inputs)
    if seed is not None:
        torch.manual_seed(seed)
    try:
        with torch.no_grad():
            returned = run.interpreter.call(program.main, values)
    except FxcError:
        raise
    except Exception as error:
        raise error_of(error) from error
    names = [argument.name for argument in arguments(program)]
    written = {name: value for name, value in zip(names, values, strict=True) if run.is_written(value)} | run.written_state()
    if lifted:
        return Outcome(returned, written)
    return outcome_of(program.main, returned, names, written)


class BoundProgram:
    """The state of one execution: copies of tensors that share memory where the originals do."""

    def __init__(self, program: Program) -> None:
        from fxc.semantics.interpret import Interpreter

        self.program = program
        self.storages = dict[int, Any]()
        self.copies = dict[int, Any]()
        self.originals: dict[int, torch.Tensor] = {}
        self.built: dict[str, torch.nn.Module] = {}
        self.modules = {op.path: op for op in program.module.ops if isinstance(op, ModuleDeclOp)}
        self.tensors = {op.sym.data: op for op in program.module.ops if isinstance(op, TensorDeclOp)}
        functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
        self.interpreter = Interpreter(functions, tensor=self.tensor, submodule=self.submodule, live=program.live)

    def bind(self, inputs: Sequence[Any]) -> list[Any]:
        """A value an argument: copies of the state and of ``inputs``."""
        from fxc.signature import signature_of

        replace(signature_of(self.program), nesting=None).check(inputs, {})
        given = iter(inputs)
        return [self.tensor(a.name) if a.is_state else self.copy(next(given)) for a in arguments(self.program)]

    def tensor(self, name: str) -> Any:
        if name not in self.program.state:
            raise WeightsError(
                f"the program has no value for the tensor {name!r}", hint="load the weights file that belongs to it"
            )
        return self.copy(self.program.state[name])

    def copy(self, value: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_map_only

        return tree_map_only(torch.Tensor, self.copy_tensor, value)

    def copy_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        if id(tensor) not in self.copies:
            self.copies[id(tensor)] = made = self._copied(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                self.copies[id(tensor)] = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
            self.originals[id(self.copies[id(tensor)])] = tensor
        return self.copies[id(tensor)]

    def is_written(self, value: Any) -> bool:
        """Whether ``value``, a copy, was written since it was made. Some kernels write without telling autograd's counter."""
        original = self.originals.get(id(value))
        return original is not None and not _same_bytes(original, value)

    def written_state(self) -> dict[str, torch.Tensor]:
        """Tensors of the state that were written in place, as a module in train mode writes its statistics."""
        copies = {name: self.copies[id(t)] for name, t in self.program.state.items() if id(t) in self.copies}
        return {name: value for name, value in copies.items() if self.is_written(value)}

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        plain = tensor.detach()
        if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized:
            return plain.clone()
        storage = plain.untyped_storage()
        key = storage._cdata
        if key not in self.storages:
            self.storages[key] = storage.clone()
        empty = torch.empty(0, dtype=plain.dtype, device=plain.device)
        with torch.no_grad():
            return empty.set_(self.storages[key], plain.storage_offset(), plain.shape, plain.stride())

    def submodule(self, path: str) -> torch.nn.Module:
        if path not in self.built:
            self.built[path] = self.build(path)
        return self.built[path]

    def build(self, path: str) -> torch.nn.Module:
        import torch

        from fxc.semantics.modules import build_module

        live = self.program.live.get(path)
        if isinstance(live, torch.nn.Module):
            state = {id(t): self.copy_tensor(t) for t in (*live.parameters(), *live.buffers())}
            return copy.deepcopy(live, state)
        return build_module(path, self.modules, self.tensors, self.tensor, self.program.live)


def outcome_of(function: FuncOp, returned: Any, names: Sequence[str], written: Mapping[str, Any]) -> Outcome:
    """Takes the new values of arguments out of what was returned, and nests the rest as the model did."""
    from torch.utils._pytree import tree_unflatten

    from fxc.semantics.nesting import OUTPUTS, spec_of

    terminator = function.body.block.last_op
    marks = [attrs.data.get("fx.mutates") for attrs in function.res_attrs or ()]
    nesting = function.attributes.get(OUTPUTS)
    if isinstance(terminator, OutputOp):
        elements = terminator.trees()[0][0]
        if not any(marks) and nesting is None:
            return Outcome(returned, dict(written))
    else:
        elements = list(terminator.operands) if terminator is not None else []
        if len(elements) == 1 and not any(marks) and nesting is None:
            return Outcome(returned[0], dict(written))
    new, kept, index = dict(written), list[Any](), 0
    for element, value in zip(elements, returned, strict=True):
        target = marks[index] if isinstance(element, SSAValue) and index < len(marks) else None
        index += isinstance(element, SSAValue)
        if isinstance(target, IntegerAttr):
            new[names[target.value.data]] = value
        else:
            kept.append(value)
    return Outcome(tuple(kept) if nesting is None else tree_unflatten(kept, spec_of(nesting)), new)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one type hold the same bytes, NaN and all; True for a layout that has no plain bytes."""
    import torch

    if a.layout is not torch.strided or a.is_quantized or not a.numel():
        return True
    x, y = (t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(x, y)


def _text(attributes: DictionaryAttr, key: str) -> str | None:
    value = attributes.data.get(key)
    return value.data if isinstance(value, StringAttr) else None
