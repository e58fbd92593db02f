"""Claims of labs/lab-01-memory-ledger.md."""

import dataclasses

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import SHAPE
from rankzero.ledger.ledger import BEGIN, UPDATE, Kind, compare
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.predict import largest_micro_batch, predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

ADAMW = OPTIMIZERS["adamw"]
STATES = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)


@claim(
    "lab-01-bytes-per-parameter",
    "Weights, gradients and AdamW's state take 16 bytes per parameter in fp32, and in bf16 with fp32 master weights.",
    expected={"fp32": 16.0, "mixed": 16.0},
    unit="B per parameter",
    tolerance=0.001,
    source="[ZeRO, section 3.1](https://arxiv.org/abs/1910.02054)",
)
def bytes_per_parameter() -> dict[str, float]:
    """Trains Lab 02's GPT one step by each recipe and counts storages by role. The excess is AdamW's step counts."""
    found = {}
    for name in ("fp32", "mixed"):
        ledger = measure(SHAPE, RECIPES[name], ADAMW, batch_size=1, seq_len=8, peaks=False)
        found[name] = ledger.total(*STATES) / parameter_count(SHAPE)
    return found


@claim(
    "lab-01-gpt2-activations",
    "GPT-2 small keeps {expected} GB of activations for four sequences of 1,024 tokens in fp32.",
    expected=3.27,
    unit="GB",
    tolerance=0.005,
)
def gpt2_activations() -> float:
    """Runs the forward pass on fake tensors and adds up the storages that autograd saves."""
    ledger = measure(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, batch_size=4, seq_len=1024, device="fake", peaks=False)
    return ledger.total(Kind.ACTIVATIONS) / 1e9


@claim(
    "lab-01-gpt2-peak",
    "The step of the first run is fullest when backward begins, at {expected[GB when backward begins]} GB.",
    expected={"GB when backward begins": 6.41, "GB at the update": 2.30},
    unit="",
    tolerance=0.005,
)
def gpt2_peak() -> dict[str, float]:
    """Lets PyTorch's memory tracker follow a step on fake tensors, its temporary buffers included."""
    ledger = measure(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, batch_size=4, seq_len=1024, device="fake")
    begin, update = (sum(ledger.at(phase).values()) / 1e9 for phase in (BEGIN, UPDATE))
    return {"GB when backward begins": begin, "GB at the update": update}


@claim(
    "lab-01-micro-batch",
    "{expected[fit]} sequences of 1,024 tokens are the largest micro-batch of GPT-2 small in fp32 whose step fits "
    "into 80 GB.",
    expected={"fit": 63, "GB with 63 below 80": True, "GB with 64 below 80": False},
    unit="",
)
def micro_batch() -> dict[str, float]:
    """Searches by prediction, then measures the peak of 63 and of 64 sequences with PyTorch's tracker."""
    config, recipe = PRESETS["gpt2"], RECIPES["fp32"]
    best = largest_micro_batch(config, recipe, ADAMW, seq_len=1024, budget=80 * 10**9)
    peaks = [
        measure(config, recipe, ADAMW, batch_size=size, seq_len=1024, device="fake").peak()[1] for size in (63, 64)
    ]
    return {"fit": best, "GB with 63 below 80": peaks[0] <= 80e9, "GB with 64 below 80": peaks[1] <= 80e9}


@claim(
    "lab-01-difference",
    "Predicted and measured differ by {expected} bytes in every kind of memory, temporary buffers included.",
    expected=0,
    unit="B",
)
def difference() -> int:
    """Predicts and measures the first run's step, and adds up the differences of all kinds."""
    step = PRESETS["gpt2"], RECIPES["fp32"], ADAMW
    predicted = predict(*step, batch_size=4, seq_len=1024)
    measured = measure(*step, batch_size=4, seq_len=1024, device="fake")
    return sum(abs(line.difference) for line in compare(predicted, measured))


@claim(
    "lab-01-llama-peak",
    "Llama-2-7B in mixed precision holds {expected[GB at the update]} GB at the update, more than at any other "
    "moment of a step.",
    expected={"GB when backward begins": 121.9, "GB at the update": 135.8},
    unit="",
    tolerance=0.05,
)
def llama_peak() -> dict[str, float]:
    """Counts the whole model on fake tensors. Its temporary buffers: PyTorch's tracker on 2 of the 32 blocks.

    For the update, 4 bytes per parameter of the other 30 blocks are added: their gradients are converted as well.
    """
    step, config = {"batch_size": 1, "seq_len": 4096, "device": "fake"}, PRESETS["llama-2-7b"]
    small = dataclasses.replace(config, n_layer=2)
    whole = measure(config, RECIPES["mixed"], ADAMW, peaks=False, **step)  # type: ignore[arg-type]
    tracked = measure(small, RECIPES["mixed"], ADAMW, **step)  # type: ignore[arg-type]
    others = 4 * (parameter_count(config) - parameter_count(small))
    begin = sum(whole.at(BEGIN).values()) + tracked.at(BEGIN)[Kind.TEMPORARY]
    update = sum(whole.at(UPDATE).values()) + tracked.at(UPDATE)[Kind.TEMPORARY] + others
    return {"GB when backward begins": begin / 1e9, "GB at the update": update / 1e9}


@claim(
    "lab-01-kv-cache",
    "Llama-2-7B keeps 2 GiB of keys and values for 4,096 tokens in 2 bytes per number.",
    expected=2.0,
    unit="GiB",
)
def kv_cache() -> float:
    """Runs the model on fake tensors and counts the keys and values that attention is called with."""
    config = PRESETS["llama-2-7b"]
    ledger = measure(config, RECIPES["bf16"], ADAMW, batch_size=1, seq_len=4096, device="fake", peaks=False)
    return ledger.total(Kind.KV_CACHE) / 2**30


@claim(
    "lab-01-zero-1",
    "Over 4 ranks ZeRO-1 divides the states of mixed precision by {expected:.1f}, not by 4.",
    expected=2.286,
    unit="times",
    tolerance=0.001,
    source="[ZeRO, figure 1](https://arxiv.org/abs/1910.02054)",
)
def zero_1() -> float:
    """Counts the roles of the mixed recipe on a small GPT, and divides the optimizer's by 4."""
    ledger = measure(SHAPE, RECIPES["mixed"], ADAMW, batch_size=1, seq_len=8, peaks=False)
    sharded = ledger.total(Kind.WEIGHTS, Kind.GRADIENTS) + ledger.total(Kind.OPTIMIZER) / 4
    return ledger.total(*STATES) / sharded
