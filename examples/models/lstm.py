"""An LSTM language model, from Zaremba et al., "Recurrent Neural Network Regularization" (2014).
The defaults are that paper's medium model for the Penn Treebank."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    """Maps token ids (batch, tokens) to the next token's logits (batch, tokens, vocab)."""

    def __init__(self, *, vocab: int = 10000, width: int = 650, layers: int = 2, dropout: float = 0.5) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids: Tensor) -> Tensor:
        x, _ = self.lstm(self.dropout(self.tokens(ids)))
        return self.head(self.dropout(x))


def get_inputs(*, batch: int = 20, tokens: int = 35, vocab: int = 10000) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(vocab, (batch, tokens), generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    return Model(vocab=61, width=16, layers=2), get_inputs(batch=3, tokens=6, vocab=61)
