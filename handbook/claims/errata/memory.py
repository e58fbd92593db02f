"""Claims of handbook/errata.md, section *Memory*."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.optim import AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import attention_by_formula, fused_attention, gpt2_flops
from rankzero.claims.toolkit.kept_bytes import kept_tensors
from rankzero.claims.toolkit.lab_model import SHAPE
from rankzero.learn.models.gpt import GPT
from rankzero.learn.profiling.memory import tensor_bytes
from rankzero.ledger.ledger import Kind
from rankzero.ledger.measure import SavedTensors, measure, storage_bytes
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

from .shared import GB, states


def lab_02_states(recipe: str) -> dict[str, float]:
    """Bytes a parameter by row, after a step of AdamW on Lab 02's model."""
    ledger = measure(SHAPE, RECIPES[recipe], OPTIMIZERS["adamw"], batch_size=2, seq_len=8, peaks=False)
    return {name: size / parameter_count(SHAPE) for name, size in states(ledger).items()}


@claim(
    "errata-bytes-per-parameter",
    "Weights, gradients and AdamW's state by recipe; weights and master weights alone are "
    "{expected[mixed, weights and masters]} bytes per parameter.",
    expected={"fp32": 16, "mixed": 16, "fp32 gradients": 18, "fp32 sums": 20, "mixed, weights and masters": 6},
    unit="B per parameter",
    source="[ZeRO](https://arxiv.org/abs/1910.02054)",
)
def bytes_per_parameter() -> Mapping[str, float]:
    """Trains Lab 02's GPT for one step with each recipe and adds up the bytes of every tensor that is held."""
    recipes = {"fp32": "fp32", "mixed": "mixed", "fp32 gradients": "mixed-fp32-grad", "fp32 sums": "mixed-fp32-accum"}
    totals = {name: sum(lab_02_states(recipe).values()) for name, recipe in recipes.items()}
    mixed = lab_02_states("mixed")
    return totals | {"mixed, weights and masters": mixed["parameters"] + mixed["master weights"]}


@claim(
    "errata-7b-in-fp32",
    "Training 7 billion parameters with AdamW in fp32 holds {expected[7e9 parameters]} GB before the first activation.",
    expected={"7e9 parameters": 112, "Llama-2-7B": 107.8},
    unit="GB",
    tolerance=0.05,
)
def seven_billion_in_fp32() -> Mapping[str, float]:
    """Lab 02's measured bytes per parameter times 7e9; and a step of Llama-2-7B itself on fake tensors, counted."""
    llama = PRESETS["llama-2-7b"]
    ledger = measure(llama, RECIPES["fp32"], OPTIMIZERS["adamw"], batch_size=1, seq_len=8, device="fake", peaks=False)
    return {
        "7e9 parameters": 7e9 * sum(lab_02_states("fp32").values()) / GB,
        "Llama-2-7B": sum(states(ledger).values()) / GB,
    }


@claim(
    "errata-7b-adam-state",
    "Adam's two averages of 7 billion parameters are {expected[m and v]} GB; {expected[m, v and master weights]} GB "
    "counts the fp32 master weights too.",
    expected={"m and v": 56, "m, v and master weights": 84},
    unit="GB",
)
def seven_billion_adam_state() -> Mapping[str, float]:
    """Counts the optimizer's tensors after a mixed-precision step of Lab 02's model, a parameter, times 7e9."""
    rows = lab_02_states("mixed")
    averages = rows["m"] + rows["v"]
    return {
        "m and v": 7e9 * averages / GB,
        "m, v and master weights": 7e9 * (averages + rows["master weights"]) / GB,
    }


@claim(
    "errata-adam-state-dtype",
    "AdamW's averages have the dtype of the parameters: in a bf16 model they are bf16.",
    expected={"fp32 model": 8, "bf16 model": 4},
    unit="B per parameter",
)
def adam_state_dtype() -> Mapping[str, float]:
    """Steps AdamW on a layer of each dtype and counts the bytes of exp_avg and exp_avg_sq."""
    measured = {}
    for name, dtype in (("fp32 model", torch.float32), ("bf16 model", torch.bfloat16)):
        layer = nn.Linear(64, 64, bias=False, dtype=dtype)
        optimizer = AdamW(layer.parameters())
        layer(torch.ones(1, 64, dtype=dtype)).sum().backward()
        optimizer.step()
        state = optimizer.state[layer.weight]
        measured[name] = storage_bytes([state["exp_avg"], state["exp_avg_sq"]]) / layer.weight.numel()
    return measured


@claim(
    "errata-bf16-weight-stands-still",
    "A weight of 1 in bf16 does not move in 100 steps of AdamW at a rate of 1e-3; in fp32 it falls to "
    "{expected[fp32]}.",
    expected={"bf16": 1, "fp32": 0.9},
    unit="",
    tolerance=1e-4,
)
def bf16_weight_stands_still() -> Mapping[str, float]:
    """Steps AdamW, without decay, on one weight whose gradient is always 1."""
    measured = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        weight = nn.Parameter(torch.ones(1, dtype=dtype))
        optimizer = AdamW([weight], lr=1e-3, weight_decay=0)
        for _ in range(100):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        measured[name] = weight.item()
    return measured


