"""Groups of torch ops for the tests of kernels: made of calls, run through passes, and compared with eager PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from fxc.bridge.operators import operator_name
from fxc.bridge.tensors import type_of
from fxc.bridge.values import attribute_of, tree_of
from fxc.dialects.base.op_rules import OpRules
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.target import TargetAttr, set_target
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.tile import ScheduleAttr
from fxc.dialects.torch_ops import op_class
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from fxc.passes.analysis.statistics import recording
from fxc.passes.operators.table import OPERATORS
from fxc.program.program import new_context
from tests.opinfo_samples import sample_inputs

COVERED = {
    name: record.formula
    for name, record in OPERATORS.items()
    if record.formula is not None and name.startswith(("aten.", "prims.", "fxc."))
}
"""Operator -> how kernels compute it. Those of other libraries need not be registered."""

CONTEXT = new_context()
RULES = OpRules()
"""What is known of ops that look alike serves one group after the other."""


@dataclass(frozen=True)
class Call:
    """A call of an operator overload, as it reached the dispatcher, and what it returned."""

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any

    @property
    def name(self) -> str:
        return operator_name(self.target)


class Recorder(TorchDispatchMode):
    """Records the calls of operators that return tensors and write nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = list[Call]()
        self.versions = list[list[int]]()

    def lasting(self) -> list[Call]:
        """The calls whose results nothing wrote afterwards."""
        pairs = zip(self.calls, self.versions, strict=True)
        return [call for call, versions in pairs if [leaf._version for leaf in tree_leaves(call.result)] == versions]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        leaves = tree_leaves(result)
        if leaves and all(isinstance(leaf, torch.Tensor) for leaf in leaves) and not func._schema.is_mutable:
            self.calls.append(Call(func, args, kwargs or {}, result))
            self.versions.append([leaf._version for leaf in leaves])
        return result


def calls_of(function: Callable[[], Any]) -> list[Call]:
    """The calls that ``function`` makes; none where it raises."""
    recorder = Recorder()
    try:
        with recorder, torch.no_grad():
            function()
    except Exception:
        return []
    return recorder.lasting()


class GroupBuilder:
    """A function of tensors with one group in it, made call by call."""

    def __init__(self) -> None:
        self.block, self.body = Block(), Block()
        self.values = dict[int, SSAValue]()
        self.arguments = list[torch.Tensor]()
        self.kept = list[Any]()  # an id stands for a tensor as long as that lives

    def argument(self, tensor: torch.Tensor) -> SSAValue:
        if id(tensor) not in self.values:
            self.values[id(tensor)] = self.block.insert_arg(type_of(tensor), len(self.block.args))
            self.arguments.append(tensor)
            self.kept.append(tensor)
        return self.values[id(tensor)]

    def call(self, call: Call) -> TorchOp:
        def leaf(value: Any) -> SSAValue | Attribute:
            return self.argument(value) if isinstance(value, torch.Tensor) else attribute_of(value)

        cls = op_class(f"torch.{call.name}")
        assert cls is not None and issubclass(cls, TorchOp)
        args = [tree_of(value, leaf) for value in call.args]
        kwargs = {name: tree_of(value, leaf) for name, value in call.kwargs.items()}
        results = list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]
        op = cls.build_call(args, kwargs, [type_of(result) for result in results])
        self.body.add_op(op)
        for result, value in zip(results, op.results, strict=True):
            self.values[id(result)] = value
            self.kept.append(result)
        return op

    def module(self, outputs: Sequence[torch.Tensor]) -> ModuleOp:
        self.body.add_op(YieldOp.of([self.values[id(output)] for output in outputs]))
        group = GroupOp.of(Region(self.body))
        self.block.add_ops([group, ReturnOp(*group.results)])
        types = FunctionType.from_lists([argument.type for argument in self.block.args], list(group.result_types))
        module = ModuleOp([FuncOp("main", types, Region(self.block))])
        verify(module)
        return module


def run_passes(module: ModuleOp, pipeline: str) -> Counter[str]:
    """Run ``pipeline`` on ``module``, verified after each pass; what it counted."""
    counts = Counter[str]()
    for name in filter(None, pipeline.split(",")):
        with recording(counts):
            load(name)().apply(CONTEXT, module)
        verify(module, RULES)
    return counts


