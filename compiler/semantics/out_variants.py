"""Selection of the ``out`` overload of an operator for a call, which writes results into given tensors."""

from __future__ import annotations

from functools import cache
from importlib import resources

import torch
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation

from fxc.bridge.static_world import evaluate
from fxc.bridge.tensors import FakeWorld, type_of
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor, tensor_of
from fxc.dialects.base.effects import is_pure
from fxc.dialects.plan import storage_bytes
from fxc.dialects.semantics import OutVariant
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.schema import Schema
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.inference import quiet


def out_variant(op: Operation, symbols: DictionaryAttr | None, interpreter: ReferenceInterpreter) -> OutVariant | None:
    """See ``Semantics.out_variant``."""
    if not isinstance(op, TorchOp) or not is_pure(op) or not all(_is_writable(result.type) for result in op.results):
        return None
    found = _overload(op)
    return found if found is not None and _accepts(op, found, symbols, interpreter) else None


def _is_writable(type: object) -> bool:
    """Whether a tensor of ``type`` can be allocated, and its elements do not overlap."""
    if not is_tensor(type) or storage_bytes(type) is None:
        return False
    dims, steps = types.sizes(type), types.strides(type)
    return steps is None or all(step != 0 or size == 1 for size, step in zip(dims, steps, strict=True))


def _overload(op: TorchOp) -> OutVariant | None:
    """Return the overload with the arguments of ``op`` and a tensor for each result, if it has a kernel for the device."""
    namespace, name, _ = op.operator.split(".")
    for overload in getattr(getattr(torch.ops, namespace), name).overloads():
        cls = op_class(f"torch.{namespace}.{name}.{overload}")
        if cls is None or not issubclass(cls, TorchOp):
            continue
        outs = _outs(op.SCHEMA, cls.SCHEMA)
        if outs is not None and len(outs) == len(op.results) and _is_native(f"{namespace}::{name}.{overload}", op):
            return OutVariant(f"{namespace}.{name}.{overload}", outs)
    return None


def _outs(base: Schema, schema: Schema) -> tuple[str, ...] | None:
    """Return the arguments for the results of ``base``; None if ``schema`` differs in more than these."""
    outs = [argument for argument in schema.arguments if argument.writes]
    if any(argument.type != "Tensor" or not argument.keyword_only for argument in outs):
        return None
    rest = tuple(argument for argument in schema.arguments if not argument.writes)
    return tuple(argument.name for argument in outs) if outs and rest == base.arguments else None


def _is_native(name: str, op: TorchOp) -> bool:
    """Whether the overload has a structured kernel, instead of calling the operator and copying its result."""
    type = tensor_of(op.results[0])
    key = types.device(type).partition(":")[0].upper()
    known = name.removeprefix("aten::") in structured_overloads()
    return known and key in ("CPU", "CUDA") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


@cache
def structured_overloads() -> frozenset[str]:
    """Return the overloads of ``aten`` whose kernels get results of their final sizes, such as ``mm.out``.

    Others may temporarily resize ``out``, and write beyond its memory: ``binary_cross_entropy.out`` does. The list is read from
    PyTorch's native_functions.yaml; without that file it is empty. ``linalg_qr.out`` is wrong for results in one storage.
    """
    listed = resources.files("torchgen").joinpath("packaged/ATen/native/native_functions.yaml")
    try:
        parts = listed.read_text(encoding="utf-8").split("\n- func: ")
    except OSError:
        return frozenset()
    return frozenset(part.partition("(")[0] for part in parts if "\n  structured: True" in part) - {"linalg_qr.out"}


def _accepts(op: TorchOp, variant: OutVariant, symbols: DictionaryAttr | None, interpreter: ReferenceInterpreter) -> bool:
    """Whether the overload retains the type of fake ``out`` tensors with the result types."""
    cls = op_class(f"torch.{variant.operator}")
    assert cls is not None and issubclass(cls, TorchOp)
    buffers = dict(zip(variant.outs, op.results, strict=True))
    call = cls.build_call(*cls.divide({**op.bound(), **buffers}), op.result_types)

    def writes_in_full(world: FakeWorld) -> bool:
        with quiet(), world.active(), torch.no_grad():
            values = [*op.operands, *op.results]
            env = {value: world.fake(value.type) for value in values}
            interpreter.op(call, env)
            return all(type_of(env[result]) == result.type for result in op.results) and not world.has_guards

    try:
        return evaluate(writes_in_full, symbols)
    except Exception:  # unknown results of fake tensors: use the operator itself
        return False
    finally:
        call.drop_all_references()
