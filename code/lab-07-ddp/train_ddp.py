"""Lab 07: several processes train one model. Lab 02's loop, in which backward sends the gradients to the other ranks.

Every rank runs this file from top to bottom. Read `train_step` first: only its last line is not Lab 02's. Then
`compare_gradients`, which shows that K ranks are one process with the whole batch. K = ranks, B = sequences per batch
of all ranks together, T = tokens per sequence, V = tokens in the vocabulary.

    python train_ddp.py --ranks 2                          # two processes; the losses are Lab 02's
    torchrun --nproc-per-node 2 train_ddp.py               # the same
    python train_ddp.py --ranks 3 --resume --steps 400     # go on with three
"""

import argparse
import copy
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.rank import note_step, rank_device
from rankzero.learn.distributed.rank_sync import any_rank, on_rank_0, silence_other_ranks
from rankzero.learn.machine.device import device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory, check_fits
from rankzero.learn.runs.checkpoints import check_same_run, save_checkpoint
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.phase_timer import PhaseTimer
from rankzero.learn.runs.run_folder import check_new_file, new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-07"
EQUAL = 1e-12  # float64 rounds at the 16th digit; a few hundred additions in another order leave at least 12
ASK_EVERY = 10  # steps between two questions to all ranks whether to stop: the answer makes the host wait


def make_parser() -> StarterParser:
    parser = training_parser("Lab 07: several processes train one model.", ranks=True)
    parser.set_defaults(steps=200, eval_every=100)
    return parser


# ----------------------------------------------------------------------------------------------------------- one step
def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    after: Callable[[str], None] = lambda phase: None,
) -> Tensor:
    """One update of the model. `x` and `y` are this rank's rows, int64 [B/K, T]; returns the loss of all ranks' rows.

    `after` is called with a phase's name when that phase ends; the run measures memory and time there.
    """
    optimizer.zero_grad(set_to_none=True)  # or backward adds to the last step's gradients

    logits = model(x)  # [B/K, T, V]; on the way autograd keeps what backward will need: the activations
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mean over this rank's tokens
    after("forward")

    loss.backward()  # DDP all-reduces as gradients become ready; when it returns, p.grad is the mean over the ranks
    after("backward")

    optimizer.step()  # the same on every rank: the same weights, the same gradient, the same averages
    after("update")
    return mean_over_ranks(loss.detach())


def mean_over_ranks(number: Tensor) -> Tensor:
    """DDP averages gradients only; other numbers differ by rank until averaged here."""
    number = number.clone()
    dist.all_reduce(number)
    return number / dist.get_world_size()


def my_rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """This rank's rows of a batch [B, T] that all ranks have drawn alike: [B/K, T]."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y.chunk(ranks)[rank]


# ----------------------------------------------------------------------------------------------------- what is claimed
def first_gradient(model: nn.Module, x: Tensor, y: Tensor, dtype: torch.dtype, *, parallel: bool) -> Tensor:
    """The gradient that `train_step` hands to the optimizer, laid end to end. The step is a copy's; nothing moves."""
    twin = copy.deepcopy(model).to(dtype)
    train_step(DistributedDataParallel(twin) if parallel else twin, SGD(twin.parameters(), lr=0.0), x, y)
    return torch.cat([p.grad.flatten() for p in twin.parameters() if p.grad is not None])


def compare_gradients(model: nn.Module, x: Tensor, y: Tensor) -> str:
    """The gradient of K ranks, each with its rows, against that of every rank alone with the whole batch [B, T]."""
    lines, apart = ["type      largest gradient  largest difference   relative"], []
    for dtype in (torch.float64, torch.float32):
        whole = first_gradient(model, x, y, dtype, parallel=False)
        averaged = first_gradient(model, *my_rows(x, y), dtype, parallel=True)
        difference = (averaged - whole).abs().max()
        dist.all_reduce(difference, op=dist.ReduceOp.MAX)  # the largest of any rank
        apart.append(difference.item() / whole.abs().max().item())
        numbers = f"{whole.abs().max().item():18.2e}{difference.item():20.1e}{apart[-1]:11.1e}"
        lines.append(str(dtype).removeprefix("torch.") + numbers)
    verdict = "equal" if apart[0] <= EQUAL else "NOT EQUAL"
    return "\n".join([*lines, f"{verdict} within {EQUAL:g} in float64, where only the order of additions differs"])


def what_was_sent(step: int, counter: CollectiveCounter) -> str:
    """Returns a line per rank with the collectives of a step, in order, and the bytes of each."""
    calls_of_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(calls_of_ranks, counter.in_order())
    return "\n".join(f"sent in step {step}, rank {rank}: {calls}" for rank, calls in enumerate(calls_of_ranks)) + "\n"


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats per token over all batches, of which each rank takes every K-th. Weighs by tokens."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # dropout off, if there is any
    total, tokens = torch.zeros(2, dtype=torch.float64, device=device)
    for x, y in itertools.islice(batches, dist.get_rank(), None, dist.get_world_size()):
        x, y = to_device(x, y, device)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        tokens += y.numel()
    for module, training in modes:  # leave each part in its own mode
        module.training = training
    return (mean_over_ranks(total) / mean_over_ranks(tokens)).item()


