"""Lab 09: Lab 08's training loop, with checkpoints from which the same command resumes after a kill at any moment.

Read `training_state` first, then `Saver`. N = ranks, B = sequences per batch of all ranks, T = tokens per sequence.

    python train_resumable.py                              # two processes; saves in the background
    python train_resumable.py --sync-save                  # training waits for the disk
    python train_resumable.py --kills 5                    # killed five times, and compared with a run without a kill
    torchrun --nproc-per-node 2 --max-restarts 3 train_resumable.py --folder runs/mine    # starts or resumes a run
"""

import argparse
import copy
import datetime
import functools
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.optim import AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, to_device, validation_batches
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.data.epoch_sampler import EpochSampler, windows_at, windows_in
from rankzero.learn.distributed import sharded_checkpoint as disk
from rankzero.learn.distributed.averaged_weights import evaluate, move_average
from rankzero.learn.distributed.rank import note_step, rank_device
from rankzero.learn.distributed.rank_sync import any_rank, mean_over_ranks, my_rows, on_rank_0, silence_other_ranks
from rankzero.learn.machine.device import device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import check_fits
from rankzero.learn.resume.kill_trial import kill_and_compare
from rankzero.learn.resume.resumable_run import open_run_folder, read_when_free
from rankzero.learn.resume.save_report import reason_of, report_of_saves
from rankzero.learn.runs.checkpoints import check_same_run
from rankzero.learn.runs.options import StarterParser, non_negative_float, non_negative_int, positive_int, share
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-09"
LAB_SETTINGS = (*SETTINGS, "dropout", "ema_decay", "eval_every")
ASK_EVERY = 5  # steps between two questions to all ranks whether to stop: the answer makes the host wait


def make_parser() -> StarterParser:
    parser = training_parser("Lab 09: train so that a kill costs little.", ranks=True, folders=True, resume=False)
    add = parser.add_argument
    add("--folder", type=Path, help="folder of the run: resumes from its newest checkpoint if there is one")
    add("--sync-save", action="store_true", help="wait for each save until it is on disk")
    add("--keep", type=positive_int, default=2, help="newest checkpoints to keep; the best is kept too")
    add("--dropout", type=non_negative_float, default=0.1, help="probability that an activation is set to 0")
    add("--ema-decay", type=share, default=0.95, help="share that a step keeps of the averaged weights")
    add("--print-every", type=positive_int, default=25, help="steps per line, whose loss is their mean")
    add("--kills", type=non_negative_int, default=0, help="kill a run so often; compare it with a run without a kill")
    parser.set_defaults(steps=100, eval_every=25)
    return parser


# -------------------------------------------------------------------------------------------------------- new in Lab 09
def seed_step(seed: int, step: int, rank: int) -> None:
    """Makes dropout a function of (seed, step, rank), so that there is no random state to save."""
    torch.manual_seed(int(np.random.default_rng((seed, step, rank)).integers(2**63)))


def training_state(model: GPT, optimizer: Optimizer, average: GPT, sampler: EpochSampler) -> dict[str, Any]:
    """Returns everything that the next step depends on: live tensors, of which each rank holds rows, and numbers."""
    weights, moments = get_state_dict(model, optimizer)
    shards = {"model": weights, "optimizer": moments}
    return shards | {"average": get_model_state_dict(average), "data": sampler.state_dict()}


def restore(path: Path, model: GPT, optimizer: Optimizer, average: GPT, sampler: EpochSampler) -> None:
    """Loads a checkpoint: each rank reads the rows that it holds now, from the files of all ranks that saved."""
    state = training_state(model, optimizer, average, sampler)
    try:
        dcp.load(state, checkpoint_id=path)
    except dcp.CheckpointException as error:
        raise UserError(f"checkpoint {path} cannot be loaded: name another --folder.") from error
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    average.load_state_dict(state["average"])
    sampler.load_state_dict(state["data"])


class Saver:
    """Writes checkpoints, one at a time: in the background, or with `sync` while training waits."""

    def __init__(self, folder: Path, keep: int, *, sync: bool) -> None:
        self.folder, self.keep, self.sync = folder, keep, sync
        # Training's collectives run in another thread: in one group, the collectives of both threads would mix.
        self.group = dist.new_group(backend="gloo", timeout=datetime.timedelta(minutes=10))
        self.thread = ThreadPoolExecutor(1)
        self.pending: Future[float] | None = None  # seconds from its start until the save is on disk
        self.step, self.error = 0, ""  # of the last save
        self.stalls, self.on_disk = list[float](), list[float]()  # seconds: training waited; until on disk

    def save(self, state: Callable[[], dict[str, Any]], **facts: Any) -> float:
        """Starts a save; returns the seconds for which training waited. Afterwards, the tensors may change."""
        started = time.perf_counter()
        self.wait()  # two saves at the same time would need memory for two copies
        self.step, partial = facts["step"], disk.partial_folder(self.folder, facts["step"])
        where: Any = {"checkpoint_id": partial, "process_group": self.group}
        write: Any = functools.partial(dcp.save, state(), **where)
        if not self.sync:  # async_save returns when the copy is made
            write = dcp.async_save(state(), **where).result  # type: ignore[union-attr]
        self.pending = self.thread.submit(self.finish, write, partial, facts, started)
        if self.sync:
            self.wait()
        self.stalls.append(time.perf_counter() - started)
        return self.stalls[-1]

    def finish(self, write: Callable[[], Any], partial: Path, facts: dict[str, Any], started: float) -> float:
        """Waits until all ranks have written, then gives the folder its final name."""
        write()  # on rank 0 it returns when every rank's files are on disk
        if dist.get_rank() == 0:
            disk.finish_folder(partial, keep=self.keep, best_by="val_loss", **facts)
        return time.perf_counter() - started

    def wait(self) -> None:
        """Waits for the current save. A failed save prints a message and does not end the run: the next may succeed."""
        if not self.pending:
            return
        error, errors = self.pending.exception(), [""] * dist.get_world_size()
        dist.all_gather_object(errors, reason_of(error, self.folder) if error else "", group=self.group)
        self.error = next(filter(None, errors), "")
        if self.error:
            print(f"step {self.step:>5}: could not save ({self.error}); earlier checkpoints are as they were")
            on_rank_0(lambda: disk.remove_partial_folders(self.folder))  # frees the disk
        else:
            self.on_disk.append(self.pending.result())
        self.pending = None


