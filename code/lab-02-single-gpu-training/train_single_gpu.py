"""Lab 02: train a small GPT on one device, with nothing hidden.

Read it from top to bottom. The lesson is `train_step`, and the loop in `train` that calls it. What comes from
rankzero.learn is not the lesson: the text, the model, the meter. B = sequences a batch, T = tokens a sequence,
V = tokens in the vocabulary.

    python train_single_gpu.py                                                # under a minute on two CPU cores
    python train_single_gpu.py --steps 50 --batch-size 64 --hidden-dim 128
    python train_single_gpu.py --resume --steps 1200                          # goes on where the newest run stopped
"""

import argparse
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankzero.learn.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.checkpoints import check_training_state, read_checkpoint
from rankzero.learn.corpus import Corpus, load_corpus
from rankzero.learn.device import choose_device, device_name, seed_everything
from rankzero.learn.errors import UserError, out_of_memory
from rankzero.learn.fingerprint import fingerprint
from rankzero.learn.gpt import GPT, GPTConfig
from rankzero.learn.memory import MIB, PhaseMemory, check_fits, memory_now
from rankzero.learn.meter import StepMeter
from rankzero.learn.options import StarterParser, non_negative_int, positive_float, positive_int
from rankzero.learn.plots import plot_run
from rankzero.learn.runs import check_new_file, finish_step_on_interrupt, latest_checkpoint, new_run_folder

# ------------------------------------------------------------------------------------------------------------ options
# What decides the losses. A checkpoint keeps these settings, so that `--resume` alone goes on with the same run.
MODEL_SHAPE = ("hidden_dim", "layers", "heads", "block_size")
SETTINGS = (*MODEL_SHAPE, "batch_size", "corpus", "seed", "lr", "warmup_steps", "decay_steps")


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 02: train a small GPT on one device, with nothing hidden.")
    add = parser.add_argument
    add("--steps", type=positive_int, default=600, help="optimizer steps in all, those before a --resume included")
    add("--batch-size", type=positive_int, default=12, help="sequences a step")
    add("--block-size", type=positive_int, default=64, help="tokens a sequence")
    add("--hidden-dim", type=positive_int, default=128, help="width of the model; a multiple of --heads")
    add("--layers", type=positive_int, default=4, help="transformer blocks")
    add("--heads", type=positive_int, default=4, help="attention heads a block")
    add("--lr", type=positive_float, default=1e-3, help="AdamW's learning rate after the warm-up")
    add("--warmup-steps", type=non_negative_int, default=20, help="steps over which the rate rises to --lr")
    add("--decay-steps", type=non_negative_int, default=0, help="cosine down to lr / 10 at this step; 0: no decay")
    add("--eval-every", type=positive_int, default=200, help="steps between evaluations; each also saves")
    add("--corpus", default="embedded", help="'embedded', 'tinyshakespeare', or the path of a UTF-8 text file")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    add("--seed", type=non_negative_int, default=0, help="of the weights and of the batches")
    add("--deterministic", action="store_true", help="refuse operations that may differ between runs (for CUDA)")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    add("--checkpoint", type=Path, help="file to save to; without it, checkpoint.pt in the run's folder")
    resume_help = "checkpoint to go on from; without PATH, the --checkpoint file or else the newest run's"
    add("--resume", nargs="?", const="newest", metavar="PATH", help=resume_help)
    return parser


# ----------------------------------------------------------------------------------------------------------- one step
def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    after: Callable[[str], None] = lambda phase: None,
) -> Tensor:
    """One update of the model. `x` and `y` are int64 [B, T]; returns the loss before the update, in nats a token.

    `after` is called with a phase's name when that phase ends; the run measures memory there.
    """
    optimizer.zero_grad(set_to_none=True)  # backward adds to what is there: the last step's gradients must go

    logits = model(x)  # [B, T, V]; on the way autograd keeps what backward will need: the activations
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mean over the B*T tokens
    after("forward")

    loss.backward()  # fills p.grad of every parameter, and frees the activations as it passes
    after("backward")

    optimizer.step()  # the first time, AdamW makes its state here: two averages a parameter
    after("update")
    return loss.detach()  # without its graph: backward has emptied it, but a kept loss would keep its nodes


