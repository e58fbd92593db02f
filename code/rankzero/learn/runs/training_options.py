"""Options that all training starters share, with `--resume`, the handling of errors, and the end of a run."""

import argparse
import functools
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rankzero.errors import UserError, out_of_memory
from rankzero.learn.distributed.rank import join, launched_by_torchrun
from rankzero.learn.distributed.world import WorldError, run_world
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily
from rankzero.learn.profiling.memory import MIB, memory_now
from rankzero.learn.runs.checkpoints import MODEL_SHAPE, read_checkpoint
from rankzero.learn.runs.options import StarterParser, non_negative_int, positive_float, positive_int
from rankzero.learn.runs.run_folder import latest_checkpoint
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import StopRequest, report_stop, signals_raise
from rankzero.learn.runs.tracking import call_tracked, check_tracking

# The settings that determine the losses. A checkpoint keeps them, so that `--resume` alone continues the same run.
SETTINGS = (*MODEL_SHAPE, "batch_size", "corpus", "seed", "lr", "warmup_steps", "decay_steps")


def training_parser(
    description: str, *, ranks: bool = False, folders: bool = False, resume: bool = True
) -> StarterParser:
    """Returns a parser with the options that every training starter has. A lab adds its own options.

    With `ranks` the starter runs in several processes. With `folders` a checkpoint is a folder inside the run's folder,
    with a file per rank, and not one file at a path of the user's choice. Without `resume` the lab has its own option
    for the folder to go on from, `--folder`.
    """
    parser = StarterParser(description=description)
    add = parser.add_argument
    add("--steps", type=positive_int, default=600, help="optimizer steps in all, those before a --resume included")
    add_model_options(parser)
    add("--warmup-steps", type=non_negative_int, default=20, help="steps over which the rate rises to --lr")
    add("--decay-steps", type=non_negative_int, default=0, help="cosine down to lr / 10 at this step; 0: no decay")
    add("--eval-every", type=positive_int, default=200, help="steps between evaluations; each also saves")
    add("--deterministic", action="store_true", help="refuse operations that may differ between runs (for CUDA)")
    if ranks:
        add("--ranks", type=positive_int, help="processes to start (default: 2); torchrun starts its own")
    if not folders:
        add("--checkpoint", type=Path, help="file to save to; without it, checkpoint.pt in the run's folder")
    parser.set_defaults(checkpoint=None, resume=None)
    if not resume:
        return parser
    first = "" if folders else "the --checkpoint file or else "
    resume_help = f"checkpoint to go on from; without PATH, {first}the newest run's"
    add("--resume", nargs="?", const="newest", metavar="PATH", help=resume_help)
    return parser


def add_model_options(parser: StarterParser) -> None:
    """Adds the options of any program that takes steps: shape of the model, batch, rate, text, device, folder."""
    add = parser.add_argument
    add("--batch-size", type=positive_int, default=12, help="sequences per step")
    add("--block-size", type=positive_int, default=64, help="tokens per sequence")
    add("--hidden-dim", type=positive_int, default=128, help="width of the model; a multiple of --heads")
    add("--layers", type=positive_int, default=4, help="transformer blocks")
    add("--heads", type=positive_int, default=4, help="attention heads per block")
    add("--lr", type=positive_float, default=1e-3, help="AdamW's learning rate, after the warm-up if there is one")
    add("--corpus", default="embedded", help="'embedded', 'tinyshakespeare', or the path of a UTF-8 text file")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    add("--seed", type=non_negative_int, default=0, help="of the weights and of the batches")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")


