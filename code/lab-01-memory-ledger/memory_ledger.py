"""Lab 01: the memory ledger. Where every byte of a training step goes, predicted and then measured.

Read `run` first: it predicts from sizes alone, runs one training step of the model, and lays the two side by side. The
formulas are in rankzero/ledger/predict.py and activations.py, the counting in measure.py: short, part of the lesson.
B = sequences per micro-batch, T = tokens per sequence, C = width, H = heads, K = heads of keys and values,
D = C / H, F = width of Llama's MLP, L = blocks, V = tokens in the vocabulary.

    python memory_ledger.py                                                   # GPT-2 small, seconds
    python memory_ledger.py --preset llama-2-7b --batch-size 1 --recipe mixed # 7 billion, still on a laptop
    python memory_ledger.py --layers 4 --heads 4 --hidden-dim 128 --vocab-size 96 --seq-len 64 --batch-size 12
    python memory_ledger.py --parameters 7.5e9 --recipe mixed                 # ZeRO's table
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

import torch

from rankzero.errors import UserError, out_of_memory
from rankzero.learn.machine.device import choose_device, device_name
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.profiling.memory import MIB, check_fits, memory_now
from rankzero.learn.runs.options import StarterParser, non_negative_int, positive_float, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import report_stop, signals_raise
from rankzero.learn.runs.tracking import call_tracked, check_tracking
from rankzero.ledger.ledger import PHASES, UPDATE, Kind, Ledger, compare, comparison_table, human
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS, Config, find_preset, parameter_count
from rankzero.ledger.plan.layout import CHECKPOINTING, Layout
from rankzero.ledger.plot import plot_ledgers
from rankzero.ledger.predict import largest_micro_batch, predict, states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES, Optimizer, Recipe, bytes_per_parameter

MOST_BLOCKS = 500  # more would take minutes to build, fake or not
SIZES = {"vocab_size": 50257, "layers": 12, "heads": 12, "hidden_dim": 768}  # of a GPT of your own


# ------------------------------------------------------------------------------------------------------------ options
def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 01: predict and measure what one training step holds, to the byte.")
    add = parser.add_argument
    add("--preset", metavar="MODEL", help=f"{', '.join(PRESETS)}; without it gpt2, or the sizes below")
    for name, size in SIZES.items():
        what = {"vocab_size": "tokens in the vocabulary", "layers": "blocks", "heads": "attention heads per block"}
        text = f"{what.get(name, 'width')} of a GPT of your own; without it {size}"
        add("--" + name.replace("_", "-"), type=positive_int, help=text)
    add("--batch-size", type=positive_int, default=4, help="sequences per micro-batch")
    add("--seq-len", type=positive_int, help="tokens per sequence; without it as many as the preset takes, or 1024")
    recipes = "; ".join(f"{recipe.name}: {recipe.says}" for recipe in RECIPES.values())
    add("--recipe", choices=RECIPES, default="fp32", metavar="RECIPE", help=f"{recipes}")
    add("--optimizer", choices=OPTIMIZERS, default="adamw", metavar="NAME", help=", ".join(OPTIMIZERS))
    add("--zero", type=int, choices=range(4), default=0, help="shard over the ranks: 1 state, 2 gradients, 3 weights")
    add("--ranks", type=positive_int, default=1, help="data-parallel ranks")
    add("--tensor-ranks", type=positive_int, default=1, help="ranks that share each matrix product")
    add("--sequence-parallel", action="store_true", help="also split what tensor parallelism leaves whole")
    add("--checkpointing", choices=CHECKPOINTING, default="none", help="block: keep block inputs, run blocks again")
    add("--budget-gb", type=positive_float, default=80.0, help="device memory, in 10^9 bytes")
    add("--device", default="fake", help="fake (shapes only, no data), cpu, cuda or auto: what to measure on")
    add("--peaks", action="store_true", help="also measure temporary buffers (slow for large models)")
    add("--parameters", type=positive_float, help="only print what a model of that many parameters holds on each rank")
    add("--seed", type=non_negative_int, default=0, help="of the weights and tokens, where there are any")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    add("--json", action="store_true", help="print the ledgers as JSON, for a program to read, and write no files")
    return parser


def model_of(options: argparse.Namespace) -> tuple[str, Config, int]:
    """The model's name, its shape, and the tokens of a sequence. UserError for sizes that cannot be."""
    own = {name: getattr(options, name) for name in SIZES if getattr(options, name) is not None}
    if options.preset is not None and own:
        option = "--" + next(iter(own)).replace("_", "-")
        raise UserError(f"--preset {options.preset} has its own sizes: leave out {option}, or leave out --preset.")
    if not own:
        name = "gpt2" if options.preset is None else options.preset
        config = find_preset(name)
        return name, config, options.seq_len or config.block_size
    sizes = SIZES | own
    seq_len = options.seq_len or 1024
    shape = GPTConfig(sizes["vocab_size"], seq_len, sizes["layers"], sizes["heads"], sizes["hidden_dim"])
    return "your GPT", shape, seq_len


