"""Claims of handbook/memory.md: activations and the KV cache."""

import functools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.ledger import Kind, Ledger
from rankzero.ledger.measure import SavedTensors, measure
from rankzero.ledger.models import PRESETS
from rankzero.ledger.published import Recompute, ReferenceLayer, korthikanti
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

from .shared import ADAMW, KORTHIKANTI, SMALL, STEP, activations, bytes_of, of_one_more_layer


@claim(
    "layer-activations",
    "A block of the labs' GPT keeps 4BT(16C + H + 4) bytes in fp32: {expected} at B=12, T=64, C=128, H=4.",
    expected=4 * 12 * 64 * (16 * 128 + 4 + 4),
    unit="B per block",
)
def layer_activations() -> float:
    """Measures a GPT of 4 and one of 5 layers, and subtracts."""
    return of_one_more_layer()


@claim(
    "activations-follow-tokens",
    "Twice the sequences, or sequences twice as long, keep twice the activations, to 1 part in 10,000.",
    expected={"batch": 2, "sequence": 2},
    unit="× the bytes",
    tolerance=0.0001,
)
def activations_follow_tokens() -> dict[str, float]:
    """Measures the small model at B=12, T=64, then doubles one and then the other; positions are shared by a batch."""
    config = replace(SMALL, block_size=128)

    def total(batch_size: int, seq_len: int) -> int:
        how: dict[str, Any] = {"batch_size": batch_size, "seq_len": seq_len, "device": "fake", "peaks": False}
        return measure(config, RECIPES["fp32"], OPTIMIZERS["sgd"], **how).total(Kind.ACTIVATIONS)

    one = total(12, 64)
    return {"batch": total(24, 64) / one, "sequence": total(12, 128) / one}


@claim(
    "loss-outweighs-blocks",
    "With a vocabulary of 128,256, the loss of Lab 02's GPT keeps {expected} times what its four blocks keep.",
    expected=15.6,
    unit="× the blocks",
    tolerance=0.05,
)
def loss_outweighs_blocks() -> float:
    """Measures by module: what was saved in blocks, and what outside every module, that is in the loss."""
    ledger = activations(GPTConfig(vocab_size=128_256))
    blocks = sum(row.bytes for row in ledger.rows if row.name.startswith("blocks."))
    return bytes_of(ledger, "loss") / blocks


@claim(
    "loss-of-llama-3",
    "Llama-3-8B in bf16 with every block recomputed keeps {expected[block inputs]} bytes per token for 32 block "
    "inputs, and {expected[log-probabilities]} for the log-probabilities; with fp32 logits these take "
    "{expected[fp32 logits]}.",
    expected={"block inputs": 262_144, "log-probabilities": 256_512, "fp32 logits": 513_024},
    unit="B per token",
)
def loss_of_llama_3() -> dict[str, float]:
    """Measures 2 and 3 layers of the model on 16 tokens, and takes the difference 32 times; fp32 logits by autocast."""
    tokens = 16

    def of(layers: int, recipe: str = "bf16") -> Ledger:
        config = replace(PRESETS["llama-3-8b"], n_layer=layers)
        how: dict[str, Any] = {"device": "fake", "peaks": False, "checkpointing": "block"}
        return measure(config, RECIPES[recipe], OPTIMIZERS["sgd"], batch_size=1, seq_len=tokens, **how)

    two, three = of(2), of(3)
    inputs = (three.total(Kind.ACTIVATIONS) - two.total(Kind.ACTIVATIONS)) * 32
    return {
        "block inputs": inputs / tokens,
        "log-probabilities": (bytes_of(two, "loss") - 2) / tokens,  # 2: a sum of weights, in bf16
        "fp32 logits": (bytes_of(of(2, "amp"), "loss") - 4) / tokens,
    }


@claim(
    "loss-holds-two-more",
    "As backward begins, the loss holds two more tensors of the size of the log-probabilities, for gradients.",
    expected=2,
    unit="× the log-probabilities",
)
def loss_holds_two_more() -> float:
    """Lets PyTorch's memory tracker find the peak of backward above what the forward pass left."""
    step = measure(SMALL, RECIPES["fp32"], ADAMW, **STEP)
    return bytes_of(step, "peak of backward") / (4 * 12 * 64 * SMALL.vocab_size)


S, B, H, A = 512, 2, 1024, 16  # the shape of the reference layer: tokens, sequences, width, heads


@functools.cache
def saved_by_reference_layer(dtype: torch.dtype, squares_only: bool = False) -> int:
    """Bytes that one layer of the paper keeps; or those of its [s, s] tensors alone."""
    layer = ReferenceLayer(H, A).to(dtype)
    x = torch.randn(B, S, H, dtype=dtype, requires_grad=True)
    saved, squares = SavedTensors(layer), 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal squares
        squares += tensor.nbytes * (tensor.shape[-2:] == (S, S))
        return tensor

    if squares_only:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            layer(x)
        return squares
    with saved.active():
        layer(x)
    return sum(saved.by_module.values())


