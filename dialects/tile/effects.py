"""The effects that the ops of the ``tile`` dialect have in common."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from fxc.dialects.base.effects import EffectsInterface


class TileEffects(EffectsInterface):
    """An op of a kernel, whose results are blocks and numbers, or a launch, which allocates: none shares memory or keeps it."""

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        return iter(())

    def may_keep(self) -> bool:
        return False


class PointerRead(TileEffects):
    """An op that does nothing but read, through a pointer."""

    def has_side_effect(self) -> bool:
        return False

    def reads_memory(self) -> bool:
        return True


class PointerWrite(TileEffects):
    """An op that writes through the pointer that is its second operand."""

    def writes(self) -> list[SSAValue]:
        return [self.operands[1]]
