"""Joint graphs for tests: random ones as text, those of models, and how the parts of one are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from xdsl.dialects.builtin import ModuleOp

from fxc.dialects.attributes.types import is_tensor, sizes
from fxc.dialects.entry import find_entry
from fxc.driver.runner import run_pipeline
from fxc.frontends.joint_graph import import_joint
from fxc.interpret.binding import Binding
from fxc.passes.analysis.joint_graph import JointGraph, joint_graph
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context

SIZE = 4
_TYPE = f"tensor<{SIZE}x{SIZE}xf32>"
_UNARY = ("sin", "tanh", "neg", "sigmoid", "relu")
_VIEW = f"#torch.meta<strides = [1, {SIZE}]>"


def random_joint(seed: int, length: int = 24) -> str:
    """A joint graph with products, pointwise operators, views, reductions and dropout, whose backward reads any of them."""
    random = Random(seed)
    lines, values, masks = list[str](), ["%x", "%w"], list[str]()
    for number in range(length):
        kind, name = random.randrange(12), f"%v{number}"
        a, b = random.choice(values[-6:]), random.choice(values)
        if kind < 3:
            lines.append(f"{name} = torch.aten.mm.default({a}, {b}) : ({_TYPE}, {_TYPE}) -> {_TYPE}")
        elif kind < 7:
            lines.append(f"{name} = torch.aten.{random.choice(_UNARY)}.default({a}) : ({_TYPE}) -> {_TYPE}")
        elif kind < 9:
            lines.append(f"{name} = torch.aten.mul.Tensor({a}, {b}) : ({_TYPE}, {_TYPE}) -> {_TYPE}")
        elif kind == 9:
            turned = f"tensor<{SIZE}x{SIZE}xf32, {_VIEW}>"
            lines.append(f"%t{number} = torch.aten.t.default({a}) : ({_TYPE}) -> {turned}")
            lines.append(f"{name} = torch.aten.mm.default({b}, %t{number}) : ({_TYPE}, {turned}) -> {_TYPE}")
        elif kind == 10:
            sums = f"tensor<{SIZE}x1xf32>"
            lines.append(f"%s{number} = torch.aten.sum.dim_IntList({a}, [1], true) : ({_TYPE}) -> {sums}")
            lines.append(f"{name} = torch.aten.mul.Tensor({b}, %s{number}) : ({_TYPE}, {sums}) -> {_TYPE}")
        else:
            mask = f"tensor<{SIZE}x{SIZE}xi1>"
            lines.append(
                f"{name}, %m{number} = torch.aten.native_dropout.default({a}, 0.5, true) : ({_TYPE}) -> ({_TYPE}, {mask})"
            )
            masks.append(f"%m{number}")
        values.append(name)
    results = sorted({values[-1], random.choice(values[2:])})
    gradient, gradients = "%d", list[str]()
    for number in range(length // 2):
        name, read = f"%g{number}", random.choice(values)
        if masks and random.randrange(5) == 0:
            mask = random.choice(masks)
            types = f"({_TYPE}, tensor<{SIZE}x{SIZE}xi1>)"
            lines.append(f"{name} = torch.aten.native_dropout_backward.default({gradient}, {mask}, 2.0) : {types} -> {_TYPE}")
        else:
            operator = random.choice(("mm.default", "mul.Tensor"))
            lines.append(f"{name} = torch.aten.{operator}({gradient}, {read}) : ({_TYPE}, {_TYPE}) -> {_TYPE}")
        gradient = name
        if random.randrange(3) == 0:
            gradients.append(random.choice((name, read)))
    gradients.append(gradient)
    returned = [*results, *gradients]
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"func.func @main(%x: {_TYPE}, %w: {_TYPE}, %d: {_TYPE} {{autodiff.tangent}})\n"
        f"attributes {{autodiff.forward_results = {len(results)} : i64}} {{\n{body}\n"
        f"  fx.output([{', '.join(returned)}]) : ({', '.join([_TYPE] * len(returned))}) -> ()\n}}\n"
    )


def saved_bytes(graph: JointGraph, size: Callable[[Any], int]) -> int:
    """The bytes of the values that are saved, without arguments."""
    return sum(size(value.type) for value in graph.demand().saved)


def run(module: ModuleOp, values: Sequence[Any]) -> list[Any]:
    """What the entry of ``module`` returns for ``values``."""
    entry = find_entry(module)
    assert entry is not None
    with torch.no_grad():
        return list(Binding(module, {}, {}, lambda name, type: None).interpreter().call(entry, list(values)))


def run_parts(module: ModuleOp, results: int, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """What forward and backward of ``module``, a split joint graph, return for ``primals`` and ``tangents``."""
    forward, backward = [op for op in module.ops if isinstance(op, ModuleOp)]
    returned = run(forward, primals)
    saved = returned[results:]
    numbers = [value for value in saved if not isinstance(value, Tensor)]
    tensors = [value for value in saved if isinstance(value, Tensor)]
    return [*returned[:results], *run(backward, [*numbers, *tensors, *tangents])]


class Captured:
    """A joint graph of a model in training, and PyTorch's partition of it. ``primals``: the arguments of the last call."""

    def __init__(self, joint: GraphModule, inputs: Sequence[Any], count: int, more: dict[str, Any]) -> None:
        self.count, self.primals = count, list[Any]()
        self.module = import_joint(joint, count).module
        run_pipeline(new_context(), self.module, parse_pipeline("lower-to-torch,cse,dce"))
        self.parts = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=count, **more)

    def tangents(self) -> list[Tensor]:
        graph = joint_graph(self.module)
        types = [value.type for value in graph.block.args if value in graph.tangents]
        return [torch.randn([int(size) for size in sizes(type)]) for type in types if is_tensor(type)]

    def bytes_of_pytorch(self) -> int:
        """The bytes of the storages that PyTorch's forward saves, without those of arguments."""
        graph = self.parts[0].graph
        arguments = {_storage(node.meta.get("val")) for node in graph.find_nodes(op="placeholder")}
        saved = [node.meta.get("val") for node in graph.output_node().args[0][self.count :]]
        storages = {_storage(value): value for value in saved if isinstance(value, Tensor)}
        return sum(value.untyped_storage().nbytes() for key, value in storages.items() if key not in arguments)


def _storage(value: Any) -> int:
    return value.untyped_storage()._cdata if isinstance(value, Tensor) else 0


def captured(model: nn.Module, inputs: Sequence[Any]) -> list[Captured]:
    """The joint graphs of a call of ``model`` in training."""
    found = list[Captured]()

    def partition(joint: GraphModule, given: Sequence[Any], *, num_fwd_outputs: int, **more: Any) -> Any:
        found.append(Captured(joint, given, num_fwd_outputs, more))
        return found[-1].parts

    def forward(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        this = found[-1]

        def call(*values: Any) -> Any:
            this.primals = [value.detach().clone() if isinstance(value, Tensor) else value for value in values]
            return graph(*values)

        return call

    def backend(graph: GraphModule, given: Sequence[Any]) -> Any:
        return aot_autograd(fw_compiler=forward, bw_compiler=lambda g, _: g, partition_fn=partition)(graph, given)

    torch._dynamo.reset()
    torch.compile(model.train(), backend=backend)(*inputs)
    return found
