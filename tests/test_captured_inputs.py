"""What the capture makes of inputs and callables that PyTorch's own would not take, or take for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import fxc
from fxc.bridge.static_world import IS_PLAIN
from fxc.errors import CaptureError, InputError, PipelineError


@pytest.mark.parametrize("training", [False, True])
def test_an_example_that_passes_a_tensor_twice(training: bool) -> None:
    """It says nothing of later calls, which may pass two."""
    attention = torch.nn.MultiheadAttention(8, 2).eval()
    x, y = torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    compiled = fxc.compile(attention, (x, x, x), training=training)
    torch.testing.assert_close(compiled(x, y, y), attention(x, y, y))
    torch.testing.assert_close(compiled(x, x, x), attention(x, x, x))
    weight = torch.randn(3, requires_grad=True)
    difference = fxc.compile(lambda a, b: a * 2 - b["c"], (weight, {"c": weight}), training=True)
    [gradient] = torch.autograd.grad(difference(weight, {"c": weight}).sum(), weight)
    assert torch.equal(gradient, torch.ones(3))


@pytest.mark.parametrize("function", [torch.relu, torch.nn.functional.silu, torch.exp])
def test_functions_of_which_python_knows_no_signature(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(fxc.compile(function, (x,))(x), function(x))


TRANSFORMED: dict[str, Callable[..., Any]] = {
    "vmap": lambda x, y: torch.vmap(torch.dot)(x, y),
    "vmap of a vmap": lambda x, y: torch.vmap(torch.vmap(torch.mul))(x, y),
    "jvp": lambda x, y: torch.func.jvp(lambda z: z.sin() * z, (x,), (y,)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_function_transforms(name: str) -> None:
    if name == "jvp" and not IS_PLAIN:
        pytest.skip("torch.export captures it from PyTorch 2.13 on")
    function, inputs = TRANSFORMED[name], (torch.randn(3, 4), torch.randn(3, 4))
    torch.testing.assert_close(fxc.compile(function, inputs)(*inputs), function(*inputs))
    assert torch._C._functorch.peek_interpreter_stack() is None


OF_ONE: dict[str, Callable[[torch.Tensor], Any]] = {
    "grad": lambda x: torch.func.grad(lambda z: (z.sin() * z).sum())(x),
    "vmap of a grad": lambda x: torch.vmap(torch.func.grad(torch.sin))(x),
    "vmap with a captured tensor": lambda x: torch.vmap(lambda v: torch.outer(x, x) @ v)(x[None]),
    "jacrev": lambda x: torch.func.jacrev(torch.sin)(x),
    "hessian": lambda x: torch.func.hessian(lambda z: (z.sin() * z).sum())(x),
}


@pytest.mark.share(3)
@pytest.mark.skipif(not IS_PLAIN, reason="the routes differ before PyTorch 2.13")
@pytest.mark.parametrize("name", OF_ONE)
def test_transforms_that_export_cannot_capture(name: str) -> None:
    function, x = OF_ONE[name], torch.randn(3)
    torch.testing.assert_close(fxc.compile(function, (torch.randn(3),))(x), function(x))
    with pytest.raises(CaptureError, match=r"(?s)export cannot capture.*dynamo: .*torch.func.*hint: .*backend='fxc'"):
        fxc.compile(function, (x,), training=True)
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert torch.rand(2).shape == (2,)


def test_a_failure_inside_of_a_transform_ends_it() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        torch._C._functorch._vmap_increment_nesting(3, "error")  # type: ignore[attr-defined]
        raise ValueError("no result")

    with pytest.raises(CaptureError, match="no result"):
        fxc.compile(fails, (torch.randn(3),))
    assert torch._C._functorch.peek_interpreter_stack() is None


@pytest.mark.parametrize("model", [None, 3, "model"])
def test_a_model_that_cannot_be_called_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match=f"the model is {model!r}, which cannot be called"):
        fxc.compile(model, (torch.randn(3),))
    with pytest.raises(InputError, match="which cannot be called"):
        fxc.capture(model, (torch.randn(3),))


def test_a_dynamic_dimension_that_a_tensor_does_not_have_is_refused() -> None:
    x, size = torch.randn(3), torch.export.Dim("size")
    for shapes in ({"x": {1: size}}, ({1: size},)):
        with pytest.raises(InputError, match="names dimension 1 of x, which has 1 dimensions"):
            fxc.compile(lambda x: x * 2, (x,), dynamic_shapes=shapes)
    with pytest.raises(InputError, match=r"names dimension -1 of y\['a'\]\[1\], which has 1 dimensions"):
        fxc.compile(lambda x, y: x + y["a"][1], (x, {"a": [x, x]}), dynamic_shapes=(None, {"a": [None, {-1: size}]}))


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numbers in a tensor": lambda x: torch.tensor([float(each) * 2 for each in x]),
    "two numbers": lambda x: (int(x[0]), int(x[1]), x),
    "a rounded number": lambda x: (x, round(float(x[2])), round(float(x[2]), 1)),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_equal_calls_of_item_return_different_numbers(name: str, training: bool) -> None:
    function, x = NUMBERS[name], torch.tensor([1.0, 2.0, 3.25])
    compiled = fxc.compile(function, (torch.ones(3),), training=training)
    assert str(compiled(x)) == str(function(x))


PASSED_ON: dict[str, Any] = {
    "none": None, "text": "abc", "dtype": torch.float16, "device": torch.device("cpu"), "complex": 2 + 1j, "number": 3,
    "nested": {"x": None},
}  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", PASSED_ON)
def test_values_of_python_pass_beside_writes(name: str, target: str | None, training: bool) -> None:
    """Nothing computes with them, so that they need no type."""
    value = PASSED_ON[name]
    functions: list[Callable[..., Any]] = [
        lambda x, n: (x.add_(1), n)[1:],
        lambda x, n: (n, x.mul_(2), [n, x.sin()]),
        lambda x, n: (x.add_(1), 7)[1],
    ]
    for function in functions:
        compiled = fxc.compile(function, (torch.ones(3), value), training=training, options=fxc.Options(target=target))
        x, y = torch.ones(3), torch.ones(3)
        assert str(compiled(x, value)) == str(function(y, value))
        assert torch.equal(x, y)
        if name != "number":
            with pytest.raises(InputError):
                compiled(x, 5)


class Scaled(torch.nn.Module):
    def forward(self, a: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
        return a * by


X = torch.ones(2)
MISFITS: dict[str, tuple[tuple[torch.Tensor, ...], dict[Any, torch.Tensor], str]] = {
    "one is missing": ((X,), {}, "missing a required argument: 'by'"),
    "another name": ((X,), {"scale": X}, "missing a required argument: 'by'"),
    "too many": ((X, X, X), {"by": X}, "too many positional arguments"),
    "a number as a name": ((X,), {1: X}, "keywords must be strings"),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("case", MISFITS)
def test_inputs_that_are_not_those_of_the_model(case: str, training: bool) -> None:
    args, kwargs, reason = MISFITS[case]
    with pytest.raises(CaptureError, match=rf"not those of Scaled: the parameters are \(a.*by.*{reason}\n  hint: args is"):
        fxc.compile(Scaled(), args, kwargs, training=training)


def test_a_type_error_of_the_model_stays_one() -> None:
    with pytest.raises(CaptureError, match=r"cannot capture <lambda>: TypeError"):
        fxc.compile(lambda x: x @ "x", (X,))


def test_what_is_no_dictionary() -> None:
    wrong: Any = X
    with pytest.raises(InputError, match="kwargs is a Tensor, but a dictionary"):
        fxc.compile(Scaled(), (X,), wrong)
    with pytest.raises(InputError, match="args is a str, but a tuple"):
        fxc.compile(Scaled(), "ab")
    with pytest.raises(PipelineError, match="options is a list, but a dictionary or"):
        fxc.compile(Scaled(), (X,), {"by": X}, options=[wrong])
    with pytest.raises(InputError, match="dynamic_shapes is 3, but a tuple or a dictionary"):
        fxc.compile(Scaled(), (X,), {"by": X}, dynamic_shapes=3)


def test_what_is_no_model() -> None:
    linear, inputs = torch.nn.Linear(2, 2), (X,)
    with pytest.raises(InputError, match=r"(?s)class Linear.*hint: give an instance"):
        fxc.compile(torch.nn.Linear, inputs)
    with pytest.raises(InputError, match=r"(?s)an ExportedProgram.*hint: .*exported\.module\(\)"):
        fxc.compile(cast(Any, torch.export.export(linear, inputs)), inputs)
    for made in (torch.jit.script(linear), torch.jit.trace(linear, inputs)):
        with pytest.raises(InputError, match=r"(?s)a ScriptModule.*hint: give the torch\.nn\.Module"):
            fxc.compile(made, inputs)


def weighted(scale: float = 1.0, **terms: torch.Tensor) -> torch.Tensor:
    return sum((term * (i + scale) for i, term in enumerate(terms.values())), torch.zeros(3))


def test_the_order_of_keywords_that_are_taken_as_a_dictionary(tmp_path: Path) -> None:
    a, b = torch.randn(3), torch.randn(3)
    compiled = fxc.compile(weighted, (), {"a": a, "b": b, "scale": 2.0})
    compiled.plan.save(tmp_path / "plan.fxc")
    for run in (compiled, fxc.ExecutionPlan.load(tmp_path / "plan.fxc")):
        torch.testing.assert_close(run(scale=2.0, a=b, b=a), weighted(2.0, a=b, b=a))
        with pytest.raises(InputError, match="takes the keywords a, b as a dictionary"):
            run(b=b, a=a, scale=2.0)
    again = fxc.compile(weighted, (), {"a": a, "b": b}, options={"recompile": True})
    for terms in ({"a": a, "b": b}, {"b": b, "a": a}):
        torch.testing.assert_close(again(**terms), weighted(**terms))
