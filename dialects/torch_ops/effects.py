"""Effects of operators that their schemas do not declare: hidden writes, undeclared views, side effects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.ir import Operation

HIDDEN_WRITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "aten.batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.native_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.cudnn_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten.miopen_batch_norm.default": ("training", ("running_mean", "running_var")),
    "aten._batch_norm_impl_index.default": ("training", ("running_mean", "running_var")),
    "aten.instance_norm.default": ("use_input_stats", ("running_mean", "running_var")),
}
"""Operator -> (the flag that makes it write, the arguments that it then writes although its schema does not declare it)."""

SIDE_EFFECTS = frozenset(
    {
        "aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default", "aten._print.default", "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default", "aten.manual_seed.default", "aten.from_file.default", "aten.save.default",
    }
)  # fmt: skip
"""Operators that must run even if their results are unused."""

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
"""Operators whose results share memory with their first argument although their schema does not declare it -> the equivalent
operators that declare it, if there are any."""

VIEWS_OF_EACH = frozenset(
    {
        "aten.broadcast_tensors.default", "aten.meshgrid.default", "aten.meshgrid.indexing", "aten.atleast_1d.Sequence",
        "aten.atleast_2d.Sequence", "aten.atleast_3d.Sequence",
    }
)  # fmt: skip
"""Composite operators on a list, whose i-th result is a view of the i-th tensor."""

CONVERSIONS = frozenset(
    {"aten.to.device", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default"}
)  # fmt: skip
"""Operators that return their first argument, or a new tensor if that has another dtype."""

COPIES_AT_OFFSET = frozenset({"aten.diagonal_scatter.default", "aten.select_scatter.default", "aten.slice_scatter.default"})
"""Operators whose result is in new memory, at the storage offset of the first operand."""

VIEWS_FROM_START = frozenset(
    {
        "aten._unsafe_view.default", "aten.alias.default", "aten.detach.default", "aten.expand.default",
        "aten.flatten.using_ints", "aten.permute.default", "aten.reshape.default", "aten.squeeze.default", "aten.squeeze.dim",
        "aten.squeeze.dims", "aten.t.default", "aten.transpose.int", "aten.unflatten.int", "aten.unsqueeze.default",
        "aten.view.default",
    }
)  # fmt: skip
"""Views that begin where their operand does; others may begin later."""

DETACHES = frozenset({"aten.detach.default", "aten.view.dtype"})
"""Operators whose result is a view that autograd treats as a new tensor without a gradient."""

UNINITIALIZED = frozenset(
    {
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "empty_quantized",
        "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
    }
)  # fmt: skip
"""Operators whose result is uninitialized memory: two calls return different values."""

LAZY = frozenset({"aten._conj.default", "aten._neg_view.default"})
"""Operators that do not change memory, but mark the result as the conjugate or negative of it."""

RESOLVING = frozenset({"aten.resolve_conj.default", "aten.resolve_neg.default"})
"""Operators that return a tensor whose memory holds its actual values."""

WITHOUT_DERIVATIVE = frozenset({"aten.copy.default", "aten.zero.default"})
"""Functional operators that PyTorch cannot differentiate, or not for complex tensors, unlike their in-place variants."""

EQUAL_SHAPES = frozenset({"aten.gelu_backward.default"})
"""Pointwise operators, by the flag ``p``, that have a kernel which requires equal shapes."""

SIZE_QUERIES = frozenset(
    {
        "aten.size.int", "aten.sym_size.int", "aten.size.default", "aten.sym_size.default", "aten.numel.default",
        "aten.sym_numel.default", "aten.dim.default",
    }
)  # fmt: skip
"""Operators whose results depend only on the sizes of their tensor operand."""

DROPOUTS = frozenset(
    {
        "aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
        "aten.feature_alpha_dropout.default", "aten.dropout_.default", "aten.feature_dropout_.default",
        "aten.alpha_dropout_.default", "aten.feature_alpha_dropout_.default",
    }
)  # fmt: skip
"""Operators that return their first argument if they drop nothing: ``p`` is 0, or they are not training."""

BORROWING_NAMESPACES = frozenset({"aten", "prims", "mkldnn", "mkl"})
"""PyTorch's namespaces, whose operators retain no operands; others are custom code."""

RESHAPED_IN_PLACE = frozenset(
    {
        "resize_", "resize_as_", "resize_as_sparse_", "_resize_output_", "sparse_resize_", "sparse_resize_and_clear_", "set_",
        "set_data", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_",
    }
)  # fmt: skip
"""Operators of ``aten`` that change sizes or strides of the tensor that they write."""

REPLACE_MEMORY = frozenset({"set_", "set_data"})
"""Those that give it other memory, as an assignment to its ``data`` does."""

RECURRENT = frozenset(
    {
        "lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input",
        "rnn_relu.data",
    }
)  # fmt: skip
"""Composite operators of ``aten`` that call others for each step of a sequence."""

