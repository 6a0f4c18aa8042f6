"""Rules of ops that are asked once of all that look the same: what a pass breaks is found as when all are asked each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, f64, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl import OpDef
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import OpRules, is_local
from fxc.dialects.target import preset, set_target
from fxc.dialects.text.syntax import clone_module, parse_module
from fxc.dialects.verify.verifier import verify
from fxc.driver.runner import run_pipeline
from fxc.errors import PassError
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from fxc.testing import parse

ROOT = Path(__file__).parent.parent
T, ROW = "tensor<40x300xf32>", "tensor<40x1xf32>"
SOURCE = f"""
func.func @main(%x: {T}, %w: tensor<300x300xf32>) {{
  %a = torch.aten.mm.default(%x, %w) : ({T}, tensor<300x300xf32>) -> {T}
  %b = torch.aten.mul.Tensor(%a, 2.5) : ({T}) -> {T}
  %c = torch.aten.amax.default(%b, [1], true) : ({T}) -> {ROW}
  %d = torch.aten.sub.Tensor(%b, %c) : ({T}, {ROW}) -> {T}
  %e = torch.aten.exp.default(%d) : ({T}) -> {T}
  %f = torch.aten.mm.default(%e, %w) : ({T}, tensor<300x300xf32>) -> {T}
  %g = func.call @twice(%f) : ({T}) -> {T}
  fx.output((%e, %g)) : ({T}, {T}) -> ()
}}
func.func private @twice(%x: {T}) -> {T} {{
  %a = torch.aten.add.Tensor(%x, %x) : ({T}, {T}) -> {T}
  %b = torch.aten.relu.default(%a) : ({T}) -> {T}
  func.return %b : {T}
}}
"""
STAGES = ("canonicalize", "fuse{reductions=true}", "convert-fusion-to-linalg", "lower-kernels", "lower-to-plan")


@cache
def stages() -> list[ModuleOp]:
    context, module, found = new_context(), parse(SOURCE), list[ModuleOp]()
    set_target(module, preset("cpu:avx2"))
    for stage in STAGES:
        run_pipeline(context, module, parse_pipeline(stage))
        found.append(clone_module(module))
    return found


class Unremembered(OpRules):
    """Asks all rules of every op, as xDSL does."""

    def verify(self, op: Operation, *, is_isolated: bool = False, callee: Attribute | None = None) -> None:
        op.verify(verify_nested_ops=False) if type(op).verify is not Operation.verify else op.verify_()


def found_by(rules: OpRules, module: ModuleOp) -> tuple[str, Any] | None:
    try:
        verify(module, rules)
    except Exception as error:
        return str(error), getattr(error, "op", None)
    return None


# mutations


@dataclass
class Mutator:
    """Changes of a module at random places, most of which leave it invalid."""

    module: ModuleOp
    random: random.Random

    def __post_init__(self) -> None:
        self.ops = [op for op in self.module.walk() if op is not self.module]
        self.values = [value for op in self.ops for value in (*op.results, *arguments(op))]
        self.attributes = [each for op in self.ops for each in (*op.properties.values(), *op.attributes.values())]
        self.types = [*{value.type: None for value in self.values}, f64, i1]

    def pick(self, fits: Callable[[Operation], Any]) -> Operation:
        return self.random.choice([op for op in self.ops if fits(op)])

    def property(self) -> None:
        op = self.pick(lambda op: op.properties)
        op.properties[self.random.choice([*op.properties])] = self.random.choice(self.attributes)

    def missing_property(self) -> None:
        op = self.pick(lambda op: op.properties)
        del op.properties[self.random.choice([*op.properties])]

    def added_property(self) -> None:
        self.random.choice(self.ops).properties["nonsense"] = self.random.choice(self.attributes)

    def attribute(self) -> None:
        op, other = self.random.choice(self.ops), self.pick(lambda op: op.properties)
        op.attributes[self.random.choice([*other.properties])] = self.random.choice(self.attributes)

    def operand(self) -> None:
        op = self.pick(lambda op: op.operands)
        op.operands[self.random.randrange(len(op.operands))] = self.random.choice(self.values)

    def missing_operand(self) -> None:
        op = self.pick(lambda op: op.operands)
        op.operands = op.operands[:-1]

    def type(self) -> None:
        self.random.choice(self.values)._type = self.random.choice(self.types)

    def replaced(self) -> None:
        """All uses of a value go to one that may have another type."""
        value = self.random.choice([value for value in self.values if value.first_use is not None])
        value.replace_all_uses_with(self.random.choice(self.values))

    def moved(self) -> None:
        op, place = self.pick(lambda op: op.parent), self.pick(lambda op: op.parent)
        if not op.is_ancestor(place):
            op.detach()
            assert place.parent is not None
            place.parent.insert_op_before(op, place)

    def gone(self) -> None:
        self.random.choice(self.ops).detach()

    def no_block(self) -> None:
        region = self.pick(lambda op: op.regions).regions[0]
        if region.first_block is not None:
            region.detach_block(region.first_block)

    def block_argument(self) -> None:
        region = self.pick(lambda op: op.regions and op.regions[0].blocks).regions[0]
        region.blocks[0].insert_arg(self.random.choice(self.types), 0)

    def symbol(self) -> None:
        self.pick(lambda op: "sym_name" in op.properties).properties["sym_name"] = StringAttr("another")


MUTATIONS = [name for name, value in vars(Mutator).items() if callable(value) and name[0] != "_" and name != "pick"]


def arguments(op: Operation) -> Iterator[BlockArgument]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


@pytest.mark.parametrize("kind", MUTATIONS)
def test_mutations_are_found_as_by_asking_every_rule(kind: str) -> None:
    """The rules have seen the module before, and all mutants: only what they have not seen, or look beyond, is asked."""
    found, rules, everything = 0, OpRules(), Unremembered()
    for stage, module in enumerate(stages()):
        assert found_by(rules, module) is None
        for seed in range(2):
            mutant = clone_module(module)
            assert found_by(rules, mutant) is None
            getattr(Mutator(mutant, random.Random(f"{kind} {stage} {seed}")), kind)()
            expected = found_by(everything, mutant)
            assert found_by(rules, mutant) == expected, f"stage {STAGES[stage]}, seed {seed}"
            found += expected is not None
    assert found, "no mutant is invalid"


# passes


@dataclass(frozen=True)
class Nothing(ModulePass):
    name = "nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Leaves all as it is."""


