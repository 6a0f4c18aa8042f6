"""The ``tile`` dialect: kernels as programs on blocks, between tensors and what a CPU or GPU runs.

A ``tile.kernel`` is a symbol; each of its programs loads blocks (static builtin vectors) through pointers, computes with
``arith``, ``math``, ``scf.for`` and ``scf.if``, and stores blocks. ``tile.last_program`` is what the last of them does for all.
``tile.launch`` runs it on tensors. ``tile.iterate`` is a loop of as many steps as each lane says. ``tile.accumulate`` stands
between loops on tensors: it says where what they compute is added.

What xDSL's ``arith`` and ``math`` have on scalars only, or not at all, is here: ``tile.compare`` (with the predicates of
``cmpi`` and ``cmpf``), ``tile.select``, ``tile.cast`` (``sitofp``, ``uitofp``, ``fptosi``, ``fptoui``, ``extsi``, ``extui``,
``trunci``) and ``tile.math`` (``erfc``, ...). All take scalars, too.

Floats are IEEE's: nothing is reordered but within ``tile.reduce``, ``tile.scan``, ``tile.atomic_add`` and
``tile.accumulate``; functions of ``math`` are within 2 ulp; ``maximumf`` and ``minimumf`` give NaN where an operand is one,
``maxnumf`` and ``minnumf`` the other operand; of zeros ``maximumf`` and ``minimumf`` take -0.0 as below 0.0, ``maxnumf`` and
``minnumf`` either. ``divsi`` truncates, ``floordivsi`` floors; by 0 they give any number, and do not trap. ``fptosi`` of what
does not fit gives any number. ``index`` has 64 bits.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from fxc.dialects.tile.accumulation import AccumulateOp
from fxc.dialects.tile.blocks import (
    CastOp,
    CompareOp,
    IotaOp,
    MaskOp,
    MathOp,
    RandomOp,
    SelectOp,
    SplatOp,
    TransposeOp,
)
from fxc.dialects.tile.checks import AssertOp
from fxc.dialects.tile.combine import DotOp, ReduceOp, ScanOp
from fxc.dialects.tile.iteration import IterateOp, NextOp
from fxc.dialects.tile.kernel import KernelOp, LaunchOp, ProgramIdOp, ReturnOp
from fxc.dialects.tile.last_program import LastProgramOp
from fxc.dialects.tile.memory import AtomicAddOp, AtomicMaxOp, AtomicMinOp, GatherOp, LoadOp, ScatterOp, StoreOp
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
