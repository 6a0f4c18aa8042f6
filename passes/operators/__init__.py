"""Tables of PyTorch's operators by family: the formula of an element, the decomposition, and other facts."""
