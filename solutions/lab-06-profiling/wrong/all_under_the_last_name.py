"""Every hook is made in the same loop and looks its name up when it runs. By then the loop has ended, and the name is
the last one: all notes are under that. Make each hook in a function of its own, which remembers its argument."""

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
    handles = []
    for name, module in modules.items():

        def hook(module, inputs, output):
            log[name]["activation"].append(output.detach().square().mean().sqrt())  # noqa: B023
            if output.requires_grad:
                output.register_hook(lambda gradient: log[name]["gradient"].append(gradient.norm()))  # noqa: B023

        handles.append(module.register_forward_hook(hook))
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()
