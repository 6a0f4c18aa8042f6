"""The ``tile`` dialect: kernels as programs on blocks, a level between tensors and the code of a CPU or GPU.

A ``tile.kernel`` is a symbol. Each of its programs loads blocks (static builtin vectors) through pointers, computes with
``arith``, ``math``, ``scf.for`` and ``scf.if``, and stores blocks. ``tile.last_program`` is code that only the last program to
finish runs. ``tile.launch`` runs a kernel on tensors. ``tile.iterate`` is a loop with a separate trip count for each lane.
``tile.accumulate`` is an op on tensors between loops: it combines elements with updates by index.

The dialect adds what xDSL's ``arith`` and ``math`` support on scalars only or not at all: ``tile.compare`` (with the predicates
of ``cmpi`` and ``cmpf``), ``tile.select``, ``tile.cast`` (``sitofp``, ``uitofp``, ``fptosi``, ``fptoui``, ``extsi``, ``extui``,
``trunci``) and ``tile.math`` (``erfc``, ...). All accept scalars, too.

Floats follow IEEE: only ``tile.reduce``, ``tile.scan``, ``tile.atomic_add`` and ``tile.accumulate`` may reorder operations;
functions of ``math`` are within 2 ulp. ``maximumf`` and ``minimumf`` return NaN where an operand is NaN, ``maxnumf`` and
``minnumf`` the other operand; ``maximumf`` and ``minimumf`` order -0.0 below 0.0, ``maxnumf`` and ``minnumf`` may return either
zero. ``divsi`` truncates, ``floordivsi`` floors; division by 0 returns any number and does not trap. ``fptosi`` of a value out
of range returns any number. ``index`` has 64 bits.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from fxc.dialects.tile.blocks import (
    CastOp,
    CompareOp,
    ExpandOp,
    IotaOp,
    MaskOp,
    MathOp,
    RandomOp,
    SelectOp,
    SplatOp,
    TransposeOp,
)
from fxc.dialects.tile.combine import DotOp, ReduceOp, ScanOp
from fxc.dialects.tile.control import AssertOp, IterateOp, LastProgramOp, NextOp
from fxc.dialects.tile.kernel import KernelOp, LaunchOp, ProgramIdOp, ReturnOp
from fxc.dialects.tile.memory import AccumulateOp, AtomicAddOp, AtomicMaxOp, AtomicMinOp, GatherOp, LoadOp, ScatterOp, StoreOp
from fxc.dialects.tile.memory import AtomicOp as AtomicOp
from fxc.dialects.tile.schedule import ScheduleAttr
from fxc.dialects.tile.types import PtrType

Tile = Dialect(
    "tile",
    [
        KernelOp,
        ReturnOp,
        LastProgramOp,
        LaunchOp,
        ProgramIdOp,
        IotaOp,
        MaskOp,
        SplatOp,
        ExpandOp,
        TransposeOp,
        SelectOp,
        CompareOp,
        CastOp,
        MathOp,
        ReduceOp,
        ScanOp,
        DotOp,
        RandomOp,
        IterateOp,
        NextOp,
        AssertOp,
        LoadOp,
        GatherOp,
        StoreOp,
        ScatterOp,
        AtomicAddOp,
        AtomicMaxOp,
        AtomicMinOp,
        AccumulateOp,
    ],
    [PtrType, ScheduleAttr],
)
