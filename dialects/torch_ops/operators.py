"""The classes of PyTorch's operators: one is made when an operator is first named."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdsl.ir import Operation

from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.higher_order import HigherOrderOp
from fxc.dialects.torch_ops.schema import parse_schema

TABLE = Path(__file__).parent / "operators.tbl"


@cache
def table() -> dict[str, tuple[str, str]]:
    """``aten.add.Tensor`` -> (flags, signature)."""
    with TABLE.open(encoding="utf-8") as lines:
        rows = (line.rstrip("\n").split("\t", 2) for line in lines if not line.startswith("#"))
        return {name: (flags, signature) for name, flags, signature in rows}


@cache
def op_class(name: str) -> type[Operation] | None:
    """The class of the op ``name`` (``torch.aten.add.Tensor``), or None where it is not in the table."""
    operator = name.removeprefix("torch.")
    if operator.startswith("higher_order."):
        return type(operator.replace(".", "_"), (HigherOrderOp,), {"name": name})
    row = table().get(operator)
    return None if row is None else make_op_class(operator, *row)


@cache
def make_op_class(operator: str, flags: str, signature: str) -> type[TorchOp]:
    """The class of an operator, from its schema. Equal arguments return the same class."""
    return type(
        operator.replace(".", "_"),
        (TorchOp,),
        {
            "name": f"torch.{operator}",
            "SCHEMA": (schema := parse_schema(signature)),
            "FLAGS": flags,
            "PROPERTY_NAMES": (*schema.by_name, "keywords"),
            "__doc__": f"{operator}{signature}",
        },
    )


def torch_op(operator: str) -> type[TorchOp]:
    """The class of ``aten.add.Tensor``, to build or match calls of it. ValueError where it is not in the table."""
    found = op_class(f"torch.{operator}")
    if found is None or not issubclass(found, TorchOp):
        raise ValueError(f"PyTorch has no operator {operator}; names are as in aten.add.Tensor, aten.relu.default")
    return found
