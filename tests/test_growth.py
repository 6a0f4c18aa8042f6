"""What is compiled grows with a program, and no faster: as many operations a step for many steps as for few."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import fxc
from fxc.dialects.fusion import GroupOp
from fxc.passes.fusion.fuse.cost import MOST_OPERATIONS
from fxc.passes.fusion.outline_repeated.outline_repeated import MANY
from fxc.passes.operators.table import operator_of

Tensor = torch.Tensor
FUSED = "lower-to-torch,canonicalize,outline-repeated{shortest=8 least=4},optimize{reductions=true}"
STEPS = 24
LONG = MANY + 4


def _fused(function: Callable[..., object], *arguments: Tensor) -> fxc.Program:
    return fxc.run_passes(fxc.capture(function, arguments), FUSED)


def _groups(program: fxc.Program) -> list[GroupOp]:
    return [op for op in program.module.walk() if isinstance(op, GroupOp)]


def _loop(piece: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Steps that each read another piece of a tensor, and what the one before made, in sums."""

    def function(x: Tensor, noise: Tensor) -> Tensor:
        out = []
        for t in range(LONG):
            n = piece(noise, t)
            x = x - 0.1 * n * (x * n).sum(1, keepdim=True)
            out.append((x * x).sum(1))
        return torch.stack(out)

    return function


PIECES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "select": lambda noise, t: noise[t],
    "slice": lambda noise, t: noise[t : t + 1].squeeze(0),
    "slices that overlap": lambda noise, t: noise[t : t + 2].select(0, 0),
    "narrow": lambda noise, t: noise.narrow(0, t, 1).squeeze(0),
    "select behind a view": lambda noise, t: noise.transpose(0, 1)[:, t],
    "select of what is computed": lambda noise, t: noise[t],
}


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", PIECES)
def test_steps_that_read_another_piece_are_one_function(name: str) -> None:
    noise = torch.randn(LONG + 1, 4, 8)
    whole = _fused(lambda x, noise: _loop(lambda parts, t: parts[t])(x, noise.unbind()), torch.randn(4, 8), noise)
    loop = _loop(PIECES[name])
    parts = _fused((lambda x, noise: loop(x, noise.cumsum(0))) if "computed" in name else loop, torch.randn(4, 8), noise)
    assert len(_groups(parts)) <= len(_groups(whole)) < LONG


def _turned(x: Tensor) -> Tensor:
    return torch.cat([x[:, 1:], x[:, :1] * 2], 1)


NESTED: dict[str, Callable[[Tensor], Tensor]] = {
    "parts of the result before": _turned,
    "what it is and what is beside it": lambda x: torch.cat([x[:, 1:] + x[:, :-1], x[:, :1]], 1),
    "padded": lambda x: F.pad(x, (1, 0))[:, :-1] * 1.5 + x,
    "pooled": lambda x: F.max_pool2d(x[None], 3, 1, 1)[0] * 1.5,
}


def _repeated(step: Callable[[Tensor], Tensor], steps: int, *, returned: bool) -> Callable[[Tensor], list[Tensor]]:
    def function(x: Tensor) -> list[Tensor]:
        out = []
        for _ in range(steps):
            x = step(x)
            out.append(x)
        return out if returned else out[-1:]

    return function


@pytest.mark.parametrize("returned", [False, True], ids=["the last", "all"])
@pytest.mark.parametrize("name", NESTED)
def test_an_element_at_many_places_is_stored(name: str, returned: bool) -> None:
    """The operations of a step that reads the one before at several places, whether others read it too or not."""
    x, found = torch.rand(1, 4, 8) if name == "pooled" else torch.rand(4, 8), list[int]()
    for steps in (STEPS, 2 * STEPS):
        program = fxc.run_passes(_fused(_repeated(NESTED[name], steps, returned=returned), x), "convert-fusion-to-linalg")
        found.append(sum(1 for _ in program.module.walk()))
    small, large = found
    assert large < 2.3 * small


def test_nested_concatenations() -> None:
    x, function = torch.randn(4, 8), _repeated(_turned, STEPS, returned=False)
    torch.testing.assert_close(fxc.compile(function, (x,))(x), function(x), rtol=0, atol=0)


def _lengths(steps: int) -> list[int]:
    program = _fused(_repeated(lambda x: F.gelu(x), steps, returned=False), torch.randn(64, 64))
    return [sum(operator_of(op).cost for op in group.body.block.ops if op.operands) for group in _groups(program)]


def test_long_chains_are_several_kernels() -> None:
    assert len(_lengths(60)) == 1
    lengths = _lengths(400)
    assert len(lengths) < 8 and all(length <= MOST_OPERATIONS + 1 for length in lengths)


@pytest.mark.slow
def test_pieces_of_what_is_written_stay() -> None:
    """A view of a tensor that is written later is read where it was."""

    def function(x: Tensor, noise: Tensor) -> Tensor:
        for t in range(LONG):
            n = noise[t]
            x = x - 0.1 * n * (x * n).sum(1, keepdim=True)
            if t == LONG // 2:
                noise.mul_(2)
        return x

    x, noise = torch.randn(4, 8), torch.rand(LONG, 4, 8)
    expected, given = function(x, kept := noise.clone()), noise.clone()
    torch.testing.assert_close(fxc.compile(function, (x, noise.clone()))(x, given), expected)
    torch.testing.assert_close(given, kept)
