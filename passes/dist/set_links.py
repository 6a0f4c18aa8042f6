"""Set the measured times of collectives, on which estimates are based.

Assumes  nothing.
Ensures  the module has the links of ``file`` as ``dist.links``, instead of any others. Idempotent.
Leaves   everything else.
Cost     the file is read.

Before: set-links{file=lit_tests/passes/dist/inputs/near.json}
    dist.mesh @mesh "cpu" (near = 2)
    func.func @main() {
      fx.output() : () -> ()
    }
After:
    builtin.module attributes {
      dist.links = [{
        collective = "all_reduce", ranks = 2, latency_us = 10.0, bytes_per_us = 1000.0, axis = "near", start_us = 2.0
      }]
    } {
      dist.mesh @mesh "cpu" (near = 2)
      func.func @main() {
        fx.output() : () -> ()
      }
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.passes.dist.links import ATTRIBUTE, links_attr, read_links


@dataclass(frozen=True)
class SetLinksPass(ModulePass):
    """Set the measured times of collectives.

    ``file``: what ``fxc measure-links -o FILE`` wrote; without it, nothing changes.
    """

    name = "set-links"
    file: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.file:
            op.attributes[ATTRIBUTE] = links_attr(read_links(self.file))
