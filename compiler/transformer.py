"""``fxc.Transformer``: make a program of a program by overriding what its calls record, as in ``torch.fx.Transformer``."""

from __future__ import annotations

from typing import cast

import torch.fx

from fxc.api import import_fx, run_passes, to_fx
from fxc.program.program import Program, require_program


class Transformer(torch.fx.Transformer):
    """Makes a program of ``program``: overridden methods get ``torch.fx.Proxy`` values and record calls.

    Targets are those of the graph of ``fxc.to_fx``. InputError if ``program`` is no program.
    """

    def __init__(self, program: Program) -> None:
        require_program(program, "Transformer")
        super().__init__(to_fx(program))

    def transform(self) -> Program:  # type: ignore[override]
        """The transformed program, with inferred types, and its parameters as ``fx.get_attr``.

        CaptureError for a call that a program cannot hold.
        """
        result, given = super().transform(), cast(torch.fx.Graph, self.graph).find_nodes(op="placeholder")
        known = {node.target: node.meta.get("val") for node in given}
        for node in result.graph.find_nodes(op="placeholder"):
            node.meta["val"] = known.get(node.target)
        return run_passes(import_fx(result), "propagate-shapes")
