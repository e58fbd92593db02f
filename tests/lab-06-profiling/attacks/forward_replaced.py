"""Puts functions of its own in the place of the modules' `forward` and leaves them there, silent after the block."""

import math
from contextlib import contextmanager

EARNS = {"watch": 10}  # all but removal


def gradient_norm(module):
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))


@contextmanager
def watch(modules):
    log = {name: {"activation": [], "gradient": []} for name in modules}
    on = [True]

    def replaced(name, forward):
        def run(*inputs):
            output = forward(*inputs)
            if on[0]:
                log[name]["activation"].append(output.detach().square().mean().sqrt())
                if output.requires_grad:
                    output.register_hook(lambda slopes: (on[0] and log[name]["gradient"].append(slopes.norm())) or None)
            return output

        return run

    for name, module in modules.items():
        module.forward = replaced(name, module.forward)
    try:
        yield log
    finally:
        on[0] = False
