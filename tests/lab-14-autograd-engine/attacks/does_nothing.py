"""Does nothing, and so changes nothing: no array, no gradient, no hook."""

import contextlib

import numpy as np

EARNS = {
    "topological_order": 1,  # of a root without parents
    "clip_layer_gradient": 1,  # gradients below the limit stay as they are
}


def passed_on(a, *others, **settings):
    return Value(a.data, (a,), lambda g: (g,))  # noqa: F821


power = exp = tanh = relu = sum_over = cross_entropy = passed_on


def add(a, b):
    return Value(a.data, (a, b), lambda g: (g, g))  # noqa: F821


multiply = matmul = add


def topological_order(root):
    return [root]


def unbroadcast(gradient, shape):
    return gradient


def backward(root):
    pass


def gradient_check(function, arrays, step=1e-6):
    return 0.0


def layer_statistics(model, *inputs):
    return []


@contextlib.contextmanager
def clip_layer_gradient(layer, max_norm):
    yield []


@contextlib.contextmanager
def patch_activations(block, replacement, positions=None):
    yield None
