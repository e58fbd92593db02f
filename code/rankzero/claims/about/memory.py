"""Claims of handbook/memory.md."""

import concurrent.futures
import functools
import io
import multiprocessing
import os
import unittest.mock
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.claims.claim import claim
from rankzero.learn.gpt import GPT, GPTConfig
from rankzero.ledger.ledger import BEGIN, UPDATE, Kind, Ledger, compare
from rankzero.ledger.measure import SavedTensors, measure
from rankzero.ledger.models import PRESETS, Config, parameter_count
from rankzero.ledger.predict import predict
from rankzero.ledger.published import Recompute, ReferenceLayer, korthikanti
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

PAGE = "handbook/memory.md"
ADAMW = OPTIMIZERS["adamw"]
SMALL = GPTConfig(vocab_size=5000)  # the page's model: Lab 02's, with a vocabulary of thousands
STEP: dict[str, Any] = {"batch_size": 12, "seq_len": 64}

ZERO_PAPER = "[ZeRO](https://arxiv.org/abs/1910.02054)"
KORTHIKANTI = "[Korthikanti et al.](https://arxiv.org/abs/2205.05198)"
PLAYBOOK = "[Ultra-Scale Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook)"
SIZING = "[nanoGPT](https://github.com/karpathy/nanoGPT/blob/master/transformer_sizing.ipynb)"
ALLOCATOR = "[PyTorch](https://github.com/pytorch/pytorch/blob/main/c10/core/AllocatorConfig.h)"


def bytes_of(ledger: Ledger, name: str) -> int:
    """Bytes of the rows with that name."""
    return sum(row.bytes for row in ledger.rows if row.name == name)


# ------------------------------------------------------------------------------------------------------ a whole step
@claim(
    "predicted-is-measured",
    "For a GPT of 1.4 million parameters, prediction and measurement differ by 0 bytes in every kind of memory.",
    page=PAGE,
    expected=dict.fromkeys(("weights", "gradients", "optimizer state", "activations", "temporary", "KV cache"), 0),
    unit="B of difference",
)
def predicted_is_measured() -> dict[str, float]:
    """Predicts from sizes alone, runs two steps, and subtracts kind by kind."""
    lines = compare(predict(SMALL, RECIPES["fp32"], ADAMW, **STEP), measure(SMALL, RECIPES["fp32"], ADAMW, **STEP))
    return {line.kind.value: line.difference for line in lines}


def gpt2_step(checkpointing: str) -> Ledger:
    """One step of GPT-2 in fp32, 8 sequences of 1,024 tokens, measured on fake tensors."""
    how = {"batch_size": 8, "seq_len": 1024, "device": "fake", "checkpointing": checkpointing}
    return measure(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, **how)  # type: ignore[arg-type]


@claim(
    "gpt2-peak",
    "GPT-2 (124M) in fp32 has 0.50 GB of weights; a step on 8 sequences of 1,024 tokens keeps 6.54 GB of activations "
    "and peaks at 11.32 GB.",
    page=PAGE,
    expected={"weights": 0.50, "activations": 6.54, "peak": 11.32},
    unit="GB",
    tolerance=0.005,
)
def gpt2_peak() -> dict[str, float]:
    """Runs a whole step on fake tensors, which have shapes but no data, and takes its fullest moment."""
    ledger = gpt2_step("none")
    sizes = {
        "weights": ledger.total(Kind.WEIGHTS),
        "activations": ledger.total(Kind.ACTIVATIONS),
        "peak": ledger.peak()[1],
    }
    return {name: size / 1e9 for name, size in sizes.items()}


# ------------------------------------------------------------------------------------------------ bytes per parameter
@functools.cache
def states(recipe: str, optimizer: str = "adamw") -> Ledger:
    """What a step of the small model leaves."""
    return measure(SMALL, RECIPES[recipe], OPTIMIZERS[optimizer], batch_size=1, seq_len=4, peaks=False)


def per_parameter(ledger: Ledger, *kinds: Kind) -> float:
    """Bytes of those kinds over the parameters; AdamW's step counts, 4 bytes a tensor, left out."""
    counts = bytes_of(ledger, "step counts") if Kind.OPTIMIZER in kinds else 0
    return (ledger.total(*kinds) - counts) / parameter_count(SMALL)


def all_states(recipe: str) -> float:
    """Bytes a parameter of weights, gradients and optimizer state."""
    return per_parameter(states(recipe), Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)


