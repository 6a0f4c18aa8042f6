"""Remove mutation from a function with PyTorch's functionalization, traced over the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import torch
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, dispatch_functionalize
from torch.fx.experimental import _config
from torch.fx.traceback import get_current_meta
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from fxc.bridge.callables import resolve_operator
from fxc.bridge.functional_rules import BEFORE_AUTOGRAD, is_within
from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.location import node_meta
from fxc.bridge.loop_strides import is_same
from fxc.bridge.nesting import OUTPUTS, nesting_attr
from fxc.bridge.operators import is_random
from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import constant_value
from fxc.dialects.attributes.types import SYMBOLS, ValueType
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.base.effects import aliases, is_view, writes
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import op_text
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.base import drops_nothing
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import DETACHES, REPLACE_MEMORY, UNDECLARED_VIEWS
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.any_sizes import traced_under_conditions
from fxc.semantics.trace import trace
from fxc.semantics.windows import BY_VIEWS
from fxc.semantics.written_strides import is_strided, lay_out, memory_of, with_exact_writes

_C: Any = torch._C


def functionalize(module: ModuleOp, function: func.FuncOp) -> None:
    """Rewrite ``function`` without mutation, in place.

    The new value of a written argument becomes an additional result, before the others, with ``fx.mutates = <argument index>``.
    If views of the argument are returned, one write remains, at the end: the new value is copied into the argument, and the
    results are views of the result of that copy. Calls are inlined. A function without mutation is unchanged. CaptureError if a
    branch of a higher-order operator writes to an operand, which PyTorch's operators forbid.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    if not _mutates(function, functions):
        return
    tracer = _Tracer(_Interpreter(functions), module)
    for op in reversed(list(function.walk())):
        if isinstance(op, HigherOrderOp):
            for region in op.regions:
                _functionalize_region(op, region, tracer)
    name = f"@{function.sym_name.data}"
    found = (attrs.data.get("fx.mutates") for attrs in function.res_attrs or ())
    new, written, spec = tracer.without_writes(
        function.body.block, name, {index.value.data for index in found if isinstance(index, IntegerAttr)}, returns_views=True
    )
    _replace(function, new, written, spec)


STRIDED_COPIES: Final = {
    "aten.as_strided_copy.default": ("size", "stride", "storage_offset"),
    "aten.as_strided_scatter.default": ("src", "size", "stride", "storage_offset"),
}
"""Operators that copy an ``as_strided`` view, or replace its elements in a copy -> their arguments after the tensor."""


