"""All hooks of the modules are cleared, those of others too: of a profiler, of FSDP, of the watch around this one.
Remove what you have registered, by its handle."""

from contextlib import contextmanager

EXERCISE = "watch"
FAILS = ("watch/removed",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def notes_for(notes):
    def hook(module, inputs, output):
        notes["activation"].append(output.detach().square().mean().sqrt())
        if output.requires_grad:
            output.register_hook(lambda gradient: notes["gradient"].append(gradient.norm()))

    return hook


@contextmanager
def watch(modules):
    log = {name: {"activation": [], "gradient": []} for name in modules}
    for name, module in modules.items():
        module.register_forward_hook(notes_for(log[name]))
    try:
        yield log
    finally:
        for module in modules.values():
            module._forward_hooks.clear()
