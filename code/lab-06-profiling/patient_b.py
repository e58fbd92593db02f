"""Patient B: the losses are right and the steps are slow. Profile it first, read it second.

python profile_step.py --script patient_b.py
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


def train_step(model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor, phase) -> Tensor:  # type: ignore[no-untyped-def]
    """As profile_step.py's, with the loss of every token at hand."""
    with phase("optimizer"):
        optimizer.zero_grad(set_to_none=True)
    with phase("forward"):
        logits = model(x)  # [B, T, V]
        losses = []
        for sequence in range(x.shape[0]):
            for position in range(x.shape[1]):
                losses.append(F.cross_entropy(logits[sequence, position], y[sequence, position]))
        loss = torch.stack(losses).mean()
    with phase("backward"):
        loss.backward()
    with phase("optimizer"):
        optimizer.step()
    return loss.detach()
