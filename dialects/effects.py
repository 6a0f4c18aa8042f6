"""What an op does besides computing its results: the one place that passes ask.

Answers come from schemas (alias marks), from the flags of the operator table, and from small frozen tables of facts that
a schema does not state. A call whose callee is unknown is assumed to do anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import EffectInstance, IsTerminator, MemoryEffect, MemoryEffectKind, Pure, RecursiveMemoryEffect

from fxc.dialects.attributes.discardable import BORROWS
from fxc.dialects.attributes.values import leaves

if TYPE_CHECKING:
    from fxc.dialects.torch_ops.base import TorchOp
    from fxc.dialects.torch_ops.schema import Argument

HIDDEN_WRITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "aten.batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.native_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.cudnn_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.miopen_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten._batch_norm_impl_index.default": ("training", ("running_mean", "running_var")),
    "aten.instance_norm.default": ("use_input_stats", ("running_mean", "running_var")),
}
"""Operator -> (the flag that makes it write, the arguments that it then writes though its schema does not say so)."""

SIDE_EFFECTS = frozenset(
    {
        "aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default", "aten._print.default", "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default", "aten.manual_seed.default", "aten.from_file.default", "aten.save.default",
    }
)  # fmt: skip
"""Operators that must run though nothing reads their results."""

EFFECTFUL_NAMESPACES = frozenset(
    {"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "symm_mem", "rpc", "profiler", "prim"}
)
"""Namespaces of collectives and of the interpreter: every rank must run them, in order."""

UNDECLARED_VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "aten._unsafe_view.default": "aten.view.default", "aten.unsafe_split.Tensor": "aten.split.Tensor",
        "aten.unsafe_split_with_sizes.default": "aten.split_with_sizes.default",
        "aten.unsafe_chunk.default": "aten.chunk.default", "aten.lift.default": "aten.alias.default",
        "_c10d_functional.wait_tensor.default": "_c10d_functional.wait_tensor.default",
    }
)  # fmt: skip
"""Operators whose results share memory with their first argument though their schema does not say so -> those that do the same
and say so, if there are any."""

VIEWS_OF_EACH = frozenset(
    {
        "aten.broadcast_tensors.default", "aten.meshgrid.default", "aten.meshgrid.indexing", "aten.atleast_1d.Sequence",
        "aten.atleast_2d.Sequence", "aten.atleast_3d.Sequence",
    }
)  # fmt: skip
"""Composite operators of a list, whose results are views of its tensors, one of each."""

VIEWS_OF_FIRST = frozenset({"aten.type_as.default"})
"""Composite operators whose results may be their first argument, and never a view of another."""

DETACHES = frozenset({"aten.detach.default"})
"""Operators whose result is a view that autograd takes for another tensor, without a gradient."""

DROPOUTS = frozenset(
    {
        "aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
        "aten.feature_alpha_dropout.default", "aten.dropout_.default", "aten.feature_dropout_.default",
        "aten.alpha_dropout_.default", "aten.feature_alpha_dropout_.default",
    }
)  # fmt: skip
"""Operators that give back their first argument where they drop nothing: ``p`` is 0, or they are not training."""

FORGETFUL_NAMESPACES = frozenset({"aten", "prims", "mkldnn", "mkl"})
"""PyTorch's namespaces, whose operators hold on to nothing that they are given; others are somebody's own code."""

RESHAPED_IN_PLACE = frozenset(
    {
        "resize_", "resize_as_", "resize_as_sparse_", "_resize_output_", "sparse_resize_", "sparse_resize_and_clear_", "set_",
        "set_data", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_",
    }
)  # fmt: skip
"""Operators of ``aten`` that give the tensor they write other sizes or strides."""

FRESH_COMPOSITES = frozenset(
    {
        "linear", "matmul", "linalg_matmul", "inner", "outer", "bilinear", "conv1d", "conv2d", "conv3d", "conv1d.padding",
        "conv2d.padding", "conv3d.padding", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
        "batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm", "softmax.int", "log_softmax.int",
        "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_avg_pool3d", "scaled_dot_product_attention", "cross_entropy_loss", "nll_loss_nd", "l1_loss", "kl_div",
        "cosine_similarity", "square", "divide.Tensor", "multiply.Tensor", "subtract.Tensor", "true_divide.Tensor",
        "negative", "absolute", "clip", "selu", "relu6", "one_hot", "var.dim", "std.dim", "var_mean.dim", "std_mean.dim",
        "argsort", "isfinite", "fliplr", "log_sigmoid", "prelu", "silu_backward", "max.other", "min.other", "divide.Scalar",
        "true_divide.Scalar", "special_erfc", "fix", "__and__.Tensor", "__or__.Tensor", "__xor__.Tensor", "__and__.Scalar",
        "__or__.Scalar", "__xor__.Scalar", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", "ldexp.Tensor", "arccos",
        "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "greater.Scalar", "greater.Tensor",
        "greater_equal.Scalar", "greater_equal.Tensor", "less.Scalar", "less.Tensor", "less_equal.Scalar", "less_equal.Tensor",
        "not_equal.Scalar", "not_equal.Tensor", "multiply.Scalar", "subtract.Scalar", "special_digamma", "special_erf",
        "special_erfinv", "special_exp2", "special_expit", "special_expm1", "special_gammaln", "special_i0", "special_log1p",
        "special_logit", "special_multigammaln", "special_ndtr", "special_polygamma", "special_psi", "special_round",
        "special_sinc", "special_xlogy", "special_xlogy.other_scalar", "special_xlogy.self_scalar", "var", "std", "var_mean",
        "std_mean",
    }
)  # fmt: skip
"""Composite operators of ``aten`` that always allocate what they return; of others that cannot be told (``dropout``)."""

KERNEL_READS = frozenset({"tile.load", "tile.gather"})
"""Ops in kernels that do nothing but read, through a pointer."""

KERNEL_WRITES = frozenset({"tile.store", "tile.scatter", "tile.atomic_add", "tile.atomic_max", "tile.atomic_min"})
"""Ops in kernels that write, through the pointer that is their second operand."""

PLAN_MEMORY = frozenset({"plan.arena", "plan.alloc", "plan.launch"})
"""Ops that make or fill memory: two equal ones are two, but none is needed where nothing reads that memory."""

PURE_FUNCTIONS = frozenset(
    {"getattr", "len", "int", "float", "bool", "min", "max", "abs", "sum", "round", "pow", "range", "slice"}
)
"""Python functions without effects; every function of ``operator`` (in-place ones apart) and ``math`` is one too."""

IN_PLACE_OPERATORS = frozenset(
    [
        "iadd",
        "isub",
        "imul",
        "imatmul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "iand",
        "ior",
        "ixor",
        "ilshift",
        "irshift",
        "iconcat",
        "setitem",
        "delitem",
    ]
)


class CallEffects(MemoryEffect):
    """Memory effects of call ops, for xDSL's own passes: a call that is not pure reads and writes."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        if not is_pure(op):
            return {EffectInstance(MemoryEffectKind.WRITE), EffectInstance(MemoryEffectKind.READ)}
        if reads_memory(op):
            return {EffectInstance(MemoryEffectKind.READ)}
        return set()


