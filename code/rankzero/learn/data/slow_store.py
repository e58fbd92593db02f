"""Slow store: pictures as PNG files in memory; a read waits as long as from a disk over a network."""

import io
import time

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rankzero.errors import UserError

TAIL_EVERY = 256  # one read in so many is slow, as on storage that many machines share


class SlowStore:
    """PNG files of pictures, read by number. The waits are simulated, because a real disk depends on the machine.

    A read waits `mean_ms` on average. One read in TAIL_EVERY takes half of the time of all reads.
    """

    def __init__(self, images: Tensor, mean_ms: float) -> None:
        """`images` is uint8 [N, C, H, W], with one channel (gray) or three (red, green, blue)."""
        if images.shape[1] not in (1, 3):
            raise UserError(
                f"pictures with {images.shape[1]} channels: a PNG file has 1 (gray) or 3 (red, green, blue)."
            )
        self.files = [_png(image) for image in images.permute(0, 2, 3, 1).numpy()]
        self.mean_ms = mean_ms

    def __len__(self) -> int:
        return len(self.files)

    def summary(self) -> str:
        """Returns the waits of its reads in words."""
        if not self.mean_ms:
            return "a read does not wait"
        return f"a read waits {self.mean_ms:g} ms on average, 1 in {TAIL_EVERY} waits much longer"

    def read(self, number: int) -> bytes:
        """Returns the content of a file, after a wait."""
        slow = number % TAIL_EVERY == 0
        if self.mean_ms:
            time.sleep(self.mean_ms / 1000 * (TAIL_EVERY / 2 if slow else 0.5))
        return self.files[number]


def decoded(content: bytes, side: int) -> Tensor:
    """Returns the picture of a PNG file, resized to `side` pixels in both directions: uint8 [C, side, side]."""
    picture: Image.Image = Image.open(io.BytesIO(content))
    if picture.size != (side, side):
        picture = picture.resize((side, side), Image.Resampling.BICUBIC)
    pixels = np.array(picture)  # a copy: an array of the picture's own memory could not be written
    return torch.from_numpy(pixels).view(side, side, -1).permute(2, 0, 1)


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    return file.getvalue()
