"""Semantics of operators, obtained from PyTorch: ``torch_semantics`` is the only module through which passes reach torch."""
