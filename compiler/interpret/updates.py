"""Elements of a tensor that are combined with updates, of which several may meet one."""

from __future__ import annotations

import torch


def combine(flat: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, kind: str) -> None:
    """Combine the elements of ``flat`` at ``places``, int64, with ``updates``, in place: by ``kind`` "add", "max" or "min"."""
    if kind == "add":
        flat.index_put_((places,), updates, accumulate=True)
    else:
        flat.scatter_reduce_(0, places, updates, f"a{kind}")
