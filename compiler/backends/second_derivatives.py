"""Whether a derivative gives second derivatives when autograd differentiates it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.autodiff import GradientAttr, gradient_type, is_differentiable
from fxc.dialects.fusion import GroupOp
from fxc.dialects.semantics import Semantics, Vjp
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.traits import is_other_when_differentiated_again
from fxc.passes.autodiff._functions import unpack
from fxc.passes.autodiff._reverse import TWICE
from fxc.runtime.second_backward import NAMES


def gives_second_derivatives(semantics: Semantics, f: FuncOp, df: FuncOp, gradient: GradientAttr) -> bool:
    """Whether ``df`` was made for it, or is the same as one that was.

    It is not where autograd cannot differentiate ``df``, as there are kernels in it, or operators without a derivative. Nor is
    it where PyTorch has another backward for an op of ``f`` that is to be differentiated again, and ``second_backward`` has
    none: that of ``linalg.solve`` reads the factors that the forward made, which carry no gradient. Nor is it where ``df``
    reads a temporary of ``f`` whose gradient it does not take, as there is none in the first backward: of ``svd``, the factors
    that are not used.
    """
    if TWICE in df.attributes:
        return True
    inputs = [f.args[i] for i in gradient.indices("output_vjps")]
    active, reached = set[SSAValue](inputs), set[SSAValue](inputs)
    if not all(_has_one_backward(semantics, op, reached) for op in _walk(f, reached, through_kernels=True)):
        return False
    for op in _walk(f, active):  # what kernels give may be statistics, which carry none: df says what is taken of them
        _has_one_backward(semantics, op, active)
    last = f.body.block.last_op
    assert last is not None
    taken = set(gradient.indices("input_vjps"))
    carried = [True] * len(taken) + [i in gradient.indices("output_vjps") for i in gradient.indices("captured_inputs")]
    carried += [i in taken for i in gradient.indices("captured_outputs")]
    if not _is_differentiable(semantics, df, {value for value, is_ in zip(df.args, carried, strict=True) if is_}):
        return False
    captured = gradient.indices("captured_outputs")
    read = df.args[len(df.args) - len(captured) :]
    return all(
        i in taken or last.operands[i] not in active or all(_computes_again(use.operation) for use in value.uses)
        for i, value in zip(captured, read, strict=True)
    )


def _is_differentiable(semantics: Semantics, df: FuncOp, reached: set[SSAValue]) -> bool:
    """Whether each op of ``df`` through which gradients go back to ``reached``, which grows, has a derivative."""
    for op in df.walk():
        needs = [operand in reached for operand in op.operands]
        cotangents = {i: gradient_type(r.type) for i, r in enumerate(op.results) if is_differentiable(r.type)}
        if not any(needs) or not cotangents:
            continue
        if isinstance(op, LaunchOp):
            return False
        reached.update(op.results[i] for i in cotangents)
        if isinstance(op, TorchOp) and not _computes_again(op) and not _has_derivative(semantics, op, needs, cotangents):
            return False
    return True


def _has_derivative(semantics: Semantics, op: TorchOp, needs: list[bool], cotangents: dict[int, TensorType]) -> bool:
    try:
        semantics.vjp(op, needs, cotangents, twice=True)
    except VerifyException:
        return False
    return True


def _walk(around: Operation, active: set[SSAValue], through_kernels: bool = False) -> Iterator[Operation]:
    """The operators of a function or group, in order; what a group gives is ``active`` as what it yields is, and all that a
    kernel gives where gradients are followed through kernels, which do not say what of it is.
    """
    for op in around.regions[0].block.ops:
        if isinstance(op, GroupOp):
            yield from _walk(op, active, through_kernels)
            active.update(new for new, old in zip(op.results, op.yielded(), strict=True) if old in active)
        elif isinstance(op, LaunchOp):
            if through_kernels and not active.isdisjoint(op.operands):
                active.update(result for result in op.results if is_differentiable(result.type))
        elif isinstance(op, (TorchOp, HigherOrderOp)):
            yield op


def _has_one_backward(semantics: Semantics, op: Operation, active: set[SSAValue]) -> bool:
    """Whether it is the same one in any case; adds the results that carry gradients to ``active``."""
    needs = [operand in active for operand in op.operands]
    cotangents = {i: gradient_type(r.type) for i, r in enumerate(op.results) if is_differentiable(r.type)}
    if not any(needs) or not cotangents:
        return True
    try:
        once = semantics.vjp(op, needs, cotangents, twice=is_other_when_differentiated_again(op))
    except VerifyException:  # no gradient was asked of it, or there would be no derivative
        return True
    try:
        twice = semantics.vjp(op, needs, cotangents, twice=True)
    except VerifyException:
        return False
    if _has_another(once):
        active.update(op.results[i] for i in once.cotangents if i not in once.results)
        return True
    active.update(op.results[i] for i in (cotangents if once.forward is not None else once.cotangents))
    return _facts(once) == _facts(twice) and _equal(once.backward, twice.backward) and _equal(once.forward, twice.forward)


def _has_another(vjp: Vjp) -> bool:
    """Whether there is another backward for an operator of this one, and nothing else reads what the forward made."""
    if vjp.backward is None or not any(map(_computes_again, vjp.backward.walk())):
        return False
    saved = vjp.backward.args[len(vjp.backward.args) - len(vjp.results) :]
    return all(_computes_again(use.operation) for value in saved for use in value.uses)


def _computes_again(op: Operation) -> bool:
    """Whether ``second_backward`` has another for ``op``, which computes again what that reads of the forward."""
    return isinstance(op, TorchOp) and op.operator in NAMES


def _facts(vjp: Vjp) -> tuple[object, ...]:
    return vjp.cotangents, vjp.operands, vjp.results, vjp.gradients


def _equal(a: FuncOp | None, b: FuncOp | None) -> bool:
    if a is None or b is None:
        return a is b
    unpack(a)
    unpack(b)
    return a.is_structurally_equivalent(b)
