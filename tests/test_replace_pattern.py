"""``fxc.replace_pattern``: what matches, what must not, and that the numbers are those of the replacement."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxc
from fxc.errors import CaptureError
from tests.replaced_programs import X, Y, count, names, program_of, run


def test_one_operator_everywhere() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
    program = program_of(model, X)
    text = str(program)
    result = fxc.replace_pattern(program, F.relu, F.gelu)
    expected = F.gelu(model[2](F.gelu(model[0](X))))
    torch.testing.assert_close(run(result, X), expected)
    assert len(result.matches) == 2 and names(result) == ["linear", "gelu", "linear", "gelu"]
    assert str(program) == text


def test_works_at_the_types_of_each_match() -> None:
    """Constants that depend on sizes are those of the match, not of a size that was guessed."""

    def twice(x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1).sum() + y.reshape(y.shape[0], -1).sum()

    def pattern(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1)

    program = program_of(twice, torch.ones(2, 3, 4), torch.ones(5, 6, 7))
    result = fxc.replace_pattern(program, pattern, lambda x: x.flatten(1))
    assert len(result.matches) == 2 and names(result).count("flatten.using_ints") == 2
    wrong = program_of(lambda x: x.reshape(6, 4), torch.ones(2, 3, 4))
    assert not fxc.replace_pattern(wrong, pattern, lambda x: x.flatten(1)).matches


def test_several_ops_and_parameters() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-2, -1) * 0.5, dim=-1) @ v

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(attention(q, k, v), k, v) + q

    args = [torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    program = program_of(model, *args)
    result = fxc.replace_pattern(program, attention, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.5))
    assert names(result) == ["scaled_dot_product_attention", "scaled_dot_product_attention", "add.Tensor"]
    torch.testing.assert_close(run(result, *args), model(*args))
    assert result.matches[0].arguments == ("q", "k", "v")


def test_defaults_may_be_written_out() -> None:
    assert count(lambda x: torch.add(x, x, alpha=1), lambda x: x + x, X) == 1
    assert count(lambda x: torch.add(x, x, alpha=2), lambda x: x + x, X) == 0
    assert count(lambda x: F.gelu(x), lambda x: F.gelu(x, approximate="none"), X) == 1
    assert count(lambda x: F.gelu(x, approximate="tanh"), lambda x: F.gelu(x), X) == 0


def test_constants_must_be_equal() -> None:
    assert count(lambda x: x * 2, lambda x: x * 2, X) == 1
    assert count(lambda x: x * 3, lambda x: x * 2, X) == 0
    assert count(lambda x: x * 2.0, lambda x: x * 2, X) == 0
    assert count(lambda x: x.sum(0), lambda x: x.sum(1), X) == 0


def test_an_optional_value_must_be_there() -> None:
    w, b = torch.randn(5, 4), torch.randn(5)

    def pattern(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.linear(x, w, b)

    assert count(lambda x, w, b: F.linear(x, w) + b, pattern, X, w, b) == 0
    assert count(lambda x, w, b: F.linear(x, w, b), pattern, X, w, b) == 1
    assert count(lambda x, w, b: F.linear(x, w, b), lambda x, w: F.linear(x, w), X, w, b) == 0
    assert count(lambda x, w, b: torch.cat([x, x, x]), lambda x, y: torch.cat([x, y]), X, w, b) == 0


def test_operators_must_be_equal() -> None:
    assert count(lambda x: x - 1, lambda x: x + 1, X) == 0
    assert count(lambda x, y: y - x, lambda a, b: a - b, X, Y) == 1


def test_one_parameter_is_one_value() -> None:
    assert count(lambda x, y: x * x, lambda a: a * a, X, Y) == 1
    assert count(lambda x, y: x * y, lambda a: a * a, X, Y) == 0
    assert count(lambda x, y: x * x, lambda a, b: a * b, X, Y) == 1


def test_inner_values_may_not_be_used_outside() -> None:
    def pattern(x: Tensor) -> Tensor:
        return torch.exp(x) + 1

    assert count(lambda x: pattern(x), pattern, X) == 1

    def used(x: Tensor) -> Tensor:
        inner = torch.exp(x)
        return (inner + 1) * inner

    assert count(used, pattern, X) == 0


def test_inner_values_may_not_be_returned() -> None:
    def returned(x: Tensor) -> tuple[Tensor, Tensor]:
        inner = torch.exp(x)
        return inner + 1, inner

    assert count(returned, lambda x: torch.exp(x) + 1, X) == 0
    assert count(lambda x: torch.exp(x) + 1, lambda x: torch.exp(x) + 1, X) == 1


@pytest.mark.slow
def test_a_write_between_the_ops_is_not_crossed() -> None:
    def between(x: Tensor) -> Tensor:
        y = x.clone()
        a = torch.exp(y)
        y.add_(1)
        return a * y

    def apart(x: Tensor) -> Tensor:
        y, other = x.clone(), x.clone()
        a = torch.exp(y)
        other.add_(1)
        return a * y + other

    def pattern(y: Tensor) -> Tensor:
        return torch.exp(y) * y

    def two(x: Tensor, z: Tensor) -> Tensor:
        return torch.exp(x) * z

    for function, expected in ((between, 0), (apart, 1)):
        program = program_of(function, X, route="export")
        result = fxc.replace_pattern(program, pattern, lambda y: y * torch.exp(y))
        assert len(result.matches) == expected, function.__name__
        torch.testing.assert_close(run(result, X), function(X))
    assert count(between, two, X) == 0


def test_a_view_that_is_written_later_stays() -> None:
    def later(x: Tensor) -> Tensor:
        base = x.clone()
        view = base.reshape(-1)
        view.add_(1)
        return base * 2

    program = program_of(later, X)
    result = fxc.replace_pattern(program, lambda x: x.reshape(-1), lambda x: x.reshape(-1).clone())
    assert not result.matches
    torch.testing.assert_close(run(result, X), later(X))


def test_overlapping_matches_first_wins() -> None:
    program = program_of(lambda x: torch.relu(torch.relu(torch.relu(x))), X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(torch.relu(x)), lambda x: torch.sigmoid(x))
    assert len(result.matches) == 1 and names(result) == ["sigmoid", "relu"]


def test_what_is_put_in_is_not_matched_again() -> None:
    program = program_of(lambda x: torch.relu(x), X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(x), lambda x: torch.relu(torch.relu(x)))
    assert len(result.matches) == 1 and names(result) == ["relu", "relu"]


def test_several_outputs() -> None:
    def pattern(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.amax(-1), x.amin(-1)

    def model(x: Tensor, y: Tensor) -> Tensor:
        low = x.amin(-1)
        return x.amax(-1) - low + y.sum(-1)

    program = program_of(model, X, Y)
    result = fxc.replace_pattern(program, pattern, lambda x: tuple(torch.aminmax(x, dim=-1))[::-1])
    assert len(result.matches) == 1 and names(result)[0] == "aminmax"
    torch.testing.assert_close(run(result, X, Y), model(X, Y))


def test_several_outputs_need_a_place_to_stand() -> None:
    """One output is an operand of what the other needs: there is no place before all users and after all operands."""

    def model(x: Tensor) -> Tensor:
        return torch.exp(torch.sin(x) + 1)

    def pattern(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sin(x), torch.exp(y)

    assert count(model, pattern, X) == 0
    assert count(lambda x: torch.sin(x) + torch.exp(x + 1), pattern, X) == 1


@pytest.mark.slow
def test_other_dtype_or_shape_is_refused() -> None:
    program = program_of(lambda x: torch.relu(x) + 1, X)
    for replacement, what in ((lambda x: torch.relu(x).double(), "xf64>"), (lambda x: torch.relu(x).sum(0), "<4xf32>")):
        with pytest.raises(CaptureError, match="the replacement returns tensor") as caught:
            fxc.replace_pattern(program, F.relu, replacement)
        assert what in caught.value.message and caught.value.hint and "relu" in str(caught.value.op)


@pytest.mark.slow
def test_other_strides_are_carried_on() -> None:
    """Types of what follows are inferred anew; an op that does not take the strides gets a copy."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x) + 1
        return y * 2, y.view(-1)

    program = program_of(model, X)
    result = fxc.replace_pattern(program, torch.relu, lambda x: torch.relu(x.t().contiguous()).t())
    assert names(result) == ["t", "clone", "relu", "t", "add.Tensor", "mul.Tensor", "clone", "view"] or "clone" in names(result)
    strided, flat = run(result, X)
    assert strided.stride() == (1, 3) and "strides = [1, 3]" in str(result.main.function_type)
    torch.testing.assert_close((strided, flat), model(X))

    def branches(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.relu(x), lambda x: x - 1, (x,))

    result = fxc.replace_pattern(program_of(branches, X), torch.relu, lambda x: torch.relu(x.t().contiguous()).t())
    torch.testing.assert_close(run(result, X + 9), branches(X + 9))
    assert run(result, X + 9).stride() == (4, 1)


