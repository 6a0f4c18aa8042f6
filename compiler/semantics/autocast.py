"""The casts that autocast inserts before an operator, observed on fake tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from fxc.bridge.static_world import IS_PLAIN, evaluate
from fxc.bridge.tensors import FakeWorld
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.inference import quiet

State = Mapping[str, str | None]


def casts(op: Operation, state: State, symbols: DictionaryAttr | None, interpreter: ReferenceInterpreter) -> dict[int, str]:
    """Return operand -> dtype. VerifyException if the call is rejected, or if autocast does more than casts of operands."""
    return evaluate(lambda world: _watched(op, state, world, interpreter), symbols)


def _watched(op: Operation, state: State, world: FakeWorld, interpreter: ReferenceInterpreter) -> dict[int, str]:
    with quiet(), torch.no_grad(), world.active():
        fakes = {value: world.fake(value.type) for value in dict.fromkeys(op.operands)}
        operands = [fakes[value] for value in op.operands]
        try:
            expected, under = _run(op, operands, state, interpreter)
            own = _casts_when_disabled(op, operands, interpreter) if under else {}
            found = {i: dtype for i, dtype in under.items() if own.get(i) is not dtype}
            cast = [value.to(found[i]) if i in found else value for i, value in enumerate(operands)]
            result, _ = _run(op, cast, {}, interpreter)
        except VerifyException:
            raise
        except Exception as error:
            raise VerifyException(f"{op.name} cannot run under autocast: {error}") from error
    if _dtypes(expected) != _dtypes(result):
        raise VerifyException(f"autocast changes {op.name} by more than casts of its operands")
    return {i: str(dtype).removeprefix("torch.") for i, dtype in sorted(found.items())}


def _casts_when_disabled(op: Operation, operands: list[Any], interpreter: ReferenceInterpreter) -> dict[int, torch.dtype]:
    """Return the leading casts with autocast off; empty if ``op`` rejects operands of several types then."""
    try:
        return _run(op, operands, {}, interpreter)[1]
    except RuntimeError:
        return {}


def _run(
    op: Operation, operands: list[Any], state: State, interpreter: ReferenceInterpreter
) -> tuple[Any, dict[int, torch.dtype]]:
    """Run ``op`` with autocast on for ``state`` only; return its results, and the casts of operands before other operators."""
    watch = _FirstCasts(operands)
    with ExitStack() as stack:
        for kind in torch._C._autocast_supported_devices():
            if kind in state or torch.is_autocast_enabled(kind):
                dtype = None if state.get(kind) is None else getattr(torch, str(state[kind]))
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=kind in state, cache_enabled=False))
        stack.enter_context(watch)
        return interpreter.op(op, dict(zip(op.operands, operands, strict=True))), watch.found


class _FirstCasts(TorchDispatchMode):
    def __init__(self, operands: list[Any]) -> None:
        super().__init__()
        self.operands, self.found, self.watching = operands, dict[int, torch.dtype](), True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return not IS_PLAIN

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "prim":  # queries of device or layout
            return result
        self.watching = self.watching and func is torch.ops.aten._to_copy.default
        if not self.watching:
            return result
        for i, operand in enumerate(self.operands):
            if operand is args[0]:
                self.found[i] = result.dtype
        return result


def _dtypes(values: Any) -> list[Any]:
    return [value.dtype if isinstance(value, torch.Tensor) else type(value) for value in tree_leaves(list(values))]
