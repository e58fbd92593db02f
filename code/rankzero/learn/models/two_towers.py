"""Two-tower contrastive model: pictures and their captions become unit vectors in one space, as in CLIP.

Each tower reads one kind of input, and the towers meet only in the dot products of their outputs. Shapes in comments:
B pairs in a batch, T tokens in a caption, E numbers in an embedding.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.errors import UserError
from rankzero.learn.models.gpt import Block, GPTConfig
from rankzero.learn.models.image_classifiers import small_cnn

LARGEST_SCALE = 100.0  # CLIP (arXiv 2103.00020, section 2.5) limits the scale of its logits to this

# Each stage of training, and the parts that it trains. All other parts are frozen.
STAGES = {
    "projections": ("image_projection", "text_projection"),
    "text tower too": ("image_projection", "text_projection", "text_tower"),
    "everything": ("image_projection", "text_projection", "text_tower", "image_tower"),
}


@dataclass(frozen=True)
class TwoTowersConfig:
    """The shape of a two-tower model: channels of a picture, the text tower, and the size of an embedding."""

    channels: int
    text: GPTConfig
    embedding_dim: int = 32


class TextTower(nn.Module):
    """Token ids [B, T] in, one vector per caption [B, C] out: the state at the caption's last token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.position_embedding = nn.Embedding(config.block_size, config.hidden_dim)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.n_layer)))
        self.norm = nn.LayerNorm(config.hidden_dim, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] int64 -> [B, C]. Attention is causal, so the last token has seen all others."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        return self.norm(self.blocks(x)[:, -1])


class TwoTowers(nn.Module):
    """Embeds pictures and captions, and compares every picture with every caption of a batch."""

    def __init__(self, config: TwoTowersConfig) -> None:
        super().__init__()
        *features, last = small_cnn(config.channels, config.embedding_dim)
        assert isinstance(last, nn.Linear)
        self.image_tower = nn.Sequential(*features)
        self.text_tower = TextTower(config.text)
        self.image_projection = nn.Linear(last.in_features, config.embedding_dim, bias=False)
        self.text_projection = nn.Linear(config.text.hidden_dim, config.embedding_dim, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))  # 1 / temperature, as CLIP begins

    def embed_images(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] float -> [B, E], each of length 1."""
        return F.normalize(self.image_projection(self.image_tower(images)), dim=-1)

    def embed_captions(self, tokens: Tensor) -> Tensor:
        """[B, T] int64 -> [B, E], each of length 1."""
        return F.normalize(self.text_projection(self.text_tower(tokens)), dim=-1)

    def compare(self, images: Tensor, captions: Tensor) -> Tensor:
        """[N, E], [M, E] -> logits [N, M]: the scaled cosine of each pair."""
        return self.log_scale.exp() * images @ captions.T

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        """[B, channels, H, W], [B, T] -> logits [B, B]; pair i is in row and column i."""
        return self.compare(self.embed_images(images), self.embed_captions(tokens))

    def begin_stage(self, name: str) -> list[nn.Parameter]:
        """Freezes the parts that a stage of STAGES leaves alone; returns the parameters to train, for an optimizer.

        Frozen parts are in evaluation mode, so that no dropout and no running average changes them. The scale of the
        logits trains in every stage. UserError for another name.
        """
        if name not in STAGES:
            raise UserError(f"there is no stage {name!r}: the stages are {', '.join(STAGES)}.")
        for part, module in self.named_children():
            trains = part in STAGES[name]
            module.requires_grad_(trains).train(trains)
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    @torch.no_grad()
    def limit_scale(self) -> None:
        """Limits the scale of the logits; call it after each update."""
        self.log_scale.clamp_(max=math.log(LARGEST_SCALE))


def contrastive_loss(logits: Tensor) -> Tensor:
    """Logits [B, B] -> the mean loss in nats of choosing each picture's caption and each caption's picture."""
    pairs = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, pairs) + F.cross_entropy(logits.T, pairs)) / 2