# --------------------------------------------------------------------------------------------------- save and restore
def restore(saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: GPT, optimizer: AdamW) -> int:
    """Puts a checkpoint's state into `model` and `optimizer`; returns how many steps they have been trained."""
    check_same_run(saved, options, corpus, model)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # AdamW's averages: without them training goes on differently
    return int(saved["step"])


# ------------------------------------------------------------------------------------------------------------ the run
def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains as `options` say, in each rank; returns the exit code. Every mistake in them raises before all writing."""
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), rank_device()
    silence_other_ranks()
    if options.batch_size % ranks:
        even = options.batch_size // ranks * ranks or ranks
        raise UserError(f"--batch-size {options.batch_size} does not divide by {ranks} ranks: use {even}, say.")
    seed_everything(options.seed, deterministic=options.deterministic)
    corpus = load_corpus(options.corpus)
    check_length(corpus.val, options.block_size, f"the validation part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    sharing = ranks if device.type == "cpu" else 1  # ranks that share this memory
    check_fits(sharing * config.training_bytes(options.batch_size // ranks), device)
    model = GPT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=options.lr)
    first_step = restore(saved, options, corpus, model, optimizer) if saved else 0
    if options.checkpoint:
        check_new_file(options.checkpoint, may_replace=saved["path"] if saved else None)
    folder = on_rank_0(partial(new_run_folder, options.out, LAB))
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)}), {ranks} ranks over {dist.get_backend()}")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    split = f"batch {options.batch_size} = {ranks} x {options.batch_size // ranks}"
    print(f"run     steps {first_step + 1} to {options.steps}, {split}, into {folder}/\n")
    first = random_batch(corpus.train, step=first_step, seed=options.seed, **batch)
    try:
        check_fits(2 * sharing * config.training_bytes(options.batch_size), device)  # in float64, on every rank
        print(compare_gradients(model, *to_device(*first, device)) + "\n")
    except UserError:
        print("The whole batch would not fit, so there is nothing to compare with.\n")
    parallel = DistributedDataParallel(model)  # sends rank 0's weights to all, and hooks itself into backward
    timer = PhaseTimer(device)
    with (
        finish_step_on_interrupt(f"Stopping within {ASK_EVERY} steps, after an evaluation and a save") as interrupted,
        StepMeter(
            folder / "log.jsonl" if rank == 0 else Path(os.devnull),
            first_step=first_step,
            last_step=options.steps,
            tokens_per_step=options.batch_size * options.block_size,
            flops_per_token=model.flops_per_token() // ranks,  # MFU is a share of all devices
            device=device,
        ) as meter,
    ):
        meter.write("run", settings=settings, ranks=ranks, **fingerprint(device))
        model.train()
        for step in range(first_step, options.steps):
            note_step(step + 1)
            x, y = random_batch(corpus.train, step=step, seed=options.seed, **batch)  # [B, T], on every rank
            x, y = to_device(*my_rows(x, y), device)
            lr = learning_rate(step, options.lr, options.warmup_steps, options.decay_steps)
            for group in optimizer.param_groups:
                group["lr"] = lr

            asked = (step + 1) % ASK_EVERY == 0 or step + 1 == options.steps
            if step < first_step + 2:  # before and after DDP rebuilds its buckets
                with PhaseMemory(model, optimizer, device) as memory, CollectiveCounter() as counter:
                    loss = train_step(parallel, optimizer, x, y, after=memory.record)
                meter.print((memory.table() + "\n\n" if step == first_step else "") + what_was_sent(step + 1, counter))
            elif asked:
                timer.start()
                loss = train_step(parallel, optimizer, x, y, after=timer.record)
            else:
                loss = train_step(parallel, optimizer, x, y)
            meter.step(loss, lr)

            stop = asked and any_rank(interrupted, device)  # a rank that stopped alone would leave the others waiting
            if meter.done % options.eval_every == 0 or meter.done == options.steps or stop:
                with meter.paused():
                    timer.report(meter)
                    meter.evaluation(evaluate(model, validation_batches(corpus.val, count=8, **batch), device))
                    state = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256}
                    on_rank_0(partial(save_checkpoint, checkpoint, model, optimizer, **state))
            if stop:
                break

    if meter.done == options.steps:
        start = torch.zeros(1, 1, dtype=torch.int64, device=device)
        sample = model.generate(start, 200, torch.Generator().manual_seed(options.seed))
        print(f"\nthe model now writes:\n{corpus.decode(sample[0, 1:])}")
    return end_of_run(options, meter, folder, checkpoint, __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab=LAB, ranks=True)


if __name__ == "__main__":
    sys.exit(main())
