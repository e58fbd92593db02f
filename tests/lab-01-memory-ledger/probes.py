"""Probes of Lab 01: each calls the learner's code on random sizes and models, and returns its results.

Every answer is a count of bytes or parameters, so a right answer is equal to the reference's: there is no tolerance.
"""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.left_behind import Attached
from rankzero.exercises.probes.loader import load
from rankzero.exercises.probes.untrusted_values import described, dict_items, gradients, in_training, type_name, weights

RECIPES = ("fp32", "mixed", "mixed-fp32-accum", "bf16")
ROLES = ("weights", "gradients", "optimizer state")


def whole(value: Any) -> Any:
    """Returns a whole number unchanged; for another value its type and text, which a judge shows to the learner."""
    return value if type(value) is int else described(value)


def smallest(function: Callable[..., Any], sizes: dict[str, int], **others: Any) -> dict[str, Any]:
    """Returns the function's numbers for the least sizes, and with each doubled: cases to follow by hand."""
    least = {name: 2 if name == "hidden_dim" else size if name == "number" else 1 for name, size in sizes.items()}
    cases = [least, *(least | {name: 2 * least[name]} for name in sizes if name not in ("number", "n_kv_head"))]
    if "n_kv_head" in sizes:
        cases.append(least | {"n_head": 2, "n_kv_head": 2})
    numbers = []
    for case in cases:
        try:
            numbers.append(whole(function(**case, **others)))
        except Exception as error:  # the judge looks at these only where the larger case is wrong
            numbers.append(type(error).__name__)
    texts = [", ".join(f"{name} {size}" for name, size in case.items()) for case in cases]
    return {"small cases": texts, "small numbers": numbers}


# ---------------------------------------------------------------------------------------------------- parameter_count
def _sizes(draw: random.Random) -> dict[str, int]:
    return {
        "vocab_size": draw.randrange(100, 60_000),
        "block_size": draw.randrange(16, 4096),
        "n_layer": draw.randrange(2, 80),
        "hidden_dim": draw.randrange(128, 8192),
    }


