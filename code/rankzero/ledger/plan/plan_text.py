"""Plan as text: memory of one rank, its collectives, the time of a step, and the counts of a simulated step."""

from collections.abc import Sequence

from rankzero.ledger.hardware import HARDWARE, MEASURED
from rankzero.ledger.ledger import BEGIN, END, FORWARD, UPDATE, Kind, comparison_table, human
from rankzero.ledger.models import parameter_count
from rankzero.ledger.plan.alternatives import MOST_GPUS, Alternative
from rankzero.ledger.plan.collective_traffic import totals
from rankzero.ledger.plan.plan import Plan
from rankzero.ledger.plan.simulate import Counted
from rankzero.ledger.plan.step_time import HIDDEN, LABELS
from rankzero.ledger.recipes import bytes_per_parameter

MOMENTS = {FORWARD: "forward ends", BEGIN: "backward begins", END: "backward ends", UPDATE: "the weights are updated"}


SHOWN = 4  # alternatives


def plan_text(plan: Plan, alternatives: Sequence[Alternative] = ()) -> str:
    """Returns the whole plan as text: with the time of a step if the plan fits, else with the alternatives that fit."""
    end = takes(plan) if plan.room >= 0 else would_fit(plan, alternatives)
    return "\n\n".join([head(plan), holds(plan), sends(plan), end, *(f"note    {text}" for text in plan.warnings)])


def head(plan: Plan) -> str:
    """Returns the lines about model, ranks, step and recipe."""
    layout, config = plan.layout, plan.config
    sizes = {
        "replicas": layout.replicas,
        f"shards (ZeRO-{layout.zero})": layout.shards,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
    }
    axes = " x ".join(f"{size:,} {name}" for name, size in sizes.items() if size > 1) or "alone"
    each = bytes_per_parameter(plan.recipe, plan.optimizer)
    sequences = layout.data * layout.micro_batches * plan.batch_size
    return "\n".join(
        (
            f"model   {plan.name}: {parameter_count(config):,} parameters, {config.n_layer} blocks, "
            f"{config.hidden_dim} wide",
            f"ranks   {layout.world_size:,}: {axes}; {plan.hardware.name}, {plan.per_node} to a node",
            f"step    {plan.tokens:,} tokens: {_many(sequences, 'sequence')} of {plan.seq_len:,}; "
            f"each rank runs {_many(layout.micro_batches, 'micro-batch', 'es')} of {plan.batch_size}",
            f"recipe  {plan.recipe.name} ({plan.recipe.says}), {plan.optimizer.name}: {each:g} B per parameter",
        )
    )


def _many(count: int, thing: str, ending: str = "s") -> str:
    return f"{count:,} {thing}{ending * (count != 1)}"


def holds(plan: Plan) -> str:
    """Returns the ledger of the fullest rank, its peak, and whether the peak fits."""
    moment, peak = plan.ledger.peak()
    where = f", of pipeline stage {plan.stage}, the fullest" if plan.layout.pipeline > 1 else ""
    lines = [f"ONE RANK HOLDS{where}"]
    lines += [line for line in plan.ledger.table().splitlines()[1:] if not line.startswith(Kind.KV_CACHE)]
    lines = [line for line in lines if not line.startswith("  keys and values")]
    others = [f"{ledger.peak()[1] / 1e9:.2f}" for ledger in plan.ledgers]
    if len(others) > 1:
        lines.append(f"GB at the peak, by stage: {' '.join(others)}")
    verdict = f"fits, {human(plan.room)} to spare" if plan.room >= 0 else f"does not fit: {human(-plan.room)} too much"
    lines += [
        f"peak    {human(peak)} when {MOMENTS[moment]}",
        f"room    {plan.hardware.name} has {human(plan.hardware.memory)}: {verdict}",
        f"        largest micro-batch that fits: {_many(plan.largest_batch(), 'sequence')}",
    ]
    return "\n".join(lines)


def sends(plan: Plan) -> str:
    """Returns the collectives of a step, with their bytes."""
    if not plan.collectives:
        return "ONE RANK SENDS nothing: it is alone"
    lines = [f"{'ONE RANK SENDS IN A STEP':<40}{'calls':>10}{'tensors':>14}{'on the wire':>14}"]
    for c in plan.collectives:
        name = f"{c.operation}, {c.ranks:,} {c.group} ranks"
        lines.append(f"  {name:<38}{c.calls:>10,}{human(c.bytes):>14}{human(c.sent):>14}")
        lines.append(f"    {c.what}: {c.formula}")
    lines.append(f"  {'in all':<62}{human(sum(c.sent for c in plan.collectives)):>14}")
    return "\n".join(lines)


