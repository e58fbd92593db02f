"""The text, the model and the losses that the claims of handbook/regularization.md share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.models.gpt import GPT, GPTConfig

V, T = 16, 16  # letters of the source; predictions per line


def _source() -> Tensor:
    """Returns the probabilities of each letter's successors, [V, V]."""
    generator = torch.Generator().manual_seed(0)
    return (1.5 * torch.randn(V, V, generator=generator, dtype=torch.float64)).softmax(-1)


def _write(lines: int, seed: int) -> Tensor:
    """Returns lines of T + 1 letters from the source, int64 [lines, T + 1]."""
    draws = torch.rand(T + 1, lines, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    follow, letters = _source(), [(V * draws[0]).long()]
    for draw in draws[1:]:
        letters.append((follow[letters[-1]].cumsum(-1) < draw[:, None]).sum(-1).clamp(max=V - 1))
    return torch.stack(letters, dim=1)


def _loss(model: nn.Module, text: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten(), label_smoothing=smoothing)


@torch.no_grad()
def _score(model: nn.Module, text: Tensor) -> float:
    """Returns the plain loss in eval mode, in nats; the model is left in train mode."""
    model.eval()
    loss = _loss(model, text).item()
    model.train()
    return loss


def _model(dropout: float = 0.0) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(V, block_size=T, n_layer=1, n_head=2, hidden_dim=32, dropout=dropout)).double()
