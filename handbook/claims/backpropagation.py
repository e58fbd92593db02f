"""Claims of handbook/backpropagation.md."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import degrees_between, gradient_of
from rankzero.claims.toolkit.lab_model import CPU, make_batch, make_model, text_batch, text_model, token_loss
from rankzero.learn.profiling.memory import PhaseMemory


# ---------------------------------------------------------------------------------------------------------- the graph
@claim(
    "eight-additions-256-paths",
    "Lab 02's eight residual additions alone make 2⁸ = 256 paths; with the three through q, k and v and two "
    "embeddings {expected[paths]} paths lead down from the loss, through {expected[nodes]} nodes.",
    expected={"paths": 2 * (4 * 2) ** 4, "nodes": 146},
    unit="",
)
def paths_to_the_embeddings() -> Mapping[str, float]:
    """Walks the graph of Lab 02's loss, visiting each node once and adding up the paths below it.

    In a block, 1 + 3 ways pass attention and 1 + 1 the MLP.
    """
    seen = set()

    @functools.cache
    def paths(node: Any) -> int:
        seen.add(node)
        below = sum(paths(other) for other, _ in node.next_functions if other is not None)
        return 1 if "EmbeddingBackward" in node.name() else below

    return {"paths": paths(token_loss(make_model(), *make_batch()).grad_fn), "nodes": len(seen)}


@claim(
    "sixteen-forward-passes",
    "For the slopes of 16 weights forward mode takes 16 passes, backward one, and they agree.",
    expected=0,
    tolerance=1e-12,
    unit="largest difference",
)
def forward_mode() -> float:
    """Differentiates a 3-4-1 network in float64 both ways: one jvp for each weight, and one backward."""
    torch.manual_seed(0)
    points, targets, weights = torch.randn(8, 3).double(), torch.randn(8).double(), torch.randn(16).double()

    def loss(w: Tensor) -> Tensor:
        return (torch.tanh(points @ w[:12].view(4, 3).T) @ w[12:] - targets).square().mean()

    passes = [torch.func.jvp(loss, (weights,), (row,))[1] for row in torch.eye(16).double()]
    return (torch.stack(passes) - torch.func.grad(loss)(weights)).abs().max().item()


# ---------------------------------------------------------------------------------------------------------- the FLOPs
def _flops(run: Callable[[], Tensor]) -> tuple[int, int]:
    """FLOPs of forward and of backward, attention unfused so that its products are counted."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss = run()
        forward = counter.get_total_flops()
        loss.backward()
    return forward, counter.get_total_flops() - forward


@claim(
    "backward-twice-forward",
    "Backward of Lab 02's GPT takes exactly twice the FLOPs of its forward, {expected[forward]}.",
    expected={
        "forward": 768 * 2 * (4 * (12 * 128**2 + 2 * 64 * 128) + 96 * 128),
        "backward": 2 * 768 * 2 * (4 * (12 * 128**2 + 2 * 64 * 128) + 96 * 128),
    },
    unit="FLOPs",
)
def backward_flops() -> Mapping[str, float]:
    """Counts the matrix products at B = 12, T = 64 with PyTorch's counter.

    Expected are 2 FLOPs for each weight and token, and for the two products of attention.
    """
    model = make_model()
    forward, backward = _flops(lambda: token_loss(model, *make_batch()))
    return {"forward": forward, "backward": backward}


@claim(
    "first-layer-skips-dx",
    "An MLP of 784, 256 and 10 has 99 % of its work in the first layer, whose input wants no slope, so backward "
    "takes {expected[backward / forward]:.2f} times the forward.",
    expected={"first layer's share": 784 * 256 / (784 * 256 + 256 * 10), "backward / forward": 1 + 2560 / 203_264},
    tolerance=1e-9,
    unit="",
)
def first_layer() -> Mapping[str, float]:
    """Counts the FLOPs of the first layer, of the whole MLP and of backward, on 12 images."""
    mlp, images = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), torch.randn(12, 784)
    first, _ = _flops(lambda: mlp[0](images).sum())
    forward, backward = _flops(lambda: mlp(images).sum())
    return {"first layer's share": first / forward, "backward / forward": backward / forward}


@claim(
    "frozen-embeddings-save-no-product",
    "Freezing the embeddings saves backward nothing; freezing the first norm too saves one product.",
    expected={"embeddings": 0, "first norm too": 2 * 768 * 128 * 384},
    unit="FLOPs saved",
)
def frozen_embeddings() -> Mapping[str, float]:
    """Unties Lab 02's output layer, freezes, and counts backward's FLOPs against those with nothing frozen."""
    model = make_model()
    model.head.weight = nn.Parameter(model.head.weight.clone())
    backward = [_flops(lambda: token_loss(model, *make_batch()))[1]]
    for part in (nn.ModuleList([model.token_embedding, model.position_embedding]), model.blocks[0].norm1):
        part.requires_grad_(False)
        backward.append(_flops(lambda: token_loss(model, *make_batch()))[1])
    return {"embeddings": backward[0] - backward[1], "first norm too": backward[0] - backward[2]}