def takes(plan: Plan) -> str:
    """Returns the seconds of a step, part by part."""
    step = plan.estimate
    rates = "links as on their sheets" if plan.hardware.nvlink else f"rates {plan.hardware.source}"
    lines = [
        f"A STEP TAKES{plan.bound} (products at {plan.efficiency:.0%} of the peak, {rates})",
        *(
            f"  {LABELS[name]:<30}{seconds:>10.4f} s{seconds / step.seconds:>8.1%}"
            for name, seconds in step.parts.items()
            if seconds
        ),
        f"  {'sum':<30}{step.seconds:>10.4f} s",
        f"  {HIDDEN:<30}{step.hidden:>10.4f} s, meanwhile" if step.hidden else "",
        f"bubble  {plan.bubble:.1%} of the pipeline's time" if plan.layout.pipeline > 1 else "",
        f"FLOPs   {plan.flops:.4g} per step by 6N + 12LHQT"
        + (f"; with what is recomputed {plan.hardware_flops:.4g}" if plan.hardware_flops > plan.flops else ""),
        f"speed   {step.tokens / step.seconds:,.0f} tokens/s, "
        f"{step.tokens / step.seconds / plan.layout.world_size:,.0f} per GPU; MFU {step.mfu:.1%}, HFU {step.hfu:.1%}",
    ]
    return "\n".join(line for line in lines if line)


def would_fit(plan: Plan, alternatives: Sequence[Alternative]) -> str:
    """Returns the alternatives, each with the command that plans it."""
    gpus = _many(plan.layout.world_size, "GPU")
    if not alternatives and not plan.hardware.nvlink:
        return f"NOTHING FITS on this device with {_many(plan.seq_len, 'token')} per sequence: use a smaller --seq."
    if not alternatives:
        return (
            f"NOTHING FITS on up to {MOST_GPUS:,} GPUs with {_many(plan.seq_len, 'token')} per sequence: "
            "use a smaller --seq, or GPUs with more memory."
        )
    fewest = alternatives[0].plan.layout.world_size
    lines = ["WHAT WOULD FIT, the cheapest first"]
    if fewest != plan.layout.world_size:
        lines = [f"NOTHING FITS on {gpus}. The smallest number of GPUs that would is {fewest:,}"]
    lines[0] += f"; GPU-hours are per billion tokens{alternatives[0].plan.bound}"
    for alternative in alternatives[:SHOWN]:
        other = alternative.plan
        each = "each of " * (other.layout.world_size > 1)
        peak = f"{human(other.ledger.peak()[1])} on {each}{_many(other.layout.world_size, 'GPU')}"
        hours = f"{alternative.gpu_hours:,.{0 if alternative.gpu_hours >= 100 else 1}f} GPU-hours"
        lines.append(f"  {', '.join(alternative.changes)}: {peak}, {hours}")
        lines.append(f"    {command(other)}")
    return "\n".join(lines)


def command(plan: Plan) -> str:
    """Returns the command that prints this plan."""
    layout = plan.layout
    values: dict[str, object] = {
        "data": layout.replicas,
        "shard": layout.shards,
        "zero": layout.zero if layout.shards > 1 else 3,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "interleave": layout.interleave,
        "micro-batches": layout.micro_batches,
        "micro-batch": plan.batch_size,
        "seq": plan.seq_len,
        "recipe": plan.recipe.name,
        "optimizer": plan.optimizer.name,
        "checkpointing": layout.checkpointing,
        "hardware": next((name for name, gpu in HARDWARE.items() if gpu == plan.hardware), MEASURED),
        "nodes-of": plan.per_node,
        "efficiency": plan.efficiency,
    }
    usual = {"zero": 3, "seq": plan.config.block_size, "recipe": "mixed", "optimizer": "adamw", "checkpointing": "none"}
    usual |= {"hardware": "h100", "nodes-of": 8, "efficiency": 0.5 if plan.hardware.nvlink else 1.0}
    words = [f"--{name} {value}" for name, value in values.items() if value != usual.get(name, 1)]
    flags = {"keep": layout.shards > 1 and not layout.reshard, "sequence-parallel": layout.sequence_parallel}
    return " ".join(["rankzero plan", plan.name, *words, *(f"--{name}" for name, given in flags.items() if given)])


# ------------------------------------------------------------------------------------------------------------- counted
def counted_text(plan: Plan, counted: Counted) -> str:
    """Returns planned and counted bytes and calls, row by row, with their differences."""
    table = comparison_table(counted.lines(plan.ledger), ("planned", "counted"))
    lines = ["COUNTED on fake tensors as one rank of a fake world", table, ""]
    lines.append(f"{'collectives':<24}{'calls':>10}{'counted':>10}{'bytes':>22}{'counted':>22}{'difference':>12}")
    planned_totals, counted_totals = totals(plan.collectives), counted.totals()
    for key in sorted(planned_totals | counted_totals):
        calls, size = planned_totals.get(key, (0, 0))
        counted_calls, counted_size = counted_totals.get(key, (0, 0))
        name = f"{key[0]}, {key[1]:,} ranks"
        lines.append(
            f"{name:<24}{calls:>10,}{counted_calls:>10,}{size:>22,}{counted_size:>22,}{counted_size - size:>+12,}"
        )
    lines.append(
        "only computed: temporary and communication buffers, bytes on the wire (by the rule of the ring), seconds"
    )
    return "\n".join(lines)
