"""Operators whose derivatives of higher order are not those of the derivative that PyTorch traces."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.passes.operators.record import Operator, each

RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("linalg_solve.default linalg_solve_ex.default _linalg_solve_ex.default", other_derivative=True),
        **each("linalg_slogdet.default _linalg_slogdet.default slogdet.default logdet.default", other_derivative=True),
        "higher_order.autograd_function_apply": Operator(states_backward=True),
    }
)
"""Operator -> its record."""
