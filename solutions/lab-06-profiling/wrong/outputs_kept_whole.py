"""The outputs themselves are kept, to be looked at later. They are the activations, the largest thing in memory; a
single number of each was asked for."""

from contextlib import contextmanager

EXERCISE = "watch"
FAILS = ("watch/activation",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


@contextmanager
def watching(modules, note):
    log = {name: {"activation": [], "gradient": []} for name in modules}

    def hook_for(name):
        def hook(module, inputs, output):
            log[name]["activation"].append(note(output))
            if output.requires_grad:
                output.register_hook(lambda gradient: log[name]["gradient"].append(gradient.norm()))

        return hook

    handles = [module.register_forward_hook(hook_for(name)) for name, module in modules.items()]
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watch(modules):
    with watching(modules, lambda output: output.detach()) as log:
        yield log
