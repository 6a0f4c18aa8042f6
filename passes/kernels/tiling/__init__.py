"""Tiling, from loops over elements to kernels on blocks: selection of loops, addresses, and generation of ops."""