def test_names_and_places_stay() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            activated = torch.relu(x)
            return activated * 2

    program = program_of(Net(), X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(x), lambda x: x * torch.sigmoid(x))
    [match] = result.matches
    assert match.replaced == ("relu",) and "activated = torch.relu(x)" in str(match.place)
    graph = fxc.to_fx(result).graph
    nodes = {node.name: node for node in graph.nodes}
    assert "activated = torch.relu(x)" in nodes["relu"].meta["stack_trace"]
    assert nodes["relu"].target is torch.ops.aten.mul.Tensor and "sigmoid" in nodes
    assert 'callsite("sigmoid"' in result.text(debuginfo=True)


@pytest.mark.slow
def test_regions_are_searched() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.relu(x) + 1, lambda x: torch.relu(x) - 1, (x,))

    program = program_of(model, X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(x), lambda x: torch.sigmoid(x))
    assert len(result.matches) == 2
    torch.testing.assert_close(run(result, X + 9), torch.sigmoid(X + 9) + 1)
    torch.testing.assert_close(run(result, X - 9), torch.sigmoid(X - 9) - 1)


def test_symbolic_sizes() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = program_of(lambda x: torch.relu(x).reshape(x.shape[0], -1), torch.randn(3, 4, 5), dynamic_shapes=({0: batch},))
    result = fxc.replace_pattern(program, lambda x: torch.relu(x), lambda x: F.gelu(x))
    assert len(result.matches) == 1
    more = torch.randn(7, 4, 5)
    torch.testing.assert_close(run(result, more), F.gelu(more).reshape(7, -1))


