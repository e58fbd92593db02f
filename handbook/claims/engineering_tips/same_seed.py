"""Claim of handbook/engineering-tips.md: two runs of one command, and the step from which their losses differ."""

import torch

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig

STEPS = 120


def losses(*, data_seed: int = 1, reverse: bool = False) -> list[float]:
    """Losses of a small GPT in fp32; `reverse` puts the sequences of each batch in reverse order."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(32, block_size=16, n_layer=1, n_head=2, hidden_dim=32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(data_seed)
    history = []
    for _ in range(STEPS):
        tokens = torch.randint(32, (8, 17), generator=generator)
        tokens = tokens.flip(0) if reverse else tokens
        loss = token_loss(model, tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


@claim(
    "two-runs-part",
    "Losses of two runs: with all seeds equal they never differ; with other data they differ by more than 0.001 at the "
    "first step; with the same sequences in another order they differ first by less than 0.00001.",
    expected={"same seeds: steps that differ": 0, "other data: at the first step": 1, "other order: below 1e-5": 1},
    unit="",
)
def two_runs_part() -> Charted:
    """Trains a GPT of one layer for 120 steps four times and subtracts the losses of the first run."""
    first = losses()

    def differences(**change: int) -> list[float]:
        return [abs(a - b) for a, b in zip(first, losses(**change), strict=True)]  # type: ignore[arg-type]

    same, data, order = differences(), differences(data_seed=2), differences(reverse=True)
    value = {
        "same seeds: steps that differ": sum(value > 0 for value in same),
        "other data: at the first step": int(data[0] > 1e-3),
        "other order: below 1e-5": int(next((value for value in order if value), 0.0) < 1e-5),
    }
    lines = {
        name: [(float(step), size, size, size) for step, size in enumerate(line, 1) if size > 0]
        for name, line in (("other data", data), ("other order", order))
    }
    return Charted(value, Chart("Difference of two runs", "step", "difference of the losses, nats", lines, "y"))
