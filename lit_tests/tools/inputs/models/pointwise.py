"""A model that one kernel computes."""

import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * y - 1)


def get_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3, 5), torch.full((3, 5), 4.0)
