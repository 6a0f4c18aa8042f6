"""Random programs at the level of PyTorch, compared with eager: ``python -m tests.fuzz --seconds 60``."""
