"""The models that ``benchmarks/cpu.py`` measures: those of ``examples/models`` at their sizes there, or as tests run them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LLAMA_LAYERS = 4
Cache = tuple[tuple[Tensor, Tensor], ...]


class Decode(nn.Module):
    """One more token of GPT-2: ids (batch, 1) and the keys and values of all tokens before, to logits and the longer cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, ids: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        past, model = cache[0][0].size(2), self.model
        x = model.tokens(ids) + model.positions(torch.arange(past, past + 1, device=ids.device))
        longer: list[tuple[Tensor, Tensor]] = []
        for block, (old_keys, old_values) in zip(model.blocks, cache, strict=True):
            attention = block.attention
            q, k, v = (attention.split_heads(part) for part in attention.qkv(block.norm1(x)).chunk(3, dim=-1))
            keys, values = torch.cat((old_keys, k), 2), torch.cat((old_values, v), 2)
            y = F.scaled_dot_product_attention(q, keys, values)
            x = x + attention.project(y.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
            longer.append((keys, values))
        return model.lm_head(model.norm(x)), tuple(longer)


class WithLoss(nn.Module):
    """A model and the cross entropy of its results, classes last."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        return F.cross_entropy(self.model(x).flatten(0, -2).float(), classes.flatten())


def decode_inputs(*, batch: int, past: int, layers: int, heads: int, head_width: int, vocab: int) -> tuple[Tensor, Cache]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocab, (batch, 1), generator=generator)
    shape = (2, layers, batch, heads, past, head_width)
    keys, values = torch.randn(shape, generator=generator)
    return ids, tuple((k.clone(), v.clone()) for k, v in zip(keys, values, strict=True))


@dataclass(frozen=True)
class Size:
    """Arguments of ``Model`` and of what makes the inputs."""

    model: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ModelCase:
    """A module of ``examples/models`` at its full and its tiny size; ``wrap`` and ``make_inputs`` in place of its own."""

    module: str
    full: Size
    tiny: Size
    wrap: Callable[[nn.Module], nn.Module] | None = None
    make_inputs: Callable[..., tuple[Any, ...]] | None = None

    def model(self, dtype: torch.dtype = torch.float32, *, tiny: bool = False) -> nn.Module:
        torch.manual_seed(0)
        made = import_module(f"examples.models.{self.module}").Model(**(self.tiny if tiny else self.full).model)
        return (made if self.wrap is None else self.wrap(made)).eval().to(dtype)

    def inputs(self, batch: int, dtype: torch.dtype = torch.float32, *, tiny: bool = False) -> tuple[Any, ...]:
        make = self.make_inputs or import_module(f"examples.models.{self.module}").get_inputs
        made = make(batch=batch, **(self.tiny if tiny else self.full).inputs)
        return tree_map_only(Tensor, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, made)


def training_inputs(inputs: tuple[Tensor, ...], classes: int) -> tuple[Tensor, Tensor]:
    """The inputs of ``WithLoss``: a class for each image, or for each token."""
    generator = torch.Generator().manual_seed(1)
    [x] = inputs
    shape = x.shape[:1] if x.is_floating_point() else x.shape
    return x, torch.randint(classes, shape, generator=generator)


_TINY_TEXT = {"vocab": 61, "context": 16, "layers": 2, "width": 24, "heads": 4}
_TINY_RESNET = {"depths": (1, 1), "width": 8, "classes": 10}
_TINY_CONVNEXT = {"depths": (1, 1), "dims": (8, 16), "classes": 10}
_LLAMA = {"layers": LLAMA_LAYERS, "kv_heads": 4}

MODELS: Mapping[str, ModelCase] = MappingProxyType({
    "ResNet-50": ModelCase("resnet", Size(), Size(_TINY_RESNET, {"size": 32})),
    "ConvNeXt-T": ModelCase("convnext", Size({"depths": (3, 3, 9, 3)}), Size(_TINY_CONVNEXT, {"size": 32})),
    "ViT-B": ModelCase(
        "vit",
        Size(),
        Size({"image": 16, "patch": 4, "layers": 2, "width": 24, "heads": 4, "hidden": 48, "classes": 10}, {"size": 16}),
    ),
    "BERT-base": ModelCase("bert", Size({}, {"tokens": 128}), Size(_TINY_TEXT, {"tokens": 10, "vocab": 61})),
    "GPT-2 prefill": ModelCase("gpt2", Size({}, {"tokens": 128}), Size(_TINY_TEXT, {"tokens": 10, "vocab": 61})),
    "GPT-2 decode": ModelCase(
        "gpt2",
        Size({}, {"past": 128, "layers": 12, "heads": 12, "head_width": 64, "vocab": 50257}),
        Size(_TINY_TEXT, {"past": 10, "layers": 2, "heads": 4, "head_width": 6, "vocab": 61}),
        Decode,
        decode_inputs,
    ),
    "Llama-like": ModelCase(
        "llama",
        Size({**_LLAMA, "width": 1024, "heads": 16, "hidden": 2816}, _LLAMA),
        Size(
            {"vocab": 61, "layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "hidden": 48},
            {"tokens": 5, "past": 4, "context": 12, "vocab": 61, "layers": 2, "kv_heads": 2, "head_width": 8},
        ),
    ),
    "MLP": ModelCase("mlp", Size(), Size({"features": 12, "hidden": (16, 8), "classes": 5}, {"features": 12})),
    "U-Net": ModelCase("unet", Size(), Size({"widths": (8, 16), "blocks": 1, "groups": 4}, {"size": 12})),
})  # fmt: skip
"""Inference."""


@dataclass(frozen=True)
class TrainingCase:
    """A model with its loss, trained without dropout, so that all ways do the same."""

    case: ModelCase
    classes: int
    tiny_classes: int

    def model(self, dtype: torch.dtype = torch.float32, *, tiny: bool = False) -> nn.Module:
        return WithLoss(self.case.model(dtype, tiny=tiny)).train()

    def inputs(self, batch: int, dtype: torch.dtype = torch.float32, *, tiny: bool = False) -> tuple[Tensor, Tensor]:
        return training_inputs(self.case.inputs(batch, dtype, tiny=tiny), self.tiny_classes if tiny else self.classes)


def _resnet_18() -> Mapping[str, Any]:
    return {"block": import_module("examples.models.resnet").BasicBlock, "depths": (2, 2, 2, 2)}


TRAINING: Mapping[str, TrainingCase] = MappingProxyType({
    "ResNet-18": TrainingCase(ModelCase("resnet", Size(_resnet_18()), Size(_TINY_RESNET, {"size": 32})), 1000, 10),
    "ConvNeXt small": TrainingCase(
        ModelCase(
            "convnext",
            Size({"depths": (2, 2, 2, 2), "dims": (48, 96, 192, 384), "drop_path": 0.0}),
            Size({**_TINY_CONVNEXT, "drop_path": 0.0}, {"size": 32}),
        ),
        1000,
        10,
    ),
    "GPT-2, 4 layers": TrainingCase(
        ModelCase(
            "gpt2",
            Size({"layers": 4, "dropout": 0.0}, {"tokens": 128}),
            Size({**_TINY_TEXT, "dropout": 0.0}, {"tokens": 10, "vocab": 61}),
        ),
        50257,
        61,
    ),
})  # fmt: skip
"""Training steps."""


def growing(layers: int, width: int = 64) -> tuple[nn.Module, tuple[Any, ...]]:
    """GPT-2 of ``layers`` small layers."""
    size = Size({"vocab": 512, "context": 64, "layers": layers, "width": width, "heads": 4}, {"tokens": 32, "vocab": 512})
    case = ModelCase("gpt2", size, size)
    return case.model(), case.inputs(1)
