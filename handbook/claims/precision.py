"""Claims of handbook/precision.md."""

import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import text_batch, text_model
from rankzero.claims.toolkit.low_precision import gradients
from rankzero.claims.toolkit.starters import starter
from rankzero.ledger.ledger import Kind
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

FP8 = "https://arxiv.org/abs/2209.05433"


# -------------------------------------------------------------------------------------------------------------- formats
def every_number(dtype: torch.dtype) -> Tensor:
    """Every number of an 8- or 16-bit format, fp64, made from every pattern of bits there is."""
    if torch.empty((), dtype=dtype).element_size() == 1:
        return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype).double()
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).double()


def landmarks(numbers: Tensor) -> dict[str, float]:
    """Largest number, smallest normal one, smallest of all, and the distance from 1 to the next larger."""
    finite = numbers[numbers.isfinite()]
    positive = finite[finite > 0].sort().values
    gaps = positive.diff()
    # Below the smallest normal number all gaps are equal; from there on they double with each power of two.
    first_double = int((gaps > gaps[0]).nonzero()[0])
    powers = positive[torch.frexp(positive).mantissa == 0.5]
    normal = powers[powers <= positive[first_double]].max() / 2
    return {
        "max": float(positive[-1]),
        "min normal": float(normal),
        "min": float(positive[0]),
        "eps": float(positive[positive > 1][0] - 1),
    }


@claim(
    "precision-fp16",
    "fp16: max {expected[max]}, smallest normal number 2^-14 = 6.1e-5, smallest number 2^-24, next after 1 is 1 + "
    "2^-10.",
    expected={"max": 65504, "min normal": 2.0**-14, "min": 2.0**-24, "eps": 2.0**-10},
    unit="",
)
def fp16() -> Mapping[str, float]:
    """Sorts the numbers of all 65,536 bit patterns and looks where the gaps between them begin to grow."""
    return landmarks(every_number(torch.float16))


@claim(
    "precision-bf16",
    "bf16: max 3.39e38, smallest normal number 2^-126 = 1.18e-38, smallest number 2^-133, next after 1 is 1 + 2^-7.",
    expected={"max": (2 - 2.0**-7) * 2.0**127, "min normal": 2.0**-126, "min": 2.0**-133, "eps": 2.0**-7},
    unit="",
)
def bf16() -> Mapping[str, float]:
    """The same over all bit patterns of bf16."""
    return landmarks(every_number(torch.bfloat16))


@claim(
    "precision-fp32",
    "fp32: max 3.40e38, smallest normal number 2^-126, smallest number 2^-149, next after 1 is 1 + 2^-23.",
    expected={"max": (2 - 2.0**-23) * 2.0**127, "min normal": 2.0**-126, "min": 2.0**-149, "eps": 2.0**-23},
    unit="",
)
def fp32() -> Mapping[str, float]:
    """Reads the numbers of four bit patterns: all ones below inf, exponent 1, mantissa 1, and 1's with mantissa 1."""
    patterns = torch.tensor([0x7F7FFFFF, 0x00800000, 0x00000001, 0x3F800001], dtype=torch.int32)
    largest, normal, smallest, after_one = patterns.view(torch.float32).double().tolist()
    return {"max": largest, "min normal": normal, "min": smallest, "eps": after_one - 1}


@claim(
    "precision-fp8",
    "fp8: e4m3fn reaches {expected[e4m3fn max]} with eps {expected[e4m3fn eps]}, e5m2 {expected[e5m2 max]} with eps "
    "{expected[e5m2 eps]}; smallest normal numbers 2^-6 and 2^-14.",
    expected={
        "e4m3fn max": 448,
        "e4m3fn min normal": 2.0**-6,
        "e4m3fn eps": 0.125,
        "e5m2 max": 57344,
        "e5m2 min normal": 2.0**-14,
        "e5m2 eps": 0.25,
    },
    unit="",
    source=FP8,
)
def fp8() -> Mapping[str, float]:
    """Sorts the numbers of all 256 bit patterns of each format."""
    found = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    return {
        f"{name} {what}": number
        for name, dtype in found.items()
        for what, number in landmarks(every_number(dtype)).items()
        if what != "min"
    }


