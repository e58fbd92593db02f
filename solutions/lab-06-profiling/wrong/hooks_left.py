"""The hooks stay. Each later forward pass runs them, and each later watch adds more: the run slows down, step by step,
and the notes grow without end. Keep the handles, and remove them."""

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
    yield log
