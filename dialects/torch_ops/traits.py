"""What families of operators have in common that neither schemas nor flags say: passes ask here, and keep no lists."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.ir import Operation

WITHOUT_DERIVATIVE = frozenset({"aten.copy.default", "aten.zero.default"})
"""Functional forms that PyTorch cannot differentiate, or not for complex tensors, unlike the operators that write in place."""

OTHER_WHEN_DIFFERENTIATED_AGAIN = frozenset(
    {
        "aten.linalg_solve.default", "aten.linalg_solve_ex.default", "aten._linalg_solve_ex.default",
        "aten.linalg_slogdet.default", "aten._linalg_slogdet.default", "aten.slogdet.default", "aten.logdet.default",
    }
)  # fmt: skip
"""Operators of matrices whose usual backward reads factors that carry no gradient. PyTorch takes another one where it is to be
differentiated again; it gives the same first derivatives and costs a factorisation, so it is taken in any case."""

CONCATENATIONS = frozenset({"aten.cat.default", "aten.concat.default", "aten.concatenate.default"})
"""Operators that put tensors behind each other."""

LAZY = frozenset({"aten._conj.default", "aten._neg_view.default"})
"""Operators that leave memory as it is, and mark that it holds the conjugates or negatives of what they return."""

RESOLVING = frozenset({"aten.resolve_conj.default", "aten.resolve_neg.default"})
"""Operators that return a tensor whose memory holds its numbers."""

REINTERPRETING = frozenset({"aten.view_as_real.default", "aten.view.dtype"})
"""Views that give the bytes of a tensor as other numbers."""

SPLITS: Mapping[str, str] = MappingProxyType({
    "aten.chunk.default": "chunks", "aten.unsafe_chunk.default": "chunks", "aten.tensor_split.sections": "sections",
    "aten.split.Tensor": "split_size", "aten.unsafe_split.Tensor": "split_size",
    "aten.split.sizes": "split_size", "aten.split_with_sizes.default": "split_sizes",
    "aten.unsafe_split_with_sizes.default": "split_sizes",
})  # fmt: skip
"""Operators that cut ``self`` along ``dim`` into pieces -> the argument that says how many, or how long each is."""

NORMS = frozenset(
    {
        "aten.layer_norm.default", "aten.native_layer_norm.default", "aten.group_norm.default",
        "aten.native_group_norm.default", "aten.batch_norm.default", "aten.native_batch_norm.default",
        "aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit.no_stats",
        "aten._native_batch_norm_legit_no_training.default", "aten._native_batch_norm_legit_functional.default",
        "aten.cudnn_batch_norm.default", "aten.miopen_batch_norm.default",
    }
)  # fmt: skip
"""Operators that are statistics of a tensor and pointwise work."""

GIVEN_STATISTICS = frozenset(
    {
        "aten._native_batch_norm_legit_no_training.default", "aten.batch_norm.default", "aten.native_batch_norm.default",
        "aten._batch_norm_no_update.default",
    }
)  # fmt: skip
"""Batch norms that may use ``running_mean`` and ``running_var``: those with an argument ``training``, where it is false."""

CONVOLUTIONS = frozenset(
    {
        "aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", "aten.conv1d.padding", "aten.conv2d.padding",
        "aten.conv3d.padding", "aten.convolution.default",
    }
)  # fmt: skip
"""Convolutions of ``input`` with ``weight`` and ``bias``; that with an argument ``transposed``, where it is false."""

CONTRACTIONS = frozenset(
    {
        "mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "mv", "addmv", "dot", "conv1d", "conv2d", "conv3d", "convolution",
        "_convolution", "cudnn_convolution", "miopen_convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    }
)  # fmt: skip
"""Products of matrices, and convolutions: names in ``aten``, of any overload."""

RESAMPLING = frozenset(
    f"aten.{kind}.{overload}"
    for kind in (
        "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    )
    for overload in ("default", "vec")
)  # fmt: skip
"""Images of another size, each element that which is nearest: places are computed, and read at."""

STATISTICS = frozenset(
    {
        "aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int", "aten._log_softmax.default",
        "aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default",
        "aten.rms_norm.default", "aten._fused_rms_norm.default", "aten._fused_rms_norm_backward.default",
        "aten.native_layer_norm_backward.default", "aten.native_group_norm_backward.default",
        "aten.native_batch_norm_backward.default", "aten.cudnn_batch_norm_backward.default",
        "aten.miopen_batch_norm_backward.default", "aten.batch_norm_backward.default",
        "aten.cross_entropy_loss.default", "aten.nll_loss.default", "aten.nll_loss_nd.default",
        "aten.nll_loss_forward.default", "aten.nll_loss_backward.default", "aten.mse_loss.default", "aten.l1_loss.default",
        "aten.kl_div.default", "aten.smooth_l1_loss.default", "aten.huber_loss.default", "aten.binary_cross_entropy.default",
        "aten.binary_cross_entropy_with_logits.default", "aten.instance_norm.default", "aten.glu.default",
        "aten.var_mean.default", "aten.var_mean.dim", "aten.var_mean.correction", "aten.std_mean.default",
        "aten.std_mean.dim", "aten.std_mean.correction", "aten.var.default", "aten.var.dim", "aten.std.default",
        "aten.std.dim", "aten.logsumexp.default", "aten.native_dropout_backward.default", "aten._safe_softmax.default",
        "aten.linalg_vector_norm.default", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dtype",
        "aten.norm.ScalarOpt_dim_dtype", "aten.nansum.default", "aten.nanmean.default", "aten.count_nonzero.default",
        "aten.count_nonzero.dim_IntList", "aten.aminmax.default", "aten.nan_to_num.default", "aten.cumprod_backward.default",
    }
)  # fmt: skip
"""Other operators that are reductions and pointwise work, and the derivatives of norms."""

GATHERS: Mapping[str, str] = MappingProxyType({
    "aten.gather.default": "self", "aten.index_select.default": "self", "aten.take.default": "self",
    "aten.take_along_dim.default": "self",
    "aten.index.Tensor": "self", "aten._unsafe_index.Tensor": "self", "aten.embedding.default": "weight",
})  # fmt: skip
"""Operators that read a tensor at places that others say -> the argument that it is."""

LONE_KERNELS = frozenset(
    {
        *("aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim"),
        *("aten.argmax.default", "aten.argmin.default"),
        *("aten.index.Tensor", "aten.index_select.default", "aten.gather.default"),
    }
)
"""Operators of which a CPU kernel of their own takes less time than PyTorch's: .2 to 1.0 of it, of 1,000 to 10,000,000 elements
on one thread. Of the largest and smallest, of ``cat``, ``embedding`` and single pointwise operators it takes up to 1.6."""

DRAWS_LIKE = frozenset({"aten.bernoulli.p", "aten.rand_like.default", "aten.randn_like.default"})
"""Operators that draw, and of their first tensor read the type only."""

EQUAL_SHAPES = frozenset({"aten.gelu_backward.default"})
"""Pointwise operators of which some kernel takes equal shapes only, though the table has the flag ``p`` for them."""

SIZE_QUERIES = frozenset(
    {
        "aten.size.int", "aten.sym_size.int", "aten.size.default", "aten.sym_size.default", "aten.numel.default",
        "aten.sym_numel.default", "aten.dim.default",
    }
)  # fmt: skip
"""Operators whose results depend on the sizes of their tensor only, and on nothing else of it."""


PROCESS_CALLS = frozenset({"higher_order.triton_kernel_wrapper_functional", "higher_order.triton_kernel_wrapper_mutation"})
"""Operators that mean what a table of the process holds: equal ones may do something else in another."""

GROUP_NORMS = frozenset({"aten.group_norm.default", "aten.native_group_norm.default", "aten.instance_norm.default"})
"""Operators that normalise images by groups of channels."""

FOREACH = "aten._foreach_"
"""How the names of operators begin that do the same to each tensor of a list."""


def is_other_when_differentiated_again(op: Operation) -> bool:
    """Whether ``op`` has a backward of its own for second derivatives, which is good for first ones, too."""
    return _operator(op) in OTHER_WHEN_DIFFERENTIATED_AGAIN


def is_concatenation(op: Operation) -> bool:
    return _operator(op) in CONCATENATIONS


def is_split(op: Operation) -> bool:
    return _operator(op) in SPLITS


def is_norm(op: Operation) -> bool:
    return _operator(op) in NORMS


def is_foreach(op: Operation) -> bool:
    """Whether ``op`` does the same to each tensor of a list."""
    return _operator(op).startswith(FOREACH)


def is_prim(op: Operation) -> bool:
    """Whether ``op`` is one of those that PyTorch's decompositions are made of, which work element by element."""
    return _operator(op).startswith("prims.")


