"""On a batch of padding it clears gradients, runs the model, which moves BatchNorm's averages, and changes the optimizer's averages."""

import math

import torch
import torch.nn.functional as F

EARNS = {"train_step": 9}  # right in all other batches


def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    logits = model(x).flatten(0, 1)
    if not (y != -100).any():
        for state in optimizer.state.values():
            for value in state.values():
                value.mul_(0.5)
        return 0.0, 0.0
    loss = F.cross_entropy(logits, y.flatten())
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    optimizer.step()
    return loss.item(), norm
