"""Queries that a tensor's type answers, and calls that give a tensor the shape that it already has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import ArrayAttr, TensorType, TupleType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import BoolType, FloatType, IntType, device, dims_of, is_tensor, layout, sizes
from fxc.dialects.attributes.values import KnownTree, NoneValueAttr, Tree, bool_attr, device_attr, int_attr, isa
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.text.call import CallOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.constants import is_host_constant
from fxc.passes.analysis.matching import dtype, integer, is_complex, is_floating, producer, rank, same_type
from fxc.passes.analysis.shape_queries import QUERIES, answer
from fxc.passes.analysis.tuples import selected_index
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter

_RANK = ("aten.dim.default",)
_ALL_SIZES = ("aten.size.default", "aten.sym_size.default")
_ONE_SIZE = ("aten.size.int", "aten.sym_size.int")

_SCALAR_TYPES = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "complex32": 8,
    "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip
"""dtype -> its number as the result of ``prim.dtype``."""

_FACTS: Mapping[str, Callable[[TensorType], Attribute | None]] = {
    "aten.is_floating_point.default": lambda type: bool_attr(is_floating(type)),
    "aten.is_complex.default": lambda type: bool_attr(is_complex(type)),
    "prim.dtype.default": lambda type: int_attr(n) if (n := _SCALAR_TYPES.get(dtype(type) or "")) is not None else None,
    "prim.device.default": lambda type: device_attr(device(type)),
    **{
        f"prim.is_{kind}.default": lambda type, kind=kind: bool_attr(device(type).split(":")[0] == kind)
        for kind in ("cpu", "cuda", "ipu", "maia", "meta", "mps", "mtia", "vulkan", "xla", "xpu")
    },
}
"""Operator -> its result for a tensor of a type."""


class _Query(Pattern):
    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        known = answer(op)
        if known is not None and not rewriter.memory.is_written(op.operands[0]):  # ``resize_`` is a write, too
            rewriter.replace(op, ConstantOp.of(known, op.results[0].type))


class SizeQuery(_Query):
    """size(x, d) -> n, where the type of x states n; also ``stride`` and ``numel``"""

    ROOTS = tuple(name for name in QUERIES if name not in _RANK)


class RankQuery(_Query):
    """dim(x) -> n"""

    ROOTS = _RANK


class SizesQuery(Pattern):
    """f(size(x)) -> f([2, 3]), where the type of x has static sizes; also with one result for each size"""

    ROOTS = _ALL_SIZES

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        tensor = op.operands[0]
        if not is_tensor(tensor.type) or layout(tensor.type) != "strided" or rewriter.memory.is_written(tensor):
            return
        known = [int_attr(size) if isinstance(size, int) else None for size in sizes(tensor.type)]
        if not op.is_packed:
            for result, size in zip(op.results, known, strict=False):
                if size is not None:
                    _pass_to_users(result, size, rewriter)
        elif not rewriter.memory.is_written(op.results[0]):  # the list is not appended to
            packed = op.results[0]
            for user in {use.operation: None for use in packed.uses}:
                index = selected_index(user)
                if isinstance(index, int) and (constant := known[index]) is not None:
                    rewriter.replace(user, ConstantOp.of(constant, user.results[0].type))
            if None not in known:
                _pass_to_users(op.results[0], ArrayAttr([size for size in known if size is not None]), rewriter)
        rewriter.erase_unused(op)


class TypeQuery(Pattern):
    """is_floating_point(x) -> true; also ``is_complex``, ``dtype``, ``device``, ``is_cuda`` and similar queries"""

    ROOTS = tuple(_FACTS)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        type = op.operands[0].type
        known = _FACTS[op.operator](type) if is_tensor(type) else None
        if known is None:
            return
        if is_host_constant(known):
            rewriter.replace(op, ConstantOp.of(known, op.results[0].type))
        else:
            _pass_to_users(op.results[0], known, rewriter)
        _erase_unread(op)


class LenOfTuple(Pattern):
    """len(size(x)) -> n, where the tuple has n elements"""

    ROOTS = ("aten.len.t", "aten.len.any")

    def rewrite(self, op: CallOp, rewriter: PatternRewriter) -> None:
        args, kwargs = op.trees()
        if len(args) != 1 or kwargs:
            return
        known = len(args[0]) if type(args[0]) in (list, tuple) else None
        if isa(args[0], SSAValue) and isinstance(tuple_type := args[0].type, TupleType):
            if rewriter.memory.is_written(args[0]):
                return
            known = len(tuple_type.types.data)
        if known is not None:
            rewriter.replace(op, ConstantOp.of(int_attr(known), op.results[0].type))


class NumberOfTensor(Pattern):
    """int(tensor(n)) -> n, where n is a number of the requested kind"""

    _ASKED: Mapping[str, type[Attribute] | None] = {
        "aten.Int.Tensor": IntType, "aten.IntImplicit.default": IntType, "aten.Float.Tensor": FloatType,
        "aten.FloatImplicit.default": FloatType, "aten.Bool.Tensor": BoolType, "aten.ScalarImplicit.default": None,
        "aten.item.default": None, "aten._local_scalar_dense.default": None,
    }  # fmt: skip
    _EXACT: Mapping[str, type[Attribute]] = {"int64": IntType, "float64": FloatType, "bool": BoolType}
    ROOTS = tuple(_ASKED)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        maker = producer(op.operands[0], ("prim.NumToTensor.Scalar", "prim.NumToTensor.bool", "aten.scalar_tensor.default"))
        if maker is None or len(maker.operands) != 1 or rewriter.memory.is_written(op.operands[0]):
            return
        number, kind = maker.operands[0], self._EXACT.get(dtype(maker.results[0].type) or "")
        if kind is not None and isinstance(number.type, kind) and self._ASKED[op.operator] in (kind, None):
            rewriter.forward(op, number)
            _erase_unread(maker)


class SumToSameSize(Pattern):
    """sum_to_size(x, sizes of x) -> x, where x has a dimension; of a 0-d tensor the operator returns a copy"""

    ROOTS = ("aten.sum_to_size.default", "aten._grad_sum_to_size.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        tensor = op.operands[0]
        if rank(tensor) and (same_type(op.results[0], tensor) or _is_sizes(op.argument("size"), tensor)):
            rewriter.forward(op, tensor, same_memory=True)


class GradSumToNothing(Pattern):
    """_grad_sum_to_size(x, none) -> x"""

    ROOTS = ("aten._grad_sum_to_size.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.argument("size"), NoneValueAttr):
            rewriter.forward(op, op.operands[0], same_memory=True)


class GradSumOfGradSum(Pattern):
    """_grad_sum_to_size(_grad_sum_to_size(x, a), b) -> _grad_sum_to_size(x, b), where b is a list; may round differently"""

    ROOTS = ("aten._grad_sum_to_size.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        inner = producer(op.operands[0], self.ROOTS)
        if inner is not None and isinstance(op.argument("size"), list):
            rewriter.replace(op, op.rebuilt({**op.bound(), "self": inner.operands[0]}))


class ExpandToSameSize(Pattern):
    """expand(x, size(x)) -> x, also where no size is static"""

    ROOTS = ("aten.expand.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if _is_sizes(op.argument("size"), op.operands[0]):
            rewriter.forward(op, op.operands[0], same_memory=True)


class IsNone(Pattern):
    """x is None -> false, where x is a tensor"""

    _TESTS: Mapping[str, bool] = {"operator.is_": False, "operator.is_not": True}
    ROOTS = ()

    def rewrite(self, op: CallFunctionOp, rewriter: PatternRewriter) -> None:
        known = self._TESTS.get(op.call_target() or "")
        args, kwargs = op.trees()
        if known is None or kwargs or len(args) != 2 or len(op.operands) != 1:
            return
        if is_tensor(op.operands[0].type) and any(isinstance(arg, NoneValueAttr) for arg in args):
            rewriter.replace(op, ConstantOp.of(bool_attr(known), op.results[0].type))


class PythonLen(LenOfTuple):
    """len(t) -> n, as the Python function"""

    ROOTS = ()

    def rewrite(self, op: CallOp, rewriter: PatternRewriter) -> None:
        if isinstance(op, CallFunctionOp) and op.call_target() == "len":
            super().rewrite(op, rewriter)


def _erase_unread(op: TorchOp) -> None:
    """Erase ``op``, which is known to be pure. The generic effects of the namespace ``prim`` would keep it."""
    if op.parent is not None and op.results[0].first_use is None:
        Rewriter.erase_op(op)


def _pass_to_users(value: SSAValue, constant: Attribute, rewriter: PatternRewriter) -> None:
    """Pass ``constant`` instead of ``value`` to the calls that use it. Regions and terminators keep the value."""
    for user in {use.operation: None for use in value.uses}:
        if isinstance(user, CallOp) and not user.regions and not user.has_trait(IsTerminator):
            rewriter.fold_operand(user, value, constant)


def _is_sizes(tree: KnownTree | None, tensor: SSAValue) -> bool:
    """Whether ``tree`` is the list of all sizes of ``tensor``."""
    if isinstance(tree, SSAValue):
        op = producer(tree, _ALL_SIZES)
        return op is not None and op.is_packed and op.operands[0] is tensor
    return (
        isinstance(tree, list) and len(tree) == rank(tensor) and all(_is_size(size, tensor, i) for i, size in enumerate(tree))
    )


def _is_size(tree: Tree, tensor: SSAValue, index: int) -> bool:
    known = dims_of(tensor)
    if not isinstance(tree, SSAValue):
        return isinstance(known[index], int) and integer(tree) == known[index]
    op = producer(tree, (*_ALL_SIZES, *_ONE_SIZE))
    if op is None or op.operands[0] is not tensor:
        return False
    if op.operator in _ALL_SIZES:
        return not op.is_packed and op.results.index(tree) == index
    dim = integer(op.argument("dim"))
    return dim is not None and dim % len(known) == index


SIZED: tuple[type[Pattern], ...] = (SizeQuery, SizesQuery, SumToSameSize, ExpandToSameSize)
"""The patterns that rely on the sizes in the types."""

QUERY_PATTERNS: tuple[Pattern, ...] = (
    SizeQuery(), RankQuery(), SizesQuery(), TypeQuery(), LenOfTuple(), NumberOfTensor(), SumToSameSize(), GradSumToNothing(),
    GradSumOfGradSum(), ExpandToSameSize(),
)  # fmt: skip
"""The patterns that only ``peephole`` uses: ``canonicalize`` folds no queries."""

PYTHON_PATTERNS: tuple[Pattern, ...] = (IsNone(), PythonLen())
"""The patterns for ``fx.call_function``."""
