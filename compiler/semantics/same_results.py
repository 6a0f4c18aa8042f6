"""Whether two functions compute the same at given sizes: both run on the same random numbers.

PyTorch computes some operators by another formula where there is one row: ``linear`` by ``addmm``. A function that was traced
for other sizes has then other operations, and the same results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.ir import Attribute, Operation

from fxc.bridge.tensors import type_of
from fxc.dialects.attributes import types
from fxc.dialects.attributes.values import int_attr
from fxc.errors import InputError
from fxc.interpret.example_values import Seeded
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.refusals import is_of_torch
from fxc.semantics.same_types import same_types, sizes_at

_MOST = 1 << 22
"""Of so many elements a run takes longer than a trace."""


class _OtherType(Exception):
    """An operation gives another type than the function states."""


def same_results(first: func.FuncOp, second: func.FuncOp, numbers: Mapping[str, int]) -> bool:
    """Whether ``first``, where symbols have ``numbers``, runs with the types that it states and computes what ``second`` does.

    Not where that takes too long, or cannot be run.
    """
    inputs = list(first.body.block.arg_types)
    if not same_types(inputs, list(second.body.block.arg_types), numbers) or not _is_small(inputs, numbers):
        return False

    def watch(op: Operation, results: Any, _: Any) -> None:
        if not same_types(op.result_types, [type_of(result) for result in results], numbers):
            raise _OtherType

    try:
        return _agree(
            _run(first, numbers, ReferenceInterpreter({}, watch=watch)), _run(second, numbers, ReferenceInterpreter({}))
        )
    except (_OtherType, InputError):
        return False
    except Exception as error:
        if not is_of_torch(error):
            raise
        return False


def _is_small(inputs: list[Attribute], numbers: Mapping[str, int]) -> bool:
    total = 0
    for type in inputs:
        if isinstance(type, TensorType):
            shape = sizes_at(type, numbers)
            if shape is None or types.device(type) != "cpu":
                return False
            total += torch.Size(shape).numel()
    return total <= _MOST


def _run(function: func.FuncOp, numbers: Mapping[str, int], interpreter: ReferenceInterpreter) -> list[Any]:
    symbols = DictionaryAttr({name: DictionaryAttr({"hint": int_attr(number)}) for name, number in numbers.items()})
    seeded = Seeded(symbols)
    inputs = [seeded.value(type) for type in function.body.block.arg_types]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return interpreter.call(function, inputs)


def _agree(some: list[Any], others: list[Any]) -> bool:
    try:
        torch.testing.assert_close(some, others, equal_nan=True)
    except AssertionError:
        return False
    return True