@claim(
    "korthikanti-layer",
    "A bf16 layer with h=1024, a=16, s=512, b=2 keeps {expected} bytes: sbh(34 + 5as/h), and 8sb for the mean and "
    "1/std of two LayerNorms.",
    expected=S * B * H * 34 + 5 * A * S**2 * B + 8 * S * B,
    unit="B",
    source=KORTHIKANTI,
)
def korthikanti_layer() -> float:
    """Runs a layer with unfused attention and one-byte dropout masks, and counts what autograd saves."""
    return saved_by_reference_layer(torch.bfloat16)


@claim(
    "korthikanti-misses-8sb",
    "The measured layer and the published formula differ by {expected} bytes.",
    expected=8 * S * B,
    unit="B",
)
def korthikanti_misses_8sb() -> float:
    """Subtracts the formula, as the paper prints it, from the bytes that autograd saves."""
    return saved_by_reference_layer(torch.bfloat16) - korthikanti(S, B, H, A)


@claim(
    "korthikanti-terms",
    "Of that layer, 5as²b bytes are squares of attention, and 34sbh everything else without statistics.",
    expected={"as²b": 5, "sbh": 34},
    unit="× the unit named",
    source=KORTHIKANTI,
)
def korthikanti_terms() -> dict[str, float]:
    """Separates the saved tensors that end in [s, s] from the rest, and divides by the two units."""
    squares = saved_by_reference_layer(torch.bfloat16, squares_only=True)
    rest = saved_by_reference_layer(torch.bfloat16) - squares - 8 * S * B
    return {"as²b": squares / (A * S**2 * B), "sbh": rest / (S * B * H)}


@claim(
    "korthikanti-fp32",
    "The same layer in fp32 keeps {expected} bytes: 138sbh, since masks stay at one byte, and 16sb of statistics.",
    expected=138 * S * B * H + 16 * S * B,
    unit="B",
)
def korthikanti_fp32() -> float:
    """Runs the layer in fp32 and counts what autograd saves."""
    return saved_by_reference_layer(torch.float32)


@claim(
    "gpt3-layer",
    "A layer of GPT-3 (h=12,288, a=96, s=2,048) keeps, in units of sbh and on one of 8 tensor-parallel ranks: "
    "{expected[tensor]} with tensor parallelism, {expected[and sequence]} with sequence parallelism, "
    "{expected[and selective]} with selective and {expected[full]} with full recomputation; {expected[alone]} on one "
    "rank alone.",
    expected={"alone": 114, "tensor": 23, "and sequence": 14.25, "and selective": 4.25, "full": 2},
    unit="B × sbh",
    source=KORTHIKANTI,
)
def gpt3_layer() -> dict[str, float]:
    """Evaluates the paper's table 2."""
    cases: dict[str, tuple[int, bool, Recompute]] = {
        "alone": (1, False, "none"),
        "tensor": (8, False, "none"),
        "and sequence": (8, True, "none"),
        "and selective": (8, True, "selective"),
        "full": (8, True, "full"),
    }
    return {
        name: korthikanti(2048, 1, 12288, 96, t=t, sequence_parallel=parallel, recompute=recompute) / (2048 * 12288)
        for name, (t, parallel, recompute) in cases.items()
    }


@claim(
    "gpt3-squares",
    "In a layer of GPT-3, {expected} % of the kept bytes are squares of attention.",
    expected=70,
    unit="%",
    tolerance=0.5,
    source=KORTHIKANTI,
)
def gpt3_squares() -> float:
    """Compares the formula with and without its quadratic term."""
    shape = {"s": 2048, "b": 1, "h": 12288, "a": 96, "sequence_parallel": True}
    rest = korthikanti(**shape, recompute="selective")  # type: ignore[arg-type]
    return 100 * (1 - rest / korthikanti(**shape))  # type: ignore[arg-type]


def kv_cache(name: str, tokens: int) -> int:
    """Bytes of keys and values, measured on two of the model's layers."""
    config = PRESETS[name]
    how: dict[str, Any] = {"batch_size": 1, "seq_len": tokens, "device": "fake", "peaks": False}
    two = measure(replace(config, n_layer=2), RECIPES["bf16"], OPTIMIZERS["sgd"], **how)
    return two.total(Kind.KV_CACHE) * config.n_layer // 2


@claim(
    "kv-cache-a-token",
    "In 16 bits the KV cache takes {expected[Llama-2-7B]} bytes per token for Llama-2-7B, {expected[Llama-3-8B]} for "
    "Llama-3-8B and {expected[Llama-3-70B]} for Llama-3-70B.",
    expected={"Llama-2-7B": 524_288, "Llama-3-8B": 131_072, "Llama-3-70B": 327_680},
    unit="B per token",
)
def kv_cache_a_token() -> dict[str, float]:
    """Counts the keys and values that two layers on fake tensors call attention with, times half the layers."""
    names = {"Llama-2-7B": "llama-2-7b", "Llama-3-8B": "llama-3-8b", "Llama-3-70B": "llama-3-70b"}
    return {name: kv_cache(preset, 16) / 16 for name, preset in names.items()}


@claim(
    "kv-cache-4096",
    "A sequence of 4,096 tokens takes {expected} GiB of KV cache in Llama-2-7B.",
    expected=2,
    unit="GiB",
)
def kv_cache_4096() -> float:
    """Runs two layers on 4,096 fake tokens and counts keys and values, times half the layers."""
    return kv_cache("llama-2-7b", 4096) / 2**30
