"""Claims of handbook/memory.md: the step, its states and the optimizers."""

import functools

from rankzero.claims.claim import claim
from rankzero.learn.models.gpt import GPT
from rankzero.ledger.ledger import BEGIN, UPDATE, Kind, Ledger, compare
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.predict import predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

from .shared import ADAMW, PLAYBOOK, SMALL, STEP, bytes_of, gpt2_step, per_parameter, states


@claim(
    "predicted-is-measured",
    "For a GPT of 1.4 million parameters, prediction and measurement differ by 0 bytes in every kind of memory.",
    expected=dict.fromkeys(("weights", "gradients", "optimizer state", "activations", "temporary", "KV cache"), 0),
    unit="B of difference",
)
def predicted_is_measured() -> dict[str, float]:
    """Predicts from sizes alone, runs two steps, and subtracts kind by kind."""
    lines = compare(predict(SMALL, RECIPES["fp32"], ADAMW, **STEP), measure(SMALL, RECIPES["fp32"], ADAMW, **STEP))
    return {line.kind.value: line.difference for line in lines}


@claim(
    "gpt2-peak",
    "GPT-2 (124M) in fp32 has {expected[weights]:.2f} GB of weights; a step on 8 sequences of 1,024 tokens keeps "
    "{expected[activations]} GB of activations and peaks at {expected[peak]} GB.",
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


@claim(
    "gpt2-tokens-that-outweigh",
    "The step of GPT-2 keeps {expected[bytes per token]} bytes of activations per token; from {expected[tokens]} "
    "tokens on they outweigh weights, gradients and optimizer state at 16 bytes per parameter.",
    expected={"bytes per token": 798_000, "tokens": 2_494},
    unit="as named",
    tolerance=500,
)
def tokens_that_outweigh() -> dict[str, float]:
    """Divides the measured activations by 8 x 1,024 tokens, and 16 bytes per parameter by the quotient."""
    per_token = gpt2_step("none").total(Kind.ACTIVATIONS) / (8 * 1024)
    return {"bytes per token": per_token, "tokens": round(16 * parameter_count(PRESETS["gpt2"]) / per_token)}


@claim(
    "memory-problem-answers",
    "80 GB leave room for {expected[tokens]} tokens of 1.2 MB beside 1.3 billion parameters at 16 bytes; with bf16 "
    "averages the mixed recipe takes {expected[bytes]} bytes per parameter, {expected[bytes on 64 ranks]} under ZeRO-1 "
    "on 64 ranks and {expected[with fp32 averages]} with fp32 averages.",
    expected={"tokens": 49_333, "bytes": 12, "bytes on 64 ranks": 4.125, "with fp32 averages": 4.1875},
    unit="as named",
)
def problem_answers() -> dict[str, float]:
    """Computes the answers of the chapter's problems 1 and 3."""
    mixed = RECIPES["mixed"]
    shared = mixed.weight + mixed.gradient
    halved = mixed.master + 2 * 2
    return {
        "tokens": int((80e9 - 16 * 1.3e9) / 1.2e6),
        "bytes": shared + halved,
        "bytes on 64 ranks": shared + halved / 64,
        "with fp32 averages": shared + (mixed.master + 2 * mixed.state) / 64,
    }


def all_states(recipe: str) -> float:
    """Bytes a parameter of weights, gradients and optimizer state."""
    return per_parameter(states(recipe), Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)


@claim(
    "bytes-per-parameter",
    "With AdamW, weights, gradients and optimizer state take {expected[bf16]} to {expected[mixed-fp32-accum]} bytes "
    "per parameter, depending on the recipe.",
    expected={
        "bf16": 8,
        "bf16-fp32-accum": 12,
        "fp32": 16,
        "mixed": 16,
        "mixed-fp32-grad": 18,
        "mixed-fp32-accum": 20,
    },
    unit="B per parameter",
)
def bytes_per_parameter() -> dict[str, float]:
    """Trains the small model for a step under each recipe and counts the bytes of its tensors."""
    return {name: all_states(name) for name in RECIPES if name != "amp"}


@claim(
    "autocast-18",
    "fp32 under autocast takes {expected} bytes per parameter: {expected:.0f} for all but position embedding and "
    "norms, which it never copies.",
    expected=17.99,
    unit="B per parameter",
    tolerance=0.005,
)
def autocast_18() -> float:
    """Counts the bf16 copies that autocast makes during a forward pass, with weights, gradients and state."""
    return all_states("amp")


@claim(
    "megatron-distributed",
    "By Megatron-LM's count a distributed optimizer leaves 6 + 12/dp bytes per parameter: {expected[8 ranks]} on 8 "
    "data-parallel ranks.",
    expected={"one rank": 18, "8 ranks": 7.5},
    unit="B per parameter",
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
    "Before activations, 7 billion parameters take 112 GB in fp32 and in mixed precision, {expected[7B fp32 sum]} "
    "with gradients summed in fp32; 70 billion take ten times that.",
    expected={"7B fp32": 112, "7B mixed": 112, "7B fp32 sum": 140, "70B mixed": 1120, "70B fp32 sum": 1400},
    unit="GB",
    source=PLAYBOOK,
)
def seven_billion() -> dict[str, float]:
    """Multiplies the bytes per parameter that a small model was measured to take."""
    names = {"fp32": "fp32", "mixed": "mixed", "fp32 sum": "mixed-fp32-accum"}
    cases = ((7, "fp32"), (7, "mixed"), (7, "fp32 sum"), (70, "mixed"), (70, "fp32 sum"))
    return {f"{billions}B {name}": billions * all_states(names[name]) for billions, name in cases}


@claim(
    "adam-state-7b",
    "The Adam state of 7 billion parameters, m and v, is {expected[m and v]} GB in fp32; {expected[with masters]} GB "
    "with master weights.",
    expected={"m and v": 56, "with masters": 84},
    unit="GB",
)
def adam_state_7b() -> dict[str, float]:
    """Counts m, v and master weights of the small model, and multiplies bytes per parameter by 7e9."""
    ledger = states("mixed")
    averages = (bytes_of(ledger, "m") + bytes_of(ledger, "v")) / parameter_count(SMALL)
    return {"m and v": 7 * averages, "with masters": 7 * per_parameter(ledger, Kind.OPTIMIZER)}


@claim(
    "six-bytes-are-weights",
    "In mixed precision {expected[weights and masters]} bytes per parameter are the bf16 weights and their fp32 "
    "masters alone; in all it is {expected[all]}.",
    expected={"weights and masters": 6, "all": 16},
    unit="B per parameter",
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
    "An update of fp32 masters that first converts every bf16 gradient holds {expected} bytes per parameter more for "
    "that moment.",
    expected=4,
    unit="B per parameter",
)
def update_converts_gradients() -> float:
    """Takes the buffers of the update at their peak, and subtracts AdamW's own two of the largest weight."""
    largest = 5000 * 128
    peak = bytes_of(four_sequences(), "peak of the update")
    return (peak - 2 * 4 * largest) / parameter_count(SMALL)


@claim(
    "peak-moves-to-update",
    "With 4 sequences that conversion makes the update the fullest moment, {expected[update]} MB against "
    "{expected[backward begins]} MB as backward begins; without it the update would hold "
    "{expected[without conversion]} MB.",
    expected={"backward begins": 32.14, "update": 33.84, "without conversion": 28.09},
    unit="MB",
    tolerance=0.005,
)
def peak_moves_to_update() -> dict[str, float]:
    """Measures a step of the small model under the mixed recipe, and leaves 4 bytes per parameter out of the update."""
    backward, update = (sum(four_sequences().at(phase).values()) / 1e6 for phase in (BEGIN, UPDATE))
    return {
        "backward begins": backward,
        "update": update,
        "without conversion": update - 4 * parameter_count(SMALL) / 1e6,
    }


@claim(
    "optimizer-state",
    "In fp32, SGD keeps {expected[sgd]}, momentum {expected[momentum]} and AdamW {expected[adamw]} bytes per "
    "parameter.",
    expected={"sgd": 0, "momentum": 4, "adamw": 8},
    unit="B per parameter",
)
def optimizer_state() -> dict[str, float]:
    """Takes a step with each optimizer and counts the tensors in its state, AdamW's step counts left out."""
    return {name: per_parameter(states("fp32", name), Kind.OPTIMIZER) for name in ("sgd", "momentum", "adamw")}


@claim(
    "adamw-step-counts",
    "AdamW also keeps a step count of {expected} bytes for each tensor.",
    expected=4,
    unit="B per tensor",
)
def adamw_step_counts() -> float:
    """Divides the bytes of all step counts by the number of the model's parameter tensors."""
    return bytes_of(states("fp32"), "step counts") / len(list(GPT(SMALL).parameters()))


@claim(
    "adam-8-bit",
    "8-bit Adam keeps {expected} bytes per parameter of Llama-2-7B: 1 for each average, an fp32 scale for each 256 "
    "numbers.",
    expected=2.03,
    unit="B per parameter",
    tolerance=0.005,
    source="[bitsandbytes](https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/optim/optimizer.py)",
)
def adam_8_bit() -> float:
    """Predicts tensor by tensor, with tensors of fewer than 4,096 numbers in fp32; the library needs a GPU."""
    config = PRESETS["llama-2-7b"]
    predicted = predict(config, RECIPES["fp32"], OPTIMIZERS["adam8bit"], batch_size=1, seq_len=1)
    return predicted.total(Kind.OPTIMIZER) / parameter_count(config)
