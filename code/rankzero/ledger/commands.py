"""The command `rankzero plan`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rankzero.terminal import Json, console, fail, relative, sentences

commands = typer.Typer()


def _count(text: str, metavar: str = "N") -> Any:
    return typer.Option(help=text, min=1, metavar=metavar)


@commands.command()
def plan(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="gpt2, llama-2-7b, llama-3-8b or llama-3-70b.")],
    data: Annotated[int, _count("Replicas that see different batches and sum up gradients.")] = 1,
    shard: Annotated[int, _count("Ranks that share one replica's weights, gradients, state.")] = 1,
    zero: Annotated[
        int | None, typer.Option(min=1, max=3, help="What they share: 1 state, 2 gradients too, 3 all.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep gathered weights until backward: no second gather.")
    ] = False,
    tensor: Annotated[int, _count("Ranks that share each matrix product.")] = 1,
    sequence_parallel: Annotated[
        bool, typer.Option("--sequence-parallel", help="They split the tokens in between.")
    ] = False,
    pipeline: Annotated[int, _count("Stages, each with its own blocks.")] = 1,
    micro_batches: Annotated[int, _count("Micro-batches of a rank in one step.", "M")] = 1,
    interleave: Annotated[int, _count("Runs of blocks on each stage.", "V")] = 1,
    micro_batch: Annotated[int, _count("Sequences of a micro-batch.", "B")] = 1,
    seq: Annotated[int | None, _count("Tokens of a sequence; at first as many as the preset takes.", "T")] = None,
    recipe: Annotated[str, typer.Option(help="Which dtype plays which role: fp32, amp, mixed, bf16 ...")] = "mixed",
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adamw or adam8bit.")] = "adamw",
    checkpointing: Annotated[str, typer.Option(help="none, or block: keep block inputs, run blocks again.")] = "none",
    hardware: Annotated[str, typer.Option(help="a100, h100 or h200.")] = "h100",
    nodes_of: Annotated[int, _count("GPUs that NVLink connects.")] = 8,
    efficiency: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of the peak that products are assumed to reach.")
    ] = 0.5,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also run the step as one rank of a fake cluster, and count.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw memory and time into this file (.png, .svg, .pdf).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the plot if the file is there.")] = False,
    as_json: Json = False,
) -> None:
    """Plans a training step on a cluster: what each rank holds, what it sends, how long it takes.

    Ranks in all: data x shard x tensor x pipeline. Tensor ranks are neighbors in a node, then shards, replicas, stages.

    \b
    rankzero plan gpt2                                            one GPU
    rankzero plan llama-3-8b --shard 8 --checkpointing block      8 ranks share everything (FSDP, ZeRO-3)
    rankzero plan llama-3-70b --data 8 --shard 128 --simulate     1,024 ranks, planned and counted
    rankzero plan llama-3-70b --shard 16 --tensor 8 --pipeline 8 --micro-batches 32 --sequence-parallel

    The chapter handbook/planning.md says where the numbers come from and what they leave out.
    """
    from rankzero.learn.errors import UserError
    from rankzero.ledger.layout import Layout
    from rankzero.ledger.plan import make_plan
    from rankzero.ledger.plan_text import counted_text, plan_text

    with sentences():
        if zero and shard == 1:
            raise UserError(f"--zero {zero} says what the --shard ranks share: give --shard 2 or more.")
        if keep and (shard == 1 or zero in (1, 2)):
            raise UserError("--keep is about gathered weights: it needs --shard 2 or more, with ZeRO-3.")
        if plot:
            _check_plot(plot, overwrite)
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
        made = make_plan(
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
        if not as_json:
            console.print(plan_text(made), markup=False)
        counted = None
        if simulate:
            from rankzero.ledger.simulate import simulate as run

            with console.status("running the step as one rank of a fake cluster"):
                counted = run(
                    made.config,
                    made.recipe,
                    made.optimizer,
                    layout,
                    batch_size=micro_batch,
                    seq_len=made.seq_len,
                    stage=made.stage,
                )
        if as_json:
            extra = (
                {}
                if counted is None
                else {"counted": counted.as_json(), "agrees": counted.agrees(made.ledger, made.collectives)}
            )
            print(json.dumps(made.as_json() | extra, indent=2))
        elif counted is not None:
            console.print("\n" + counted_text(made, counted), markup=False)
        if plot:
            from rankzero.ledger.plot import plot_plan

            plot_plan(made).savefig(plot, dpi=110)
            if not as_json:
                console.print(f"\nas a picture  {relative(plot)}")
    if counted is not None and not counted.agrees(made.ledger, made.collectives):
        fail("the plan is wrong: what was counted differs. Please report it, with the command.", code=1)


def _check_plot(file: Path, overwrite: bool) -> None:
    """Before any work: UserError if the picture could not be written in the end."""
    from rankzero.learn.errors import UserError

    if file.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"{file}: a picture's name ends in .png, .svg or .pdf.")
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}: make it, or give another name.")
    if file.exists() and not overwrite:
        raise UserError(f"{file} is there already: give another name, or --overwrite.")
