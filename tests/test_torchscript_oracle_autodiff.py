"""TorchScript's own differentiation, run on the same graphs: where we give the same, and where we differ and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fxc.dialects.autodiff import AddOp, SubgraphOp
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.verify.verifier import verify
from fxc.passes import load
from fxc.program.program import new_context

C: Any = torch._C
CONTEXT = new_context()
G, N, T = "Float(2, 3, requires_grad=1)", "Float(2, 3, requires_grad=0)", "tensor<2x3xf32>"


@pytest.fixture(autouse=True)
def legacy_executor() -> Any:
    executor, mode = C._jit_set_profiling_executor(False), C._jit_set_profiling_mode(False)
    yield
    C._jit_set_profiling_executor(executor)
    C._jit_set_profiling_mode(mode)


def ours(text: str, *names: str, **options: Any) -> ModuleOp:
    module = parse_module(CONTEXT, text)
    verify(module)
    for name in names:
        load(name)(**options).apply(CONTEXT, module)
        verify(module)
    return module


def function(module: ModuleOp, name: str) -> FuncOp:
    return next(op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


UNARY = {"exp": "aten.exp.default", "tanh": "aten.tanh.default", "sin": "aten.sin.default", "sigmoid": "aten.sigmoid.default"}


class Graph:
    """One graph in both languages: ``Graph("xy").unary("exp", "x", "a").mul("a", "y", "b").returns("b")``."""

    def __init__(self, needs: str, not_needs: str = "") -> None:
        self.needs, self.inputs = needs, needs + not_needs
        self.script, self.ir = list[str](), list[str]()
        self.returned = ""

    def unary(self, name: str, source: str, result: str) -> Graph:
        self.script.append(f"%{result} : {G} = aten::{name}(%{source})")
        self.ir.append(f"%{result} = torch.{UNARY[name]}(%{source}) : ({T}) -> {T}")
        return self

    def mul(self, a: str, b: str, result: str) -> Graph:
        self.script.append(f"%{result} : {G} = aten::mul(%{a}, %{b})")
        self.ir.append(f"%{result} = torch.aten.mul.Tensor(%{a}, %{b}) : ({T}, {T}) -> {T}")
        return self

    def returns(self, names: str) -> Graph:
        self.returned = names
        return self

    def torchscript(self) -> Any:
        arguments = ", ".join(f"%{name} : {G if name in self.needs else N}" for name in self.inputs)
        lines = "".join(f"  {line}\n" for line in self.script)
        return C.parse_ir(f"graph({arguments}):\n{lines}  return ({', '.join('%' + n for n in self.returned)})\n")

    def text(self) -> str:
        arguments = ", ".join(f"%{n}: {T}{' {fx.requires_grad}' if n in self.needs else ''}" for n in self.inputs)
        types, values = ", ".join([T] * len(self.returned)), ", ".join(f"%{n}" for n in self.returned)
        plain, given = ", ".join(f"%{n}: {T}" for n in self.inputs), ", ".join(f"%{n}" for n in self.inputs)
        results = ", ".join(f"%r{i}" for i in range(len(self.returned)))
        operands = ", ".join([T] * len(self.inputs))
        lines = "".join(f"  {line}\n" for line in self.ir)
        return (
            f"func.func private @f({arguments}) -> ({types}) {{\n{lines}  func.return {values} : {types}\n}}\n"
            f"func.func @main({plain}) -> ({types}) {{\n"
            f"  {results} = autodiff.subgraph @f({given}) : ({operands}) -> ({types})\n  func.return {results} : {types}\n}}\n"
        )


def fields_of_torchscript(graph: Graph) -> tuple[Any, ...]:
    found = C._jit_differentiate(graph.torchscript())
    lists = (found.df_input_vjps, found.df_input_captured_inputs, found.df_input_captured_outputs, found.df_output_vjps)
    return found.f_real_outputs, *map(list, lists)


def fields(module: ModuleOp) -> tuple[Any, ...]:
    gradient = next(op.gradient for op in module.walk() if isinstance(op, SubgraphOp))
    assert gradient is not None
    names = ("input_vjps", "captured_inputs", "captured_outputs", "output_vjps")
    return gradient.real_outputs.value.data, *(gradient.indices(name) for name in names)


SAME: dict[str, Callable[[], Graph]] = {
    "chain": lambda: Graph("x").unary("exp", "x", "t").unary("tanh", "t", "u").returns("u"),
    "an input without gradient": lambda: Graph("x", "m").unary("exp", "x", "t").unary("tanh", "t", "u").returns("u"),
    "duplicated output": lambda: Graph("x").unary("tanh", "x", "u").returns("uu"),
    "temporary that is an output": lambda: Graph("x").unary("exp", "x", "t").unary("tanh", "t", "u").returns("ut"),
    "unused input": lambda: Graph("xy").unary("tanh", "x", "u").returns("u"),
    "needs the input": lambda: Graph("x").unary("sin", "x", "u").returns("u"),
    "two outputs": lambda: Graph("x").unary("tanh", "x", "u").unary("exp", "x", "v").returns("uv"),
    "long chain": lambda: Graph("x").unary("exp", "x", "t").unary("sigmoid", "t", "u").unary("tanh", "u", "v").returns("v"),
}


@pytest.mark.parametrize("case", SAME)
def test_the_fields_are_torchscripts(case: str) -> None:
    graph = SAME[case]()
    assert fields(ours(graph.text(), "differentiate")) == fields_of_torchscript(graph)


def test_sizes_of_broadcasts_are_not_captured() -> None:
    """TorchScript's formulas end in ``_grad_sum_to_size``, and it captures what ``_size_if_not_equal`` gives for each operand.
    Our backward was traced at the operand types: a static size is in it, a symbolic one is captured where it is used."""
    graph = Graph("xy").mul("x", "y", "t").unary("sigmoid", "t", "u").returns("u")
    real, vjps, inputs, outputs, gradients = fields_of_torchscript(graph)
    assert (real, vjps, inputs, outputs, gradients) == (1, [0], [0, 1], [1, 2, 0], [0, 1])
    assert fields(ours(graph.text(), "differentiate")) == (1, [0], [0, 1], [0], [0, 1])


def test_an_input_that_is_an_output_is_captured_as_output() -> None:
    """The same, sizes apart."""
    graph = Graph("x").unary("exp", "x", "u").mul("u", "x", "v").returns("vx")
    real, vjps, inputs, outputs, gradients = fields_of_torchscript(graph)
    mine = fields(ours(graph.text(), "differentiate"))
    assert (real, vjps, inputs, gradients) == (mine[0], mine[1], mine[2], mine[4]) == (2, [0, 1, 2], [], [0])
    assert mine[3] == [1, 2] and outputs[0] == 1 and 2 in outputs


def test_the_sum_of_gradients_is_made_as_often() -> None:
    for case in ("duplicated output", "two outputs", "chain"):
        graph = SAME[case]()
        df = str(C._jit_differentiate(graph.torchscript()).df)
        module = ours(graph.text(), "differentiate")
        assert sum(isinstance(op, AddOp) for op in function(module, "f_df").walk()) == df.count("AutogradAdd"), case


SLICES = """
graph(%x : {G}, %y : {G}):
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : {G} = aten::mul(%x, %y)
  %b : {G} = aten::sigmoid(%a)
  %n : {G} = aten::cumsum(%b, %one, %none)
  %c : {G} = aten::tanh(%n)
  return (%c, %a)
