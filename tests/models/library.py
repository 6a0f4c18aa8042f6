"""Models of transformers, timm and torchvision, made from configurations with random weights. They need the extra ``models``.

One row a model. ``python -m tests.models.status`` runs all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, HEADS, WORDS, CLASSES = 32, 4, 96, 5
Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """``make()``: the model. ``inputs(batch, length)``: what it is called with, by name; a length is of text or sound.

    ``labels(inputs)``: what is added to them in training, for a model that computes a loss. ``loops``: over the length, in
    Python, so that each length has a graph.
    """

    name: str
    library: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], dict[str, Any]]
    labels: Callable[[Inputs], dict[str, Any]] = lambda _: {}
    loops: bool = False


def words(batch: int, length: int) -> Tensor:
    """Identifiers of words, none of which is special."""
    return torch.randint(5, WORDS, (batch, length))


def text(batch: int, length: int) -> dict[str, Any]:
    """Padded on the right."""
    ends = torch.arange(length - batch, length)[:, None].clamp(min=2) + 1
    return {"input_ids": words(batch, length), "attention_mask": (torch.arange(length) < ends).long()}


def pair(batch: int, length: int) -> dict[str, Any]:
    return {**text(batch, length + 3), "decoder_input_ids": words(batch, length)}


def sound(batch: int, length: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 40 * length)}


def spectrum(batch: int, length: int) -> dict[str, Any]:
    return {"input_features": torch.randn(batch, 8, 32), "decoder_input_ids": words(batch, length)}


def image(batch: int, _: int, name: str = "x", size: int = 32, frames: tuple[int, ...] = ()) -> dict[str, Any]:
    return {name: torch.randn(batch, 3, *frames, size, size)}


def captioned(batch: int, length: int) -> dict[str, Any]:
    return {**text(batch, length), **pixels(batch, length)}


pixels = partial(image, name="pixel_values")


def next_words(inputs: Inputs) -> dict[str, Any]:
    return {"labels": inputs["input_ids"]}


def decoded(inputs: Inputs) -> dict[str, Any]:
    return {"labels": inputs["decoder_input_ids"]}


def classes(inputs: Inputs) -> dict[str, Any]:
    return {"labels": torch.arange(len(next(iter(inputs.values())))) % CLASSES}


def similar(_: Inputs) -> dict[str, Any]:
    return {"return_loss": True}


def spoken(inputs: Inputs) -> dict[str, Any]:
    return {"labels": torch.ones(len(inputs["input_values"]), 2, dtype=torch.int64)}


SIZES = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
CODED = {
    "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 2 * WIDTH, "decoder_ffn_dim": 2 * WIDTH, "decoder_start_token_id": 2,
}  # fmt: skip
IMAGE = {"image_size": 32, "patch_size": 8}


def _transformers(
    kind: str, head: str, config: Mapping[str, Any], inputs: Any, labels: Any = next_words, name: str = "", loops: bool = False
) -> Row:
    """The model ``AutoModelFor<head>`` of a configuration of this kind."""

    def make() -> nn.Module:
        import transformers

        given = {} if inputs in (pixels, captioned) else {"vocab_size": WORDS}
        given |= {"num_labels": CLASSES} if labels is classes else {}
        chosen = transformers.AutoConfig.for_model(kind, **given, **config)
        return getattr(transformers, f"AutoModel{head and 'For'}{head}").from_config(chosen)

    return Row(name or kind, "transformers", make, inputs, labels, loops)


def _timm(name: str, **config: Any) -> Row:
    """A model of the registry of timm, or ``module.Class``."""

    def make() -> nn.Module:
        module, _, of = name.partition(".")
        found = getattr(import_module(f"timm.models.{module}"), of) if of else partial(import_module("timm").create_model, name)
        return found(num_classes=CLASSES, **config)

    return Row(name, "timm", make, image)


def _torchvision(name: str, make: Callable[[Any], nn.Module], inputs: Any = image) -> Row:
    return Row(name, "torchvision", lambda: make(import_module("torchvision.models")), inputs)


def _mobilenet(models: Any) -> nn.Module:
    return models.MobileNetV2(CLASSES, 0.25, [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]])


def _efficientnet(models: Any) -> nn.Module:
    block = models.efficientnet.MBConvConfig
    return models.EfficientNet(
        [block(1, 3, 1, 8, 8, 1, 1.0, 1.0), block(4, 5, 2, 8, 16, 2, 1.0, 1.0)], 0.2, num_classes=CLASSES
    )


def _convnext(models: Any) -> nn.Module:
    block = models.convnext.CNBlockConfig
    return models.ConvNeXt([block(16, 32, 1), block(32, None, 1)], num_classes=CLASSES)


def _segmentation(models: Any) -> nn.Module:
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3

    features = nn.Sequential()
    features.out = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    return DeepLabV3(IntermediateLayerGetter(features, {"out": "out"}), DeepLabHead(16, CLASSES, (2, 3)))


ROWS = {
    row.name: row
    for row in (
        _transformers("bert", "MaskedLM", SIZES, text),
        _transformers("roberta", "MaskedLM", SIZES, text),
        _transformers("distilbert", "MaskedLM", {"dim": WIDTH, "n_layers": 2, "n_heads": HEADS, "hidden_dim": 2 * WIDTH}, text),
        _transformers("albert", "SequenceClassification", {**SIZES, "embedding_size": 16}, text, classes),
        _transformers("electra", "SequenceClassification", {**SIZES, "embedding_size": 16}, text, classes),
        _transformers(
            "deberta-v2", "MaskedLM", {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, text
        ),
        _transformers("gpt2", "CausalLM", {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "n_positions": 64}, text),
        _transformers("gpt_neox", "CausalLM", SIZES, text),
        _transformers("opt", "CausalLM", {**SIZES, "ffn_dim": 2 * WIDTH, "word_embed_proj_dim": WIDTH}, text),
        _transformers("bloom", "CausalLM", {"hidden_size": WIDTH, "n_layer": 2, "n_head": HEADS}, text),
        _transformers("falcon", "CausalLM", {**SIZES, "new_decoder_architecture": True, "num_kv_heads": 2}, text),
        _transformers("llama", "CausalLM", GROUPED, text),
        _transformers("mistral", "CausalLM", {**GROUPED, "sliding_window": 4}, text),
        _transformers("qwen2", "CausalLM", GROUPED, text),
        _transformers("qwen3", "CausalLM", {**GROUPED, "head_dim": 8}, text),
        _transformers("gemma2", "CausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 4}, text),
        _transformers("phi", "CausalLM", GROUPED, text),
        _transformers("mixtral", "CausalLM", {**GROUPED, "num_local_experts": 4}, text),
        _transformers("mamba", "CausalLM", {"hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 4}, text, loops=True),
        _transformers(
            "t5", "Seq2SeqLM", {"d_model": WIDTH, "d_kv": 8, "d_ff": 2 * WIDTH, "num_layers": 1, "num_heads": HEADS,
             "decoder_start_token_id": 0}, pair,
            decoded
        ),
        _transformers("bart", "Seq2SeqLM", CODED, pair, decoded),
        _transformers(
            "whisper", "SpeechSeq2Seq", {**CODED, "num_mel_bins": 8, "max_source_positions": 16, "pad_token_id": 0,
                                         "bos_token_id": 1, "eos_token_id": 2}, spectrum, decoded
        ),
        _transformers(
            "wav2vec2", "CTC", {**SIZES, "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2],
                                "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "apply_spec_augment": False,
                                "layerdrop": 0.0}, sound, spoken
        ),
        _transformers("vit", "ImageClassification", {**SIZES, **IMAGE}, pixels, classes, name="vit (transformers)"),
        _transformers(
            "swin", "ImageClassification", {"image_size": 32, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4],
                                            "window_size": 4}, pixels, classes
        ),
        _transformers(
            "segformer", "ImageClassification", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
                                                 "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}, pixels,
            classes
        ),
        _transformers(
            "clip", "", {"text_config": {**SIZES, "vocab_size": WORDS, "eos_token_id": 2},
                         "vision_config": {**SIZES, **IMAGE}, "projection_dim": 16}, captioned, similar
        ),
        _timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=WIDTH, depth=2, num_heads=HEADS),
        _timm("resnet26", layers=(1, 1, 1, 1), channels=(8, 8, 16, 16)),
        _timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
        _timm("mlp_mixer.MlpMixer", img_size=32, patch_size=8, embed_dim=WIDTH, num_blocks=2),
        _timm("swin_tiny_patch4_window7_224", img_size=32, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
        _timm("metaformer.MetaFormer", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
        _torchvision("resnet", lambda m: m.ResNet(m.resnet.Bottleneck, [1, 1, 1, 1], CLASSES, width_per_group=8)),
        _torchvision("densenet", lambda m: m.DenseNet(4, (2, 2), 8, 2, num_classes=CLASSES)),
        _torchvision("mobilenet_v2", _mobilenet),
        _torchvision("efficientnet", _efficientnet),
        _torchvision("shufflenet_v2", lambda m: m.ShuffleNetV2([1, 1, 1], [8, 16, 32, 32, 64], CLASSES)),
        _torchvision("convnext", _convnext),
        _torchvision("swin_v2", lambda m: m.SwinTransformer(
            [4, 4], 16, [2, 1], [2, 4], [4, 4], num_classes=CLASSES, block=m.swin_transformer.SwinTransformerBlockV2,
            downsample_layer=m.swin_transformer.PatchMergingV2)),
        _torchvision("deeplabv3", _segmentation),
        _torchvision("r3d", lambda m: m.video.VideoResNet(
            m.video.resnet.BasicBlock, [m.video.resnet.Conv3DSimple] * 4, [1, 1, 1, 1], m.video.resnet.BasicStem,
            num_classes=CLASSES), partial(image, frames=(4,), size=16)),
    )
}  # fmt: skip
