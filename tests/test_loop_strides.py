"""Fakes of PyTorch's loops over elements lie in memory as what its kernels make, dimensions of one element as well."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._pytree import tree_leaves, tree_map_only

from fxc.bridge.eager_strides import lay_out_as_eager
from fxc.semantics.inference import quiet

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float64)
COMPOSED = {
    "isfinite",
    "isinf",
    "ldexp",
    "mvlgamma",
    "native_dropout_backward",
    "angle",
    "clip",
    "float_power",
    "hardshrink",
    "softshrink",
}
"""Loops after loops: where they put dimensions of one element is not told."""

PARTS = 4


def loops() -> list[Any]:
    """PyTorch's operators that loop over elements and make a tensor."""
    names = {
        schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")
    }
    packets = [getattr(torch.ops.aten, name, None) for name in sorted(names)]
    found = [getattr(p, name) for p in packets if isinstance(p, torch._ops.OpOverloadPacket) for name in p.overloads()]
    return [
        f for f in found if torch.Tag.pointwise in f.tags and not f._schema.is_mutable and not f._schema.returns[0].alias_info
    ]


def tensor(shape: Sequence[int], dtype: torch.dtype, random: Random) -> Tensor:
    """Its dimensions lie in some order, with gaps; one of one element has any stride."""
    if len(shape) == 4 and random.random() < 0.2:
        strides = list(torch.empty(list(shape)).to(memory_format=torch.channels_last).stride())
    else:
        order = random.sample(range(len(shape)), len(shape))
        memory = torch.empty([shape[i] * random.choice([1, 1, 1, 2]) for i in order])
        strides = list(memory.permute([order.index(i) for i in range(len(shape))]).stride())
    strides = [random.choice([step, step, 1, 7]) if size == 1 else step for size, step in zip(shape, strides, strict=True)]
    count = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    numbers = torch.linspace(0.5, 0.9, count) * (1 if dtype.is_floating_point else 10)
    return numbers.to(dtype).as_strided(list(shape), strides)


def arguments(schema: Any, random: Random) -> tuple[list[Any], dict[str, Any]]:
    sizes = [random.choice([1, 1, 2, 3, 4]) for _ in range(random.choice([2, 3, 4, 4]))]
    dtype, broadcast, mixed = random.choice(DTYPES), random.random() < 0.6, random.random() < 0.2
    args, kwargs = list[Any](), dict[str, Any]()
    for argument in schema.arguments:
        text, value = str(argument.type), None
        if "Tensor" in text:
            there = sizes[random.randint(0, len(sizes)) if broadcast and random.random() < 0.2 else 0 :]
            shape = [1 if broadcast and random.random() < 0.25 else size for size in there]
            kind = random.choice(DTYPES) if mixed else dtype
            value = tensor(shape, torch.bool if argument.name in ("mask", "condition") else kind, random)
        elif not argument.has_default_value() or "number" in text:
            value = {"int": 1, "bool": True, "Optional[str]": "floor"}.get(text, 0.5 if dtype.is_floating_point else 2)
        elif not argument.kwarg_only:
            value = argument.default_value
        if argument.kwarg_only and value is not None:
            kwargs[argument.name] = value
        elif not argument.kwarg_only:
            args.append(value)
    return args, kwargs


def fake_of(f: Any, args: Any, kwargs: Any, symbolic: bool) -> Any:
    """What ``f`` gives for fakes, whose sizes of more than one element are symbols where ``symbolic``."""
    mode = FakeTensorMode(shape_env=ShapeEnv() if symbolic else None)
    lay_out_as_eager(mode)
    count = iter(range(100))

    def fake(x: Tensor) -> Tensor:
        if not symbolic:
            return mode.from_tensor(x)
        sizes = [DimDynamic.DYNAMIC if size > 1 else DimDynamic.STATIC for size in x.shape]
        context = StatelessSymbolicContext(dynamic_sizes=sizes)
        return mode.from_tensor(x, symbolic_context=context, source=ConstantSource(f"x{next(count)}"))

    args, kwargs = tree_map_only(Tensor, fake, (args, kwargs))
    with quiet(), mode, enable_python_dispatcher():
        return f(*args, **kwargs)


def strides(value: Any) -> list[int]:
    """Of the first tensor; a symbol's is what it stands for."""
    first = next(leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))
    return [step if isinstance(step, int) else int(step.node.hint) for step in first.stride()]


@pytest.mark.slow
@pytest.mark.share(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_loops_lie_as_in_eager(part: int) -> None:
    assert check(part, symbolic=False) > 150 // PARTS
    assert check(part, symbolic=True) > 150 // PARTS


def check(part: int, *, symbolic: bool) -> int:
    """Of how many operators of a part of the list fakes lie as in eager."""
    random, seen, wrong = Random(7), set[str](), list[str]()
    for f in loops()[part::PARTS]:
        for _ in range(2 if symbolic else 6):
            args, kwargs = arguments(f._schema, random)
            try:
                expected = f(*args, **kwargs)
                found, given = strides(fake_of(f, args, kwargs, symbolic)), strides(expected)
            except (RuntimeError, TypeError, ValueError):  # it, or its fake, takes no such dtypes
                continue
            shape = next(leaf for leaf in tree_leaves(expected) if isinstance(leaf, Tensor)).shape
            if symbolic or f.overloadpacket.__name__ in COMPOSED:
                found, given = ([s for size, s in zip(shape, each, strict=True) if size > 1] for each in (found, given))
            seen.add(f.overloadpacket.__name__)
            if found != given:
                operands = [(*x.shape, x.stride(), x.dtype) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
                wrong.append(f"{f} of {operands}: {found} for {given}")
    assert not wrong, "\n".join(wrong)
    return len(seen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [torch.ops.aten.mse_loss, torch.ops.aten.smooth_l1_loss])
def test_losses_of_each_element_lie_as_in_eager(loss: Any, dtype: torch.dtype) -> None:
    x = torch.rand(4, 1, 2, dtype=dtype).movedim(0, 2)
    for pair in (
        (torch.rand(4, dtype=dtype).expand_as(x), x),
        (x, x.contiguous()),
        (x, torch.rand(1, 2, 8, dtype=dtype)[..., ::2]),
    ):
        for reduction in (0, 1):  # none, mean
            assert strides(fake_of(loss, (*pair, reduction), {}, False)) == [*loss(*pair, reduction).stride()]