def is_random(op: Operation) -> bool:
    """Whether ``op`` draws from a generator: two calls differ, and dropping one changes what the next draws."""
    return "r" in getattr(op, "FLAGS", "") and not _is_inert_random(op)


def _is_inert_random(op: Operation) -> bool:
    """A dropout that is switched off, or that drops nothing, draws nothing; ``native_dropout`` does in the second case."""
    from fxc.dialects.attributes.values import bool_attr
    from fxc.dialects.torch_ops.base import TorchOp

    assert isinstance(op, TorchOp)
    arguments, off = op.SCHEMA.by_name, bool_attr(False)
    for name in ("train", "training"):
        if name in arguments:
            default = off if arguments[name].default == "False" else None
            if op.properties.get(name, default) == off:
                return True
    for name in ("p",) if op.operator in DROPOUTS else ("dropout_p", "dropout"):
        if name in arguments:
            given = op.properties.get(name)
            if isinstance(given, (IntegerAttr, FloatAttr)):
                return given.value.data == 0
            return given is None and float(arguments[name].default or 1) == 0
    return False


def writes(op: Operation) -> list[SSAValue] | None:
    """The values whose memory ``op`` writes; None where that is unknown (assume all)."""
    from fxc.dialects.torch_ops.base import TorchOp

    if isinstance(op, TorchOp):
        return _schema_writes(op)
    if op.name in KERNEL_WRITES:
        return [op.operands[1]]
    if op.name.startswith("plan."):
        return _plan_writes(op)
    return [] if is_pure(op) or _regions_write_nothing(op) else None


