"""The rows of all steps are put into one large batch. Between two steps the weights have moved, so their gradients
differ for another reason than noise, and that difference is counted as noise. Estimate in each step, then average."""

import math

import torch

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    signal, noise = noise_estimates(torch.cat(list(steps)), micro_batch)  # noqa: F821
    return noise / signal if signal > 0 else math.inf
