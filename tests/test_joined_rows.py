"""Small kernels that hold rows in one launch: each still has one loop along its row."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fxc

MATRIX = torch.rand(6, 5)
IMAGES, SQUARE = (torch.rand(2, 3, size, 6).contiguous(memory_format=torch.channels_last) for size in (4, 6))

CASES: dict[str, tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]] = {
    "columns and channels": (
        lambda a, b, x: (a / b, x * 2, a - a.sum(0), x.sum(1)),
        (MATRIX.mT, torch.rand(5, 6), IMAGES),
    ),
    "as many rows": (lambda a, x: (a - a.sum(1, keepdim=True), x.softmax(1)), (MATRIX, torch.rand(6, 7))),
    "other rows": (lambda a, x: (a.softmax(1), x.softmax(1)), (MATRIX, torch.rand(3, 16))),
    "channels": (lambda a, x: (a.softmax(1), x * 2, x.sum(1)), (MATRIX, IMAGES)),
    "two dimensions": (lambda a, x: (a.softmax(1), x * 2, x.sum((1, 2))), (MATRIX, IMAGES)),
    "variance": (lambda a, x: (a.var(1), x.sum(1), x.exp()), (MATRIX, SQUARE)),
    "turned": (lambda a, x: (a.mT.softmax(0), x.mean(1), x.exp()), (MATRIX, SQUARE)),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_of_several_groups(name: str) -> None:
    f, arguments = CASES[name]
    torch.testing.assert_close(fxc.compile(f, arguments)(*arguments), f(*arguments), check_stride=True)
