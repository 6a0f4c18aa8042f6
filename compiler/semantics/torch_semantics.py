"""Semantics of operators, obtained from PyTorch: the only module through which passes reach torch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from fxc.bridge.static_world import IS_PLAIN, evaluate
from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import attribute_of, literal_of, tensor_of, value_of
from fxc.dialects.attributes.types import SYMBOLS, is_tensor
from fxc.dialects.equations import Snippet
from fxc.dialects.semantics import Jvp, OutVariant, Vjp
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import TensorLiteralAttr
from fxc.errors import TORCH_COMPILE, CaptureError, FxcError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.runtime import replacements
from fxc.semantics.convert import convert
from fxc.semantics.decompose import decompose
from fxc.semantics.differentiate import Differentiator
from fxc.semantics.functionalize import functionalize
from fxc.semantics.inference import TypeInference, call_key, quiet
from fxc.semantics.out_variants import out_variant
from fxc.semantics.snippets import retrace


class TorchSemantics:
    """``fxc.dialects.semantics.Semantics`` implemented with PyTorch. ``live``: as in ``Program``."""

    def __init__(self, live: dict[str, Any] | None = None) -> None:
        self.live = live if live is not None else {}
        self._interpreter = ReferenceInterpreter({})
        self._differentiator = Differentiator(self._interpreter)
        self._inference = TypeInference()
        self._decompositions = dict[Hashable, FuncOp | None]()
        self._autocasts = dict[Hashable, Mapping[int, str]]()
        self._out_variants = dict[Hashable, OutVariant | None]()

    def infer(self, op: Operation) -> Sequence[Attribute]:
        return self._inference.infer(op, symbols_around(op))

    def remember(self, module: ModuleOp) -> None:
        if (symbols := symbols_around(module)) is not None:  # known sizes are inferred in less time
            for op in module.walk():
                if isinstance(op, TorchOp) and not op.regions:
                    self._inference.remember(op, symbols)

    def requires_grad(self, op: Operation, operands: Sequence[bool]) -> Sequence[bool]:
        return self._inference.requires_grad(op, operands, symbols_around(op))

    def aliases(self, op: Operation) -> Sequence[tuple[int, int]]:
        return self._inference.aliases(op, symbols_around(op))

    def returned(self, op: Operation) -> Sequence[tuple[int, int]]:
        return self._inference.returned(op, symbols_around(op))

    def evaluate(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> Sequence[Attribute] | None:
        if not self._fits(op, operands, max_elements):
            return None
        try:
            env = {value: _constant(attr, value.type) for value, attr in zip(op.operands, operands, strict=True)}
            with torch.no_grad():
                results = self._interpreter.op(op, env)
            return [_attribute(result) for result in results]
        except Exception:  # errors of the call must be raised at run time
            return None

    def _fits(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> bool:
        """Whether every result is a plain tensor of at most ``max_elements`` or a host value, according to fake tensors."""

        def run(world: FakeWorld) -> list[Any]:
            with world.active(), torch.no_grad():
                env = {
                    value: world.fake(value.type) if isinstance(attr, TensorLiteralAttr) else value_of(attr)
                    for value, attr in zip(op.operands, operands, strict=True)
                }
                return tree_leaves(list(self._interpreter.op(op, env)))

        try:
            results = evaluate(run, None)
        except Exception:  # fake tensors cannot compute data-dependent values; small operands bound the work
            return isinstance(op, TorchOp) and bool(op.operands) and "y" not in op.FLAGS
        return all(not isinstance(r, torch.Tensor) or (type(r.numel()) is int and r.numel() <= max_elements) for r in results)

    def decompose(self, op: Operation) -> FuncOp | None:
        assert isinstance(op, TorchOp)
        symbols = symbols_around(op)
        key = call_key(op, symbols)
        if key not in self._decompositions:
            self._decompositions[key] = decompose(op, symbols, self._interpreter)
        found = self._decompositions[key]
        return None if found is None else found.clone()

    def out_variant(self, op: Operation) -> OutVariant | None:
        symbols = symbols_around(op)
        key = call_key(op, symbols)
        if key not in self._out_variants:
            self._out_variants[key] = out_variant(op, symbols, self._interpreter)
        return self._out_variants[key]

    def autocast(self, op: Operation, state: Mapping[str, str | None]) -> Mapping[int, str]:
        symbols = symbols_around(op)
        key = call_key(op, symbols), tuple(state.items())
        if key not in self._autocasts:
            self._autocasts[key] = casts(op, state, symbols, self._interpreter)
        return self._autocasts[key]

    def convert_fx_to_torch(self, module: ModuleOp, function: FuncOp) -> None:
        convert(module, function, self.live)

    def functionalize(self, module: ModuleOp, function: FuncOp) -> None:
        functionalize(module, function)

    def vjp(self, op: Operation, needs: Sequence[bool], cotangents: Mapping[int, Attribute], *, twice: bool = False) -> Vjp:
        return self._differentiator.vjp(op, needs, cotangents, symbols_around(op), twice)

    def has_second_backward(self, operator: str) -> bool:
        return operator in replacements.NAMES

    def retrace(
        self, function: FuncOp, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None
    ) -> Snippet | None:
        return retrace(function, level, arguments, symbols)

    def jvp(self, op: Operation, needs: Sequence[bool]) -> Jvp:
        return self._differentiator.jvp(op, needs, symbols_around(op))


def symbols_around(op: Operation) -> DictionaryAttr | None:
    """Return the symbols of the module that contains ``op``."""
    around: Operation | None = op
    while around is not None:
        symbols = around.attributes.get(SYMBOLS)
        if isinstance(symbols, DictionaryAttr):
            return symbols
        around = around.parent_op()
    return None


def _constant(attr: Attribute, type: Attribute) -> Any:
    if isinstance(attr, TensorLiteralAttr):
        assert is_tensor(type)
        return tensor_of(attr, type)
    return value_of(attr)


def _attribute(value: Any) -> Attribute:
    if not isinstance(value, torch.Tensor):
        return attribute_of(value)
    if value.layout is not torch.strided or value.is_quantized or type(value) is not torch.Tensor or value.device.type != "cpu":
        raise CaptureError("not a plain tensor")
    if not value.is_contiguous():
        raise FxcError("a constant is contiguous")
    return literal_of(value)


State = Mapping[str, str | None]


def casts(op: Operation, state: State, symbols: DictionaryAttr | None, interpreter: ReferenceInterpreter) -> dict[int, str]:
    """Return operand -> dtype. CaptureError if the call is rejected, or if autocast does more than casts of operands."""
    return evaluate(lambda world: _watched(op, state, world, interpreter), symbols)


def _watched(op: Operation, state: State, world: FakeWorld, interpreter: ReferenceInterpreter) -> dict[int, str]:
    with quiet(), torch.no_grad(), world.active():
        fakes = {value: world.fake(value.type) for value in dict.fromkeys(op.operands)}
        operands = [fakes[value] for value in op.operands]
        try:
            under, calls = _run(op, operands, state, interpreter)
            own = _casts_when_disabled(op, operands, interpreter) if under else {}
            found = {i: dtype for i, dtype in under.items() if own.get(i) is not dtype}
            cast = [value.to(found[i]) if i in found else value for i, value in enumerate(operands)]
            if _run(op, cast, {}, interpreter)[1] != calls:
                raise VerifyException("autocast casts more than its operands")
        except Exception as error:
            message = f"{op.name} cannot run under autocast: {error}"
            raise CaptureError(message, place=place_of(op), hint=f"use {TORCH_COMPILE}") from error
    return {i: str(dtype).removeprefix("torch.") for i, dtype in sorted(found.items())}


def _casts_when_disabled(op: Operation, operands: list[Any], interpreter: ReferenceInterpreter) -> dict[int, torch.dtype]:
    """Return the leading casts with autocast off; empty if ``op`` rejects operands of several types then."""
    try:
        return _run(op, operands, {}, interpreter)[0]
    except RuntimeError:
        return {}


def _run(
    op: Operation, operands: list[Any], state: State, interpreter: ReferenceInterpreter
) -> tuple[dict[int, torch.dtype], list[Any]]:
    """Run ``op`` with autocast on for ``state`` only.

    Returns the casts of operands before other operators, and these operators with the dtypes of their results.
    """
    watch = _FirstCasts(operands)
    with ExitStack() as stack:
        for kind in torch._C._autocast_supported_devices():
            if kind in state or torch.is_autocast_enabled(kind):
                dtype = None if state.get(kind) is None else getattr(torch, str(state[kind]))
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=kind in state, cache_enabled=False))
        stack.enter_context(watch)
        interpreter.op(op, dict(zip(op.operands, operands, strict=True)))
    return watch.found, watch.calls


class _FirstCasts(TorchDispatchMode):
    def __init__(self, operands: list[Any]) -> None:
        super().__init__()
        self.operands, self.found, self.watching = operands, dict[int, torch.dtype](), True
        self.calls = list[Any]()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return not IS_PLAIN

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "prim":  # queries of device or layout
            return result
        is_cast = func is torch.ops.aten._to_copy.default
        self.watching = self.watching and is_cast
        if not is_cast:
            self.calls.append((func, _dtypes(result)))
        if not self.watching:
            return result
        for i, operand in enumerate(self.operands):
            if operand is args[0]:
                self.found[i] = result.dtype
        return result


def _dtypes(values: Any) -> list[Any]:
    return [value.dtype if isinstance(value, torch.Tensor) else type(value) for value in tree_leaves(values)]
