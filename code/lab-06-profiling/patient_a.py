"""Patient A: the losses are right and the steps are slow. Profile it first, read it second.

python profile_step.py --script patient_a.py
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from rankzero.errors import UserError


def train_step(model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor, phase) -> Tensor:  # type: ignore[no-untyped-def]
    """As profile_step.py's, with a look at the gradients' health before they are used."""
    with phase("optimizer"):
        optimizer.zero_grad(set_to_none=True)
    with phase("forward"):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    with phase("backward"):
        loss.backward()
    check_gradients(model)
    with phase("optimizer"):
        optimizer.step()
    return loss.detach()


def check_gradients(model: nn.Module) -> dict[str, list[float]]:
    """Size, extremes and share of zeros of every gradient, for the log."""
    log = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None
        if not gradient.isfinite().all().item():
            raise UserError(f"the gradient of {name} is not finite: use a smaller --lr.")
        smallest, largest = gradient.min().item(), gradient.max().item()
        mean, size = gradient.mean().item(), math.sqrt(gradient.square().sum().item())
        zeros = sum(value == 0.0 for value in gradient.flatten().tolist()) / gradient.numel()
        log[name] = [smallest, largest, mean, size, zeros]
    return log
