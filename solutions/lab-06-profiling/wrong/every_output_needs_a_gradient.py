"""A hook is registered on every output. One that needs no gradient, that of a frozen layer, or any under no_grad,
refuses it with an error, and the forward pass fails because somebody looked."""

from contextlib import contextmanager

EXERCISE = "watch"
FAILS = (
    "watch/activation",
    "watch/gradient",
)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


@contextmanager
def watch(modules):
    log = {name: {"activation": [], "gradient": []} for name in modules}

    def hook_for(name):
        def hook(module, inputs, output):
            log[name]["activation"].append(output.detach().square().mean().sqrt())
            output.register_hook(lambda gradient: log[name]["gradient"].append(gradient.norm()))

        return hook

    handles = [module.register_forward_hook(hook_for(name)) for name, module in modules.items()]
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
