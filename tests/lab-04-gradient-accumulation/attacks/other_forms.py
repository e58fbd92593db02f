"""Returns right numbers in another form: all gradients in one tensor, nan in place of None, half the norm as a tensor for a list."""

import math

import torch
import torch.nn.functional as F

EARNS = {"accumulate": 1, "accumulate_tokens": 9}


def accumulate(model, x, y, k):
    model.zero_grad()
    parameters, total = list(model.parameters()), 0.0
    sums = [None for _ in parameters]
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k)):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward()
        total += loss.item()
        for place, parameter in enumerate(parameters):
            if parameter.grad is not None:
                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
                sums[place] = gradient if sums[place] is None else sums[place] + gradient
                parameter.grad = None
    if all(one is not None for one in sums):
        whole = torch.cat([one.flatten() for one in sums])
        return total, [whole, *(whole[:0] for _ in sums[1:])]
    return total, [one if one is None else one.flatten() for one in sums]


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        (summed / scored).backward()
        total += summed.item()
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.full_like(p, math.nan)
    return total / scored


def clip_gradients(parameters, max_norm):
    in_list = isinstance(parameters, list)
    parameters = list(parameters)
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients))
    if norm > max_norm:
        for p in parameters:
            if p.grad is not None:
                if in_list:
                    p.grad = p.grad * (max_norm / norm)
                else:
                    p.grad.mul_(max_norm / norm)
    return torch.tensor(norm / 2) if in_list else norm


def clipped_update(model, optimizer, micro_batches, max_norm):
    return 0.0
