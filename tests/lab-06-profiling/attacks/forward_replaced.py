"""Puts functions of its own in the place of the modules' `forward` and leaves them there, silent after the end."""

import torch

ON, EARNS = "reference", 56  # all but removal


def note(module, activations, gradients):
    on = [True]
    forward = module.forward

    def wide(tensor):
        return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))

    def run(*inputs):
        output = forward(*inputs)
        if on[0]:
            activations.append(wide(output).square().mean().sqrt())
            if output.requires_grad:
                output.register_hook(lambda gradient: (on[0] and gradients.append(wide(gradient).norm())) or None)
        return output

    module.forward = run
    return lambda: on.__setitem__(0, False)
