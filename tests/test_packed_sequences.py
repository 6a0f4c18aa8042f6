"""Recurrent layers over packed sequences: a program is for the lengths that it was compiled with, and says so."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import fxc
from fxc.errors import CaptureError, InputError


class Packed(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], *, lengths: Any = None, is_sorted: bool = False, **options: Any) -> None:
        super().__init__()
        self.layer = kind(3, 4, **options)
        self.lengths, self.is_sorted = lengths, is_sorted

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Any:
        first = self.layer.batch_first
        given = self.lengths if lengths is None else lengths
        packed = pack_padded_sequence(x * 2, given, batch_first=first, enforce_sorted=self.is_sorted)
        outputs, hidden = self.layer(packed)
        padded, found = pad_packed_sequence(outputs, batch_first=first, padding_value=-1.0)
        return padded.tanh(), found, hidden


SORTED, ANY_ORDER = (5, 3, 3, 1), (2, 4, 1, 4)


def given(batch_first: bool, *, seed: int = 0) -> Tensor:
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(seed))
    return x if batch_first else x.transpose(0, 1).contiguous()


def assert_as_eager(run: Any, model: nn.Module, expected: nn.Module, *args: Tensor, training: bool) -> None:
    results = []
    for call, owner in ((run, model), (expected, expected)):
        x = args[0].detach().clone().requires_grad_(training)
        with torch.set_grad_enabled(training):
            found = call(x, *args[1:])
        floats = [leaf for leaf in tree_leaves(found) if leaf.is_floating_point()]
        leaves = [x, *owner.parameters()]
        loss = sum((leaf * leaf).sum() for leaf in floats)
        results.append((found, torch.autograd.grad(loss, leaves) if training else ()))
    assert_close(*results, check_stride=True)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("how", ["list", "argument"])
@pytest.mark.parametrize(
    "options",
    [{}, {"bidirectional": True}, {"batch_first": True, "num_layers": 2}, {"bias": False, "is_sorted": True}],
    ids=str,
)
@pytest.mark.share(8)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers_over_packed_sequences(
    kind: type[nn.RNNBase], options: dict[str, Any], how: str, training: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    lengths = SORTED if options.get("is_sorted") else ANY_ORDER
    model = Packed(kind, lengths=list(lengths) if how == "list" else None, **options)
    expected = deepcopy(model)
    rest = (torch.tensor(lengths),) if how == "argument" else ()
    x, other = (given(bool(options.get("batch_first")), seed=seed) for seed in (0, 1))
    compiled = fxc.compile(model, (x, *rest), training=training)
    assert_as_eager(compiled, model, expected, x, *rest, training=training)
    assert_as_eager(compiled, model, expected, other, *rest, training=training)
    if not training:
        compiled.plan.save(tmp_path / "plan")
        assert_as_eager(fxc.ExecutionPlan.load(tmp_path / "plan"), model, expected, other, *rest, training=False)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.RNN])
def test_other_options_of_layers(kind: type[nn.RNNBase], training: bool) -> None:
    torch.manual_seed(0)
    x, lengths = given(False), torch.tensor(ANY_ORDER, dtype=torch.int32)
    options = {"proj_size": 2} if kind is nn.LSTM else {"nonlinearity": "relu", "bidirectional": True, "num_layers": 2}
    model = Packed(kind, **options)
    compiled = fxc.compile(model, (x, lengths), training=training)
    assert_as_eager(compiled, model, deepcopy(model), x, lengths, training=training)


@pytest.mark.slow
@pytest.mark.parametrize("saved", [False, True])
def test_other_lengths_are_refused(saved: bool, tmp_path: Path) -> None:
    model, x, lengths = Packed(nn.GRU), given(False), torch.tensor(ANY_ORDER)
    run: Any = fxc.compile(model, (x, lengths))
    if saved:
        run.plan.save(tmp_path / "plan")
        run = fxc.ExecutionPlan.load(tmp_path / "plan")
    with pytest.raises(InputError, match=r"lengths has the values \[5, 3, 3, 1\], but \[2, 4, 1, 4\] were baked in"):
        run(x, torch.tensor(SORTED))
    changed = lengths.clone()
    assert_as_eager(run, model, model, x, changed, training=False)
    changed[0] = 1
    with pytest.raises(InputError, match="were baked in"):
        run(x, changed)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("training", [False, True])
def test_other_lengths_are_compiled_again(training: bool) -> None:
    model = Packed(nn.LSTM, bidirectional=True)
    expected, x = deepcopy(model), given(False).requires_grad_(training)
    compiled = fxc.compile(model, (x, torch.tensor(ANY_ORDER)), training=training, options={"recompile": True})
    for lengths in (SORTED, ANY_ORDER, (1, 1, 1, 1), SORTED):
        assert_as_eager(compiled, model, expected, x, torch.tensor(lengths), training=training)
    assert compiled.stats.size == 3


@pytest.mark.slow
def test_lengths_by_name_and_computed_of_each_other() -> None:
    def function(x: Tensor, *, halves: Tensor, scale: Tensor) -> Any:
        lengths = halves.sum(1)
        packed = pack_padded_sequence(x * scale, lengths, enforce_sorted=False)
        inner = PackedSequence(packed.data.exp(), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return *pad_packed_sequence(inner, total_length=6), x[: int(lengths.max())]

    x, scale = given(False), torch.tensor(2)
    halves = torch.tensor([[1, 2], [2, 2], [1, 1], [0, 3]])
    compiled = fxc.compile(function, (x,), {"scale": scale, "halves": halves})
    for factor in (scale, torch.tensor(3)):  # which is no length
        assert_close(compiled(x, halves=halves, scale=factor), function(x, halves=halves, scale=factor))
    with pytest.raises(InputError, match="halves has the values"):
        compiled(x, halves=halves.flip(0), scale=scale)


@pytest.mark.slow
def test_what_cannot_be_packed_is_refused() -> None:
    layer, x = Packed(nn.GRU), given(False)

    def of_data(x: Tensor) -> Any:
        return layer(x, (x > -9).sum(0)[:, 0])

    def written(x: Tensor, lengths: Tensor) -> Any:
        lengths.view(-1).add_(1)
        return layer(x, lengths)

    with pytest.raises(CaptureError, match="the lengths of a packed sequence are computed from tensors of unknown values"):
        fxc.compile(of_data, (x,))
    with pytest.raises(CaptureError, match="the lengths of a packed sequence are computed from tensors of unknown values"):
        fxc.compile(written, (x, torch.tensor(ANY_ORDER)))
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(CaptureError, match="under autocast"):
        fxc.compile(Packed(nn.GRU, lengths=list(ANY_ORDER)), (x,))


@pytest.mark.slow
def test_dropout_between_layers() -> None:
    torch.manual_seed(0)
    model = Packed(nn.LSTM, lengths=list(ANY_ORDER), num_layers=2, dropout=0.5)
    x, expected = given(False), deepcopy(model)
    compiled = fxc.compile(model, (x,), training=True)
    torch.manual_seed(1)
    found = compiled(x)
    torch.manual_seed(1)
    assert_close(found, expected(x))
    assert not torch.equal(found[0], expected(x)[0])


@pytest.mark.slow
def test_sequences_without_a_layer_and_in_inference_mode() -> None:
    def function(x: Tensor, lengths: Tensor) -> Any:
        return pad_packed_sequence(pack_padded_sequence(x, lengths, enforce_sorted=False), batch_first=True)

    x, lengths = given(False), torch.tensor(ANY_ORDER)
    assert_close(fxc.compile(function, (x, lengths))(x, lengths), function(x, lengths))
    model = Packed(nn.LSTM)
    with torch.inference_mode():
        x, lengths = x.clone(), lengths.clone()
        assert_as_eager(fxc.compile(model, (x, lengths)), model, model, x, lengths, training=False)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("place", ["args[0]", "args[0][1]['p']", "kwargs['packed']"])
def test_a_packed_sequence_is_no_input(place: str, training: bool) -> None:
    """One error, with the input and the way out; torch.compile takes it apart."""
    packed = pack_padded_sequence(given(False), torch.tensor(ANY_ORDER), enforce_sorted=False)
    layer = nn.GRU(3, 4)
    args, kwargs = {
        "args[0]": ((packed,), {}),
        "args[0][1]['p']": (([packed.data, {"p": packed}],), {}),
        "kwargs['packed']": ((), {"packed": packed}),
    }[place]
    with pytest.raises(CaptureError, match="takes a PackedSequence, which cannot be an input of a program") as caught:
        fxc.compile(lambda *args, **kwargs: layer(packed)[0].data, args, kwargs, training=training)
    assert caught.value.place == place and str(caught.value).count("\n") == 2
    with pytest.raises(CaptureError, match="takes a PackedSequence"):
        fxc.capture(layer, (packed,))
