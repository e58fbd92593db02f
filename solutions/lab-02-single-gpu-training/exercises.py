"""Lab 02, exercises: the training loop, written by hand.

Five exercises, in the order of the page. Each is one function (the last one, two) with a contract in its docstring.
Replace the line that raises NotImplementedError; keep the signatures. B = sequences a batch, T = tokens a sequence,
V = tokens in the vocabulary.

    rankzero check 02                  # all of them
    rankzero check 02 train_step       # one
    rankzero hint 02 train_step        # when stuck
"""

import math
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


def train_step(model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor) -> float:
    """One update of `model` on one batch.

    `model` maps token ids int64 [B, T] to logits [B, T, V]; `x` and `y` are int64 [B, T], `y` the token after each `x`.
    The update follows this batch's gradient, however large, and it alone: gradients that are there from before must not
    count. The model stays in the mode it is in.

    Returns the loss before the update, a Python float: the mean cross-entropy over the B*T tokens, in nats.
    Read: handbook/training-loop.md
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Mean loss of `model` over all tokens of `batches`, without training it.

    Each batch is a pair of int64 [B, T]; B may differ from batch to batch. Dropout is off while this runs, nothing is
    kept for a backward pass, and afterwards everything is as it was found: the model's mode (training or evaluation),
    its weights, which of them are frozen, their gradients, torch's random generator, and whether gradients are on.

    Returns nats a token, a Python float, every token counting the same. Read: handbook/forward-pass.md, "Two switches"
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            tokens += y.numel()
    model.train(was_training)
    return total / tokens
    ### END SOLUTION


def learning_rate(step: int, peak: float, warmup_steps: int, total_steps: int, floor: float) -> float:
    """The rate of step 0, 1, 2, ...: a linear warm-up to `peak`, then a cosine down to `floor`.

    The `warmup_steps` steps 0 ... warmup_steps - 1 rise in equal parts: the first already learns, with
    peak / warmup_steps, and the last one has `peak`. Step `warmup_steps` has `peak` too: there the cosine begins. It
    ends at step `total_steps` with `floor`, and every later step has `floor`. `warmup_steps` may be 0.

    Read: handbook/training-loop.md, "Around the step"
    """
    ### BEGIN SOLUTION
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
    ### END SOLUTION


def overfit_one_batch(model: nn.Module, x: Tensor, y: Tensor, lr: float, target: float, max_steps: int) -> list[float]:
    """Trains `model` on this one batch until it knows it by heart: the first test of any new training loop.

    Uses one AdamW with rate `lr` and its other settings as they are. Takes at most `max_steps` steps, and no further
    step once a loss is below `target`. The model is trained in place, in the mode it is in.

    Returns the losses in nats, one a step, each from before that step's update; the last one is the first below
    `target`, if any is. Its own update still happens. Read: handbook/training-loop.md, "The order is the algorithm"
    """
    ### BEGIN SOLUTION
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses: list[float] = []
    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        losses.append(train_step(model, optimizer, x, y))
    return losses
    ### END SOLUTION


def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, step: int) -> None:
    """Saves in `path` everything that the steps after `step` depend on, so that `load_checkpoint` can go on exactly.

    The model may contain dropout, which draws from torch's CPU generator. Saving changes nothing: the run that saves
    goes on as if it had not. The file replaces one that is there. It holds tensors and plain values only, so that
    `torch.load` reads it with `weights_only=True`. Read: handbook/training-loop.md, "Around the step"
    """
    ### BEGIN SOLUTION
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "rng": torch.get_rng_state(),
    }
    torch.save(state, path)
    ### END SOLUTION


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Puts what `save_checkpoint` saved into `model`, `optimizer` and torch's CPU generator, and returns the step.

    `model` and `optimizer` are of the same kind as those saved, freshly made, the optimizer perhaps with other
    settings. After this the run goes on as if it had never stopped: the same losses, bit for bit. A file that does not
    open with `weights_only=True` is refused.
    """
    ### BEGIN SOLUTION
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    return int(state["step"])
    ### END SOLUTION