# --------------------------------------------------------------------------------------------------------- what it says
def describe(name: str, config: Config, options: argparse.Namespace, seq_len: int) -> None:
    recipe, optimizer = RECIPES[options.recipe], OPTIMIZERS[options.optimizer]
    shape = f"{config.n_layer} blocks, {config.n_head} heads, {config.hidden_dim} wide, V = {config.vocab_size:,}"
    print(f"model   {name}: {shape}, {parameter_count(config):,} parameters")
    print(f"step    {options.batch_size} sequence{'s' * (options.batch_size > 1)} of {seq_len:,} tokens")
    each = f"{bytes_per_parameter(recipe, optimizer):g} B per parameter"
    print(f"recipe  {recipe.name} ({recipe.says}), {optimizer.name}: {each} before activations\n")


def print_moments(ledger: Ledger) -> None:
    """Prints the bytes in memory at each moment of a step; the largest total decides whether the step fits."""
    names = ("weights", "gradients", "optimizer", "activat.", "temporary", "commun.")  # in the order of Kind
    columns = {name: max(8, len(name) + 1) for name in (*names, "total")}
    print(f"{'GB when':<15}" + "".join(f"{name:>{width}}" for name, width in columns.items()))
    for phase in PHASES:
        sizes = [size / 1e9 for kind, size in ledger.at(phase).items() if kind is not Kind.KV_CACHE]
        each = zip((*sizes, sum(sizes)), columns.values(), strict=True)
        print(f"{phase:<15}" + "".join(f"{size:>{width}.3f}" for size, width in each))


def print_states(parameters: float, recipe: Recipe, optimizer: Optimizer, ranks: int) -> None:
    """Weights, gradients and optimizer state per rank, by ZeRO's stage: the table of the ZeRO paper."""
    print(f"GB per rank of weights, gradients, optimizer state; {parameters:,.0f} parameters, {recipe.name}")
    print(f"{'ranks':>7}" + "".join(f"{name:>12}" for name in ("replicated", "ZeRO-1", "ZeRO-2", "ZeRO-3")))
    for n in sorted({4, 16, 64, 1024, ranks} - {1}):
        each = [states_per_rank(parameters, recipe, optimizer, zero=stage, ranks=n) / 1e9 for stage in range(4)]
        print(f"{n:>7,}" + "".join(f"{size:>12,.3f}" for size in each))


