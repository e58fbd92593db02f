"""The line after `yield` is not reached when the block raises. The hooks then stay after an out-of-memory error or a
Ctrl-C, which is when you go on in a notebook with the same model. `finally` is reached in every case."""

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
    handles = [module.register_forward_hook(notes_for(log[name])) for name, module in modules.items()]
    yield log
    for handle in handles:
        handle.remove()