# ---------------------------------------------------------------------------------------------------------- addition
@claim(
    "two-backwards-add-up",
    "Two backward passes on the same batch without zero_grad give exactly twice the gradient.",
    expected=0,
    unit="of 808,064 slopes differ from the double",
)
def two_backwards() -> float:
    """Runs backward on Lab 02's GPT twice and compares each slope with the double of the first pass's, bit for bit."""
    model, batch = make_model(), make_batch()
    token_loss(model, *batch).backward()
    once = gradient_of(model)
    token_loss(model, *batch).backward()
    return int((gradient_of(model) != 2 * once).sum())


@claim(
    "losses-hold-activations-without-backward",
    "Three appended losses hold the activations of three batches, 75.4 MiB, without a backward, and none with it.",
    expected={"no backward": 3 * 26_364_420 - 2 * 2 * 12 * 64 * 8, "after backward": 0},
    unit="B",
)
def kept_losses() -> Mapping[str, float]:
    """Counts what autograd still keeps of Lab 02's GPT after three passes over one batch.

    The ids and targets are the batch's own, 8 bytes each, and count once.
    """
    model, batch, held = make_model(), make_batch(), {}
    for name, with_backward in (("no backward", False), ("after backward", True)):
        with PhaseMemory(model, SGD(model.parameters()), CPU) as memory:
            losses = []
            for _ in range(3):
                losses.append(token_loss(model, *batch))
                if with_backward:
                    losses[-1].backward()
            memory.record("end")
        held[name] = memory.rows[0].activations
    return held


# ------------------------------------------------------------------------------------------------ finite differences
@claim(
    "best-finite-difference-steps",
    "The best step of a central difference is near the cube root of machine epsilon, 5e-3 in float32 and 6e-6 in "
    "float64, and float64's best is a million times better.",
    expected={"float32": math.log10(5e-3), "float64": math.log10(6e-6), "times better": 6},
    tolerance=0.5,
    unit="powers of ten",
)
def finite_differences() -> Mapping[str, float]:
    """Differentiates x³ at 1,000 places with steps from 1e-1 to 1e-8, ten a decade, and takes the least error.

    The tolerance of half a power of ten is what "near" means.
    """
    torch.manual_seed(0)
    places, best = torch.randn(1000, dtype=torch.float64), {}
    exact = 3 * places**2
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        errors = {}
        for step in torch.logspace(-1, -8, 71).tolist():
            up, down = (places.to(dtype) + sign * step for sign in (1, -1))
            difference = (up * up * up - down * down * down) / (2 * step)
            errors[step] = ((difference.double() - exact).norm() / exact.norm()).item()
        best[name] = min(errors.items(), key=lambda item: item[1])
    return {
        "float32": math.log10(best["float32"][0]),
        "float64": math.log10(best["float64"][0]),
        "times better": math.log10(best["float32"][1] / best["float64"][1]),
    }


# ---------------------------------------------------------------------------------------------------------- depth
UNIT, HE = 1 / 64**0.5, (2 / 64) ** 0.5  # standard deviations of weights, 64 wide


def _stack(
    activation: Callable[[Tensor], Tensor], std: float, depth: int, residual: bool = False
) -> tuple[float, float]:
    """Gradient norms of the first and of the last weight of a stack 64 wide, for a random slope at each output."""
    torch.manual_seed(5)
    layers = [torch.randn(64, 64).mul_(std).requires_grad_() for _ in range(depth)]
    out = torch.randn(256, 64)
    for weight in layers:
        branch = activation(out @ weight.T)
        out = out + branch if residual else branch
    gradients = torch.autograd.grad((out * torch.randn(256, 64)).sum(), [layers[0], layers[-1]])
    first, last = (gradient.norm().item() for gradient in gradients)
    return first, last


@claim(
    "thirty-sigmoid-layers",
    "In a stack of 30 sigmoid layers the first weight gets a gradient nearly {expected[plain]:.0f} orders of "
    "magnitude smaller than the last; with residual connections less than one.",
    expected={"plain": 17.8, "residual": 0.5},
    tolerance=0.1,
    unit="orders of magnitude",
)
def sigmoid_layers() -> Mapping[str, float]:
    """Divides the two gradients' norms; weights have standard deviation 1/sqrt(width)."""
    ratios = {}
    for name, residual in (("plain", False), ("residual", True)):
        first, last = _stack(torch.sigmoid, UNIT, 30, residual)
        ratios[name] = math.log10(last / first)
    return ratios


