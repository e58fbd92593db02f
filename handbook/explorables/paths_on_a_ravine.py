"""Explorable: the paths of SGD, momentum and Adam on a ravine, by rate."""

from math import sqrt

UPDATES = 50
START = (-1.0, 0.2)  # along, across


def descend(optimizer: str, rate: float, momentum: float, curvature: float, weight: float) -> list[float]:
    """Returns a weight before and after each of UPDATES steps down curvature · weight² / 2, as torch.optim steps.

    Adam has beta1 = `momentum`, beta2 = 0.999 and eps = 1e-8; SGD has no momentum. On a ravine whose axes are those of
    the weights, each weight descends by itself.
    """
    points = [weight]
    average, square = 0.0, 0.0
    for update in range(1, UPDATES + 1):
        gradient = curvature * weight
        if optimizer == "Adam":
            average = momentum * average + (1 - momentum) * gradient
            square = 0.999 * square + 0.001 * gradient**2
            size = sqrt(square / (1 - 0.999**update)) + 1e-8
            weight = weight - rate * (average / (1 - momentum**update)) / size
        else:
            average = gradient + (momentum * average if optimizer == "momentum" else 0)
            weight = weight - rate * average
        points.append(weight)
    return points


FORMULAS = (descend,)
DATA = {"start": START}
