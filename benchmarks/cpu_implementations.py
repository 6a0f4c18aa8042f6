"""The implementations of a model that ``benchmarks/cpu.py`` compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

Run = Callable[..., Any]
Way = Callable[[Run, tuple[Any, ...]], Run]
"""Of a model and its inputs: what runs as the model does."""

HOST: dict[str, Any] = {"target": "host"}


def eager(model: Run, inputs: tuple[Any, ...]) -> Run:
    return model


def ours(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, options=HOST)


def ours_frozen(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, options={**HOST, "freeze": True})


def ours_training(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, training=True, options=HOST)


def ours_by_dynamo(model: Run, inputs: tuple[Any, ...]) -> Run:
    return torch.compile(model, backend="fxc", options=HOST, dynamic=False)


def inductor(model: Run, inputs: tuple[Any, ...]) -> Run:
    return torch.compile(model, backend="inductor", dynamic=False)


def inductor_frozen(model: Run, inputs: tuple[Any, ...]) -> Run:
    """Compiled here and now: Dynamo reads the setting, too, and it must not be on for the other ways."""
    import torch._inductor.config as config

    made = torch.compile(model, backend="inductor", dynamic=False, options={"freezing": True})
    with config.patch(freezing=True), torch.no_grad():
        made(*inputs)
    return made


def openvino(model: Run, inputs: tuple[Any, ...]) -> Run:
    """On PyTorch's number of threads, in the dtype of the model, and on the memory of the inputs."""
    ov: Any = import_module("openvino")
    hints = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "EXECUTION_MODE_HINT": "ACCURACY"}
    request = ov.compile_model(ov.convert_model(model, example_input=inputs), "CPU", hints).create_infer_request()
    _, structure = tree_flatten(model(*inputs))

    def run(*args: Any) -> Any:
        given = [ov.Tensor(leaf.contiguous().numpy(), shared_memory=True) for leaf in tree_leaves(args)]
        request.infer(given, share_inputs=True, share_outputs=True)
        return tree_unflatten([torch.from_numpy(each.data) for each in request.output_tensors], structure)

    return run


def onnx_runtime(model: Run, inputs: tuple[Any, ...]) -> Run:
    """On PyTorch's number of threads, by the exporter of PyTorch."""
    runtime: Any = import_module("onnxruntime")
    program: Any = torch.onnx.export(cast(Any, model), inputs, dynamo=True, verbose=False)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    _, structure = tree_flatten(model(*inputs))

    def run(*args: Any) -> Any:
        given = {name: leaf.numpy() for name, leaf in zip(names, tree_leaves(args), strict=True)}
        return tree_unflatten([torch.from_numpy(each) for each in session.run(None, given)], structure)

    return run


INFERENCE: Mapping[str, Way] = MappingProxyType({
    "eager": eager,
    "fxc": ours,
    "fxc frozen": ours_frozen,
    "Inductor": inductor,
    "Inductor frozen": inductor_frozen,
    "OpenVINO": openvino,
    "ONNX Runtime": onnx_runtime,
})  # fmt: skip
TRAINING: Mapping[str, Way] = MappingProxyType({"eager": eager, "fxc": ours_training, "Inductor": inductor})
KERNELS: Mapping[str, Way] = MappingProxyType({"eager": eager, "fxc": ours, "Inductor": inductor})
CALLS: Mapping[str, Way] = MappingProxyType({
    "eager": eager,
    "fxc": ours,
    "fxc by torch.compile": ours_by_dynamo,
    "Inductor": inductor,
})  # fmt: skip
