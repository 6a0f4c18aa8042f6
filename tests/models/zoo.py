"""The model zoo: the files of examples/models/, and the capture routes that work on each.

A flag says that the route was tried on the small model, in eval mode and, with `train_mode`, in train mode, and that
the captured graph gave the model's own result. `load` gives the small model."""

import importlib.util
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"

BATCH = {0: torch.export.Dim("batch", min=2, max=64)}


@dataclass(frozen=True)
class ZooEntry:
    name: str
    # torch.fx.symbolic_trace(model)
    symbolic_trace: bool = True
    # torch.export.export(model, inputs, strict=False)
    export: bool = True
    # torch.compile(model, backend=..., fullgraph=True), in one graph
    dynamo: bool = True
    # torch.fx.experimental.proxy_tensor.make_fx(model)(*inputs)
    make_fx: bool = True
    # Every route above also works in train mode.
    train_mode: bool = True
    # The dynamic_shapes of torch.export.export for a symbolic batch, by argument name.
    dynamic_batch: dict[str, Any] | None = None
    # Why a route above is off, by its name.
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return MODELS / f"{self.name}.py"

    def module(self) -> ModuleType:
        """The model's file as a module, imported once."""
        module_name = f"fxc_zoo_{self.name}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, self.path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            # Dynamo looks up the globals of what it inlines by module name.
            sys.modules[module_name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[module_name]
                raise
        return sys.modules[module_name]


ZOO: dict[str, ZooEntry] = {
    entry.name: entry
    for entry in (
        ZooEntry("bert", dynamic_batch={"ids": BATCH, "attention_mask": BATCH, "token_types": BATCH}),
        ZooEntry(
            "cond",
            symbolic_trace=False,
            dynamic_batch={"x": BATCH},
            reasons={"symbolic_trace": "torch.cond refuses a Proxy as its predicate"},
        ),
        ZooEntry("convnext", dynamic_batch={"x": BATCH}),
        ZooEntry("gpt2", dynamic_batch={"ids": BATCH}),
        ZooEntry("llama", dynamic_batch={"ids": BATCH, "positions": None, "cache": ((BATCH, BATCH), (BATCH, BATCH))}),
        ZooEntry(
            "lstm",
            dynamo=False,
            dynamic_batch={"ids": BATCH},
            reasons={"dynamo": "needs torch._dynamo.config.allow_rnn"},
        ),
        ZooEntry("mlp", dynamic_batch={"x": BATCH}),
        ZooEntry("mobilenet", dynamic_batch={"x": BATCH}),
        ZooEntry("moe", dynamic_batch={"ids": BATCH}),
        ZooEntry("resnet", dynamic_batch={"x": BATCH}),
        ZooEntry("unet", dynamic_batch={"x": BATCH, "steps": BATCH}),
        ZooEntry("vit", dynamic_batch={"x": BATCH}),
    )
}


def load(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """The small model, in eval mode, and its inputs; the same numbers on every call."""
    model, inputs = ZOO[name].module().small()
    _randomize_constants(model)
    return model.eval(), inputs


def resize_batch(name: str, inputs: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """The inputs with another batch size, which is at most twice the present one."""
    dynamic_batch = ZOO[name].dynamic_batch
    assert dynamic_batch is not None
    return _resize(inputs, tuple(dynamic_batch.values()), size)


def _resize(value: Any, spec: Any, size: int) -> Any:
    if spec is None:
        return value
    if isinstance(value, Tensor):
        # Flipped, so that no row is there twice: equal rows would be ties for a top-k over the batch.
        return torch.cat((value, value.flip(-1)))[:size]
    return tuple(_resize(item, item_spec, size) for item, item_spec in zip(value, spec, strict=True))


def _randomize_constants(model: nn.Module) -> None:
    """Moves norm scales, zero biases and running statistics off 0 and 1, where losing one would not show."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in itertools.chain(model.parameters(), model.buffers()):
            if tensor.is_floating_point() and tensor.numel() > 1 and (tensor == tensor.flatten()[0]).all():
                tensor.add_(torch.rand(tensor.shape, generator=generator) * 0.5)
