"""``fxc.register_pattern``: what matches, what is refused, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxc
from fxc.errors import CaptureError, InputError
from fxc.patterns import registry
from fxc.tools.fxc_opt import run as fxc_opt
from fxc.tools.generate_patterns import generate
from tests.replaced_programs import X, Y, joint_program, names, registry_emptied, silu  # noqa: F401 (a fixture of every test here)

PATTERNS = Path(__file__).parent.parent / "examples" / "patterns"
PASSES = "lower-to-torch,canonicalize,apply-patterns"


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v


def sdpa(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


def applied(model: Callable[..., Any], *args: Tensor, passes: str = PASSES, **more: Any) -> list[str]:
    """The operators of ``model`` after registered patterns are applied; its numbers stay."""
    program = fxc.run_passes(fxc.capture(model, args, **more), passes)
    torch.testing.assert_close(fxc.to_fx(program)(*args), model(*args))
    return names(program)


# where patterns apply


def test_every_flow_applies_it_until_it_is_removed() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.sigmoid(x + 1) * (x + 1)

    pattern = fxc.register_pattern(silu, F.silu, (X,))
    assert applied(model, X, passes="lower-to-torch,canonicalize,cse,apply-patterns") == ["add.Tensor", "silu"]

    def once(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    for target in ("host", None):
        compiled = fxc.compile(once, (X,), options={"target": target})
        assert "aten.silu" in str(compiled.ir), target
        torch.testing.assert_close(compiled(X), once(X))
    trained = fxc.compile(once, (X.clone().requires_grad_(),), training=True, options={"target": None})
    assert "silu" in str(trained.ir)
    pattern.remove()
    pattern.remove()
    assert "silu" not in str(fxc.compile(once, (X,), options={"target": None}).ir)


def test_cached_plans_are_those_of_the_patterns() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.sigmoid(x) * x - 3

    assert "silu" not in str(fxc.compile(model, (X,)).ir)
    with fxc.register_pattern(silu, F.silu, (X,)):
        assert "silu" in str(fxc.compile(model, (X,), options={"target": None}).ir)
    assert "silu" not in str(fxc.compile(model, (X,), options={"target": None}).ir)


@pytest.mark.parametrize("options", ["files={}", "gradients=false files={}"])
def test_cached_plans_are_those_of_the_files(options: str, tmp_path: Path) -> None:
    path = tmp_path / "pattern.mlir"
    lowered = "optimize{reductions=true},lower-kernels,lower-to-plan"
    pipeline = f"lower-to-torch,canonicalize,apply-patterns{{{options.format(path)}}},{lowered}"
    for factor in (2, 3):
        pattern = fxc.register_pattern(silu, lambda x, factor=factor: x * factor, (X,), try_out=False)
        pattern.save(path)
        pattern.remove()
        compiled = fxc.compile(silu, (X,), options={"pipeline": pipeline, "target": "host", "cache_plans": True})
        assert torch.equal(compiled(X), X * factor)


def test_torch_compile_applies_it() -> None:
    calls = list[str]()

    def replace(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        calls.append("traced")
        return sdpa(q, k, v, scale)

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, 0.125)

    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8)
    with fxc.register_pattern(attention, replace, (q, k, k, 0.25), same_strides=False, special_values=False):
        calls.clear()
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend="fxc")(q, k, k), model(q, k, k))
    assert calls and not registry.registered()


@pytest.mark.slow
def test_the_attention_that_inductor_miscompiles() -> None:
    """pytorch#195320: keys that are permuted directly to [B, H, D, S] are another product."""

    def permuted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.permute(0, 2, 3, 1) * 0.25, dim=-1) @ v

    def heads_last(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        q, k, v = (each.permute(0, 2, 1, 3) for each in (q, k, v))
        return torch.softmax(q @ k.permute(0, 1, 3, 2) * scale, dim=-1) @ v

    def sdpa_heads_last(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        return sdpa(q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3), scale)

    q, k, v = (torch.randn(1, 8, 8, 8) for _ in range(3))
    fxc.register_pattern(attention, sdpa, (q, q, q, 0.5), same_strides=False, special_values=False)
    fxc.register_pattern(heads_last, sdpa_heads_last, (q, q, q, 0.5), same_strides=False, special_values=False)
    assert "scaled_dot_product_attention" not in applied(permuted, q, k, v)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(permuted, backend="fxc")(q, k, v), permuted(q, k, v))
    assert "scaled_dot_product_attention" in applied(lambda q, k, v: heads_last(q, k, v, 0.25), q, k, v)


