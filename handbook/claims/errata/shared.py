"""What several claims of handbook/errata.md share."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.ledger import Kind, Ledger
from rankzero.ledger.models import PRESETS

GB, GIB = 10**9, 2**30
LAB_02 = GPTConfig(vocab_size=96)
TINY = GPTConfig(vocab_size=32, block_size=16, n_layer=1, n_head=2, hidden_dim=32)  # 9 parameter tensors
GPT_2 = cast(GPTConfig, PRESETS["gpt2"])


def seeded_gpt(config: GPTConfig, *, double: bool = True) -> tuple[GPT, Tensor]:
    """A GPT and random tokens [32, block_size + 1], the same on every machine."""
    torch.manual_seed(0)
    model = GPT(config)
    return model.double() if double else model, torch.randint(config.vocab_size, (32, config.block_size + 1))


def token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each next token."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def flat(tensors: Iterator[Tensor] | list[Tensor]) -> Tensor:
    """All numbers of the tensors as one vector, copied."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def gradient(model: nn.Module, *losses: Callable[[], Tensor]) -> Tensor:
    """The sum of the gradients of the losses, as one vector."""
    model.zero_grad()
    for loss in losses:
        loss().backward()
    return flat([p.grad for p in model.parameters() if p.grad is not None])


def off_by(measured: Tensor, right: Tensor) -> float:
    """Length of the difference over the length of what is right."""
    return float((measured - right).norm() / right.norm())


def kept_tensors(layer: Callable[..., Any], *inputs: Any) -> list[Tensor]:
    """Tensors that autograd keeps while `layer(*inputs)` runs, a module's own parameters left out."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(*inputs)
    own = {p.data_ptr() for p in layer.parameters()} if isinstance(layer, nn.Module) else set()
    return [tensor for tensor in kept if tensor.data_ptr() not in own]


class Recomputed(nn.Module):
    """Keeps only the input of a module, and runs it again in backward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """As the module inside."""
        return checkpoint(self.inner, x, use_reentrant=False)


def states(ledger: Ledger) -> dict[str, int]:
    """Bytes of weights, gradients and optimizer state by row; step counts, a few bytes a tensor, left out."""
    wanted = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
    return {row.name: row.bytes for row in ledger.rows if row.kind in wanted and row.name != "step counts"}


def fake_gpt2(recompute: str = "") -> nn.Module:
    """GPT-2's shape; "blocks" recomputes each block, "all" the whole forward pass."""
    model = GPT(dataclasses.replace(GPT_2, block_size=2048))  # room for 2,048 tokens; adds no FLOPs, no activations
    if recompute == "blocks":
        model.blocks = nn.ModuleList(Recomputed(block) for block in model.blocks)
    return Recomputed(model) if recompute == "all" else model


def gpt2_flops(recompute: str = "", *, early_stop: bool = False, seq_len: int = 1024, backward: bool = True) -> int:
    """FLOPs of one sequence of `seq_len` tokens, attention's products included."""
    with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH), set_checkpoint_early_stop(early_stop):
        model, ids = fake_gpt2(recompute), torch.zeros(1, seq_len, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            logits = model(ids)
            if backward:
                logits.sum().backward()
    return counter.get_total_flops()
