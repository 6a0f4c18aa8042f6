"""Options of a compilation: frozen data, and the only reader of the environment."""

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
    """Options of ``fxc.compile`` and ``torch.compile(backend="fxc")``. ``FXC_<NAME>`` in the environment sets a default.

    - ``pipeline``: pass pipeline text, as for ``fxc-opt --pass-pipeline``; by default a named pipeline for inference, training
      or torch.compile.
    - ``verify_each``: verify the IR after every pass.
    - ``check_numerics``: run the module before and after every pass on seeded inputs, and stop at the first pass that changes
      the results. ``"call"``: also compare the first call of the compiled program with the reference interpreter on the same
      inputs, kernel by kernel.
    - ``print_ir``: write the IR to stderr after every pass that changed it.
    - ``timing``: write a table of pass times to stderr.
    - ``recompile``: the result of ``fxc.compile`` captures the model again for inputs that fit no plan, instead of raising, and
      caches the plans. Inputs that cannot be captured, such as sizes out of their bounds, are those of ``fallback``.
    - ``cache_size``: the number of plans that ``recompile`` caches: the most recently used ones.
    - ``target``: the machine to generate kernels for: ``host``, ``cuda`` or a preset of ``fxc.dialects.target``. The preset
      ``interpret`` is the reference interpreter, which also runs kernels for machines that are not present. ``auto`` is
      ``host`` for inference and torch.compile if all tensors are on the CPU, else None (``FXC_TARGET=none``): every operator
      is a call of ATen.
    - ``freeze``: for inference with the current weights, which are folded and packed once; ``torch.compile`` does this where
      gradients are off, and again when weights change.
    - ``autotune``: measure several configurations of each GPU kernel and cache the fastest on disk.
    - ``cache_plans``: cache compiled graphs on disk, beside the kernels, and load them for equal graphs.
    - ``cuda_graphs``: record the launches of a call on a GPU once, and replay them as one CUDA graph.
    - ``memory_budget``: peak memory of a training step by ``torch.compile``, or with DTensors, beside parameters and inputs:
      bytes, also as ``"64MiB"``; or a fraction from 0, the lowest possible, to 1, where little is computed again.
    - ``offload``: bytes of tensors on accelerators, saved for the backward, to move to the host meanwhile, the largest first;
      or a fraction of them.
    - ``move_inputs``: copy inputs on another device than in the example to that device, instead of refusing them.
    - ``streams``: the maximum number of GPU streams of a call, without ``pipeline``; 1: the stream of the caller only.
    - ``strict``: every group of fused operators must be a compiled kernel: KernelError for a group without a kernel, or with a
      kernel that only the reference interpreter can run, and the original error where ``fallback`` would warn.
    - ``fallback``: run fused operators as calls of ATen, with a FallbackWarning, where a pass or the code generation fails on
      them, and in PyTorch, with compiled parts, a model that cannot be captured; without it, the failure is raised.
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
    memory_budget: float | str = 1.0
    offload: float | str = 0.0
    move_inputs: bool = False
    streams: int = 1
    strict: bool = False
    fallback: bool = True
    group_seconds: int = 60
    passes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """PipelineError for a value of another type than its field."""
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
        """The defaults, overridden by the environment. PipelineError for an invalid value."""
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


_DIGITS = 19
"""The number of digits from which on an integer is none of the 64 bits of a size."""


def _value(kind: Any, text: str) -> Any:
    """The value of ``text`` from the environment; ``text`` itself where it is not a value of that type."""
    if kind.startswith("bool"):
        return _BOOLEANS.get(text.lower(), text)
    if kind == "int":
        return int(text) if text.isdecimal() and len(text) < _DIGITS else text
    return None if text.lower() == "none" else text


def _are_passes(value: tuple[Any, ...] | list[Any] | str | float | None) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(each, (str, Path)) or _is_pass(each) for each in value)


def _is_pass(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "name") and hasattr(value, "apply")


_KINDS: Mapping[Any, tuple[Callable[[Any], bool], str]] = MappingProxyType({
    "bool": (lambda value: isinstance(value, bool), "True or False, in the environment 1 or 0"),
    "bool | Literal['call']": (
        lambda value: isinstance(value, bool) or value == "call", 'True, False or "call", in the environment 1, 0 or call'),
    "int": (lambda value: type(value) is int and value > 0, "a number from 1 on"),
    "float | str": (
        lambda value: isinstance(value, str) or (type(value) in (int, float) and value >= 0),
        "a fraction from 0 to 1, a number of bytes, or a text such as 64MiB"),
    "str | None": (lambda value: value is None or isinstance(value, str), "a text or None"),
    "tuple[Any, ...]": (_are_passes, "a list of classes of passes and of Python files with one each"),
})  # fmt: skip
"""Type of a field -> (predicate for its values, description in words)."""
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False, "": False}
