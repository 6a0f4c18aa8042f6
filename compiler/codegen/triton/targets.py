"""The GPU targets of kernels, by name: ``cuda:sm_90``, ``rocm:gfx942``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fxc.errors import KernelError


@dataclass(frozen=True)
class TritonTarget:
    """A GPU target in Triton's terms: ``backend`` and ``arch`` are ("cuda", 90) or ("hip", "gfx942").

    ``warp`` is the number of hardware lanes of a warp, ``binary`` the kind of binary of a compiled kernel.
    """

    name: str
    backend: str
    arch: int | str
    warp: int
    binary: str

    @classmethod
    def of(cls, name: str) -> TritonTarget:
        """The target of a name. Raises KernelError if the name has neither form."""
        cuda, rocm = re.fullmatch(r"cuda:sm_(\d+)", name), re.fullmatch(r"rocm:(gfx\w+)", name)
        if cuda is not None:
            return cls(name, "cuda", int(cuda[1]), 32, "cubin")
        if rocm is not None:
            return cls(name, "hip", rocm[1], 64 if rocm[1].startswith("gfx9") else 32, "hsaco")
        raise KernelError(
            f"{name!r} is not a GPU that Triton compiles for", hint="a target is one like cuda:sm_90 or rocm:gfx942"
        )
