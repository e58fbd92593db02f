"""Augmentation and statistics of training pictures; never of pictures that validate."""

import numpy as np
import torch.nn.functional as F
from torch import Tensor


def shifted(picture: Tensor, random: np.random.Generator) -> Tensor:
    """Moves a picture, uint8 [C, S, S], by up to an eighth of its side in each direction; what enters is 0."""
    side, most = picture.shape[-1], picture.shape[-1] // 8
    top, left = random.integers(0, 2 * most + 1, size=2).tolist()
    return F.pad(picture, (most, most, most, most))[:, top : top + side, left : left + side]


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation of pictures, uint8 [N, C, H, W], by channel: each float32 [1, C, 1, 1]."""
    values = images.double() / 255
    mean, std = values.mean((0, 2, 3), keepdim=True), values.std((0, 2, 3), keepdim=True, correction=0)
    return mean.float(), std.float()
