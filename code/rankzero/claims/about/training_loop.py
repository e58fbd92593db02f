"""Claims of handbook/training-loop.md."""

import torch
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.learn.gpt import GPT, GPTConfig
from rankzero.ledger.measure import storage_bytes

PAGE = "handbook/training-loop.md"


@claim(
    "adamw-state-8-bytes",
    "AdamW's two averages take 8 bytes a parameter in fp32.",
    page=PAGE,
    expected=8,
    unit="B a parameter",
)
def adamw_state() -> float:
    """Takes one step on Lab 02's GPT and counts the bytes of exp_avg and exp_avg_sq over its parameters."""
    model = GPT(GPTConfig(vocab_size=96))
    optimizer = AdamW(model.parameters())
    model(torch.zeros(1, 8, dtype=torch.int64)).sum().backward()
    optimizer.step()
    averages = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return storage_bytes(averages) / model.parameter_count()
