"""Each call replaces the note of the one before. A module that is called twice in a step, or watched for two steps,
leaves one note; that the first was different nobody sees."""

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
            log[name]["activation"] = [output.detach().square().mean().sqrt()]
            if output.requires_grad:
                output.register_hook(lambda gradient: log[name].update(gradient=[gradient.norm()]))

        return hook

    handles = [module.register_forward_hook(hook_for(name)) for name, module in modules.items()]
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