def tied_model(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the parameters of a model whose output layer shares the embedding's matrix."""
    sizes = _sizes(random.Random(seed))
    small = smallest(learner.parameter_count, sizes, tied=True)
    return {**sizes, "count": whole(learner.parameter_count(**sizes, tied=True)), **small}


def untied_model(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the additional parameters of a separate output layer."""
    sizes = _sizes(random.Random(seed))
    tied, untied = (learner.parameter_count(**sizes, tied=tied) for tied in (True, False))
    return {**sizes, "more": whole(untied - tied)}


def one_more_block(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the parameters that one more block adds."""
    sizes = _sizes(random.Random(seed))
    more = sizes | {"n_layer": sizes["n_layer"] + 1}
    difference = learner.parameter_count(**more, tied=True) - learner.parameter_count(**sizes, tied=True)
    return {**sizes, "more": whole(difference)}


# -------------------------------------------------------------------------------------------------------- state_bytes
def _states(learner: ModuleType, seed: int, recipe: str, optimizer: str) -> dict[str, Any]:
    draw = random.Random(seed)
    parameters, tensors = draw.randrange(10**6, 10**11), draw.randrange(20, 2000)
    returned = learner.state_bytes(parameters, tensors, recipe, optimizer)
    roles = dict_items(returned)
    return {
        "parameters": parameters,
        "tensors": tensors,
        "type": type_name(returned) if roles is None else "dict",
        "names": sorted(map(str, roles or ())),
        "roles": None if roles is None else [whole(roles.get(role)) for role in ROLES],
    }


def fp32(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes of AdamW training in fp32."""
    return _states(learner, seed, "fp32", "adamw")


def mixed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes of AdamW training in bf16 with fp32 master weights."""
    return _states(learner, seed, "mixed", "adamw")


def accumulated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes of mixed-precision AdamW training with gradients summed in fp32."""
    return _states(learner, seed, "mixed-fp32-accum", "adamw")


def pure_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes of AdamW training in bf16."""
    return _states(learner, seed, "bf16", "adamw")


def other_optimizers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes with SGD and with momentum, for each recipe."""
    cases = [(recipe, optimizer) for recipe in RECIPES for optimizer in ("sgd", "momentum")]
    returned = [_states(learner, seed, *case) for case in cases]
    return {
        "parameters": returned[0]["parameters"],
        "tensors": returned[0]["tensors"],
        "cases": [", ".join(case) for case in cases],
        "roles": [states["roles"] for states in returned],
    }


# --------------------------------------------------------------------------------------------------- activation_bytes
def _block_sizes(draw: random.Random) -> dict[str, int]:
    heads = draw.choice([11, 13, 17, 19])  # batch_size and n_head are primes: a product tells its factors
    return {
        "batch_size": draw.choice([3, 5, 7]),
        "seq_len": draw.randrange(65, 2048),  # longer or shorter than hidden_dim: both happen
        "hidden_dim": heads * draw.choice([16, 24, 40, 48, 80, 96]),  # never the usual 64 or 128
        "n_head": heads,
    }


def fused_fp32(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes with fused attention and 4 bytes per number."""
    sizes = _block_sizes(random.Random(seed)) | {"number": 4}
    small = smallest(learner.activation_bytes, sizes, fused=True)
    return {**sizes, "bytes": whole(learner.activation_bytes(**sizes, fused=True)), **small}


def fused_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes with fused attention and 2 bytes per number; the log-sum-exp stays in fp32."""
    sizes = _block_sizes(random.Random(seed)) | {"number": 2}
    small = smallest(learner.activation_bytes, sizes, fused=True)
    return {**sizes, "bytes": whole(learner.activation_bytes(**sizes, fused=True)), **small}


def explicit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes with attention that saves the probabilities, with 2 and with 4 bytes per number."""
    sizes = _block_sizes(random.Random(seed))
    answers = {f"bytes {n}": whole(learner.activation_bytes(**sizes, number=n, fused=False)) for n in (2, 4)}
    small = smallest(learner.activation_bytes, sizes, number=2, fused=False)
    return {**sizes, "number 2": 2, "number 4": 4, **answers, **small}


# -------------------------------------------------------------------------------------------------------- saved_bytes
class _Heads(nn.Module):
    """Fused attention on three views of one product: autograd saves the views, which share memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width]"""
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 2, C // 2).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C)


def _sequences(seed: int, dtype: torch.dtype = torch.float32) -> tuple[int, Tensor]:
    draw = random.Random(seed)
    width = 2 * draw.randrange(4, 120)
    torch.manual_seed(seed)
    rows = draw.choice([1, 3]), 2 * draw.randrange(3, 15) + 1  # odd and above 5: no weight has that shape
    return width, torch.randn(*rows, width, dtype=dtype)


def chain(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for linear, ReLU, linear: both the ReLU and the second layer save the ReLU's output.

    Tells also whether a second call counts the same, and whether 30 equal pairs of layers keep 30 times the bytes of
    one pair: a freed tensor's address would be used again, for a random number of them.
    """
    width, x = _sequences(seed)
    model = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, 5))
    counted, again = (whole(learner.saved_bytes(model, x)) for _ in range(2))
    deep, rows = nn.Sequential(*(one for _ in range(30) for one in (nn.Linear(64, 64), nn.GELU()))), torch.ones(9, 64)
    of_all, of_a_pair = (whole(learner.saved_bytes(layers, rows)) for layers in (deep, deep[:2]))
    adds_up = type(of_all) is type(of_a_pair) is int and of_all == 30 * of_a_pair
    return {"shape": list(x.shape), "bytes": counted, "again": type(again) is int and again == counted, "deep": adds_up}


def as_found(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a model with dropout in each mode, and tells what has changed of the model and the input."""
    counted, touched, active = [], "", list[Tensor]()
    for training in (True, False):
        width, x = _sequences(seed)
        model = nn.Sequential(nn.Linear(width, 3 * width), nn.Dropout(0.5), nn.Linear(3 * width, 5)).train(training)
        before, modules = x.clone(), [*model.modules()]
        next(model.parameters()).grad = torch.ones(3 * width, width)  # as in the middle of an accumulation
        attached, values, found = Attached(model), weights(model), gradients(model)
        with torch.autograd.graph.saved_tensors_hooks(active.append, lambda tensor: tensor):
            counted.append(whole(learner.saved_bytes(model, x)))
            active.clear()
            torch.ones(1, requires_grad=True).exp()  # saves its output through the hooks that are active
        if not active:
            touched = touched or "hooks for saved tensors are still active"
        if any(in_training(module) is not training for module in modules):
            touched = (
                touched or f"a model found in {'training' if training else 'evaluation'} mode is in the other mode"
            )
        now = gradients(model)
        if not np.array_equal(found, now, equal_nan=True):
            lost = np.isnan(now).sum() > np.isnan(found).sum()
            touched = touched or f"the model has {'lost gradients' if lost else 'other gradients than before'}"
        if attached.more():
            touched = touched or "the model or a part of it has other hooks, attributes or classes than before"
        if not np.array_equal(values, weights(model)):
            touched = touched or "the model's weights have other values"
        if x.requires_grad or x.grad is not None or not bool((x == before).all()):
            touched = touched or "`x` has other values, or requires_grad=True, or a gradient"
    return {"shape": list(x.shape), "training": counted[0], "evaluation": counted[1], "touched": touched}


def views(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a model that saves three views of one storage."""
    width, x = _sequences(seed)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(_Heads(width), x))}


def half(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a model with 2 or with 8 bytes per number."""
    dtype = random.Random(seed).choice((torch.bfloat16, torch.float64))
    width, x = _sequences(seed, dtype)
    model = nn.Sequential(nn.Linear(width, 2 * width, dtype=dtype), nn.GELU())
    return {"dtype": str(dtype), "shape": list(x.shape), "bytes": whole(learner.saved_bytes(model, x))}


def square(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for an input with the shape of the weight, so that shapes cannot distinguish them."""
    width = random.Random(seed).randrange(20, 500)
    model = nn.Linear(width, width, bias=False)
    return {"shape": [width, width], "bytes": whole(learner.saved_bytes(model, torch.randn(width, width)))}


class _Masked(nn.Module):
    """Multiplies a layer's output by a parameter and by buffers, one of them not in state_dict(): autograd saves these.

    They are parts of larger storages: no address of a tensor is that of its storage, or of another tensor.
    """

    mask: Tensor
    causal: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.gain = nn.Parameter(torch.ones(width + 2)[1:])
        self.register_buffer("mask", torch.ones(width + 3)[2:])
        self.register_buffer("causal", torch.ones(width + 5)[4:], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width]"""
        masked: Tensor = self.linear(x) * self.gain[1:] * self.mask[1:] * self.causal[1:]
        return masked


def own_buffers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a model that saves views of a parameter and of buffers of its own, which are no cost of the batch."""
    width, x = _sequences(seed)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(_Masked(width), x))}


def token_ids(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for an embedding with a tied output layer: the embedding saves the token ids, 8 bytes each."""
    draw = random.Random(seed)
    # More rows than tokens, so that the layer's input has never the shape of its weight.
    vocabulary, width = draw.randrange(120, 190), 2 * draw.randrange(4, 60)
    model = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False))
    model[1].weight = model[0].weight
    tokens = torch.randint(vocabulary, (draw.randrange(1, 5), draw.randrange(3, 30)))
    return {"shape": list(tokens.shape), "bytes": whole(learner.saved_bytes(model, tokens))}


def frozen(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a model whose first and last layers are frozen: the first one needs no gradients and saves no tensors.

    The last one saves its weight alone, for the gradient of its input.
    """
    width, x = _sequences(seed)
    layers = nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, 4), nn.GELU(), nn.Linear(4, 2 * width)
    model = nn.Sequential(*layers)
    for layer in (model[0], model[-1]):
        layer.requires_grad_(False)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(model, x))}


class _Slice(nn.Module):
    """Multiplies a part of its input: autograd saves a view, which keeps the whole input in memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width // 2))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width / 2]"""
        return x[..., : x.shape[-1] // 2] * self.weight


def part_of_a_storage(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts for a saved view of a part of a storage: the whole storage counts, of which `x` itself is a part."""
    width, x = _sequences(seed)
    x = torch.stack((x, -x, 2 * x))[1]
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(_Slice(width), x))}


# ----------------------------------------------------------------------------------------------------- kv_cache_bytes
def _cache(learner: ModuleType, seed: int, *, grouped: bool) -> dict[str, Any]:
    draw = random.Random(seed)
    heads = draw.choice(
        [24, 40, 48, 56]
    )  # with 2, 4 or 8 heads per group, n_kv_head is neither that number nor twice that
    sizes = {
        "n_layer": draw.randrange(2, 100),
        "n_head": heads,
        "n_kv_head": heads // draw.choice([2, 4, 8]) if grouped else heads,
        "hidden_dim": heads * draw.choice([40, 48, 80, 96]),  # never the usual 64 or 128
        "batch_size": draw.randrange(2, 65),
        "tokens": draw.randrange(100, 100_000),
        "number": (1, 4)[(seed + grouped) % 2],
    }
    return {**sizes, "bytes": whole(learner.kv_cache_bytes(**sizes)), **smallest(learner.kv_cache_bytes, sizes)}


def every_head(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes if each head of queries has its own keys and values."""
    return _cache(learner, seed, grouped=False)


def grouped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes if several heads of queries share one head of keys and values."""
    return _cache(learner, seed, grouped=True)


# ------------------------------------------------------------------------------------------------- largest_micro_batch
def _peak(draw: random.Random) -> Callable[[int], int]:
    """Returns a predicted peak that is rounded up as by an allocator and rises with every sequence.

    It is a function, so that no attribute tells its numbers.
    """
    fixed, each, asked = draw.randrange(10**8, 10**9), draw.randrange(10**6, 10**7), 0

    def peak(batch_size: int) -> int:
        nonlocal asked
        if type(batch_size) is not int or batch_size < 1:
            raise ValueError(f"peak({batch_size!r}) was asked for; a micro-batch has at least 1 sequence.")
        asked += 1
        if asked > 10_000:
            raise RuntimeError("10,000 predictions were asked for, and still no answer.")
        granule = 2 * 2**20
        return -(-(fixed + each * batch_size) // granule) * granule + 2 * batch_size

    return peak


Case = tuple[Callable[[int], int], int]  # a prediction and a budget


def _cases(draw: random.Random, answers: Iterable[int]) -> list[Case]:
    """Returns, for each answer, the largest budget that one more sequence would exceed."""
    cases: list[Case] = []
    for answer in answers:
        peak = _peak(draw)
        cases.append((peak, peak(answer + 1) - 1))
    return cases


def _search(learner: ModuleType, cases: list[Case]) -> dict[str, Any]:
    """Returns the learner's result for each case. No frame that the learner's code can reach has the right answers."""
    return {"found": [whole(learner.largest_micro_batch(peak, budget)) for peak, budget in cases]}


def _of_all_sizes(draw: random.Random) -> list[Case]:
    power = 2 ** draw.randrange(3, 8)
    return _cases(draw, (1, 2, 3, power - 1, power, power + 1, *(draw.randrange(5, 200) for _ in range(3))))


def fits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Searches for answers of all sizes, including numbers next to powers of two.

    Searches also in the reverse order with the file loaded again: an answer that differs depends on earlier calls.
    """
    cases = _of_all_sizes(random.Random(seed))
    found = _search(learner, cases)
    second = _search(load(Path(str(learner.__file__))), cases[::-1])
    return found | {"in reverse": second["found"][::-1]}


def _filled(draw: random.Random) -> list[Case]:
    answers = (1, 2 ** draw.randrange(1, 8), *(2 * draw.randrange(3, 100) + 1 for _ in range(3)))
    sizes = [draw.randrange(10**6, 10**7) for _ in answers]
    return [(each.__mul__, answer * each) for answer, each in zip(answers, sizes, strict=True)]


def exactly(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Searches in budgets that the answer fills to the last byte: one sequence, a power of two, odd numbers."""
    return _search(learner, _filled(random.Random(seed)))


def _nothing_and_some(draw: random.Random) -> list[Case]:
    answers = [0] * 15 + [draw.randrange(10, 100) for _ in range(15)]
    draw.shuffle(answers)
    return _cases(draw, answers)


def nothing_fits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Searches in budgets that one sequence already exceeds, mixed with larger budgets."""
    return _search(learner, _nothing_and_some(random.Random(seed)))


def few_calls(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the predictions that the search for a large answer takes."""
    draw = random.Random(seed)
    ((peak, budget),) = _cases(draw, [int(2 ** draw.uniform(30, 45))])
    calls = 0

    def counted(batch_size: int) -> int:
        nonlocal calls
        calls += 1
        return peak(batch_size)

    result = _search(learner, [(counted, budget)])["found"][0]
    return {"found": result, "calls": calls}
