"""A program: the IR, and the tensors and live objects that the IR names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fxc.dialects import known_dialects
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import ArgumentFacts, argument_attributes, find_entry, public_functions
from fxc.dialects.fx import TensorDeclOp
from fxc.dialects.semantics import Semantics
from fxc.dialects.text.syntax import clone_module, print_module
from fxc.driver.runner import read_module
from fxc.errors import WRITE_ELSEWHERE, FxcError, InputError, WeightsError, nearest_file
from fxc.program.weights import load_state, save_state

if TYPE_CHECKING:
    import torch

    from fxc.runtime.host_program import HostProgram
    from fxc.runtime.object_inputs import StoredState

Look: TypeAlias = Callable[[Sequence[Any], Callable[[], Any]], tuple[Any, bool]]
"""Runs a call on the given inputs. Returns its result, and whether the result was compared."""


class Watch(Protocol):
    """Makes the comparison of the first call of ``program`` with ``captured``, the program before the passes."""

    def __call__(self, captured: Program, program: Program, *, boxed: bool = False) -> Look: ...


class DerivativeLowering(Protocol):
    """Compiles parts of a program on first use."""

    def __call__(self, program: Program, *, kernels: bool) -> HostProgram | None:
        """Lower ``program``, a derivative with marked gradients, in place: to ``kernels`` or else to operators.

        Returns the host program if the pipeline makes one.
        """
        ...


def new_context(live: dict[str, Any] | None = None) -> FxcContext:
    """A context with the dialects of fxc and xDSL, and PyTorch's semantics, each loaded on first use.

    ``live``: functions and modules allowed in addition to the allow-list, as in ``fxc.program.program.Program``.
    """

    def load_semantics() -> Semantics:
        from fxc.semantics.torch_semantics import TorchSemantics

        return TorchSemantics(live)

    context = FxcContext(load_semantics)
    for name, factory in known_dialects().items():
        context.register_dialect(name, factory)
    return context


def require_program(given: object, caller: str) -> None:
    """InputError where ``given``, the argument of ``fxc.<caller>``, is not a program."""
    if not isinstance(given, Program):
        hint = "pass what fxc.capture(model, args), fxc.import_fx(graph_module) or fxc.Program.load(path) returns"
        raise InputError(f"fxc.{caller} takes a Program, got {type(given).__name__}", hint=hint)


@dataclass
class Program:
    """An IR module and the objects that it names.

    ``module``: the IR; ``str(program)`` is its text. ``state``: name -> tensor, of parameters, buffers and constants. These
    are the tensors of the user; only a frozen plan has copies. ``live``: modules by path and functions by name that came from
    the running process and that a file could not name; empty for a program read from a file. ``context``: the dialects.
    ``key``: in the disk cache, while the program is as cached. ``assigned``: attributes of the model that a call assigns, by
    path; ``stored`` assigns what the program computes of them. ``reads``: what functions of ``torch`` have told the
    model, by name. ``group_limit``: time limit in seconds of a pass on one group; a group that fails runs as calls of ATen.
    None: a failure is an error. ``watch`` compares first calls. ``later`` compiles at a call what was not compiled before,
    with the same options; None where that is an error.
    """

    module: ModuleOp
    state: dict[str, torch.Tensor] = field(default_factory=dict[str, Any])
    live: dict[str, Any] = field(default_factory=dict[str, Any])
    context: FxcContext = field(default_factory=new_context)
    key: str | None = None
    assigned: frozenset[str] = frozenset()
    stored: StoredState | None = None
    reads: tuple[tuple[str, int], ...] = ()
    group_limit: int | None = None
    watch: Watch | None = None
    later: DerivativeLowering | None = None

    def __str__(self) -> str:
        return print_module(self.module)

    def text(self, *, debuginfo: bool = False, generic: bool = False) -> str:
        """The IR as text. ``debuginfo`` adds node names, module paths and stack traces; ``generic``: in MLIR's generic form."""
        return print_module(self.module, debuginfo=debuginfo, generic=generic)

    def copy(self) -> Program:
        """A program with a copy of the IR and the same tensors."""
        return replace(self, module=clone_module(self.module), state=dict(self.state), live=dict(self.live), key=None)

    @property
    def main(self) -> FuncOp:
        """The entry function: ``@main``, or the only public function."""
        return entry_function(self.module)

    def save(self, path: str | Path, *, debuginfo: bool = True) -> None:
        """Write ``path`` (IR text) and, if there is state, ``path`` with the suffix ``.safetensors``.

        ``debuginfo``: with locations. InputError where a file cannot be written, WeightsError for a tensor that is not dense.
        """
        path = Path(path)
        try:
            path.write_text(self.text(debuginfo=debuginfo), encoding="utf-8")
            if self.state:
                save_state(self.state, path := weights_path(path))
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}", hint=WRITE_ELSEWHERE) from error

    @classmethod
    def load(cls, path: str | Path, *, allow: Mapping[str, Any] | None = None) -> Program:
        """Read ``path`` and the weights beside it, as ``save`` wrote them. Runs no code.

        ``allow``: functions and module classes by name that the graph may name in addition to the allow-list. FxcError for a
        file that cannot be read; ParseError, VerifyError or WeightsError for an invalid one.
        """
        live = dict(allow or {})
        path, context = Path(path), new_context(live)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FxcError(f"cannot read {path}: {getattr(error, 'strerror', error)}", hint=nearest_file(path)) from error
        module = read_module(context, text, str(path))
        needed = state_names(module)
        weights = weights_beside(path)
        if needed and not weights.exists():
            raise WeightsError(
                f"{path} names {len(needed)} tensors, but {weights.name} is missing",
                hint="keep the two files side by side; `fxc import` and Program.save write both",
            )
        return cls(module, with_parameters(load_state(weights, needed), module) if needed else {}, live, context)

    @classmethod
    def parse(
        cls, text: str, state: Mapping[str, torch.Tensor] | None = None, *, allow: Mapping[str, Any] | None = None
    ) -> Program:
        """The verified program of the IR ``text``, for tests and notebooks; ``state`` has the tensors that it names.

        ``allow``: as for ``load``. ParseError or VerifyError for invalid text.
        """
        live = dict(allow or {})
        context = new_context(live)
        return cls(read_module(context, text, "<string>"), dict(state or {}), live, context)