FRESH_COMPOSITES = RECURRENT | frozenset(
    {
        "linear", "matmul", "linalg_matmul", "inner", "outer", "bilinear", "conv1d", "conv2d", "conv3d", "conv1d.padding",
        "conv2d.padding", "conv3d.padding", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
        "batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm", "softmax.int", "log_softmax.int", "max_pool1d",
        "max_pool2d", "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
        "scaled_dot_product_attention", "cross_entropy_loss", "nll_loss_nd", "l1_loss", "kl_div", "cosine_similarity",
        "square", "divide.Tensor", "multiply.Tensor", "subtract.Tensor", "true_divide.Tensor", "negative", "absolute", "clip",
        "selu", "relu6", "one_hot", "var.dim", "std.dim", "var_mean.dim", "std_mean.dim", "argsort", "isfinite", "fliplr",
        "log_sigmoid", "prelu", "silu_backward", "max.other", "min.other", "divide.Scalar", "true_divide.Scalar",
        "special_erfc", "fix", "__and__.Tensor", "__or__.Tensor", "__xor__.Tensor", "__and__.Scalar", "__or__.Scalar",
        "__xor__.Scalar", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", "ldexp.Tensor", "arccos", "arccosh",
        "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "greater.Scalar", "greater.Tensor", "greater_equal.Scalar",
        "greater_equal.Tensor", "less.Scalar", "less.Tensor", "less_equal.Scalar", "less_equal.Tensor", "not_equal.Scalar",
        "not_equal.Tensor", "multiply.Scalar", "subtract.Scalar", "special_digamma", "special_erf", "special_erfinv",
        "special_exp2", "special_expit", "special_expm1", "special_gammaln", "special_i0", "special_log1p", "special_logit",
        "special_multigammaln", "special_ndtr", "special_polygamma", "special_psi", "special_round", "special_sinc",
        "special_xlogy", "special_xlogy.other_scalar", "special_xlogy.self_scalar", "var", "std", "var_mean", "std_mean",
        "hstack", "vstack", "dstack", "column_stack", "row_stack", "concat", "concatenate", "kron", "tensordot",
        "take_along_dim", "cdist", "repeat_interleave.self_int", "repeat_interleave.self_Tensor", "tile", "cross", "cov",
        "corrcoef", "quantile", "quantile.scalar", "nanquantile", "nanquantile.scalar", "nanmean", "trapezoid.x",
        "trapezoid.dx", "trapz.x", "trapz.dx", "cumulative_trapezoid.x", "cumulative_trapezoid.dx", "isclose", "isreal",
        "logdet", "det", "slogdet", "inverse", "linalg_cholesky", "linalg_inv", "linalg_det", "linalg_slogdet",
        "linalg_eigvals", "linalg_eigvalsh", "linalg_norm", "linalg_matrix_norm", "linalg_cond", "linalg_matrix_rank",
        "linalg_pinv", "linalg_solve", "linalg_vander", "linalg_vecdot", "msort", "float_power.Tensor_Tensor",
        "float_power.Tensor_Scalar", "float_power.Scalar", "argwhere", "flipud", "diag", "diagflat", "stft",
        "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "cosine_embedding_loss", "hinge_embedding_loss",
        "margin_ranking_loss", "multilabel_margin_loss", "nll_loss", "nll_loss2d", "poisson_nll_loss", "triplet_margin_loss",
        "pad", "pad_sequence", "pairwise_distance", "pdist", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim",
        "grid_sampler", "ger", "vander", "special_softmax", "special_log_softmax", "special_logsumexp",
        "special_gammainc", "special_gammaincc", "rrelu", "max_pool1d_with_indices", "adaptive_max_pool1d",
        "divide.Tensor_mode", "divide.Scalar_mode", "clip.Tensor", "upsample_nearest1d.vec", "upsample_nearest2d.vec",
        "upsample_nearest3d.vec", "upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec",
        "upsample_trilinear3d.vec", "diff",
    }
)  # fmt: skip
"""Composite operators of ``aten`` that always allocate their results; for others that is unknown (``dropout``)."""


def is_uninitialized(op: Operation) -> bool:
    """Whether ``op`` makes a tensor without initializing it."""
    return any(part in UNINITIALIZED for part in op.name.split("."))


def is_size_query(op: Operation) -> bool:
    return op.name.removeprefix("torch.") in SIZE_QUERIES


def is_recurrent(operator: str) -> bool:
    """Whether ``operator`` is a composite one that calls others for each step of a sequence."""
    return operator.removeprefix("aten.") in RECURRENT


def is_fresh_composite(operator: str) -> bool:
    """Whether ``operator`` is a composite one that always allocates its results."""
    return operator.removeprefix("aten.").removesuffix(".default") in FRESH_COMPOSITES
