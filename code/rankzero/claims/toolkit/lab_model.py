"""Lab 02's GPT, smaller GPTs, their batches and their loss."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import AdamW

from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory

SHAPE = GPTConfig(vocab_size=96)  # 4 layers, 4 heads, 128 wide, at most 64 tokens: 808,064 parameters
TINY = GPTConfig(vocab_size=32, block_size=16, n_layer=1, n_head=2, hidden_dim=32)  # 9 parameter tensors
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


def text_model() -> GPT:
    """Lab 02's GPT with seed 0 and the vocabulary of the embedded text."""
    return make_model(vocab_size=load_corpus("embedded").vocab_size)


def text_batch(step: int = 0) -> tuple[Tensor, Tensor]:
    """Lab 02's batch of a step from the embedded text, int64 [12, 64] each."""
    return random_batch(load_corpus("embedded").train, step=step, seed=0, batch_size=12, block_size=64)


def small_gpt(**changes: float) -> GPT:
    """A GPT small enough for float64, with seed 0; `changes` are fields of GPTConfig."""
    torch.manual_seed(0)
    shape = {"block_size": 8, "n_layer": 2, "n_head": 2, "hidden_dim": 32}
    return GPT(GPTConfig(24, **(shape | changes))).double()  # type: ignore[arg-type]


def seeded_gpt(config: GPTConfig, *, double: bool = True) -> tuple[GPT, Tensor]:
    """A GPT and random tokens [32, block_size + 1], the same on every machine."""
    torch.manual_seed(0)
    model = GPT(config)
    return model.double() if double else model, torch.randint(config.vocab_size, (32, config.block_size + 1))


def token_loss(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of targets [B, T], in nats per token."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def next_token_loss(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each next token of [B, T + 1], in nats per token."""
    return token_loss(model, tokens[:, :-1], tokens[:, 1:])


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
