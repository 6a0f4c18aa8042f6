"""Norms and other operators that decompose into reductions and pointwise operators, and nearest-neighbor resizing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.passes.operators.record import FOR_KERNELS, NO_FAST_CALL, Operator, Role, each

RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("layer_norm.default native_layer_norm.default", parts=NO_FAST_CALL),
        **each("batch_norm.default native_batch_norm.default", parts=NO_FAST_CALL, role=Role.BATCH_NORM),
        **each("_native_batch_norm_legit_no_training.default", parts=NO_FAST_CALL, role=Role.BATCH_NORM),
        **each("_batch_norm_no_update.default", role=Role.BATCH_NORM),
        **each("_native_batch_norm_legit.default _native_batch_norm_legit.no_stats", parts=NO_FAST_CALL),
        **each("_native_batch_norm_legit_functional.default", parts=NO_FAST_CALL),
        **each("cudnn_batch_norm.default miopen_batch_norm.default", parts=NO_FAST_CALL),
        **each("group_norm.default native_group_norm.default", parts=NO_FAST_CALL, role=Role.GROUP_NORM),
        **each("instance_norm.default", parts=FOR_KERNELS, role=Role.GROUP_NORM),
        **each("rms_norm.default _fused_rms_norm.default _fused_rms_norm_backward.default", parts=FOR_KERNELS),
        **each("native_layer_norm_backward.default native_group_norm_backward.default", parts=FOR_KERNELS),
        **each("native_batch_norm_backward.default batch_norm_backward.default", parts=FOR_KERNELS),
        **each("cudnn_batch_norm_backward.default miopen_batch_norm_backward.default", parts=FOR_KERNELS),
        **each("softmax.int _softmax.default _softmax_backward_data.default _safe_softmax.default", parts=FOR_KERNELS),
        **each("log_softmax.int _log_softmax.default _log_softmax_backward_data.default", parts=FOR_KERNELS),
        **each("logsumexp.default", parts=FOR_KERNELS),
        **each("var.default var.dim var_mean.default var_mean.dim var_mean.correction", parts=FOR_KERNELS),
        **each("std.default std.dim std_mean.default std_mean.dim std_mean.correction", parts=FOR_KERNELS),
        **each("linalg_vector_norm.default norm.Scalar norm.ScalarOpt_dim", parts=FOR_KERNELS),
        **each("norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype", parts=FOR_KERNELS),
        **each("nansum.default nanmean.default aminmax.default", parts=FOR_KERNELS),
        **each("count_nonzero.default count_nonzero.dim_IntList", parts=FOR_KERNELS),
        **each("cross_entropy_loss.default nll_loss.default nll_loss_nd.default", parts=FOR_KERNELS),
        **each("nll_loss_forward.default nll_loss_backward.default", parts=FOR_KERNELS),
        **each("mse_loss.default l1_loss.default smooth_l1_loss.default huber_loss.default", parts=FOR_KERNELS),
        **each("kl_div.default binary_cross_entropy.default", parts=FOR_KERNELS),
        **each("binary_cross_entropy_with_logits.default", parts=FOR_KERNELS),
        **each("glu.default nan_to_num.default cumprod_backward.default", parts=FOR_KERNELS),
        **each("upsample_nearest1d.default upsample_nearest2d.default upsample_nearest3d.default", parts=FOR_KERNELS),
        **each("upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact1d.default _upsample_nearest_exact1d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact2d.default _upsample_nearest_exact2d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact3d.default _upsample_nearest_exact3d.vec", parts=FOR_KERNELS),
    }
)
"""Operator -> its record."""
