"""Target machines of kernels: an attribute of the module, and presets by name.

``builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, threads = 2>} { ... }``. Omitted fields have the
default of the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, TypeAlias, TypeVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import int_attr, str_attr, string_text

ATTRIBUTE = "fxc.target"
"""The module attribute of the target."""

AUTOTUNE = "fxc.autotune"
"""The module attribute that enables autotuning: launches measure on the device which configuration is fastest."""

DETERMINISTIC = "fxc.deterministic"
"""The module attribute that requires kernels with equal bits in each run: floats are added in a fixed order."""

TF32 = "fxc.tf32"
"""The module attribute that lets kernels round the factors of float32 products to 10 bits, as the library's products may."""

HOST = "host"
"""The name of the machine that this process runs on."""

GPU = "cuda"
"""The name of the present GPU, as PyTorch names it, also for AMD."""

INTERPRETER = "interpreter"
"""The ``cpu`` field of a target whose kernels the reference interpreter runs."""


def _attribute(value: int | str) -> Attribute:
    return int_attr(value) if isinstance(value, int) else str_attr(value)


class _TargetAttr(ParametrizedAttribute):
    """``#target.cpu<threads = 2, features = "+avx2">``: integers and strings by name."""

    DEFAULTS: ClassVar[Mapping[str, int | str]] = {}
    DEVICE: ClassVar[str]
    """The type of its devices in PyTorch."""

    def gains_in_channels_last(self, dtype: str | None) -> bool:
        """Whether the library of this machine has fast convolutions of images of ``dtype`` in channels_last."""
        return dtype in ("float32", "bfloat16", "float16")

    @classmethod
    def of(cls, **fields: int | str):
        """The target with these fields; others have their defaults."""
        if unknown := fields.keys() - cls.DEFAULTS.keys():
            raise ValueError(f"#{cls.name} has no {', '.join(sorted(unknown))}, but {', '.join(cls.DEFAULTS)}")
        return cls(*map(_attribute, (cls.DEFAULTS | fields).values()))  # type: ignore[operator]

    def fields(self) -> dict[str, int | str]:
        """Every field by name."""
        values = zip(self.DEFAULTS, self.parameters, strict=True)
        return {name: value.data if isinstance(value, StringAttr) else value.value.data for name, value in values}  # type: ignore[attr-defined]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        fields = dict(cls.DEFAULTS)
        found = set[str]()

        def field() -> None:
            name = parser.parse_identifier()
            if name not in fields or name in found:
                parser.raise_error(f"expected one of {', '.join(fields)}, each once; got {name}")
            found.add(name)
            parser.parse_punctuation("=")
            text = isinstance(fields[name], str)
            fields[name] = parser.parse_str_literal() if text else parser.parse_integer(allow_boolean=False)

        parser.parse_optional_comma_separated_list(parser.Delimiter.ANGLE, field)
        return [_attribute(value) for value in fields.values()]

    def print_parameters(self, printer: Printer) -> None:
        parts = list[str]()
        for name, value in self.fields().items():
            if value != self.DEFAULTS[name]:
                parts.append(f"{name} = {string_text(value) if isinstance(value, str) else value}")
        printer.print_string(f"<{', '.join(parts)}>" if parts else "")

    def verify(self) -> None:
        for name, value in zip(self.DEFAULTS, self.parameters, strict=True):
            if isinstance(value, IntegerAttr) and value.value.data < 1:
                raise VerifyException(f"#{self.name}: {name} must be positive, not {value.value.data}")