@claim(
    "bytes-per-parameter",
    "With AdamW, weights, gradients and optimizer state take 8 to 20 bytes a parameter, depending on the recipe.",
    page=PAGE,
    expected={
        "bf16": 8,
        "bf16-fp32-accum": 12,
        "fp32": 16,
        "mixed": 16,
        "mixed-fp32-grad": 18,
        "mixed-fp32-accum": 20,
    },
    unit="B a parameter",
)
def bytes_per_parameter() -> dict[str, float]:
    """Trains the small model for a step under each recipe and counts the bytes of its tensors."""
    return {name: all_states(name) for name in RECIPES if name != "amp"}


@claim(
    "autocast-18",
    "fp32 under autocast takes 17.99 bytes a parameter: 18 for all but position embedding and norms, which it never "
    "copies.",
    page=PAGE,
    expected=17.99,
    unit="B a parameter",
    tolerance=0.005,
)
def autocast_18() -> float:
    """Counts the bf16 copies that autocast makes during a forward pass, with weights, gradients and state."""
    return all_states("amp")


@claim(
    "megatron-distributed",
    "By Megatron-LM's count a distributed optimizer leaves 6 + 12/dp bytes a parameter: 7.5 on 8 data-parallel ranks.",
    page=PAGE,
    expected={"one rank": 18, "8 ranks": 7.5},
    unit="B a parameter",
    source="[Megatron-LM](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/theoretical_memory_usage.py)",
)
def megatron_distributed() -> dict[str, float]:
    """Counts bf16 weights, fp32 gradients and state after a step, and divides the state by the ranks."""
    ledger = states("mixed-fp32-grad")
    kept = per_parameter(ledger, Kind.WEIGHTS, Kind.GRADIENTS)
    state = per_parameter(ledger, Kind.OPTIMIZER)
    return {"one rank": kept + state, "8 ranks": kept + state / 8}


@claim(
    "seven-billion",
    "Before activations, 7 billion parameters take 112 GB in fp32 and in mixed precision, 140 with gradients summed "
    "in fp32; 70 billion take ten times that.",
    page=PAGE,
    expected={"7B fp32": 112, "7B mixed": 112, "7B fp32 sum": 140, "70B mixed": 1120, "70B fp32 sum": 1400},
    unit="GB",
    source=PLAYBOOK,
)
def seven_billion() -> dict[str, float]:
    """Multiplies the bytes a parameter that a small model was measured to take."""
    names = {"fp32": "fp32", "mixed": "mixed", "fp32 sum": "mixed-fp32-accum"}
    cases = ((7, "fp32"), (7, "mixed"), (7, "fp32 sum"), (70, "mixed"), (70, "fp32 sum"))
    return {f"{billions}B {name}": billions * all_states(names[name]) for billions, name in cases}


@claim(
    "adam-state-7b",
    "The Adam state of 7 billion parameters, m and v, is 56 GB in fp32; 84 GB with master weights.",
    page=PAGE,
    expected={"m and v": 56, "with masters": 84},
    unit="GB",
)
def adam_state_7b() -> dict[str, float]:
    """Counts m, v and master weights of the small model, and multiplies bytes a parameter by 7e9."""
    ledger = states("mixed")
    averages = (bytes_of(ledger, "m") + bytes_of(ledger, "v")) / parameter_count(SMALL)
    return {"m and v": 7 * averages, "with masters": 7 * per_parameter(ledger, Kind.OPTIMIZER)}


@claim(
    "six-bytes-are-weights",
    "In mixed precision 6 bytes a parameter are the bf16 weights and their fp32 masters alone; in all it is 16.",
    page=PAGE,
    expected={"weights and masters": 6, "all": 16},
    unit="B a parameter",
)
def six_bytes_are_weights() -> dict[str, float]:
    """Counts both copies of the weights after a step of the mixed recipe, and then everything that stays."""
    ledger = states("mixed")
    both = ledger.total(Kind.WEIGHTS) + bytes_of(ledger, "master weights")
    return {"weights and masters": both / parameter_count(SMALL), "all": all_states("mixed")}


@functools.cache
def four_sequences() -> Ledger:
    """A step of the mixed recipe on a batch of 4, temporary buffers included."""
    return measure(SMALL, RECIPES["mixed"], ADAMW, batch_size=4, seq_len=64)


