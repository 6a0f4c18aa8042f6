"""What operators mean, asked of PyTorch: the one door through which passes reach torch is ``torch_semantics``."""
