"""A GPT that reads in one sitting: the model every lab trains.

Decoder-only, pre-norm, learned positions, no biases, output layer tied to the token embedding. Shapes in comments:
B sequences in a batch, T tokens in a sequence, C = hidden_dim, H heads, V tokens in the vocabulary.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.errors import UserError


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT. Every field is a count, except `dropout`, a probability."""

    vocab_size: int
    block_size: int = 64  # longest sequence, in tokens
    n_layer: int = 4
    n_head: int = 4
    hidden_dim: int = 128
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "hidden_dim"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.hidden_dim % self.n_head:
            raise UserError(
                f"hidden_dim {self.hidden_dim} does not divide into {self.n_head} attention heads: "
                f"use a multiple of {self.n_head}."
            )
        if not 0.0 <= self.dropout < 1.0:
            raise UserError(f"dropout is {self.dropout}: it must be at least 0 and below 1.")

    def parameter_count(self) -> int:
        """Returns the number of parameters of a GPT of this shape, without making the model."""
        C = self.hidden_dim
        return (self.vocab_size + self.block_size + 1) * C + self.n_layer * (12 * C**2 + 2 * C)

    def training_bytes(self, batch_size: int) -> int:
        """Returns the approximate peak bytes of fp32 training with AdamW: 16 per parameter, plus activations."""
        kept = (
            self.n_layer * 16 * self.hidden_dim + 3 * self.vocab_size
        )  # numbers per token; see handbook/forward-pass.md
        return 16 * self.parameter_count() + 4 * batch_size * self.block_size * kept

    def summary(self) -> str:
        """Returns the shape in words."""
        blocks = f"{self.n_layer} layers, {self.n_head} heads, {self.hidden_dim} wide"
        return f"{blocks}, {self.block_size} tokens per sequence"


class CausalSelfAttention(nn.Module):
    """Each token gathers from itself and the tokens before it."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_head, self.dropout = config.n_head, config.dropout
        self.qkv = nn.Linear(config.hidden_dim, 3 * config.hidden_dim, bias=False)
        self.proj = nn.Linear(config.hidden_dim, config.hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        B, T, C = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # three times [B, H, T, C/H]
        # Fused: without dropout, no [T, T] matrix of scores is kept for backward.
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    """Works on each token alone: widens it fourfold, applies GELU, narrows it."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_dim, 4 * config.hidden_dim, bias=False)
        self.proj = nn.Linear(4 * config.hidden_dim, config.hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        return self.proj(F.gelu(self.up(x)))


class Block(nn.Module):
    """Attention, then MLP, each added to the residual stream that carries `x` past both."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_dim, bias=False)
        self.attention = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.hidden_dim, bias=False)
        self.mlp = MLP(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Token ids [B, T] in, logits [B, T, V] out: at each position, a score for every possible next token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.position_embedding = nn.Embedding(config.block_size, config.hidden_dim)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.hidden_dim, bias=False)
        self.head = nn.Linear(config.hidden_dim, config.vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight  # tied: one [V, C] matrix, used twice
        self._initialize()

    def _initialize(self) -> None:
        # Small weights make nearly equal logits, so the first loss is close to ln V: a guess over V tokens.
        # Each block adds two terms to the residual stream; dividing by sqrt(2 L) keeps its variance from growing
        # with depth (GPT-2, section 2.3 of the paper).
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                std = 0.02 / math.sqrt(2 * self.config.n_layer) if name.endswith("proj.weight") else 0.02
                nn.init.normal_(parameter, mean=0.0, std=std)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] int64 -> [B, T, V] float. T may be at most `block_size`."""
        T = tokens.shape[1]
        if T > self.config.block_size:
            raise UserError(f"a sequence of {T} tokens is longer than this GPT's block_size {self.config.block_size}.")
        positions = torch.arange(T, device=tokens.device)
        x = self.drop(self.token_embedding(tokens) + self.position_embedding(positions))  # [B, T, C]
        return self.head(self.norm(self.run_blocks(x)))

    def run_blocks(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C], through one block after another."""
        for block in self.blocks:
            x = block(x)
        return x

    def parameter_count(self) -> int:
        """Returns the number of parameters in the model; the tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())

    def flops_per_token(self) -> int:
        """Returns FLOPs of forward and backward per token, by PaLM's 6N + 12LHQT (arXiv 2204.02311, appendix B).

        N leaves out the position embedding, which is looked up and added, never multiplied.
        """
        c = self.config
        n = self.parameter_count() - self.position_embedding.weight.numel()
        return 6 * n + 12 * c.n_layer * c.hidden_dim * c.block_size

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Samples `count` tokens after `tokens` [B, T], one at a time; returns [B, T + count].

        `generator` lives on the CPU, so that a seed gives the same draws on every device.
        """
        training = self.training
        self.eval()
        for _ in range(count):
            logits = self(tokens[:, -self.config.block_size :])[:, -1]  # [B, V]
            probabilities = logits.float().softmax(-1).cpu()
            next_token = torch.multinomial(probabilities, 1, generator=generator).to(tokens.device)
            tokens = torch.cat([tokens, next_token], dim=1)
        self.train(training)
        return tokens