# what matches


def test_numbers_are_parameters() -> None:
    """A number that is computed from a parameter must be that of the match."""

    def search(x: Tensor, p: float) -> Tensor:
        return torch.relu(x) * p + (1 - p)

    fxc.register_pattern(search, lambda x, p: F.threshold(x, 0, 0) * p + (1 - p), (X, 0.5), name="blend")
    assert "threshold" in applied(lambda x: torch.relu(x) * 0.25 + 0.75, X)
    assert "threshold" not in applied(lambda x: torch.relu(x) * 0.25 + 0.5, X)
    assert "threshold" not in applied(lambda x: torch.relu(x) * 1 + 0.0, X)


def test_a_number_matches_its_type() -> None:
    fxc.register_pattern(lambda x, s: torch.relu(x) * s, lambda x, s: F.threshold(x, 0, 0) * s, (X, 2.0), name="scaled")
    assert "threshold" in applied(lambda x: torch.relu(x) * 3.0, X)
    assert "threshold" not in applied(lambda x: torch.relu(x) * 3, X)
    fxc.register_pattern(lambda x, s: torch.relu(x) * s, lambda x, s: F.threshold(x, 0, 0) * s, (X, 2), name="whole")
    assert "threshold" in applied(lambda x: torch.relu(x) * 3, X)


def test_two_numbers_of_one_value() -> None:
    def search(x: Tensor, a: float, b: float) -> Tensor:
        return F.leaky_relu(x, a) * b

    fxc.register_pattern(search, lambda x, a, b: torch.where(x > 0, x, x * a) * b, (X, 0.5, 0.5))
    program = fxc.run_passes(fxc.capture(lambda x: F.leaky_relu(x, 0.125) * 3.0, (X,)), PASSES)
    assert "where" in str(program) and "0.125" in str(program)
    torch.testing.assert_close(fxc.to_fx(program)(X), F.leaky_relu(X, 0.125) * 3.0)


