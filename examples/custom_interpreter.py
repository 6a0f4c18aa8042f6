"""Count floating-point operations and log every op by subclassing the interpreter, as one would torch.fx.Interpreter."""

import math
from collections import Counter
from typing import Any

import torch
from torch import nn
from xdsl.ir import Operation

import fxc


class FlopCounter(fxc.Interpreter):
    """Multiplications and additions of linear layers and convolutions, by operator."""

    def __init__(self, program: fxc.Program) -> None:
        super().__init__(program)
        self.flops = Counter[str]()

    def run_node(self, op: Operation) -> Any:
        result = super().run_node(op)
        print(f"{op.name.removeprefix('torch.'):28} -> {tuple(result.shape)}")
        if op.name in ("torch.aten.linear.default", "torch.aten.conv2d.default"):
            weight = self.env[op.operands[1]]
            self.flops[op.name] += 2 * math.prod(weight.shape[1:]) * result.numel()
        return result


model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10)).eval()
x = torch.randn(2, 3, 8, 8)
counter = FlopCounter(fxc.capture(model, (x,)))
result = counter.run(x)

for operator, count in counter.flops.items():
    print(f"{operator}: {count} flops")
torch.testing.assert_close(result, model(x))
assert counter.flops["torch.aten.conv2d.default"] == 2 * 3 * 3 * 3 * (2 * 8 * 6 * 6)
assert counter.flops["torch.aten.linear.default"] == 2 * (8 * 6 * 6) * (2 * 10)

profiler = fxc.Profiler(counter.program)
for _ in range(3):
    profiler.run(x)
print(profiler.summary())