def _plan_writes(op: Operation) -> list[SSAValue]:
    """What has been released holds anything from then on, as if it had been written."""
    from fxc.dialects.plan import FreeOp, LaunchOp

    if isinstance(op, LaunchOp):
        return list(op.outs)
    return list(op.values) if isinstance(op, FreeOp) else []


def _regions_write_nothing(op: Operation) -> bool:
    """Whether ``op`` does what its regions do, and they write nothing; they may draw, or must run."""
    from fxc.dialects.torch_ops import HigherOrderOp

    if not isinstance(op, HigherOrderOp) or not op.regions:
        return False
    blocks = (block for region in op.regions for block in region.blocks)
    return all(inner.has_trait(IsTerminator) or writes(inner) == [] for block in blocks for inner in block.ops)


def _schema_writes(op: TorchOp) -> list[SSAValue]:
    if not op.SCHEMA.mutates and op.operator not in HIDDEN_WRITES:
        return []
    bound = op.bound()
    written = [
        leaf
        for argument in op.SCHEMA.arguments
        if argument.writes and argument.name in bound
        for leaf in leaves(bound[argument.name])
        if isinstance(leaf, SSAValue)
    ]
    if op.operator in HIDDEN_WRITES:
        from fxc.dialects.attributes.values import bool_attr

        flag, names = HIDDEN_WRITES[op.operator]
        if bound.get(flag) != bool_attr(False):
            written += [bound[name] for name in names if isinstance(bound.get(name), SSAValue)]
    return written


@cache
def leaves_memory_alone(cls: type[Operation]) -> bool:
    """Whether no call of ``cls``, whatever it passes, writes memory or returns what it was given: true of most operators.

    ``writes`` and ``aliases`` say the same of each call, after a longer look.
    """
    from fxc.dialects.torch_ops.base import TorchOp

    if not issubclass(cls, TorchOp):
        return False
    operator, schema = cls.name.removeprefix("torch."), cls.SCHEMA
    if schema.mutates or any(r.alias for r in schema.returns) or operator in HIDDEN_WRITES or operator in UNDECLARED_VIEWS:
        return False
    return "c" not in cls.FLAGS or _is_fresh_composite(operator)


def reshapes(op: Operation) -> list[SSAValue]:
    """The values to which ``op`` may give other sizes or strides than they had: what is resized, or passed as ``out``."""
    from fxc.dialects.torch_ops.base import TorchOp

    if not isinstance(op, TorchOp) or not op.SCHEMA.mutates:
        return []
    in_place = op.operator.split(".")[1] in RESHAPED_IN_PLACE
    bound = op.bound()
    written = [bound[a.name] for a in op.SCHEMA.arguments if a.writes and a.name in bound and (in_place or a.keyword_only)]
    return [leaf for tree in written for leaf in leaves(tree) if isinstance(leaf, SSAValue)]


def aliases(op: Operation) -> Iterator[tuple[int, SSAValue]]:
    """(result index, operand) pairs that may share memory, as the schema says; all pairs where nothing is known.

    Of a ``fusion.group`` the second is a value that its body reads.
    """
    if _gives_memory_of_its_own(type(op)):
        return
    from fxc.dialects.fusion import GroupOp
    from fxc.dialects.torch_ops.base import TorchOp

    if isinstance(op, GroupOp):
        yield from ((i, source) for i, value in enumerate(op.yielded()) for source in _sources(value, op))
        return
    if not isinstance(op, TorchOp):
        if not _returns_fresh(op) and BORROWS not in op.attributes:
            yield from ((i, operand) for i in range(len(op.results)) for operand in op.operands)
        return
    returns, undeclared = op.SCHEMA.returns, _undeclared_aliases(op)
    if not undeclared and not any(r.alias for r in returns):
        return
    bound = op.bound()
    for i in range(len(op.results)):
        declared = returns[i].alias if len(returns) == len(op.results) else "|".join(r.alias for r in returns)
        sets = set(declared.split("|")) - {""}
        for argument in op.SCHEMA.arguments:
            tied = argument.alias and (argument.alias in sets or "*" in sets)
            if (tied or (not declared and argument in undeclared)) and argument.name in bound:
                tied_to = list(leaves(bound[argument.name]))
                if op.operator in VIEWS_OF_EACH and len(tied_to) == len(op.results):
                    tied_to = tied_to[i : i + 1]
                yield from ((i, leaf) for leaf in tied_to if isinstance(leaf, SSAValue))


