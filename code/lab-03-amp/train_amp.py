"""Lab 03: Lab 02's loop in mixed precision, with the loss scaler written out.

The lesson is `train_step`, its `LossScaler`, and `format_table`, which shows what each format does to gradients.
All else is Lab 02's. B = sequences per batch, T = tokens per sequence, V = tokens in the vocabulary, P = parameters.

    python train_amp.py                                              # bf16; under a minute on two CPU cores
    python train_amp.py --precision fp32                             # the same run as Lab 02's, with clipping
    python train_amp.py --precision fp16 --layers 2 --hidden-dim 64 --block-size 32    # a CPU is slow in fp16
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory, check_fits
from rankzero.learn.runs.checkpoints import check_same_run, save_checkpoint, saved_numbers
from rankzero.learn.runs.options import StarterParser, positive_int, power_of_two, precision
from rankzero.learn.runs.run_folder import check_new_file, new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-03"
LAB_SETTINGS = (*SETTINGS, "precision", "loss_scale", "growth_interval")
FORMATS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}  # what autocast casts matrix products to
MAX_NORM = 1.0  # of the whole gradient


def make_parser() -> StarterParser:
    parser = training_parser("Lab 03: train a small GPT in mixed precision.")
    parser.set_defaults(steps=250, eval_every=125)
    add = parser.add_argument
    add("--precision", type=precision, default="bf16", help="of matrix products: fp32, bf16 or fp16")
    add("--loss-scale", type=power_of_two, default=65536.0, help="fp16's scale at the start, a power of two")
    add("--growth-interval", type=positive_int, default=2000, help="good steps in a row until the scale doubles")
    return parser


# ------------------------------------------------------------------------------------------------------ the loss scale
@dataclass
class LossScaler:
    """Multiplies the loss, so that small gradients are not lost in fp16. Where it is not enabled, `scale` stays 1."""

    enabled: bool
    scale: float  # a power of two: multiplying by it rounds nothing
    growth_interval: int
    good_steps: int = 0  # in a row, since the scale last changed
    skipped: int = 0  # in all

    def unscale(self, parameters: Iterator[nn.Parameter]) -> bool:
        """Divides the gradients in place; returns whether all are finite (True if off)."""
        if not self.enabled:
            return True
        gradients = [p.grad for p in parameters if p.grad is not None]
        finite = torch.stack([g.div_(self.scale).isfinite().all() for g in gradients])
        return bool(finite.all())  # one wait for the device, not one per gradient

    def update(self, finite: bool) -> None:
        """Halves the scale on overflow; doubles it after `growth_interval` good steps."""
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.scale, self.skipped = self.scale * 0.5, self.skipped + 1
        elif self.enabled and self.good_steps == self.growth_interval:
            self.scale, self.good_steps = self.scale * 2.0, 0


# ----------------------------------------------------------------------------------------------------------- one step
def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    low: torch.dtype | None,
    scaler: LossScaler,
    after: Callable[[str], None] = lambda phase: None,
) -> Tensor:
    """One update of the model. `x` and `y` are int64 [B, T]; returns the loss before the update, in nats per token.

    `low` is the dtype of matrix products, None for fp32. `after` is called with a phase's name when that phase ends.
    """
    optimizer.zero_grad(set_to_none=True)  # or backward adds to the last step's gradients

    with torch.autocast(x.device.type, dtype=low, enabled=low is not None):
        logits = model(x)  # [B, T, V] in `low`: the last matrix product made them
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # fp32: autocast casts its inputs back up
    after("forward")

    (loss * scaler.scale).backward()  # outside autocast; each operation runs in the format of its forward
    after("backward")

    finite = scaler.unscale(model.parameters())  # before anything reads a gradient
    if finite:  # otherwise this step leaves no trace
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()  # fp32 gradients, fp32 weights, fp32 averages
    scaler.update(finite)
    after("update")
    return loss.detach()  # without its graph: a kept loss would keep the graph's nodes


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device, low: torch.dtype | None
) -> float:
    """Mean loss in nats per token. A smaller last batch counts by its tokens."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # dropout off, if there is any
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        with torch.autocast(device.type, dtype=low, enabled=low is not None):
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    for module, training in modes:  # leave each part in its own mode
        module.training = training
    return total / tokens


