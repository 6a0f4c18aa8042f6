"""Models of transformers with random weights and attention that is written out. They need the extra ``models``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 32
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128}
TEXT = {**SIZES, "vocab_size": 100}
IMAGE = {**SIZES, "image_size": 48, "patch_size": 8}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class First(nn.Module):
    """The first tensor that a model of transformers returns."""

    def __init__(self, model: nn.Module, **given: Any) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(*inputs, return_dict=False, **self.given)[0]


def _made(name: str, config: Mapping[str, Any], **given: Any) -> nn.Module:
    import transformers

    chosen = getattr(transformers, f"{name}Config")(**config)
    chosen._attn_implementation = "eager"
    return First(getattr(transformers, f"{name}Model")(chosen), **given)


def _ids() -> Tensor:
    return torch.randint(3, 100, (2, TOKENS))


def _padded() -> Tensor:
    return (torch.arange(TOKENS) < torch.tensor([[TOKENS], [TOKENS - 7]])).long()


def _pixels() -> Tensor:
    return torch.randn(2, 3, 48, 48)


def bert() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return _made("Bert", {**TEXT, **NO_DROPOUT}), (_ids(), _padded())


def distilbert() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = {"dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 128, "vocab_size": 100, "dropout": 0.0}
    return _made("DistilBert", {**config, "attention_dropout": 0.0}), (_ids(), _padded())


def gpt2() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 100, "n_positions": 64}
    dropouts = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
    return _made("GPT2", {**config, **dropouts}, use_cache=False), (_ids(),)


def llama() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return _made("Llama", {**TEXT, "num_key_value_heads": 2}, use_cache=False), (_ids(),)


def vit() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return _made("ViT", {**IMAGE, **NO_DROPOUT}), (_pixels(),)


def t5() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100, "dropout_rate": 0.0}
    return _T5(_made("T5", {**config, "decoder_start_token_id": 0}, use_cache=False)), (_ids(), _padded(), _ids())


class _T5(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, ids: Tensor, kept: Tensor, decoder: Tensor) -> Tensor:
        return self.inner(ids, kept, decoder)


def whisper() -> tuple[nn.Module, tuple[Tensor, ...]]:
    layers = {f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", 2), ("attention_heads", 4))}
    widths = {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 100, "num_mel_bins": 8}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "max_source_positions": 32}
    model = _made("Whisper", {**layers, **widths, **tokens}, use_cache=False)
    return _Whisper(model), (torch.randn(2, 8, 64), _ids())


class _Whisper(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, features: Tensor, decoder: Tensor) -> Tensor:
        return self.inner.model(features, decoder_input_ids=decoder, use_cache=False, return_dict=False)[0]


def clip() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return _made("CLIP", {"text_config": {**TEXT, "eos_token_id": 2}, "vision_config": IMAGE}), (_ids(), _pixels(), _padded())


MODELS: Mapping[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "BERT": bert, "DistilBERT": distilbert, "GPT-2": gpt2, "Llama": llama, "ViT": vit, "T5": t5, "Whisper": whisper,
    "CLIP": clip,
}  # fmt: skip