@claim(
    "update-converts-gradients",
    "An update of fp32 masters that first converts every bf16 gradient holds 4 bytes a parameter more for that moment.",
    page=PAGE,
    expected=4,
    unit="B a parameter",
)
def update_converts_gradients() -> float:
    """Takes the buffers of the update at their peak, and subtracts AdamW's own two of the largest weight."""
    largest = 5000 * 128
    peak = bytes_of(four_sequences(), "peak of the update")
    return (peak - 2 * 4 * largest) / parameter_count(SMALL)


@claim(
    "peak-moves-to-update",
    "With 4 sequences that conversion makes the update the fullest moment, 33.84 MB against 32.14 MB as backward "
    "begins; without it the update would hold 28.09 MB.",
    page=PAGE,
    expected={"backward begins": 32.14, "update": 33.84, "without conversion": 28.09},
    unit="MB",
    tolerance=0.005,
)
def peak_moves_to_update() -> dict[str, float]:
    """Measures a step of the small model under the mixed recipe, and leaves 4 bytes a parameter out of the update."""
    backward, update = (sum(four_sequences().at(phase).values()) / 1e6 for phase in (BEGIN, UPDATE))
    return {
        "backward begins": backward,
        "update": update,
        "without conversion": update - 4 * parameter_count(SMALL) / 1e6,
    }


# --------------------------------------------------------------------------------------------------------- optimizers
@claim(
    "optimizer-state",
    "In fp32, SGD keeps 0, momentum 4 and AdamW 8 bytes a parameter.",
    page=PAGE,
    expected={"sgd": 0, "momentum": 4, "adamw": 8},
    unit="B a parameter",
)
def optimizer_state() -> dict[str, float]:
    """Takes a step with each optimizer and counts the tensors in its state, AdamW's step counts left out."""
    return {name: per_parameter(states("fp32", name), Kind.OPTIMIZER) for name in ("sgd", "momentum", "adamw")}


@claim(
    "adamw-step-counts",
    "AdamW also keeps a step count of 4 bytes for each tensor.",
    page=PAGE,
    expected=4,
    unit="B a tensor",
)
def adamw_step_counts() -> float:
    """Divides the bytes of all step counts by the number of the model's parameter tensors."""
    return bytes_of(states("fp32"), "step counts") / len(list(GPT(SMALL).parameters()))


@claim(
    "adam-8-bit",
    "8-bit Adam keeps 2.03 bytes a parameter of Llama-2-7B: 1 for each average, an fp32 scale for each 256 numbers.",
    page=PAGE,
    expected=2.03,
    unit="B a parameter",
    tolerance=0.005,
    source="[bitsandbytes](https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/optim/optimizer.py)",
)
def adam_8_bit() -> float:
    """Predicts tensor by tensor, with tensors of fewer than 4,096 numbers in fp32; the library needs a GPU."""
    config = PRESETS["llama-2-7b"]
    predicted = predict(config, RECIPES["fp32"], OPTIMIZERS["adam8bit"], batch_size=1, seq_len=1)
    return predicted.total(Kind.OPTIMIZER) / parameter_count(config)


# -------------------------------------------------------------------------------------------------------- activations
def activations(config: Config, recipe: str = "fp32", checkpointing: str = "none") -> Ledger:
    """What a step keeps between forward and backward."""
    how: dict[str, Any] = {"device": "fake", "peaks": False, "checkpointing": checkpointing}
    return measure(config, RECIPES[recipe], OPTIMIZERS["sgd"], **STEP, **how)


def of_one_more_layer(recipe: str = "fp32", checkpointing: str = "none") -> int:
    """Bytes that the fifth layer adds."""
    totals = [
        activations(replace(SMALL, n_layer=layers), recipe, checkpointing).total(Kind.ACTIVATIONS) for layers in (4, 5)
    ]
    return totals[1] - totals[0]


@claim(
    "layer-activations",
    "A block of the labs' GPT keeps 4BT(16C + H + 4) bytes in fp32: 6,316,032 at B=12, T=64, C=128, H=4.",
    page=PAGE,
    expected=4 * 12 * 64 * (16 * 128 + 4 + 4),
    unit="B a block",
)
def layer_activations() -> float:
    """Measures a GPT of 4 and one of 5 layers, and subtracts."""
    return of_one_more_layer()


