"""Export the ``plan`` level to a host program: readable Python text that calls native kernels.

printer.py     a function of the plan level -> its text, one statement per op, with source lines and node names as comments
host.py        state that the functions share: names, weights, constants
kernels.py     the kernels
memory.py      which values are tensors, which are addresses, and whose type is guaranteed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation

from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.fx import OutputOp, TensorDeclOp
from fxc.dialects.plan import AllocOp, ArenaOp, LaunchOp, is_boxed, storage_bytes
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.export.host.host import Host
from fxc.export.host.kernels import Kernels
from fxc.export.host.printer import FunctionPrinter
from fxc.export.plan_time_values import is_once, reads_once
from fxc.passes.analysis.call_graph import functions_of
from fxc.passes.analysis.written_arguments import written_arguments
from fxc.program.program import Program
from fxc.runtime.host_program import HostFacts, HostProgram, KernelCode


def is_plan(function: FuncOp) -> bool:
    """Whether ``function`` is at the plan level, where memory is explicit."""
    return any(op.name.startswith("plan.") for op in function.walk())


def host_program(program: Program, stored: KernelCode | None = None) -> HostProgram:
    """Export the entry function at the plan level as an executable program. ``stored``: machine code of its kernels.

    Raises TargetError for a callee that is not allowed in a program, WeightsError for a tensor without a value, InputError for
    an op that this level does not support.
    """
    host = Host(program, Kernels(program.module, stored))
    texts = [_print_main(host)]
    while host.pending:
        function = host.pending.pop(0)
        texts.insert(0, FunctionPrinter(host, host.function(function.sym_name.data), function.body.block, {}).text())
    host.bind_kernels(host.kernels.load())
    head = "".join(f"# {name}: {comment}\n" for name, comment in host.globals.comments.items())
    source = "\n\n".join([head, *texts] if head else texts)
    main, written = program.main, written_arguments(program.main)
    inputs = [value for value in main.args if value not in host.state]
    return HostProgram(
        source,
        host.globals.values,
        _facts(program),
        list(host.weights.values()),
        calls_library=_calls_library(main),
        written_inputs=[i for i, value in enumerate(inputs) if value in written],
        written_weights=[name for value, name in host.state.items() if value in written],
        code=host.kernels.stored if host.kernels.launched else None,
        boxed=is_boxed(main.body.block),
    )


def kernel_code(program: Program) -> KernelCode | None:
    """The machine code of the kernels that ``host_program`` runs for the current IR; None if there are none."""
    kernels = Kernels(program.module)
    for op in program.module.walk():
        if isinstance(op, LaunchOp):
            kernels.specs(op)
    return kernels.compile()


def _print_main(host: Host) -> str:
    main = host.main
    name = host.globals.names.fresh("main")
    for value, attributes in zip(main.args, argument_attributes(main), strict=True):
        facts = ArgumentFacts.of(attributes)
        if facts.is_state and not (value.uses and reads_once(value)):
            host.state[value] = host.weight(facts.name if facts.name is not None else value._name or "", value)
        elif facts.is_state:
            host.state[value] = ""
    return FunctionPrinter(host, name, main.body.block, host.state).text()


def _calls_library(main: FuncOp) -> bool:
    """Whether a call runs anything other than allocations and kernel launches."""
    own = (op.name.startswith("plan.") or isinstance(op, (FuncOp, TensorDeclOp, OutputOp)) for op in main.walk())
    return not all(own)


def _facts(program: Program) -> HostFacts:
    functions, main = functions_of(program.module), program.main
    ops = _executed(main, functions)
    return HostFacts(
        launches=_count(ops, LaunchOp),
        library_calls=_count(ops, TorchOp),
        subgraph_calls=_count(ops, HigherOrderOp, CallOp),
        allocations=sum(times for op, times in ops.items() if isinstance(op, AllocOp) and op.arena is None),
        arena_bytes=sum(storage_bytes(op.arena.type) or 0 for op in ops if isinstance(op, ArenaOp)),
        **_memory(main),
    )


def _executed(function: FuncOp, functions: Mapping[str, FuncOp]) -> Counter[Operation]:
    """How often each op runs in a call of ``function``, callees included. All branches count as taken."""
    ops = Counter(op for op in function.walk() if not (isinstance(op, CallOp) and is_once(op)))
    calls = Counter(op.callee.string_value() for op in ops if isinstance(op, CallOp))
    for name, times in calls.items():
        if (callee := functions.get(name)) is not None:
            ops.update({op: times * inner for op, inner in _executed(callee, functions).items()})
    return ops


def _count(ops: Counter[Operation], *classes: type[Operation]) -> int:
    return sum(times for op, times in ops.items() if isinstance(op, classes))


def _memory(main: FuncOp) -> dict[str, int]:
    """The statistics that plan-memory recorded."""
    found = main.attributes.get("plan.memory")
    entries: Mapping[str, Attribute] = found.data if isinstance(found, DictionaryAttr) else {}
    known = {name: entries.get(name) for name in ("peak", "sum", "lower_bound")}
    return {f"{name}_bytes": value.value.data for name, value in known.items() if isinstance(value, IntegerAttr)}
