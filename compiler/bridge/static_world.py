"""Shape inference for CPU tensors of known sizes without Dynamo, whose import takes as long as that of PyTorch."""

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
"""Whether ``StaticFakeMode`` and the plain trace, which use PyTorch internals, were verified with this version of it."""

Answer = TypeVar("Answer")


class NoFake(CannotInfer):
    """No world can make fakes of the results of an operator."""


class StaticWorld(FakeWorld):
    """A world of plain CPU tensors of known sizes. Other types, and failures, raise an error."""

    @cached_property
    def mode(self) -> StaticFakeMode:
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


def evaluate(
    question: Callable[[FakeWorld], Answer],
    symbols: DictionaryAttr | None,
    static: Callable[[], StaticWorld] = StaticWorld,
    world: Callable[[DictionaryAttr | None], FakeWorld] = FakeWorld,
) -> Answer:
    """Evaluate ``question`` in a static world, or if that fails, in a world with the ``symbols`` of the module."""
    if not symbols and IS_PLAIN:
        try:
            with without_dynamo():
                return question(static())
        except NoFake:
            raise
        except Exception:  # the second evaluation raises PyTorch's error, if any
            pass
    return question(world(symbols))