@claim(
    "activations-follow-tokens",
    "Twice the sequences, or sequences twice as long, keep twice the activations, to 1 part in 10,000.",
    page=PAGE,
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
    "With a vocabulary of 128,256, the loss of Lab 02's GPT keeps 15.6 times what its four blocks keep.",
    page=PAGE,
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
    "Llama-3-8B in bf16 with every block recomputed keeps 262,144 bytes a token for 32 block inputs, and 256,512 for "
    "the log-probabilities.",
    page=PAGE,
    expected={"block inputs": 262_144, "log-probabilities": 256_512},
    unit="B a token",
)
def loss_of_llama_3() -> dict[str, float]:
    """Measures 2 and 3 layers of the model on 16 tokens, and takes the difference 32 times."""
    tokens = 16

    def of(layers: int) -> Ledger:
        config = replace(PRESETS["llama-3-8b"], n_layer=layers)
        how: dict[str, Any] = {"device": "fake", "peaks": False, "checkpointing": "block"}
        return measure(config, RECIPES["bf16"], OPTIMIZERS["sgd"], batch_size=1, seq_len=tokens, **how)

    two, three = of(2), of(3)
    inputs = (three.total(Kind.ACTIVATIONS) - two.total(Kind.ACTIVATIONS)) * 32
    return {
        "block inputs": inputs / tokens,
        "log-probabilities": (bytes_of(two, "loss") - 2) / tokens,
    }  # 2: a sum of weights


@claim(
    "loss-holds-two-more",
    "As backward begins, the loss holds two more tensors of the size of the log-probabilities, for gradients.",
    page=PAGE,
    expected=2,
    unit="× the log-probabilities",
)
def loss_holds_two_more() -> float:
    """Lets PyTorch's memory tracker find the peak of backward above what the forward pass left."""
    step = measure(SMALL, RECIPES["fp32"], ADAMW, **STEP)
    return bytes_of(step, "peak of backward") / (4 * 12 * 64 * SMALL.vocab_size)


# ------------------------------------------------------------------------------------------- activations as published
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
    "A bf16 layer with h=1024, a=16, s=512, b=2 keeps 77,602,816 bytes: sbh(34 + 5as/h), and 8sb for the mean and "
    "1/std of two LayerNorms.",
    page=PAGE,
    expected=S * B * H * 34 + 5 * A * S**2 * B + 8 * S * B,
    unit="B",
    source=KORTHIKANTI,
)
def korthikanti_layer() -> float:
    """Runs a layer with unfused attention and one-byte dropout masks, and counts what autograd saves."""
    return saved_by_reference_layer(torch.bfloat16)


@claim(
    "korthikanti-misses-8sb",
    "The measured layer and the published formula differ by 8,192 bytes.",
    page=PAGE,
    expected=8 * S * B,
    unit="B",
)
def korthikanti_misses_8sb() -> float:
    """Subtracts the formula, as the paper prints it, from the bytes that autograd saves."""
    return saved_by_reference_layer(torch.bfloat16) - korthikanti(S, B, H, A)


@claim(
    "korthikanti-terms",
    "Of that layer, 5as²b bytes are squares of attention, and 34sbh everything else without statistics.",
    page=PAGE,
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
    "The same layer in fp32 keeps 144,719,872 bytes: 138sbh, since masks stay at one byte, and 16sb of statistics.",
    page=PAGE,
    expected=138 * S * B * H + 16 * S * B,
    unit="B",
)
def korthikanti_fp32() -> float:
    """Runs the layer in fp32 and counts what autograd saves."""
    return saved_by_reference_layer(torch.float32)


