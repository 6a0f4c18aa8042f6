"""What PyTorch answers about tensors of known sizes on the CPU, without Dynamo, which takes as long to import as PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NoReturn, TypeVar

import torch
from xdsl.dialects.builtin import DictionaryAttr, TensorType

from fxc.bridge.fake_mode import StaticFakeMode, without_dynamo
from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.semantics import CannotInfer
from fxc.errors import FxcError

IS_PLAIN = torch.__version__.startswith("2.13.")
"""Whether ``StaticFakeMode`` and the plain trace, which use private parts of PyTorch, were compared with this version of it."""

Answer = TypeVar("Answer")


class NoFake(CannotInfer):
    """No world has fakes of what an operator gives."""


class StaticWorld(FakeWorld):
    """A world of plain tensors of known sizes on the CPU. What else is to be in it, and what fails in it, raises."""

    @cached_property
    def mode(self) -> StaticFakeMode:  # type: ignore[override]
        return StaticFakeMode()

    @property
    def shape_env(self) -> NoReturn:  # type: ignore[override]
        raise FxcError("a size that is not known")

    def _tensor(self, type: TensorType) -> torch.Tensor:
        sizes, strides = types.sizes(type), types.strides(type)
        known = [dim for dim in (*sizes, *(strides or ())) if isinstance(dim, int)]
        if types.layout(type) != "strided" or types.device(type) != "cpu" or len(known) < len(sizes) + len(strides or ()):
            raise FxcError(f"{type} is not plain")
        dims = known[: len(sizes)]
        steps = types.contiguous_strides(dims) if strides is None else known[len(sizes) :]
        return self.mode.made(dims, steps, torch_dtype(type.element_type))


def asked(
    question: Callable[[FakeWorld], Answer],
    symbols: DictionaryAttr | None,
    static: Callable[[], StaticWorld] = StaticWorld,
    world: Callable[[DictionaryAttr | None], FakeWorld] = FakeWorld,
) -> Answer:
    """What ``question`` gives in a static world, or where it fails there, in one with the ``symbols`` of the module."""
    if not symbols and IS_PLAIN:
        try:
            with without_dynamo():
                return question(static())
        except NoFake:
            raise
        except Exception:  # what is wrong, PyTorch says, if anything is
            pass
    return question(world(symbols))
