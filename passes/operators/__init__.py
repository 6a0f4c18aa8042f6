"""What PyTorch's operators compute, element by element: tables by family, from operator to formula."""