@pytest.mark.parametrize(
    ("search", "inputs", "message"),
    [
        (lambda x, n: x.sum(n) if n else x.mean(0), (X, 0), "has other operations where parameter 1 is 1"),
        (lambda x, p: x * (1 - p), (X, 0.25), "the number 0.25, is no argument of an operation"),
        (lambda x, y: torch.relu(x), (X, X), "does not use its parameter"),
        (lambda x: (torch.rand_like(x), torch.relu(x))[1], (X,), "a random operator that it does not use"),
    ],
)
def test_what_cannot_be_matched(search: Any, inputs: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        fxc.register_pattern(search, search, inputs, try_out=False)


def test_literals_are_equal_in_type() -> None:
    fxc.register_pattern(lambda x: torch.relu(x) + 1, lambda x: F.threshold(x, 0, 0) + 1, (X,), name="one")
    assert "threshold" in applied(lambda x: torch.relu(x) + 1, X)
    assert "threshold" not in applied(lambda x: torch.relu(x) + 1.0, X)
    assert "threshold" not in applied(lambda x: torch.relu(x) + True, X)
    assert "threshold" not in applied(lambda x: torch.relu(x).add(1, alpha=2), X)


def test_sizes_and_dimensions_that_are_literals() -> None:
    """The structure ignores them, and the exact match does not."""
    fxc.register_pattern(lambda x: torch.relu(x).view(2, 6), lambda x: F.threshold(x, 0, 0).view(2, 6), (X,), name="view")
    fxc.register_pattern(lambda x: torch.sin(x).sum(1), lambda x: torch.sin(x).cumsum(1)[:, -1].contiguous(), (X,), name="sum")
    assert "threshold" in applied(lambda x: torch.relu(x).view(2, 6), X)
    assert "threshold" not in applied(lambda x: torch.relu(x).view(6, 2), X)
    assert "threshold" not in applied(lambda x: torch.relu(x).view(2, 6, 1), X)
    assert "cumsum" not in applied(lambda x: torch.sin(x).sum(0), X)
    assert "cumsum" not in applied(lambda x: torch.sin(x).sum(1, keepdim=True), X)


def test_operands_of_sums_and_products_may_be_exchanged() -> None:
    def search(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return torch.relu(x) * y + z

    fxc.register_pattern(search, lambda x, y, z: F.threshold(x, 0, 0) * y + z, (X, Y, Y))
    assert "threshold" in applied(lambda x, y: y + y * torch.relu(x), X, Y)
    assert "threshold" in applied(lambda x, y: torch.relu(x) * y + y, X, Y)
    assert "threshold" in applied(lambda x, y: y * torch.relu(x) + x, X, Y)
    assert "threshold" not in applied(lambda x, y: y - torch.relu(x) * y, X, Y)
    assert "threshold" not in applied(lambda x, y: torch.add(y, torch.relu(x) * y, alpha=2), X, Y)


def test_exclusive_parameters() -> None:
    fxc.register_pattern(
        lambda a, b: torch.relu(a) + b, lambda a, b: F.threshold(a, 0, 0) + b, (X, Y), exclusive=("a", "b"), name="exclusive"
    )
    assert "threshold" in applied(lambda a, b: torch.relu(a) + b, X, Y)
    assert "threshold" not in applied(lambda a: torch.relu(a) + a, X)
    with pytest.raises(InputError, match="no parameter 'c'"):
        fxc.register_pattern(silu, F.silu, (X,), exclusive=("c",))


def test_a_check() -> None:
    seen = list[Any]()

    def check(match: Any) -> bool:
        seen.append(match)
        return match.arguments["x"].shape[0] > 4 and match.arguments["s"] == 2.0

    fxc.register_pattern(lambda x, s: torch.relu(x) * s, lambda x, s: F.threshold(x, 0, 0) * s, (X, 1.0), check=check, name="c")
    assert "threshold" not in applied(lambda x: torch.relu(x) * 2.0, X)
    assert "threshold" in applied(lambda x: torch.relu(x) * 2.0, torch.randn(5, 4))
    assert "threshold" not in applied(lambda x: torch.relu(x) * 3.0, torch.randn(5, 4))
    assert seen[0].arguments["x"].dtype is torch.float32 and "test_register_pattern.py" in str(seen[0].place)


def test_users_and_outputs() -> None:
    fxc.register_pattern(silu, F.silu, (X,))
    assert applied(lambda x: (silu(x), torch.sigmoid(x).sum()), X).count("silu") == 1
    assert "silu" not in applied(lambda x: ((s := torch.sigmoid(x)) * x, s), X)
    fxc.register_pattern(lambda x: ((s := torch.sigmoid(x)), s * x), lambda x: (torch.sigmoid(x), F.silu(x)), (X,), name="both")
    assert "silu" in applied(lambda x: ((s := torch.sigmoid(x)) * x, s), X)


def test_an_operand_between_two_outputs() -> None:
    def search(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.exp(x), torch.sin(y)

    fxc.register_pattern(search, lambda x, y: (torch.exp(x * 1.0), torch.sin(y) * 1.0), (X, Y), try_out=False)

    def between(x: Tensor, y: Tensor) -> Tensor:
        a = torch.exp(x)
        return torch.sin(y + 1) + a

    assert applied(between, X, Y).count("mul.Tensor") == 2
    for one, other in ((torch.exp, torch.sin), (torch.sin, torch.exp)):  # a result is the operand of the other
        assert "mul.Tensor" not in applied(lambda x, one=one, other=other: (a := one(x), other(a)), X)
    registry.remove(registry.registered()[0])
    fxc.register_pattern(search, lambda x, y: (torch.exp(x) * 1.0, torch.sin(y) * 1.0), (X, Y), try_out=False)
    assert "mul.Tensor" not in applied(lambda x: torch.sin(torch.exp(x) + 1), X)


def test_a_sample_is_not_moved_below_another() -> None:
    """The numbers are those of the same seed."""
    fxc.register_pattern(lambda x: torch.rand_like(x).sin(), lambda x: torch.rand_like(x).sin() * 1.0, (X,), name="s")

    def model(x: Tensor, below: bool) -> tuple[Tensor, Tensor]:
        a = torch.rand_like(x)
        return (a.sin(), torch.randn_like(x)) if below else (torch.randn_like(x), a.sin())

    for below in (True, False):
        program = fxc.run_passes(fxc.capture(lambda x, below=below: model(x, below), (X,)), PASSES)
        assert ("mul.Tensor" in str(program)) == below
        results = list[Any]()
        for function in (fxc.to_fx(program), lambda x, below=below: model(x, below)):
            torch.manual_seed(0)
            results.append(function(X))
        torch.testing.assert_close(*results)


def test_symbolic_sizes_of_the_program() -> None:
    fxc.register_pattern(
        lambda x: torch.relu(x).reshape(x.shape[0], -1),
        lambda x: F.threshold(x, 0, 0).flatten(1),
        (torch.randn(2, 3, 4),),
        name="f",
    )
    batch = torch.export.Dim("batch", min=2, max=64)
    model = lambda x: torch.relu(x).reshape(x.shape[0], -1) * x.shape[0]  # noqa: E731
    program = fxc.capture(model, (torch.randn(3, 4, 5),), route="export", dynamic_shapes=({0: batch},))
    found = fxc.run_passes(program, PASSES)
    assert "threshold" in str(found)
    more = torch.randn(7, 4, 5)
    torch.testing.assert_close(fxc.to_fx(found)(more), model(more))


def test_results_keep_dtype_shape_and_strides() -> None:
    fxc.register_pattern(lambda x: torch.relu(x), lambda x: torch.relu(x).to(torch.float32), (X,), name="cast", try_out=False)
    assert applied(torch.relu, X.double()) == ["relu"]
    fxc.register_pattern(torch.exp, lambda x: torch.exp(x.t()).t().contiguous(), (X,), name="turned", try_out=False)
    fxc.register_pattern(torch.sin, lambda x: torch.sin(x.t().contiguous()).t(), (X,), name="strides", try_out=False)
    program = fxc.run_passes(fxc.capture(torch.sin, (X,)), PASSES)
    assert fxc.to_fx(program)(X).stride() == X.stride() and "aten.t." in str(program)


def test_a_result_that_is_returned_shares_no_other_memory() -> None:
    low = float("-inf")
    fxc.register_pattern(lambda x: x.clamp(min=low), lambda x: x, (X,), name="input", same_strides=False)
    assert applied(lambda x: x.clamp(min=low), X) == ["clamp"]
    assert applied(lambda x: torch.relu(x.clamp(min=low)), X) == ["relu"]
    fxc.register_pattern(lambda x: (torch.sin(x), torch.sin(x) + 0), lambda x: (s := torch.sin(x), s), (X,), name="twice")
    assert "add.Tensor" in applied(lambda x: (torch.sin(x), torch.sin(x) + 0), X)
    fxc.register_pattern(lambda x: torch.relu(x).t(), lambda x: F.threshold(x, 0, 0).t(), (X,), name="view")
    assert "threshold" in applied(lambda x: torch.relu(x).t(), X)
    fxc.register_pattern(lambda x: x.t() * 1.0, lambda x: x.t() + 0.0, (X,), name="fresh")
    assert "add.Tensor" in applied(lambda x: x.t() * 1.0, X)


def test_a_number_that_depends_on_data() -> None:
    with pytest.raises(CaptureError, match="does not use its parameter"):
        fxc.register_pattern(
            lambda x, y: torch.relu(x) * y.item(), lambda x, y: F.relu(x) * y, (X, torch.ones(())), try_out=False
        )


def test_strides_that_a_later_value_needs() -> None:
    """A returned view of the result has the strides of before, so the result is copied."""
    fxc.register_pattern(torch.sin, lambda x: torch.sin(x.t().contiguous()).t(), (X,), name="strides", try_out=False)
    program = fxc.run_passes(fxc.capture(lambda x: torch.sin(x).t(), (X,)), PASSES)
    assert str(program).count("aten.t.default") == 3 and fxc.to_fx(program)(X).stride() == (1, 4)
    torch.testing.assert_close(fxc.to_fx(program)(X), torch.sin(X).t())


def test_training_before_autograd_needs_equal_gradients() -> None:
    x = X.clone().requires_grad_()
    with fxc.register_pattern(silu, lambda x: F.silu(x.detach()), (X,), name="detached") as pattern:
        assert not pattern.equation.keeps_gradients and "silu" in applied(silu, X)
        trained = fxc.compile(silu, (x,), training=True, options={"target": None})
        assert torch.equal(torch.autograd.grad(trained(x).sum(), x)[0], torch.autograd.grad(silu(x).sum(), x)[0])
    with fxc.register_pattern(silu, F.silu, (X,)) as pattern:
        assert pattern.equation.keeps_gradients
    with fxc.register_pattern(silu, F.silu, (X,), try_out=False) as pattern:
        assert not pattern.equation.keeps_gradients
    with fxc.register_pattern(silu, F.silu, (X,), try_out=False, same_gradients=True) as pattern:
        assert pattern.equation.keeps_gradients


# writes


def batch_norm(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, var, w, b, training=True))


NORM = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3), torch.ones(3), torch.zeros(3)


def test_batch_norm_that_updates_statistics() -> None:
    """The replacement updates them too, so they are outputs of both."""

    def replace(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.threshold(F.batch_norm(x, mean, var, w, b, training=True), 0, 0)

    fxc.register_pattern(batch_norm, replace, NORM)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()).train()
    twin = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()).train()
    program = fxc.run_passes(fxc.capture(model, (NORM[0],)), PASSES)
    assert "threshold" in str(program)
    torch.testing.assert_close(fxc.to_fx(program)(NORM[0]), twin(NORM[0]))
    for name, value in twin.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], value)


