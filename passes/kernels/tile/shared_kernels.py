"""Kernels of a group as copies of those of another one that has the same outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.passes.kernels.kernel_keys import Copier, Outline


@dataclass(frozen=True)
class Launched:
    """What was made of a group with ``outline``: ``kernels``, one for each of ``launches``, and what gives its results.

    A tensor is ``(launch, result)``; ``(-1, place)`` is one of those that the group reads.
    """

    outline: Outline
    kernels: Sequence[KernelOp]
    read: Sequence[Sequence[tuple[int, int]]]
    types: Sequence[Sequence[Attribute]]
    given: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, outline: Outline, pairs: Sequence[tuple[KernelOp, LaunchOp]], given: Sequence[SSAValue]) -> Launched:
        places = {value: (-1, place) for place, value in enumerate(outline.tensors)}
        for number, (_, launch) in enumerate(pairs):
            places |= {result: (number, place) for place, result in enumerate(launch.results)}
        read = [[places[value] for value in launch.operands] for _, launch in pairs]
        types = [launch.result_types for _, launch in pairs]
        return cls(outline, [kernel for kernel, _ in pairs], read, types, [places[value] for value in given])

    def copy(self, outline: Outline, names: Iterator[str]) -> tuple[list[tuple[KernelOp, LaunchOp]], list[SSAValue]]:
        """Kernels and launches for a group with ``outline``, whose key is the same, and the tensors that it gives."""
        pairs, made = list[tuple[KernelOp, LaunchOp]](), {(-1, place): value for place, value in enumerate(outline.tensors)}
        for number, (kernel, read, types) in enumerate(zip(self.kernels, self.read, self.types, strict=True)):
            copy = Copier(self.outline, outline).op(kernel)
            assert isinstance(copy, KernelOp)
            copy.properties["sym_name"] = StringAttr(next(names))
            launch = LaunchOp.of(copy.sym_name.data, [made[place] for place in read], types)
            made |= {(number, place): result for place, result in enumerate(launch.results)}
            pairs.append((copy, launch))
        return pairs, [made[place] for place in self.given]
