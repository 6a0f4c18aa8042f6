"""Run a program on the reference interpreter: bind its state and its inputs to the entry function.

The program writes to copies: neither its tensors nor the inputs of the caller change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import SYMBOLS, ValueType
from fxc.dialects.attributes.values import decode_constants
from fxc.dialects.entry import STATE_KINDS, ArgumentFacts, argument_attributes
from fxc.dialects.fx import OutputOp, TensorDeclOp
from fxc.errors import FxcError, InputError, WeightsError
from fxc.program.program import Program

if TYPE_CHECKING:
    import torch

    from fxc.interpret.example_values import Seeded


@dataclass(frozen=True)
class EntryArgument:
    """An argument of the entry function. ``kind`` is ``input``, ``parameter``, ``buffer`` or ``constant``."""

    name: str
    kind: str
    type: Attribute
    default: Attribute | None

    @property
    def is_state(self) -> bool:
        return self.kind in STATE_KINDS

    @property
    def default_value(self) -> Any:
        from fxc.bridge.values import python_of, value_of

        assert self.default is not None
        return python_of(decode_constants(self.default), lambda leaf: value_of(cast(Attribute, leaf)))


@dataclass(frozen=True)
class RunResult:
    """``value``: the result, nested as in the captured model. ``written``: new values of arguments, by name."""

    value: Any
    written: dict[str, torch.Tensor] = field(default_factory=dict[str, Any])


def arguments(program: Program) -> list[EntryArgument]:
    """The arguments of the entry function, in order."""
    found = list[EntryArgument]()
    for value, attributes in zip(program.main.args, argument_attributes(program.main), strict=True):
        kind, name = ArgumentFacts.of(attributes)
        found.append(
            EntryArgument(name or value._name or f"arg{value.index}", kind, value.type, attributes.data.get("fx.default"))
        )
    return found


def seeded_inputs(program: Program, seed: int = 0) -> dict[str, Any]:
    """Generated values for the runtime inputs, by name: random of their types, equal for equal seeds."""
    return _seeded(program, seed, [argument for argument in arguments(program) if not argument.is_state])


def seeded_state(program: Program, seed: int = 0) -> dict[str, torch.Tensor]:
    """Generated values for every tensor that the program names, instead of a weights file."""
    from fxc.interpret.example_values import Seeded

    maker = Seeded(program.module.attributes.get(SYMBOLS), seed)
    declared = {op.sym.data: _value(maker, op.sym.data, op.type) for op in program.module.ops if isinstance(op, TensorDeclOp)}
    return declared | _seeded(program, seed, [argument for argument in arguments(program) if argument.is_state])


def _seeded(program: Program, seed: int, wanted: Sequence[EntryArgument]) -> dict[str, Any]:
    from fxc.interpret.example_values import Seeded

    maker = Seeded(program.module.attributes.get(SYMBOLS), seed)
    made = dict[str, Any]()
    for argument in wanted:
        if argument.default is not None:
            made[argument.name] = argument.default_value
        elif isinstance(argument.type, ValueType):
            raise InputError(
                f"input {argument.name} has no type to make a value of", hint="capture the model with example inputs"
            )
        else:
            made[argument.name] = _value(maker, argument.name, argument.type)
    return made


def _value(maker: Seeded, name: str, type: Attribute) -> Any:
    """A generated value. InputError where PyTorch has no tensor of this dtype or size."""
    try:
        return maker.value(type)
    except (VerifyException, TypeError, OverflowError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        hint = "give it a dtype of PyTorch, and sizes whose elements fit in memory"
        raise InputError(f"{name} is {type}, of which no tensor can be made: {reason}", hint=hint) from error


def execute(program: Program, inputs: Sequence[Any], *, lifted: bool = False, seed: int | None = None) -> RunResult:
    """Run the entry function on ``inputs``, one for each runtime input in order.

    ``lifted``: return results flat, with the new values of arguments, as the function does. ``seed``: seeds the generator of
    PyTorch first. Raises InputError for inputs that do not fit, and for an op that fails, with the op; TargetError for a
    callee that a program may not name; WeightsError for a tensor without a value.
    """
    import torch

    from fxc.interpret.torch_level import error_of

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
    written = run.written(names, values, inputs)
    if lifted:
        return RunResult(returned, written)
    return outcome_of(program.main, returned, names, written)


class BoundProgram:
    """The state of one execution: copies of tensors, which share memory where the originals do."""

    def __init__(self, program: Program) -> None:
        from fxc.interpret.binding import Binding

        self.program = program
        self.binding = Binding(program.module, program.state, program.live, _no_value)
        self.interpreter = self.binding.interpreter()

    def bind(self, inputs: Sequence[Any]) -> list[Any]:
        """A value for each argument: copies of the state and of ``inputs``."""
        import torch
        from torch.utils._pytree import tree_map_only

        from fxc.program.program_signature import signature_of

        replace(signature_of(self.program), nesting=None).check(inputs, {})
        given, binding = iter(tree_map_only(torch.Tensor, self.binding.copy, list(inputs))), self.binding
        return [binding.tensor(a.name) if a.is_state else next(given) for a in arguments(self.program)]

    def written(self, names: Sequence[str], values: Sequence[Any], inputs: Sequence[Any]) -> dict[str, torch.Tensor]:
        """The copies that differ from their originals. Compares bytes, as some kernels write without increasing the version."""
        import torch
        from torch.utils._pytree import tree_leaves

        originals = [
            *self.program.state.values(),
            *(leaf for leaf in tree_leaves(list(inputs)) if isinstance(leaf, torch.Tensor)),
        ]
        copies = {id(self.binding.copies[id(t)]): t for t in originals if id(t) in self.binding.copies}
        found = dict(zip(names, values, strict=True))
        found |= {n: self.binding.copies[id(t)] for n, t in self.program.state.items() if id(t) in self.binding.copies}
        return {n: v for n, v in found.items() if id(v) in copies and not _same_bytes(copies[id(v)], v)}


def _no_value(name: str, type: Attribute | None) -> Any:
    raise WeightsError(f"the program has no value for the tensor {name!r}", hint="load the weights file that belongs to it")


def outcome_of(function: FuncOp, returned: Any, names: Sequence[str], written: Mapping[str, Any]) -> RunResult:
    """Separate the new values of arguments from the returned values, and nest the others as in the model."""
    from torch.utils._pytree import tree_unflatten

    from fxc.bridge.nesting import OUTPUTS, spec_of
    from fxc.interpret.binding import without_new_values

    value, new = without_new_values(function, returned)
    nesting = function.attributes.get(OUTPUTS)
    if nesting is not None:
        value = tree_unflatten(list(value), spec_of(nesting))
    elif not new and not isinstance(function.body.block.last_op, OutputOp):
        value = value[0] if len(value) == 1 else tuple(value)
    return RunResult(value, dict(written) | {names[index]: tensor for index, tensor in new.items()})


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one type hold equal bytes, NaN included; True for a layout without plain bytes."""
    import torch

    if a.layout is not torch.strided or a.is_quantized or not a.numel():
        return True
    x, y = (t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(x, y)