def test_new_statistics_that_are_used_are_not_dropped() -> None:
    def replace(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.threshold(F.batch_norm(x, None, None, w, b, training=True), 0, 0) + 0 * (mean + var).sum()

    fxc.register_pattern(batch_norm, replace, NORM, try_out=False)
    used = fxc.run_passes(fxc.capture(nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()).train(), (NORM[0],)), PASSES)
    assert "threshold" not in str(used)

    def local(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return batch_norm(x, torch.zeros(3), torch.ones(3), w, b)

    unused = fxc.run_passes(fxc.capture(local, (NORM[0], *NORM[3:])), PASSES + ",dce")
    assert "threshold" in str(unused)
    torch.testing.assert_close(fxc.to_fx(unused)(NORM[0], *NORM[3:]), local(NORM[0], *NORM[3:]))


def test_a_replacement_may_not_write_more() -> None:
    with pytest.raises(CaptureError, match="the replacement writes to a tensor"):
        fxc.register_pattern(lambda x: torch.relu(x), lambda x: torch.relu_(x), (X,), try_out=False)


def test_trace_pattern_drops_unused_write_backs() -> None:
    found = fxc.trace_pattern(batch_norm, NORM)
    assert names(found)[-1] == "relu" and "copy_" not in str(found) and "fx.mutates" not in str(found)

    def counts(x: Tensor, seen: Tensor) -> Tensor:
        torch.exp(x)
        seen.copy_(seen + 1)
        return x * seen

    traced = fxc.trace_pattern(counts, (X, torch.ones(4)))
    assert "exp" not in names(traced) and "copy_" not in str(traced)
    torch.testing.assert_close(fxc.Interpreter(traced).run(X, torch.ones(4)), X * 2)

    def unused(x: Tensor, seen: Tensor) -> Tensor:
        seen.add_(1)
        return torch.relu(x)

    assert names(fxc.trace_pattern(unused, (X, torch.zeros(())))) == ["relu"]
    assert names(fxc.trace_pattern(lambda x: F.dropout(x, 0.5), (X,)))[0] == "dropout"
    moved = fxc.trace_pattern(silu, (X,), device="cuda")
    assert str(moved).count('device = "cuda') >= 2
    assert "!torch.float" in str(fxc.trace_pattern(lambda x, s: x * s, (X, 2.0)))


# registration


def test_registered_twice() -> None:
    fxc.register_pattern(silu, F.silu, (X,))
    with pytest.raises(InputError, match="the registered pattern silu has this name"):
        fxc.register_pattern(silu, torch.sigmoid, (X,), try_out=False)
    with pytest.raises(InputError, match="the registered pattern silu is equal"):
        fxc.register_pattern(silu, F.silu, (X,), name="other")
    with pytest.raises(InputError, match="takes 1 parameters, but there are 2 example inputs"):
        fxc.register_pattern(silu, F.silu, (X, X))


@pytest.mark.slow
def test_without_examples() -> None:
    fxc.register_pattern(silu, F.silu)
    for shape in ((3,), (2, 3), (2, 3, 4), ()):
        assert applied(lambda x: x * torch.sigmoid(x), torch.randn(shape)) == ["silu"]


# files


@pytest.mark.slow
def test_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    for path in generate(PATTERNS / "patterns.py", tmp_path):
        assert path.read_text() == (PATTERNS / path.name).read_text(), path.name


@pytest.mark.slow
def test_a_saved_pattern_is_applied_from_its_file(tmp_path: Path) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    fxc.register_pattern(silu, F.silu, (x,), training=True).save(tmp_path / "joint.mlir")
    registry.remove(registry.registered()[0])
    joint = joint_program(lambda x: silu(x + 1), x)
    code, out, err = fxc_opt(
        ["-", "-p", f"lower-to-torch,canonicalize,apply-patterns{{files={tmp_path}/joint.mlir}}"], str(joint)
    )
    assert code == 0 and "silu_backward" in out, err
    with pytest.raises(CaptureError, match="has a check"):
        fxc.register_pattern(silu, F.silu, (X,), check=lambda match: True).save(tmp_path / "check.mlir")
    derived = fxc.register_pattern(
        lambda x, p: torch.relu(x) * p, lambda x, p: torch.relu(x * 1) * (p + 0.0) * 1.0 + (p - p), (X, 0.5), name="d"
    )
    derived.save(tmp_path / "fine.mlir")
    other = fxc.register_pattern(lambda x, p: torch.sin(x) * p, lambda x, p: torch.sin(x) / (1 / p), (X, 0.5), name="e")
    with pytest.raises(CaptureError, match=r"computes 2\.0 from parameter 1"):
        other.save(tmp_path / "derived.mlir")
    with pytest.raises(InputError, match="cannot write"):
        derived.save(tmp_path / "nowhere" / "x.mlir")
