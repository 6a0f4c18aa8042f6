"""Second derivatives: whether autograd can differentiate a derivative, and which op prevents it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.autodiff import GradientAttr, GradOfOp, gradient_type
from fxc.dialects.fusion import GroupOp
from fxc.dialects.semantics import Semantics, Vjp
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.passes.analysis.requires_grad import requires_grad
from fxc.passes.autodiff.activity import TWICE
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.unpacking import unpack_tuples


def second_derivative_obstacle(semantics: Semantics, f: FuncOp, df: FuncOp, gradient: GradientAttr) -> Operation | None:
    """The op that prevents autograd from computing second derivatives through ``df``; None where there is no obstacle.

    There is none where ``df`` was made to be differentiated, or is equal to a derivative that was. Obstacles are:

    - autograd cannot differentiate ``df``, because it has kernels or operators without a derivative;
    - PyTorch has another backward for an op of ``f`` where it is differentiated again, and no differentiable one replaces it:
      the backward of ``linalg.solve`` reads the factors that the forward computed, which carry no gradient;
    - ``df`` depends on a temporary of ``f`` whose gradient it does not take, because the first backward has none: the unused
      factors of ``svd``.
    """
    return None if TWICE in df.attributes else _at_fault(semantics, f, df, gradient)


def _at_fault(semantics: Semantics, f: FuncOp, df: FuncOp, gradient: GradientAttr) -> Operation | None:
    """An op of ``f`` or ``df`` whose second derivative differs from the one that autograd computes through ``df``."""
    reached = set[SSAValue](f.args[i] for i in gradient.indices("output_vjps"))
    operators = (op for op in _walk(f, reached) if isinstance(op, (TorchOp, HigherOrderOp)))
    other = next((op for op in operators if not _has_one_backward(semantics, op, reached)), None)
    if other is not None:
        return other
    last = f.body.block.last_op
    assert last is not None
    taken = set(gradient.indices("input_vjps"))
    captured = gradient.indices("captured_outputs")
    carried = [True] * len(taken) + [i in gradient.indices("output_vjps") for i in gradient.indices("captured_inputs")]
    carried += [i in taken for i in captured]
    constant = _without_derivative(semantics, df, {value for value, is_ in zip(df.args, carried, strict=True) if is_})
    if constant is not None:
        return constant
    read = zip(captured, df.args[len(df.args) - len(captured) :], strict=True)
    temporaries = {value: last.operands[i] for i, value in read if i not in taken and requires_grad(value)}
    if not _depends(semantics, df, set(temporaries)):
        return None
    owners = [value.owner for value in temporaries.values()]
    return next((owner for owner in owners if isinstance(owner, Operation)), df)


def _without_derivative(semantics: Semantics, df: FuncOp, reached: set[SSAValue]) -> Operation | None:
    """The first op of ``df`` without a derivative through which gradients flow back to ``reached``, which grows."""
    for op in _walk(df, reached):
        needs, cotangents = [operand in reached for operand in op.operands], _cotangents(op)
        if not any(needs) or not cotangents:
            continue
        if isinstance(op, LaunchOp):
            return op
        reached.update(op.results[i] for i in cotangents)
        if (
            isinstance(op, TorchOp)
            and not _computes_again(semantics, op)
            and not _has_derivative(semantics, op, needs, cotangents)
        ):
            return op
    return None


def _depends(semantics: Semantics, df: FuncOp, reached: set[SSAValue]) -> bool:
    """Whether a derivative of ``df`` depends on ``reached``, which grows.

    The statistics that a normalization passes to its backward do not count: PyTorch has no derivative with respect to them,
    because the derivative with respect to the operand includes them.
    """
    for op in _walk(df, reached):
        needs, cotangents = [operand in reached for operand in op.operands], _cotangents(op)
        if not any(needs) or not cotangents or _computes_again(semantics, op):
            continue
        for value in {*op.operands} & reached:
            alone = [operand is value for operand in op.operands]
            if not isinstance(op, (TorchOp, HigherOrderOp)) or _has_part(semantics, op, alone, cotangents):
                reached.update(op.results[i] for i in cotangents)
    last = df.body.block.last_op
    return last is not None and not reached.isdisjoint(last.operands)


def _has_part(semantics: Semantics, op: Operation, needs: list[bool], cotangents: dict[int, TensorType]) -> bool:
    """Whether the derivative of ``op`` has a term for the operand marked in ``needs``."""
    try:
        vjp = semantics.vjp(op, needs, cotangents, twice=True)
    except VerifyException:
        return False
    return vjp.forward is not None or bool(vjp.gradients)


def _cotangents(op: Operation) -> dict[int, TensorType]:
    return {i: gradient_type(r.type) for i, r in enumerate(op.results) if requires_grad(r)}


def _has_derivative(semantics: Semantics, op: TorchOp, needs: list[bool], cotangents: dict[int, TensorType]) -> bool:
    try:
        semantics.vjp(op, needs, cotangents, twice=True)
    except VerifyException:
        return False
    return True


def _walk(around: Operation, reached: set[SSAValue]) -> Iterator[Operation]:
    """The operations of a function, and of the groups and gradients in it, in order.

    Results of a group or gradient are ``reached`` as its yielded values are, those of a kernel if an operand is.
    """
    for op in around.regions[0].block.ops:
        if isinstance(op, (GroupOp, GradOfOp)):
            yield from _walk(op, reached)
            last = op.body.block.last_op
            assert last is not None
            reached.update(new for new, old in zip(op.results, last.operands, strict=True) if old in reached)
            continue
        yield op
        if isinstance(op, LaunchOp) and not reached.isdisjoint(op.operands):
            reached.update(op.results[i] for i in _cotangents(op))


def _has_one_backward(semantics: Semantics, op: Operation, reached: set[SSAValue]) -> bool:
    """Whether ``op`` has one backward for first and second derivatives. Adds results that carry gradients to ``reached``."""
    needs, cotangents = [operand in reached for operand in op.operands], _cotangents(op)
    if not any(needs) or not cotangents:
        return True
    if operator_of(op).states_backward:  # in f the region may be lowered to kernels
        reached.update(op.results[i] for i in cotangents)
        return True
    try:
        once = semantics.vjp(op, needs, cotangents, twice=operator_of(op).other_derivative)
    except VerifyException:  # no gradient of it is needed, or there would be no derivative
        return True
    try:
        twice = semantics.vjp(op, needs, cotangents, twice=True)
    except VerifyException:
        return False
    if _has_another(semantics, once):
        reached.update(op.results[i] for i in once.cotangents if i not in once.results)
        return True
    reached.update(op.results[i] for i in (cotangents if once.forward is not None else once.cotangents))
    return _facts(once) == _facts(twice) and _equal(once.backward, twice.backward) and _equal(once.forward, twice.forward)


def _has_another(semantics: Semantics, vjp: Vjp) -> bool:
    """Whether an operator of this backward has another one for second derivatives, and nothing else reads the saved results."""
    if vjp.backward is None or not any(_computes_again(semantics, op) for op in vjp.backward.walk()):
        return False
    saved = vjp.backward.args[len(vjp.backward.args) - len(vjp.results) :]
    return all(_computes_again(semantics, use.operation) for value in saved for use in value.uses)


def _computes_again(semantics: Semantics, op: Operation) -> bool:
    """Whether autograd replaces ``op`` by another backward, which recomputes the values that ``op`` reads from the forward."""
    return isinstance(op, TorchOp) and semantics.has_second_backward(op.operator)


def _facts(vjp: Vjp) -> tuple[object, ...]:
    return vjp.cotangents, vjp.operands, vjp.results, vjp.gradients


def _equal(a: FuncOp | None, b: FuncOp | None) -> bool:
    if a is None or b is None:
        return a is b
    unpack_tuples(a)
    unpack_tuples(b)
    return a.is_structurally_equivalent(b)
