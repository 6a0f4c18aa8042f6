"""What operators of PyTorch return shares memory with what they were given only where ``effects`` says so.

Kernels write over what an operator returned once nothing else reads it (``write-in-place``): a view that is not told would have
them write over somebody's input.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fxc.dialects.torch_ops.effects import FRESH_COMPOSITES, UNDECLARED_VIEWS
from tests.opinfo_samples import sample_inputs

SAMPLES = 40
"""Of an operator and a type."""


def storages(values: object) -> Counter[int]:
    """How often the memory of each tensor of ``values`` that has elements is there."""
    tensors = (each for each in tree_leaves(values) if isinstance(each, torch.Tensor))
    return Counter(each.untyped_storage().data_ptr() for each in tensors if each.layout is torch.strided and each.numel())


class SharedMemory(TorchDispatchMode):
    """Notes the operators whose results have memory of operands, or of each other, though their schemas say no such thing."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = storages((args, kwargs))
        result = func(*args, **(kwargs or {}))
        self.calls += 1
        if not any(each.alias_info for each in func._schema.returns):
            made = storages(result)
            if made.keys() & given.keys() or any(count > 1 for count in made.values()):
                self.operators.add(str(func))
        return result


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_no_operator_returns_a_view_that_is_not_told(dtype: torch.dtype) -> None:
    seen, composites = SharedMemory(), set[str]()
    fresh = {name.split(".")[0] for name in FRESH_COMPOSITES}
    for info in op_db:
        if dtype not in info.supported_dtypes("cpu") or info.name.startswith("jiterator"):  # which is for GPUs
            continue
        learns = dtype.is_floating_point and info.supports_autograd
        for sample in itertools.islice(sample_inputs(info, dtype, requires_grad=learns), SAMPLES):
            given = (sample.input, sample.args, sample.kwargs)
            with seen, suppress(RuntimeError):  # what PyTorch does not compute itself
                made = info.op(sample.input, *sample.args, **sample.kwargs)
                if info.aten_name in fresh and storages(made).keys() & storages(given).keys():
                    composites.add(info.aten_name)
                outputs = [each for each in tree_leaves(made) if isinstance(each, torch.Tensor) and each.requires_grad]
                torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
    assert seen.calls > 1000
    assert seen.operators <= UNDECLARED_VIEWS.keys()
    assert not composites
