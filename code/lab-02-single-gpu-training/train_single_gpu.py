"""Lab 02: train a small GPT on one device, with nothing hidden.

Read it from top to bottom. The lesson is `train_step`, and the loop in `train` that calls it. What comes from
rankzero.learn is not the lesson: the text, the model, the meter. B = sequences per batch, T = tokens per sequence,
V = tokens in the vocabulary.

    python train_single_gpu.py                                                # under a minute on two CPU cores
    python train_single_gpu.py --steps 50 --batch-size 64 --hidden-dim 128
    python train_single_gpu.py --resume --steps 1200                          # goes on where the newest run stopped
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory, check_fits
from rankzero.learn.runs.checkpoints import check_same_run
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.run_folder import check_new_file, new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, run_starter, training_parser

LAB = "lab-02"


def make_parser() -> StarterParser:
    return training_parser("Lab 02: train a small GPT on one device, with nothing hidden.")


# ----------------------------------------------------------------------------------------------------------- one step
def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    after: Callable[[str], None] = lambda phase: None,
) -> Tensor:
    """One update of the model. `x` and `y` are int64 [B, T]; returns the loss before the update, in nats per token.

    `after` is called with a phase's name when that phase ends; the run measures memory there.
    """
    optimizer.zero_grad(set_to_none=True)  # or backward adds to the last step's gradients

    logits = model(x)  # [B, T, V]; autograd keeps what backward needs: the activations
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mean over the B*T tokens
    after("forward")

    loss.backward()  # fills p.grad of every parameter, and frees the activations
    after("backward")

    optimizer.step()  # the first time, AdamW makes its two averages per parameter
    after("update")
    return loss.detach()  # without its graph: a kept loss would keep the graph's nodes


def learning_rate(step: int, peak: float, warmup_steps: int, decay_steps: int) -> float:
    """Rate of step 0, 1, 2, ...: a linear warm-up, then constant, or a cosine down to peak / 10 at `decay_steps`."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps  # + 1: a first rate of 0 would waste the first step
    if not decay_steps:
        return peak
    progress = min(1.0, (step - warmup_steps) / max(1, decay_steps - warmup_steps))
    return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    device: torch.device,
) -> float:
    """Mean loss in nats per token. A smaller last batch counts by its tokens."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # dropout off, if there is any
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        total += loss.item()
        tokens += y.numel()
    for module, training in modes:  # leave each part in its own mode
        module.training = training
    return total / tokens


# --------------------------------------------------------------------------------------------------- save and restore
def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, **state: Any) -> None:
    """Writes everything the next step depends on. A kill in the middle leaves the file that was there before."""
    partial = path.with_name(f".{os.getpid()}.partial")
    try:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **state}
        torch.save(state, partial)
        partial.replace(path)  # one atomic rename
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        advice = "free some space or choose another --checkpoint."
        raise UserError(f"could not save {path} ({error}): {advice}") from None
    finally:
        partial.unlink(missing_ok=True)


def restore(saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: GPT, optimizer: AdamW) -> int:
    """Puts a checkpoint's state into `model` and `optimizer`; returns how many steps they have been trained."""
    check_same_run(saved, options, corpus, model)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # AdamW's averages: without them training goes on differently
    return int(saved["step"])


# ------------------------------------------------------------------------------------------------------------ the run
def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains as `options` say; returns the exit code. Every mistake in them raises before anything is written."""
    seed_everything(options.seed, deterministic=options.deterministic)
    device = choose_device(options.device)
    corpus = load_corpus(options.corpus)
    check_length(corpus.val, options.block_size, f"the validation part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    check_fits(config.training_bytes(options.batch_size), device)
    model = GPT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=options.lr)
    first_step = restore(saved, options, corpus, model, optimizer) if saved else 0
    if options.checkpoint:
        check_new_file(options.checkpoint, may_replace=saved["path"] if saved else None)
    folder = new_run_folder(options.out, LAB)
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     steps {first_step + 1} to {options.steps}, batch {options.batch_size}, into {folder}/\n")
    with (
        finish_step_on_interrupt("Stopping after this step, an evaluation and a save") as interrupted,
        StepMeter(
            folder / "log.jsonl",
            first_step=first_step,
            last_step=options.steps,
            tokens_per_step=options.batch_size * options.block_size,
            flops_per_token=model.flops_per_token(),
            device=device,
        ) as meter,
    ):
        meter.write("run", settings=settings, **fingerprint(device))
        model.train()
        for step in range(first_step, options.steps):
            x, y = random_batch(corpus.train, step=step, seed=options.seed, **batch)  # [B, T]
            x, y = to_device(x, y, device)
            lr = learning_rate(step, options.lr, options.warmup_steps, options.decay_steps)
            for group in optimizer.param_groups:
                group["lr"] = lr

            if step == first_step:
                with PhaseMemory(model, optimizer, device) as memory:
                    loss = train_step(model, optimizer, x, y, after=memory.record)
                meter.print(memory.table() + "\n")
            else:
                loss = train_step(model, optimizer, x, y)
            meter.step(loss, lr)

            if meter.done % options.eval_every == 0 or meter.done == options.steps or interrupted:
                with meter.paused():
                    meter.evaluation(evaluate(model, validation_batches(corpus.val, count=8, **batch), device))
                    state = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256}
                    save_checkpoint(checkpoint, model, optimizer, **state)
            if interrupted:
                break

    if meter.done == options.steps:
        start = torch.zeros(1, 1, dtype=torch.int64, device=device)
        sample = model.generate(start, 200, torch.Generator().manual_seed(options.seed))
        print(f"\nthe model now writes:\n{corpus.decode(sample[0, 1:])}")
    return end_of_run(options, meter, folder, checkpoint, __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab=LAB)


if __name__ == "__main__":
    sys.exit(main())