def test_example_inputs_where_equal_sizes_do_not_do() -> None:
    table, index = torch.randn(9, 4), torch.tensor([1, 2])

    def pattern(i: Tensor, w: Tensor) -> Tensor:
        return F.embedding(i, w) * 2

    def replacement(i: Tensor, w: Tensor) -> Tensor:
        return (w * 2)[i]

    program = program_of(lambda i, w: pattern(i, w).sum(), index, table)
    result = fxc.replace_pattern(program, pattern, replacement, example_inputs=(torch.tensor([0]), torch.ones(3, 3)))
    assert len(result.matches) == 1
    torch.testing.assert_close(run(result, index, table), pattern(index, table).sum())


def test_random_and_training_operators() -> None:
    program = program_of(lambda x: F.dropout(torch.relu(x), 0.5), X)
    result = fxc.replace_pattern(program, lambda x: F.dropout(torch.relu(x), 0.5), lambda x: torch.relu(F.dropout(x, 0.5)))
    torch.manual_seed(0)
    expected = torch.relu(F.dropout(X, 0.5))
    torch.manual_seed(0)
    torch.testing.assert_close(run(result, X), expected)


def test_constant_tensors_of_the_replacement() -> None:
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    program = program_of(lambda x: torch.relu(x) + 1, X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(x), lambda x: x * scale)
    torch.testing.assert_close(run(result, X), X * scale + 1)
    assert fxc.Program.parse(str(result)).text() == result.text()


