"""The entry point by which stock xDSL tools (``xdsl-opt``) find fxc's dialects and passes.

Their context knows nothing of classes made on first use, so the ``torch`` dialect lists every operator of the table here.
Universes may not share a name, and ``cse`` is xDSL's too: ours are ``fxc-cse`` there. Those that ask PyTorch need ``fxc-opt``.
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
