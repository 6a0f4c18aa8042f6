"""Check the result types that a text declares against those that PyTorch returns: memory is laid out from these types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, TensorType, TupleType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import CONDITIONS, NUMBERS, SYMBOLS, ValueType, is_tensor
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.text.diagnostics import one_line
from fxc.dialects.text.syntax import type_text
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.errors import VerifyError
from fxc.passes.analysis.type_joins import lost_shapes

Numbers = Sequence[Mapping[str, int]]
"""Assignments of numbers to the symbols of a module; declared and inferred types must agree at each of them."""

_HINT = "declare that type; the pass propagate-shapes writes the types that PyTorch returns"


def check_types(context: FxcContext, module: ModuleOp, place_of: Callable[[Operation], str | None]) -> None:
    """Raise VerifyError, with the op and its location, where a call declares another result type than PyTorch returns.

    A declared type may be less specific than that of PyTorch: an unnamed size, no type. Types that PyTorch cannot infer without
    data are not checked, nor are those of tensors that may be resized.
    """
    for inner in module.walk():
        if isinstance(inner, ModuleOp):
            _Check(context, inner, place_of).run()


class _Check:
    def __init__(self, context: FxcContext, module: ModuleOp, place_of: Callable[[Operation], str | None]) -> None:
        self.context, self.module, self.place_of = context, module, place_of
        self.numbers = _numbers_of_symbols(module)
        self.agreed = set[object]()

    def run(self) -> None:
        functions = {op.sym_name.data: op for op in self.module.ops if isinstance(op, FuncOp)}
        for function in functions.values():
            lost = lost_shapes(function, functions)
            for op in function.walk():
                if isinstance(op, (TorchOp, CallFunctionOp)) and not isinstance(op, HigherOrderOp) and op.results:
                    self.call(op, lost)

    def call(self, op: TorchOp | CallFunctionOp, lost: Mapping[SSAValue, Attribute]) -> None:
        if any(isinstance(v.type, ValueType) or (v in lost and isinstance(v, BlockArgument)) for v in op.operands):
            return
        looks = op.name, frozenset(op.properties.items()), op.operand_types, op.result_types
        if looks in self.agreed and lost.keys().isdisjoint(op.results):
            return
        try:
            given = self.context.semantics.infer(op)
        except CannotInfer:
            return
        except VerifyException as error:
            if any(isinstance(operand.type, NUMBERS) for operand in op.operands):
                return  # other values of the operands may be valid
            message = next(iter(str(error).splitlines()), op.name)
            raise VerifyError(message, op=one_line(op), place=self.place_of(op)) from error
        for result, type in zip(op.results, given, strict=True):
            if result not in lost and not self.agree(result.type, type):
                raise VerifyError(
                    f"{op.name} declares {type_text(result.type)}, but PyTorch returns {type_text(type)} at these operands",
                    op=one_line(op),
                    place=self.place_of(op),
                    hint=_HINT,
                )
        self.agreed.add(looks)

    def agree(self, declared: Attribute, given: Attribute) -> bool:
        if declared == given or isinstance(declared, ValueType) or isinstance(given, ValueType):
            return True
        if isinstance(declared, TupleType) and isinstance(given, TupleType):
            return len(declared.types) == len(given.types) and all(map(self.agree, declared.types, given.types))
        if is_tensor(declared) and is_tensor(given):
            facts = [(t.element_type, len(t.get_shape()), types.device(t), types.layout(t)) for t in (declared, given)]
            return facts[0] == facts[1] and all(_same_memory(declared, given, numbers) for numbers in self.numbers)
        return type(declared) is type(given)


def _same_memory(a: TensorType, b: TensorType, numbers: Mapping[str, int]) -> bool:
    """Whether two types have equal sizes and strides at ``numbers``, where both specify them."""
    from fxc.bridge.tensors import number_at

    sizes = [[number_at(size, numbers) for size in types.sizes(type)] for type in (a, b)]
    if not all(x is None or y is None or x == y for x, y in zip(*sizes, strict=True)):
        return False
    known = [y if x is None else x for x, y in zip(*sizes, strict=True)]
    if 0 in known:
        return True
    steps = [_steps(type, known, numbers) for type in (a, b)]
    return all(n == 1 or x is None or y is None or x == y for n, x, y in zip(known, *steps, strict=True))


def _steps(type: TensorType, sizes: Sequence[int | None], numbers: Mapping[str, int]) -> Sequence[int | None]:
    from fxc.bridge.tensors import number_at

    if (strides := types.strides(type)) is not None:
        return [number_at(step, numbers) for step in strides]
    steps, step = list[int | None](), 1
    for size in reversed(sizes):
        steps.append(step)
        step = None if step is None or size is None else step * max(size, 1)
    return steps[::-1]


def _numbers_of_symbols(module: ModuleOp) -> Numbers:
    """The hints of the symbols; and a second assignment, unless conditions relate symbols."""
    symbols = module.attributes.get(SYMBOLS)
    if not isinstance(symbols, DictionaryAttr):
        return ({},)
    facts = {name: _integers(fact) for name, fact in symbols.data.items()}
    hints = {name: fact["hint"] for name, fact in facts.items() if "hint" in fact}
    if CONDITIONS in module.attributes:
        return (hints,)
    others = {
        name: min(2 * hint + 3 + 2 * position, facts[name].get("max", 2 * hint + 3 + 2 * position))
        for position, (name, hint) in enumerate(hints.items())
    }
    return hints, others


def _integers(fact: Attribute) -> dict[str, int]:
    facts = fact.data.items() if isinstance(fact, DictionaryAttr) else ()
    return {name: value.value.data for name, value in facts if isinstance(value, IntegerAttr)}
