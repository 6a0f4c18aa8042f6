"""Patterns. ``python -m fxc.tools.generate_patterns examples/patterns/patterns.py examples/patterns`` writes the files."""

import torch
import torch.nn.functional as F

import fxc


def silu(x):
    return x * torch.sigmoid(x)


def attention(q, k, v, scale):
    return torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v


def sdpa(q, k, v, scale):
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


def masked_attention(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-2, -1) * 0.25 + mask, dim=-1) @ v


def masked_sdpa(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.25)


def negations(x):
    return torch.neg(torch.neg(x))


def range_of(x):
    return x.amax(-1), x.amin(-1)


def aminmax(x):
    low, high = torch.aminmax(x, dim=-1)
    return high, low


def product(a, b, c):
    return a @ b + c


def addmm(a, b, c):
    return torch.addmm(c, a, b)


q, k, mask = torch.ones(2, 3, 5, 16), torch.ones(2, 3, 7, 16), torch.ones(5, 7)
fxc.register_pattern(silu, F.silu, (torch.ones(2, 3),))
fxc.register_pattern(attention, sdpa, (q, k, k, 0.25), same_strides=False, special_values=False)
fxc.register_pattern(masked_attention, masked_sdpa, (q, k, k, mask), same_strides=False, special_values=False)
fxc.register_pattern(negations, lambda x: x, (torch.ones(2, 3),), same_strides=False)
fxc.register_pattern(range_of, aminmax, (torch.ones(2, 3),))
fxc.register_pattern(product, addmm, (torch.ones(2, 3), torch.ones(3, 4), torch.ones(2, 4)), exclusive=("a", "b"))
