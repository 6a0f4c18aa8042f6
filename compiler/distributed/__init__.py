"""Training on a device mesh: layouts of models, process groups, and the convolution that DTensor lacks."""

from fxc.distributed.convolution import correct_convolutions
from fxc.distributed.group import process_group
from fxc.distributed.layouts import (
    LAYOUTS,
    Distributed,
    StackedColwiseParallel,
    data_parallel,
    fully_sharded,
    replicated,
    spatial,
    tensor_parallel,
)

__all__ = [
    "LAYOUTS",
    "Distributed",
    "StackedColwiseParallel",
    "correct_convolutions",
    "data_parallel",
    "fully_sharded",
    "process_group",
    "replicated",
    "spatial",
    "tensor_parallel",
]
