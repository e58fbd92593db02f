"""Layout of a model over ranks: data, tensor and pipeline parallelism, ZeRO stage, checkpointing."""

from dataclasses import dataclass
from functools import cached_property

from rankzero.errors import UserError
from rankzero.ledger.models import Config, Part, parameter_count
from rankzero.ledger.plan import pipeline_schedule

CHECKPOINTING = ("none", "block")
MOST_MICRO_BATCHES = 100_000  # a schedule is a list of them


@dataclass(frozen=True)
class Layout:
    """The division of a model and its batches among data * tensor * pipeline ranks.

    `data` ranks see different batches; `zero` is ZeRO's stage over them: 1 shards the optimizer's state, 2 the
    gradients too, 3 the weights too, which are gathered before use and dropped after it (`reshard`) or kept until
    backward. `shard` is the number of data ranks that share one copy; None means all. More copies are replicas (hybrid
    sharding).
    `tensor` ranks share every matrix product. `pipeline` ranks each have other blocks, in `interleave` runs, and
    pass `micro_batches` on. Without a pipeline the micro-batches follow one another, and gradients add up.
    `checkpointing` "block" keeps each block's input only and runs the block again in backward.
    """

    data: int = 1
    zero: int = 0
    tensor: int = 1
    sequence_parallel: bool = False
    checkpointing: str = "none"
    shard: int | None = None
    reshard: bool = True
    pipeline: int = 1
    micro_batches: int = 1
    interleave: int = 1

    @property
    def shards(self) -> int:
        """Ranks that share one copy of the sharded state."""
        return (self.shard or self.data) if self.zero else 1

    @property
    def replicas(self) -> int:
        """Copies of the sharded state, each held by one group of ranks."""
        return self.data // self.shards

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.data * self.tensor * self.pipeline

    def part(self, config: Config, stage: int, chunk: int = -1) -> Part:
        """Returns the part of the model on pipeline rank `stage`: all its runs of blocks, or only run `chunk`."""
        blocks = config.n_layer // self.pipeline // (1 if chunk < 0 else self.interleave)
        first = stage == 0 and chunk <= 0
        last = stage == self.pipeline - 1 and chunk in (-1, self.interleave - 1)
        return Part(blocks, first, last)

    @cached_property
    def _in_flight(self) -> tuple[list[dict[int, int]], ...]:
        # After the first few micro-batches the states repeat.
        few = min(self.micro_batches, 4 * self.pipeline)
        orders = (pipeline_schedule.order(stage, self.pipeline, few, self.interleave) for stage in range(self.pipeline))
        return tuple(pipeline_schedule.in_flight(order) for order in orders)

    def in_flight(self, stage: int) -> list[dict[int, int]]:
        """Returns all states of a step: micro-batches whose activations are held, by the stage's run of blocks."""
        return [{0: 1}] if self.pipeline == 1 else self._in_flight[stage]

    def check(self, config: Config) -> None:
        """UserError if `config` cannot be laid out like this."""
        for name in ("data", "tensor", "pipeline"):
            if getattr(self, name) < 1:
                raise UserError(f"{getattr(self, name)} {name} ranks: there must be at least 1.")
        for name in ("micro_batches", "interleave"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.micro_batches > MOST_MICRO_BATCHES:
            raise UserError(f"{self.micro_batches:,} micro-batches in a step: use at most {MOST_MICRO_BATCHES:,}.")
        if self.zero not in (0, 1, 2, 3):
            raise UserError(f"there is no ZeRO stage {self.zero}: use 0, 1, 2 or 3.")
        if self.shard is not None and (self.shard < 1 or self.data % self.shard):
            raise UserError(f"{self.data} data ranks do not make groups of {self.shard}: use a divisor.")
        if self.checkpointing not in CHECKPOINTING:
            raise UserError(f"there is no checkpointing {self.checkpointing!r}: use one of {', '.join(CHECKPOINTING)}.")
        parameters = parameter_count(config)
        if self.world_size > parameters:
            raise UserError(
                f"{self.world_size:,} ranks are more than the model's {parameters:,} parameters: use fewer."
            )
        self._check_tensor(config)
        self._check_pipeline(config)

    def _check_tensor(self, config: Config) -> None:
        heads = getattr(config, "n_kv_head", config.n_head)
        if heads % self.tensor:
            raise UserError(f"{self.tensor} tensor ranks cannot share {heads} heads evenly: use a divisor of {heads}.")
        wide = getattr(config, "ffn_dim", 4 * config.hidden_dim)
        if wide % self.tensor:
            raise UserError(
                f"{self.tensor} tensor ranks cannot share an MLP {wide} wide evenly: use a divisor of both."
            )
        if self.sequence_parallel and self.tensor == 1:
            raise UserError(
                "sequence parallelism splits what tensor parallelism leaves whole: use 2 tensor ranks or more."
            )

    def _check_pipeline(self, config: Config) -> None:
        runs = self.pipeline * self.interleave
        if config.n_layer % runs:
            name = "pipeline ranks" if self.interleave == 1 else "runs of blocks (pipeline ranks times interleaving)"
            raise UserError(
                f"{runs} {name} cannot share {config.n_layer} blocks evenly: use a divisor of {config.n_layer}."
            )
        if self.interleave > 1 and self.pipeline == 1:
            raise UserError(
                "interleaving gives each pipeline rank several runs of blocks: use 2 pipeline ranks or more."
            )
        if self.interleave > 1 and self.micro_batches % self.pipeline:
            raise UserError(
                f"an interleaved pipeline takes micro-batches in groups of {self.pipeline}: "
                f"{self.micro_batches} are none; use a multiple of {self.pipeline}."
            )
