"""Classification of errors: which ones mean that PyTorch's operators reject their arguments, as they do at run time."""

from __future__ import annotations

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

_REFUSALS = (RuntimeError, ValueError, IndexError, AssertionError, ZeroDivisionError)
"""The errors that operators and their fakes raise for arguments that do not fit."""

_UNTOLD = (
    DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException,
    NotImplementedError, RecursionError,
)  # fmt: skip


def root_of(error: BaseException) -> BaseException:
    """Return the original cause of ``error``."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def is_refusal(error: BaseException) -> bool:
    """Whether an operator, or the user's code, rejects its arguments with ``error``."""
    is_fault = _raised_in(error, "fxc") and type(error) is not RuntimeError  # C++ raises RuntimeError in any caller
    return isinstance(error, _REFUSALS) and not is_untold(error) and not is_fault


def is_untold(error: BaseException) -> bool:
    """Whether fake tensors raise ``error`` although the call may run on real tensors."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, (*_UNTOLD, GuardOnDataDependentSymNode))


def is_of_torch(error: BaseException) -> bool:
    """Whether PyTorch raised ``error``."""
    return type(error) is RuntimeError or _raised_in(error, "torch", "sympy")


def _raised_in(error: BaseException, *packages: str) -> bool:
    trace, module = error.__traceback__, ""
    while trace is not None:
        module, trace = trace.tb_frame.f_globals.get("__name__", ""), trace.tb_next
    return module.split(".")[0] in packages
