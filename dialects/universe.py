"""The entry point by which stock xDSL tools find fxc's dialects and passes."""

from xdsl.universe import Universe

from fxc import passes
from fxc.dialects import all_dialects

FXC_UNIVERSE = Universe(
    all_dialects=all_dialects(),
    all_passes={name: (lambda name=name: passes.load(name)) for name in passes.available()},
)
