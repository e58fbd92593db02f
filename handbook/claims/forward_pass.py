"""Claims of handbook/forward-pass.md."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import GPT_2, attention_by_formula, fused_attention, gpt2_flops
from rankzero.claims.toolkit.kept_bytes import Recomputed, kept_tensors
from rankzero.claims.toolkit.lab_model import SHAPE, bytes_by_phase, make_batch, make_model, token_loss
from rankzero.learn.models.gpt import Block
from rankzero.learn.profiling.memory import tensor_bytes
from rankzero.ledger.models import parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.predict import activation_rows
from rankzero.ledger.recipes import FP32

NANOGPT = (
    "[nanoGPT, transformer_sizing.ipynb](https://github.com/karpathy/nanoGPT/blob/master/transformer_sizing.ipynb)"
)
BTC = 12 * 64 * 128  # numbers in Lab 02's residual stream


def _stream() -> Tensor:
    """A residual stream of Lab 02's shape, [B, T, C]."""
    return torch.randn(12, 64, 128, requires_grad=True)


# ---------------------------------------------------------------------------------------------------------- one layer
@claim(
    "linear-layer-flops",
    "A linear layer takes 2 · rows · in · out FLOPs forward and three times that with backward.",
    expected={"forward": 2 * 1024 * 256 * 1024, "with backward": 3 * 2 * 1024 * 256 * 1024},
    unit="FLOPs",
)
def linear_flops() -> Mapping[str, float]:
    """Runs nn.Linear(256, 1024) on 1,024 rows forward and backward under PyTorch's FLOP counter."""
    linear, x = nn.Linear(256, 1024), torch.randn(1024, 256, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        y = linear(x)
        forward = counter.get_total_flops()
        y.sum().backward()
    return {"forward": forward, "with backward": counter.get_total_flops()}


@claim(
    "frozen-weight-keeps-no-input",
    "A linear layer whose weight is frozen does not keep its input.",
    expected={"weight trained": 1024 * 256 * 4, "weight frozen": 0},
    unit="B of input kept",
)
def frozen_weight() -> Mapping[str, float]:
    """Counts the bytes of the input, [1024, 256] in fp32, among the tensors that autograd keeps, weight left out."""
    x, sizes = torch.randn(1024, 256, requires_grad=True), {}
    for name, trained in (("weight trained", True), ("weight frozen", False)):
        linear = nn.Linear(256, 1024, bias=False).requires_grad_(trained)
        sizes[name] = tensor_bytes(kept_tensors(linear, x, left_out=linear))
    return sizes


@claim(
    "kept-bytes-by-layer",
    "What a layer keeps for backward, in bytes for each element of its fp32 input, 256 wide.",
    expected={
        "linear": 4,
        "plus a constant": 0,
        "ReLU": 4,
        "GELU": 4,
        "softmax": 4,
        "LayerNorm": 4 + 2 * 4 / 256,
        "dropout": 4,
        "dropout, fused": 1,
        "embedding": 8,
        "cross-entropy": 4 + 8 / 256 + 4 / (1024 * 256),
    },
    unit="B per element",
)
def kept_by_layer() -> Mapping[str, float]:
    """Counts the tensors that autograd keeps on the CPU: fp32 is 4 bytes, an id or a target 8, a fused mask 1.

    LayerNorm adds 2 numbers per row, cross-entropy one target per row and one number for the batch.
    """
    x, ids = torch.randn(1024, 256, requires_grad=True), torch.randint(256, (1024,))
    layers: dict[str, tuple[Any, ...]] = {
        "linear": (nn.Linear(256, 256), x),
        "plus a constant": (torch.add, x, 1),
        "ReLU": (nn.ReLU(), x),
        "GELU": (nn.GELU(), x),
        "softmax": (nn.Softmax(dim=-1), x),
        "LayerNorm": (nn.LayerNorm(256), x),
        "dropout": (nn.Dropout(0.1), x),
        "dropout, fused": (torch.native_dropout, x, 0.1, True),
        "embedding": (nn.Embedding(256, 256), ids),
        "cross-entropy": (nn.CrossEntropyLoss(), x, ids),
    }
    sizes = {}
    for name, (layer, *inputs) in layers.items():
        own = layer if isinstance(layer, nn.Module) else None
        sizes[name] = tensor_bytes(kept_tensors(layer, *inputs, left_out=own)) / inputs[0].numel()
    return sizes


@claim(
    "relu-mlp-5-gelu-mlp-9",
    "An MLP that widens fourfold keeps {expected[ReLU]} times its input with ReLU and {expected[GELU]} times with "
    "GELU.",
    expected={"ReLU": 5, "GELU": 9},
    unit="times its input",
)
def mlp_kept() -> Mapping[str, float]:
    """Counts the bytes kept by linear, activation, linear over those of the input."""
    x, units = torch.randn(1024, 256, requires_grad=True), {}
    for name, activation in (("ReLU", nn.ReLU()), ("GELU", nn.GELU())):
        mlp = nn.Sequential(nn.Linear(256, 1024), activation, nn.Linear(1024, 256))
        units[name] = tensor_bytes(kept_tensors(mlp, x, left_out=mlp)) / x.nbytes
    return units


# ---------------------------------------------------------------------------------------------------------- attention
def _queries(tokens: int) -> tuple[Tensor, ...]:
    """q, k and v, each [1, 4, T, 32]."""
    return torch.randn(3, 1, 4, tokens, 32, requires_grad=True).unbind()


@claim(
    "attention-square-and-line",
    "When the sequence doubles, the softmax that attention by the formula keeps grows {expected[softmax]} times, all "
    "that fused attention keeps {expected[fused]} times.",
    expected={"softmax": 4, "fused": 2},
    unit="times",
    source="[FlashAttention](https://arxiv.org/abs/2205.14135)",
)
def attention_growth() -> Charted:
    """Counts kept bytes at 64 to 1,024 tokens, 4 heads 32 wide, and divides those of 1,024 by those of 512."""
    lines: dict[str, list[Point]] = {"softmax": [], "fused": []}
    for tokens in (64, 128, 256, 512, 1024):
        by_formula = kept_tensors(attention_by_formula, *_queries(tokens))
        kept = {
            "softmax": [tensor for tensor in by_formula if tensor.shape == (1, 4, tokens, tokens)],
            "fused": kept_tensors(fused_attention, *_queries(tokens)),
        }
        for name, tensors in kept.items():
            size = tensor_bytes(tensors) / 2**20
            lines[name].append((tokens, size, size, size))
    growth = {name: points[-1][1] / points[-2][1] for name, points in lines.items()}
    return Charted(growth, Chart("What attention keeps", "tokens", "MiB kept", lines, log="xy"))


@claim(
    "dropout-brings-the-square-back",
    "On the CPU, attention with dropout falls back to the formula and keeps three [T, T] tensors; without it none.",
    expected={"with dropout": 3, "without": 0},
    unit="[T, T] tensors",
)
def attention_dropout() -> Mapping[str, float]:
    """Counts the kept tensors whose last two dimensions are the number of tokens."""

    def squares(dropout: float) -> int:
        return sum(t.shape[-2:] == (256, 256) for t in kept_tensors(fused_attention, *_queries(256), dropout))

    return {"with dropout": squares(0.1), "without": squares(0.0)}


# ---------------------------------------------------------------------------------------------------- the lab's model
@claim(
    "block-keeps-16-units",
    "A block of the GPT keeps 16 units of BTC floats and H + 4 numbers per token.",
    expected=4 * 12 * 64 * (16 * 128 + 4 + 4),
    unit="B",
)
def block_kept() -> float:
    """Counts what autograd keeps of one block of Lab 02's GPT at B = 12, T = 64."""
    block = make_model().blocks[0]
    return tensor_bytes(kept_tensors(block, _stream(), left_out=block))


@claim(
    "lab-02-activations",
    "Lab 02's activations after forward, 25.14 MiB, are what 4BT(L(16C + H + 4) + 2C + 2 + V) + 16BT + 8T + 4 gives.",
    expected=4 * 12 * 64 * (4 * (16 * 128 + 4 + 4) + 2 * 128 + 2 + 96) + 16 * 12 * 64 + 8 * 64 + 4,
    unit="B",
)
def lab_02_activations() -> float:
    """Counts the tensors that autograd keeps after forward and loss, at B = 12, T = 64."""
    return bytes_by_phase()["activations"]["forward"]


@claim(
    "activation-share",
    "Activations of the same model are between {expected[B 1, T 8]} and {expected[B 48, T 64]} % of the total, "
    "depending on the batch and the sequence alone; at 3C = 384 tokens they are half.",
    expected={"B 1, T 8": 2, "B 6, T 64": 50.5, "B 12, T 64": 67, "B 48, T 64": 89},
    tolerance=0.5,
    unit="%",
)
def activation_share() -> Charted:
    """Counts the activations over themselves and 16 bytes per parameter; the tolerance is the text's rounding."""
    shares = {}
    for batch_size, tokens in ((1, 8), (1, 64), (3, 64), (6, 64), (12, 64), (24, 64), (48, 64)):
        held = bytes_by_phase(batch_size, tokens)
        activations = held["activations"]["forward"]
        shares[batch_size, tokens] = 100 * activations / (activations + 4 * held["weights"]["forward"])
    points: list[Point] = [(size * tokens, share, share, share) for (size, tokens), share in shares.items()]
    value = {f"B {size}, T {tokens}": shares[size, tokens] for size, tokens in ((1, 8), (6, 64), (12, 64), (48, 64))}
    return Charted(value, Chart("Lab 02's model", "tokens of a batch", "%", {"activations": points}, log="x"))


@claim(
    "activations-outweigh-states",
    "In fp32 with AdamW, activations take as much as weights, gradients and averages at {expected[Lab 02]} tokens in "
    "Lab 02's model and at {expected[GPT-2]:,} in GPT-2, where 3C is 384 and 2,304.",
    expected={"Lab 02": 377, "GPT-2": 2494},
    unit="tokens",
)
def activations_outweigh_states() -> Mapping[str, float]:
    """Looks for the shortest single sequence whose activations, by the ledger, take 16 bytes per parameter or more."""
    tokens = {}
    for name, config in (("Lab 02", SHAPE), ("GPT-2", GPT_2)):
        states = 16 * parameter_count(config)
        tokens[name] = next(
            length
            for length in range(1, 10_000)
            if sum(row.bytes for row in activation_rows(config, FP32, 1, length, Layout())) >= states
        )
    return tokens


@claim(
    "activation-share-at-the-end-of-forward",
    "At the end of forward, with the optimizer's state there, Lab 02 holds {expected[MiB]:.1f} MiB, "
    "{expected[%]:.0f} % of it activations.",
    expected={"MiB": 34.39, "%": 73.11},  # 26,364,420 B of that and 12 bytes per parameter
    tolerance=0.005,
    unit="",
)
def share_after_forward() -> Mapping[str, float]:
    """Runs two steps and counts all four roles at the end of the second forward."""
    held = bytes_by_phase(steps=2)
    total = sum(phases["forward"] for phases in held.values())
    return {"MiB": total / 2**20, "%": 100 * held["activations"]["forward"] / total}


# ------------------------------------------------------------------------------------------------------- two switches
@claim(
    "no-grad-keeps-nothing",
    "Under no_grad a forward pass keeps 0 bytes, in training mode as in evaluation mode.",
    expected={"train()": 0, "eval()": 0},
    unit="B",
)
def no_grad() -> Mapping[str, float]:
    """Counts what autograd keeps of a forward pass of Lab 02's GPT with dropout 0.1 under no_grad."""
    model, (x, _) = make_model(dropout=0.1), make_batch()
    sizes = {}
    for name, training in (("train()", True), ("eval()", False)):
        with torch.no_grad():
            sizes[name] = tensor_bytes(kept_tensors(model.train(training), x, left_out=model))
    return sizes


@claim(
    "eval-mode-keeps-activations",
    "In evaluation mode alone, a forward pass up to the logits keeps 24.86 MiB; dropout in training mode adds 12.33.",
    expected={
        "eval()": 4 * 12 * 64 * (4 * (16 * 128 + 4 + 4) + 2 * 128 + 2) + 8 * 12 * 64 + 8 * 64,
        "training mode adds": 9 * 4 * BTC + 4 * (3 * 4 * 12 * 4 * 64**2 - 4 * 12 * 4 * 64),
    },
    unit="B",
)
def eval_mode() -> Mapping[str, float]:
    """Counts both modes of Lab 02's GPT with dropout 0.1.

    Expected are nine masks of BTC floats, and in each of 4 layers three squares instead of one number per row.
    """
    model, (x, _) = make_model(dropout=0.1), make_batch()
    training, evaluating = (
        tensor_bytes(kept_tensors(model.train(training), x, left_out=model)) for training in (True, False)
    )
    return {"eval()": evaluating, "training mode adds": training - evaluating}


# ------------------------------------------------------------------------------------------------------ compute again
@claim(
    "recomputed-blocks-keep-their-inputs",
    "With each block recomputed, Lab 02 keeps {expected} times less after forward: the blocks' inputs, the head and "
    "the loss.",
    expected=9.9,
    tolerance=0.05,
    unit="times",
)
def recomputed_blocks() -> float:
    """Counts what autograd keeps of forward and loss, plain and with each block checkpointed."""
    sizes = []
    for recomputed in (False, True):
        model = make_model()
        if recomputed:
            model.blocks = nn.ModuleList(Recomputed(block) for block in model.blocks)
        sizes.append(tensor_bytes(kept_tensors(token_loss, model, *make_batch(), left_out=model)))
    return sizes[0] / sizes[1]


@claim(
    "gpt2-forward-flops",
    "A forward pass of GPT-2 with 124 million parameters over 1,024 tokens takes {expected} FLOPs.",
    expected=291_648_307_200,
    unit="FLOPs",
    source=NANOGPT,
)
def gpt2_forward() -> float:
    """Counts the matrix products with PyTorch's counter on tensors without data; causality is not discounted."""
    return gpt2_flops(backward=False)


@claim(
    "gpt2-recompute-flops",
    "Recomputing GPT-2's blocks, but not its output layer, adds {expected[whole block]:.1f} % FLOPs to a step, or "
    "{expected[early stop]:.1f} % if each block stops at the last tensor that backward needs.",
    expected={
        # The blocks' share of forward, over a step of three forwards. The last product of a block, MLP's second, is
        # not needed again when recomputation stops early.
        "whole block": 100 * 212_600_881_152 / (3 * 291_648_307_200),
        "early stop": 100 * (212_600_881_152 - 12 * 4_831_838_208) / (3 * 291_648_307_200),
    },
    tolerance=0.05,
    unit="%",
)
def gpt2_recompute() -> Mapping[str, float]:
    """Counts a step with and without recomputation on tensors without data; the tolerance is the text's rounding."""
    plain = gpt2_flops()
    more = {
        name: gpt2_flops("blocks", early_stop=early) for name, early in (("whole block", False), ("early stop", True))
    }
    return {name: 100 * (flops / plain - 1) for name, flops in more.items()}


# -------------------------------------------------------------------------------------------- the problems and the quiz
@claim(
    "frozen-block-keeps-11-units",
    "A block whose weights are frozen, with an adapter beside qkv, keeps {expected} of its 16 units of BTC floats.",
    expected=11,
    tolerance=0.1,
    unit="tensors of BTC floats",
)
def frozen_block() -> float:
    """Counts what a block of Lab 02's GPT keeps with a trained adapter of rank 1 beside its frozen qkv.

    The tolerance leaves room for the adapter's one number per token and the block's H + 4.
    """

    class WithAdapter(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.down, self.up = inner, nn.Linear(128, 1, bias=False), nn.Linear(1, 384, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + self.up(self.down(x))

    block = make_model().blocks[0].requires_grad_(False)
    assert isinstance(block, Block)
    block.attention.add_module("qkv", WithAdapter(block.attention.qkv))
    return tensor_bytes(kept_tensors(block, _stream(), left_out=block)) / (4 * BTC)


@claim(
    "relu-for-gelu-saves-6-mib",
    "ReLU in place of GELU saves Lab 02's model 4 blocks of 4 units of 0.375 MiB: 6 MiB.",
    expected=4 * 4 * 4 * BTC,
    unit="B",
)
def relu_for_gelu() -> float:
    """Counts what the four blocks keep with each activation, the MLP's GELU replaced for the second count."""
    blocks = nn.Sequential(*make_model().blocks)
    gelu = tensor_bytes(kept_tensors(blocks, _stream(), left_out=blocks))
    for block in blocks:
        assert isinstance(block, Block)
        block.add_module("mlp", nn.Sequential(block.mlp.up, nn.ReLU(), block.mlp.proj))
    return gelu - tensor_bytes(kept_tensors(blocks, _stream(), left_out=blocks))


@claim(
    "head-alone-keeps-1-75-units",
    "With all but the output layer frozen, Lab 02's model keeps {expected} tensors of BTC floats: the head's input "
    "and the log-probabilities.",
    expected=1.75,
    tolerance=0.02,
    unit="units of BTC floats",
)
def head_alone() -> float:
    """Unties and freezes, and counts forward and loss; the tolerance leaves room for the targets, 8 bytes per token."""
    model = make_model().requires_grad_(False)
    model.head.weight = nn.Parameter(model.head.weight.clone())
    return tensor_bytes(kept_tensors(token_loss, model, *make_batch(), left_out=model)) / (4 * BTC)


@claim(
    "naive-square-equals-the-rest-at-512",
    "At 512 tokens, 128 wide with 4 heads, the softmax's square weighs as much as all else that the block keeps.",
    expected=1,
    tolerance=0.01,
    unit="square over 16 units",
)
def square_equals_rest() -> float:
    """Counts naive attention's kept softmax and a block's kept bytes at T = 512, and divides.

    The tolerance leaves room for the block's H + 4 small numbers per token.
    """
    tokens, block = 16 * SHAPE.hidden_dim // SHAPE.n_head, make_model(block_size=512).blocks[0]
    rest = tensor_bytes(kept_tensors(block, torch.randn(1, tokens, 128, requires_grad=True), left_out=block))
    softmax = [t for t in kept_tensors(attention_by_formula, *_queries(tokens)) if t.shape == (1, 4, tokens, tokens)]
    return tensor_bytes(softmax) / rest
