"""Image classifiers that read in one sitting: a small convolutional network and a multi-layer perceptron.

Both turn pictures [B, C, H, W] into logits [B, K], a score for each of K classes.
"""

from torch import nn


def small_cnn(channels: int, classes: int) -> nn.Sequential:
    """Returns a network of two convolutions for pictures of at least 8 x 8 pixels.

    A convolution applies the same 3 x 3 weights everywhere, so a stroke that has moved is still recognized.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),  # [B, 32, H, W]
        nn.ReLU(),
        nn.MaxPool2d(2),  # [B, 32, H/2, W/2]
        nn.Conv2d(32, 64, 3, padding=1),  # [B, 64, H/2, W/2]
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(4),  # [B, 64, 4, 4]
        nn.Flatten(),
        nn.Linear(64 * 16, classes),
    )


def small_mlp(channels: int, side: int, classes: int) -> nn.Sequential:
    """Returns a network of two layers for pictures of side x side pixels, each pixel with weights of its own."""
    return nn.Sequential(
        nn.Flatten(),  # [B, C*H*W]
        nn.Linear(channels * side**2, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
