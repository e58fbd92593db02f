"""Step time: an estimate with its parts, from FLOPs, bytes, data sheets and one assumption.

The assumption is the share of the peak that matrix products reach (`efficiency`). Every other number is a quotient of
a count and a rate. Overlap is taken to be complete, links to reach the rates on their data sheets, and kernels to
launch in no time. So with an efficiency of 1 the estimate is a lower bound, with two exceptions: messages of tensor
ranks and between stages count as never hidden, and attention as if it computed the masked half too. With less than 1,
a step whose products reach a larger share of the peak can be faster than the estimate.
"""

from dataclasses import dataclass

from rankzero.ledger.hardware import Hardware
from rankzero.ledger.models import Config, Part, multiplied, weights_of
from rankzero.ledger.plan.collective_traffic import Collective, Window
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.predict import held
from rankzero.ledger.recipes import Optimizer, Recipe


def model_flops(config: Config, tokens: int, seq_len: int, part: Part | None = None) -> int:
    """Returns the FLOPs of forward and backward by PaLM's 6N + 12LHQT per token (arXiv 2204.02311, appendix B).

    HQ is the width. N leaves out embeddings that are only looked up. Causality is not discounted.
    """
    blocks = config.n_layer if part is None else part.blocks
    return tokens * (6 * multiplied(config, part) + 12 * blocks * config.hidden_dim * seq_len)


def recomputed_flops(config: Config, layout: Layout, tokens: int, seq_len: int, part: Part | None = None) -> int:
    """Returns the FLOPs of the blocks' second forward, a third of the blocks' FLOPs. The output layer runs once."""
    if layout.checkpointing == "none":
        return 0
    blocks = config.n_layer if part is None else part.blocks
    return model_flops(config, tokens, seq_len, Part(blocks, first=False, last=False)) // 3


LABELS = {
    "compute": "compute",
    "recompute": "recompute",
    "tensor": "waits: tensor ranks",
    "data": "waits: shards and replicas",
    "pipeline": "waits: sends between stages",
    "bubble": "waits: bubble",
    "update": "update",
}
HIDDEN = "hidden communication"


@dataclass(frozen=True)
class Estimate:
    """Seconds of one optimizer step, part by part. `hidden` communication overlaps computation and adds no time."""

    compute: float
    recompute: float
    tensor: float  # exposed: matrix products wait for it
    data: float  # exposed: not covered by computation
    pipeline: float
    bubble: float
    update: float
    hidden: float
    tokens: int
    flops: int  # of the model
    hardware_flops: int  # with what is recomputed
    peak: float  # FLOP/s of all ranks together

    @property
    def seconds(self) -> float:
        """Returns the sum of all parts except hidden communication."""
        return self.compute + self.recompute + self.tensor + self.data + self.pipeline + self.bubble + self.update

    @property
    def parts(self) -> dict[str, float]:
        """The parts that add up to `seconds`."""
        return {name: getattr(self, name) for name in LABELS}

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization."""
        return self.flops / (self.seconds * self.peak)

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilization: recomputation counted as work."""
        return self.hardware_flops / (self.seconds * self.peak)


def seconds_of(collective: Collective, layout: Layout, hardware: Hardware, per_node: int) -> float:
    """Returns the seconds of a collective: its bytes over the bandwidth of its ring."""
    if collective.operation == "send" and layout.world_size > per_node:
        return collective.sent / hardware.network  # through the rank's own port
    stride = {  # distance of ranks in a group: tensor ranks are neighbors, then come shards, replicas, pipeline ranks
        "tensor": 1,
        "shard": layout.tensor,
        "replica": layout.tensor * layout.shards,
        "pipeline": layout.tensor * layout.data,
        "ends": layout.tensor * layout.data * (layout.pipeline - 1),
    }[collective.group]
    return collective.sent / hardware.bandwidth(collective.ranks, stride, per_node, layout.world_size)


def estimate(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    layout: Layout,
    sent: list[Collective],
    hardware: Hardware,
    *,
    batch_size: int,
    seq_len: int,
    stage: int,
    efficiency: float = 0.5,
    per_node: int = 8,
) -> Estimate:
    """Returns the step's parts for a rank of `stage` and its collectives; computation is that of the slowest stage."""
    rate = hardware.flops(recipe.weight, bool(recipe.copy))
    m, tokens = layout.micro_batches, batch_size * seq_len
    parts = [layout.part(config, number) for number in {0, layout.pipeline - 1}]
    effective = rate * efficiency * layout.tensor
    work = max(model_flops(config, tokens, seq_len, part) for part in parts) / effective
    recompute = max(recomputed_flops(config, layout, tokens, seq_len, part) for part in parts) / effective
    available: dict[Window, float] = {
        "": 0.0,
        "forward": m * work / 3,
        "backward": m * (2 / 3 * work + recompute),
        "last backward": 2 / 3 * work + recompute,
    }
    used = dict.fromkeys(available, 0.0)
    exposed = {"tensor": 0.0, "data": 0.0, "pipeline": 0.0}
    for collective in sent:
        seconds = seconds_of(collective, layout, hardware, per_node)
        part = collective.group if collective.group in exposed else "data"
        if collective.hides:
            used[collective.hides] += seconds
        else:
            exposed[part] += seconds
    excess = {window: max(0.0, used[window] - available[window]) for window in available}
    exposed["data"] += sum(excess.values())
    weights = weights_of(config, layout.part(config, stage))
    numbers = sum(held(weight, layout, 1) for weight in weights)
    moved = 2 * recipe.state * len(optimizer.moments) + 2 * (recipe.master or recipe.weight)
    moved += (recipe.accumulator or recipe.gradient) + (recipe.weight if recipe.master else 0)
    step_tokens = tokens * m * layout.data
    flops = model_flops(config, step_tokens, seq_len)
    return Estimate(
        compute=m * work,
        recompute=m * recompute,
        tensor=exposed["tensor"],
        data=exposed["data"],
        pipeline=exposed["pipeline"],
        bubble=(layout.pipeline - 1) / layout.interleave * (work + recompute),
        update=numbers * moved / hardware.hbm,
        hidden=sum(used.values()) - sum(excess.values()),
        tokens=step_tokens,
        flops=flops,
        hardware_flops=flops + recomputed_flops(config, layout, step_tokens, seq_len),
        peak=rate * layout.world_size,
    )
