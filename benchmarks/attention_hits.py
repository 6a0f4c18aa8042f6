"""How many attentions run as PyTorch's fused operator: of models of transformers and of the zoo, beside Inductor's counters.

    python benchmarks/attention_hits.py [--models BERT,T5] [--save NAME-MACHINE]

Small models with attention that is written out; of the zoo, only BERT writes it out, the others call the operator.
``attentions``: the softmaxes that eager mode runs; ``fused calls``: the calls of the fused operator in a call compiled by
torch.compile; ``counter``: Inductor's ``fuse_attention``. Training is forward and backward without dropout.
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch._dynamo.utils import counters
from torch.profiler import profile
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import Measurement, about, cpu, write

from tests.attention_models import MODELS
from tests.models.zoo import MODELS as ZOO

NOTES = "Small models with random weights, 32 tokens or 37 patches, no dropout. Inductor's counter and calls."
FUSED = "aten::_scaled_dot_product_flash_attention_for_cpu"


def calls_of(call: Callable[[], Any], name: str) -> int:
    """How often ``call`` runs the operator ``name``."""
    with profile() as record:
        call()
    events: Any = record.key_averages()
    return sum(event.count for event in events if event.key == name)


def load_file(name: str) -> Any:
    """A file of the zoo as a module."""
    spec = spec_from_file_location(name, ZOO / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def models(names: list[str]) -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    for name, make in MODELS.items():
        if not names or name in names:
            yield name, *make()
    if not names or "zoo BERT" in names:
        zoo = load_file("bert")
        yield (
            "zoo BERT",
            zoo.Model(vocab=61, context=64, layers=2, width=24, heads=4, hidden=48),
            zoo.get_inputs(tokens=32, vocab=61),
        )


def measured(name: str, model: nn.Module, inputs: tuple[Any, ...], training: bool) -> Iterator[Measurement]:
    model.train(training)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    labels = {"model": name, "mode": "training" if training else "inference"}

    def step(function: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> None:
            results: Any = (x for x in tree_leaves(function(*inputs)) if isinstance(x, torch.Tensor))
            result = next(x for x in results if x.is_floating_point())
            if training:
                result.sum().backward()

        return run

    def compiled(backend: str) -> Callable[[], Any]:
        torch._dynamo.reset()
        counters.clear()
        torch._inductor.config.force_disable_caches = True  # a cached graph counts nothing
        call = step(torch.compile(copy.deepcopy(model), backend=backend))
        call()
        return call

    with torch.set_grad_enabled(training):
        softmaxes = calls_of(step(model), "aten::_softmax")
        yield Measurement(labels, "attentions", "eager", softmaxes)
        yield Measurement(labels, "fused calls", "eager", calls_of(step(model), FUSED))
        for backend, title in (("fxc", "fxc"), ("inductor", "Inductor")):
            try:
                call = compiled(backend)
            except Exception as error:  # the row says so
                yield Measurement(labels, "failed", title, note=str(error).splitlines()[0][:80])
                continue
            if title == "Inductor":
                yield Measurement(labels, "counter", title, counters["inductor"]["fuse_attention"])
            yield Measurement(labels, "fused calls", title, calls_of(call, FUSED))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/attention-MACHINE.csv")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    rows = list[Measurement]()
    for name, model, inputs in models([name for name in given.models.split(",") if name]):
        for training in (False, True):
            found = list(measured(name, model, inputs, training))
            rows += found
            line = (f"{each.implementation} {each.quantity} {each.value}{each.note}" for each in found)
            print(name, "training" if training else "inference", *line, sep="; ", flush=True)
    if given.save:
        write(f"attention-{cpu()[0]}", rows, about(cpu()[1], "transformers", notes=NOTES))


if __name__ == "__main__":
    main()