@claim(
    "errata-activation-share",
    "Of one model's training memory, activations are {expected[B 1, T 8]} to {expected[B 48, T 64]} %, by the shape "
    "of the batch.",
    expected={"B 1, T 8": 2, "B 12, T 64": 67, "B 48, T 64": 89},
    unit="%",
    tolerance=0.5,
)
def activation_share() -> Mapping[str, float]:
    """Counts Lab 02's model in fp32 with AdamW, all rows of a step added up, at three shapes."""
    shares = {}
    for batch_size, seq_len in ((1, 8), (12, 64), (48, 64)):
        fp32, adamw = RECIPES["fp32"], OPTIMIZERS["adamw"]
        ledger = measure(SHAPE, fp32, adamw, batch_size=batch_size, seq_len=seq_len, peaks=False)
        share = ledger.total(Kind.ACTIVATIONS) / ledger.total()
        shares[f"B {batch_size}, T {seq_len}"] = 100 * share
    return shares


@claim(
    "errata-kept-by-relu-and-batchnorm",
    "In eager mode ReLU keeps its output and BatchNorm its input, 4 bytes per element. Between two linear layers ReLU "
    "adds {expected[ReLU before a linear layer]}: the next layer keeps the same tensor.",
    expected={"ReLU": 4, "BatchNorm": 4, "ReLU before a linear layer": 0},
    unit="B per element",
    tolerance=0.02,
)
def kept_by_relu_and_batchnorm() -> Mapping[str, float]:
    """Counts the bytes that autograd keeps of 1,024 rows of 256; BatchNorm's statistics are the second decimal."""
    x = torch.randn(1024, 256, requires_grad=True)

    def kept(*layers: nn.Module) -> float:
        return tensor_bytes(kept_tensors(nn.Sequential(*layers), x)) / x.numel()

    first, last = nn.Linear(256, 256), nn.Linear(256, 256)
    return {
        "ReLU": kept(nn.ReLU()),
        "BatchNorm": kept(nn.BatchNorm1d(256)),
        "ReLU before a linear layer": kept(first, nn.ReLU(), last) - kept(first, last),
    }


@claim(
    "errata-attention-doubling",
    "Twice the tokens: attention's square grows {expected[softmax kept by the formula]} times, what fused attention "
    "keeps and GPT-2's FLOPs about {expected[kept by the fused kernel]} times.",
    expected={"softmax kept by the formula": 4, "kept by the fused kernel": 2, "forward FLOPs of GPT-2": 2.265},
    unit="times",
    tolerance=0.0005,
)
def attention_doubling() -> Mapping[str, float]:
    """Saved tensors of both attentions at 512 and 1,024 tokens; FLOPs of GPT-2's shape at 1,024 and 2,048."""
    square, fused = [], []
    for T in (512, 1024):
        q, k, v = torch.randn(3, 1, 4, T, 32, requires_grad=True).unbind()
        kept = kept_tensors(attention_by_formula, q, k, v)
        square.append(tensor_bytes([t for t in kept if t.shape[-2:] == (T, T) and t.is_floating_point()]))
        fused.append(tensor_bytes(kept_tensors(fused_attention, q, k, v)))
    flops = [gpt2_flops(seq_len=T, backward=False) for T in (1024, 2048)]
    return {
        "softmax kept by the formula": square[1] / square[0],
        "kept by the fused kernel": fused[1] / fused[0],
        "forward FLOPs of GPT-2": flops[1] / flops[0],
    }


@claim(
    "errata-no-grad",
    "no_grad saves the {expected[MiB kept with autograd]:.2f} MiB that a forward pass keeps for backward, and no FLOP.",
    expected={"MiB kept with autograd": 4.14, "MiB kept under no_grad": 0, "% of FLOPs saved": 0},
    unit="",
    tolerance=0.01,
)
def no_grad() -> Mapping[str, float]:
    """Runs Lab 02's model on 2 sequences of 64 tokens with and without autograd; counts FLOPs and kept tensors."""
    model, tokens = GPT(SHAPE), torch.zeros(2, 64, dtype=torch.int64)
    flops, kept = [], []
    for enabled in (True, False):
        saved = SavedTensors(model)
        with torch.set_grad_enabled(enabled), FlopCounterMode(display=False) as counter, saved.active():
            model(tokens)
        flops.append(counter.get_total_flops())
        kept.append(sum(saved.by_module.values()) / 2**20)
    return {
        "MiB kept with autograd": kept[0],
        "MiB kept under no_grad": kept[1],
        "% of FLOPs saved": 100 * (1 - flops[1] / flops[0]),
    }