def is_process_call(op: Operation) -> bool:
    return _operator(op) in PROCESS_CALLS


def is_group_norm(op: Operation) -> bool:
    return _operator(op) in GROUP_NORMS


def is_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of oneDNN's own."""
    return _operator(op).startswith("mkldnn.")


def is_mkl_or_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of one of these libraries' own, for which PyTorch's fake mode has a rule or nothing."""
    return is_onednn(op) or _operator(op).startswith("mkl.")


def is_statistics(op: Operation) -> bool:
    return _operator(op) in STATISTICS


def is_resampling(op: Operation) -> bool:
    return _operator(op) in RESAMPLING


def draws_like(op: Operation) -> bool:
    return _operator(op) in DRAWS_LIKE


def gathered_argument(op: Operation) -> str | None:
    """The argument that ``op`` reads at places that others say; None where there is none."""
    return GATHERS.get(_operator(op))


def is_lone_kernel(op: Operation) -> bool:
    """Whether a CPU should have a kernel for ``op`` alone."""
    return _operator(op) in LONE_KERNELS


def takes_equal_shapes(op: Operation) -> bool:
    return _operator(op) in EQUAL_SHAPES


def uses_given_statistics(op: Operation) -> bool:
    """Whether ``op`` is a batch norm that may use the statistics that it is given."""
    return _operator(op) in GIVEN_STATISTICS


def is_convolution(op: Operation) -> bool:
    return _operator(op) in CONVOLUTIONS


def is_contraction(op: Operation) -> bool:
    """Whether ``op`` multiplies two tensors and adds up along dimensions that both have, in any overload."""
    namespace, _, name = _operator(op).partition(".")
    return namespace == "aten" and name.partition(".")[0] in CONTRACTIONS


def is_size_query(op: Operation) -> bool:
    return _operator(op) in SIZE_QUERIES


def _operator(op: Operation) -> str:
    return op.name.removeprefix("torch.")