def identity(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (identity, identity, "the pattern returns one of its parameters"),
        (lambda x: None, identity, "the pattern returns a NoneType"),
        (lambda x: (), identity, "the pattern returns nothing"),
        (lambda x: x.shape[0], identity, "the pattern returns a int"),
        (lambda x, y: torch.relu(x), lambda x, y: x, "the pattern does not use its parameter"),
        (lambda x: torch.relu_(x), identity, "the pattern writes to a tensor"),
        (lambda x: torch.relu(x), lambda x: x.add_(1), "the replacement writes to a tensor"),
        (lambda x: torch.relu(x), lambda x, y: x, "the pattern takes 1 parameters, but .* takes 2"),
        (lambda x: torch.relu(x), lambda x: (x, x), "the pattern returns 1 values, but the replacement 2"),
        (lambda *x: torch.relu(x[0]), identity, r"takes \*x"),
        (lambda x: torch.relu(x) if x.sum() > 0 else x, identity, "the pattern cannot be traced"),
        (lambda x: torch.relu(x), lambda x: x @ x, "the replacement cannot be traced"),
    ],
)
def test_what_cannot_be_a_pattern(pattern: Any, replacement: Any, message: str) -> None:
    program = program_of(lambda x: torch.relu(x) + 1, X)
    with pytest.raises(CaptureError, match=message):
        fxc.replace_pattern(program, pattern, replacement)


def test_many_matches_in_a_long_program() -> None:
    def model(x: Tensor) -> Tensor:
        for _ in range(100):
            x = torch.relu(x) + 1
        return x

    program = program_of(model, X)
    result = fxc.replace_pattern(program, lambda x: torch.relu(x) + 1, lambda x: torch.clamp_min(x, 0) + 1)
    assert len(result.matches) == 100
    torch.testing.assert_close(run(result, X), model(X))


@pytest.mark.slow
def test_several_results_in_both_forms() -> None:
    """A program has them in one tuple as captured, and apart after lower-simple-tuples."""

    def model(x: Tensor) -> Tensor:
        values, indices = torch.topk(x, 2)
        return values * 2 + indices

    def pattern(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = torch.topk(x, 2)
        return values * 2, indices

    def replacement(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(x, descending=True)
        return values[:, :2] + values[:, :2], indices[:, :2].contiguous()

    program = program_of(model, X)
    for form in (program, fxc.run_passes(program, "lower-simple-tuples")):
        result = fxc.replace_pattern(form, pattern, replacement)
        assert len(result.matches) == 1
        torch.testing.assert_close(run(result, X), model(X))
        assert ("tuple<" in str(result)) == ("tuple<" in str(form))


def test_functions_of_torch_stand_for_themselves() -> None:
    for route in ("export", "symbolic_trace"):
        program = program_of(lambda x: torch.relu(x) + 1, X, route=route)
        result = fxc.replace_pattern(program, torch.relu, F.gelu)
        torch.testing.assert_close(run(result, X), F.gelu(X) + 1)


@pytest.mark.parametrize("limit", [1, 11, 1000])
def test_a_replacement_that_other_sizes_change_is_refused(limit: int) -> None:
    program = program_of(lambda x: torch.exp(x) + 1, torch.randn(16), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CaptureError, match="the replacement is another one at other sizes"):
        fxc.replace_pattern(program, torch.exp, lambda x: x * 2 if x.shape[0] > limit else x * 3)
