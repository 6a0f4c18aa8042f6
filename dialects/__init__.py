"""The dialects of fxc. Importing this imports no dialect, and never torch."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Dialect


def all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Dialect name -> function that imports and returns it."""

    def fx() -> Dialect:
        from fxc.dialects.fx import Fx

        return Fx

    def torch() -> Dialect:
        from fxc.dialects.torch_ops import Torch

        return Torch

    def autodiff() -> Dialect:
        from fxc.dialects.autodiff import Autodiff

        return Autodiff

    def fusion() -> Dialect:
        from fxc.dialects.fusion import Fusion

        return Fusion

    def tile() -> Dialect:
        from fxc.dialects.tile import Tile

        return Tile

    def target() -> Dialect:
        from fxc.dialects.target import Target

        return Target

    def plan() -> Dialect:
        from fxc.dialects.plan import Plan

        return Plan

    return {"fx": fx, "torch": torch, "autodiff": autodiff, "fusion": fusion, "tile": tile, "plan": plan, "target": target}
