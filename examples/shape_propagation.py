"""Shapes and dtypes of every value, without running the model; and with a batch size that is left free.

With torch.fx this is ShapeProp over example inputs. Here types are part of the IR: a graph of symbolic_trace has none, and the
conversion to operators of PyTorch fills them in from fake tensors.
"""

import torch
from torch import nn

import fxc

model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, 10)).eval()
x = torch.randn(2, 3, 16, 16)


def shapes(program: fxc.Program) -> dict[str, str]:
    """Value name -> type, in program order."""
    return {result.name_hint or "?": str(result.type) for op in program.main.walk() for result in op.results}


traced = fxc.capture(model, (x,), route="symbolic_trace")
print("as traced:       ", shapes(traced))
typed = fxc.run_passes(traced, "convert-fx-to-torch,inline,symbol-dce")
print("with shapes:")
for name, type in shapes(typed).items():
    print(f"  %{name}: {type}")

batch = torch.export.Dim("batch", min=2, max=64)
dynamic = fxc.capture(model, (x,), dynamic_shapes=({0: batch},))
print("with a free batch size:")
for name, type in shapes(dynamic).items():
    print(f"  %{name}: {type}")

assert shapes(typed)["linear"] == "tensor<2x10xf32>"
assert "!fx.value" in shapes(traced).values() and "!fx.value" not in shapes(typed).values()
assert '["s' in shapes(dynamic)["linear"]
torch.testing.assert_close(fxc.to_fx(typed)(x), model(x))
torch.testing.assert_close(fxc.to_fx(dynamic)(torch.cat([x, x])), model(torch.cat([x, x])))