@claim(
    "gpt3-layer",
    "A layer of GPT-3 (h=12,288, a=96, s=2,048) keeps, in units of sbh and on one of 8 tensor-parallel ranks: 23 with "
    "tensor parallelism, 14.25 with sequence parallelism, 4.25 with selective and 2 with full recomputation; 114 on "
    "one rank alone.",
    page=PAGE,
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
    "In a layer of GPT-3, 70 % of the kept bytes are squares of attention.",
    page=PAGE,
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


# ----------------------------------------------------------------------------------------------------------- KV cache
def kv_cache(name: str, tokens: int) -> int:
    """Bytes of keys and values, measured on two of the model's layers."""
    config = PRESETS[name]
    how: dict[str, Any] = {"batch_size": 1, "seq_len": tokens, "device": "fake", "peaks": False}
    two = measure(replace(config, n_layer=2), RECIPES["bf16"], OPTIMIZERS["sgd"], **how)
    return two.total(Kind.KV_CACHE) * config.n_layer // 2


@claim(
    "kv-cache-a-token",
    "In 16 bits the KV cache takes 524,288 bytes a token for Llama-2-7B, 131,072 for Llama-3-8B and 327,680 for "
    "Llama-3-70B.",
    page=PAGE,
    expected={"Llama-2-7B": 524_288, "Llama-3-8B": 131_072, "Llama-3-70B": 327_680},
    unit="B a token",
)
def kv_cache_a_token() -> dict[str, float]:
    """Counts the keys and values that two layers on fake tensors call attention with, times half the layers."""
    names = {"Llama-2-7B": "llama-2-7b", "Llama-3-8B": "llama-3-8b", "Llama-3-70B": "llama-3-70b"}
    return {name: kv_cache(preset, 16) / 16 for name, preset in names.items()}


@claim(
    "kv-cache-4096",
    "A sequence of 4,096 tokens takes 2 GiB of KV cache in Llama-2-7B.",
    page=PAGE,
    expected=2,
    unit="GiB",
)
def kv_cache_4096() -> float:
    """Runs two layers on 4,096 fake tokens and counts keys and values, times half the layers."""
    return kv_cache("llama-2-7b", 4096) / 2**30


# --------------------------------------------------------------------------------------------------------- techniques
@claim(
    "checkpointing-gpt2",
    "With every block recomputed, GPT-2 in fp32 keeps 2.00 GB of activations for 8 sequences of 1,024 tokens, and a "
    "step peaks at 6.79 GB.",
    page=PAGE,
    expected={"activations": 2.00, "peak": 6.79},
    unit="GB",
    tolerance=0.005,
)
def checkpointing_gpt2() -> dict[str, float]:
    """Measures a step on fake tensors with torch.utils.checkpoint around each block."""
    again = gpt2_step("block")
    return {"activations": again.total(Kind.ACTIVATIONS) / 1e9, "peak": again.peak()[1] / 1e9}


@claim(
    "checkpointing-2sbh",
    "A recomputed block keeps 2sbh bytes in bf16: 196,608 for 12 sequences of 64 tokens, 128 wide.",
    page=PAGE,
    expected=2 * 64 * 12 * 128,
    unit="B a block",
    source=KORTHIKANTI,
)
def checkpointing_2sbh() -> float:
    """Measures a GPT of 4 and one of 5 recomputed blocks in bf16, and subtracts."""
    return of_one_more_layer("bf16", "block")


@claim(
    "autocast-activations",
    "Lab 02's GPT keeps 26.36 MB of activations in fp32, 15.16 under autocast and 13.21 as a bf16 model.",
    page=PAGE,
    expected={"fp32": 26.36, "autocast": 15.16, "bf16": 13.21},
    unit="MB",
    tolerance=0.005,
)
def autocast_activations() -> dict[str, float]:
    """Measures one step of each recipe; autocast keeps sums, norms and the loss in fp32."""
    names = {"fp32": "fp32", "autocast": "amp", "bf16": "bf16"}
    config = GPTConfig(vocab_size=96)
    return {name: activations(config, recipe).total(Kind.ACTIVATIONS) / 1e6 for name, recipe in names.items()}


@claim(
    "zero-grid",
    "ZeRO's states of 7.5 billion parameters, in GB a rank: stages 1, 2 and 3 on 4, 16, 64 and 1,024 ranks.",
    page=PAGE,
    expected={
        "1 on 4": 52.5,
        "2 on 4": 41.25,
        "3 on 4": 30,
        "1 on 16": 35.6,
        "2 on 16": 21.6,
        "3 on 16": 7.5,
        "1 on 64": 31.4,
        "2 on 64": 16.6,
        "3 on 64": 1.9,
        "1 on 1024": 30.1,
        "2 on 1024": 15.1,
        "3 on 1024": 0.1,
    },
    unit="GB",
    tolerance=0.05,
    source=ZERO_PAPER,
)
def zero_grid() -> dict[str, float]:
    """Counts each role of the mixed recipe on a small GPT, and divides it by the ranks from its stage on."""
    return {f"{stage} on {ranks}": zero_gb(stage, ranks) for ranks in (4, 16, 64, 1024) for stage in (1, 2, 3)}


@functools.cache
def counted_roles() -> tuple[float, float, float]:
    """Weights, gradients and optimizer state of the mixed recipe in bytes a parameter, counted on a small GPT."""
    config = GPTConfig(vocab_size=96)
    ledger = measure(config, RECIPES["mixed"], ADAMW, batch_size=1, seq_len=8, peaks=False)
    steps = sum(row.bytes for row in ledger.rows if row.name == "step counts")
    sizes = (ledger.total(kind) for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER))
    weights, gradients, state = (size / parameter_count(config) for size in sizes)
    return weights, gradients, state - steps / parameter_count(config)