# ------------------------------------------------------------------------------------------------ what a format does
def gradient(model: nn.Module, x: Tensor, y: Tensor, low: torch.dtype | None, scale: float) -> Tensor:
    """The gradient of the loss times `scale`, divided by `scale`: fp32 [P]."""
    model.zero_grad(set_to_none=True)
    with torch.autocast(x.device.type, dtype=low, enabled=low is not None):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    (loss * scale).backward()
    every = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    model.zero_grad(set_to_none=True)
    return every / scale


def format_table(model: nn.Module, x: Tensor, y: Tensor, scale: float) -> str:
    """The gradient of this batch in each format: what is lost, how far it is from fp32, what the scale changes."""
    exact = gradient(model, x, y, None, 1.0)
    heading = "one batch  0, not in fp32  off by: plain   scaled"
    lines = [f"{heading}  changed by scale {scale:,.15g}"]
    for name, low in FORMATS.items():
        plain, scaled = (gradient(model, x, y, low, factor) for factor in (1.0, scale))
        lost = ((plain == 0) & (exact != 0)).sum() / (exact != 0).sum()
        off = [float((one - exact).norm() / exact.norm()) for one in (plain, scaled)]
        changed = int((plain != scaled).sum())
        lines.append(f"{name:<9}{lost:>16.4%}{off[0]:>15.5f}{off[1]:>9.5f}{changed:>14,} of {len(exact):,}")
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------------- save and restore
def restore(
    saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: GPT, optimizer: AdamW, scaler: LossScaler
) -> int:
    """Puts a checkpoint's state into model, optimizer and scaler; returns how many steps they have been trained."""
    check_same_run(saved, options, corpus, model)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # AdamW's averages: without them training goes on differently
    if saved["settings"]["precision"] == options.precision:  # otherwise the scaler starts again
        vars(scaler).update(saved_numbers(saved, "scaler", ("scale", "good_steps", "skipped")))
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
    low, needs_scale = FORMATS[options.precision], options.precision == "fp16"
    scaler = LossScaler(needs_scale, options.loss_scale if needs_scale else 1.0, options.growth_interval)
    first_step = restore(saved, options, corpus, model, optimizer, scaler) if saved else 0
    if options.checkpoint:
        check_new_file(options.checkpoint, may_replace=saved["path"] if saved else None)
    folder = new_run_folder(options.out, LAB)
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in LAB_SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     steps {first_step + 1} to {options.steps}, batch {options.batch_size}, into {folder}/")
    print(f"format  {options.precision}, loss scale {scaler.scale:,.15g}")
    if needs_scale and device.type == "cpu":
        print("        slow: a CPU has no fast fp16; try --layers 2 --hidden-dim 64 --block-size 32")
    with (
        finish_step_on_interrupt("Stopping after this step, an evaluation and a save") as interrupted,
        StepMeter(
            folder / "log.jsonl",
            first_step=first_step,
            last_step=options.steps,
            tokens_per_step=options.batch_size * options.block_size,
            flops_per_token=model.flops_per_token(),
            device=device,
            dtype=low or torch.float32,
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
                meter.print("\n" + format_table(model, x, y, options.loss_scale) + "\n")
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(device)  # the table is no part of the run
                with PhaseMemory(model, optimizer, device) as memory:
                    loss = train_step(model, optimizer, x, y, low, scaler, after=memory.record)
                meter.print(memory.table() + "\n")
            else:
                loss = train_step(model, optimizer, x, y, low, scaler)
            meter.step(loss, lr)

            if meter.done % options.eval_every == 0 or meter.done == options.steps or interrupted:
                with meter.paused():
                    meter.evaluation(evaluate(model, validation_batches(corpus.val, count=8, **batch), device, low))
                    if scaler.enabled:
                        meter.print(f"loss scale {scaler.scale:,.15g}, steps skipped so far: {scaler.skipped}")
                    state = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256}
                    save_checkpoint(checkpoint, model, optimizer, scaler=vars(scaler), **state)
            if interrupted:
                break

    if meter.done == options.steps:
        start = torch.zeros(1, 1, dtype=torch.int64, device=device)
        sample = model.generate(start, 200, torch.Generator().manual_seed(options.seed))
        print(f"\nthe model now writes:\n{corpus.decode(sample[0, 1:])}")
    return end_of_run(options, meter, folder, checkpoint, __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab=LAB, settings=LAB_SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
