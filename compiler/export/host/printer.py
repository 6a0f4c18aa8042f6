"""Print a function of the ``plan`` level as readable Python: a statement per op, with lines of the user in comments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.bridge.callables import check_attribute, check_method, resolve_function, resolve_higher_order
from fxc.bridge.location import node_name, stack_trace
from fxc.bridge.values import run_time_constant, value_of
from fxc.codegen.cpu.memory_rules import messages
from fxc.dialects.attributes import types
from fxc.dialects.attributes.discardable import SHORT_LIVED
from fxc.dialects.attributes.types import IntType, is_tensor, tensor_of
from fxc.dialects.attributes.values import RegionAttr, Tree, isa
from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.base.names import python_name
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp
from fxc.dialects.plan import (
    STREAM,
    AllocOp,
    ArenaOp,
    ArenaType,
    BringOp,
    FreeOp,
    LaunchOp,
    RecordOp,
    ViewOp,
    WaitOp,
    is_boxed,
    storage_bytes,
    stream_of,
)
from fxc.dialects.plan.accesses import Accesses
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.kernel import SOURCE
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import FxcError, InputError
from fxc.export.fx import returns_sequence
from fxc.export.host.host import Host, text_of
from fxc.export.host.memory import alloc_in_arena, contents, initialised, is_address, is_certain, spec_of, tensor_text
from fxc.export.plan_time_values import is_once
from fxc.interpret.tile_level import kernel_of
from fxc.runtime.arena import ArenaPart, Arenas, NewArenas, Place
from fxc.runtime.native_kernel import expected

Rule = Callable[["FunctionPrinter", Any], None]


class FunctionPrinter:
    """Prints one function of ``host``. ``arguments``: the text of each argument of ``block`` that is not a parameter."""

    def __init__(self, host: Host, name: str, block: Block, arguments: Mapping[SSAValue, str]) -> None:
        self.host, self.block = host, block
        self.names = host.globals.names  # shared by all functions: new globals appear while locals are named
        self.env: dict[SSAValue, str] = dict(arguments)
        self.lines = [self._head(name, [value for value in block.args if value not in arguments])]
        self.arenas = dict[SSAValue, tuple[str, str]]()
        self._released = set[str]()
        for value in block.args:
            if isinstance(value.type, ArenaType):
                self.enter(value)
        self._sources = SourceLines()
        self._stream, self._guests = "", guests(block)

    def _head(self, name: str, taken: Sequence[SSAValue]) -> str:
        """The ``def`` line. If the arguments come in one list, two more lines unpack and clear the list."""
        if not is_boxed(self.block):
            return f"def {name}({', '.join([self.define(value) for value in taken])}):"
        used, boxed = [i for i, value in enumerate(taken) if value.first_use is not None], self.names.fresh("args")
        unpacked = "".join(f"{self.define(taken[i])}, " for i in used)
        places = "".join(f"{boxed}[{i}], " for i in used)
        return f"def {name}({boxed}):\n    ({unpacked}) = ({places})\n    {boxed}.clear()"

    def text(self) -> str:
        """The function's text. TargetError for a callee that is not allowed in a program, InputError for an unsupported op."""
        if any(self.host.is_shared(op) for op in self.block.ops if isinstance(op, LaunchOp)):
            self.emit(f"{self.host.threads()}()", "OpenMP learns in each thread how many others to start")
        self.ops(self.block)
        return "\n".join(self.lines) + "\n"

    def ops(self, block: Block) -> None:
        for op in block.ops:
            try:
                self.op(op)
            except FxcError as error:
                error.op = error.op or op_text(op)
                raise

    def op(self, op: Operation) -> None:
        rule = next((RULES[cls] for cls in type(op).__mro__ if cls in RULES), None)
        if rule is None:
            raise InputError(f"{op.name} has no meaning in a host program", hint="lower it first")
        self.lines += [f"    {comment}" for comment in self._sources.comment(op.location)]
        around = self._stream
        if stream := stream_of(op):
            self._stream = f"with {self.host.streams()}.on({stream}): "
        rule(self, op)
        self._stream = around
        for value in op.results:
            for stream in self._guests.get(value, ()):
                self.emit(f"{self.host.streams()}.record_use({self.env[value]}, {stream})")

    def release(self, values: Iterable[SSAValue]) -> None:
        """Delete the names of ``values`` that are not deleted yet. Those in an arena stay, as it does."""
        found = dict.fromkeys(self.env.get(value, "") for value in values if alloc_in_arena(value) is None)
        names = [name for name in found if name.isidentifier() and name not in self.host.globals.values]
        if names := [name for name in names if name not in self._released]:
            self.emit(f"del {', '.join(names)}")
            self._released.update(names)

    # names and text

    def enter(self, arena: SSAValue) -> Sequence[Place | ArenaPart]:
        """Name the contents of ``arena``, which has a name: they are its items from 1 on."""
        found = contents(arena, self.host.functions, self.host.kernels.is_native)
        places = list(dict.fromkeys(found.values()))
        self.env.update((value, f"{self.env[arena]}[{places.index(place) + 1}]") for value, place in found.items())
        return places

    def define(self, value: SSAValue, hint: str | None = None) -> str:
        """A new name for ``value``."""
        self.env[value] = self.names.fresh(python_name(hint or value._name or "v0"))
        return self.env[value]

    def emit(self, statement: str, comment: str = "") -> None:
        self.lines.append(f"    {self._stream}{statement}" + (f"  # {comment}" if comment else ""))

    def leaf(self, leaf: SSAValue | Attribute) -> str:
        if isinstance(leaf, SSAValue):
            return self.env[leaf]
        return self.host.globals.constant(value_of(leaf))

    def tree(self, tree: Tree) -> str:
        return text_of(tree, self.leaf)

    def arguments(self, args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> str:
        return ", ".join([*map(self.tree, args), *(f"{name}={self.tree(tree)}" for name, tree in kwargs.items())])

    def assign(self, op: Operation, call: str, *, sequence: bool = False) -> None:
        """Emit ``a, b = call`` for the used results of ``op``. ``sequence``: a single result comes in a tuple or list."""
        results = list(op.results)
        if not any(result.uses for result in results):
            self.emit(call)
            return
        hint = node_name(op.location) if len(results) == 1 else None
        listed = [self.define(result, hint) if result.uses else "_" for result in results]
        self.emit(f"{', '.join(listed)}{',' if sequence and len(results) == 1 else ''} = {call}")
        for result in results:
            self.check(result)

    def check(self, value: SSAValue) -> None:
        """Emit a check that ``value`` matches its type, if code that takes addresses relies on it.

        At run time the check returns the value or a copy in the expected layout, or raises. Kernels for GPUs take tensors and
        check them themselves.
        """
        if self.host.kernels.features is None:
            return
        relies = (isinstance(use.operation, LaunchOp) and self.host.kernels.is_native(use.operation) for use in value.uses)
        passes_on = (isinstance(use.operation, (func.CallOp, SubgraphOp)) for use in value.uses)
        if is_tensor(value.type) and not is_certain(value) and (any(relies) or any(passes_on)):
            spec = spec_of(value.type, self.env[value])
            if spec is not None:
                name = self.env[value]
                bound = self.host.globals.bind(f"expect_{name}", expected(spec), f"{tensor_text(value.type)}, else a copy")
                self.emit(f"{name} = {bound}({name})")


# memory


def _arena(p: FunctionPrinter, op: ArenaOp) -> None:
    type = op.arena.type
    assert isinstance(type, ArenaType)
    size, device = type.bytes.data, type.device.data
    name = p.define(op.arena, "arena")
    places = p.enter(op.arena)
    pool = p.host.globals.bind("arenas", Arenas(size, places) if device == "cpu" else NewArenas(size, places, device))
    p.emit(f"{name} = {pool}.take()", f"{size} bytes")
    p.arenas[op.arena] = (pool, name)


def _alloc(p: FunctionPrinter, op: AllocOp) -> None:
    if op.arena is not None:
        _in_arena(p, op, op.buffer, op.start())
        return
    type = tensor_of(op.buffer)
    numbers = {number.type.expression.data: p.env[number] for number in op.numbers if isinstance(number.type, IntType)}
    make, arguments = p.host.allocation(type, numbers, is_short_lived=SHORT_LIVED in op.attributes)
    p.emit(f"{p.define(op.buffer, node_name(op.location))} = {make}({arguments})")


def _in_arena(p: FunctionPrinter, op: Operation, value: SSAValue, start: int) -> None:
    """Emit a name for a value in an arena."""
    kind = "address of " if is_address(value, p.host.kernels.is_native) else ""
    text = tensor_text(value.type) if is_tensor(value.type) else f"{storage_bytes(value.type)} bytes"
    place = p.env[value]
    p.emit(f"{p.define(value, node_name(op.location))} = {place}", f"{kind}{text} at {start}")


def _view(p: FunctionPrinter, op: ViewOp) -> None:
    type = tensor_of(op.result)
    if (alloc := alloc_in_arena(op.result)) is not None:
        _in_arena(p, op, op.result, alloc.start())
        return
    spec = spec_of(type, "")
    assert spec is not None  # by the op's verifier
    given = f"{p.env[op.source]}, {list(spec.known_sizes())}, {list(spec.known_strides())}"
    p.emit(f"{p.define(op.result)} = {p.host.globals.operator('aten.as_strided.default')}({given})")


def _free(p: FunctionPrinter, op: FreeOp) -> None:
    p.release(op.values)


# kernels


def _launch(p: FunctionPrinter, op: LaunchOp) -> None:
    kernel = kernel_of(op)
    name, comment = kernel.sym_name.data, node_names(op if SOURCE in op.attributes else kernel)
    if not p.host.kernels.is_native(op):
        values = ", ".join(p.env[value] for value in op.operands)
        p.emit(f"{p.host.globals.bind(name, p.host.kernels.writer(op))}({values})", comment)
        return
    for out, number in initialised(op).items():
        p.emit(f"{p.env[out]}.fill_({number!r})")
    call = f"{p.host.kernel(name)}({', '.join(map(lambda value: _address(p, value), op.operands))})"
    if messages(kernel):
        p.emit(f"{p.host.failing(kernel)}({call})", comment)
    else:
        p.emit(call, comment)
    if written := [p.env[out] for out in op.outs if out.owner is p.host.main.body.block]:
        p.emit(f"{p.host.globals.bind('wrote', torch._C._increment_version)}(({', '.join(written)},))")  # as ATen operators do


def _address(p: FunctionPrinter, value: SSAValue) -> str:
    name = p.env[value]
    return name if is_address(value, p.host.kernels.is_native) else f"{name}.data_ptr()"


# calls


def _operator(p: FunctionPrinter, op: TorchOp) -> None:
    args, kwargs = op.trees()
    sequence = not op.is_packed and returns_sequence(op)
    p.assign(op, f"{p.host.globals.operator(op.operator)}({p.arguments(args, kwargs)})", sequence=sequence)


def _higher_order(p: FunctionPrinter, op: HigherOrderOp) -> None:
    regions = dict(zip(op.region_names(), op.regions, strict=True))

    def leaf(value: SSAValue | Attribute) -> str:
        if not isinstance(value, RegionAttr):
            return p.leaf(value)
        name = value.target.data
        return p.host.globals.bind(name, p.host.region(regions[name], name))

    args, kwargs = op.trees()
    listed = [*(text_of(tree, leaf) for tree in args), *(f"{name}={text_of(tree, leaf)}" for name, tree in kwargs.items())]
    operator = op.operator.removeprefix("higher_order.")
    packed = len(op.results) == 1 and (not is_tensor(op.results[0].type) or not op.regions)
    p.assign(op, f"{p.host.globals.bind(operator, resolve_higher_order(operator))}({', '.join(listed)})", sequence=not packed)


def _call(p: FunctionPrinter, op: func.CallOp | SubgraphOp) -> None:
    if isinstance(op, func.CallOp) and is_once(op):
        p.env.update(p.host.frozen(op))
        return
    symbol, given = op.callee.root_reference.data, ", ".join(p.env[value] for value in op.operands)
    callee = p.host.function(symbol)
    if is_boxed(p.host.functions[symbol].body.block):  # the list has the last references to what ends with the call
        p.emit(f"{(boxed := p.names.fresh('args'))} = [{given}]")
        p.release(value for value in _released_after(op) if value in op.operands)
        given = boxed
    p.assign(op, f"{callee}({given})", sequence=True)


def _released_after(op: Operation) -> Iterator[SSAValue]:
    """The values that are released immediately after ``op``."""
    while isinstance(following := op.next_op, FreeOp):
        yield from following.values
        op = following


def _function_call(p: FunctionPrinter, op: CallFunctionOp) -> None:
    args, kwargs = op.trees()
    name = op.call_target() or ""
    target = resolve_function(name, p.host.program.live)
    if target is getattr:
        check_attribute(value_of(args[1]) if len(args) > 1 and isinstance(args[1], Attribute) else None)
    p.assign(op, f"{p.host.globals.bind(name.rpartition('.')[2], target)}({p.arguments(args, kwargs)})")


def _method_call(p: FunctionPrinter, op: CallMethodOp) -> None:
    (self, *args), kwargs = op.trees()
    p.assign(op, f"{p.tree(self)}.{check_method(op.call_target() or '')}({p.arguments(args, kwargs)})")


def _module_call(p: FunctionPrinter, op: CallModuleOp) -> None:
    args, kwargs = op.trees()
    path = op.call_target() or ""
    p.assign(op, f"{p.host.globals.bind(path, p.host.submodule(path))}({p.arguments(args, kwargs)})")


def _get_attr(p: FunctionPrinter, op: GetAttrOp) -> None:
    p.env[op.results[0]] = p.host.weight(op.call_target() or "", op.results[0])


def _constant(p: FunctionPrinter, op: ConstantOp) -> None:
    p.env[op.result] = p.host.globals.constant(run_time_constant(op))


def _group(p: FunctionPrinter, op: GroupOp) -> None:
    p.ops(op.body.block)
    p.env.update((new, p.env[old]) for new, old in zip(op.results, op.yielded(), strict=True))
    for result in op.results:
        p.check(result)


# ends


def _give_back(p: FunctionPrinter) -> Iterator[str]:
    for pool, name in p.arenas.values():
        yield f"{pool}.give_back({name})"


def _output(p: FunctionPrinter, op: OutputOp) -> None:
    (tree, *_), _ = op.trees()
    for statement in _give_back(p):
        p.emit(statement)
    p.emit(f"return {p.host.nested(tree, p.leaf) if p.block.parent_op() is p.host.main else p.tree(tree)}")


def _return(p: FunctionPrinter, op: func.ReturnOp) -> None:
    for statement in _give_back(p):
        p.emit(statement)
    values = [p.env[value] for value in op.operands]
    single = len(values) == 1 and p.block.parent_op() is p.host.main
    p.emit(f"return {values[0]}" if single else f"return ({''.join(f'{value}, ' for value in values)})")


def _bring(p: FunctionPrinter, op: BringOp) -> None:
    device = p.host.globals.constant(torch.device(types.device(tensor_of(op.result))))
    p.emit(f"{p.define(op.result)} = {p.env[op.source]}.to({device})")


def _record(p: FunctionPrinter, op: RecordOp) -> None:
    p.emit(f"{p.define(op.event)} = {p.host.streams()}.record({op.stream.value.data})")


def _wait(p: FunctionPrinter, op: WaitOp) -> None:
    p.emit(f"{p.host.streams()}.wait({p.env[op.event]}, {op.stream.value.data})")


RULES: Mapping[type[Any], Rule] = MappingProxyType({
    ArenaOp: _arena,
    AllocOp: _alloc,
    ViewOp: _view,
    FreeOp: _free,
    LaunchOp: _launch,
    TorchOp: _operator,
    HigherOrderOp: _higher_order,
    func.CallOp: _call,
    SubgraphOp: _call,
    CallFunctionOp: _function_call,
    CallMethodOp: _method_call,
    CallModuleOp: _module_call,
    GetAttrOp: _get_attr,
    ConstantOp: _constant,
    GroupOp: _group,
    YieldOp: lambda p, op: None,
    OutputOp: _output,
    func.ReturnOp: _return,
    BringOp: _bring,
    RecordOp: _record,
    WaitOp: _wait,
})  # fmt: skip
"""Op class -> the function that prints it; a class also stands for its subclasses."""


# accelerators: devices, streams


def guests(block: Block) -> Mapping[SSAValue, Sequence[int]]:
    """Accelerator tensor that ``block`` allocates -> the streams that use its memory, other than the stream that allocates it.

    PyTorch's allocator needs these streams: otherwise it reuses the memory once the last name is deleted, while the streams
    still access it. Arenas are not included: all streams are joined before an arena is released.
    """
    if not any(STREAM in op.attributes for op in block.ops):
        return {}
    accesses, home, found = Accesses(), dict[SSAValue, int](), dict[SSAValue, dict[int, None]]()
    for op in block.ops:
        touched, stream = accesses.step(op), stream_of(op)
        if touched is None or isinstance(op, ArenaOp):
            continue
        home |= dict.fromkeys([value for value in op.results if value in touched.writes and _is_there(value)], stream)
        for root in (*touched.reads, *touched.writes):
            if home.get(root, stream) != stream:
                found.setdefault(root, {})[stream] = None
    return {value: tuple(streams) for value, streams in found.items()}


def _is_there(value: SSAValue) -> bool:
    return is_tensor(value.type) and types.device(value.type) != "cpu"


_WIDTH, _NAMES = 120, 60
"""The maximum length, in characters, of a comment with a source line and of one with names."""


class SourceLines:
    """Comments with the user's source lines; a line that repeats the one before is omitted."""

    def __init__(self) -> None:
        self._last = ""

    def comment(self, location: Attribute) -> Iterator[str]:
        """``# model.py:12: return self.linear(x)``, unless the op before has the same line."""
        text = _place(location)
        if text and text != self._last:
            self._last = text
            yield f"# {text}"[:_WIDTH]


def _place(location: Attribute) -> str:
    lines = (stack_trace(location) or "").strip().splitlines()
    frames = [i for i, line in enumerate(lines) if line.strip().startswith('File "')]
    if not frames:
        return ""
    own = [i for i in frames if "/torch/" not in lines[i]]
    at = (own or frames)[-1]
    file, number, *_ = lines[at].strip().removeprefix('File "').replace('", line ', ",").split(",")
    code = lines[at + 1].strip() if at + 1 < len(lines) and at + 1 not in frames else ""
    return f"{file.rpartition('/')[2]}:{number}" + (f": {code}" if code else "")


def node_names(kernel: Operation) -> str:
    """The FX nodes that a kernel or a launch computes: ``mul, gelu``."""
    listed = kernel.attributes.get(SOURCE)
    items = [item.data for item in listed.data if isinstance(item, StringAttr)] if isa(listed, ArrayAttr) else []
    names = [item.partition(" = ")[0].partition(":")[0] for item in items]
    text = ", ".join(dict.fromkeys(names))
    return text if len(text) <= _NAMES else f"{text[:_NAMES].rpartition(',')[0]}, ..."
