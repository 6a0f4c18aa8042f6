"""The effects that the ops of the ``plan`` dialect have in common."""

from __future__ import annotations

from xdsl.ir import SSAValue

from fxc.dialects.base.effects import EffectsInterface


class PlanEffects(EffectsInterface):
    """An op that says itself what it writes and releases, and keeps nothing."""

    def writes(self) -> list[SSAValue]:
        return []

    def may_keep(self) -> bool:
        return False


class MemoryEffects(PlanEffects):
    """An op that makes or fills memory: two equal ones are two, but none is needed where nothing reads that memory."""

    def has_side_effect(self) -> bool:
        return False

    def is_pure(self) -> bool:
        return False
