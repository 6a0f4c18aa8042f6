"""Classify operators by the namespace and prefix of their names."""

from __future__ import annotations

from xdsl.ir import Operation

FOREACH = "aten._foreach_"
"""The name prefix of operators that apply to each tensor of a list."""


def is_foreach(op: Operation) -> bool:
    """Whether ``op`` applies to each tensor of a list."""
    return op.name.startswith(f"torch.{FOREACH}")


def is_prim(op: Operation) -> bool:
    """Whether ``op`` is a ``prims`` operator, which PyTorch's decompositions use; these work element by element."""
    return op.name.startswith("torch.prims.")


def is_process_call(op: Operation) -> bool:
    """Whether ``op`` refers to a table of this process, so an equal op may mean something else in another process."""
    return op.name.startswith("torch.higher_order.triton_kernel_wrapper_")


def is_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of the oneDNN namespace."""
    return op.name.startswith("torch.mkldnn.")


def is_mkl_or_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of the MKL or oneDNN namespace; PyTorch's fake mode supports only some of these."""
    return op.name.startswith(("torch.mkldnn.", "torch.mkl."))
