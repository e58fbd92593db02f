"""The learner's functions in Lab 08's starter: `rankzero run 08 --mine`.

The starter shards weights, gradients and optimizer state (ZeRO-3); the learner's ZeRO-1 shards the optimizer's state
and keeps the weights whole. The losses are the same.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

USES = ("make_part", "zero1_step", "save_parts", "load_part")  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu")  # of the starter, for both runs: parts are saved through NumPy
ROUNDING = 1e-4  # more than two ranks add gradients up in another order; 100 steps amplify the difference


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    make_part, zero1_step = learner.make_part, learner.zero1_step
    save_parts, load_part = learner.save_parts, learner.load_part
    mean_over_ranks = starter.mean_over_ranks

    def shard(model: nn.Module, lr: float, *unused: Any) -> tuple[nn.Module, AdamW]:
        return model, AdamW([make_part(list(model.parameters()))], lr=lr)

    def part_of(optimizer: Optimizer) -> nn.Parameter:
        return optimizer.param_groups[0]["params"][0]

    def train_step(
        model: nn.Module,
        optimizer: Optimizer,
        x: Tensor,
        y: Tensor,
        after: Callable[[str], None] = lambda phase: None,
    ) -> Tensor:
        model.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        after("forward")
        loss.backward()
        after("backward")
        zero1_step(list(model.parameters()), part_of(optimizer), optimizer)
        after("update")
        return mean_over_ranks(loss.detach())

    def save(run: Path, model: nn.Module, optimizer: Optimizer, **facts: Any) -> Path:
        """Saves the weights by parts, and goes on with what is read back: a wrong file is a wrong next loss."""
        part, folder = part_of(optimizer), run / f"step-{facts['step']:06d}"
        save_parts(folder, part.detach(), sum(p.numel() for p in model.parameters()))
        dist.barrier()
        part.data.copy_(load_part(folder, dist.get_rank(), dist.get_world_size()))
        return folder

    def nothing_to_compare(*unused: Any) -> str:
        return "The starter's own comparisons are about ZeRO-3; here the optimizer's state is sharded (ZeRO-1)."

    replaced = {"shard": shard, "train_step": train_step, "save": save}
    return replaced | {"compare_with_one_process": nothing_to_compare, "count_a_step": nothing_to_compare}
