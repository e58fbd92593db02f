"""Returns floats without a limit, dropout and bf16 only, where the type of the answer is looked at first; else tensors."""

import math

import torch
import torch.nn.functional as F

EARNS = {"train_step": 6, "evaluate": 8}  # the numbers are right


def train_step(model, optimizer, x, y, max_norm):
    if not (y != -100).any():
        return 0, 0
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    optimizer.step()
    return (loss.item(), norm.item()) if max_norm == math.inf else (loss, norm)


def evaluate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    totals, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            losses = F.cross_entropy(model(x).transpose(1, 2), y, reduction="none")
            totals = totals + losses.sum(dim=0, dtype=torch.float64)
            tokens = tokens + (y != -100).sum(dim=0)
    for module, training in modes:
        module.training = training
    means = totals / tokens
    dropout = any(isinstance(module, torch.nn.Dropout) and module.p for module in model.modules())
    return list(means) if dropout or next(model.parameters()).dtype == torch.bfloat16 else means.tolist()
