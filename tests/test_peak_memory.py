"""The simulated peak of a training step is what eager execution of its graphs allocates, in the same order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_module
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.dialects.func import FuncOp

import fxc
from fxc.dialects.autodiff import TANGENT
from fxc.dialects.entry import find_entry
from fxc.frontends.import_fx import import_fx
from fxc.measure.peak import peak_bytes
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.operators.peak_memory import MemoryUse, Simulation, TrainingStep, operations_of, returned_by
from fxc.testing import parse, run_pass
from fxc.torch_compile import capture_joint
from tests.models.captures import kept, loss_of, model_of
from tests.models.zoo import ZOO

CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default)


class EagerStep:
    """The forward and the backward graph of a model of the zoo, by PyTorch's default partition, and their arguments."""

    def __init__(self, name: str) -> None:
        self.graphs, self.arguments = dict[str, GraphModule](), dict[str, list[Any]]()
        model, inputs = model_of(name, True)
        make = {"fw_compiler": self._keep("forward"), "bw_compiler": self._keep("backward"), "partition_fn": default_partition}
        torch._dynamo.reset()
        with kept(model):
            if ZOO[name].dynamo:
                loss_of(torch.compile(model, backend=aot_autograd(**make), fullgraph=True)(*inputs)).backward()
            else:
                loss_of(aot_module(model, **make)(*inputs)).backward()
        torch._dynamo.reset()
        names = [node.name for node in self.graphs["backward"].graph.nodes if node.op == "placeholder"]
        self.saved = len([name for name in names if "tangents" not in name])

    def _keep(self, kind: str) -> Callable[..., Any]:
        def compiler(graph: GraphModule, _: Any) -> Callable[..., Any]:
            self.graphs[kind] = copy.deepcopy(graph)

            def run(args: list[Any]) -> Any:
                self.arguments[kind] = tree_map_only(Tensor, lambda x: x.detach().clone(), args)
                return graph.forward(*args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compiler

    def functions(self) -> TrainingStep:
        """Forward and backward at the torch level, and how many results the user gets."""
        found = list[FuncOp]()
        for kind in ("forward", "backward"):
            module = fxc.run_passes(import_fx(self.graphs[kind]), "lower-to-torch").module
            entry = find_entry(module)
            assert entry is not None
            found.append(entry)
        tangents = ["tangents" in (argument.name_hint or "") for argument in found[1].args]
        marks = [DictionaryAttr({TANGENT: UnitAttr()} if each else {}) for each in tangents]
        found[1].properties["arg_attrs"] = ArrayAttr(marks)
        return TrainingStep(found[0], found[1], len(returned_by(found[0].body.block)) - self.saved)

    def run(self, results: int) -> None:
        """A step that releases what it may, as AOTAutograd does; tangents are made between, and held to the end."""
        returned = list(Eager(self.graphs["forward"]).run(*self.arguments["forward"]))
        saved = [value for value in returned[results:] if isinstance(value, Tensor)]
        sizes = [value for value in returned[results:] if not isinstance(value, Tensor)]
        del returned[results:]
        tangents = [x.clone() for x in self.arguments["backward"][self.saved :]]
        arguments = [*sizes, *saved, *tangents]
        del saved
        Eager(self.graphs["backward"]).boxed_run(arguments)


class Eager(Interpreter):
    """Runs a graph in its order, except that convolutions only allocate: oneDNN copies their operands to other layouts."""

    def run_node(self, n: Node) -> Any:
        if n.target not in CONVOLUTIONS:
            return super().run_node(n)
        return tree_map_only(Tensor, lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype), n.meta["val"])


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", ZOO)
def test_the_peak_of_a_step_is_that_of_eager(name: str) -> None:
    step = EagerStep(name)
    parts = step.functions()
    simulated = parts.memory()
    with torch.no_grad():
        step.run(parts.results)
        assert simulated.peak == pytest.approx(peak_bytes(lambda: step.run(parts.results)), rel=0.05)
    assert simulated.end <= simulated.peak


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["bert", "cond", "convnext", "gpt2", "llama", "mobilenet", "moe", "resnet", "unet", "vit"])
def test_no_order_is_worse(name: str) -> None:
    model, inputs = model_of(name, True)
    with kept(model):
        module = fxc.run_passes(capture_joint(model, inputs), "joint").module
    before = TrainingStep.of(module)
    after = TrainingStep.of(parse(run_pass(module, "reorder-for-memory")))
    assert before is not None and after is not None
    assert after.memory().peak <= before.memory().peak


def _memory_of(function: FuncOp, *, owned: bool = False) -> MemoryUse:
    """The memory of a call of ``function``, which releases its arguments if they are ``owned``."""
    block = function.body.block
    simulation = Simulation(HintedSizes(function))
    simulation.own(block.args if owned else ())
    simulation.run(operations_of(block))
    return simulation.result(returned_by(block))


X = "tensor<64xf32>"