@irdl_attr_definition
class CpuAttr(_TargetAttr):
    """A CPU with vector registers.

    ``features`` in LLVM's spelling; caches in bytes: per core, ``l3`` shared. ``clock`` in MHz, ``bandwidth`` of memory in
    bytes per nanosecond, for one core; ``launch``: nanoseconds of an empty kernel.
    """

    name = "target.cpu"
    DEVICE: ClassVar = "cpu"
    vector_bits: IntegerAttr
    threads: IntegerAttr
    l1: IntegerAttr
    l2: IntegerAttr
    l3: IntegerAttr
    clock: IntegerAttr
    bandwidth: IntegerAttr
    launch: IntegerAttr
    cpu: StringAttr
    features: StringAttr
    DEFAULTS: ClassVar = MappingProxyType(
        {
            "vector_bits": 128, "threads": 1, "l1": 32 << 10, "l2": 1 << 20, "l3": 16 << 20,
            "clock": 3000, "bandwidth": 10, "launch": 4000, "cpu": "", "features": "",
        }
    )  # fmt: skip

    def lanes(self, bits: int = 32) -> int:
        """The number of elements of ``bits`` bits in a vector register."""
        return max(self.vector_bits.value.data // bits, 1)

    def additions(self) -> float:
        """Additions of 32-bit floats per nanosecond: each core adds two vectors in a cycle."""
        return 2 * self.lanes() * self.clock.value.data / 1000 * self.threads.value.data

    def products(self, bits: int) -> float:
        """Floating-point operations of products per nanosecond; each core multiplies and adds two vectors in a cycle.

        Elements of fewer than 32 bits are multiplied as 32-bit floats.
        """
        return 2 * self.additions() * self.lanes(max(bits, 32)) / self.lanes()

    def traffic(self) -> float:
        """Bytes of memory per nanosecond."""
        return float(self.bandwidth.value.data * self.threads.value.data)


@irdl_attr_definition
class GpuAttr(_TargetAttr):
    """A GPU.

    ``warp``: threads that run in lockstep; for one of ``multiprocessors``: ``shared`` bytes and ``registers`` available to a
    block, and in a cycle of ``clock`` MHz ``units`` additions and ``matrix`` multiply-adds of matrices of half precision.
    ``bandwidth`` of memory in bytes per nanosecond; ``launch``: nanoseconds of an empty kernel; ``event``: nanoseconds for a
    stream to wait for another; ``atomic``: nanoseconds between two updates of one element in memory.
    """

    name = "target.gpu"
    DEVICE: ClassVar = GPU
    arch: StringAttr
    warp: IntegerAttr
    multiprocessors: IntegerAttr
    shared: IntegerAttr
    registers: IntegerAttr
    max_threads: IntegerAttr
    units: IntegerAttr
    matrix: IntegerAttr
    clock: IntegerAttr
    bandwidth: IntegerAttr
    launch: IntegerAttr
    event: IntegerAttr
    atomic: IntegerAttr
    DEFAULTS: ClassVar = MappingProxyType(
        {
            "arch": "sm_80", "warp": 32, "multiprocessors": 108, "shared": 163 << 10, "registers": 65536, "max_threads": 1024,
            "units": 64, "matrix": 1024, "clock": 1410, "bandwidth": 1555, "launch": 5000, "event": 3000, "atomic": 2,
        }
    )  # fmt: skip

    def gains_in_channels_last(self, dtype: str | None) -> bool:
        return self.arch.data.startswith("sm_") and super().gains_in_channels_last(dtype)  # cuDNN; MIOpen was not measured

    def additions(self) -> float:
        """Additions of 32-bit floats per nanosecond."""
        return self.multiprocessors.value.data * self.units.value.data * self.clock.value.data / 1000

    def products(self, bits: int) -> float:
        """Floating-point operations of products per nanosecond."""
        unit = self.matrix if bits <= 16 else self.units
        return 2 * self.additions() * unit.value.data / self.units.value.data

    def traffic(self) -> float:
        """Bytes of memory per nanosecond."""
        return float(self.bandwidth.value.data)


TargetAttr: TypeAlias = CpuAttr | GpuAttr

PRESETS: Mapping[str, TargetAttr] = MappingProxyType(
    {
        "cpu": CpuAttr.of(),
        "cpu:avx2": CpuAttr.of(vector_bits=256, cpu="haswell", features="+avx2,+fma,+f16c"),
        "cpu:avx512": CpuAttr.of(
            vector_bits=512, cpu="skylake-avx512", features="+avx512f,+avx512bw,+avx512dq,+avx512vl,+fma,+f16c"
        ),
        "cuda:sm_80": GpuAttr.of(),
        "cuda:sm_90": GpuAttr.of(
            arch="sm_90", multiprocessors=132, shared=227 << 10, units=128, matrix=2048, clock=1830, bandwidth=3350
        ),
        "rocm:gfx942": GpuAttr.of(
            arch="gfx942", warp=64, multiprocessors=304, shared=64 << 10, units=64, clock=2100, bandwidth=5300
        ),
        "interpret": CpuAttr.of(cpu=INTERPRETER),
    }
)
"""Machines by name. ``cpu`` runs on any 64-bit processor; ``cuda`` and ``rocm`` are the largest GPUs of their kinds;
``interpret`` is the reference interpreter of kernels, which checks each memory access.

The GPUs have the peaks of their data sheets: dense bfloat16 matrices at 312, 989 and 1307 TFLOPS on A100, H100 SXM and MI300X.
"""


Kind = TypeVar("Kind", CpuAttr, GpuAttr)


def presets(kind: type[Kind]) -> dict[str, Kind]:
    """The presets of one kind."""
    return {name: target for name, target in PRESETS.items() if isinstance(target, kind)}


def target_names() -> str:
    """The values of ``--target`` and ``fxc.Options(target=)``: the present machine, and presets."""
    return ", ".join((HOST, GPU, *PRESETS))


def preset(name: str) -> TargetAttr:
    """The machine called ``name``. ValueError, with a list of the names, where there is none."""
    if name not in PRESETS:
        raise ValueError(f"there is no target {name!r}, but {', '.join(PRESETS)}")
    return PRESETS[name]


def toplevel(op: Operation) -> ModuleOp:
    """The outermost module around ``op``, which has the target; ``op`` itself if it is that module."""
    module = op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    return module


def target_of(module: ModuleOp) -> TargetAttr | None:
    """The target of ``module``; None where it has none."""
    found = module.attributes.get(ATTRIBUTE)
    return found if isinstance(found, (CpuAttr, GpuAttr)) else None


def is_autotuned(module: ModuleOp) -> bool:
    return AUTOTUNE in module.attributes


def is_deterministic(module: ModuleOp) -> bool:
    return DETERMINISTIC in module.attributes


def allows_tf32(module: ModuleOp) -> bool:
    return TF32 in module.attributes


def set_target(
    module: ModuleOp, target: TargetAttr, *, autotune: bool = False, deterministic: bool = False, tf32: bool = False
) -> None:
    module.attributes[ATTRIBUTE] = target
    chosen = {AUTOTUNE: autotune, DETERMINISTIC: deterministic, TF32: tf32}
    module.attributes |= {name: UnitAttr() for name, is_set in chosen.items() if is_set}


Target = Dialect("target", [], [CpuAttr, GpuAttr])
