"""An exception in the block ends there. Whoever runs the block believes that the step worked, and trains on. Clean up
in `finally`, and let the exception pass."""

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
    try:
        yield log
    except Exception:
        pass
    finally:
        for handle in handles:
            handle.remove()
