"""Trace recurrent layers over packed sequences for the sequence lengths of one call.

Sizes of tensors, and which elements belong together, depend on the lengths, so a program is specialized to them. While
``KnownLengths`` is active, integer tensors on the CPU that are inputs or are made of Python numbers have known values, and so
have values that are computed from these alone. Sequences are packed and padded by ``index_select`` at constant indices, and
recurrent layers are unrolled into their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, _decomp
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import SequenceKey, keystr, tree_flatten_with_path, tree_leaves, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, i64

from fxc.bridge.nesting import INPUTS, spec_of
from fxc.dialects.entry import VALUES, ArgumentFacts, argument_attributes
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.unrecorded import Unrecorded
from fxc.program.program import Program


class NoPackedSequence(CaptureError):
    """The model packs no sequence, so there is nothing to specialize to."""


_COMPUTED = frozenset(
    {
        "tensor", "as_tensor", "to", "cpu", "long", "int", "clone", "detach", "contiguous", "sort", "flip", "index_select",
        "__getitem__", "max", "min", "sum",
    }
)  # fmt: skip
"""Functions whose result is known if the values of all their tensor operands are."""

_ASKED = frozenset({"__int__", "__index__", "__bool__", "item", "tolist"})
"""Methods that return the values of a tensor to Python."""

_SIZED = frozenset({"zeros", "ones", "empty", "full"})
"""Functions whose sizes may be tensors."""

_tables: Any = _decomp
_LAYERS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    name: _tables.decomposition_table[getattr(torch.ops.aten, name).data] for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
})  # fmt: skip
"""Recurrent layers by function name -> their decomposition on a packed sequence, with batch sizes as numbers."""

_HINT = f"give forward the lengths as a tensor of integers on the CPU, or as a list of numbers; or use {TORCH_COMPILE}"


@dataclass(frozen=True)
class _Known:
    """The value of a tensor, the inputs that it is computed from, and the version of the tensor that has it."""

    value: Tensor
    inputs: frozenset[Any]
    version: int


def refuse_packed(model: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """CaptureError where an input is a packed sequence: a program would have to be specialized to its batch sizes."""
    leaves, _ = tree_flatten_with_path((args, kwargs), is_leaf=lambda value: isinstance(value, PackedSequence))
    for (where, *path), leaf in leaves:
        if isinstance(leaf, PackedSequence):
            message = f"{model} takes a PackedSequence, which cannot be an input of a program"
            raise CaptureError(
                message,
                place=("args" if where == SequenceKey(0) else "kwargs") + keystr(tuple(path)),
                hint="pass the padded tensor and the lengths, and call pack_padded_sequence in the model;"
                f" or use {TORCH_COMPILE}",
            ) from Unrecorded(message)


class KnownLengths(TorchFunctionMode):
    """Computes the values of integer tensors during a trace.

    ``read``: inputs whose values the trace depends on, by path in (args, kwargs). ``is_used``: whether a sequence is packed.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        leaves = tree_flatten_with_path((args, dict(kwargs)))[0]
        self._given = {path: leaf.detach().clone() for path, leaf in leaves if isinstance(leaf, Tensor) and _is_countable(leaf)}
        self._known: MutableMapping[Tensor, _Known] = WeakTensorKeyDictionary()
        self.read = set[Any]()
        self.is_used = False

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Map the inputs of the traced call to the given values."""
        for path, traced in tree_flatten_with_path((args, dict(kwargs)))[0]:
            if path in self._given and isinstance(traced, Tensor):
                self._learn(traced, self._given[path], frozenset({path}))

    def mark(self, program: Program, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record the required values of inputs as attributes of the arguments of ``program``."""
        attributes = argument_attributes(program.main)
        places = [i for i, known in enumerate(attributes) if not ArgumentFacts.of(known).is_state]
        nesting = program.main.attributes[INPUTS]
        keys = spec_of(nesting).children()[1].context
        leaves = tree_flatten_with_path((args, {key: kwargs[key] for key in keys}))[0]
        for i, (path, leaf) in zip(places, leaves, strict=True):
            if path in self.read:
                attributes[i] = DictionaryAttr(
                    {**attributes[i].data, VALUES: DenseArrayBase.from_list(i64, list(map(int, leaf.flatten().tolist())))}
                )
        program.main.properties["arg_attrs"] = ArrayAttr(attributes)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "_pack_padded_sequence":
            return self._pack(*args, **kwargs)
        if name == "_pad_packed_sequence":
            return self._pad(*args, **kwargs)
        if name in _LAYERS and isinstance(args[1], Tensor) and args[1].dim() == 1:  # hidden states if not packed
            return self._layers(_LAYERS[name], *args, **kwargs)
        if name in _ASKED and args[0] in self._known:
            with _disable_current_modes():
                return getattr(self._value(args[0], "values"), name)(*args[1:], **kwargs)
        if name in _SIZED:
            args, kwargs = tree_map_only(Tensor, self._size, (args, kwargs))
        result = func(*args, **kwargs)
        if name in _COMPUTED and "out" not in kwargs:
            self._compute(func, args, kwargs, result)
        return result

    def _compute(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        known = [self._known.get(tensor) for tensor in given]
        if not all(entry is not None and entry.version == t._version for entry, t in zip(known, given, strict=True)):
            return
        with _disable_current_modes():
            args, kwargs = tree_map_only(Tensor, lambda tensor: self._known[tensor].value, (args, kwargs))
            values = func(*args, **kwargs)
        inputs = frozenset[Any]().union(*(entry.inputs for entry in known if entry is not None))
        for traced, value in zip(tree_leaves(result), tree_leaves(values), strict=True):
            if isinstance(value, Tensor) and _is_countable(value):
                self._learn(traced, value, inputs)

    def _learn(self, traced: Tensor, value: Tensor, inputs: frozenset[Any]) -> None:
        self._known[traced] = _Known(value, inputs, traced._version)

    def _value(self, tensor: Tensor, what: str) -> Tensor:
        entry = self._known.get(tensor)
        if entry is None:
            raise CaptureError(f"the {what} of a packed sequence are computed from tensors of unknown values", hint=_HINT)
        if entry.version != tensor._version:
            raise CaptureError(f"the {what} of a packed sequence are written in place", hint="compute a new tensor")
        self.read |= entry.inputs
        return entry.value

    def _size(self, tensor: Tensor) -> Any:
        return _numbers(self._value(tensor, "sizes")) if tensor in self._known and not tensor.dim() else tensor

    def _constant(self, value: Tensor, device: torch.device | None = None) -> Tensor:
        return torch.tensor(_numbers(value), dtype=value.dtype, device=device)

    def _known_constant(self, value: Tensor, source: Tensor) -> Tensor:
        """A constant tensor of ``value``, which is computed from the values of ``source``."""
        made = self._constant(value)
        self._learn(made, value, self._known[source].inputs)
        return made

    def _pack(self, input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        self.is_used = True
        value = self._value(lengths, "lengths")
        first, second = input.shape[:2]
        with _disable_current_modes():
            rows = torch.arange(first * second, device="cpu").view(first, second, 1)
            packed, batch_sizes = torch._VF._pack_padded_sequence(rows, value, batch_first)
            places = packed.flatten()
        data = input.flatten(0, 1).index_select(0, self._constant(places, input.device))
        return data, self._known_constant(batch_sizes, lengths)

    def _pad(
        self, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int = -1
    ) -> tuple[Tensor, Tensor]:
        self.is_used = True
        value = self._value(batch_sizes, "batch sizes")
        with _disable_current_modes():
            rows = torch.arange(1, data.shape[0] + 1, device="cpu").unsqueeze(1)  # row 0 is the padding
            padded, lengths = torch._VF._pad_packed_sequence(rows, value, False, 0, total_length)
            places, sizes = padded.flatten(), padded.shape[:2]
        rows = torch.constant_pad_nd(data, [0, 0] * (data.dim() - 1) + [1, 0], padding_value)
        flat: Any = rows.index_select(0, self._constant(places, data.device))
        result: Tensor = flat.unflatten(0, sizes)
        return result.transpose(0, 1) if batch_first else result, self._known_constant(lengths, batch_sizes)

    def _layers(
        self,
        rule: Callable[..., Any],
        data: Tensor,
        batch_sizes: Tensor,
        state: Any,
        weights: Sequence[Tensor],
        has_biases: bool,
        count: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> tuple[Tensor, ...]:
        """Run one layer after the other: PyTorch's decompositions of several layers omit the dropouts between them."""
        self.is_used = True
        if any(torch.is_autocast_enabled(kind) for kind in torch._C._autocast_supported_devices()):
            raise CaptureError("a recurrent layer over a packed sequence under autocast", hint=_HINT.partition("; or ")[2])
        sizes = _numbers(self._value(batch_sizes, "batch sizes"))
        directions, each = 1 + bidirectional, len(weights) // count
        last = list[Sequence[Tensor]]()
        for i in range(count):
            if i and dropout and train:
                data = torch.dropout(data, dropout, True)
            here: Any = tree_map_only(Tensor, lambda states, i=i: states.narrow(0, i * directions, directions), state)
            own = weights[i * each : (i + 1) * each]
            data, *states = rule(data, sizes, here, own, has_biases, 1, 0.0, train, bidirectional)
            last.append(states)
        return data, *(torch.cat(states) for states in zip(*last, strict=True))


def _numbers(value: Any) -> Any:
    with _disable_current_modes():
        return value.tolist()


def _is_countable(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not tensor.is_floating_point() and not tensor.is_complex()
