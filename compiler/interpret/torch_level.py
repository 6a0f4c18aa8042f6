"""The reference interpreter: runs the ``fx``, ``torch`` and ``plan`` levels operation by operation on any torch values.

Real tensors produce results, fake tensors produce types, traced tensors produce graphs: the semantics of an operation is the
PyTorch call itself.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, cast

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._pytree import tree_leaves, tree_map_only
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import TupleType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from fxc.bridge import autograd_functions
from fxc.bridge.callables import (
    DATA,
    check_attribute,
    check_method,
    resolve_function,
    resolve_higher_order,
    resolve_operator,
)
from fxc.bridge.loops import LOOPS, separate
from fxc.bridge.values import python_of, run_time_constant, torch_dtype, value_of
from fxc.dialects import fusion, plan
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import ValueType, tensor_of
from fxc.dialects.attributes.values import FunctionAttr, RegionAttr, Tree
from fxc.dialects.autodiff import (
    AddOp,
    AnyNonzeroOp,
    GradOfOp,
    MaterializeOp,
    SubgraphOp,
    SumToSizeOp,
    YieldOp,
    ZeroOp,
)
from fxc.dialects.base.effects import OperatorCall
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp
from fxc.dialects.text.diagnostics import one_line, place_of
from fxc.dialects.text.syntax import op_text, written_name
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import FxcError, InputError, KernelError, NoRuleError, TargetError
from fxc.interpret import plan_level as plan_interpreter
from fxc.interpret.tile_level import launch, result_specs, symbol_values
from fxc.interpret.tile_ops import scalar_op

Watch = Callable[[Operation, Sequence[Any], Mapping[SSAValue, Any]], None]
"""Called after each operation with the operation, its result values, and the visible values."""

_RELEASED = object()
"""The value of released names."""


class ResultCountError(InputError):
    """A call returned a list whose length differs from the number of results."""


class ReferenceInterpreter:
    """Runs functions of a module.

    ``tensor`` returns the value of a declared tensor by name, ``submodule`` the module at a path; ``live`` has functions beyond
    the allowlist. A value is dropped after its last use. Errors that PyTorch raises in an operation pass through, with the
    operation in a note.
    """

    def __init__(
        self,
        functions: Mapping[str, func.FuncOp],
        *,
        tensor: Callable[[str], Any] | None = None,
        submodule: Callable[[str], torch.nn.Module] | None = None,
        live: dict[str, Any] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.functions, self.tensor, self.submodule = functions, tensor, submodule
        self.live, self.watch = live or {}, watch
        self.arenas = list[torch.Tensor]()

    def call(self, function: func.FuncOp, args: Sequence[Any]) -> Any:
        """Return the results of ``function`` for these arguments: a nesting for ``fx.output``, a list for ``func.return``."""
        if function.is_declaration:
            raise InputError(f"@{function.sym_name.data} has no body to run")
        block = function.body.block
        if len(args) != len(block.args):
            raise InputError(f"@{function.sym_name.data} takes {len(block.args)} arguments, but got {len(args)}")
        plan_interpreter.check_streams(block)
        return self.block(block, args)

    def block(self, block: Block, args: Sequence[Any], outer: MutableMapping[SSAValue, Any] | None = None) -> Any:
        """Return the values that ``block`` returns or yields. ``outer``: visible values of its surroundings."""
        env: MutableMapping[SSAValue, Any] = dict(zip(block.args, args, strict=True))
        if outer is not None:
            env = ChainMap(env, outer)
        uses = Counter[SSAValue](value for op in block.ops for value in _reads(op))
        for op in block.ops:
            if isinstance(op, OutputOp):
                return self.python(op.trees()[0], env)[0]
            if isinstance(op, (func.ReturnOp, scf.YieldOp, YieldOp, fusion.YieldOp)):
                return [env[value] for value in op.operands]
            reads = list(_reads(op))
            try:
                if (gone := next((value for value in reads if env.get(value) is _RELEASED), None)) is not None:
                    raise KernelError(f"%{written_name(gone) or 'an operand'} is used after its release", op=op_text(op))
                results = self.op(op, env)
            except FxcError as error:
                error.op, error.place = error.op or one_line(op), error.place or place_of(op)
                raise
            except Exception as error:
                error.add_note(f"while running: {op_text(op)}")
                raise
            if self.watch is not None:
                self.watch(op, results, env)
            env.update(zip(op.results, results, strict=True))
            for value in reads:
                uses[value] -= 1
                if not uses[value]:
                    env.pop(value, None)
            for result in op.results:
                if not uses[result]:
                    env.pop(result, None)
        raise InputError("a function must end in fx.output or func.return")

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        """Return the results of ``op`` with operand values from ``env``."""
        match op:
            case TorchOp():
                args, kwargs = op.trees()
                target = resolve_operator(op.operator)
                value = self.call_function(target, tuple(self.python(args, env)), self.keywords(kwargs, env))
                return self.results(op, value)
            case OperatorCall():
                operator, args = op.operator_call()
                return self.results(op, resolve_operator(operator)(*self.python(args, env)))
            case HigherOrderOp():
                return self.results(op, self.higher_order(op, env))
            case CallFunctionOp() | CallMethodOp() | CallModuleOp() | GetAttrOp():
                return self.results(op, self.fx_call(op, env))
            case ConstantOp():
                return [run_time_constant(op)]
            case func.CallOp() | SubgraphOp():
                name = op.callee.root_reference.data
                if name not in self.functions:
                    raise InputError(f"there is no function @{name}")
                returned = self.call(self.functions[name], [env[value] for value in op.operands])
                return self.leaves(op, returned)[: len(op.results)]
            case scf.IfOp():
                region = op.true_region if env[op.cond] else op.false_region
                return self.block(region.block, (), _mutable(env)) if region.blocks else []
            case GradOfOp():
                if all(env[gradient] is None for gradient in op.operands):
                    return [None] * len(op.results)
                return self.block(op.body.block, (), _mutable(env))
            case fusion.GroupOp():
                return self.block(op.body.block, (), _mutable(env))
            case LaunchOp():
                return self.launch(op, [env[value] for value in op.operands])
            case plan.FreeOp():
                return self.free(op, env)
            case _ if isinstance(op, plan_interpreter.OPS):
                return self.plan(op, [env[value] for value in op.operands])
            case AnyNonzeroOp() | AddOp() | SumToSizeOp() | MaterializeOp():
                return [_gradient(op, self.python(op.trees()[0], env))]
            case ZeroOp():
                return [None]
            case arith.ConstantOp() | arith.AddiOp() | arith.MuliOp():
                return [scalar_op(op, [env[value] for value in op.operands])]
            case _:
                return [self.linalg(op, _mutable(env))]

    def linalg(self, op: Operation, env: MutableMapping[SSAValue, Any], *, wide: bool = False) -> Any:
        """Return the result of an operation in a group's body. NoRuleError for operations of no supported level."""
        from fxc.interpret import linalg_level as linalg_interpreter

        if isinstance(op, linalg_interpreter.OPS):
            return linalg_interpreter.run(op, env, wide=wide)
        raise NoRuleError(f"the reference interpreter does not run {op.name}", op=op_text(op))

    def launch(self, op: LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        """Return the results of a kernel; for operands that are not real tensors, new tensors of the result types."""
        if is_concrete(list(operands)):
            return launch(op, operands)
        return [spec.at(symbol_values(op, operands)).new() for spec in result_specs(op)]

    def plan(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Return the results of a ``plan`` operation. Kernels run on real tensors only: others hold no numbers to write."""
        if isinstance(op, plan.LaunchOp) and not is_concrete(list(operands)):
            return []
        return self.planned(op, plan_interpreter.run(op, operands))

    def planned(self, op: Operation, results: Sequence[Any]) -> Sequence[Any]:
        """Register new arenas among ``results`` of a ``plan`` operation, and return them."""
        if isinstance(op, plan.ArenaOp):
            self.arenas += results
        return results

    def free(self, op: plan.FreeOp, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        """Release names: memory in an arena without other names is overwritten; that of an argument is the caller's."""
        released, names = {value: env[value] for value in op.values if isinstance(value.owner, Operation)}, _mutable(env)
        names.update(dict.fromkeys(released, _RELEASED))
        if is_concrete(list(released.values())):
            plan_interpreter.release(list(released.values()), tree_leaves(list(names.values())), self.arenas)
        return []

    def python(self, trees: Sequence[Tree], env: Mapping[SSAValue, Any]) -> list[Any]:
        def leaf(value: SSAValue | Attribute) -> Any:
            if isinstance(value, SSAValue):
                return env[value]
            if isinstance(value, FunctionAttr):
                return resolve_function(value.target.data, self.live)
            return value_of(value)

        return [python_of(tree, leaf) for tree in trees]

    def keywords(self, kwargs: Mapping[str, Tree], env: Mapping[SSAValue, Any]) -> dict[str, Any]:
        return dict(zip(kwargs, self.python(list(kwargs.values()), env), strict=True))

    def results(self, op: Operation, value: Any) -> Sequence[Any]:
        """Return the value of a call as one value per result."""
        packed = len(op.results) == 1 and isinstance(op.results[0].type, (TupleType, ValueType))
        if not op.results:
            return []
        if packed or not isinstance(value, (tuple, list)) or isinstance(value, torch.Size):
            return [value]
        if len(op.results) == 1 and not isinstance(op, (TorchOp, HigherOrderOp)):
            return [value]
        values = cast(Sequence[Any], value)
        if len(values) != len(op.results):
            raise ResultCountError(f"{op.name} returned {len(values)} values, but the op has {len(op.results)} results")
        return values

    def leaves(self, op: Operation, value: Any) -> list[Any]:
        """Return the values of a call: a list, or the tensors and numbers of a nested result."""
        if isinstance(value, list):
            return cast(list[Any], value)
        found = tree_leaves(value)
        return found if len(found) == len(op.results) else [value]

    def fx_call(self, op: CallFunctionOp | CallMethodOp | CallModuleOp | GetAttrOp, env: Mapping[SSAValue, Any]) -> Any:
        trees, keywords = op.trees()
        args, kwargs = self.python(trees, env), self.keywords(keywords, env)
        target = op.call_target() or ""
        if isinstance(op, CallFunctionOp):
            function = resolve_function(target, self.live)
            if function is getattr:
                check_attribute(args[1] if len(args) > 1 else None)
            if function is DATA or (args[1:] == ["data"] and function is getattr and isinstance(args[0], torch.Tensor)):
                return args[0].detach()  # traces treat ``data`` as a constant
            return self.call_function(function, tuple(args), kwargs)
        if isinstance(op, CallMethodOp):
            return self.call_method(target, tuple(args), kwargs)
        return (self.get_attr if isinstance(op, GetAttrOp) else self.call_module)(target, tuple(args), kwargs)

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of an operator or Python function. This and the next three are those of torch.fx.Interpreter."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(args[0], check_method(target))(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.submodule is None:
            raise TargetError(f"the module {target!r} is unknown to this interpreter")
        return self.submodule(target)(*args, **kwargs)

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.tensor is None:
            raise TargetError(f"the tensor {target!r} has no value")
        return self.tensor(target)

    def higher_order(self, op: HigherOrderOp, env: Mapping[SSAValue, Any]) -> Any:
        trees, keywords = op.trees()
        name = op.operator.removeprefix("higher_order.")
        regions = dict(zip(op.region_names(), op.regions, strict=True))

        def leaf(value: SSAValue | Attribute) -> Any:
            if isinstance(value, RegionAttr):
                return regions[value.target.data]
            return self.python([value], env)[0]

        args = [python_of(tree, leaf) for tree in trees]
        kwargs = {key: python_of(tree, leaf) for key, tree in keywords.items()}
        if name == "cond" and isinstance(args[0], (bool, torch.Tensor)) and is_concrete(args[0]):
            return self.region(args[1] if args[0] else args[2], args[3])
        if name == "while_loop" and is_concrete(args[2]):
            return self.while_loop(*args)

        def concrete(value: Any) -> Any:
            return tree_map_only(Region, self.graph_module, value)

        if name == autograd_functions.NAME:
            forward, backward, *inputs = map(concrete, args)
            return autograd_functions.apply(forward, backward, inputs, kwargs)
        kwargs = {key: concrete(value) for key, value in kwargs.items()}
        given = tuple(map(concrete, args))
        return self.call_function(
            cast(Any, resolve_higher_order(name)), separate(name, given) if name in LOOPS else given, kwargs
        )

    def region(self, region: Region, args: Sequence[Any]) -> Any:
        return self.block(region.block, list(args))

    def while_loop(self, condition: Region, body: Region, carried: Sequence[Any], extra: Sequence[Any]) -> Any:
        values = tuple(carried)
        while True:
            keep = self.region(condition, [*values, *extra])
            if not (keep[0] if isinstance(keep, (tuple, list)) else keep):
                return values
            values = tuple(self.region(body, [*values, *extra]))

    def graph_module(self, region: Region) -> torch.nn.Module:
        """Wrap a region as a module, which PyTorch's operator expects."""

        def forward(*args: Any) -> Any:
            return self.region(region, args)

        return _Callable(forward)


def _reads(op: Operation) -> Iterator[SSAValue]:
    """Yield the values that ``op`` reads, including those in its regions."""
    yield from op.operands
    if op.regions and not op.has_trait(IsolatedFromAbove):
        for region in op.regions:
            for inner in region.walk():
                yield from inner.operands


def _mutable(env: Mapping[SSAValue, Any]) -> MutableMapping[SSAValue, Any]:
    return env if isinstance(env, MutableMapping) else dict(env)


def _gradient(op: AnyNonzeroOp | AddOp | SumToSizeOp | MaterializeOp, args: Sequence[Any]) -> Any:
    """Return the result of a gradient operation; an undefined gradient is None."""
    first = args[0]
    match op:
        case AnyNonzeroOp():
            return any(gradient is not None for gradient in args)
        case AddOp():
            if first is None or args[1] is None:
                return args[1] if first is None else first
            return torch.ops.aten.add.Tensor(first, args[1])
        case SumToSizeOp():
            return first if first is None or args[1] is None else first.sum_to_size(args[1])
        case MaterializeOp():
            type = tensor_of(op.results[0])
            dtype, device = torch_dtype(type.element_type), types.device(type)
            return torch.ops.aten.zeros.default(args[1], dtype=dtype, device=torch.device(device)) if first is None else first


class _Callable(torch.nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, *args: Any) -> Any:
        return self.run(*args)


def is_concrete(value: Any) -> bool:
    """Whether ``value`` holds numbers that Python control flow may read."""
    if isinstance(value, (tuple, list)):
        return all(map(is_concrete, cast(Sequence[Any], value)))
    if isinstance(value, torch.Tensor):
        return type(value) in (torch.Tensor, torch.nn.Parameter) and not is_functorch_wrapped_tensor(value)
    return not isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat))


def error_of(error: Exception) -> FxcError:
    """Convert an error that PyTorch raised in an operation to FxcError, with the message, and the operation from the note."""
    if isinstance(error, FxcError):
        return error
    notes = [
        note.removeprefix("while running: ") for note in getattr(error, "__notes__", ()) if note.startswith("while running: ")
    ]
    no_group = "Could not resolve the process group" in str(error)
    hint = "run it under torchrun, after torch.distributed.init_process_group" if no_group else None
    return InputError(f"{type(error).__name__}: {error}", op=notes[0] if notes else None, hint=hint)