""".replace("{G}", G)

OUR_SLICES = """
func.func @main(%x: {T}, %y: {T}) -> ({T}, {T}) {
  %a = torch.aten.mul.Tensor(%x, %y) : ({T}, {T}) -> {T}
  %b = torch.aten.sigmoid.default(%a) : ({T}) -> {T}
  %n = {OP}(%b) : ({T}) -> {T}
  %c = torch.aten.tanh.default(%n) : ({T}) -> {T}
  func.return %c, %a : {T}, {T}
}
""".replace("{T}", T)


def slices(operator: str, threshold: int) -> int:
    module = ours(OUR_SLICES.replace("{OP}", operator), "create-autodiff-subgraphs", threshold=threshold)
    return sum(isinstance(op, SubgraphOp) for op in module.walk())


def slices_of_torchscript(text: str, threshold: int) -> int:
    graph = C.parse_ir(text)
    C._jit_pass_create_autodiff_subgraphs(graph, threshold)
    return str(graph).count("with prim::DifferentiableGraph")


@pytest.mark.parametrize(("threshold", "expected"), [(1, 2), (2, 1), (3, 0)])
def test_slices_around_a_black_box(threshold: int, expected: int) -> None:
    assert slices_of_torchscript(SLICES, threshold) == expected
    assert slices("fx.call_function @operator.neg", threshold) == expected


def test_what_torchscript_has_no_formula_for_is_no_black_box() -> None:
    """TorchScript knows no derivative of cumsum; ours are traced from autograd, which does."""
    module = ours(OUR_SLICES.replace("{OP}(%b)", "torch.aten.cumsum.default(%b, 1)"), "create-autodiff-subgraphs", threshold=4)
    assert sum(isinstance(op, SubgraphOp) for op in module.walk()) == 1


def test_an_output_that_shares_memory_with_another_is_peeled() -> None:
    """Both keep relu in a slice and the split of it outside; we need no slice for one op alone at the default threshold."""
    text = """
