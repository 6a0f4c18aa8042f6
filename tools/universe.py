"""The entry point by which xDSL tools (``xdsl-opt``) find fxc's dialects and passes.

Their context does not support classes made on first use, so the ``torch`` dialect lists every operator of the table here.
Universes may not share a name, and xDSL also has a ``cse``, so passes have a prefix: ``fxc-cse``. Passes that query PyTorch
run in ``fxc-opt`` only.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from fxc import passes
from fxc.dialects import all_dialects
from fxc.dialects.torch_ops import Torch, op_class, table


def _torch() -> Dialect:
    operators = [cls for name in table() if (cls := op_class(f"torch.{name}")) is not None]
    return Dialect("torch", [*Torch.operations, *operators], list(Torch.attributes))


def _pass(name: str) -> type[ModulePass]:
    cls = passes.load(name)
    return type(cls.__name__, (cls,), {"name": f"fxc-{name}"})


FXC_UNIVERSE = Universe(
    all_dialects={**all_dialects(), "torch": _torch},
    all_passes={f"fxc-{name}": (lambda name=name: _pass(name)) for name in passes.available()},
)
