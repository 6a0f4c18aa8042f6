"""Random operators that run again in the backward, from the state of the generator that the forward saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr, TupleType
from xdsl.ir import Attribute, Block, SSAValue

from fxc.dialects.attributes.types import VALUE, tuple_type
from fxc.dialects.attributes.values import FunctionAttr, Tree, int_attr, map_tree
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp, PositionalCall
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops import op_class
from fxc.dialects.torch_ops.base import TorchOp

_SAVE, _RUN = "torch.higher_order.run_and_save_rng_state", "torch.higher_order.run_with_rng_state"


def save_state(ctx: FxcContext, op: TorchOp, block: Block, values: dict[SSAValue, SSAValue]) -> SSAValue:
    """Add ``op`` to ``block`` with its operands mapped by ``values``. Returns the state of the generator before it."""
    [packed] = ctx.semantics.infer(_call(_SAVE, (), op, values, [VALUE]))
    assert isinstance(packed, TupleType)
    state, _ = packed.types.data
    call = _call(_SAVE, (), op, values, [state, _returned(op)])
    call.results[0]._name = "state"
    block.add_op(call)
    _add_results(op, call.results[1], block, values)
    return call.results[0]


def run_with_state(op: TorchOp, state: SSAValue, block: Block, values: dict[SSAValue, SSAValue]) -> None:
    """Add ``op`` to ``block`` with its operands mapped by ``values``, sampling from ``state``."""
    call = _call(_RUN, (state,), op, values, [_returned(op)])
    block.add_op(call)
    _add_results(op, call.results[0], block, values)


def _call(
    name: str, first: Sequence[Tree], op: TorchOp, values: Mapping[SSAValue, SSAValue], types: Sequence[Attribute]
) -> PositionalCall:
    def leaf(value: SSAValue | Attribute) -> SSAValue | Attribute:
        return values[value] if isinstance(value, SSAValue) else value

    args, kwargs = op.trees()
    cls = op_class(name)
    assert cls is not None and issubclass(cls, PositionalCall)
    called = FunctionAttr(StringAttr(f"torch.ops.{op.operator}"))
    return cls.build_call(
        [*first, called, *(map_tree(arg, leaf) for arg in args)],
        {key: map_tree(value, leaf) for key, value in kwargs.items()},
        types,
        location=op.location,
    )


def _returned(op: TorchOp) -> Attribute:
    return op.result_types[0] if len(op.results) == 1 else tuple_type(op.result_types)


def _add_results(op: TorchOp, returned: SSAValue, block: Block, values: dict[SSAValue, SSAValue]) -> None:
    """Map the results of ``op`` to what the call returned."""
    made = [returned]
    if len(op.results) > 1:
        gets = [
            CallFunctionOp.build_call([returned, int_attr(index)], {}, [type], target="operator.getitem", location=op.location)
            for index, type in enumerate(op.result_types)
        ]
        block.add_ops(gets)
        made = [get.results[0] for get in gets]
    copy_names(op.results, made)
    values.update(zip(op.results, made, strict=True))