@cache
def _gives_memory_of_its_own(cls: type[Operation]) -> bool:
    """Whether ops of ``cls`` call an operator of which no result may share memory with an operand, whatever these are."""
    from fxc.dialects.torch_ops.base import TorchOp

    if not issubclass(cls, TorchOp) or any(r.alias for r in cls.SCHEMA.returns):
        return False
    operator = cls.name.removeprefix("torch.")
    return operator not in UNDECLARED_VIEWS and ("c" not in cls.FLAGS or _is_fresh_composite(operator))


def _sources(value: SSAValue, group: Operation) -> Iterator[SSAValue]:
    """The values around ``group`` whose memory a value of its body may share."""
    if not isinstance(value.owner, Operation) or value.owner.parent_op() is not group:
        yield value
        return
    for index, operand in aliases(value.owner):
        if value.owner.results[index] is value:
            yield from _sources(operand, group)


def is_view(op: Operation) -> bool:
    """Whether every result of ``op`` surely shares its argument's memory, and reads none of it: ``permute``, ``split``."""
    from fxc.dialects.torch_ops.base import TorchOp

    if op.name == "plan.view":
        return True
    if not isinstance(op, TorchOp) or "c" in op.FLAGS or op.SCHEMA.mutates:
        return False
    return op.operator in UNDECLARED_VIEWS or all(r.alias for r in op.SCHEMA.returns)


def _undeclared_aliases(op: TorchOp) -> Sequence[Argument]:
    """Arguments that a result may share memory with though no alias set says so."""
    schema = op.SCHEMA
    if op.operator in UNDECLARED_VIEWS:
        return schema.arguments[:1]
    if "c" not in op.FLAGS or _is_fresh_composite(op.operator):
        return ()
    if op.operator in VIEWS_OF_FIRST:
        return schema.arguments[:1]
    if is_random(op) and not any(isinstance(op.argument(name), SSAValue) for name in ("p", "train")):
        return ()  # what was drawn lies in memory of its own
    if not any(r.type.startswith("Tensor") for r in schema.returns):
        return ()
    return tuple(argument for argument in schema.arguments if argument.is_tensor)


def _is_fresh_composite(operator: str) -> bool:
    return operator.removeprefix("aten.").removesuffix(".default") in FRESH_COMPOSITES


def _returns_fresh(op: Operation) -> bool:
    return (op.has_trait(Pure) and not op.operands) or op.name.startswith("tile.")  # no op gives a pointer; launches allocate


def may_keep(op: Operation) -> bool:
    """Whether ``op`` may hold on to the memory of an operand once it has returned, but for results that ``aliases`` names; or
    asks where in its storage that lies."""
    from fxc.dialects.torch_ops.base import TorchOp

    if isinstance(op, TorchOp):
        namespace, name, *_ = op.operator.split(".")
        is_plain = namespace in FORGETFUL_NAMESPACES and name not in RESHAPED_IN_PLACE and not counts_in_storage(op)
        return not is_plain or any(map(_has_parts, op.result_types))
    if op.name.startswith(("plan.", "tile.", "torch.constant")) or BORROWS in op.attributes:
        return False
    inner = (inner for region in op.regions for block in region.blocks for inner in block.ops)
    return op.name != "fusion.group" or any(may_keep(each) for each in inner if not each.has_trait(IsTerminator))


def counts_in_storage(op: TorchOp) -> bool:
    """Whether ``op`` counts from where the storage of an operand starts: ``as_strided`` with an offset does."""
    asks, takes_offset = _asks_of_storage(type(op))
    return asks or (takes_offset and op.argument("storage_offset") is not None)


@cache
def _asks_of_storage(cls: type[TorchOp]) -> tuple[bool, bool]:
    """Whether an operator gives a place in the storage, and whether it takes one."""
    return cls.name == "torch.aten.sym_storage_offset.default", "storage_offset" in cls.SCHEMA.by_name


