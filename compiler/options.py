"""Options of a compilation: frozen data, and the one place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fxc.errors import FxcError

AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """How ``fxc.compile`` and ``torch.compile(backend="fxc")`` compile. ``FXC_<NAME>`` in the environment sets a default.

    - ``pipeline``: pass pipeline text, as ``fxc-opt --pass-pipeline`` takes it; without it, what ``fxc/pipelines.py`` says for
      inference, training and torch.compile.
    - ``verify_each``: verify the IR after every pass.
    - ``check_numerics``: run the module before and after every pass on seeded inputs, and stop at the first pass that changes
      the numbers.
    - ``print_ir``: write the IR to stderr after every pass that changed it.
    - ``timing``: write a table of pass times to stderr.
    - ``recompile``: what ``fxc.compile`` gives captures the model again for inputs that fit no plan, instead of refusing them,
      and holds the ``cache_size`` plans used last.
    - ``target``: the machine to make kernels for, ``host``, ``cuda`` or a preset of ``fxc.dialects.target``, of which
      ``interpret`` is the reference interpreter, which also runs those for a machine that is not here; ``auto`` is ``host`` for
      inference and torch.compile where all tensors are on the CPU, and else None, with which (``FXC_TARGET=none``) PyTorch's
      own kernels run.
    - ``freeze``: for inference with the weights of this moment, which are folded and packed, once; ``torch.compile`` does so
      where gradients are off, and again for weights that it gets later.
    - ``autotune``: kernels of a GPU find out there how they run fastest, which is kept on disk.
    - ``cache_plans``: what an equal graph was compiled to is found on disk, and kept there, beside the kernels.
    - ``cuda_graphs``: what a call starts on a GPU is recorded once, and started again as one piece.
    - ``move_inputs``: inputs on another device than in the example are copied to that one, not refused.
    - ``streams``: how many streams of a GPU a call may use, without ``pipeline``; 1 is the caller's, and no more.
    - ``strict``: KernelError for what was fused and has no kernel, or has one that only the reference interpreter would run.
    - ``passes``: passes of your own that the pipeline names: classes, or Python files with one pass each.
    """

    pipeline: str | None = None
    verify_each: bool = True
    check_numerics: bool = False
    print_ir: bool = False
    timing: bool = False
    recompile: bool = False
    cache_size: int = 16
    target: str | None = AUTO
    freeze: bool = False
    autotune: bool = False
    cache_plans: bool = True
    cuda_graphs: bool = False
    move_inputs: bool = False
    streams: int = 1
    strict: bool = False
    passes: tuple[Any, ...] = ()

    @classmethod
    def from_env(cls, environment: Mapping[str, str] = os.environ) -> Options:
        """The defaults, with what the environment sets. FxcError for a value that is not one."""
        found: dict[str, str | bool | int | None] = {}
        for field in fields(cls):
            text = environment.get(f"FXC_{field.name.upper()}")
            if text is None or field.name == "passes":
                continue
            if field.type == "bool":
                if text.lower() not in _BOOLEANS:
                    raise FxcError(f"FXC_{field.name.upper()} is {text!r}", hint="use 0 or 1")
                found[field.name] = _BOOLEANS[text.lower()]
            elif field.type == "int":
                if not text.isdecimal():
                    raise FxcError(f"FXC_{field.name.upper()} is {text!r}", hint="use a number")
                found[field.name] = int(text)
            else:
                found[field.name] = None if text.lower() == "none" else text
        return replace(cls(), **found)  # type: ignore[arg-type]


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False, "": False}
