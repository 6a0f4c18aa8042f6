"""Decompose operators by writing down in Python what they compute; the numbers are checked against eager.

Each function has the operator's own signature as far as the model uses it. Types, names and source lines of the replaced
operators are kept, and a replacement of another shape or dtype is refused.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxc


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def decomposed_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True)
    return centered * torch.rsqrt(variance + 1e-5) * weight + bias


def decomposed_silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


RULES = [(layer_norm, decomposed_layer_norm), (F.silu, decomposed_silu)]

model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 4)).eval()
x = torch.randn(3, 8)
program = fxc.capture(model, (x,))
print(program)
for composite, decomposition in RULES:
    program = fxc.replace_pattern(program, composite, decomposition)
    print(f"{composite.__name__}: {len(program.matches)} decomposed")
print(program)

operators = {op.name for op in program.main.walk()}
assert not operators & {"torch.aten.layer_norm.default", "torch.aten.silu.default"}
torch.testing.assert_close(fxc.to_fx(program)(x), model(x))