def _has_parts(type: Attribute) -> bool:
    """Whether a tensor of ``type`` may be made of others, which it then keeps: a sparse one is."""
    from xdsl.dialects.builtin import TensorType

    from fxc.dialects.attributes.types import layout

    return isinstance(type, TensorType) and layout(type) != "strided"


def _is_answered(op: TorchOp) -> bool:
    """Whether the type of the tensor states all that an assertion on its metadata asks."""
    from xdsl.dialects.builtin import TensorType

    from fxc.dialects.attributes.types import device, dtype_name, layout
    from fxc.dialects.attributes.values import NoneValueAttr, device_attr, dtype_attr, enum_attr

    type = op.operands[0].type
    if not isinstance(type, TensorType):
        return False
    stated = {
        "dtype": dtype_attr(dtype_name(type.element_type)),
        "device": device_attr(device(type)),
        "layout": enum_attr(layout(type)),
    }
    asked = {name: tree for name, tree in op.bound().items() if name != "a" and not isinstance(tree, NoneValueAttr)}
    return all(tree == stated.get(name) for name, tree in asked.items())


def has_side_effect(op: Operation) -> bool:
    """Whether ``op`` must run though nothing reads its results, writes to memory apart."""
    from fxc.dialects.torch_ops.base import TorchOp

    if isinstance(op, TorchOp):
        if op.operator == "aten._assert_tensor_metadata.default" and _is_answered(op):
            return False
        return op.operator in SIDE_EFFECTS or op.operator.split(".")[0] in EFFECTFUL_NAMESPACES or is_random(op)
    from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, ModuleDeclOp, OutputOp, TensorDeclOp
    from fxc.dialects.torch_ops import HigherOrderOp, OperatorDeclOp

    if isinstance(op, HigherOrderOp) or (op.regions and op.has_trait(RecursiveMemoryEffect)):
        return any(
            has_side_effect(inner) or writes(inner) != []
            for region in op.regions
            for block in region.blocks
            for inner in block.ops
            if not inner.has_trait(IsTerminator)
        ) or op.name in ("torch.higher_order.with_effects", "torch.higher_order.print")
    if isinstance(op, (GetAttrOp,)):
        return False
    if op.name == "autodiff.subgraph":
        return _callee_has_effect(op)
    if op.name in KERNEL_READS or op.name in PLAN_MEMORY:
        return False
    if isinstance(op, CallFunctionOp):
        return not _is_pure_function(op.call_target() or "")
    if isinstance(op, (CallMethodOp, CallModuleOp, OutputOp, ModuleDeclOp, TensorDeclOp, OperatorDeclOp, func.CallOp)):
        return True
    if op.has_trait(IsTerminator):
        return True
    return not op.has_trait(Pure)


def _callee_has_effect(op: Operation) -> bool:
    """What ``autodiff.subgraph`` does is what the ops of its function do; anything, where that is not to be found."""
    from fxc.dialects.autodiff import SubgraphOp

    assert isinstance(op, SubgraphOp)
    function = op.function()
    if function is None or function.is_declaration:
        return True
    ops = (inner for block in function.body.blocks for inner in block.ops if not inner.has_trait(IsTerminator))
    return any(has_side_effect(inner) or writes(inner) != [] for inner in ops)


def _is_pure_function(target: str) -> bool:
    module, _, name = target.rpartition(".")
    if module in ("operator", "_operator"):
        return name not in IN_PLACE_OPERATORS
    return module == "math" or target in PURE_FUNCTIONS


def is_pure(op: Operation) -> bool:
    """Whether ``op`` does nothing but compute its results: no write, no draw, no side effect."""
    from fxc.dialects.torch_ops.base import TorchOp

    if has_side_effect(op) or op.name in PLAN_MEMORY:
        return False
    return not _schema_writes(op) if isinstance(op, TorchOp) else True


def reads_memory(op: Operation) -> bool:
    """Whether what ``op`` computes depends on the contents of tensors that others may write."""
    from xdsl.dialects.builtin import TensorType, TupleType

    from fxc.dialects.attributes.types import ValueType

    reads = any(isinstance(operand.type, (TensorType, TupleType, ValueType)) for operand in op.operands)
    return reads or op.name in KERNEL_READS
