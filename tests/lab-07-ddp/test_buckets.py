"""Buckets of the exercise `make_buckets`: the groups that DDP's own function makes of the same parameters."""

import random

import pytest
import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load


@pytest.mark.parametrize("seed", range(40))
def test_the_buckets_are_ddps(seed: int) -> None:
    draw = random.Random(seed)
    dtypes = [draw.choice([torch.float32, torch.float64, torch.bfloat16]) for _ in range(draw.randrange(1, 12))]
    parameters = [nn.Parameter(torch.zeros(draw.choice([1, 3, 5, 10]), dtype=dtype)) for dtype in dtypes]
    cap = draw.choice([1, 20, 40, 80, 10**6])
    place = {parameter: number for number, parameter in enumerate(parameters)}
    buckets = load(find_lab("07").reference).make_buckets(parameters, cap)
    ready = list(range(len(parameters)))[::-1]  # the order in which backward completes the gradients
    tensors: list[Tensor] = [parameters[n] for n in ready]
    of_ddp, _ = _compute_bucket_assignment_by_size(tensors, [cap], [False] * len(ready), ready)
    # DDP leaves the order of the buckets that stay open undefined.
    assert sorted([place[parameter] for parameter in bucket] for bucket in buckets) == sorted(map(list, of_ddp))