graph(%a : Float(4, requires_grad=1)):
  %b : Float(4, requires_grad=1) = aten::relu(%a)
  %0 : int[] = prim::Constant[value=[2, 2]]()
  %1 : int = prim::Constant[value=0]()
  %2 : Tensor[] = aten::split_with_sizes(%b, %0, %1)
  %3 : (Tensor, Tensor[]) = prim::TupleConstruct(%b, %2)
  return (%3)
"""
    graph = C.parse_ir(text)
    C._jit_pass_create_autodiff_subgraphs(graph, 1)
    outside, inside = str(graph).split("with prim::DifferentiableGraph")
    assert "aten::split_with_sizes" in outside and "aten::relu" in inside
    module = ours(
        """func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %b = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %p, %q = torch.aten.split_with_sizes.default(%b, [2, 2]) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  func.return %b, %p : tensor<4xf32>, tensor<2xf32>
}""",
        "create-autodiff-subgraphs",
        threshold=1,
    )
    main = [op.name for op in function(module, "main").body.block.ops]
    assert main == ["autodiff.subgraph", "torch.aten.split_with_sizes.default", "func.return"]


def specialized(text: str) -> str:
    graph = C.parse_ir(text)
    C._jit_pass_specialize_autogradzero(graph)
    C._jit_pass_dce(graph)
    return str(graph)


OF_TORCHSCRIPT = {
    "undefined": ("{n} : Tensor = prim::AutogradZero()", ""),
    "defined": ("", "{n} : Tensor"),
    "unknown": ("{n} : Tensor = aten::neg(%x)", ""),
}
OF_OURS = {"undefined": " {autodiff.undefined}", "defined": " {autodiff.defined}", "unknown": ""}


@pytest.mark.parametrize("a", OF_OURS)
@pytest.mark.parametrize("b", OF_OURS)
def test_the_table_of_add(a: str, b: str) -> None:
    arguments = [OF_TORCHSCRIPT[state][1].format(n=n) for n, state in (("%a", a), ("%b", b)) if OF_TORCHSCRIPT[state][1]]
    lines = [OF_TORCHSCRIPT[state][0].format(n=n) for n, state in (("%a", a), ("%b", b)) if OF_TORCHSCRIPT[state][0]]
    body = "".join(f"  {line}\n" for line in [*lines, "%s : Tensor = prim::AutogradAdd(%a, %b)"])
    script = specialized(f"graph({', '.join(['%x : Tensor', *arguments])}):\n{body}  return (%s)\n")
    module = ours(
        f"""func.func @main(%a: {T}{OF_OURS[a]}, %b: {T}{OF_OURS[b]}) -> {T} {{
  %s = autodiff.add(%a, %b) : ({T}, {T}) -> {T}
  func.return %s : {T}
}}""",
        "specialize-autograd-zero",
    )
    names = [op.name for op in function(module, "main").body.block.ops]
    assert ("autodiff.add" in names) == ("prim::AutogradAdd" in script)
    assert ("torch.aten.add.Tensor" in names) == ("aten::add" in script)


def test_what_an_operator_gives_is_defined() -> None:
    """TorchScript takes the result of an ordinary op for unknown; ops of torch give tensors, never undefined gradients."""
    script = specialized(
        "graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %s : Tensor = prim::AutogradAdd(%a, %x)\n  return (%s)\n"
    )
    assert "AutogradAdd" in script
    module = ours(
        f"""func.func @main(%x: {T} {{autodiff.defined}}) -> {T} {{
  %a = torch.aten.neg.default(%x) : ({T}) -> {T}
  %s = autodiff.add(%a, %x) : ({T}, {T}) -> {T}
  func.return %s : {T}
}}""",
        "specialize-autograd-zero",
    )
    assert "torch.aten.add.Tensor" in str(module)


def test_an_argument_without_a_mark_is_unknown() -> None:
    """TorchScript takes a plain ``Tensor`` argument for defined; here nothing is known of it."""
    script = specialized("graph(%a : Tensor, %b : Tensor):\n  %s : Tensor = prim::AutogradAdd(%a, %b)\n  return (%s)\n")
    assert "AutogradAdd" not in script and "aten::add" in script
    text = f"""func.func @main(%a: {T}, %b: {T}) -> {T} {{
  %s = autodiff.add(%a, %b) : ({T}, {T}) -> {T}
  func.return %s : {T}
}}"""
    assert "autodiff.add" in str(ours(text, "specialize-autograd-zero"))