@claim(
    "sigmoid-factor-a-layer",
    "Between 20 and 30 layers the first weight's gradient shrinks by a factor of {expected[a layer]} a layer, near "
    "the sigmoid's largest slope, {expected[largest slope]}.",
    expected={"a layer": 0.24, "largest slope": 0.25},
    tolerance=0.005,
    unit="",
)
def sigmoid_factor() -> Mapping[str, float]:
    """Takes the tenth root of the norms' ratio, and the largest slope of the sigmoid from -10 to 10."""
    x = torch.linspace(-10, 10, 2001, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(torch.sigmoid(x).sum(), x)
    ratio = _stack(torch.sigmoid, UNIT, 30)[0] / _stack(torch.sigmoid, UNIT, 20)[0]
    return {"a layer": ratio**0.1, "largest slope": slopes.max().item()}


@claim(
    "linear-default-a-sixth-of-he",
    "The default weights of nn.Linear have a sixth of the variance that He et al. give for ReLU, 2 / fan_in.",
    expected=1 / 6,
    tolerance=0.002,
    unit="of He's variance",
    source="[He et al.](https://arxiv.org/abs/1502.01852)",
)
def linear_default() -> float:
    """Divides the variance of the weights of nn.Linear(1024, 1024) by 2 / 1024; a million draws vary by 0.0002."""
    torch.manual_seed(0)
    return nn.Linear(1024, 1024).weight.var().item() / (2 / 1024)


@claim(
    "relu-stack-scales-to-the-29th",
    "All weights of a 30-layer ReLU stack times g make the first layer's gradient g²⁹ times as large.",
    expected={"g 0.5": 1, "g 0.9": 1, "g 1.1": 1, "g 2.0": 1},
    tolerance=1e-3,
    unit="growth over g²⁹",
)
def relu_stack() -> Mapping[str, float]:
    """Divides the norms with He's weights times g and without g, and that by g²⁹; the tolerance is fp32's rounding."""
    normal, _ = _stack(torch.relu, HE, 30)
    return {f"g {g}": _stack(torch.relu, HE * g, 30)[0] / normal / g**29 for g in (0.5, 0.9, 1.1, 2.0)}


# ---------------------------------------------------------------------------------------------------------- clipping
@claim(
    "clipping-by-norm-keeps-direction",
    "clip_grad_norm_ to 1 leaves the direction and a length of 1, of a gradient and of a thousand times that gradient; "
    "clip_grad_value_ turns it.",
    expected={"length": 1, "length, loss times 1,000": 1, "degrees": 0, "more than 10 degrees by value": 1},
    tolerance=0.01,
    unit="",
)
def clipping() -> Mapping[str, float]:
    """Clips the gradient of a fresh Lab 02 model to 1, or each number of it to 0.002; measures length and angle."""
    model, batch = make_model(), make_batch()

    def clipped(clip: Callable[..., Any], limit: float, loss_scale: float = 1.0) -> tuple[float, float]:
        model.zero_grad()
        (token_loss(model, *batch) * loss_scale).backward()
        before = gradient_of(model)
        clip(model.parameters(), limit)
        after = gradient_of(model)
        return after.norm().item(), degrees_between(before, after)

    length, degrees = clipped(nn.utils.clip_grad_norm_, 1.0)
    return {
        "length": length,
        "length, loss times 1,000": clipped(nn.utils.clip_grad_norm_, 1.0, loss_scale=1000)[0],
        "degrees": degrees,
        "more than 10 degrees by value": int(clipped(nn.utils.clip_grad_value_, 0.002)[1] > 10),
    }


@claim(
    "one-inf-clips-all-to-zero",
    "Clipping a gradient with one inf leaves one NaN and {expected[zeros]} zeros.",
    expected={"NaN": 1, "zeros": 808_063},
    unit="slopes",
)
def one_inf() -> Mapping[str, float]:
    """Puts inf into one slope of a fresh Lab 02 model, clips to norm 1, and counts."""
    model = make_model()
    token_loss(model, *make_batch()).backward()
    assert model.norm.weight.grad is not None
    model.norm.weight.grad[0] = torch.inf
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    after = gradient_of(model)
    return {"NaN": int(after.isnan().sum()), "zeros": int((after == 0).sum())}


def _first_norms(steps: int) -> Iterator[float]:
    """Gradient norms of Lab 02's first steps on its text, at its own rate, without warm-up."""
    model = text_model()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        token_loss(model, *text_batch(step)).backward()
        yield nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
        optimizer.step()


@claim(
    "healthy-start-outside-0-5-to-2",
    "Lab 02's first gradient is longer than 3, outside the range of 0.5 to 2 that is called healthy, and a limit of 1 "
    "would shorten each of the first five.",
    expected={"first above 3": 1, "of five above 1": 5},
    unit="",
)
def healthy_start() -> Mapping[str, float]:
    """Trains Lab 02's model for five steps on its text and takes the gradient's norm before each update."""
    norms = list(_first_norms(5))
    return {"first above 3": int(norms[0] > 3), "of five above 1": sum(norm > 1 for norm in norms)}


@claim(
    "q-and-k-a-fiftieth-of-v",
    "At initialization Q and K of the first block get less than a fiftieth of the gradient norm of V.",
    expected={"Q below 1/50": 1, "K below 1/50": 1},
    unit="",
)
def q_and_k() -> Mapping[str, float]:
    """Divides the norms of the three parts of a fresh Lab 02 model's first qkv gradient, on its own text."""
    model = text_model()
    token_loss(model, *text_batch()).backward()
    gradient = dict(model.named_parameters())["blocks.0.attention.qkv.weight"].grad
    assert gradient is not None
    q, k, v = (part.norm().item() for part in gradient.chunk(3, dim=0))
    return {"Q below 1/50": int(q < v / 50), "K below 1/50": int(k < v / 50)}