class _Interpreter(ReferenceInterpreter):
    """An interpreter with replacements for operators that PyTorch's functionalization handles incorrectly.

    Constants are local tensors, made before tracing, which the graph may write. Inactive dropouts return their operand, as
    functionalization retains ``dropout`` and loses writes to it. Windows and diagonals become views whose writes it inverts
    correctly. Operators that return views without declaring them are replaced by operators that declare them. A tensor that is
    detached in place and written later is written at once: as a view, ``detach`` would hide the gradients of the later writes.
    Written tensors retain their strides, although the operator that computes the new value may have another layout.
    """

    def __init__(self, functions: Mapping[str, func.FuncOp]) -> None:
        super().__init__(functions)
        found = (op for function in functions.values() for op in function.walk() if isinstance(op, ConstantOp))
        self.constants = {op: constant_value(op) for op in found if isinstance(op.value, TensorLiteralAttr)}
        self.bases, self.arguments, self.written = dict[int, FunctionalTensor](), set[int](), set[int]()
        self.laid_out, self.between = set[int](), set[int]()  # memory laid out again; memory whose gaps are accessed
        self.changed, self.outside = set[int](), dict[int, Any]()  # memory ever written; views that reach outside an argument

    def body(self, block: Block, args: Sequence[Any]) -> Any:
        """Return the results of ``block``, with eager's strides; the new values of ``args`` may have other strides."""
        self.bases, self.written, self.laid_out, self.between = {}, set[int](), set[int](), set[int]()
        self.changed, self.outside = set[int](), {}
        self.arguments = {memory_of(arg) for arg in args if is_strided(arg)}
        self.note(args)
        outputs = self.block(block, args)
        self.lay_out([value for value in tree_leaves(outputs) if is_strided(value) and memory_of(value) not in self.arguments])
        return outputs

    def note(self, values: Sequence[Any]) -> None:
        """Record the first tensor in some memory as the base of all views of it."""
        for value in tree_leaves(values):
            if is_strided(value):
                self.bases.setdefault(memory_of(value), value)

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        meta = get_current_meta()  # of the nodes that the trace makes from now on
        meta.clear()
        meta.update(node_meta(op.location))
        operands = [env[value] for value in op.operands]
        changed = [env[value] for value in writes(op) or () if is_strided(env[value])] if isinstance(op, TorchOp) else []
        self.lay_out(operands)
        if any(id(value) in self.outside for value in changed):
            raise _refusal(_BEYOND)
        results = self.functional(op, env)
        self.note(results)
        self.check_outside(operands, results)
        self.written.update(map(memory_of, changed))
        self.changed.update(map(memory_of, changed))
        return results

    def functional(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        if isinstance(op, TorchOp) and op.operator.split(".")[1] in REPLACE_MEMORY:
            raise CaptureError(f"{op.operator} gives a tensor other memory, which the IR cannot", hint=_COPY)
        if isinstance(op, ConstantOp) and op in self.constants:
            return [torch.ops.aten.lift_fresh_copy.default(self.constants[op])]
        if not isinstance(op, TorchOp):
            return super().op(op, env)
        if drops_nothing(op):
            return [env[op.operands[0]]]
        if op.operator == "aten.detach_.default" and _is_lifted(op.operands[0]):
            return [env[op.operands[0]]]
        if op.operator == "aten.detach_.default" and _is_written_later(op.results[0]):
            return self.call_instead(op, _detach_in_place, env)
        if op.operator == "aten.as_strided.default" or op.operator in BY_VIEWS:
            as_strided: Callable[..., Any] = self.detached_as_strided if _is_cut(op.operands[0]) else self.as_strided
            by_views = BY_VIEWS.get(op.operator)
            return self.call_instead(op, partial(by_views, as_strided=as_strided) if by_views else as_strided, env)
        if op.operator == "aten.reshape.default":
            with self.known_sharing(op):
                return self.call_instead(op, _reshape, env)
        if op.operator in STRIDED_COPIES:
            return self.call_instead(op, partial(self.strided_copy, op), env)
        if (told := UNDECLARED_VIEWS.get(op.operator, op.operator)) != op.operator:
            return self.call_instead(op, resolve_operator(told), env)
        with self.known_sharing(op):
            results = super().op(op, env)
        if "c" in op.FLAGS and _shares_unnoticed([env[value] for value in op.operands], results):
            return self.call_instead(op, resolve_operator(op.operator).decompose, env)
        return results

    def known_sharing(self, op: TorchOp) -> AbstractContextManager[None]:
        """Let sizes that decide whether a result of ``op`` is a view or a copy add guards, if that matters to a later write."""
        if not _config.backed_size_oblivious or is_view(op) or not _is_sharing_noticed(op):
            return nullcontext()
        return _config.patch(backed_size_oblivious=False)  # type: ignore[attr-defined]

    def as_strided(self, x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        """Apply ``as_strided`` to the base of ``x``, as PyTorch's functionalization does not support it on views.

        The storage offset of an argument is unknown, so a view of an argument is replaced by its base only if both start at the
        same element.
        """
        memory, outside = memory_of(x), False
        if (base := self.bases.get(memory)) is not None:
            whole, first = _is_whole(base, x), x.storage_offset() if storage_offset is None else storage_offset
            within = is_within(base.shape, base.stride(), size, stride, first - base.storage_offset())
            if not whole or not within:
                self.between.add(memory)
                self.check_gaps(memory)
            of_x = is_within(x.shape, x.stride(), size, stride, first - x.storage_offset())
            outside = memory in self.arguments and of_x is False and (within is False or x.dtype != base.dtype)
            if whole and _C._functionalization.get_view_meta_sequence(x.elem):
                if x.storage_offset() == base.storage_offset():
                    x = base
                elif memory not in self.arguments:
                    x, storage_offset = base, first
        view = torch.ops.aten.as_strided.default(x, size, stride, storage_offset)
        self.outside.update({id(view): view} if outside else {})
        return view

    def detached_as_strided(self, *args: Any) -> Any:
        return torch.ops.aten.detach.default(self.as_strided(*args))

    def strided_copy(self, op: TorchOp, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run ``op``, a copy of an ``as_strided`` view of ``x`` or a copy of ``x`` with other values there, with checks."""
        numbers = {**dict(zip(STRIDED_COPIES[op.operator], args)), **kwargs}
        view = self.as_strided(x, *(numbers.get(name) for name in ("size", "stride", "storage_offset")))
        if id(view) in self.outside and memory_of(x) in self.changed:
            raise _refusal(_BEYOND)
        return resolve_operator(op.operator)(x, *args, **kwargs)

    def lay_out(self, values: Sequence[Any]) -> None:
        """Restore the strides of written ``values`` whose new value has other strides."""
        for memory in {memory_of(value) for value in values if is_strided(value)} & self.written:
            self.written.remove(memory)
            base = self.bases[memory]
            if lay_out(base):
                self.laid_out.add(memory)
                self.check_gaps(memory)

    def check_outside(self, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Raise CaptureError if an operation reads elements in the gaps of a written argument, or outside of it.

        The new value has no such elements. Returned views are made from the argument itself.
        """
        for value in [each for each in tree_leaves(operands) if id(each) in self.outside]:
            views = [each for each in tree_leaves(results) if is_strided(each) and memory_of(each) == memory_of(value)]
            self.outside.update((id(view), view) for view in views)
            if not views and memory_of(value) in self.changed:
                raise _refusal(_BEYOND)

    def call_instead(self, op: TorchOp, target: Callable[..., Any], env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        args, kwargs = op.trees()
        with torch._C.DisableTorchFunction():  # a function mode would get a composite operator as a whole
            return self.results(op, target(*self.python(args, env), **self.keywords(kwargs, env)))

    def check_gaps(self, memory: int) -> None:
        if memory in self.laid_out & self.between:
            raise _refusal("as_strided of a tensor that is written, and whose elements are not adjacent in memory")


class _Tracer:
    """Traces blocks under PyTorch's functionalization."""

    def __init__(self, interpreter: _Interpreter, module: ModuleOp) -> None:
        self.interpreter, self.module = interpreter, module

    def without_writes(
        self, block: Block, what: str, already: set[int], *, returns_views: bool = False
    ) -> tuple[Block, list[int], TreeSpec]:
        """Return a block without writes, the indices of the written arguments, and the nesting of the results.

        The block returns the new values of written arguments, except those in ``already``, then the results of ``block``, flat.
        ``returns_views``: results that are views of a written argument remain views.
        """

        def traced(world: FakeWorld) -> tuple[Block, list[int], TreeSpec]:
            return self.traced_in(world, block, what, already, returns_views)

        symbols = self.module.attributes.get(SYMBOLS)
        return traced_under_conditions(traced, symbols if isinstance(symbols, DictionaryAttr) else None, self.module)

    def traced_in(
        self, world: FakeWorld, block: Block, what: str, already: set[int], returns_views: bool
    ) -> tuple[Block, list[int], TreeSpec]:
        written, bases, specs = list[int](), list[int](), list[TreeSpec]()

        def run(*args: Any) -> tuple[list[Any], dict[int, Any], dict[int, _View]]:
            outputs, spec = tree_flatten(self.interpreter.body(block, args))
            specs[:] = [spec]
            changed = [i for i, arg in enumerate(args) if _is_written(arg)]
            written[:] = [i for i in changed if i not in already]
            results = [*(args[i] for i in written), *outputs]
            views = _views(results, {i: args[i] for i in changed}) if returns_views else {}
            bases[:] = sorted({view.base for view in views.values()})
            return results, {i: args[i] for i in bases}, views

        untyped = [isinstance(argument.type, ValueType) and argument.first_use is None for argument in block.args]
        fakes = [None if not_read else world.argument(a.type) for a, not_read in zip(block.args, untyped, strict=True)]
        graph = self.graph(run, fakes, world, what)
        placeholders = graph.graph.find_nodes(op="placeholder")
        for i, copy in zip(bases, graph.graph.find_nodes(op="call_function", target=_WRITE), strict=True):
            copy.update_arg(0, placeholders[i])  # the trace may have an operator that returned the argument instead
        graph.graph.eliminate_dead_code(lambda node: node.is_impure() or is_random(node.target))
        importer = GraphImporter(world.type_of, constants_inline=True)
        new = importer.block(graph, list(graph.graph.nodes), "", None)
        for old_argument, new_argument in zip(block.args, new.args, strict=True):
            new_argument._name, new_argument.location = old_argument._name, old_argument.location
            if isinstance(old_argument.type, ValueType):
                new_argument._type = old_argument.type
        return new, written, specs[0]

    def graph(self, run: Callable[..., Any], fakes: list[Any], world: FakeWorld, what: str) -> torch.fx.GraphModule:
        """Trace ``run``. Composite operators stay whole, unless the result of one is written, as it may be a view."""

        def functional(mode: FunctionalTensorMode) -> Callable[..., list[Any]]:
            return lambda *args: _with_views(args, *dispatch_functionalize(run, mode)(*args))

        with with_exact_writes():
            try:
                return trace(
                    functional(FunctionalTensorMode(pre_dispatch=True, export=True)), fakes, world, what, BEFORE_AUTOGRAD
                )
            except CaptureError as error:
                if "frozen storage" not in error.message:
                    raise
                return trace(
                    functional(FunctionalTensorMode(pre_dispatch=True, export=False)), fakes, world, what, BEFORE_AUTOGRAD
                )


_COPY = f"write to it with copy_, compute a new tensor, or use {TORCH_COMPILE}"
_WAY_OUT = f"pass all of the memory and take the tensor of it in the model, or use {TORCH_COMPILE}"


_BEYOND = "as_strided of a tensor that is written reaches elements that are none of that tensor"


def _refusal(message: str) -> CaptureError:
    """The error for a program that runs in parts."""
    error = CaptureError(message, hint=_WAY_OUT)
    error.__cause__ = NotImplementedError(message)
    return error


_WRITE = torch.ops.aten.copy_.default


@dataclass(frozen=True)
class _View:
    """A chain of views of argument ``base``; without views, it is the argument itself."""

    base: int
    steps: Sequence[Any]


def _views(results: Sequence[Any], written: Mapping[int, Any]) -> dict[int, _View]:
    """Return position -> view of ``results`` in the memory of a ``written`` argument, if some result is a view of that."""
    places = {arg.untyped_storage()._cdata: i for i, arg in written.items()}
    found = dict[int, _View]()
    for place, result in enumerate(results):
        if isinstance(result, FunctionalTensor) and (base := places.get(result.untyped_storage()._cdata)) is not None:
            found[place] = _View(base, _C._functionalization.get_view_meta_sequence(result.elem))
    viewed = {view.base for view in found.values() if view.steps}
    return {place: view for place, view in found.items() if view.base in viewed}


def _with_views(args: Sequence[Any], results: Sequence[Any], new: Mapping[int, Any], views: Mapping[int, _View]) -> list[Any]:
    """Return ``results`` with ``views`` of the arguments, into which their ``new`` values are copied."""
    bases = {i: _WRITE(args[i], value) for i, value in new.items()}
    made = {
        place: _C._functionalization.apply_view_meta_sequence(bases[view.base], view.steps) if view.steps else bases[view.base]
        for place, view in views.items()
    }
    return [made.get(place, result) for place, result in enumerate(results)]


def _is_whole(base: FunctionalTensor, view: FunctionalTensor) -> bool:
    """Whether strides count the same elements in ``base`` and ``view``."""
    plain = not any((base.is_conj(), view.is_conj(), base.is_neg(), view.is_neg()))
    return plain and base.dtype == view.dtype and not _C._functionalization.get_view_meta_sequence(base.elem)


def _is_lifted(value: SSAValue) -> bool:
    """Whether ``value`` is a new tensor of a constant, as ``torch.tensor`` makes: it has no past that ``detach_`` could cut."""
    return isinstance(value.owner, TorchOp) and value.owner.operator == "aten.lift_fresh_copy.default"


def _is_cut(value: SSAValue) -> bool:
    """Whether ``value`` is a view of a tensor for functionalization, and not for autograd."""
    while isinstance(op := value.owner, TorchOp) and op.operator not in DETACHES:
        source = next((source for index, source in aliases(op) if op.results[index] is value), None)
        if source is None:
            return False
        value = source
    return isinstance(op, TorchOp)


def _is_written_later(value: SSAValue) -> bool:
    """Whether an operation behind that of ``value``, in its block, writes to it or to a view of it."""
    views, op = {value}, value.owner
    while isinstance(op, Operation) and (op := op.next_op) is not None:
        if not views.isdisjoint(writes(op) or ()):
            return True
        views.update(op.results[index] for index, operand in aliases(op) if operand in views)
    return False


def _is_sharing_noticed(op: Operation) -> bool:
    """Whether later operations of the block write through a result of ``op`` and read an operand, or the other way round.

    Each stands for all views of its memory. The caller reads arguments.
    """
    results, others = {op.results[index] for index, _ in aliases(op)}, {operand for _, operand in aliases(op)}
    if op.parent is None or not results:
        return False
    ops = list(op.parent.ops)
    before, later = ops[: (place := ops.index(op))], ops[place + 1 :]
    if not any(map(writes, later)):
        return False
    for each in reversed(before):
        others.update(operand for index, operand in aliases(each) if each.results[index] in others)
    is_lasting = any(isinstance(value.owner, Block) for value in others)
    for each in before:
        others.update(each.results[index] for index, operand in aliases(each) if operand in others)
    through_results = through_others = False
    for each in later:
        through_results |= not results.isdisjoint(written := writes(each) or ())
        through_others |= not others.isdisjoint(written)
        read = set(each.operands).difference(written)
        if (through_results and (is_lasting or not others.isdisjoint(read))) or (
            through_others and not results.isdisjoint(read)
        ):
            return True
        for index, operand in aliases(each):
            for side in (results, others):
                side.update([each.results[index]] if operand in side else [])
    return False


def _reshape(x: Any, shape: Sequence[Any]) -> Any:
    """``x.reshape(shape)``, where -1 is the product of the other sizes of ``x``: PyTorch does not see that n * n // n is n."""
    left = list(x.shape)
    for size in shape:
        place = next((place for place, own in enumerate(left) if is_same(own, size)), None)
        if place is not None:
            del left[place]
        elif not is_same(size, 1) and not is_same(size, -1):
            return x.reshape(shape)
    return x.reshape([prod(left) if is_same(size, -1) else size for size in shape])


def _detach_in_place(x: Any) -> Any:
    return x.copy_(torch.ops.aten.detach.default(x))


def _shares_unnoticed(operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether a result shares memory with an operand or another result, unknown to PyTorch's functionalization.

    Functionalization relies on schemas, and that of ``meshgrid`` declares no aliases.
    """
    known = dict[int, int]()
    for value in tree_leaves([operands, results]):
        if isinstance(value, FunctionalTensor) and value.layout is torch.strided:
            memory = torch._from_functional_tensor(value.elem).untyped_storage()._cdata  # type: ignore[attr-defined]
            believed = value.untyped_storage()._cdata
            if known.setdefault(memory, believed) != believed:
                return True
    return False


def _is_written(arg: Any) -> bool:
    return isinstance(arg, FunctionalTensor) and torch._functionalize_has_data_mutation(arg.elem)  # type: ignore[attr-defined]


def _functionalize_region(op: HigherOrderOp, region: Region, tracer: _Tracer) -> None:
    block = region.block
    if not any(isinstance(inner, (TorchOp, HigherOrderOp)) and writes(inner) != [] for inner in block.ops):
        return
    new, written, spec = tracer.without_writes(block, op.name, set())
    if written:
        names = ", ".join(f"%{block.args[i]._name or i}" for i in written)
        message = f"a region of {op.operator} writes to its argument {names}, which PyTorch's operator forbids"
        hint = "compute a new tensor there and return it"
        raise CaptureError(message, op=op_text(op), hint=hint) from NotImplementedError(message)
    output = new.last_op
    assert isinstance(output, OutputOp)
    nested = tree_unflatten(list(output.trees()[0][0]), spec)
    new.insert_op_before(OutputOp.build_call([nested], {}, [], location=output.location), output)
    new.erase_op(output)
    region.detach_block(block)
    region.add_block(new)


def _mutates(function: func.FuncOp, functions: dict[str, func.FuncOp]) -> bool:
    for op in function.walk():
        if isinstance(op, (TorchOp, HigherOrderOp)) and writes(op):
            return True
        callee = functions.get(op.callee.root_reference.data) if isinstance(op, func.CallOp) else None
        if callee is not None and callee is not function and _mutates(callee, functions):
            return True
    return False


def _replace(function: func.FuncOp, new: Any, written: list[int], spec: TreeSpec) -> None:
    """Replace the block of ``function`` by the traced block: written arguments first, then the results, flat."""
    output = new.last_op
    assert isinstance(output, OutputOp)
    flat, values = output.trees()[0][0], [*output.operands]
    new.erase_op(output)
    terminator = function.body.block.last_op
    assert terminator is not None
    if isinstance(terminator, func.ReturnOp):
        new.add_op(func.ReturnOp(*values))
    else:
        new.add_op(OutputOp.build_call([tuple(flat)], {}, [], location=terminator.location))
        function.attributes.setdefault(OUTPUTS, nesting_attr(spec))
    old_attributes = list(function.res_attrs) if function.res_attrs is not None else []
    function.body.detach_block(function.body.block)
    function.body.add_block(new)
    types = [value.type for value in values]
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in new.args], types)
    marks = [DictionaryAttr({"fx.mutates": int_attr(i)}) for i in written]
    rest = old_attributes or [DictionaryAttr({})] * (len(types) - len(marks))
    if any(attributes.data for attributes in (*marks, *rest)):
        function.properties["res_attrs"] = ArrayAttr([*marks, *rest])
