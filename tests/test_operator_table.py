"""The table of PyTorch's operators: what is checked in is what the running PyTorch says, and what is read from it is true."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
import torch
from xdsl.dialects.builtin import TensorType, f32
from xdsl.utils.test_value import create_ssa_value

from fxc.dialects.attributes.values import NONE, bool_attr, float_attr, int_attr, str_attr
from fxc.dialects.torch_ops import TABLE, Schema, TorchOp, make_op_class, op_class, parse_schema, table, torch_op
from fxc.dialects.torch_ops.schema import Argument, Return
from fxc.tools import generate_torch_table

REGENERATE = "from fxc.tools.generate_torch_table import lines; print('\\n'.join(lines()))"
VERSION = torch.__version__.split("+")[0]
FLAGS = {
    "r": torch.Tag.nondeterministic_seeded,
    "p": torch.Tag.pointwise,
    "d": torch.Tag.data_dependent_output,
    "y": torch.Tag.dynamic_output_shape,
}


@cache
def stored() -> tuple[str, list[str]]:
    """The version in the header of the table, and its lines."""
    header, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    found = re.search(r"torch (\S+)$", header)
    assert found is not None and header + "\n" == generate_torch_table.HEADER.format(version=found[1])
    return found[1], lines


def needs_same_torch() -> None:
    if stored()[0] != VERSION:
        pytest.skip(f"the table is of torch {stored()[0]}, and this is {VERSION}")


def overload(operator: str) -> torch._ops.OpOverload | None:
    """The operator of PyTorch's registry; None for those that only the interpreter of TorchScript knows."""
    namespace, name, overload_name = operator.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload_name)
    except (AttributeError, RuntimeError):
        return None


@pytest.mark.slow
def test_the_table_is_what_this_torch_says() -> None:
    """In a process of its own: whatever else is imported here may register operators."""
    needs_same_torch()
    done = subprocess.run([sys.executable, "-c", REGENERATE], capture_output=True, text=True, check=True)
    new, old = done.stdout.splitlines(), stored()[1]
    assert sorted(set(new) - set(old)) == []
    assert sorted(set(old) - set(new)) == []
    assert new == old == sorted(old, key=lambda line: line.split("\t")[0])


def test_every_operator_has_a_class() -> None:
    assert len(table()) == len(stored()[1]) > 4000
    for operator, (flags, signature) in table().items():
        cls = op_class(f"torch.{operator}")
        assert cls is make_op_class(operator, flags, signature)
        assert issubclass(cls, TorchOp)
        assert (cls.name, cls.FLAGS, cls.SCHEMA) == (f"torch.{operator}", flags, parse_schema(signature))
        assert cls.get_irdl_definition().name == cls.name


def arguments_of(schema: Schema) -> list[tuple[str, bool, bool, bool]]:
    return [(a.name, a.keyword_only, a.default is not None, a.writes) for a in schema.arguments]


def test_schemas_say_what_pytorch_says() -> None:
    needs_same_torch()
    for schema in torch._C._jit_get_all_schemas():
        namespace, name = schema.name.split("::")
        operator = f"{namespace}.{name}.{schema.overload_name or 'default'}"
        if operator not in table():
            continue  # registered after the table's fresh process, by another test
        ours = parse_schema(table()[operator][1])
        theirs = [(a.name, a.kwarg_only, a.has_default_value(), _writes(a)) for a in schema.arguments]
        assert arguments_of(ours) == theirs, operator
        for mine, his in zip(ours.arguments, schema.arguments, strict=True):
            assert _same_alias_set(mine, his), (operator, mine.name)
        assert len(ours.returns) == len(schema.returns) or ours.returns[0].type == "...", operator
        for mine, his in zip(ours.returns, schema.returns, strict=False):
            assert _same_alias_set(mine, his) and mine.writes == _writes(his), operator
            assert mine.type.startswith("Tensor") == _is_tensor(his), operator
        for mine, his in zip(ours.arguments, schema.arguments, strict=True):
            assert mine.is_tensor == _is_tensor(his), (operator, mine.name)


