"""Models by their sizes: presets, and the list of weight matrices that the prediction works from."""

from dataclasses import dataclass

from torch import nn

from rankzero.learn.errors import UserError
from rankzero.learn.gpt import GPT, GPTConfig
from rankzero.learn.llama import Llama, LlamaConfig

Config = GPTConfig | LlamaConfig

PRESETS: dict[str, Config] = {
    # GPT-2 small without its biases: 124,337,664 parameters.
    "gpt2": GPTConfig(vocab_size=50257, block_size=1024, n_layer=12, n_head=12, hidden_dim=768),
    "llama-2-7b": LlamaConfig(vocab_size=32000),
    "llama-3-8b": LlamaConfig(vocab_size=128256, block_size=8192, n_kv_head=8, ffn_dim=14336, rope_theta=500_000.0),
    "llama-3-70b": LlamaConfig(
        vocab_size=128256,
        block_size=8192,
        n_layer=80,
        n_head=64,
        n_kv_head=8,
        hidden_dim=8192,
        ffn_dim=28672,
        rope_theta=500_000.0,
    ),
}


def find_preset(name: str) -> Config:
    """UserError for a name that there is not."""
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}: use one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def build(config: Config) -> nn.Module:
    """The model, in torch's default dtype."""
    return GPT(config) if isinstance(config, GPTConfig) else Llama(config)


@dataclass(frozen=True)
class Weight:
    """One kind of parameter tensor, and how often the model has it."""

    group: str
    shape: tuple[int, ...]
    copies: int = 1
    matmul: bool = True  # multiplied with, so that autocast makes a bf16 copy; a lookup or a norm is not
    split: bool = True  # tensor parallelism divides it

    def numbers(self, tensor_ranks: int = 1) -> int:
        """Elements of one copy on one of `tensor_ranks` ranks, the last part padded."""
        size = 1
        for length in self.shape:
            size *= length
        return -(-size // tensor_ranks) if self.split else size


def weights_of(config: Config) -> list[Weight]:
    """Every parameter tensor of the model; a tied one once."""
    C, V, L = config.hidden_dim, config.vocab_size, config.n_layer
    norms = Weight("norms", (C,), 2 * L + 1, matmul=False, split=False)
    if isinstance(config, GPTConfig):
        return [
            Weight("token embedding", (V, C)),  # tied to the output layer, where it is multiplied with
            Weight("position embedding", (config.block_size, C), matmul=False, split=False),
            Weight("attention", (3 * C, C), L),
            Weight("attention", (C, C), L),
            Weight("MLP", (4 * C, C), 2 * L),
            norms,
        ]
    kv_dim = config.n_kv_head * config.head_dim
    return [
        Weight("token embedding", (V, C), matmul=False),
        Weight("attention", (C, C), 2 * L),
        Weight("attention", (kv_dim, C), 2 * L),
        Weight("MLP", (config.ffn_dim, C), 3 * L),
        norms,
        Weight("output layer", (V, C)),
    ]


def parameter_count(config: Config) -> int:
    """Learned numbers in the model."""
    return sum(weight.numbers() * weight.copies for weight in weights_of(config))
