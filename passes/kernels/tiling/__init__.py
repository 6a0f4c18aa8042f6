"""From loops over elements to kernels on blocks: which loops make one kernel, where elements lie, and the ops."""
