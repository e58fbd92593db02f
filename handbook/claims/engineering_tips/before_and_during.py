"""Claims of handbook/engineering-tips.md, what to do before and during a run."""

import contextlib
import random
from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.claims.toolkit.op_counter import calls_of, raises


# ---------------------------------------------------------------------------------------------------- before and during
@claim(
    "perfect-prediction-loses-2-5",
    "Perfect predictions of shape [4] have a squared error of {expected[[4] and [4, 1]]} against the same targets of "
    "shape [4, 1].",
    expected={"[4] and [4]": 0, "[4] and [4, 1]": 2.5},
    unit="",
)
def broadcast() -> Mapping[str, float]:
    """Subtracts 0, 1, 2, 3 from itself, with and without one more dimension, and takes the mean of the squares."""
    prediction = torch.arange(4.0)
    return {
        "[4] and [4]": (prediction - prediction).square().mean().item(),
        "[4] and [4, 1]": (prediction - prediction[:, None]).square().mean().item(),
    }


@claim(
    "one-seed-one-generator",
    "torch.manual_seed repeats torch's draws, and neither NumPy's nor Python's.",
    expected={"torch": 1, "NumPy": 0, "random": 0},
    unit="repeats its draw",
)
def generators() -> Mapping[str, float]:
    """Seeds torch twice and compares a draw of each of the three after it."""

    def draws() -> tuple[float, float, float]:
        torch.manual_seed(0)
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    first, second = draws(), draws()
    return {name: int(a == b) for name, a, b in zip(("torch", "NumPy", "random"), first, second, strict=True)}


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic algorithms for a while."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@claim(
    "deterministic-refuses",
    "Deterministic mode refuses put_ and max_unpool2d, lets put_ pass where it adds, and fills new memory with NaN.",
    expected={"put_": 1, "max_unpool2d": 1, "put_ that adds": 0, "NaN in empty(4)": 4},
    unit="",
    source="[PyTorch's list](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html)",
)
def refuses() -> Mapping[str, float]:
    """Tries them on the CPU."""
    where, values = torch.tensor([0, 1]), torch.ones(2)
    pooled, places = F.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)
    with deterministic():
        return {
            "put_": raises(lambda: torch.zeros(5).put_(where, values)),
            "max_unpool2d": raises(lambda: F.max_unpool2d(pooled, places, [2, 2])),
            "put_ that adds": raises(lambda: torch.zeros(5).put_(where, values, accumulate=True)),
            "NaN in empty(4)": int(torch.empty(4).isnan().sum()),
        }


# -------------------------------------------------------------------------------------------------------------- reading
@claim(
    "what-reads-a-number",
    "item(), an f-string and an if each read one number; clip_grad_norm_ none, unless it shall raise; AdamW "
    "{expected[AdamW's step counts]}.",
    expected={
        "forward and backward": 0,
        "loss.item()": 1,
        "f-string": 1,
        "if loss > 1": 1,
        "clip_grad_norm_": 0,
        "with error_if_nonfinite": 1,
        "AdamW's step counts": 27,
    },
    unit="reads",
)
def what_reads() -> Mapping[str, float]:
    """Counts `_local_scalar_dense`, through which every single number leaves a tensor, on Lab 02's GPT."""
    model = make_model()
    x, y = make_batch(2, 16)

    def step() -> None:
        token_loss(model, x, y).backward()

    forward_and_backward = calls_of(step).reads
    loss, parameters = token_loss(model, x, y).detach(), list(model.parameters())
    return {
        "forward and backward": forward_and_backward,
        "loss.item()": calls_of(loss.item).reads,
        "f-string": calls_of(lambda: f"{loss:.3f}").reads,
        "if loss > 1": calls_of(lambda: bool(loss > 1)).reads,
        "clip_grad_norm_": calls_of(lambda: nn.utils.clip_grad_norm_(parameters, 1.0)).reads,
        "with error_if_nonfinite": calls_of(
            lambda: nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
        ).reads,
        "AdamW's step counts": calls_of(AdamW(parameters, foreach=False).step).reads,
    }


