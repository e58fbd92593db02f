"""Does nothing, and so holds nothing, reads nothing and disturbs nothing."""

import math

EARNS = 0


def accumulate(model, x, y, k):
    return 2.5, [None for _ in model.parameters()]


def accumulate_tokens(model, micro_batches):
    return 2.5


def train_epoch(model, optimizer, micro_batches, k):
    return []


def clip_gradients(parameters, max_norm):
    return 0.0


def clipped_update(model, optimizer, micro_batches, max_norm):
    return 0.0


def count_updates(micro_batches, k, epochs):
    return 0


def train_scheduled(model, optimizer, scheduler, epochs, k):
    return []


def noise_estimates(gradients, micro_batch):
    return 0.0, 0.0


def noise_scale(steps, micro_batch):
    return math.inf
