"""The command `rankzero plan`."""

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankzero.cli.terminal import LEARN, Json, console, fail, sentences
from rankzero.curriculum import path_from_here
from rankzero.errors import UserError

if TYPE_CHECKING:  # torch takes seconds to load
    from rankzero.ledger.plan.plan import Plan

commands = typer.Typer()


# The names that the ledger knows, here too: an unknown one is refused before torch is imported.
NAMES = {
    "preset": ("gpt2", "llama-2-7b", "llama-3-8b", "llama-3-70b"),
    "recipe": ("fp32", "amp", "mixed", "mixed-fp32-accum", "mixed-fp32-grad", "bf16", "bf16-fp32-accum"),
    "optimizer": ("sgd", "momentum", "adamw", "adam8bit"),
    "checkpointing": ("none", "block"),
    "hardware": ("a100", "h100", "h200", "measured"),
}
RANKS, STEP, CLUSTER, OUTPUT = "Division of the model among ranks", "The step", "The cluster", "Output"


def _count(text: str, panel: str, metavar: str = "N") -> Any:
    return typer.Option(help=text, min=1, metavar=metavar, rich_help_panel=panel)


def _option(text: str, panel: str, *names: str, metavar: str | None = None, **limits: Any) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, **limits)


@commands.command(rich_help_panel=LEARN)
def plan(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="gpt2, llama-2-7b, llama-3-8b or llama-3-70b.")],
    data: Annotated[int, _count("Replicas with different batches; their gradients are summed.", RANKS)] = 1,
    shard: Annotated[int, _count("Ranks that share one replica's training state.", RANKS)] = 1,
    zero: Annotated[
        int | None,
        _option(
            "ZeRO stage: shard optimizer state (1), also gradients (2), all (3).", RANKS, metavar="1|2|3", min=1, max=3
        ),
    ] = None,
    keep: Annotated[bool, _option("Keep gathered weights from forward until backward.", RANKS, "--keep")] = False,
    tensor: Annotated[int, _count("Ranks that share each matrix product.", RANKS)] = 1,
    sequence_parallel: Annotated[
        bool, _option("Split tokens among tensor ranks outside products.", RANKS, "--sequence-parallel")
    ] = False,
    pipeline: Annotated[int, _count("Stages, each with its own blocks.", RANKS)] = 1,
    interleave: Annotated[int, _count("Runs of consecutive blocks on each stage.", RANKS, "V")] = 1,
    micro_batches: Annotated[int, _count("Micro-batches per rank and step.", STEP, "M")] = 1,
    micro_batch: Annotated[int, _count("Sequences per micro-batch.", STEP, "B")] = 1,
    seq: Annotated[int | None, _count("Tokens per sequence; by default the preset's maximum.", STEP, "T")] = None,
    recipe: Annotated[str, _option("The dtype of each role: fp32, amp, mixed, bf16 ...", STEP)] = "mixed",
    optimizer: Annotated[str, _option("sgd, momentum, adamw or adam8bit.", STEP)] = "adamw",
    checkpointing: Annotated[str, _option("none; or block, to recompute blocks in backward.", STEP)] = "none",
    hardware: Annotated[str, _option("a100, h100, h200; or measured, by Lab 00.", CLUSTER)] = "h100",
    nodes_of: Annotated[int, _count("GPUs per node, connected by NVLink.", CLUSTER)] = 8,
    efficiency: Annotated[
        float | None,
        _option(
            "Assumed share of the peak that products reach: 0.5, of a measured peak 1. With 1, a step's time without "
            "tensor ranks and stages is a lower bound.",
            CLUSTER,
            metavar="SHARE",
            min=0.01,
            max=1.0,
        ),
    ] = None,
    simulate: Annotated[
        bool, _option("Also simulate one rank of a fake cluster, and count.", OUTPUT, "--simulate")
    ] = False,
    plot: Annotated[Path | None, _option("Draw memory and time (.png, .svg, .pdf).", OUTPUT, metavar="FILE")] = None,
    overwrite: Annotated[bool, _option("Replace FILE if it exists.", OUTPUT, "--overwrite")] = False,
    as_json: Json = False,
) -> None:
    """Plans a training step on a cluster: memory, traffic, time.

    Memory and communication are those of each rank.

    If the step does not fit: the changes that would make it fit, the cheapest first, each as a command.

    Ranks in all: data x shard x tensor x pipeline. Tensor ranks are neighbors in a node, then shards, replicas, stages.

    \b
    rankzero plan gpt2                             one GPU
    rankzero plan llama-3-8b --shard 8             ZeRO-3 over 8 ranks
    rankzero plan llama-3-70b --data 8 --shard 128 --checkpointing block --simulate
    rankzero plan llama-3-70b --shard 128 --tensor 8 --sequence-parallel
    rankzero plan llama-3-70b --shard 16 --tensor 8 --sequence-parallel --pipeline 8 --micro-batches 32

    The chapter handbook/planning.md gives the source of each number and what the plan leaves out.
    """
    with sentences():
        given = (preset, recipe, optimizer, checkpointing, hardware)
        for kind, name in zip(NAMES, given, strict=True):
            _check_name(kind, name)
        from rankzero.ledger.plan.layout import Layout
        from rankzero.ledger.plan.plan import make_plan

        if zero and shard == 1:
            raise UserError(f"--zero {zero} needs ranks to shard over: give --shard 2 or more.")
        if keep and (shard == 1 or zero in (1, 2)):
            raise UserError("--keep is about gathered weights: it needs --shard 2 or more, with ZeRO-3.")
        layout = Layout(
            data=data * shard,
            zero=(zero or 3) if shard > 1 else 0,
            tensor=tensor,
            sequence_parallel=sequence_parallel,
            checkpointing=checkpointing,
            shard=shard if shard > 1 else None,
            reshard=not keep,
            pipeline=pipeline,
            micro_batches=micro_batches,
            interleave=interleave,
        )
        cluster_plan = make_plan(
            preset,
            layout,
            batch_size=micro_batch,
            seq_len=seq,
            recipe=recipe,
            optimizer=optimizer,
            hardware=hardware,
            per_node=nodes_of,
            efficiency=efficiency,
        )
        if simulate:
            from rankzero.ledger.plan.simulate import check

            check(cluster_plan.config, cluster_plan.recipe, layout)
        if plot:
            _check_plot(plot, overwrite)
        agrees = _show(cluster_plan, simulate, as_json)
        if plot:
            from rankzero.ledger.plot import plot_plan

            plot_plan(cluster_plan).savefig(plot, dpi=110)
            if not as_json:
                console.print(f"\nas a picture  {path_from_here(plot)}", markup=False)
    if not agrees:
        fail("the plan differs from the counts of the simulated step: please report this, with the command.", code=1)