@dataclass(frozen=True)
class Breaks(ModulePass):
    name = "breaks"
    change: Callable[[ModuleOp], None] = lambda module: None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


def first(module: Operation, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def property_in_place(module: ModuleOp) -> None:
    first(module, "torch.aten.mul.Tensor").properties["nonsense"] = i1


def operand_of_another_type(module: ModuleOp) -> None:
    add = first(module, "torch.aten.amax.default")
    first(module, "func.call").operands[0] = add.results[0]


def callee_of_another_type(module: ModuleOp) -> None:
    _, callee = [op for op in module.walk() if isinstance(op, FuncOp)]
    callee.body.block.args[0]._type = f64
    callee.update_function_type()


def symbol_that_goes(module: ModuleOp) -> None:
    _, callee = [op for op in module.walk() if isinstance(op, FuncOp)]
    callee.detach()


def child_that_goes(module: ModuleOp) -> None:
    first(module, "func.return").detach()


def definition_that_comes_later(module: ModuleOp) -> None:
    op = first(module, "torch.aten.exp.default")
    block = op.parent
    assert block is not None and block.last_op is not None
    op.detach()
    block.insert_op_before(op, block.last_op)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (property_in_place, "has no argument 'nonsense'"),
        (operand_of_another_type, "operand type mismatch"),
        (callee_of_another_type, "operand type mismatch|operand types"),
        (symbol_that_goes, "callee names @twice, which does not exist|could not be found"),
        (child_that_goes, "is not a terminator"),
        (definition_that_comes_later, "does not dominate this use"),
    ],
)
def test_what_a_pass_breaks_in_place_is_found(change: Callable[[ModuleOp], None], message: str) -> None:
    with pytest.raises(PassError, match=f"pass breaks left IR that does not verify: (?s:.)*({message})"):
        run_pipeline(new_context(), parse(SOURCE), [Nothing(), Breaks(change), Nothing()])