# -------------------------------------------------------------------------------------------------------------- the run
def run(options: argparse.Namespace) -> None:
    """Predicts, measures, compares, draws. Every mistake in the options raises before anything is written."""
    recipe, optimizer = RECIPES[options.recipe], OPTIMIZERS[options.optimizer]
    if options.parameters:
        if options.preset or any(getattr(options, name) for name in SIZES):
            raise UserError("--parameters stands for a model by its size alone: leave out --preset and sizes.")
        if options.ranks > options.parameters:
            raise UserError(f"{options.ranks:,} ranks are more than {options.parameters:,.0f} parameters: use fewer.")
        print_states(options.parameters, recipe, optimizer, options.ranks)
        return
    name, config, seq_len = model_of(options)
    zero = options.zero if options.ranks > 1 else 0  # one rank has nobody to share with
    layout = Layout(options.ranks, zero, options.tensor_ranks, options.sequence_parallel, options.checkpointing)
    # From sizes alone: nothing is built, so this takes no time, whatever the model.
    predicted = predict(config, recipe, optimizer, batch_size=options.batch_size, seq_len=seq_len, layout=layout)
    device = options.device if options.device == "fake" else choose_device(options.device).type
    alone = Layout(checkpointing=options.checkpointing)
    measurable = layout == alone and not optimizer.eight_bit and config.n_layer <= MOST_BLOCKS
    if measurable and device != "fake":
        check_fits(predicted.peak()[1], torch.device(device))
    folder = None if options.json else new_run_folder(options.out, "lab-01")
    if not options.json:
        describe(name, config, options, seq_len)
        print(f"{predicted}\n")
        print_moments(predicted)

    measured = None
    if measurable:
        # The same step, run: tensors are counted while they are alive, each storage once.
        torch.manual_seed(options.seed)
        where = "fake tensors: shapes, no data" if device == "fake" else device_name(torch.device(device))
        if not options.json:
            print(f"\nmeasured with {where}")
        measured = measure(
            config,
            recipe,
            optimizer,
            batch_size=options.batch_size,
            seq_len=seq_len,
            device=device,
            checkpointing=options.checkpointing,
            peaks=options.peaks,
            after=lambda phase: print_allocator(phase, device),
        )
    if options.json:
        ledgers = {"predicted": predicted.as_json(), "measured": measured.as_json() if measured else None}
        print(json.dumps({"model": name, "config": dataclasses.asdict(config), **ledgers}, indent=2))
        return
    if measured:
        lines = compare(predicted, measured)
        print(comparison_table(line for line in lines if options.peaks or line.kind is not Kind.TEMPORARY))
        if not options.peaks:
            print("temporary buffers were not measured: --peaks does")
        elif next(line.difference for line in lines if line.kind is Kind.TEMPORARY):
            print(
                "temporary: predicted is the loss's share and AdamW's; measured, something else held more for a moment"
            )
    else:
        print(f"\nonly predicted: measured is one process, one of torch's optimizers, at most {MOST_BLOCKS} blocks")

    phase, peak = predicted.peak()
    budget = int(options.budget_gb * 1e9)
    best = largest_micro_batch(config, recipe, optimizer, seq_len=seq_len, budget=budget, layout=layout)
    print(f"\npeak                 {human(peak)}, when {'the weights are updated' if phase == UPDATE else phase}")
    print(f"into {options.budget_gb:g} GB fit       {best:,} sequences per micro-batch\n")
    print_states(parameter_count(config), recipe, optimizer, options.ranks)
    assert folder is not None
    plot_ledgers(*([predicted, measured] if measured and options.peaks else [predicted])).savefig(
        folder / "ledger.png", dpi=110
    )
    print(f"\nas a picture         {folder / 'ledger.png'}")


def print_allocator(phase: str, device: str) -> None:
    """Prints what CUDA's caching allocator reports now: bytes in tensors, and bytes that it keeps for reuse."""
    if device == "cuda":
        numbers = memory_now(torch.device(device))
        print(f"  {phase:<15}" + "".join(f"{name} {size / MIB:,.1f} MiB  " for name, size in numbers.items()))


def main(arguments: list[str] | None = None) -> int:
    import_dynamo_lazily()
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        check_tracking(options)
        with signals_raise():
            call_tracked(run, "lab-01", options)
        return 0
    except UserError as error:
        parser.error(str(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        parser.error("out of memory: measure with --device fake, which needs none.")
    except KeyboardInterrupt as error:
        return report_stop(error)
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
