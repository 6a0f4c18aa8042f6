"""Elementary functions in kernels: which code computes each on each type.

float32, scalars and vectors, has code of its own, as a helper function that LLVM inlines. float64 calls the C library for each
lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fxc.codegen.cpu import double_math, float_math, special_math
from fxc.codegen.cpu.builder import Builder, constant
from fxc.codegen.cpu.double_math import in_double
from fxc.codegen.cpu.special_math import per_lane
from fxc.codegen.cpu.types import I1, Value

Function = Callable[..., Value]


def _with_library_beyond(limit: float, name: str, function: Function) -> Function:
    """``function``, but where some finite lane is ``limit`` or more in size the C library computes all of them."""

    def guarded(b: Builder, x: Value) -> Value:
        size = b.intrinsic("llvm.fabs", x)
        large = b.compare("oge", size, constant(x.type, limit))
        if large.type.lanes is not None:
            large = b.call(f"llvm.vector.reduce.or.{large.type.suffix}", I1, large)
        b.branch_if(large, "library", "series")
        b.label("library")
        exact = per_lane(b, name, x)
        b.branch("done")
        b.label("series")
        fast = function(b, x)
        b.branch("done")
        b.label("done")
        return b.phi(x.type, (exact, "library"), (fast, "series"))

    return guarded


FLOAT_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "exp": float_math.exp,
        "exp2": float_math.exp2,
        "erf": float_math.erf,
        "tanh": float_math.tanh,
        "log": float_math.log_,
        "rsqrt": float_math.rsqrt,
        "sin": _with_library_beyond(2.0**20, "sin", in_double(double_math.sin)),
        "cos": _with_library_beyond(2.0**20, "cos", in_double(double_math.cos)),
        "tan": _with_library_beyond(2.0**20, "tan", in_double(double_math.tan_)),
        "pow": in_double(double_math.powf),
        **{
            name: in_double(getattr(double_math, name))
            for name in "expm1 log1p log2 log10 sinh cosh asin acos atan asinh acosh atanh atan2 cbrt hypot".split()
        },
    }
)
"""On float32: name in the C library -> what makes its instructions. Others call the C library for each lane."""

DOUBLE_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {"rsqrt": float_math.rsqrt, "erfinv": special_math.erfinv, "digamma": special_math.digamma}
)
"""On float64, what the C library lacks; float32 is computed in it."""


def call_math(b: Builder, name: str, *arguments: Value) -> Value:
    """``name`` of the C library on float32 or float64, lane by lane."""
    type = arguments[0].type
    table = DOUBLE_FUNCTIONS if type.element == "double" or name not in FLOAT_FUNCTIONS else FLOAT_FUNCTIONS
    if name not in table:
        return per_lane(b, name, *arguments)
    function = table[name]
    if table is DOUBLE_FUNCTIONS and type.element == "float":
        function = in_double(function)
    helper = f"fxc.{name}.{type.suffix}"
    b.module.helper(helper, type, [x.type for x in arguments], function)
    return b.call_helper(helper, type, *arguments)
