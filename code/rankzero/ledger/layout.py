"""How a model is spread over ranks, and what is recomputed."""

from dataclasses import dataclass

from rankzero.learn.errors import UserError
from rankzero.ledger.models import Config, parameter_count

CHECKPOINTING = ("none", "block")


@dataclass(frozen=True)
class Layout:
    """One rank holds its part. `data` ranks see different batches, `tensor` ranks share every matrix product.

    `zero` is ZeRO's stage over the data ranks: 1 shards the optimizer's state, 2 the gradients too, 3 the weights too.
    `checkpointing` "block" keeps each block's input only and runs the block again in backward.
    """

    data: int = 1
    zero: int = 0
    tensor: int = 1
    sequence_parallel: bool = False
    checkpointing: str = "none"

    def check(self, config: Config) -> None:
        """UserError if `config` cannot be laid out like this."""
        for name in ("data", "tensor"):
            if getattr(self, name) < 1:
                raise UserError(f"{getattr(self, name)} {name} ranks: there must be at least 1.")
        if self.zero not in (0, 1, 2, 3):
            raise UserError(f"there is no ZeRO stage {self.zero}: use 0, 1, 2 or 3.")
        if self.checkpointing not in CHECKPOINTING:
            raise UserError(f"there is no checkpointing {self.checkpointing!r}: use one of {', '.join(CHECKPOINTING)}.")
        parameters = parameter_count(config)
        if self.data * self.tensor > parameters:
            raise UserError(
                f"{self.data * self.tensor:,} ranks are more than the model's {parameters:,} parameters: use fewer."
            )
        heads = getattr(config, "n_kv_head", config.n_head)
        if heads % self.tensor:
            raise UserError(f"{self.tensor} tensor ranks cannot share {heads} heads evenly: use a divisor of {heads}.")
        if self.sequence_parallel and self.tensor == 1:
            raise UserError(
                "sequence parallelism splits what tensor parallelism leaves whole: use 2 tensor ranks or more."
            )
