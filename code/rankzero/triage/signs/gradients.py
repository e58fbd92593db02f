"""Signs of gradients: when they are cleared, added up and clipped, and which parameters get them."""

from collections.abc import Iterator

from rankzero.triage.record import Layer, Model, Record, Step
from rankzero.triage.signs.sign import Sign, named, sign_if

FEWEST = 3  # updates on which a sign is based
MOST = 0.5  # share of the updates from which on a sign is a finding
NOTHING = 1e-12
AVERAGED = (0.9, 1.1)  # sum of the shares with which the micro-batches of an update count


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of each trained model."""
    for model in record.models:
        if len(model.steps) >= FEWEST:
            yield from _clearing(model)
            yield from _adding_up(model.steps)
            yield from _clipping(model.steps)
        yield from _parameters(model)


def _clearing(model: Model) -> Iterator[Sign]:
    later = [step for step in model.steps[1:] if step.stale is not None]
    stale = [step for step in later if (step.stale or 0) > NOTHING]
    if later:
        yield sign_if(
            len(stale) >= max(MOST * len(later), FEWEST),
            "gradients before backward",
            f"gradients of an earlier update before {len(stale)} of {len(later)} backward passes",
            "none, or zeros",
            "gradients-not-cleared",
            _place(stale),
        )
    moved = [step for step in model.steps if (step.arrived or 0) > NOTHING and step.used is not None]
    lost = [step for step in moved if (step.used or 0) <= NOTHING]
    if moved:
        yield sign_if(
            len(lost) >= MOST * len(moved),
            "gradients at the update",
            f"{len(moved) - len(lost)} of {len(moved)} updates have the gradients that backward made",
            "every update",
            "gradients-cleared-early",
            _place(lost),
        )


def _place(steps: list[Step]) -> str:
    return steps[0].backward_place if steps else ""


def _adding_up(steps: list[Step]) -> Iterator[Sign]:
    several = [
        step for step in steps if step.backward_calls > 1 and step.backward_place and step.loss_share is not None
    ]
    if len(several) >= FEWEST:
        # a share of nearly 1 per backward call: the mean loss itself; other factors may be meant
        whole = [step for step in several if abs((step.loss_share or 0) / step.backward_calls - 1) < 0.02]
        share = sorted(step.loss_share or 0 for step in several)[len(several) // 2]
        yield sign_if(
            len(whole) >= MOST * len(several),
            "sum over micro-batches",
            f"{several[0].backward_calls} backward passes per update, which count {share:.2f} times the mean loss",
            "1.00 times the mean loss",
            "accumulation-not-averaged",
            several[0].backward_place,
        )


def _clipping(steps: list[Step]) -> Iterator[Sign]:
    clipped = [step for step in steps if step.clips]
    if len(clipped) >= FEWEST:
        late = [step for step in clipped if "before update" not in step.clips]
        moments = named(sorted({moment for step in late for moment in step.clips}))
        yield sign_if(
            len(late) >= MOST * len(clipped),
            "moment of clipping",
            f"{moments}, {len(late)} of {len(clipped)} times" if late else "before the update",
            "after backward and unscale_, before the update",
            "clipping-in-wrong-place",
            _place(late),
        )


def _parameters(model: Model) -> Iterator[Sign]:
    layers = [layer for layer in model.layers if layer.backward_calls >= FEWEST]
    if layers:
        cut = [layer.name for layer in layers if layer.called and layer.in_optimizer and not layer.gradients]
        yield _share(
            layers, cut, model, "gradients by layer", "got none", "a gradient for every parameter", "graph-cut"
        )
    left = [layer.name for layer in layers if _is_left_out(layer)]
    if layers and (model.steps or left):
        expected = "every parameter that gets a gradient"
        yield _share(
            layers, left, model, "parameters in an optimizer", "are in none", expected, "parameters-not-in-optimizer"
        )


def _share(
    layers: list[Layer], ill: list[str], model: Model, looked_at: str, fault: str, expected: str, cause: str
) -> Sign:
    """Returns a sign on some of a model's parameters, which are named."""
    saw = f"{len(ill)} of {len(layers)} parameters of {model.name} {fault}" + (f": {named(ill)}" if ill else "")
    return sign_if(bool(ill), looked_at, saw, expected, cause, ill[0] if ill else "")


def _is_left_out(layer: Layer) -> bool:
    return layer.gradients >= FEWEST and not layer.in_optimizer and layer.changed is False