def _writes(argument: torch._C.Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_tensor(argument: torch._C.Argument) -> bool:
    """A tensor, or any nesting of lists and optionals of tensors."""
    return re.sub(r"Optional\[|List\[|\]", "", str(argument.real_type)) == "Tensor"


def _same_alias_set(mine: Argument | Return, his: torch._C.Argument) -> bool:
    """The names before any arrow, without the namespace in which PyTorch keeps them. It hides those inside of lists."""
    info = his.alias_info
    names = set() if info is None else {name.rpartition("::")[2] for name in info.before_set}
    return names == set(mine.alias.split("|")) - {""} or (not names and "[]" in mine.type)


def test_flags_say_what_pytorch_says() -> None:
    needs_same_torch()
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    for operator, (flags, _) in table().items():
        op = overload(operator)
        if op is None:
            assert flags == "", operator
            continue
        assert set(flags) <= {"r", "p", "R", "d", "y", "c"}, operator
        for letter, tag in FLAGS.items():
            assert (letter in flags) == (tag in op.tags), (operator, letter)
        composite = torch._C._dispatch_has_kernel(op.name()) and op.has_kernel_for_dispatch_key(key)
        assert ("c" in flags) == composite, operator


def test_flags_by_example() -> None:
    for operator, expected in {
        "aten.add.Tensor": "p",
        "aten.rand.default": "r",
        "aten.native_dropout.default": "r",
        "aten.nonzero.default": "y",
        "aten.item.default": "d",
        "aten.linear.default": "c",
    }.items():
        assert set(expected) <= set(table()[operator][0]), operator
    for operator in ("aten.mm.default", "aten.view.default", "aten.relu_.default"):
        assert not set("rdyc") & set(table()[operator][0]), operator


@pytest.mark.parametrize(
    ("text", "names", "defaults", "returns"),
    [
        ("() -> ()", [], [], []),
        ("(Tensor self) -> Tensor", ["self"], [None], ["Tensor"]),
        ("(Tensor(a!) self, *, Scalar alpha=1) -> Tensor(a!)", ["self", "alpha"], [None, "1"], ["Tensor"]),
        ("(Tensor(a -> *) self, int[2] sizes=[1, 1]) -> Tensor(a)[]", ["self", "sizes"], [None, "[1, 1]"], ["Tensor[]"]),
        ('(str s="a,b)", Tensor?[] t=[]) -> (Tensor out, Tensor[] rest)', ["s", "t"], ['"a,b)"', "[]"], ["Tensor", "Tensor[]"]),
        ("(Dict(str, int) d, t[] list) -> Any", ["d", "list"], [None, None], ["Any"]),
    ],
)
def test_parsing(text: str, names: list[str], defaults: list[str | None], returns: list[str]) -> None:
    schema = parse_schema(text)
    assert [a.name for a in schema.arguments] == names
    assert [a.default for a in schema.arguments] == defaults
    assert [r.type for r in schema.returns] == returns


@pytest.mark.parametrize("text", ["", "Tensor x", "(Tensor x", "(Tensor x)", "(x) -> Tensor", "(Tensor x) Tensor"])
def test_malformed_schemas(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an operator|unbalanced"):
        parse_schema(text)


def test_calls_are_built_with_python_constants() -> None:
    """A pass writes ``-1`` in place of its attribute; other objects are refused."""
    x = create_ssa_value(tensor_type := TensorType(f32, [2, 3]))
    values = {-1: int_attr(-1), 0.5: float_attr(0.5), True: bool_attr(True), "tanh": str_attr("tanh"), None: NONE}
    add = torch_op("aten.add.Tensor")
    for constant, attribute in values.items():
        plain, same = (add.build_call([x, [each]], {"alpha": each}, [tensor_type]) for each in (constant, attribute))
        assert plain.is_structurally_equivalent(same) and plain.argument("alpha") == attribute
    with pytest.raises(TypeError, match="not a tree of call arguments: <object"):
        add.build_call([x, object()], {}, [tensor_type])
