"""All errors that fxc raises. The docstring of each states its cause and its fix.

An error prints as one message: what happened, where (op text, FX node, user source line), and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

TORCH_COMPILE = "torch.compile(model, backend='fxc')"
"""What hints name for models that no capture holds as a whole: it runs the rest in Python."""

WRITE_ELSEWHERE = "give a path in a folder that exists and that you may write to"
"""The hint where a file cannot be written."""

OTHER_VERSION = "use the version of PyTorch that the text was written with, or correct the text"
"""The hint where text names what the running PyTorch lacks."""


class FxcError(Exception):
    """Error with a ``message``, the op (``op``, IR text), its location (``place``) and a fix (``hint``)."""

    HINT: ClassVar[str | None] = None
    """The hint of errors of this class that have no other."""

    def __init__(self, message: str, *, op: str | None = None, place: str | None = None, hint: str | None = None):
        super().__init__(message)
        self.message, self.op, self.place, self.hint = message, op, place, hint or self.HINT

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
    """Text that is not IR.

    Cause  malformed text, an operation or attribute that no dialect has, or an operator that the text does not
           declare.
    Fix    correct the line and column that the message names; ``fxc ops NAME`` shows how an operation is written.
    """


class VerifyError(FxcError):
    """IR that breaks a rule of its level.

    Cause  text that was edited by hand, or a custom pass that leaves invalid IR behind.
    Fix    correct the operation that the message shows; after a pass, ``fxc-opt --print-ir-before=PASS`` shows its
           input.
    """


class PipelineError(FxcError):
    """A pipeline, option or target that does not exist or does not fit.

    Cause  a misspelled name, a value of the wrong type, or options that exclude each other.
    Fix    the hint lists the nearest names; ``fxc passes`` and ``fxc passes NAME`` list all of them.
    """


class PassError(FxcError):
    """A pass that failed.

    Cause  a defect in a custom pass or in fxc, or IR outside of what the pass assumes.
    Fix    replay the failure with the reproducer that the message names: ``fxc-opt --run-reproducer FILE``.
    """

    HINT = "fxc-opt --crash-reproducer=FILE writes a file that replays the failure"


class CaptureError(FxcError):
    """A model or graph that cannot be captured or imported.

    Cause  Python control flow that depends on values of tensors, state that changes between calls, or an
           unsupported node.
    Fix    change the source line that the message names, or use ``torch.compile(model, backend='fxc')``.
    """


class TargetError(FxcError):
    """A function that a file may not call, or that does not exist.

    Cause  a callee that is neither an operator of PyTorch nor on the list of allowed functions.
    Fix    import the package that registers the operator; pass a function that you trust as ``allow=`` or
           ``--allow=``.
    """


class WeightsError(FxcError):
    """Weights that are missing, damaged, or of another program.

    Cause  a ``.safetensors`` file that is absent, truncated, or that does not match the declarations in the text.
    Fix    place the weights file that was saved with the text beside it.
    """


class PlanFileError(FxcError):
    """A file that is not a usable plan.

    Cause  a damaged or incomplete plan, one of another version of fxc or PyTorch, or a path that holds something
           else.
    Fix    compile and save the plan again with the installed versions; choose another path where one is occupied.
    """


class InputError(FxcError):
    """Inputs that do not fit.

    Cause  a call whose inputs differ from the example in dtype, size, stride or device, or changed state of the
           model.
    Fix    pass inputs like the example, make sizes dynamic with ``dynamic_shapes``, or set the option
           ``recompile``.
    """


class NoRuleError(InputError):
    """An operation that the reference interpreter cannot run.

    Cause  an operation of a dialect without a rule in ``compiler/interpret/``.
    Fix    lower the operation first, or add a rule to the file of its level.
    """

    HINT = "lower the operation first with -p PIPELINE; fxc passes lists the pipelines"


class NumericsError(FxcError):
    """A pass or a kernel that changed the results.

    Cause  a defect in a pass or in the code generation, found by ``check_numerics``.
    Fix    the message names the pass, the operation and the first different value; run this pass alone on the IR
           before it.
    """


class DerivativeError(FxcError, RuntimeError):
    """A derivative that cannot be differentiated again.

    PyTorch raises RuntimeError for functions that it cannot differentiate.

    Cause  a second derivative through an operator whose compiled derivative autograd cannot differentiate.
    Fix    compile with the options that the hint states, or request first derivatives only.
    """


class KernelError(FxcError):
    """A kernel that a backend cannot print, compile or run.

    Cause  an operation that the backend does not support, an absent device, or ``strict`` with a group without a
           kernel.
    Fix    follow the hint; without ``strict``, operators without a kernel run as calls of ATen.
    """


class BoundsError(FxcError, IndexError, RuntimeError):
    """An index out of range of the tensor that a kernel reads.

    PyTorch raises IndexError for some operators, RuntimeError for others.

    Cause  an index tensor with a value that is too small or too large for the dimension.
    Fix    correct the indices; eager mode raises an error for the same call.
    """


class CollectiveError(FxcError, RuntimeError):
    """Collectives that fail or cannot run on this rank.

    Cause  a rank that ended, is slower than the timeout, or has other collectives than the rest; a plan that is loaded where
           the mesh is another one.
    Fix    the message names the rank and the operation; run the same model on every rank, on the same mesh. After the end of
           a rank start again from the last checkpoint, for instance by ``torchrun --max-restarts``.
    """


class FallbackWarning(UserWarning):
    """A slower path than the options request: calls of ATen, or a model in parts.

    Cause  a pass or the code generation failed on a group of operators; a model cannot be captured as one graph; or a
           program cannot be recorded as a CUDA graph.
    Fix    none is needed, as the results are right; ``fxc-opt --run-reproducer FILE`` shows why a group has no
           kernel.
    """


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint that lists the names closest to ``name``, or None where nothing is close."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else None


def nearest_file(path: str | Path) -> str:
    """A hint for a file that cannot be read: the files beside it with the closest names."""
    path = Path(path)
    if path.exists():
        return "it is a folder: name a file in it" if path.is_dir() else "give a file of the expected format that you may read"
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    return nearest(str(path), map(str, beside)) or "give the path of a file that exists and that you may read"
