"""Which of PyTorch's pointwise operators, reductions and scans kernels compute: ``python -m tests.opinfo.coverage``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from fxc.bridge.callables import resolve_operator
from fxc.dialects.torch_ops import op_class, table
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.record import Operator
from fxc.passes.operators.table import OPERATORS
from tests.kernel_groups import COVERED, LINALG, Call, GroupBuilder, calls_of, run_passes

REDUCTIONS = (
    "sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "amax.default", "amin.default", "max.default", "min.default",
    "max.dim", "min.dim", "aminmax.default", "prod.default", "prod.dim_int", "argmax.default", "argmin.default", "any.default",
    "any.dim", "any.dims", "all.default", "all.dim", "all.dims", "var.default", "var.dim", "var.correction", "std.default",
    "std.dim", "std.correction", "var_mean.default", "var_mean.dim", "var_mean.correction", "std_mean.default", "std_mean.dim",
    "std_mean.correction", "logsumexp.default", "norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm.default",
    "count_nonzero.default", "count_nonzero.dim_IntList", "nansum.default", "median.default", "median.dim",
)  # fmt: skip
"""Reductions of ``aten``."""

SCANS = ("cumsum.default", "cumprod.default", "cummax.default", "cummin.default", "logcumsumexp.default")
"""Cumulative operators of ``aten``."""

LEFT: Mapping[str, str] = MappingProxyType(
    {
        "aten.equal.default": "one answer for the host, not an element each",
        "aten.positive.default": "canonicalize puts its operand in its place",
        "aten.median.default": "a selection, which is a sort",
        "aten.median.dim": "a selection, which is a sort",
        "aten.logcumsumexp.default": "combines pairs of a maximum and a sum; tile.scan combines numbers",
    }
)
"""Operator -> why it stays PyTorch's."""

TYPES: Mapping[str, str] = MappingProxyType(
    {
        "complex numbers": "no dtype of a kernel: each operator would be several on pairs, and views of a pair's parts",
        "an integer division by a value, or a negative integer power": "PyTorch raises an error for some values",
    }
)
"""Calls of covered operators that stay PyTorch's, and why."""


def pointwise_operators() -> list[str]:
    """The operators with PyTorch's tag ``pointwise`` that draw and write nothing."""
    classes = {name: op_class(f"torch.{name}") for name in table() if name.startswith("aten.")}
    found = {name: cls for name, cls in classes.items() if cls is not None and issubclass(cls, TorchOp)}
    return [name for name, cls in found.items() if "p" in cls.FLAGS and "r" not in cls.FLAGS and not cls.SCHEMA.mutates]


_VALUES: Mapping[str, Any] = MappingProxyType(
    {"Scalar": 2, "Scalar?": 2, "int": 1, "float": 0.5, "int[]": [1], "int[1]": [1], "bool": False, "int?": 1, "bool?": False}
)


def sample(name: str, dtype: torch.dtype = torch.float32) -> Call | None:
    """A call of the operator with a matrix for each tensor; None where it takes something else."""
    cls = op_class(f"torch.{name}")
    assert cls is not None and issubclass(cls, TorchOp)
    needed = [cls.SCHEMA.by_name[argument].type for argument in cls.SCHEMA.required]
    matrix = (torch.arange(12).reshape(3, 4) + 2).to(dtype) / 8
    arguments = [matrix.clone() if type == "Tensor" else _VALUES.get(type, [1]) for type in needed]
    target = resolve_operator(name)
    calls = [call for call in calls_of(partial(target, *arguments)) if call.name == name]
    if calls:
        return calls[0]
    try:
        return Call(target, tuple(arguments), {}, target(*arguments))
    except Exception:
        return None


def is_made_of_rules(name: str) -> bool:
    """Whether the parts of the operator have rules: a group with a call of it becomes loops."""
    if (call := sample(name)) is None:
        return False
    builder = GroupBuilder()
    builder.call(call)
    outputs = list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]
    if not all(isinstance(output, torch.Tensor) for output in outputs):
        return False
    return bool(run_passes(builder.module(outputs), LINALG)["groups converted"])


def how(name: str) -> str:
    """``rule``, ``parts``, ``scan``, or ``left`` where PyTorch's own runs."""
    if name in COVERED:
        return "rule"
    if OPERATORS.get(name, Operator()).scan:
        return "scan"
    return "parts" if is_made_of_rules(name) else "left"


def report() -> Iterator[str]:
    """The lines of the report: how many of each family, and why others are left."""
    families: Mapping[str, Sequence[str]] = {
        "pointwise": pointwise_operators(),
        "reductions": [f"aten.{name}" for name in REDUCTIONS],
        "cumulative": [f"aten.{name}" for name in SCANS],
    }
    for family, names in families.items():
        found = {name: how(name) for name in names}
        counts = {way: sum(value == way for value in found.values()) for way in ("rule", "parts", "scan", "left")}
        covered = len(names) - counts["left"]
        ways = ", ".join(f"{count} by {way}" for way, count in counts.items() if count and way != "left")
        yield f"{family}: {covered} of {len(names)} ({ways})"
        yield from (f"  {name}: {LEFT.get(name, 'NO REASON GIVEN')}" for name, way in found.items() if way == "left")
    yield f"random, on request: {sum(record.sampled is not None for record in OPERATORS.values())} operators"
    yield "calls of these that are left:"
    yield from (f"  {what}: {why}" for what, why in TYPES.items())


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print("\n".join(report()))


if __name__ == "__main__":
    main()
