"""What autograd keeps of each token: the activations, component by component.

These are the tensors of `learn.gpt.GPT` and `learn.llama.Llama` without dropout, with PyTorch's fused attention, on the
CPU. CUDA's kernels differ in small things: LayerNorm's statistics are fp32 there whatever its input, and RMSNorm keeps
no second copy of its input.
"""

from dataclasses import dataclass
from typing import Literal

from rankzero.learn.errors import UserError
from rankzero.learn.gpt import GPTConfig
from rankzero.learn.llama import LlamaConfig
from rankzero.ledger.models import Config
from rankzero.ledger.recipes import Recipe


@dataclass(frozen=True)
class Kept:
    """One tensor that autograd keeps: `count` numbers of `size` bytes for each of `per`."""

    name: str
    symbols: str  # the count, written with C, H, V ...
    count: int
    size: int  # bytes a number
    in_block: bool = True  # once in each block, or once in the model
    split: Literal["tensor", "sequence"] = (
        "sequence"  # tensor parallelism divides it; or only with sequence parallelism
    )
    per: Literal["token", "position", "batch"] = "token"


@dataclass(frozen=True)
class Sizes:
    """Bytes of a number, by where it arises."""

    compute: int  # what matrix products read and write
    residual: int  # the residual stream, and what norms read
    statistic: int  # LayerNorm's mean and 1/std
    loss: int  # log-probabilities
    casts: bool  # each product that reads the fp32 output of a norm casts it anew, and keeps its own copy


def sizes_of(recipe: Recipe) -> Sizes:
    """Under autocast products are in bf16, while sums, norms and the loss stay in fp32."""
    if recipe.copy:
        return Sizes(compute=2, residual=4, statistic=4, loss=4, casts=True)
    own = recipe.weight
    return Sizes(compute=own, residual=own, statistic=own, loss=own, casts=False)


def kept_tensors(config: Config, recipe: Recipe) -> list[Kept]:
    """Every tensor that one forward pass, loss included, leaves for backward."""
    sizes = sizes_of(recipe)
    loss = [
        Kept("output layer: input", "C", config.hidden_dim, sizes.compute, in_block=False),
        Kept("loss: log-probabilities", "V", config.vocab_size, sizes.loss, in_block=False, split="tensor"),
        Kept("loss: targets", "1", 1, 8, in_block=False),
        Kept("loss: sum of weights", "1", 1, sizes.loss, in_block=False, per="batch"),
        Kept("embedding: token ids", "1", 1, 8, in_block=False),
    ]
    return [*(_gpt(config, sizes) if isinstance(config, GPTConfig) else _llama(config, sizes)), *loss]


def _gpt(config: GPTConfig, sizes: Sizes) -> list[Kept]:
    if config.dropout:
        raise UserError(f"the ledger predicts models without dropout, not with dropout {config.dropout}: set it to 0.")
    C, H = config.hidden_dim, config.n_head
    return [
        Kept("norms: input", "2C", 2 * C, sizes.residual),
        Kept("norms: mean, 1/std", "4", 4, sizes.statistic),
        Kept("attention: input", "C", C, sizes.compute),
        Kept("attention: q, k, v", "3C", 3 * C, sizes.compute, split="tensor"),
        Kept("attention: output", "C", C, sizes.compute, split="tensor"),
        Kept("attention: log-sum-exp", "H", H, 4, split="tensor"),
        Kept("MLP: input", "C", C, sizes.compute),
        Kept("MLP: before GELU", "4C", 4 * C, sizes.compute, split="tensor"),
        Kept("MLP: after GELU", "4C", 4 * C, sizes.compute, split="tensor"),
        Kept("embedding: positions", "1", 1, 8, in_block=False, per="position"),
        Kept("last norm: input", "C", C, sizes.residual, in_block=False),
        Kept("last norm: mean, 1/std", "2", 2, sizes.statistic, in_block=False),
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
        Kept("attention: input", into_attention, 3 * C if sizes.casts else C, sizes.compute),
        Kept("attention: q", "C", C, sizes.compute, split="tensor"),
        Kept("attention: k, v", "2KD", 2 * kv, sizes.compute, split="tensor"),
        Kept("attention: output", "C", C, sizes.compute, split="tensor"),
        Kept("attention: log-sum-exp", "H", H, 4, split="tensor"),
        Kept("MLP: input", into_mlp, 2 * C if sizes.casts else C, sizes.compute),
        Kept("MLP: gate, silu(gate), up", "3F", 3 * F, sizes.compute, split="tensor"),
        Kept("MLP: product", "F", F, sizes.compute, split="tensor"),
        Kept("rotary: cos, sin", "2D", 2 * D, sizes.residual, in_block=False, per="position"),
        Kept("last norm: input, in fp32", "C", C, 4, in_block=False),
        Kept("last norm: 1/rms", "1", 1, 4, in_block=False),
        Kept("last norm: normalized, in fp32", "C", C, 4, in_block=False),
    ]
