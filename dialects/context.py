"""The context of a compilation: known dialects and operators, and lazily loaded semantics of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from fxc.dialects.torch_ops.operators import op_class

if TYPE_CHECKING:
    from fxc.dialects.equations import Equation
    from fxc.dialects.semantics import Semantics


Times: TypeAlias = Callable[[Sequence[ModuleOp]], Sequence[float] | None]
"""Milliseconds of the function ``main`` of each module on the device of its tensors, measured alternately; infinite where it
cannot run. None where that device is not present, or measuring is disabled."""


class FxcContext(Context):
    """An xDSL context that makes classes for PyTorch's operators on first use.

    ``semantics`` infers types and values of operators. It is loaded on first use, and torch with it, by the function
    ``load_semantics`` that the compiler passes in, so dialects and passes never import torch.
    """

    def __init__(self, load_semantics: Callable[[], Semantics] | None = None) -> None:
        super().__init__()
        self._load_semantics = load_semantics
        self._semantics: Semantics | None = None
        self.times: Times = lambda modules: None
        """Measures programs; set by the caller that runs passes."""
        self.patterns: Sequence[Equation] = ()
        """The registered patterns; set by the caller that runs passes."""

    @property
    def semantics(self) -> Semantics:
        if self._semantics is None:
            if self._load_semantics is None:
                raise ValueError("this context was made without semantics; use fxc.program.program.new_context()")
            self._semantics = self._load_semantics()
        return self._semantics

    def clone(self) -> FxcContext:
        copy = FxcContext(self._load_semantics)
        copy.allow_unregistered = self.allow_unregistered
        copy._semantics, copy.times, copy.patterns = self._semantics, self.times, self.patterns
        copy._loaded_dialects = self._loaded_dialects.copy()
        copy._loaded_ops = self._loaded_ops.copy()
        copy._loaded_attrs = self._loaded_attrs.copy()
        copy._loaded_types = self._loaded_types.copy()
        copy._registered_dialects = self._registered_dialects.copy()
        return copy

    def _get_known_op(self, name: str) -> type[Operation] | None:
        found = super()._get_known_op(name)
        if found is None and name.startswith("torch.") and (found := op_class(name)) is not None:
            self._loaded_ops[name] = found
        return found
