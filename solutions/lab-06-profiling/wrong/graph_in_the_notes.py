"""The root mean square is computed on the output as it is, so autograd takes part: each note is the end of a graph that
leads back to the activations of its step. As long as the note is there, they are too, and memory grows with every
step."""

from contextlib import contextmanager

EXERCISE = "watch"
FAILS = ("watch/nothing-kept",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


@contextmanager
def watch(modules):
    log = {name: {"activation": [], "gradient": []} for name in modules}

    def hook_for(name):
        def hook(module, inputs, output):
            log[name]["activation"].append(output.square().mean().sqrt())
            if output.requires_grad:
                output.register_hook(lambda gradient: log[name]["gradient"].append(gradient.norm()))

        return hook

    handles = [module.register_forward_hook(hook_for(name)) for name, module in modules.items()]
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
