"""Replace hand-written attention by PyTorch's fused operator: two Python functions, no operator names.

A parameter matches any value; everything else must be the same call with the same constants. The replacement is traced at the
types of each match, so it may read sizes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxc


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return self.out((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))


def pattern(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def replacement(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


model = nn.Sequential(Attention(32, 4), Attention(32, 4)).eval()
x = torch.randn(2, 10, 32)
program = fxc.capture(model, (x,))
result = fxc.replace_pattern(program, pattern, replacement)

print(result)
for match in result.matches:
    print(f"{', '.join(match.replaced)} -> scaled_dot_product_attention({', '.join(match.arguments)})")
    print(f"  {match.place}")

assert len(result.matches) == 2
torch.testing.assert_close(fxc.to_fx(result)(x), model(x))
