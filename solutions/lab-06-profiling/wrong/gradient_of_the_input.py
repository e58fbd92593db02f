"""A full backward hook gets two gradients: `grad_input`, which the module passes on, and `grad_output`, which arrives
at it. The first belongs to the module's input, the output of the one before."""

import warnings
from contextlib import contextmanager

EXERCISE = "watch"
FAILS = ("watch/gradient",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


@contextmanager
def watch(modules):
    warnings.simplefilter("ignore")
    log = {name: {"activation": [], "gradient": []} for name in modules}

    def forward_hook_for(name):
        return lambda module, inputs, output: log[name]["activation"].append(output.detach().square().mean().sqrt())

    def backward_hook_for(name):
        def hook(module, grad_input, grad_output):
            if grad_input[0] is not None:
                log[name]["gradient"].append(grad_input[0].norm())

        return hook

    handles = [module.register_forward_hook(forward_hook_for(name)) for name, module in modules.items()]
    handles += [module.register_full_backward_hook(backward_hook_for(name)) for name, module in modules.items()]
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
