"""Whose operators are called: what names of namespaces and of families in them say."""

from __future__ import annotations

from xdsl.ir import Operation

FOREACH = "aten._foreach_"
"""How the names of operators begin that do the same to each tensor of a list."""


def is_foreach(op: Operation) -> bool:
    """Whether ``op`` does the same to each tensor of a list."""
    return op.name.startswith(f"torch.{FOREACH}")


def is_prim(op: Operation) -> bool:
    """Whether ``op`` is one of those that PyTorch's decompositions are made of, which work element by element."""
    return op.name.startswith("torch.prims.")


def is_process_call(op: Operation) -> bool:
    """Whether ``op`` means what a table of the process holds: an equal one may do something else in another process."""
    return op.name.startswith("torch.higher_order.triton_kernel_wrapper_")


def is_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of oneDNN's own."""
    return op.name.startswith("torch.mkldnn.")


def is_mkl_or_onednn(op: Operation) -> bool:
    """Whether ``op`` is an operator of one of these libraries' own, for which PyTorch's fake mode has a rule or nothing."""
    return op.name.startswith(("torch.mkldnn.", "torch.mkl."))