def zero_gb(stage: int, ranks: int) -> float:
    """GB a rank for 7.5 billion parameters: each role as counted, divided by the ranks from its stage on."""
    shards = [ranks if stage >= first else 1 for first in (3, 2, 1)]
    return 7.5 * sum(size / shard for size, shard in zip(counted_roles(), shards, strict=True))


@claim(
    "zero-4x-and-8x",
    "On 64 ranks ZeRO-1 saves 3.82 times and ZeRO-2 7.21 times; 4 and 8 are limits. ZeRO-3 saves 64 times.",
    page=PAGE,
    expected={"stage 1": 3.82, "stage 2": 7.21, "stage 3": 64},
    unit="×",
    tolerance=0.005,
)
def zero_4x_and_8x() -> dict[str, float]:
    """Divides the 120 GB of plain data parallelism by what a rank holds in each stage."""
    return {f"stage {stage}": zero_gb(0, 64) / zero_gb(stage, 64) for stage in (1, 2, 3)}


@claim(
    "ddp-buckets",
    "DistributedDataParallel allocates buckets of 4 bytes a parameter: all fp32 gradients once more.",
    page=PAGE,
    expected=4,
    unit="B a parameter",
    tolerance=0.01,  # its bookkeeping of used parameters is allocated the same way
)
def ddp_buckets() -> float:
    """Wraps the small model, alone in a gloo group, and adds up the bytes that the constructor allocates."""
    model, allocated = GPT(SMALL), Allocations()
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with warnings.catch_warnings(), allocated:
            warnings.simplefilter("ignore")
            DistributedDataParallel(model)
    finally:
        dist.destroy_process_group()
    return allocated.bytes / parameter_count(SMALL)


class Allocations(TorchDispatchMode):
    """While active, adds up the bytes of tensors made empty."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.empty.memory_format:
            self.bytes += out.untyped_storage().nbytes()
        return out


@claim(
    "offload-copies-more",
    "Offloading every saved tensor of Lab 02's step moves 31,431,684 bytes for 26,364,420 bytes of activations.",
    page=PAGE,
    expected={
        "activations": 26_364_420,
        # and attention's output and the log-probabilities a second time, and every weight but the position embedding
        "moved": 26_364_420 + 4 * 12 * 64 * (4 * 128 + 96) + 4 * (12 * 128**2 * 4 + 9 * 128 + 96 * 128),
    },
    unit="B",
)
def offload_copies_more() -> dict[str, float]:
    """Adds up the tensors handed to the hooks with which torch.autograd.graph.save_on_cpu copies, one by one."""
    config = GPTConfig(vocab_size=96)
    model, ids, moved = GPT(config), torch.zeros(12, 64, dtype=torch.int64), 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal moved
        moved += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    return {"activations": activations(config).total(Kind.ACTIVATIONS), "moved": moved}


@claim(
    "offload-optimizer",
    "Offloading the optimizer of 7 billion parameters frees 84 GB, and moves 14 GB of gradients down and 14 GB of "
    "weights up in each step.",
    page=PAGE,
    expected={"freed": 84, "down": 14, "up": 14},
    unit="GB",
)
def offload_optimizer() -> dict[str, float]:
    """Takes bytes a parameter of the mixed recipe from a measured step: state stays, gradients and weights travel."""
    ledger = states("mixed")
    kinds = {"freed": Kind.OPTIMIZER, "down": Kind.GRADIENTS, "up": Kind.WEIGHTS}
    return {name: 7 * per_parameter(ledger, kind) for name, kind in kinds.items()}


# ---------------------------------------------------------------------------------------------------- checkpoint file
@claim(
    "checkpoint-file-12",
    "A checkpoint with AdamW's state takes 12 bytes a parameter on disk, and less than 0.1 for names and padding.",
    page=PAGE,
    expected=12,
    unit="B a parameter",
    tolerance=0.1,  # names, step counts, the zip directory
)
def checkpoint_file_12() -> float:
    """Saves the small model and its optimizer after a step with torch.save, and divides the size by the parameters."""
    model, buffer = GPT(SMALL), io.BytesIO()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    return buffer.tell() / parameter_count(SMALL)


@claim(
    "nanogpt-file",
    "Of nanoGPT's file of 1,542,470,366 bytes for GPT-2, 12 bytes a parameter and 12 causal masks explain all but "
    "86,750.",
    page=PAGE,
    expected={"12 B a parameter": 1_492_051_968, "left": 50_418_398, "left after masks": 86_750},
    unit="B",
    source=SIZING,
)
def nanogpt_file() -> dict[str, float]:
    """Subtracts 12 bytes for each parameter of the same shape, then one fp32 [1024, 1024] mask for each layer."""
    config, size = PRESETS["gpt2"], 1_542_470_366
    states_on_disk = 12 * parameter_count(config)
    masks = config.n_layer * config.block_size**2 * 4
    left = size - states_on_disk
    return {"12 B a parameter": states_on_disk, "left": left, "left after masks": left - masks}


# -------------------------------------------------------------------------------------------------- CUDA's allocator
def in_a_fresh_process(function: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Runs `function` where no tensor was ever allocated, with the allocator's default settings."""
    context = multiprocessing.get_context("spawn")
    with unittest.mock.patch.dict(os.environ):
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            os.environ.pop(name, None)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(function).result()