def run_main(module: ModuleOp, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the function ``main`` of ``module`` returns, by the reference interpreter."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    return list(ReferenceInterpreter(functions).call(functions["main"], list(arguments)))


LINALG, KERNELS = "convert-fusion-to-linalg", "schedule,tile"


def check(call: Call, *, kernels: bool = True) -> bool:
    """Compare what a group of one call becomes, in linalg and as kernels, with eager; whether it became anything."""
    builder = GroupBuilder()
    builder.call(call)
    outputs = list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]
    module = builder.module(outputs)
    if not run_passes(module, LINALG)["groups converted"]:
        return False
    for pipeline in ("", KERNELS) if kernels else ("",):
        run_passes(module, pipeline)
        for result, expected in zip(run_main(module, builder.arguments), outputs, strict=True):
            assert result.stride() == expected.stride() or expected.numel() <= 1
            _compare(call, result, expected)
    return True


def group_of(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> tuple[ModuleOp, list[torch.Tensor], list[Any]]:
    """A module with one group of all that ``function`` calls, what its ``main`` takes, and what eager returned."""
    recorder = Recorder()
    with recorder, torch.no_grad():
        returned = function(*arguments)
    outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    builder = GroupBuilder()
    for argument in arguments:
        builder.argument(argument)
    for call in recorder.calls:
        builder.call(call)
    return builder.module(outputs), builder.arguments, outputs


def check_function(
    function: Callable[..., Any],
    *arguments: torch.Tensor,
    target: TargetAttr | None = None,
    edit: Callable[[ScheduleAttr], ScheduleAttr] = lambda schedule: schedule,
) -> ModuleOp:
    """Compare the kernels of one group of all that ``function`` calls with eager; returns the module of kernels.

    ``edit`` changes each schedule before kernels are made of it.
    """
    module, inputs, outputs = group_of(function, arguments)
    if target is not None:
        set_target(module, target)
    counts = run_passes(module, LINALG)
    assert counts["groups converted"] == 1, dict(counts)
    exact = tree_leaves(function(*map(_wide, arguments)))
    for pipeline in ("", "schedule", "tile"):
        run_passes(module, pipeline)
        if pipeline == "schedule":
            _edit(module, edit)
            continue
        for result, expected, wide in zip(run_main(module, inputs), outputs, exact, strict=True):
            assert result.stride() == expected.stride() or expected.numel() <= 1
            if expected.dtype in (torch.float16, torch.bfloat16):  # eager rounds after each operator, kernels do not
                torch.testing.assert_close(result.double(), wide.double(), rtol=1.6e-2, atol=1e-2, equal_nan=True)
            else:
                torch.testing.assert_close(result, expected, equal_nan=True, **_tolerance(arguments))
    return module


def check_text(module: ModuleOp) -> None:
    """The text of ``module`` reads back as the same."""
    again = parse_module(CONTEXT, print_module(module))
    assert again.is_structurally_equivalent(module), "the text reads back as something else"


def _tolerance(arguments: Sequence[torch.Tensor]) -> dict[str, float]:
    """What sums of float32 in another order allow, for results that are float64 then too; else torch's own for the dtype."""
    return {"rtol": 1.3e-6, "atol": 1e-5} if any(argument.dtype == torch.float32 for argument in arguments) else {}


def _edit(module: ModuleOp, edit: Callable[[ScheduleAttr], ScheduleAttr]) -> None:
    for group in module.walk():
        schedules = group.attributes.get("tile.schedule")
        if isinstance(group, GroupOp) and isinstance(schedules, ArrayAttr):
            edited = [edit(schedule) for schedule in schedules.data if isinstance(schedule, ScheduleAttr)]
            group.attributes["tile.schedule"] = ArrayAttr(edited)


def _compare(call: Call, result: torch.Tensor, expected: torch.Tensor) -> None:
    """``result`` is close to eager's; of half precision, at least as close to what eager computes of float64."""
    try:
        torch.testing.assert_close(result, expected, equal_nan=True)
    except AssertionError:
        if expected.dtype not in (torch.float16, torch.bfloat16) or not isinstance(call.result, torch.Tensor):
            raise
        args, kwargs = tree_map_only(torch.Tensor, _wide, (call.args, dict(call.kwargs)))
        exact = call.target(*args, **kwargs)
        errors = [(value.double() - exact).abs().nan_to_num(0.0).max() for value in (result, expected)]
        assert errors[0] <= errors[1], f"{call.name}: errors {errors}"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def samples(op: Any, dtype: torch.dtype, most: int) -> Iterator[Callable[[], Any]]:
    """Calls of an operator of OpInfo on its own samples: evenly chosen ones."""
    try:
        found = list(sample_inputs(op, dtype))
    except Exception:
        return
    for sample in found[:: max(1, len(found) // most)][:most]:
        yield lambda sample=sample: op(sample.input, *sample.args, **sample.kwargs)
