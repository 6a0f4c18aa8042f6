"""Options of a compilation: frozen data, and the one place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from fxc.errors import PipelineError

AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """How ``fxc.compile`` and ``torch.compile(backend="fxc")`` compile. ``FXC_<NAME>`` in the environment sets a default.

    - ``pipeline``: pass pipeline text, as ``fxc-opt --pass-pipeline`` takes it; without it, what ``fxc/pipelines.py`` says for
      inference, training and torch.compile.
    - ``verify_each``: verify the IR after every pass.
    - ``check_numerics``: run the module before and after every pass on seeded inputs, and stop at the first pass that changes
      the numbers. ``"call"``: compare the first call of what was compiled with the reference interpreter on the same inputs,
      too, kernel by kernel.
    - ``print_ir``: write the IR to stderr after every pass that changed it.
    - ``timing``: write a table of pass times to stderr.
    - ``recompile``: what ``fxc.compile`` returns captures the model again for inputs that fit no plan, instead of raising, and
      caches the ``cache_size`` plans used last.
    - ``target``: the machine to generate kernels for, ``host``, ``cuda`` or a preset of ``fxc.dialects.target``, of which
      ``interpret`` is the reference interpreter, which also runs kernels for a machine that is not here; ``auto`` is ``host``
      for inference and torch.compile where all tensors are on the CPU, and else None (``FXC_TARGET=none``), with which every
      operator is a call of ATen.
    - ``freeze``: for inference with the present weights, which are folded and packed once; ``torch.compile`` does so where
      gradients are off, and again for later weights.
    - ``autotune``: GPU kernels are measured in several configurations, and the fastest is cached on disk.
    - ``cache_plans``: compiled graphs are cached on disk, beside the kernels, and found again for an equal graph.
    - ``cuda_graphs``: the launches of a call on a GPU are recorded once, and replayed as one CUDA graph.
    - ``move_inputs``: inputs on another device than in the example are copied to that one, not refused.
    - ``streams``: how many streams of a GPU a call may use, without ``pipeline``; 1: the caller's stream only.
    - ``strict``: every group of fused operators must be a compiled kernel: KernelError for one that has none, or has one that
      only the reference interpreter would run, and the error itself where ``fallback`` would warn.
    - ``fallback``: fused operators of which no kernel can be compiled, because a pass or the code generation fails, run as
      calls of ATen, with a FallbackWarning; without it, the failure is raised.
    - ``group_seconds``: time limit of a pass on one group of fused operators; a pass that takes longer has failed.
    - ``passes``: custom passes that the pipeline names: classes, or Python files with one pass each.
    """

    pipeline: str | None = None
    verify_each: bool = True
    check_numerics: bool | Literal["call"] = False
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
    fallback: bool = True
    group_seconds: int = 60
    passes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """PipelineError for a value that is of another kind than its field."""
        for field in fields(self):
            value, (is_one, kind) = getattr(self, field.name), _KINDS[field.type]
            if not is_one(value):
                raise PipelineError(f"option {field.name} is {value!r}", hint=f"it takes {kind}")

    @property
    def group_limit(self) -> int | None:
        """``group_seconds``; None where the failure of a group is an error."""
        return self.group_seconds if self.fallback and not self.strict and not self.check_numerics else None

    @classmethod
    def from_env(cls, environment: Mapping[str, str] = os.environ) -> Options:
        """The defaults, with what the environment sets. PipelineError for a value that is not one."""
        found: dict[str, Any] = {}
        for field in fields(cls):
            text = environment.get(f"FXC_{field.name.upper()}")
            if text is None or field.name == "passes":
                continue
            value, (is_one, kind) = _value(field.type, text), _KINDS[field.type]
            if not is_one(value):
                raise PipelineError(f"FXC_{field.name.upper()} is {text!r}", hint=f"it takes {kind}")
            found[field.name] = value
        return replace(cls(), **found)


def _value(kind: Any, text: str) -> Any:
    """What ``text`` stands for in the environment; ``text`` where it stands for nothing of that kind."""
    if kind.startswith("bool"):
        return _BOOLEANS.get(text.lower(), text)
    if kind == "int":
        return int(text) if text.isdecimal() else text
    return None if text.lower() == "none" else text


def _are_passes(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(each, (str, Path)) or _is_pass(each) for each in value)


def _is_pass(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "name") and hasattr(value, "apply")


_KINDS: Mapping[Any, tuple[Callable[[Any], bool], str]] = MappingProxyType({
    "bool": (lambda value: isinstance(value, bool), "True or False, in the environment 1 or 0"),
    "bool | Literal['call']": (
        lambda value: isinstance(value, bool) or value == "call", 'True, False or "call", in the environment 1, 0 or call'),
    "int": (lambda value: type(value) is int and value > 0, "a number from 1 on"),
    "str | None": (lambda value: value is None or isinstance(value, str), "a text or None"),
    "tuple[Any, ...]": (_are_passes, "a list of classes of passes and of Python files with one each"),
})  # fmt: skip
"""Type of a field -> whether a value is one, and what that is in words."""
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False, "": False}
