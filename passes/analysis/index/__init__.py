"""Index arithmetic: places of elements as exact expressions over loops and sizes, what they may be, and their affine maps."""
