"""GPT-2's shape on fake tensors, and the FLOPs of its passes; attention by its formula and by PyTorch's kernel."""

import dataclasses
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.toolkit.kept_bytes import Recomputed
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.models import PRESETS

GPT_2 = cast(GPTConfig, PRESETS["gpt2"])


def gpt2(recompute: str = "") -> nn.Module:
    """GPT-2's shape; "blocks" recomputes each block, "all" the whole forward pass."""
    model = GPT(dataclasses.replace(GPT_2, block_size=2048))  # room for 2,048 tokens; adds no FLOPs, no activations
    if recompute == "blocks":
        model.blocks = nn.ModuleList(Recomputed(block) for block in model.blocks)
    return Recomputed(model) if recompute == "all" else model


def gpt2_flops(recompute: str = "", *, early_stop: bool = False, seq_len: int = 1024, backward: bool = True) -> int:
    """FLOPs of one sequence of `seq_len` tokens on fake tensors, attention's products included, unmasked."""
    with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH), set_checkpoint_early_stop(early_stop):
        model, ids = gpt2(recompute), torch.zeros(1, seq_len, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            logits = model(ids)
            if backward:
                logits.sum().backward()
    return counter.get_total_flops()


def attention_by_formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[B, H, T, D] three times -> [B, H, T, D], with the [T, T] matrix of scores written out."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


def fused_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
    """The same by PyTorch's own kernel."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
