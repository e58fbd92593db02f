"""Lab 08: several processes train one model that none of them holds whole. Lab 07's loop with a sharded model.

Every rank runs this file from top to bottom. Read `shard` first, then `save` and `restore`: each rank writes its own
shards, and any number of ranks can resume. N = ranks, B = sequences per batch of all ranks, T = tokens per sequence.

    python train_fsdp.py --ranks 2                         # two processes; the losses are Lab 02's
    torchrun --nproc-per-node 2 train_fsdp.py              # the same
    python train_fsdp.py --no-reshard                      # weights stay whole from forward to backward
    python train_fsdp.py --ranks 3 --resume --steps 400    # go on with three
"""

import argparse
import copy
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.distributed.rank import note_step, rank_device
from rankzero.learn.distributed.rank_sync import any_rank, mean_over_ranks, my_rows, on_rank_0, silence_other_ranks
from rankzero.learn.distributed.sharded_checkpoint import finish_folder, latest_step_folder, partial_folder, read_folder
from rankzero.learn.machine.device import device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import check_fits
from rankzero.learn.profiling.sharded_memory import full_values, measure, table_of_ranks
from rankzero.learn.runs.checkpoints import check_same_run
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-08"
LAB_SETTINGS = (*SETTINGS, "precision")
ASK_EVERY = 10  # steps between two questions to all ranks whether to stop: the answer makes the host wait
EQUAL = 1e-12  # float64 rounds at the 16th digit; a few hundred additions in another order leave at least 12


def make_parser() -> StarterParser:
    parser = training_parser("Lab 08: train one model that no process holds whole.", ranks=True, folders=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="to compute in; shards stay fp32")
    parser.add_argument("--no-reshard", action="store_true", help="keep weights whole from forward to backward")
    parser.set_defaults(steps=100, eval_every=50)
    return parser


# -------------------------------------------------------------------------------------------------------- new in Lab 08
def shard(model: GPT, lr: float, reshard: bool = True, precision: str = "fp32") -> tuple[GPT, AdamW]:
    """Shards every parameter by its rows, in place; returns the model and an AdamW for this rank's shards.

    Each block is a group, gathered when it is used. All other parameters are one group, which backward uses first.
    """
    device = next(model.parameters()).device.type
    mesh = DeviceMesh.from_group(dist.group.WORLD, device)  # type: ignore[arg-type]
    # bf16: gathers and computes in bf16, sums gradients in fp32; logits, shards: fp32.
    bf16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    low: dict[str, Any] = bf16 if precision == "bf16" else {}
    policy = MixedPrecisionPolicy(**low)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy)
    last = MixedPrecisionPolicy(**low, output_dtype=torch.float32 if low else None)
    fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=last)
    return model, AdamW(model.parameters(), lr=lr)  # last: sharding replaced the parameters


