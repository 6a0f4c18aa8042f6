"""What operators mean, asked of PyTorch: the one door through which passes reach torch is ``torch_semantics``."""

import fxc.bridge.random_numbers  # noqa: F401  # registers fxc::uniform