@claim(
    "reads-in-50-steps",
    "A loop that logs each loss reads 50 times in 50 steps; one that stacks them and asks once, {expected[once]} time.",
    expected={"each step": 50, "once": 1},
    unit="reads",
)
def reads_in_50_steps() -> Mapping[str, float]:
    """Runs 50 steps of a small model both ways and counts. The optimizer is SGD, which reads nothing."""
    model, x = nn.Linear(4, 1), torch.ones(2, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(every_step: bool) -> None:
        losses = []
        for _ in range(50):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            if every_step:
                loss.item()
        if not every_step:
            torch.stack(losses).mean().item()

    return {"each step": calls_of(lambda: loop(True)).reads, "once": calls_of(lambda: loop(False)).reads}


# ------------------------------------------------------------------------------------------------------------- switches
@claim(
    "tf32-rounding",
    "A product of matrices rounded to TF32 is off by 2.9e-4 of its length, to bf16 by 2.3e-3, in fp32 by 2e-7.",
    expected={"fp32": 0.002, "TF32": 2.9, "bf16": 23.5},
    tolerance=0.1,
    unit="e-4 of the length",
)
def tf32() -> Mapping[str, float]:
    """Rounds two normal matrices, 512 wide, as TF32 does, on the CPU, multiplies in fp32, and compares with float64."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 512, 512, generator=generator)
    exact = a.double() @ b.double()

    def rounded(t: Tensor) -> Tensor:
        return ((t.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)  # 13 of 23 bits go, to the nearest

    pairs = {"fp32": (a, b), "TF32": (rounded(a), rounded(b)), "bf16": (a.bfloat16().float(), b.bfloat16().float())}
    return {
        name: 1e4 * float(((left @ right).double() - exact).norm() / exact.norm())
        for name, (left, right) in pairs.items()
    }


@claim(
    "tf32-on-the-gpu",
    "On an Ampere GPU or later an fp32 product is off by less than 1e-5 of its length, at 'high' by 1e-4 to 1e-3.",
    expected={"highest": 1, "high": 1},
    unit="",
    needs=("cuda",),
)
def tf32_on_the_gpu() -> Mapping[str, float]:
    """Multiplies two normal matrices, 512 wide, on the GPU with both settings, and compares with float64."""
    a, b = torch.randn(2, 512, 512, generator=torch.Generator().manual_seed(0))
    exact = a.double() @ b.double()
    before, off = torch.get_float32_matmul_precision(), {}
    try:
        for setting in ("highest", "high"):
            torch.set_float32_matmul_precision(setting)
            product = (a.to(gpu()) @ b.to(gpu())).cpu().double()
            off[setting] = float((product - exact).norm() / exact.norm())
    finally:
        torch.set_float32_matmul_precision(before)
    return {"highest": int(off["highest"] < 1e-5), "high": int(1e-4 < off["high"] < 1e-3)}


@claim(
    "channels-last-is-for-images",
    "channels_last changes the strides of a convolution's output and not its values; of a GPT it changes no tensor.",
    expected={"stride of a channel, before": 196, "after": 1, "largest difference": 0, "GPT's tensors": 0},
    tolerance=1e-5,
    unit="",
)
def channels_last() -> Mapping[str, float]:
    """Runs one convolution both ways, and compares the strides of Lab 02's parameters before and after."""
    convolution, image = nn.Conv2d(8, 8, 3), torch.rand(2, 8, 16, 16)
    before = convolution(image)
    convolution.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    after = convolution(image.to(memory_format=torch.channels_last))
    model = make_model()
    strides = [p.stride() for p in model.parameters()]
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return {
        "stride of a channel, before": before.stride(1),
        "after": after.stride(1),
        "largest difference": (before - after).abs().max().item(),
        "GPT's tensors": sum(p.stride() != old for p, old in zip(model.parameters(), strides, strict=True)),
    }
