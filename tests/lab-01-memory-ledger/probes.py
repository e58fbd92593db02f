"""Lab 01, probes: they call the learner's code on fresh random sizes and models and return what came of it.

Every answer is a count of bytes or numbers, so right means equal: there is no tolerance in this lab.
"""

import random
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.untrusted_values import dict_items, in_training, type_name

RECIPES = ("fp32", "mixed", "mixed-fp32-accum", "bf16")
ROLES = ("weights", "gradients", "optimizer state")


def whole(value: Any) -> Any:
    """A whole number as it is; of anything else its type, so that a judge can say what came back."""
    return value if type(value) is int else f"{type_name(value)} {value!r}"[:60]


# ---------------------------------------------------------------------------------------------------- parameter_count
def _sizes(draw: random.Random) -> dict[str, int]:
    return {
        "vocab_size": draw.randrange(100, 60_000),
        "block_size": draw.randrange(16, 4096),
        "n_layer": draw.randrange(2, 80),
        "hidden_dim": draw.randrange(128, 8192),
    }


def tied_model(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model whose output layer is the embedding's matrix."""
    sizes = _sizes(random.Random(seed))
    return {**sizes, "count": whole(learner.parameter_count(**sizes, tied=True))}


def untied_model(learner: ModuleType, seed: int) -> dict[str, Any]:
    """How much more it is with an output layer of its own."""
    sizes = _sizes(random.Random(seed))
    tied, untied = (learner.parameter_count(**sizes, tied=tied) for tied in (True, False))
    return {**sizes, "more": whole(untied - tied)}


def one_more_block(learner: ModuleType, seed: int) -> dict[str, Any]:
    """How much one more block adds."""
    sizes = _sizes(random.Random(seed))
    more = sizes | {"n_layer": sizes["n_layer"] + 1}
    difference = learner.parameter_count(**more, tied=True) - learner.parameter_count(**sizes, tied=True)
    return {**sizes, "more": whole(difference)}


# -------------------------------------------------------------------------------------------------------- state_bytes
def _states(learner: ModuleType, seed: int, recipe: str, optimizer: str) -> dict[str, Any]:
    draw = random.Random(seed)
    parameters, tensors = draw.randrange(10**6, 10**11), draw.randrange(20, 2000)
    found = learner.state_bytes(parameters, tensors, recipe, optimizer)
    roles = dict_items(found)
    return {
        "parameters": parameters,
        "tensors": tensors,
        "type": type_name(found) if roles is None else "dict",
        "names": sorted(map(str, roles or ())),
        "roles": None if roles is None else [whole(roles.get(role)) for role in ROLES],
    }


def fp32(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Everything in fp32, AdamW."""
    return _states(learner, seed, "fp32", "adamw")


def mixed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A bf16 model with fp32 masters, AdamW."""
    return _states(learner, seed, "mixed", "adamw")


def accumulated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with gradients summed in fp32."""
    return _states(learner, seed, "mixed-fp32-accum", "adamw")


def pure_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Everything in bf16, AdamW."""
    return _states(learner, seed, "bf16", "adamw")


def other_optimizers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """SGD and momentum, for each recipe."""
    cases = [(recipe, optimizer) for recipe in RECIPES for optimizer in ("sgd", "momentum")]
    found = [_states(learner, seed, *case) for case in cases]
    return {
        "parameters": found[0]["parameters"],
        "cases": [", ".join(case) for case in cases],
        "roles": [answers["roles"] for answers in found],
    }


# --------------------------------------------------------------------------------------------------- activation_bytes
def _block_sizes(draw: random.Random) -> dict[str, int]:
    heads = draw.choice([2, 4, 8, 12, 16])
    return {
        "batch_size": draw.randrange(1, 9),
        "seq_len": draw.randrange(65, 2048),  # wider than it is long, or longer than it is wide: both happen
        "hidden_dim": heads * draw.choice([16, 24, 40, 48, 80, 96]),  # never the usual 64 or 128
        "n_head": heads,
    }


def fused_fp32(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Fused attention, 4 bytes a number."""
    sizes = _block_sizes(random.Random(seed))
    return {**sizes, "number": 4, "bytes": whole(learner.activation_bytes(**sizes, number=4, fused=True))}


def fused_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Fused attention, 2 bytes a number; the log-sum-exp stays fp32."""
    sizes = _block_sizes(random.Random(seed))
    return {**sizes, "number": 2, "bytes": whole(learner.activation_bytes(**sizes, number=2, fused=True))}


def explicit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Attention that keeps the probabilities."""
    sizes = _block_sizes(random.Random(seed))
    return {**sizes, "number": 2, "bytes": whole(learner.activation_bytes(**sizes, number=2, fused=False))}


# -------------------------------------------------------------------------------------------------------- saved_bytes
class _Heads(nn.Module):
    """One product, cut into three views of the same memory, which a fused attention keeps."""

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
    rows = draw.choice([1, 3]), 2 * draw.randrange(2, 15) + 1  # odd, so that no weight has the batch's shape by chance
    return width, torch.randn(*rows, width, dtype=dtype)


def chain(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Linear, ReLU, linear: the ReLU's output is the second layer's input, kept by both."""
    width, x = _sequences(seed)
    model = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, 5))
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(model, x))}


def as_found(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model in training mode, with dropout: it is run so, and left so."""
    width, x = _sequences(seed)
    model = nn.Sequential(nn.Linear(width, 3 * width), nn.Dropout(0.5), nn.Linear(3 * width, 5))
    modules, parameters = [*model.modules()], [*model.parameters()]
    found = whole(learner.saved_bytes(model, x))
    touched = not all(map(in_training, modules)) or any(parameter.grad is not None for parameter in parameters)
    return {"shape": list(x.shape), "bytes": found, "touched": touched}


def views(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three views of one storage."""
    width, x = _sequences(seed)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(_Heads(width), x))}