# --------------------------------------------------------------------------------------------------------- as in Lab 08
def shard(model: GPT) -> GPT:
    """Shards every parameter by its rows, in place."""
    mesh = DeviceMesh.from_group(dist.group.WORLD, rank_device().type)  # type: ignore[arg-type]
    for group in (*model.blocks, model):
        fully_shard(group, mesh=mesh)
    return model


def train_step(model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor) -> Tensor:
    """One update. `x` and `y` are this rank's rows, int64 [B/N, T]; returns the loss of all ranks' rows."""
    optimizer.zero_grad(set_to_none=True)
    (loss := F.cross_entropy(model(x).flatten(0, 1), y.flatten())).backward()
    optimizer.step()
    return mean_over_ranks(loss.detach())


# -------------------------------------------------------------------------------------------------------------- the run
def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains on every rank, from the checkpoint `saved` if there is one; returns the exit code."""
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), rank_device()
    silence_other_ranks()
    seed_everything(options.seed, deterministic=options.deterministic)
    if options.batch_size % ranks:
        raise UserError(f"--batch-size {options.batch_size} does not divide into {ranks} ranks: use a multiple.")
    corpus = load_corpus(options.corpus)
    check_length(corpus.val, options.block_size, f"the validation part of corpus {corpus.name}")
    sizes = (corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    config = GPTConfig(*sizes, options.dropout)
    check_fits((ranks if device.type == "cpu" else 1) * config.training_bytes(options.batch_size // ranks), device)
    model, first = GPT(config).to(device), 0
    if saved:
        if (first := saved["step"]) == options.steps:
            print(f"step {first} of {options.steps} is saved in {saved['path']}: give a larger --steps to continue")
            return 0
        check_same_run(saved, options, corpus, model)
    folder = on_rank_0(lambda: open_run_folder(options, LAB, saved))
    batch = {"batch_size": options.batch_size, "block_size": options.block_size}
    settings = {name: getattr(options, name) for name in LAB_SETTINGS} | {"corpus": corpus.name}
    print(f"device  {ranks} ranks on {device.type} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     steps {first + 1} to {options.steps}, batch {options.batch_size}, into {folder}/")
    average, model = shard(copy.deepcopy(model)), shard(model)
    optimizer = AdamW(model.parameters(), lr=options.lr)
    sampler = EpochSampler(windows_in(corpus.train, options.block_size), options.seed)
    saver = Saver(folder, options.keep, sync=options.sync_save)
    if saved:
        restore(saved["path"], model, optimizer, average, sampler)
    with (
        finish_step_on_interrupt() as interrupted,
        StepMeter(
            folder / "log.jsonl" if rank == 0 else Path(os.devnull),
            first_step=first,
            last_step=options.steps,
            tokens_per_step=options.batch_size * options.block_size,
            flops_per_token=model.flops_per_token() // ranks,  # MFU is a share of all devices
            device=device,
            every=options.print_every,
        ) as meter,
    ):
        meter.write("run", settings=settings, ranks=ranks, **fingerprint(device))
        model.train()
        for step in range(first, options.steps):
            note_step(step + 1)
            seed_step(options.seed, step, rank)
            x, y = my_rows(*windows_at(corpus.train, sampler.next(options.batch_size), options.block_size))
            lr = learning_rate(step, options.lr, options.warmup_steps, options.decay_steps)
            optimizer.param_groups[0]["lr"] = lr
            meter.step(train_step(model, optimizer, *to_device(x, y, device)), lr)
            move_average(average, model, options.ema_decay)

            stop = meter.done % ASK_EVERY == 0 and any_rank(interrupted, device)
            if meter.done % options.eval_every == 0 or meter.done == options.steps or stop:
                with meter.paused():
                    loss = evaluate(average, validation_batches(corpus.val, count=8, **batch), device)
                    meter.evaluation(loss)
                    facts = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256, "val_loss": loss}
                    stall = saver.save(lambda: training_state(model, optimizer, average, sampler), **facts)
                    meter.write("save", step=meter.done, stall_ms=1000 * stall)
                    meter.print(f"step {meter.done:>5}/{options.steps}  saving, training waited {1000 * stall:.0f} ms")
            if stop:
                break
        saver.wait()
    if saver.error:
        raise UserError(f"the last checkpoint was not saved ({saver.error}): remove the cause and run this again.")
    print(f"\nsaves                 {report_of_saves(folder, saver.stalls, saver.on_disk)}", end="")
    return end_of_run(options, meter, folder, folder / f"step-{meter.done:06d}", __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.kills:
        return kill_and_compare(__file__, parser, options, arguments, lab=LAB)
    if options.folder:
        parser.set_defaults(resume=str(options.folder))
    how: Any = {"settings": LAB_SETTINGS, "ranks": True, "read": read_when_free}
    return run_starter(parser, train, arguments, lab=LAB, **how)


if __name__ == "__main__":
    sys.exit(main())