def test_definitions_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = Counter[str](), OpDef.verify
    monkeypatch.setattr(OpDef, "verify", lambda self, op: (asked.update([op.name]), ask(self, op)))
    for module in stages():
        rules = OpRules()
        verify(module, rules)
        assert asked.total() < sum(1 for _ in module.walk())
        asked.clear()
        verify(module, rules)
        assert not asked


def test_only_functions_that_changed_are_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = list[Operation](), OpRules.verify
    monkeypatch.setattr(OpRules, "verify", lambda self, op, **known: (asked.append(op), ask(self, op, **known)))
    module, rules = parse(SOURCE), OpRules()
    main, callee = [op for op in module.walk() if isinstance(op, FuncOp)]
    asked.clear()
    verify(module, rules)
    assert len(asked) == sum(1 for _ in module.walk())
    asked.clear()
    verify(module, rules)
    assert asked == [module]
    asked.clear()
    first(callee, "torch.aten.relu.default").attributes["mark"] = i1
    verify(module, rules)
    assert asked == [*callee.body.block.ops, callee, module]
    asked.clear()
    callee.attributes["mark"] = i1  # which others may look at
    verify(module, rules)
    assert asked == [*main.body.block.ops, main, *callee.body.block.ops, callee, module]


# rules that say that they are local


def _refused(value: SSAValue) -> None:
    pytest.fail("a local rule looks beyond the looks of an op")


class _Hidden:
    """What a rule that is ``local`` must not ask of a value."""

    owner = block = op = index = uses = first_use = property(_refused)


class HiddenOperand(_Hidden, BlockArgument):
    def __init__(self, type: Attribute) -> None:
        self._type, self._name = type, None


class HiddenResult(_Hidden, OpResult):
    def __init__(self, type: Attribute) -> None:
        self._type, self._name = type, None


def alone(op: Operation) -> Operation:
    """A likeness of ``op``: its values know nothing but their types, its regions have no ops."""
    regions = [Region([Block(arg_types=block.arg_types) for block in region.blocks]) for region in op.regions]
    copy = op.create(properties=op.properties, attributes=op.attributes, result_types=op.result_types, regions=regions)
    copy._operands = SSAValues([HiddenOperand(value.type) for value in op.operands])
    copy.results = SSAValues([HiddenResult(value.type) for value in op.results])
    return copy


def examples() -> Iterator[Operation]:
    for name in ("fx", "torch", "torch_higher_order", "tile", "tile_accumulate", "tile_assert", "autodiff", "dist"):
        for text in (ROOT / "lit_tests" / "dialects" / f"{name}.mlir").read_text().split("// -----"):
            yield from parse_module(new_context(), text).walk()
    yield from parse("func.func @f() { %a = torch.constant([1.0]) : tensor<1xf32> func.return }").walk()
    for module in stages():
        yield from module.walk()


def rules_of(rule: Callable[..., None]) -> list[Callable[..., None]]:
    """``rule``, and what xDSL's decorator made it of."""
    inner = getclosurevars(rule).nonlocals.get("custom_verify")
    return [rule] if inner is None else [rule, *rules_of(inner)]


def local_rules_of(kind: type[Operation]) -> set[Callable[..., None]]:
    return {rule for rule in rules_of(kind.verify_) if is_local(rule)}


def kinds_of_ops(base: type[Operation] = Operation) -> Iterator[type[Operation]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of_ops(kind)


def test_local_rules_look_at_nothing_but_the_looks() -> None:
    asked = set[Callable[..., None]]()
    for op in examples():
        for rule in local_rules_of(type(op)):
            with suppress(VerifyException):  # an example of a file may be of what the text may say, and no rule allows
                rule(alone(op))
                asked.add(rule)
    marked = set[Callable[..., None]]().union(*map(local_rules_of, kinds_of_ops()))
    assert len(marked) >= 19
    assert {rule.__qualname__ for rule in marked - asked} == set(), "no example has an op with these"