def learning_rate(step: int, peak: float, warmup_steps: int, decay_steps: int) -> float:
    """Returns the rate of step 0, 1, 2, ...: linear warm-up, then constant, or cosine to peak / 10 at `decay_steps`."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps  # + 1: a first rate of 0 would waste the first step
    if not decay_steps:
        return peak
    progress = min(1.0, (step - warmup_steps) / max(1, decay_steps - warmup_steps))
    return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


def run_starter(
    parser: StarterParser,
    train: Callable[[argparse.Namespace, dict[str, Any] | None], int],
    arguments: list[str] | None,
    *,
    lab: str,
    settings: Collection[str] = SETTINGS,
    ranks: bool = False,
    read: Callable[..., dict[str, Any] | None] = read_checkpoint,
    newest: Callable[[Path, str], Path] = latest_checkpoint,
) -> int:
    """Calls `train(options, saved)`, `saved` being the checkpoint that `--resume` names; returns the exit code.

    With `ranks`, `train` is called in each rank: of torchrun, or of `--ranks` processes on this machine. `read` reads a
    checkpoint, or returns None to start a new run, and `newest` finds the checkpoint of the newest run.

    A checkpoint's settings become the options' defaults; options on the command line take precedence. A UserError, or
    memory that ran out, is printed as one sentence, with exit code 2.
    """
    import_dynamo_lazily()
    options = parser.parse_args(arguments)
    try:
        check_tracking(options)
        saved = None
        if options.resume is not None:
            path = Path(options.resume)
            if options.resume == "newest":
                path = options.checkpoint or newest(options.out, lab)
            if saved := read(path, settings=settings):
                texts = {name: str(saved["settings"][name]) for name in settings}
                parser.set_defaults(**texts)  # texts are parsed as options are
            options = parser.parse_args(arguments)
        with signals_raise():
            tracked = functools.partial(call_tracked, train, lab)  # a partial can be sent to ranks
            return _on_ranks(tracked, options, saved) if ranks else tracked(options, saved)
    except UserError as error:
        if int(os.environ.get("LOCAL_RANK", "0")):
            return 2  # every rank has the same error: local rank 0 prints it
        parser.error(str(error))
    except WorldError as error:
        print(f"\n{parser.prog}: {error}", file=sys.stderr)
        return 1
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        first = "--micro-batch, " if "micro_batch" in settings else ""
        parser.error(f"out of memory: use a smaller {first}--batch-size, --block-size, --hidden-dim or --layers.")
    except KeyboardInterrupt as error:
        return report_stop(error)


def _on_ranks(train: Callable[..., int], options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Calls `train` in every rank; returns the largest exit code."""
    if not launched_by_torchrun():
        return max(run_world(train, options.ranks or 2, options, saved, seconds=None, device=options.device))
    if options.ranks:
        raise UserError(f"torchrun has started {os.environ['WORLD_SIZE']} ranks: leave --ranks {options.ranks} out.")
    join(options.device)
    code = train(options, saved)
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's caches still hold FSDP's group, whose threads crash Python's own shutdown


def start_again(starter: str) -> list[str]:
    """Returns the words that start `starter` again: `rankzero run`, which names itself in RANKZERO_RUN, or `python`."""
    return shlex.split(os.environ.get("RANKZERO_RUN", "")) or ["python", os.path.relpath(starter)]


def end_of_run(
    options: argparse.Namespace,
    meter: StepMeter,
    folder: Path,
    checkpoint: Path,
    starter: str,
    device: torch.device,
    request: StopRequest,
) -> int:
    """Draws the curves, prints where the files are and how to go on with `starter`; returns the exit code.

    Of several ranks, rank 0 alone draws and prints.
    """
    stopped = meter.done < options.steps
    if dist.is_initialized() and dist.get_rank():
        return request.exit_code if stopped else 0
    from rankzero.learn.runs.plots import plot_run  # imports matplotlib: half a second

    plot_run(folder / "log.jsonl").savefig(folder / "curves.png", dpi=110)
    same_file = ["--checkpoint", str(checkpoint)] if options.checkpoint else []
    resume = ["--folder", str(folder)] if "folder" in options else ["--resume", str(checkpoint)]
    go_on = shlex.join([*start_again(starter), *resume, *same_file, "--steps"])
    if stopped:
        stop = f"Stopped by {request.name} after step {meter.done}, which is saved"
        print(f"\n{stop}. Go on with\n  {go_on} {options.steps}")
        return request.exit_code
    print(f"\nwhole run             {meter.overall()}, peak memory {memory_now(device).get('peak', 0) / MIB:,.0f} MiB")
    print(f"loss and throughput   {folder / 'curves.png'}\nevery step            {folder / 'log.jsonl'}")
    print(f"model and optimizer   {checkpoint}\ngo on                 {go_on} {2 * options.steps}")
    return 0
