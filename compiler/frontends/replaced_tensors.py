"""Registered tensors that a call of a model replaces, where a program writes to the ones that the model has."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_buffer_registration_hook
from torch.utils._pytree import tree_leaves

from fxc.bridge.memory import memory_of
from fxc.bridge.modules import modules_of
from fxc.frontends.unrecorded import Unrecorded


class _Registered:
    """The parameters and buffers of ``module`` before a call with ``inputs``, as they are in a trace.

    Of replacements, torch.export records assignments of buffers only, as writes at the end of the call. Such a write is not
    equal to a replacement by a tensor with another dtype or shape, or with the memory of an input or of another one of these.
    """

    def __init__(self, module: torch.nn.Module, inputs: Any) -> None:
        self._before = list[tuple[str, dict[str, Any], str, torch.Tensor, Any]]()
        for path, inner in modules_of(module):
            for table in (inner._parameters, inner._buffers):
                for name, each in table.items():
                    if each is not None:
                        self._before.append((f"{path}.{name}" if path else name, table, name, each, _place(each)))
        given = [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor)]
        self._used = {memory_of(each) for each in (*given, *(tensor for *_, tensor, _ in self._before))}

    def check(self, assigned: list[Any]) -> None:
        """Unrecorded for a tensor that a call has replaced other than by assigning one, in ``assigned``, that fits it."""
        recorded, used = set(map(id, assigned)), set(self._used)
        for path, table, name, was, place in self._before:
            now = table.get(name)
            if now is not None and _place(now) == place and (now is was or id(now) in recorded):
                continue
            if now is None or now is was or id(now) not in recorded or memory_of(now) in used or not _has_type_of(was, now):
                raise Unrecorded(f"how a call of the model replaces {path!r}, a parameter or buffer, is not recorded")
            used.add(memory_of(now))


def _place(tensor: torch.Tensor) -> Any:
    return memory_of(tensor), tensor.dtype, *((*tensor.shape, *tensor.stride()) if tensor.layout is torch.strided else ())


def _has_type_of(was: torch.Tensor, now: torch.Tensor) -> bool:
    sizes: list[Any] = list(now.shape)
    is_static = all(isinstance(size, int) for size in sizes)  # a comparison with a free size would add a condition
    return is_static and (now.dtype, now.device, sizes) == (was.dtype, was.device, list(was.shape))


@contextmanager
def replacements_refused(module: torch.nn.Module, *, assigned: bool = False) -> Generator[None, None, None]:
    """Unrecorded where a call of ``module`` in this context replaces a tensor. ``assigned``: the trace records assignments."""
    recorded, before = list[Any](), list[_Registered]()

    def start(module: torch.nn.Module, *inputs: Any) -> None:
        before[:] = [_Registered(module, inputs)]

    def compare(*_: Any) -> None:
        before[0].check(recorded)

    def record(module: torch.nn.Module, name: str, value: Any) -> None:
        recorded.append(value)

    handles = [
        module.register_forward_pre_hook(start, prepend=True, with_kwargs=True),
        module.register_forward_hook(compare),
    ]
    if assigned:
        handles.append(register_module_buffer_registration_hook(record))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
