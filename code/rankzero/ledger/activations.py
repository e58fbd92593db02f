"""Activations that autograd keeps for backward, component by component.

These are the tensors of `GPT` and `Llama` in `learn.models` without dropout, with PyTorch's fused attention, on the
CPU. CUDA's kernels differ in small things: LayerNorm's statistics are fp32 there whatever its input, and RMSNorm keeps
no second copy of its input.
"""

from dataclasses import dataclass
from typing import Literal

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.ledger.models import Config
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.recipes import Recipe


@dataclass(frozen=True)
class Kept:
    """One tensor that autograd keeps: `count` numbers of `size` bytes per token, position or batch."""

    name: str
    symbols: str  # the count, written with C, H, V ...
    count: int
    size: int  # bytes per number
    where: Literal["block", "first", "last", "run"] = "block"  # each block; the model's ends; each run of blocks
    # Tensor parallelism divides it; or only with sequence parallelism; or nothing does: what goes into split products
    # is gathered first, and DTensor keeps it so. (Megatron-LM keeps the part, and gathers again in backward.)
    split: Literal["tensor", "sequence", "nothing"] = "sequence"
    per: Literal["token", "position", "batch"] = "token"


@dataclass(frozen=True)
class Sizes:
    """Bytes per number, by the place in the model where it is computed."""

    compute: int  # what matrix products read and write
    residual: int  # the residual stream, and what norms read
    statistic: int  # LayerNorm's mean and 1/std
    loss: int  # log-probabilities
    casts: bool  # each product that reads the fp32 output of a norm casts it again, and keeps its own copy


def sizes_of(recipe: Recipe) -> Sizes:
    """Returns the sizes of a recipe. Under autocast products are in bf16; sums, norms and the loss stay in fp32."""
    if recipe.copy:
        return Sizes(compute=2, residual=4, statistic=4, loss=4, casts=True)
    own = recipe.weight
    return Sizes(compute=own, residual=own, statistic=own, loss=own, casts=False)


def kept_tensors(config: Config, recipe: Recipe) -> list[Kept]:
    """Returns every tensor that one forward pass, loss included, keeps for backward."""
    sizes = sizes_of(recipe)
    loss = [
        Kept("output layer: input", "C", config.hidden_dim, sizes.compute, where="last", split="nothing"),
        Kept("loss: log-probabilities", "V", config.vocab_size, sizes.loss, where="last", split="tensor"),
        Kept("loss: targets", "1", 1, 8, where="last", split="nothing"),
        Kept("loss: sum of weights", "1", 1, sizes.loss, where="last", per="batch", split="nothing"),
        Kept("embedding: token ids", "1", 1, 8, where="first", split="nothing"),
    ]
    return [*(_gpt(config, sizes) if isinstance(config, GPTConfig) else _llama(config, sizes)), *loss]


def kept_bytes(kept: Kept, batch_size: int, seq_len: int, layout: Layout) -> int:
    """Returns the bytes of one instance of a kept tensor on one tensor-parallel rank."""
    times = {"token": batch_size * seq_len, "position": seq_len, "batch": 1}[kept.per]
    if kept.split == "tensor":
        return -(-kept.count // layout.tensor) * times * kept.size
    ranks = layout.tensor if kept.split == "sequence" and layout.sequence_parallel else 1
    return -(-times // ranks) * kept.count * kept.size


def _gpt(config: GPTConfig, sizes: Sizes) -> list[Kept]:
    if config.dropout:
        raise UserError(f"the ledger predicts models without dropout, not with dropout {config.dropout}: set it to 0.")
    C, H = config.hidden_dim, config.n_head
    return [
        Kept("norms: input", "2C", 2 * C, sizes.residual),
        Kept("norms: mean, 1/std", "4", 4, sizes.statistic),
        Kept("attention: input", "C", C, sizes.compute, split="nothing"),
        Kept("attention: q, k, v", "3C", 3 * C, sizes.compute, split="tensor"),
        Kept("attention: output", "C", C, sizes.compute, split="tensor"),
        Kept("attention: log-sum-exp", "H", H, 4, split="tensor"),
        Kept("MLP: input", "C", C, sizes.compute, split="nothing"),
        Kept("MLP: before GELU", "4C", 4 * C, sizes.compute, split="tensor"),
        Kept("MLP: after GELU", "4C", 4 * C, sizes.compute, split="tensor"),
        Kept("embedding: positions", "1", 1, 8, where="first", per="position", split="nothing"),
        Kept("last norm: input", "C", C, sizes.residual, where="last"),
        Kept("last norm: mean, 1/std", "2", 2, sizes.statistic, where="last"),
    ]


def _llama(config: LlamaConfig, sizes: Sizes) -> list[Kept]:
    C, H, F, D = config.hidden_dim, config.n_head, config.ffn_dim, config.head_dim
    kv = config.n_kv_head * D
    into_attention, into_mlp = ("3C", "2C") if sizes.casts else ("C", "C")  # q, k, v; gate, up
    # RMSNorm works in fp32 whatever its input, and keeps its input and the normalized input.
    return [
        Kept("norms: input, in fp32", "2C", 2 * C, 4),
        Kept("norms: 1/rms", "2", 2, 4),
        Kept("norms: normalized, in fp32", "2C", 2 * C, 4),
        Kept("attention: input", into_attention, 3 * C if sizes.casts else C, sizes.compute, split="nothing"),
        Kept("attention: q", "C", C, sizes.compute, split="tensor"),
        Kept("attention: k, v", "2KD", 2 * kv, sizes.compute, split="tensor"),
        Kept("attention: output", "C", C, sizes.compute, split="tensor"),
        Kept("attention: log-sum-exp", "H", H, 4, split="tensor"),
        Kept("MLP: input", into_mlp, 2 * C if sizes.casts else C, sizes.compute, split="nothing"),
        Kept("MLP: gate, silu(gate), up", "3F", 3 * F, sizes.compute, split="tensor"),
        Kept("MLP: product", "F", F, sizes.compute, split="tensor"),
        Kept("rotary: cos, sin", "2D", 2 * D, sizes.residual, where="run", per="position", split="nothing"),
        Kept("last norm: input, in fp32", "C", C, 4, where="last"),
        Kept("last norm: 1/rms", "1", 1, 4, where="last"),
        Kept("last norm: normalized, in fp32", "C", C, 4, where="last"),
    ]
