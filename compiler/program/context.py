"""The initial context of all tools and API calls."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import get_all_dialects

from fxc.dialects import all_dialects
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import Semantics


def new_context(live: dict[str, Any] | None = None) -> FxcContext:
    """A context with the dialects of fxc and xDSL, and PyTorch's semantics, each loaded on first use.

    ``live``: functions and modules allowed in addition to the allow-list, as in ``fxc.program.program.Program``.
    """

    def load_semantics() -> Semantics:
        from fxc.semantics.torch_semantics import TorchSemantics

        return TorchSemantics(live)

    context = FxcContext(load_semantics)
    for name, factory in {**get_all_dialects(), **all_dialects()}.items():
        context.register_dialect(name, factory)
    return context
