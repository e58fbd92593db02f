"""Lab 05: Lab 02's loop, with activations that are computed again instead of kept.

The lesson is `Checkpoint`, one node of autograd's graph, and `run_blocks`, which calls the model's blocks through it.
`train_step` is Lab 02's. B = sequences per batch, T = tokens per sequence, C = width, V = tokens in the vocabulary.
Run `python train_checkpointing.py --recompute blocks`, or none, sqrt, selective: the same losses, bit for bit.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, Block, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory, check_fits
from rankzero.learn.runs.checkpoints import check_same_run, save_checkpoint
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.run_folder import check_new_file, new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-05"
LAB_SETTINGS = (*SETTINGS, "dropout")  # what decides the losses; --recompute does not
POLICIES = ("none", "blocks", "sqrt", "selective")


def make_parser() -> StarterParser:
    parser = training_parser("Lab 05: activations that are computed again instead of kept.")
    parser.add_argument("--recompute", choices=POLICIES, default="blocks", help="what runs again in backward")
    parser.add_argument("--dropout", type=float, default=0.1, help="probability; it draws random numbers in forward")
    parser.set_defaults(layers=9, hidden_dim=64, steps=100, eval_every=50)
    return parser


# -------------------------------------------------------------------------------------------------------- recomputing
class Checkpoint(torch.autograd.Function):
    """One node of autograd's graph in place of all that `run(x)` makes: it keeps `x`, and runs again in backward."""

    @staticmethod
    def forward(ctx: Any, run: nn.Module, empty: Tensor, x: Tensor) -> Tensor:
        ctx.run = run
        ctx.random = {"cuda": torch.cuda, "mps": torch.mps}.get(x.device.type, torch)
        ctx.state = ctx.random.get_rng_state()  # dropout must drop the same in both runs
        ctx.save_for_backward(x)
        return run(x)  # autograd has turned gradients off: nothing inside is kept

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()  # the second graph begins here
        now = ctx.random.get_rng_state()
        ctx.random.set_rng_state(ctx.state)
        with torch.enable_grad():
            y = ctx.run(x)
        ctx.random.set_rng_state(now)  # what is drawn next must not repeat
        torch.autograd.backward(y, gradients)  # fills the weights' p.grad, and x.grad
        return None, None, x.grad


def checkpoint(run: nn.Module, x: Tensor) -> Any:
    return Checkpoint.apply(run, torch.empty(0, requires_grad=True), x)  # so autograd calls backward for any x


class RecomputingGPT(GPT):
    """The labs' GPT. `policy` decides what its blocks keep, not what they return."""

    policy = "none"

    def run_blocks(self, x: Tensor) -> Tensor:
        if self.policy == "none":
            return super().run_blocks(x)
        if self.policy == "selective":  # attention alone: it keeps [B, H, T, T]
            for block in cast(Iterable[Block], self.blocks):
                x = x + block.drop(checkpoint(block.attention, block.norm1(x)))
                x = x + block.drop(block.mlp(block.norm2(x)))
            return x
        length = round(math.sqrt(len(self.blocks))) if self.policy == "sqrt" else 1
        for start in range(0, len(self.blocks), length):
            x = checkpoint(nn.Sequential(*self.blocks[start : start + length]), x)
        return x


def equality(model: RecomputingGPT, x: Tensor, y: Tensor, seed: int) -> str:
    """Of the loss and its gradients under each policy: how many numbers are not those of "none", in every bit."""
    found = {}
    for model.policy in POLICIES:
        model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)  # the same masks for each
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        found[model.policy] = torch.cat([one.detach().flatten() for one in (loss, *gradients)])
    counts = ", ".join(f"{policy} {(found[policy] != found['none']).sum():,}" for policy in POLICIES[1:])
    verdict = "equal  " if all(torch.equal(one, found["none"]) for one in found.values()) else "UNEQUAL"
    return f"{verdict} numbers that differ, of {len(found['none']):,}: {counts}"


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


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats per token. A smaller last batch counts by its tokens."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # dropout off, if there is any
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    for module, training in modes:  # leave each part in its own mode
        module.training = training
    return total / tokens


# --------------------------------------------------------------------------------------------------- save and restore
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
    shape = (options.block_size, options.layers, options.heads, options.hidden_dim)
    config = GPTConfig(corpus.vocab_size, *shape, dropout=options.dropout)
    check_fits(config.training_bytes(options.batch_size), device)
    model = RecomputingGPT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=options.lr)
    first_step = restore(saved, options, corpus, model, optimizer) if saved else 0
    if options.checkpoint:
        check_new_file(options.checkpoint, may_replace=saved["path"] if saved else None)
    folder = new_run_folder(options.out, LAB)
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in LAB_SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    x, y = to_device(*random_batch(corpus.train, step=0, seed=options.seed, **batch), device)
    print(equality(model, x[:2], y[:2], options.seed))  # two sequences fit where all of them may not
    model.policy = options.recompute
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

            torch.manual_seed(2**20 * options.seed + step)  # dropout's masks, like the batch, follow seed and step
            if step == first_step:
                with PhaseMemory(model, optimizer, device) as memory:
                    loss = train_step(model, optimizer, x, y, after=memory.record)
                meter.print(f"{memory.table()}\nactivations never above {memory.peak_activations / MIB:.2f} MiB\n")
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
    return run_starter(make_parser(), train, arguments, lab=LAB, settings=LAB_SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