def half(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two bytes a number."""
    width, x = _sequences(seed, torch.bfloat16)
    model = nn.Sequential(nn.Linear(width, 2 * width, dtype=torch.bfloat16), nn.GELU())
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(model, x))}


def square(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An input of the same shape as the weight: shapes do not tell them apart."""
    width = random.Random(seed).randrange(20, 500)
    model = nn.Linear(width, width, bias=False)
    return {"shape": [width, width], "bytes": whole(learner.saved_bytes(model, torch.randn(width, width)))}


def frozen(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A first layer that is not trained: nothing asks for its gradients, so it keeps nothing."""
    width, x = _sequences(seed)
    model = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, 5))
    model[0].requires_grad_(False)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(model, x))}


class _Slice(nn.Module):
    """Multiplies a part of its input: what is kept is a view of all of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width // 2))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width / 2]"""
        return x[..., : x.shape[-1] // 2] * self.weight


def part_of_a_storage(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A view keeps all of the memory that it looks at."""
    width, x = _sequences(seed)
    return {"shape": list(x.shape), "bytes": whole(learner.saved_bytes(_Slice(width), x))}


# ----------------------------------------------------------------------------------------------------- kv_cache_bytes
def _cache(learner: ModuleType, seed: int, *, grouped: bool) -> dict[str, Any]:
    draw = random.Random(seed)
    heads = draw.choice([8, 16, 32, 64])
    sizes = {
        "n_layer": draw.randrange(2, 100),
        "n_head": heads,
        "n_kv_head": heads // draw.choice([2, 4, 8]) if grouped else heads,
        "hidden_dim": heads * draw.choice([40, 48, 80, 96]),  # never the usual 64 or 128
        "batch_size": draw.randrange(2, 65),
        "tokens": draw.randrange(100, 100_000),
        "number": 4 if grouped else 1,
    }
    return {**sizes, "bytes": whole(learner.kv_cache_bytes(**sizes))}


def every_head(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Each head of queries has its own keys and values."""
    return _cache(learner, seed, grouped=False)


def grouped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Several heads of queries share one of keys and values."""
    return _cache(learner, seed, grouped=True)


# ------------------------------------------------------------------------------------------------- largest_micro_batch
class _Peak:
    """A prediction that rounds up as an allocator does, rises with every sequence, and notes what it is asked."""

    def __init__(self, draw: random.Random) -> None:
        self.fixed, self.each, self.asked = draw.randrange(10**8, 10**9), draw.randrange(10**6, 10**7), list[int]()

    def __call__(self, batch_size: int) -> int:
        if type(batch_size) is not int or batch_size < 1:
            raise ValueError(f"peak({batch_size!r}) was asked for; a micro-batch has at least 1 sequence.")
        self.asked.append(batch_size)
        if len(self.asked) > 10_000:
            raise RuntimeError("10,000 predictions were asked for, and still no answer.")
        granule = 2 * 2**20
        return -(-(self.fixed + self.each * batch_size) // granule) * granule + 2 * batch_size


Case = tuple[Callable[[int], int], int]  # a prediction and a budget


def _cases(draw: random.Random, answers: Iterable[int]) -> list[Case]:
    """For each answer a budget that so many sequences fit, and one more would just exceed."""
    cases: list[Case] = []
    for answer in answers:
        peak = _Peak(draw)
        cases.append((peak, peak(answer + 1) - 1))
        peak.asked.clear()
    return cases


def _search(learner: ModuleType, cases: list[Case]) -> dict[str, Any]:
    """What is found in each case. No frame below the learner's code holds an answer."""
    return {"found": [whole(learner.largest_micro_batch(peak, budget)) for peak, budget in cases]}


def _of_all_sizes(draw: random.Random) -> list[Case]:
    power = 2 ** draw.randrange(3, 8)
    return _cases(draw, (1, 2, 3, power - 1, power, power + 1, *(draw.randrange(5, 200) for _ in range(3))))


def fits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Answers of all sizes, around powers of two among them."""
    return _search(learner, _of_all_sizes(random.Random(seed)))


def _filled(draw: random.Random) -> list[Case]:
    answers = (1, 2 ** draw.randrange(1, 8), *(2 * draw.randrange(3, 100) + 1 for _ in range(3)))
    sizes = [draw.randrange(10**6, 10**7) for _ in answers]
    return [(each.__mul__, answer * each) for answer, each in zip(answers, sizes, strict=True)]


def exactly(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Budgets that the answer fills to the last byte: one sequence, a power of two, odd numbers."""
    return _search(learner, _filled(random.Random(seed)))


def _nothing_and_some(draw: random.Random) -> list[Case]:
    answers = [0] * 15 + [draw.randrange(10, 100) for _ in range(15)]
    draw.shuffle(answers)
    return _cases(draw, answers)


def nothing_fits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Budgets that one sequence already exceeds, among others that hold some."""
    return _search(learner, _nothing_and_some(random.Random(seed)))


def few_calls(learner: ModuleType, seed: int) -> dict[str, Any]:
    """How many predictions a large answer takes."""
    draw = random.Random(seed)
    cases = _cases(draw, [draw.randrange(2**40, 2**41)])
    peak: Any = cases[0][0]
    found = _search(learner, cases)["found"][0]
    return {"found": found, "calls": len(peak.asked)}
