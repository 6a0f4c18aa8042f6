"""``tile`` kernels as Triton: source that people can read, binaries made without a GPU, and a simulator of the source.

printer.py         tile.kernel -> KernelSource, one file of Python
ahead_of_time.py   KernelSource -> CompiledKernel for a named target
simulator.py       runs a KernelSource on torch tensors, with checks; needs neither Triton nor a GPU
"""
