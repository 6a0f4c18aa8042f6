"""Random generators of Python and NumPy. A program cannot draw from them: a capture would hold the numbers of one call."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.unrecorded import Unrecorded


class HostGenerators:
    """The states of the generators of the process, and of those among ``values``, when this object was made."""

    def __init__(self, values: Iterable[Any]) -> None:
        found = {id(each): each for each in (random, np.random, *filter(_is_generator, values))}
        self._saved = [(each, state := _state(each), pickle.dumps(state)) for each in found.values()]

    def drawn(self) -> list[Any]:
        """Those whose state differs now."""
        return [each for each, _, saved in self._saved if pickle.dumps(_state(each)) != saved]

    def put_back(self) -> None:
        for each, state, _ in self._saved:
            _set_state(each, state)


def _is_generator(value: Any) -> bool:
    kinds = random.Random, np.random.Generator, np.random.RandomState
    return isinstance(value, kinds) and not isinstance(value, random.SystemRandom)


def _state(generator: Any) -> Any:
    if hasattr(generator, "getstate"):
        return generator.getstate()
    return generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state


def _set_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def draws_refused(generators: Sequence[Any]) -> CaptureError:
    """The error for a model that draws from ``generators``. Its cause is Unrecorded where Dynamo runs such draws in Python."""
    repeated = [each for each in generators if isinstance(each, random.Random)]  # Dynamo draws the same number at each call
    generator = (*repeated, *generators)[0]
    is_module = isinstance(generator, ModuleType)
    kind = generator.__name__ if is_module else f"a {type(generator).__module__}.{type(generator).__qualname__}"
    message = f"the model draws from {kind}, and what is captured is one call"
    if repeated:
        return CaptureError(message, hint="draw with random.random() or torch.rand, or give the number to forward")
    error = CaptureError(message, hint=f"draw with torch.rand, give the number to forward, or use {TORCH_COMPILE}")
    error.__cause__ = Unrecorded(message)
    return error
