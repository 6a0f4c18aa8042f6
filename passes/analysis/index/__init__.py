"""Index arithmetic: exact expressions for the positions of elements over loops and sizes, their ranges and affine maps."""
