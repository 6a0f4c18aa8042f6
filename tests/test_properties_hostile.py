"""Random and hostile text: no text makes ``fxc-opt`` crash.

``pytest tests/test_properties_hostile.py --hypothesis-profile=long`` looks for longer.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxc.tools import fxc_opt

pytestmark = pytest.mark.timeout(3600)  # the long profile takes its time; each text has a limit of its own

LIT_TESTS = Path(__file__).parent.parent / "lit_tests"
PARTS = [
    part
    for path in sorted(LIT_TESTS.rglob("*.mlir"))
    for part in path.read_text(encoding="utf-8").split("// -----")
    if len(part) < 3000
]
TOKEN = re.compile(r"\s+|[\w.$]+|.", re.DOTALL)
PIECES = st.one_of(
    st.sampled_from(
        [*'()[]{}<>=,:%@#!^"\\-/', "->", "loc(", '"', "\n", "\x00", "0x", "1e999", "9" * 30, "nan", "none", "%0", "@f"]
    ),
    st.sampled_from(["tensor<2x?xf32>", "!torch.int", "#fx.ssa", "torch.aten.add.Tensor", '"torch.constant"', "slice(1, 2)"]),
    st.text(max_size=3),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A part of a test file with some tokens or characters deleted, doubled, swapped or replaced."""
    text = draw(st.sampled_from(PARTS))
    parts = TOKEN.findall(text) if draw(st.booleans()) else list(text)
    for _ in range(draw(st.integers(1, 4))):
        if not parts:
            break
        start = draw(st.integers(0, len(parts) - 1))
        end = start + draw(st.integers(1, 4))
        match draw(st.integers(0, 4)):
            case 0:
                del parts[start:end]
            case 1:
                parts[start:start] = parts[start:end]
            case 2:
                parts[start:end] = [draw(PIECES)]
            case 3:
                parts.insert(start, draw(PIECES))
            case _:
                other = draw(st.integers(0, len(parts) - 1))
                parts[start], parts[other] = parts[other], parts[start]
    return "".join(parts)


def assert_ends_well(text: str, *options: str) -> None:
    """The program prints IR that parses, or one error of ours; in the time that its length allows."""
    started = time.process_time()
    code, out, err = fxc_opt.run(options, text)
    assert time.process_time() - started < 5
    if code == 0:
        code, again, err = fxc_opt.run(options, out)
        assert (code, again, err) == (0, out, "") or "nested too deeply" in err  # one level deeper, in a module
        return
    assert code == 1 and out == "" and err.startswith("error: ")
    assert "Traceback" not in err and "crashed" not in err


@pytest.mark.slow
@settings(max_examples=6 * settings.default.max_examples)  # type: ignore[union-attr]
@given(text=damaged())
def test_damaged_text(text: str) -> None:
    assert_ends_well(text)


@pytest.mark.slow
@given(text=st.one_of(st.text(), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_garbage(text: str) -> None:
    assert_ends_well(text)


@given(raw=st.binary(max_size=50))
def test_files_of_bytes(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.mlir"
    path.write_bytes(raw)
    code, _, err = fxc_opt.run([str(path)])
    assert code == 0 or err.startswith("error: ")


DEEP = 10_000
HOSTILE = {
    "brackets": [*"([{<-%\"", "({", "[(", "tensor<", "tuple<", "#fx.tuple<[", "!fx<", "loc(callsite(", "slice(", "// "],
    "number": [
        "9" * 5000, "0x" + "f" * 5000, "1." + "9" * 5000, "1e99999", "1.0e99999", "²", "٣", "1_000", "1 : i99999999999", "i0",
    ],
    "string": ['"', '"' + "a" * 5000, '"\\', '"\\x"', '"a\nb"', '"\\ff"', "'a'"],
}  # fmt: skip
PLACES = [
    "{}",
    '"test.op"() {{a = {}}} : () -> ()',
    "fx.call_function @f({})",
    "fx.call_function @f({}) : () -> ()",
    "%c = torch.constant({}) : tensor<1xi64>",
    "%c = torch.constant({}) : !torch.int",
    "func.func @f(%a: {}) {{ func.return }}",
    "%c = torch.aten.relu.default(%c) : (tensor<{}xf32>) -> tensor<f32>",
    "fx.tensor @a : tensor<2xf32, #torch.meta<sizes = [{}]>>",
    'torch.operator @a.b.c "(Tensor {}) -> Tensor" flags ""',
    '"test.op"() : () -> () loc({})',
    "func.func @{}() {{ func.return }}",
]


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text(place: str) -> None:
    for piece in HOSTILE["brackets"]:
        assert_ends_well(place.format(piece * DEEP))
    for piece in (*HOSTILE["number"], *HOSTILE["string"]):
        assert_ends_well(place.format(piece))


def test_deep_regions() -> None:
    for depth in range(10, 400, 30):
        assert_ends_well('"test.op"() ({' * depth + '"test.termop"() : () -> ()' + "}) : () -> ()" * depth)
        assert_ends_well(f'"test.op"() {{a = {"[" * depth}{"]" * depth}}} : () -> ()')
        assert_ends_well(f"fx.call_function @f({'[' * depth}{']' * depth}) : () -> ()")
    assert_ends_well('"test.op"() ({' * DEEP)
    assert_ends_well('"test.op"() ({' * DEEP + '"test.termop"() : () -> ()' + "}) : () -> ()" * DEEP)
    assert_ends_well("builtin.module {" * DEEP + "}" * DEEP)