@claim(
    "precision-bf16-is-half-of-fp32",
    "The 16 bits of a bf16 number are the first 16 of the same fp32 number.",
    expected=0,
    unit="of 65,536 bit patterns differ",
)
def bf16_is_half_of_fp32() -> float:
    """Widens every bf16 bit pattern to fp32 and compares its upper half; the lower half must be 0."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    wide = patterns.view(torch.bfloat16).float().view(torch.int32)
    number = ~patterns.view(torch.bfloat16).isnan()
    return int((wide[number] != (patterns.int() << 16)[number]).sum())


# ------------------------------------------------------------------------------------------------------------- rounding
@claim(
    "precision-one-more-is-lost",
    "2,048 + 1 = 2,048 in fp16, 256 + 1 = 256 in bf16, and 16,777,216 + 1 = 16,777,216 in fp32.",
    expected={"fp16": 2048, "bf16": 256, "fp32": 16_777_216},
    unit="",
)
def one_more_is_lost() -> Mapping[str, float]:
    """Tries every power of two from 1 up and returns the first to which adding 1 changes nothing."""
    found = {}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        number = torch.ones((), dtype=dtype)
        while number + 1 != number:
            number = number * 2
        found[name] = number.item()
    return found


@claim(
    "precision-sum-stands-still",
    "Adding 1 to a bf16 number 10,000 times ends at {expected[one by one]}; torch.sum of 10,000 ones, which adds up "
    "in fp32 and rounds once, gives {expected[torch.sum]}.",
    expected={"one by one": 256, "torch.sum": 9984},
    unit="",
)
def sum_stands_still() -> Mapping[str, float]:
    """Does both."""
    ones, total = torch.ones(10_000, dtype=torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)
    for one in ones:
        total = total + one
    return {"one by one": total.item(), "torch.sum": ones.sum().item()}


@claim(
    "precision-weights-that-do-not-move",
    "After AdamW's first step 7 % of Lab 02's weights have not moved if they are bf16 and the rate is 1e-4, and "
    "{expected[bf16, 1e-5]:.0f} % at 1e-5; in fp32 all have.",
    expected={"bf16, 1e-4": 7.1, "bf16, 1e-5": 73.7, "fp32, 1e-5": 0},
    tolerance=1.0,
    unit="% of weights",
)
def weights_that_do_not_move() -> Mapping[str, float]:
    """Takes the step with the gradient of Lab 03's first batch and counts weights equal to what they were."""

    def percent(dtype: torch.dtype, rate: float) -> float:
        model = text_model()
        model.to(dtype)
        gradient = gradients()["fp32"][0].to(dtype).split([p.numel() for p in model.parameters()])
        for parameter, part in zip(model.parameters(), gradient, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        AdamW(model.parameters(), lr=rate).step()
        same = sum(int((old == new).sum()) for old, new in zip(before, model.parameters(), strict=True))
        return 100 * same / model.parameter_count()

    return {
        "bf16, 1e-4": percent(torch.bfloat16, 1e-4),
        "bf16, 1e-5": percent(torch.bfloat16, 1e-5),
        "fp32, 1e-5": percent(torch.float32, 1e-5),
    }


# ---------------------------------------------------------------------------------------------------------------- range
@claim(
    "precision-fp16-edges",
    "fp16: 65,519 becomes 65,504 and 65,520 inf; 2^-24 survives and 2^-25 becomes 0; 256 squared is inf.",
    expected=True,
    unit="",
)
def fp16_edges() -> bool:
    """Casts the first four and squares the fifth."""
    below, above, small, smaller = torch.tensor([65519.0, 65520.0, 2.0**-24, 2.0**-25]).half().tolist()
    square = torch.tensor(256.0).half().square().item()
    return (below, above, small, smaller, square) == (65504, math.inf, 2.0**-24, 0, math.inf)


@claim(
    "precision-below-the-normal-numbers",
    "{expected[below 2^-14]:.0f} % of the gradients of Lab 03's first batch lie below fp16's smallest normal number, "
    "2^-14, where digits are lost; 2 in 10,000 become 0 when they are cast, and none reaches 1.",
    expected={"below 2^-14": 17.1, "zero when cast": 0.02, "1 or more": 0},
    tolerance=1.0,
    unit="% of gradients",
)
def below_the_normal_numbers() -> Mapping[str, float]:
    """Counts in the fp32 gradient of real text. The text differs a little between Python versions."""
    gradient = gradients()["fp32"][0]
    there = gradient[gradient != 0]
    return {
        "below 2^-14": 100 * float((there.abs() < 2.0**-14).double().mean()),
        "zero when cast": 100 * float((there.half() == 0).double().mean()),
        "1 or more": 100 * float((there.abs() >= 1).double().mean()),
    }


# ------------------------------------------------------------------------------------------------------------- autocast
def cpu_formats() -> dict[str, str]:
    """Operation -> the formats of its results for an fp32 and for a bf16 input, under autocast on the CPU."""
    weight, target = torch.randn(8, 8), torch.randint(8, (4,))
    operations: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda x: F.linear(x, weight),
        "attention": lambda x: F.scaled_dot_product_attention(
            x.view(1, 1, 4, 8), x.view(1, 1, 4, 8), x.view(1, 1, 4, 8)
        ),
        "cross_entropy": lambda x: F.cross_entropy(x, target),
        "mse_loss": lambda x: F.mse_loss(x, x),
        "layer_norm": lambda x: F.layer_norm(x, (8,)),
        "softmax": lambda x: x.softmax(-1),
        "gelu": F.gelu,
        "sum": torch.sum,
        "add": lambda x: x + weight[:4],
    }
    found = {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name, operation in operations.items():
            results = [operation(torch.randn(4, 8).to(dtype)).dtype for dtype in (torch.float32, torch.bfloat16)]
            found[name] = " ".join(str(dtype).removeprefix("torch.") for dtype in results)
    return found


@claim(
    "precision-autocast-on-a-cpu",
    "On the CPU autocast runs linear layers and attention in bf16 and losses in fp32; layer_norm, softmax, GELU and "
    "sums run in the format that comes in.",
    expected={"bf16": 2, "fp32": 2, "as it comes in": 4, "the wider": 1},
    unit="of 9 operations",
)
def autocast_on_a_cpu() -> Mapping[str, float]:
    """Runs nine operations on an fp32 and on a bf16 input under autocast and sorts them by what comes out.

    `add`, of the input and an fp32 tensor, follows type promotion, which autocast leaves as it is.
    """
    found = cpu_formats()
    expected = {
        "bf16": ({"linear", "attention"}, "bfloat16 bfloat16"),
        "fp32": ({"cross_entropy", "mse_loss"}, "float32 float32"),
        "as it comes in": ({"layer_norm", "softmax", "gelu", "sum"}, "float32 bfloat16"),
        "the wider": ({"add"}, "float32 float32"),
    }
    return {kind: sum(found[name] == formats for name in names) for kind, (names, formats) in expected.items()}


@claim(
    "precision-autocast-lists-for-cuda",
    "PyTorch's list of what autocast runs in fp32 on CUDA has layer_norm, softmax, log_softmax, nll_loss, exp, pow and "
    "sum; the list for 16 bits has matmul, linear, convolution and scaled_dot_product_attention.",
    expected={"fp32": 7, "lower precision": 4},
    unit="operations found in their list",
    source="https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference",
)
def autocast_lists_for_cuda() -> Mapping[str, float]:
    """Reads the macros AT_FORALL_FP32... and AT_FORALL_LOWER_PRECISION_FP in the header that torch brings along."""
    header = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text()

    def names(macro: str) -> set[str]:
        body = re.search(rf"#define {macro}\(_\)((?:.*\\\n)*.*\n)", header)
        return set(re.findall(r"_\((\w+)", body[1])) if body else set()

    in_fp32 = names("AT_FORALL_FP32") | names("AT_FORALL_FP32_SET_OPT_DTYPE")
    lower = names("AT_FORALL_LOWER_PRECISION_FP")
    wanted = {"layer_norm", "softmax", "log_softmax", "nll_loss", "exp", "pow", "sum"}
    return {
        "fp32": len(wanted & in_fp32),
        "lower precision": len({"matmul", "linear", "convolution", "scaled_dot_product_attention"} & lower),
    }


@claim(
    "precision-autocast-on-cuda",
    "On CUDA layer_norm, softmax and sum of a bf16 input give fp32 under autocast, where the CPU gives bf16.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def autocast_on_cuda() -> bool:
    """Runs the three on a bf16 input on the GPU."""
    x = torch.randn(4, 8, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        results = (F.layer_norm(x, (8,)), x.softmax(-1), x.sum())
    return {result.dtype for result in results} == {torch.float32}


# --------------------------------------------------------------------------------------------------------------- scaler
@claim(
    "precision-gradscaler-defaults",
    "torch.amp.GradScaler starts at {expected[start]}, doubles after {expected[interval]} good steps, halves after "
    "an overflow, and skips that step; it works on the CPU.",
    expected={"start": 65536, "growth": 2, "interval": 2000, "after an overflow": 32768, "weight moved": 0},
    unit="",
    source="https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",
)
def gradscaler_defaults() -> Mapping[str, float]:
    """Asks a new scaler, then hands it a weight with an infinite gradient and asks again."""
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    start = scaler.scale(torch.ones(1)).item()
    weight.grad = torch.tensor([math.inf])
    scaler.step(optimizer)
    scaler.update()
    return {
        "start": start,
        "growth": scaler.get_growth_factor(),
        "interval": scaler.get_growth_interval(),
        "after an overflow": scaler.get_scale(),
        "weight moved": weight.item() - 1,
    }


@claim(
    "precision-unscale-twice-raises",
    "GradScaler.unscale_ raises when it is called a second time before update.",
    expected=True,
    unit="",
)
def unscale_twice_raises() -> bool:
    """Calls it twice on one gradient and looks whether that was divided once."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(torch.ones(1))
    weight.grad = torch.tensor([4.0])
    scaler.unscale_(optimizer)
    try:
        scaler.unscale_(optimizer)
    except RuntimeError:
        return weight.grad.item() == 1
    return False


@claim(
    "precision-not-a-power-of-two",
    "A scale of 50,000, divided out again, changes the last digits of nine gradients in ten in fp32; one of 65,536 "
    "changes none.",
    expected={"50,000": 91, "65,536": 0},
    tolerance=6,
    unit="% of gradients",
)
def not_a_power_of_two() -> Mapping[str, float]:
    """Computes the gradient of Lab 03's first batch with each scale. The tolerance is for other CPUs' rounding."""
    exact, scaled = gradients()["fp32"]
    other = starter("03").gradient(text_model(), *text_batch(), None, 50_000.0)
    there = exact != 0
    return {
        "50,000": 100 * float((other[there] != exact[there]).double().mean()),
        "65,536": 100 * float((scaled[there] != exact[there]).double().mean()),
    }


# --------------------------------------------------------------------------------------------------------------- memory
@claim(
    "precision-amp-bytes",
    "Under autocast a parameter of GPT-2's shape takes {expected[amp]} bytes where fp32 takes {expected[fp32]}: the "
    "bf16 copy of each matrix comes on top.",
    expected={"fp32": 16, "amp": 18},
    tolerance=0.05,
    unit="B a parameter",
)
def amp_bytes() -> Mapping[str, float]:
    """Measures a step on fake tensors with the ledger of Lab 01. A few small tensors have no copy: the tolerance."""
    found = {}
    for recipe in ("fp32", "amp"):
        ledger = measure(
            PRESETS["gpt2"], RECIPES[recipe], OPTIMIZERS["adamw"], batch_size=1, seq_len=64, device="fake", peaks=False
        )
        held = sum(ledger.total(kind) for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER))
        found[recipe] = held / 124_337_664
    return found


# ----------------------------------------------------------------------------------------------------------------- CUDA
@claim(
    "precision-tf32",
    "On a GPU with TF32, allowing it makes a product of 4,096 x 4,096 matrices more than twice as fast, and rounds its "
    "inputs to 11 digits: the error is between 1e-4 and 1e-3 of the result.",
    expected={"more than twice as fast": 1, "error between 1e-4 and 1e-3": 1},
    unit="",
    needs=("cuda",),
)
def tf32() -> Mapping[str, float]:
    """Times ten products each way after three to warm up, and divides the lengths of error and result."""
    torch.manual_seed(0)
    a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    exact, seconds, error, before = a.double() @ b.double(), {}, 0.0, torch.get_float32_matmul_precision()
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        for number in range(13):
            if number == 3:
                torch.cuda.synchronize()
                begin = time.perf_counter()
            product = a @ b
        torch.cuda.synchronize()
        seconds[precision] = time.perf_counter() - begin
        error = float((product.double() - exact).norm() / exact.norm())
    torch.set_float32_matmul_precision(before)
    return {
        "more than twice as fast": int(seconds["highest"] > 2 * seconds["high"]),
        "error between 1e-4 and 1e-3": int(1e-4 < error < 1e-3),
    }
