"""Lab 02's model and a batch for it, for the claims of several pages."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW

from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory

SHAPE = GPTConfig(vocab_size=96)  # 4 layers, 4 heads, 128 wide, at most 64 tokens
CPU = torch.device("cpu")


def make_model(**changes: float) -> GPT:
    """Lab 02's GPT with seed 0; `changes` are fields of GPTConfig."""
    torch.manual_seed(0)
    return GPT(GPTConfig(**(vars(SHAPE) | changes)))


def make_batch(batch_size: int = 12, tokens: int = 64) -> tuple[Tensor, Tensor]:
    """Random token ids and targets, int64 [B, T] each."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randint(SHAPE.vocab_size, (batch_size, tokens), generator=generator) for _ in range(2))
    return x, y


def token_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy, in nats a token."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def bytes_by_phase(batch_size: int = 12, tokens: int = 64, steps: int = 1) -> dict[str, dict[str, int]]:
    """Bytes of each role after each phase of the last of `steps` training steps."""
    model = make_model()
    optimizer = AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        with PhaseMemory(model, optimizer, CPU) as memory:
            loss = token_loss(model, *make_batch(batch_size, tokens))
            memory.record("forward")
            loss.backward()
            memory.record("backward")
            optimizer.step()
            memory.record("update")
    roles = ("weights", "gradients", "optimizer", "activations")
    return {role: {row.phase: getattr(row, role) for row in memory.rows} for role in roles}
