"""The ``torch`` dialect: one op for every operator overload of PyTorch's registry.

The operators are listed in ``operators.tbl``, one line each, generated from PyTorch's schemas; a class is made when an op is
first named. ``torch.operator`` declares operators that are not in the table in the module, so a file is complete.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from fxc.dialects.attributes.types import TORCH_TYPES
from fxc.dialects.attributes.values import TORCH_ATTRIBUTES
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.operators import TABLE, HigherOrderOp, OperatorDeclOp, make_op_class, op_class, table, torch_op
from fxc.dialects.torch_ops.schema import Schema, parse_schema

__all__ = [
    "TABLE",
    "HigherOrderOp",
    "OperatorDeclOp",
    "Schema",
    "Torch",
    "TorchOp",
    "make_op_class",
    "op_class",
    "parse_schema",
    "table",
    "torch_op",
]

Torch = Dialect("torch", [OperatorDeclOp, ConstantOp], [*TORCH_ATTRIBUTES, *TORCH_TYPES, TensorLiteralAttr])