def _check_name(kind: str, name: str) -> None:
    """UserError, with the nearest name, for a name that the ledger does not know."""
    if name not in NAMES[kind]:
        near = difflib.get_close_matches(name, NAMES[kind], n=1)
        meant = f"did you mean {near[0]}? The names are" if near else "use one of"
        raise UserError(f"there is no {kind} {name!r}: {meant} {', '.join(NAMES[kind])}.")


def _show(plan: "Plan", simulate: bool, as_json: bool) -> bool:
    """Prints the plan and the counts of a simulated step; returns whether they agree. Errors come before any output."""
    from rankzero.ledger.plan.alternatives import alternatives
    from rankzero.ledger.plan.plan_text import command, counted_text, plan_text
    from rankzero.ledger.plan.simulate import simulate as run

    planned = plan.as_json()
    fitting = alternatives(plan) if plan.room < 0 else []
    planned |= {"would_fit": [{"command": command(other.plan), "changes": other.changes} for other in fitting]}
    if not as_json:
        console.print(plan_text(plan, fitting), markup=False)
    agrees = True
    if simulate:
        sizes = {"batch_size": plan.batch_size, "seq_len": plan.seq_len, "stage": plan.stage}
        with console.status("running the step as one rank of a fake cluster"):
            counted = run(plan.config, plan.recipe, plan.optimizer, plan.layout, **sizes)
        agrees = counted.agrees(plan.ledger, plan.collectives)
        planned |= {"counted": counted.as_json(), "agrees": agrees}
        if not as_json:
            console.print("\n" + counted_text(plan, counted), markup=False)
    if as_json:
        print(json.dumps(planned, indent=2))
    return agrees


def _check_plot(file: Path, overwrite: bool) -> None:
    """UserError, before any work, if the picture cannot be written."""
    if file.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"{file}: a picture's name ends in .png, .svg or .pdf.")
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}: make it, or give another name.")
    exists = file.exists()
    if exists and not overwrite:
        raise UserError(f"{file} exists already: give another name, or --overwrite.")
    try:
        file.open("ab").close()
    except OSError as error:
        raise UserError(f"cannot write {file} ({error.strerror}): give another name.") from None
    if not exists:
        file.unlink()
