"""A Llama that reads in one sitting: what changed in decoder-only models after GPT-2.

RMSNorm instead of LayerNorm, rotary positions instead of learned ones, a gated MLP (SwiGLU), fewer heads for keys and
values than for queries (grouped-query attention), an untied output layer. Shapes in comments: B sequences in a
batch, T tokens in a sequence, C = hidden_dim, H heads, K heads of keys and values, D = C / H, V tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.errors import UserError

NORM_EPS = 1e-5  # as in Llama 2 and 3; PyTorch's default is the dtype's own eps, 1.2e-7 in fp32


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a Llama. Every field is a count, except `rope_theta`, the base of the rotary wavelengths."""

    vocab_size: int
    block_size: int = 4096  # longest sequence, in tokens
    n_layer: int = 32
    n_head: int = 32
    n_kv_head: int = 32
    hidden_dim: int = 4096
    ffn_dim: int = 11008  # width of the gated MLP
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_kv_head", "hidden_dim", "ffn_dim"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.hidden_dim % (2 * self.n_head):
            raise UserError(
                f"hidden_dim {self.hidden_dim} does not divide into {self.n_head} attention heads of even width: "
                f"use a multiple of {2 * self.n_head}."
            )
        if self.n_head % self.n_kv_head:
            raise UserError(
                f"{self.n_head} attention heads cannot share {self.n_kv_head} heads of keys and values evenly: "
                f"use a divisor of {self.n_head}."
            )

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.hidden_dim // self.n_head


class Attention(nn.Module):
    """Causal attention; H / K heads of queries share one head of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        C, kv_dim = config.hidden_dim, config.n_kv_head * config.head_dim
        self.q = nn.Linear(C, C, bias=False)
        self.k = nn.Linear(C, kv_dim, bias=False)
        self.v = nn.Linear(C, kv_dim, bias=False)
        self.proj = nn.Linear(C, C, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        B, T, _ = x.shape
        q, k, v = (  # [B, H, T, D], [B, K, T, D] twice
            layer(x).view(B, T, -1, self.config.head_dim).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.config.n_kv_head < self.config.n_head
        )
        return self.proj(y.transpose(1, 2).flatten(2))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns pairs of numbers of [B, *, T, D] by an angle that grows with the position: rotary position embedding."""
    left, right = x.chunk(2, dim=-1)
    turned = x * cos + torch.cat([-right, left], dim=-1) * sin
    return turned.type_as(x)  # under autocast the angles are fp32 and x is not


class MLP(nn.Module):
    """SwiGLU: one branch, after SiLU, scales the other branch."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.hidden_dim, config.ffn_dim, bias=False)
        self.up = nn.Linear(config.hidden_dim, config.ffn_dim, bias=False)
        self.down = nn.Linear(config.ffn_dim, config.hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention, then MLP, each added to the residual stream."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(config.hidden_dim, eps=NORM_EPS)
        self.attention = Attention(config)
        self.norm2 = nn.RMSNorm(config.hidden_dim, eps=NORM_EPS)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Token ids [B, T] in, logits [B, T, V] out."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.RMSNorm(config.hidden_dim, eps=NORM_EPS)
        self.head = nn.Linear(config.hidden_dim, config.vocab_size, bias=False)  # not tied

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] int64 -> [B, T, V] float. T may be at most `block_size`."""
        T, D = tokens.shape[1], self.config.head_dim
        if T > self.config.block_size:
            raise UserError(
                f"a sequence of {T} tokens is longer than this Llama's block_size {self.config.block_size}."
            )
        x = self.token_embedding(tokens)  # [B, T, C]
        frequencies = self.config.rope_theta ** (-torch.arange(0, D, 2, device=tokens.device) / D)
        angles = torch.arange(T, device=tokens.device)[:, None] * frequencies  # [T, D / 2], in radians
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))
