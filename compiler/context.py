"""Makes the context that every tool and API call starts from."""

from __future__ import annotations

from xdsl.dialects import get_all_dialects

from fxc.dialects import all_dialects
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import Semantics


def new_context() -> FxcContext:
    """A context with fxc's dialects and xDSL's, each loaded on first use, and PyTorch's semantics, loaded on first use."""
    context = FxcContext(_load_semantics)
    for name, factory in {**get_all_dialects(), **all_dialects()}.items():
        context.register_dialect(name, factory)
    return context


def _load_semantics() -> Semantics:
    from fxc.semantics import TorchSemantics

    return TorchSemantics()
