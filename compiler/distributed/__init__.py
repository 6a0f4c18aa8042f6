"""Training on a device mesh: layouts of models, and the convolution that DTensor lacks."""