def _bytes_of_one_tensor(size: int) -> tuple[int, int]:
    """Allocated and reserved bytes for a tensor of `size` bytes, the cache emptied before."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    del tensor
    return after[0] - before[0], after[1] - before[1]


def _one_byte() -> dict[str, float]:
    allocated, reserved = _bytes_of_one_tensor(1)
    return {"allocated": allocated, "reserved": reserved}


def _segments() -> dict[str, float]:
    mib = 2**20
    sizes = {"1 MiB": mib, "1 MiB + 1 B": mib + 1, "9 MiB": 9 * mib, "11 MiB": 11 * mib}
    return {name: _bytes_of_one_tensor(size)[1] / mib for name, size in sizes.items()}


def _fragments() -> dict[str, float]:
    mib = 2**20
    torch.cuda.empty_cache()
    tensors = [torch.empty(5 * mib, dtype=torch.uint8, device="cuda") for _ in range(16)]  # 4 in each segment of 20 MiB
    tensors = tensors[::4]
    free, reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    returned = reserved - torch.cuda.memory_reserved()
    tensors.append(torch.empty(20 * mib, dtype=torch.uint8, device="cuda"))
    newly = torch.cuda.memory_reserved() - (reserved - returned)
    return {"free": free / mib, "returned": returned / mib, "newly reserved": newly / mib}


@claim(
    "cuda-one-byte",
    "On CUDA a tensor of 1 byte raises allocated memory by 512 bytes and reserved memory by 2,097,152.",
    page=PAGE,
    expected={"allocated": 512, "reserved": 2 * 2**20},
    unit="B",
    source=ALLOCATOR,
    needs=("cuda",),
)
def cuda_one_byte() -> dict[str, float]:
    """Asks torch.cuda for both numbers before and after, in a fresh process."""
    return in_a_fresh_process(_one_byte)


@claim(
    "cuda-segments",
    "On CUDA the first tensor of 1 MiB reserves 2 MiB, one of a byte more or of 9 MiB reserves 20, one of 11 MiB 12.",
    page=PAGE,
    expected={"1 MiB": 2, "1 MiB + 1 B": 20, "9 MiB": 20, "11 MiB": 12},
    unit="MiB",
    source=ALLOCATOR,
    needs=("cuda",),
)
def cuda_segments() -> dict[str, float]:
    """Makes one tensor of each size with an empty cache, in a fresh process, and asks what is reserved."""
    return in_a_fresh_process(_segments)


@claim(
    "cuda-fragments",
    "With 60 MiB free in four gaps of 15, emptying the cache returns nothing, and a tensor of 20 MiB takes 20 MiB more "
    "from the device.",
    page=PAGE,
    expected={"free": 60, "returned": 0, "newly reserved": 20},
    unit="MiB",
    needs=("cuda",),
)
def cuda_fragments() -> dict[str, float]:
    """Makes 16 tensors of 5 MiB in a fresh process, keeps every fourth, empties the cache, and asks for 20 MiB."""
    return in_a_fresh_process(_fragments)
