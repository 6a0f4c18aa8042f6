"""Save and load tensors by name in safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxc.errors import WeightsError

if TYPE_CHECKING:
    import torch


def save_state(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors to a safetensors file. Names of one tensor share an entry; the metadata lists them."""
    import torch
    from safetensors import torch as safetensors_torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    from fxc.runtime.lazy import marks

    first, tensors, aliases, views = dict[Any, str](), dict[str, torch.Tensor](), dict[str, str](), dict[str, str]()
    for name, tensor in state.items():
        is_wrapper = is_traceable_wrapper_subclass(tensor)
        if is_wrapper or tensor.is_sparse or tensor.is_quantized or tensor.layout is not torch.strided:
            kind = type(tensor).__name__ if is_wrapper else f"{tensor.layout} tensor"
            raise WeightsError(
                f"{name} is a {kind}, which a weights file cannot hold",
                hint="store a dense tensor in the model, and convert it in forward",
            )
        key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        key = (*key, *marks(tensor))
        if tensor.numel() and key in first:
            aliases[name] = first[key]
            continue
        first[key] = name
        plain = tensor.detach().contiguous().clone()
        if plain.is_complex():
            views[name], plain = str(plain.dtype).removeprefix("torch."), torch.view_as_real(plain)
        tensors[name] = plain
    facts = {"aliases": aliases, "complex": views}
    # omit empty facts: safetensors writes entries in any order, and equal weights must give equal files
    metadata = {name: json.dumps(found) for name, found in facts.items() if found}
    path.touch()
    if not path.is_file():  # a device
        path.write_bytes(safetensors_torch.save(tensors, metadata))
        return
    target, mode = path.resolve(), path.stat().st_mode
    safetensors_torch.save_file(tensors, target, metadata)  # which replaces links, and sets a mode of its choice
    target.chmod(mode)


def load_state(path: Path, names: Iterable[str]) -> dict[str, torch.Tensor]:
    """The tensors called ``names``. WeightsError where the file is damaged or lacks one."""
    import torch
    from safetensors import SafetensorError, safe_open

    state: dict[str, torch.Tensor] = {}
    try:
        weights: Any = safe_open(path, "pt")
        with weights as file:
            metadata: dict[str, str] = file.metadata() or {}
            aliases, views = (json.loads(metadata.get(key, "{}")) for key in ("aliases", "complex"))
            if not all(isinstance(table, dict) for table in (aliases, views)):
                raise ValueError("its list of shared tensors is damaged")
            stored = set[str](file.keys())
            for name in names:
                source = aliases.get(name, name)
                if source not in stored:
                    raise WeightsError(f"{path.name} has no tensor {name!r}", hint="the weights belong to another program")
                if source in state:
                    state[name] = state[source]
                    continue
                tensor = file.get_tensor(source)
                if source in views:
                    if tensor.data_ptr() % (2 * tensor.element_size()):  # unaligned reads of complex numbers end the process
                        tensor = tensor.clone()
                    tensor = torch.view_as_complex(tensor)
                state[source] = state[name] = tensor
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(
            f"{path} is not a readable weights file: {error}",
            hint="write text and weights again: fxc import SOURCE -o FILE.mlir",
        ) from error
    return {name: state[name] for name in names}
