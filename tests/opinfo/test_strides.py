"""Strides of fake tensors are those of the kernels, for operands laid out in many ways.

Those of dimensions of one element, which lead to no element, are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fxc.bridge.static_world import StaticFakeMode
from fxc.bridge.tensors import FakeWorld
from fxc.semantics.inference import quiet
from tests.opinfo_samples import sample_inputs

SAMPLES = 6
GROUPS, PARTS = 32, 8
OPERATORS = sorted({info.name: info for info in op_db if torch.float32 in info.dtypes}.items())
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "reversed": lambda t: t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim()))),
    "with gaps": lambda t: torch.stack([t, t], -1)[..., 0],
    "channels_last": lambda t: _channels_last(t),
    "expanded": lambda t: t[:1].expand(t.shape) if t.dim() else t,
    "channels_last images": lambda t: _channels_last(t.expand(2, 3, *t.shape) if t.dim() == 2 else t),
    "channels_last images of one channel": lambda t: _channels_last(t.expand(2, 1, *t.shape) if t.dim() == 2 else t),
}


def _channels_last(t: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


class Compared(TorchDispatchMode):
    """Runs operators, and asks fakes of the same operands too. ``wrong``: where they gave other strides."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.wrong = set[Any](), list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        question = func, str([_facts(leaf) for leaf in tree_leaves((args, kwargs))])
        if func.namespace != "aten" or func._schema.is_mutable or question in self.asked:
            return func(*args, **kwargs)
        self.asked.add(question)
        answers = list(self.fakes(func, args, kwargs))
        result = func(*args, **kwargs)
        for answer in answers:
            for fake, real in zip(tree_leaves(answer), tree_leaves(result), strict=True):
                if isinstance(real, Tensor) and real.layout is torch.strided and not _alike(fake, real):
                    self.wrong.append(f"{question}: {fake.stride()}, not {real.stride()}")
        return result

    def fakes(self, func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        """What a world of known sizes gives, and one that takes any; nothing of what has no fakes."""
        plain, world = StaticFakeMode(), FakeWorld().mode

        def other(t: Tensor) -> Tensor:
            with world:
                return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)

        makers: list[tuple[Any, Callable[[Tensor], Tensor]]] = [
            (plain, lambda t: plain.made(t.shape, t.stride(), t.dtype)),
            (world, other),
        ]
        for mode, make in makers:
            try:
                given = tree_map_only(Tensor, make, (args, kwargs))
                with quiet(), mode:
                    yield func(*given[0], **given[1])
            except Exception:  # types are not told then
                continue


def _facts(leaf: Any) -> Any:
    strided = isinstance(leaf, Tensor) and leaf.layout is torch.strided
    return (tuple(leaf.shape), leaf.stride(), leaf.dtype) if strided else leaf


def _alike(fake: Tensor, real: Tensor) -> bool:
    if fake.shape != real.shape or real.numel() == 0:
        return fake.dim() == real.dim()
    return all(size == 1 or a == b for size, a, b in zip(real.shape, fake.stride(), real.stride(), strict=True))


def compare(info: Any, samples: int) -> Compared:
    """The operators that some samples call, each with all tensors laid out alike, the first one, or the others."""
    compared = Compared()
    for i, sample in enumerate(sample_inputs(info, torch.float32)):
        if i == samples:
            break
        for layout in LAYOUTS.values():
            for which in (lambda _: True, lambda j: j == 0, lambda j: j != 0):
                places = iter(range(1000))

                def laid_out(t: Tensor) -> Tensor:
                    is_moved = which(next(places)) and t.layout is torch.strided  # noqa: B023
                    return layout(t.detach()) if is_moved else t.detach()  # noqa: B023

                try:
                    given = tree_map_only(Tensor, laid_out, (sample.input, sample.args, sample.kwargs))
                    with torch.no_grad(), compared:
                        info.op(given[0], *given[1], **given[2])
                except Exception:  # a layout or a size that the operator does not take
                    continue
    return compared


@pytest.mark.slow
@pytest.mark.share(GROUPS)
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_strides_of_fakes_are_those_of_kernels(group: int) -> None:
    names = OPERATORS[group::GROUPS]
    found = {name: compare(info, SAMPLES) for name, info in names if "jiterator" not in name}
    assert sum(len(each.asked) for each in found.values()) > 400
    assert not [text for each in found.values() for text in each.wrong]


def pointwise() -> Iterator[Any]:
    """Those that take tensors and numbers; the samples call few of the overloads."""
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if space != "aten" or not hasattr(torch.ops.aten, base):
            continue
        operator = getattr(getattr(torch.ops.aten, base), overload or "default", None)
        schema = getattr(operator, "_schema", None)
        if schema is None or schema.is_mutable or torch.Tag.pointwise not in operator.tags:
            continue
        needed = [str(a.real_type) for a in schema.arguments if not a.has_default_value()]
        if "Tensor" in needed and len(needed) < 4 and set(needed) <= {"Tensor", "number", "float"}:
            yield operator


@pytest.mark.slow
@pytest.mark.share(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_strides_of_fakes_of_pointwise_operators(part: int) -> None:
    compared, images = Compared(), torch.rand(2, 3, 4, 5) / 2
    for operator in islice(pointwise(), part, None, PARTS):
        needed = [str(a.real_type) for a in operator._schema.arguments if not a.has_default_value()]
        for layout in LAYOUTS.values():
            for other in (images, layout(images), images[0], images[0, 0, 0, 0], layout(images)[:, :1]):
                tensors = iter([layout(images), other, images])
                given = [next(tensors) if kind == "Tensor" else 0.5 for kind in needed]
                for args in (given, [given[1], given[0], *given[2:]] if needed[:2] == ["Tensor", "Tensor"] else given):
                    try:
                        with torch.no_grad(), compared:
                            operator(*args)
                    except Exception:  # numbers, sizes or a layout that the operator does not take
                        continue
    assert len(compared.asked) > 3000 / PARTS
    assert not compared.wrong
