"""All errors that fxc raises.

    FxcError                 base: message, op, location, hint
    ├── ParseError           malformed text
    ├── VerifyError          IR that breaks a rule of its level
    ├── PipelineError        unknown pass, wrong option, malformed pipeline text
    ├── PassError            a pass failed; names the pass and the reproducer
    ├── CaptureError         a model or graph that cannot be captured or imported
    ├── TargetError          a function that a file may not call, or that does not exist
    ├── WeightsError         missing, damaged or mismatching weights
    ├── PlanFileError        a file that is not a saved plan, is damaged, or of another version
    ├── InputError           run-time inputs that do not fit the compiled signature
        │   └── NoRuleError      an op without a rule in the reference interpreter
        ├── NumericsError        a pass, or the machine code of a kernel, changed results
    ├── DerivativeError      a derivative other than the requested one
    ├── KernelError          a kernel that a backend cannot print, compile or run
    └── BoundsError          an index out of range of the tensor that a kernel reads

    FallbackWarning          operators that could not be compiled to a kernel run as calls of ATen

An error prints as one message: what happened, where (op text, FX node, user source line), and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

TORCH_COMPILE = "torch.compile(model, backend='fxc')"
"""What hints name for models that no capture holds as a whole: it runs the rest in Python."""


class FxcError(Exception):
    """Error with a ``message``, the op (``op``, IR text), its location (``place``) and a fix (``hint``)."""

    def __init__(self, message: str, *, op: str | None = None, place: str | None = None, hint: str | None = None):
        super().__init__(message)
        self.message, self.op, self.place, self.hint = message, op, place, hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.place:
            lines.append(f"  at: {self.place}")
        if self.op:
            lines.append(f"  op: {self.op}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ParseError(FxcError):
    pass


class VerifyError(FxcError):
    pass


class PipelineError(FxcError):
    pass


class PassError(FxcError):
    pass


class CaptureError(FxcError):
    pass


class TargetError(FxcError):
    pass


class WeightsError(FxcError):
    pass


class PlanFileError(FxcError):
    pass


class InputError(FxcError):
    pass


class NoRuleError(InputError):
    pass


class NumericsError(FxcError):
    pass


class DerivativeError(FxcError, RuntimeError):
    """PyTorch raises RuntimeError for functions that it cannot differentiate."""


class KernelError(FxcError):
    pass


class BoundsError(FxcError, IndexError, RuntimeError):
    """PyTorch raises IndexError for some operators, RuntimeError for others."""


class FallbackWarning(UserWarning):
    """Says what runs in another way than was asked, and why; for operators, with source lines and a file that reproduces it."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint that lists the names closest to ``name``, or None where nothing is close."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else None