def learning_rate(step: int, peak: float, warmup_steps: int, decay_steps: int) -> float:
    """Rate of step 0, 1, 2, ...: a linear warm-up, then constant, or a cosine down to peak / 10 at `decay_steps`."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps  # + 1: a first rate of 0 would waste the first step
    if not decay_steps:
        return peak
    progress = min(1.0, (step - warmup_steps) / max(1, decay_steps - warmup_steps))
    return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats a token. Weighs by tokens, not by batches: the last batch may be smaller."""
    was_training = model.training
    model.eval()  # dropout off, if there is any
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    model.train(was_training)  # leave it as it was found
    return total / tokens


# --------------------------------------------------------------------------------------------------- save and restore
def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, **state: Any) -> None:
    """Writes everything the next step depends on. A kill in the middle leaves the file that was there before."""
    partial = path.with_name(f".{os.getpid()}.partial")
    try:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **state}, partial)
        partial.replace(path)  # one atomic rename
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise UserError(f"could not save {path} ({error}): free some space or choose another --checkpoint.") from None
    finally:
        partial.unlink(missing_ok=True)


def restore(saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: GPT, optimizer: AdamW) -> int:
    """Puts a checkpoint's state into `model` and `optimizer`; returns how many steps they have been trained."""
    path = saved["path"]
    for name in MODEL_SHAPE:
        theirs, ours, option = saved["settings"][name], getattr(options, name), "--" + name.replace("_", "-")
        if theirs != ours:
            raise UserError(f"checkpoint {path} holds a model of {option} {theirs!r}, not {ours}: leave {option} out.")
    if saved["corpus_sha256"] != corpus.sha256:
        raise UserError(f"checkpoint {path} was trained on another text than {corpus.name}: pass the same --corpus.")
    check_training_state(saved, model)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # AdamW's averages: without them training goes on differently
    if saved["step"] >= options.steps:
        raise UserError(f"checkpoint {path} is at step {saved['step']} already: ask for more than that with --steps.")
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
    folder = new_run_folder(options.out, "lab-02")
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     steps {first_step + 1} to {options.steps}, batch {options.batch_size}, into {folder}/\n")
    with (
        finish_step_on_interrupt() as interrupted,
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
            x, y = random_batch(corpus.train, step=step, seed=options.seed, **batch)  # [B, T] each
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

    plot_run(folder / "log.jsonl").savefig(folder / "curves.png", dpi=110)
    same_file = ["--checkpoint", str(checkpoint)] if options.checkpoint else []
    go_on = shlex.join(["python", os.path.relpath(__file__), "--resume", str(checkpoint), *same_file, "--steps"])
    if meter.done < options.steps:
        print(f"\nStopped by Ctrl-C after step {meter.done}, which is saved. Go on with\n  {go_on} {options.steps}")
        return 130
    start = torch.zeros(1, 1, dtype=torch.int64, device=device)
    sample = model.generate(start, 200, torch.Generator().manual_seed(options.seed))
    print(f"\nthe model now writes:\n{corpus.decode(sample[0, 1:])}\n")
    print(f"whole run             {meter.overall()}, peak memory {memory_now(device).get('peak', 0) / MIB:,.0f} MiB")
    print(f"loss and throughput   {folder / 'curves.png'}\nevery step            {folder / 'log.jsonl'}")
    print(f"model and optimizer   {checkpoint}\ngo on                 {go_on} {2 * options.steps}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        saved = None
        if options.resume is not None:
            newest = options.resume == "newest"
            path = (options.checkpoint or latest_checkpoint(options.out, "lab-02")) if newest else Path(options.resume)
            saved = read_checkpoint(path, settings=SETTINGS)
            # The checkpoint's settings become the defaults; what the command line names still wins.
            parser.set_defaults(**{name: str(saved["settings"][name]) for name in SETTINGS})  # str: parsed like options
            options = parser.parse_args(arguments)
        return train(options, saved)
    except UserError as error:
        parser.error(str(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        parser.error("out of memory: use a smaller --batch-size, --block-size, --hidden-dim or --layers.")
    except KeyboardInterrupt:
        print("\nStopped by Ctrl-C at once: what was saved before is kept.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
