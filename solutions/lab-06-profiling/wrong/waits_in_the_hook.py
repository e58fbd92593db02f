"""`.item()` makes each note a Python number at once, and Python waits until the device has computed it. In every
module, in every step: the monitor has become the bottleneck. Keep the scalar tensor; whoever reads it later waits
once."""

from contextlib import contextmanager

EXERCISE = "watch"
FAILS = ("watch/no-wait",)
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
    with watching(modules, lambda output: output.detach().square().mean().sqrt().item()) as log:
        yield log