def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    after: Callable[[str], None] = lambda phase: None,  # called when a phase ends
) -> Tensor:
    """One update by this rank's rows, int64 [B/N, T]; returns the mean loss of all ranks."""
    optimizer.zero_grad(set_to_none=True)  # or backward adds to the last step's gradients

    logits = model(x)  # each block gathers its weights, computes, and frees them
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mean over this rank's tokens
    after("forward")

    loss.backward()  # gathers blocks again; leaves this rank's shard of the mean in p.grad
    after("backward")

    optimizer.step()  # updates this rank's shards, with its shards of the averages
    after("update")
    return mean_over_ranks(loss.detach())


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats per token. Every rank takes every batch; else ranks wait in a gather."""
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


# ------------------------------------------------------------------------------------------------------------ the proof
def compare_with_one_process(model: GPT, x: Tensor, y: Tensor, reshard: bool) -> str:
    """Compares a sharded step of N ranks, each with its rows, with one process's step with the whole batch [B, T].

    In float64 rounding is too small to hide a mistake; float32 is the dtype of the run.
    """
    lines, apart = ["type     of             largest    difference   relative"], []
    for dtype in (torch.float64, torch.float32):
        alone = copy.deepcopy(model).to(dtype)
        F.cross_entropy(alone(x).flatten(0, 1), y.flatten()).backward()
        AdamW(alone.parameters(), lr=1e-3).step()
        sharded, optimizer = shard(copy.deepcopy(model).to(dtype), 1e-3, reshard)
        train_step(sharded, optimizer, *my_rows(x, y))
        pairs = list(zip(sharded.parameters(), alone.parameters(), strict=True))
        for name, both in (("gradient", [(p.grad, q.grad) for p, q in pairs]), ("new weights", pairs)):
            values, expected = (full_values(tensors) for tensors in zip(*both, strict=True))
            difference, largest = (values - expected).abs().max().item(), expected.abs().max().item()
            apart.append(difference / largest)
            numbers = f"{largest:10.2e}{difference:14.1e}{apart[-1]:11.1e}"
            lines.append(f"{str(dtype).removeprefix('torch.')}  {name:<12}{numbers}")
    verdict = "equal" if max(apart[:2]) <= EQUAL else "NOT EQUAL"
    return "\n".join([*lines, f"{verdict} within {EQUAL:g} in float64, where only the order of additions differs"])


def count_a_step(model: GPT, x: Tensor, y: Tensor) -> str:
    """Returns a table of each rank's memory after one step, and of the step's collectives, for three ways to train."""
    ways = {
        "reshard": shard(copy.deepcopy(model), 1e-3),
        "no reshard": shard(copy.deepcopy(model), 1e-3, reshard=False),
        "DDP": (same := DistributedDataParallel(copy.deepcopy(model)), AdamW(same.parameters())),
    }
    return table_of_ranks({name: measure(train_step, *way, *my_rows(x, y)) for name, way in ways.items()})


# ----------------------------------------------------------------------------------------------------- save and restore
def save(run: Path, model: nn.Module, optimizer: Optimizer, **facts: Any) -> Path:
    """Writes what the next step depends on into `run/step-NNNNNN`; all ranks write their shards at the same time.

    The folder gets its name when all ranks have written. Then the previous one is removed: one always exists.
    """
    written = partial_folder(run, facts["step"])
    weights, averages = get_state_dict(model, optimizer)  # DTensors: this rank's rows
    dcp.save({"model": weights, "optimizer": averages}, checkpoint_id=written)
    if dist.get_rank() == 0:  # dcp.save has returned: all ranks have written
        finish_folder(written, **facts)
    dist.barrier()  # no rank continues before the folder has its name
    return written.with_suffix("")


def restore(saved: dict[str, Any], model: nn.Module, optimizer: Optimizer) -> int:
    """Loads the rows that this rank holds now, from the files of all ranks that saved; returns the steps before."""
    weights, averages = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": weights, "optimizer": averages}
    try:
        dcp.load(state, checkpoint_id=saved["path"])
    except dcp.CheckpointException as error:
        advice = "resume from another, or start a new run."
        raise UserError(f"checkpoint {saved['path']} is damaged: {advice}") from error
    weights, averages = state["model"], state["optimizer"]
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=averages)
    return int(saved["step"])


# -------------------------------------------------------------------------------------------------------------- the run
def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains on every rank, as `options` say; returns the exit code. A wrong option raises before any step."""
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), rank_device()
    silence_other_ranks()
    seed_everything(options.seed, deterministic=options.deterministic)
    if options.batch_size % ranks:
        raise UserError(f"--batch-size {options.batch_size} does not divide into {ranks} ranks: use a multiple.")
    corpus = load_corpus(options.corpus)
    check_length(corpus.val, options.block_size, f"the validation part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    sharing = ranks if device.type == "cpu" else 1  # ranks that share this memory
    check_fits(sharing * config.training_bytes(options.batch_size // ranks), device)
    model, reshard = GPT(config).to(device), not options.no_reshard  # whole at first, on every rank, to compare with
    if saved:
        check_same_run(saved, options, corpus, model)
    folder = on_rank_0(lambda: new_run_folder(options.out, LAB))
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    settings = {name: getattr(options, name) for name in LAB_SETTINGS} | {"corpus": corpus.name}
    print(f"device  {ranks} ranks on {device.type} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    first = saved["step"] if saved else 0
    share = f"{options.batch_size} = {ranks} x {options.batch_size // ranks}"
    print(f"run     steps {first + 1} to {options.steps}, batch {share}, into {folder}/\n")
    x, y = to_device(*random_batch(corpus.train, step=first, seed=options.seed, **batch), device)
    print(compare_with_one_process(model, x, y, reshard) + "\n\n" + count_a_step(model, x, y) + "\n")
    model, optimizer = shard(model, options.lr, reshard, options.precision)
    if saved:
        restore(saved, model, optimizer)
    with (
        finish_step_on_interrupt(f"Stopping within {ASK_EVERY} steps, after an evaluation and a save") as interrupted,
        StepMeter(
            folder / "log.jsonl" if rank == 0 else Path(os.devnull),
            first_step=first,
            last_step=options.steps,
            tokens_per_step=options.batch_size * options.block_size,
            flops_per_token=model.flops_per_token() // ranks,  # MFU is a share of all devices
            device=device,
        ) as meter,
    ):
        meter.write("run", settings=settings, ranks=ranks, **fingerprint(device))
        model.train()
        for step in range(first, options.steps):
            note_step(step + 1)
            x, y = my_rows(*random_batch(corpus.train, step=step, seed=options.seed, **batch))  # [B/N, T] each
            lr = learning_rate(step, options.lr, options.warmup_steps, options.decay_steps)
            for group in optimizer.param_groups:
                group["lr"] = lr
            meter.step(train_step(model, optimizer, *to_device(x, y, device)), lr)

            stop = meter.done % ASK_EVERY == 0 and any_rank(interrupted, device)
            if meter.done % options.eval_every == 0 or meter.done == options.steps or stop:
                with meter.paused():
                    meter.evaluation(evaluate(model, validation_batches(corpus.val, count=8, **batch), device))
                    state = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256}
                    checkpoint = save(folder, model, optimizer, **state)
            if stop:
                break
    return end_of_run(options, meter, folder, checkpoint, __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    how: dict[str, Any] = {"ranks": True, "read": read_folder, "newest": latest_step_folder}
    return run_starter(make_parser(), train, arguments, lab=LAB, settings=LAB_SETTINGS, **how)


if __name__ == "__main__":
    sys.exit(main())
