"""Models by their sizes: presets, and the weight matrices from which memory and FLOPs are predicted."""

import math
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.models.llama import Llama, LlamaConfig

Config = GPTConfig | LlamaConfig

LLAMA_3_8B = LlamaConfig(vocab_size=128256, block_size=8192, n_kv_head=8, ffn_dim=14336, rope_theta=500_000.0)
PRESETS: dict[str, Config] = {
    # GPT-2 small without its biases: 124,337,664 parameters.
    "gpt2": GPTConfig(vocab_size=50257, block_size=1024, n_layer=12, n_head=12, hidden_dim=768),
    "llama-2-7b": LlamaConfig(vocab_size=32000),
    "llama-3-8b": LLAMA_3_8B,
    "llama-3-70b": replace(LLAMA_3_8B, n_layer=80, n_head=64, hidden_dim=8192, ffn_dim=28672),
}


def find_preset(name: str) -> Config:
    """Returns the preset called `name`. UserError for an unknown name."""
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}: use one of {', '.join(PRESETS)}.")
    return PRESETS[name]


class RunAgain(nn.Module):
    """A block that keeps only its inputs and runs again in backward."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *inputs: Tensor) -> Tensor:
        """Returns the block's output."""
        return checkpoint(self.block, *inputs, use_reentrant=False)


def build(config: Config, checkpointing: str = "none") -> nn.Module:
    """Returns the model, in torch's default dtype; with `checkpointing` "block", blocks run again in backward."""
    model = GPT(config) if isinstance(config, GPTConfig) else Llama(config)
    if checkpointing == "block":
        model.blocks = nn.ModuleList(map(RunAgain, model.blocks))
    return model


@dataclass(frozen=True)
class Part:
    """The part of a model on one pipeline rank: some blocks, and perhaps the model's first or last layers."""

    blocks: int
    first: bool = True  # has the embeddings
    last: bool = True  # has the last norm, the output layer and the loss


@dataclass(frozen=True)
class Weight:
    """One kind of parameter tensor, and the number of its copies in the model."""

    group: str
    shape: tuple[int, ...]
    copies: int = 1
    matmul: bool = True  # used in a matrix product, so that autocast makes a bf16 copy; lookups and norms are not
    split: int | None = 0  # the dimension that tensor parallelism divides; None: each rank has all of it
    in_block: bool = False

    def local_shape(self, tensor_ranks: int = 1) -> tuple[int, ...]:
        """Returns the shape of one copy on the first of `tensor_ranks` ranks, which has the largest part."""
        return tuple(
            -(-length // tensor_ranks) if dim == self.split else length for dim, length in enumerate(self.shape)
        )

    def numbers(self, tensor_ranks: int = 1) -> int:
        """Returns the elements of one copy on that rank."""
        return math.prod(self.local_shape(tensor_ranks))

    def shard(self, tensor_ranks: int, shards: int) -> int:
        """Returns the elements of one copy if `shards` ranks share its rows as in `fully_shard`, with padding."""
        rows, *rest = self.local_shape(tensor_ranks)
        return -(-rows // shards) * math.prod(rest)


def weights_of(config: Config, part: Part | None = None) -> list[Weight]:
    """Returns every parameter tensor of the model, or of a part of it, in forward order; a tied tensor once."""
    part = part or Part(config.n_layer)
    C, V, L = config.hidden_dim, config.vocab_size, part.blocks
    gpt = isinstance(config, GPTConfig)
    norm = Weight("norms", (C,), L, matmul=False, split=None, in_block=True)

    def matrix(group: str, rows: int, columns: int, split: int) -> Weight:
        return Weight(group, (rows, columns), L, split=split, in_block=True)

    if isinstance(config, GPTConfig):
        ends = [Weight("position embedding", (config.block_size, C), matmul=False, split=None)]
        block = [
            norm,
            matrix("attention", 3 * C, C, 0),
            matrix("attention", C, C, 1),
            norm,
            matrix("MLP", 4 * C, C, 0),
            matrix("MLP", C, 4 * C, 1),
        ]
    else:
        ends, kv, F = [], config.n_kv_head * config.head_dim, config.ffn_dim
        block = [
            norm,
            matrix("attention", C, C, 0),
            *2 * [matrix("attention", kv, C, 0)],
            matrix("attention", C, C, 1),
            norm,
            *2 * [matrix("MLP", F, C, 0)],
            matrix("MLP", C, F, 1),
        ]
    # GPT's token embedding is also its output layer, a matrix product: it is at both ends of a pipeline.
    embedding = Weight("token embedding", (V, C), matmul=gpt and part.last)
    return [
        *([embedding] if part.first or (gpt and part.last) else []),
        *(ends if part.first else []),
        *block,
        *([Weight("norms", (C,), matmul=False, split=None)] if part.last else []),
        *([Weight("output layer", (V, C))] if part.last and not gpt else []),
    ]


def parameter_count(config: Config) -> int:
    """Returns the number of parameters in the model."""
    return sum(weight.numbers() * weight.copies for weight in weights_of(config))


def multiplied(config: Config, part: Part | None = None) -> int:
    """Returns N of 6N: all parameters except embeddings that are only looked up. A tied embedding counts."""
    looked_up = ("token embedding", "position embedding")
    weights = weights_of(config, part)
    return sum(w.numbers() * w.copies for w in weights if w.matmul or w.group not in looked_up)