@pytest.mark.parametrize(
    ("body", "owned", "peak", "end"),
    [
        (f"%a = torch.aten.exp.default(%x) : ({X}) -> {X}\n func.return %a : {X}", False, 256, 256),
        (f"%a = torch.aten.exp.default(%x) : ({X}) -> {X}\n func.return %x : {X}", False, 256, 0),
        (f"%a = torch.aten.exp.default(%x) : ({X}) -> {X}\n func.return %a : {X}", True, 512, 256),
        (f"%a = torch.aten.view.default(%x, [64]) : ({X}) -> {X}\n func.return %a : {X}", True, 256, 256),
        (f"func.return %x : {X}", False, 0, 0),
        (
            f"%a = torch.aten.exp.default(%x) : ({X}) -> {X}\n %b = torch.aten.view.default(%a, [64]) : ({X}) -> {X}\n"
            f"%c = torch.aten.exp.default(%x) : ({X}) -> {X}\n %d = torch.aten.exp.default(%b) : ({X}) -> {X}\n"
            f"func.return %d : {X}",
            False, 512, 256,
        ),
        (
            f"%g = fusion.group ({{\n %a = torch.aten.exp.default(%x) : ({X}) -> {X}\n"
            f"%b = torch.aten.exp.default(%a) : ({X}) -> {X}\n fusion.yield %b : {X}\n }}) -> {X}\n func.return %g : {X}",
            False, 256, 256,
        ),
        (
            f"%u = torch.aten.unbind.int(%x) : ({X}) -> tuple<tensor<f32>, tensor<f32>>\n"
            "%r = fx.call_function @operator.getitem(%u, 1) : (tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>\n"
            "func.return %r : tensor<f32>",
            True, 256, 256,
        ),
        (
            f"%t = torch.aten.var_mean.dim(%x, [0]) : ({X}) -> tuple<tensor<f32>, tensor<f32>>\n"
            "%r = fx.call_function @operator.getitem(%t, 1) : (tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>\n"
            "func.return %r : tensor<f32>",
            False, 8, 4,
        ),
    ],
    ids=["result", "unused", "argument", "view of argument", "nothing", "view", "group", "views in a tuple", "tuple"],
)  # fmt: skip
def test_storages(body: str, owned: bool, peak: int, end: int) -> None:
    result = "tensor<f32>" if "getitem" in body else X
    module = parse(f"func.func @main(%x: {X}) -> {result} {{\n{body}\n}}")
    function = find_entry(module)
    assert function is not None
    use = _memory_of(function, owned=owned)
    assert (use.peak, use.end) == (peak, end)


def test_functions_release_arguments_where_their_callers_do() -> None:
    """An argument of a function that is not ``plan.boxed`` is live to its end. An arena is there for later calls."""
    program = """
      func.func private @f(%x: X) -> X attributes {plan.boxed} {
        %m = torch.aten.exp.default(%x) : (X) -> X
        plan.free %x : X
        %y = torch.aten.sin.default(%m) : (X) -> X
        plan.free %m : X
        func.return %y : X
      }
      func.func @main(%x: X) -> X {
        %arena = plan.arena : !plan.arena<1024, "cpu">
        %b = plan.alloc %arena[0] : X
        %a = torch.aten.sin.default(%x) : (X) -> X
        %c = func.call @f(%a) : (X) -> X
        plan.free %a : X
        %d = func.call @f(%c) : (X) -> X
        plan.free %c : X
        fx.output((%d,)) : (X) -> ()
      }
    """.replace("X", X)
    held = program.replace("attributes {plan.boxed}", "").replace(f"plan.free %x : {X}", "")
    for text, peak in ((program, 512), (held, 768)):
        function = find_entry(parse(text))
        assert function is not None
        use = _memory_of(function)
        assert (use.peak, use.end) == (1024 + peak, 1024 + 256)


def test_tensors_of_the_program_are_not_saved() -> None:
    module = parse("""
      func.func @main(%w: tensor<64xf32> {fx.kind = "parameter", fx.name = "w"},
                      %x: tensor<64xf32> {fx.kind = "input", fx.name = "x"},
                      %d: tensor<64xf32> {autodiff.tangent, fx.kind = "input", fx.name = "d"})
      attributes {autodiff.forward_results = 1 : i64} {
        %t = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<64xf32>) -> tensor<64xf32>
        %y = torch.aten.mul.Tensor(%t, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
        %e = torch.aten.mul.Tensor(%d, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
        %g = torch.aten.mul.Tensor(%e, %t) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
        fx.output([%y, %g]) : (tensor<64xf32>, tensor<64xf32>) -> ()
      }
    """)
    step = TrainingStep.of(parse(run_pass(module, "split-joint")))
    assert step is not None and step.results == 1
    assert step.memory().live == [256, 512, 1024, 1280]


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_convolutions_need_memory_inside_of_the_call(format: torch.memory_format) -> None:
    """That of an image is not computed, so the peak is in the copies of the weight's gradient."""
    image, weight = torch.randn(2, 32, 6, 6).to(memory_format=format), torch.randn(128, 32, 3, 3, requires_grad=True)

    def step() -> None:
        result = torch.conv2d(image, weight)
        result.backward(torch.ones_like(result))
        weight.grad = None

    program = capture_joint(torch.conv2d, (image, weight))
    simulated = TrainingStep.of(parse(run_pass(program.module, "lower-to-torch,partition-default,split-joint")))
    assert simulated is not None
    step()
    assert simulated.memory().peak == pytest.approx(peak_bytes(step), rel=0.05)
