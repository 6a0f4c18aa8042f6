"""The callable that ``fxc.compile`` gives."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from fxc.runtime.signature import Signature


class Compiled:
    """Runs ``plan`` on inputs that fit ``signature``.

    ``ir``: the program after the pipeline; ``print(compiled.ir)`` shows it. ``plan``: the FX GraphModule that runs.
    ``training``: whether results carry gradients.
    """

    def __init__(self, ir: Any, plan: GraphModule, signature: Signature, training: bool) -> None:
        self.ir, self.plan, self.signature, self.training = ir, plan, signature, training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.signature.check(args, kwargs)
        if self.training:
            return self.plan(*args, **kwargs)
        with torch.no_grad():
            return self.plan(*args, **kwargs)

    def __repr__(self) -> str:
        nodes = len(self.plan.graph.nodes)
        return f"<fxc.Compiled of {len(self.signature.inputs)} inputs, {nodes} nodes{', training' if self.training else ''}>"