def entry_function(module: ModuleOp) -> FuncOp:
    """``@main``, or the only public function. FxcError where there is none or more than one."""
    entry = find_entry(module)
    if entry is None:
        names = ", ".join(f"@{f.sym_name.data}" for f in public_functions(module)) or "none"
        raise FxcError(f"no function @main, and not exactly one public function: {names}", hint="name the entry @main")
    return entry


def state_names(module: ModuleOp) -> list[str]:
    """The names of tensors that ``module`` reads from the weights file: declared ones, and state arguments of the entry."""
    return list(_state_facts(module))


def with_parameters(state: Mapping[str, torch.Tensor], module: ModuleOp) -> dict[str, torch.Tensor]:
    """``state`` with parameters as ``torch.nn.Parameter``; names of one tensor share one parameter."""
    from torch.nn import Parameter

    parameters, result = dict[int, Parameter](), dict(state)
    for name, (kind, requires_grad) in _state_facts(module).items():
        if kind == "parameter":
            tensor = state[name]
            if id(tensor) not in parameters:
                parameters[id(tensor)] = Parameter(tensor, requires_grad and tensor.dtype.is_floating_point)
            result[name] = parameters[id(tensor)]
    return result


def _state_facts(module: ModuleOp) -> dict[str, tuple[str, bool]]:
    """Name -> (kind, whether it may require a gradient), of declared tensors and of state arguments."""
    facts = {op.sym.data: (op.kind.data, op.requires_grad is not None) for op in module.ops if isinstance(op, TensorDeclOp)}
    attributes = [each for function in module.ops if isinstance(function, FuncOp) for each in argument_attributes(function)]
    marked = any("fx.requires_grad" in each.data for each in attributes)
    for each in attributes:
        argument = ArgumentFacts.of(each)
        if argument.state_name is not None:
            learns = "fx.frozen" not in each.data and (not marked or "fx.requires_grad" in each.data)
            facts.setdefault(argument.state_name, (argument.kind, learns))
    return facts


def is_frozen(tensor: torch.Tensor | None) -> bool:
    """Whether ``tensor`` is a parameter that does not require a gradient; its argument is marked ``fx.frozen``."""
    import torch

    return isinstance(tensor, torch.nn.Parameter) and tensor.dtype.is_floating_point and not tensor.requires_grad


def weights_path(path: Path) -> Path:
    """The weights file of an IR file."""
    return path.with_suffix(".safetensors")


def weights_beside(path: Path) -> Path:
    """The weights file of an IR file: of the same name, else ``weights.safetensors`` in its folder."""
    own, shared = weights_path(path), path.with_name(SHARED_WEIGHTS)
    return shared if shared.exists() and not own.exists() else own


SHARED_WEIGHTS = "weights.safetensors"
"""The weights file of all IR files of a folder that a plan or ``fxc compile`` writes."""
