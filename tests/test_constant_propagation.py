"""What constant-propagation asks of the semantics, and what it does with the answers: by semantics that need no torch."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from fxc.dialects.attributes.values import float_attr
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import TensorLiteralAttr
from fxc.program.program import new_context
from fxc.testing import run_pass

Answer = Callable[[TorchOp, Sequence[Attribute]], Sequence[Attribute] | None]


def floats(*values: float) -> TensorLiteralAttr:
    return TensorLiteralAttr(StringAttr(struct.pack(f"<{len(values)}f", *values).hex()))


def negated(op: TorchOp, operands: Sequence[Attribute]) -> Sequence[Attribute]:
    (tensor,) = operands
    assert isinstance(tensor, TensorLiteralAttr)
    values = struct.unpack(f"<{len(tensor.bytes) // 4}f", tensor.bytes)
    return [floats(*(-value for value in values))]


ANSWERS: dict[str, Answer] = {
    "aten.ones.default": lambda op, operands: [floats(1.0, 1.0)],
    "aten.neg.default": negated,
    "aten.item.default": lambda op, operands: [float_attr(2.5)],
    "aten.exp.default": lambda op, operands: None,
    "aten.sin.default": lambda op, operands: [floats(1.0)],
    "aten.lt.Scalar": lambda op, operands: [TensorLiteralAttr(StringAttr("00"))],
}


class Recorder:
    """Semantics that answer from a table, and note what they were asked."""

    def __init__(self) -> None:
        self.asked = list[str]()

    def evaluate(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> Sequence[Attribute] | None:
        assert isinstance(op, TorchOp) and len(operands) == len(op.operands)
        self.asked.append(op.operator.split(".")[1])
        return ANSWERS[op.operator](op, operands)


def propagate(body: str, arguments: str = "", **options: Any) -> tuple[str, list[str]]:
    """The body of a function after the pass, one op a line, and the names of the ops that were evaluated."""
    recorder, context = Recorder(), new_context()
    context._semantics = recorder  # type: ignore[assignment]
    pipeline = "constant-propagation" + (f"{{{' '.join(f'{k}={v}' for k, v in options.items())}}}" if options else "")
    text = run_pass(f"func.func @main({arguments}) {{\n{body}\n}}", pipeline, context)
    return "\n".join(line.strip() for line in text.splitlines()[2:-2]), recorder.asked


ONES = "%a = torch.aten.ones.default([2]) : () -> tensor<2xf32>"
NEG = "%b = torch.aten.neg.default(%a) : (tensor<2xf32>) -> tensor<2xf32>"
ADD = "%y = torch.aten.add.Tensor(%x, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"
OUT = "fx.output(%y) : (tensor<2xf32>) -> ()"
X = "%x: tensor<2xf32>"


def test_a_chain_is_one_constant() -> None:
    text, asked = propagate("\n".join([ONES, NEG, ADD, OUT]), X)
    assert asked == ["ones", "neg"]
    assert text == "\n".join(["%b = torch.constant([-1.0, -1.0]) : tensor<2xf32>", ADD, OUT])


def test_nothing_constant_asks_nothing() -> None:
    body = "%y = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>\n" + OUT
    assert propagate(body, X) == (body, [])


def test_what_is_returned_is_not_even_computed() -> None:
    body = ONES + "\nfx.output(%a) : (tensor<2xf32>) -> ()"
    assert propagate(body) == (body, [])


@pytest.mark.parametrize("operator", ["exp", "sin"])
def test_no_answer_and_an_answer_that_does_not_fit_leave_the_op(operator: str) -> None:
    """``exp`` is what raises; ``sin`` answers with fewer elements than the type has."""
    text, asked = propagate("\n".join([ONES, NEG.replace("neg", operator), ADD, OUT]), X)
    assert asked == ["ones", operator]
    assert NEG.replace("neg", operator) in text


def test_a_limit_on_elements() -> None:
    body = "\n".join([ONES, NEG, ADD, OUT])
    assert propagate(body, X, **{"max-elements": 1}) == (body, [])


def test_a_number_stands_in_the_arguments() -> None:
    item = "%n = torch.aten.item.default(%b) : (tensor<2xf32>) -> !torch.float"
    scaled = "%y = torch.aten.mul.Scalar(%x, %n) : (tensor<2xf32>, !torch.float) -> tensor<2xf32>"
    text, _ = propagate("\n".join([ONES, NEG, item, scaled, OUT]), X)
    assert text == "\n".join(["%y = torch.aten.mul.Scalar(%x, 2.5) : (tensor<2xf32>) -> tensor<2xf32>", OUT])


def test_the_condition_of_a_loop_runs_on_its_initial_values() -> None:
    loop = """
    %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%a, %x), ()) ({
    ^bb0(%i: tensor<2xf32>, %s: tensor<2xf32>):
      %c = torch.aten.lt.Scalar(%i, 0) : (tensor<2xf32>) -> tensor<i1>
      fx.output(%c) : (tensor<i1>) -> ()
    }, {
    ^bb0(%i: tensor<2xf32>, %s: tensor<2xf32>):
      fx.output((%i, %s)) : (tensor<2xf32>, tensor<2xf32>) -> ()
    }) : (tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
    %s = fx.call_function @operator.getitem(%r, 1) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
    %y = torch.aten.neg.default(%s) : (tensor<2xf32>) -> tensor<2xf32>
    """
    text, asked = propagate("\n".join([ONES, loop, OUT]), X)
    assert asked == ["ones", "lt"]
    assert text == "\n".join(["%y = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>", OUT])


def test_running_it_twice_changes_nothing() -> None:
    """pytorch#30544."""
    text, _ = propagate("\n".join([ONES, NEG, ADD, OUT]), X)
    assert propagate(text, X) == (text, [])
