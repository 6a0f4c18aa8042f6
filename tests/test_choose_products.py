"""Products by oneDNN: the same numbers as eager's, wherever the pass is made to take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import linear

import fxc
from fxc.measure import program_times

ALWAYS = "choose-products{gain=1.0e30 least=1}"
NAN, INFINITY = float("nan"), float("inf")


def by_onednn(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> fxc.Program | None:
    """The function with oneDNN's product; None where it is not taken."""
    program = fxc.run_passes(fxc.capture(function, inputs), f"lower-to-torch,canonicalize,decompose-ops,{ALWAYS}")
    return program if any(op.name == "torch.mkldnn._linear_pointwise.default" for op in program.module.walk()) else None


FORMS: dict[str, Callable[..., torch.Tensor]] = {
    "mm": lambda x, w, b: torch.mm(x, w.t()),
    "addmm": lambda x, w, b: torch.addmm(b, x, w.t()),
    "linear": lambda x, w, b: linear(x, w, b),
    "of columns": lambda x, w, b: torch.addmm(b, x.t().contiguous().t(), w.t().contiguous()),
    "of a broadcast row": lambda x, w, b: torch.mm(x[:1].expand(x.shape), w[:1].expand(w.shape).t()),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (1, 64, 33), (65, 1, 2)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_results_are_those_of_eager(form: str, sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows, columns, inner = sizes
    inputs = torch.randn(rows, inner), torch.randn(columns, inner), torch.randn(columns)
    inputs = tuple(tensor.to(dtype) for tensor in inputs)
    program = by_onednn(FORMS[form], *inputs)
    assert program is not None or (dtype is torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if program is None:
        return
    run = fxc.to_fx(program)
    torch.testing.assert_close(run(*inputs), FORMS[form](*inputs))


def test_where_onednn_refuses_the_product_is_pytorchs() -> None:
    """A row of 7 elements is no multiple of a step of 2: oneDNN cannot say how such a matrix lies."""
    assert by_onednn(lambda x, w: torch.mm(x, w[:, ::2].t()), torch.randn(3, 4), torch.randn(5, 7)) is None


def test_what_is_not_a_number_and_what_is_infinite_stay() -> None:
    x, w = torch.tensor([[NAN, 1.0], [INFINITY, 1.0], [-0.0, 0.0]]), torch.tensor([[1.0, -1.0], [0.0, 2.0], [-0.0, -0.0]])
    b = torch.zeros(3)
    program = by_onednn(FORMS["addmm"], x, w, b)
    assert program is not None
    run = fxc.to_fx(program)
    torch.testing.assert_close(run(x, w, b), FORMS["addmm"](x, w, b), equal_nan=True)


def test_where_onednn_is_switched_off_it_is_not_taken() -> None:
    inputs = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)
    with torch.backends.mkldnn.flags(enabled=False):
        assert by_onednn(FORMS["linear"], *inputs) is None
    assert by_onednn(FORMS["linear"], *inputs) is not None


def test_trials_compute_under_torch_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PyTorch compiles under a mode in which operators give tensors without elements, in no time."""
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    seen, least = list[type](), program_times._least

    def spy(runs: Sequence[Callable[[], Any] | None]) -> list[float]:
        seen.extend(type(run()) for run in runs if run is not None)
        return least(runs)

    monkeypatch.setattr(program_times, "_least", spy)
    x = torch.randn(128, 128)
    torch._dynamo.reset()
    torch.compile(torch.mm, backend="fxc")(x, x)
    assert seen == [torch.Tensor, torch.Tensor]
