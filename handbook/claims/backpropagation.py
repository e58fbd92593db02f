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

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread
from rankzero.claims.toolkit.gradients import degrees_between, gradient_of
from rankzero.claims.toolkit.lab_model import CPU, make_batch, make_model, text_batch, text_model, token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig
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
    "For the gradient of 16 weights forward mode takes 16 passes and backward takes one; the results agree.",
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
    "An MLP of 784, 256 and 10 has 99 % of its work in the first layer, whose input needs no gradient, so "
    "backward takes {expected[backward / forward]:.2f} times the forward.",
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
    unit="of 808,064 gradients differ from the double",
)
def two_backwards() -> float:
    """Runs backward on Lab 02's GPT twice; compares each gradient bit for bit with twice the first pass's."""
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
UNIT, HE, DEFAULT = 1 / 64**0.5, (2 / 64) ** 0.5, 1 / (3 * 64) ** 0.5  # standard deviations of weights, 64 wide


def _stack(
    activation: Callable[[Tensor], Tensor], std: float, depth: int, residual: bool = False
) -> tuple[list[float], list[float]]:
    """Gradient norms of each layer's output and weight, first layer first, in a stack of layers 64 wide.

    The gradient that enters the last layer's output is random.
    """
    torch.manual_seed(5)
    weights, outputs = [torch.randn(64, 64).mul_(std).requires_grad_() for _ in range(depth)], []
    out = torch.randn(256, 64)
    for weight in weights:
        branch = activation(out @ weight.T)
        out = out + branch if residual else branch
        outputs.append(out)
    gradients = torch.autograd.grad((out * torch.randn(256, 64)).sum(), [*outputs, *weights])
    norms = [gradient.norm().item() for gradient in gradients]
    return norms[:depth], norms[depth:]


def _first_weight(activation: Callable[[Tensor], Tensor], std: float) -> float:
    """Gradient norm of the first of 30 layers' weights."""
    return _stack(activation, std, 30)[1][0]


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
        _, norms = _stack(torch.sigmoid, UNIT, 30, residual)
        ratios[name] = math.log10(norms[-1] / norms[0])
    return ratios


@claim(
    "gradient-factor-per-layer",
    "In a stack of 30 layers each layer multiplies the gradient by {expected[sigmoid]} with sigmoids, by "
    "{expected[ReLU, nn.Linear's weights]} with ReLU and the default weights of nn.Linear, by "
    "{expected[ReLU, He's weights]:.0f} with ReLU and He's weights, by {expected[tanh]} with tanh, and by "
    "{expected[sigmoid with residual]} with sigmoids and residual connections.",
    expected={
        "sigmoid": 0.24,
        "ReLU, nn.Linear's weights": 0.41,
        "tanh": 0.95,
        "ReLU, He's weights": 1.0,
        "sigmoid with residual": 1.01,
    },
    tolerance=0.005,
    unit="",
)
def factor_per_layer() -> Charted:
    """Takes the 29th root of the ratio of the gradients of the first and the last layer's output.

    Weights have standard deviation 1/sqrt(width) with sigmoid and tanh; the chart has every layer's gradients.
    """
    stacks = {
        "sigmoid": _stack(torch.sigmoid, UNIT, 30),
        "ReLU, nn.Linear's weights": _stack(torch.relu, DEFAULT, 30),
        "tanh": _stack(torch.tanh, UNIT, 30),
        "ReLU, He's weights": _stack(torch.relu, HE, 30),
        "sigmoid with residual": _stack(torch.sigmoid, UNIT, 30, residual=True),
    }
    lines = {
        f"{name}, {part}": [(layer, norm, norm, norm) for layer, norm in enumerate(norms, start=1)]
        for name, parts in stacks.items()
        for part, norms in zip(("output", "weight"), parts, strict=True)
    }
    factors = {name: (outputs[0] / outputs[-1]) ** (1 / 29) for name, (outputs, _) in stacks.items()}
    return Charted(factors, Chart("Gradients in a stack of 30 layers", "layer", "norm of the gradient", lines, log="y"))


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


def gradient_by_depth(gain: float, *, bounded: bool = False, depth: int = 30) -> list[float]:
    """Gradient at each layer over that at the last, of a stack of tanh layers 64 wide, float64; RMS of each.

    `bounded` gives each layer a residual connection and a norm.
    """
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64, bias=False).double() for _ in range(depth)]
    norms = [nn.LayerNorm(64).double() for _ in range(depth)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=gain / 8)  # 8 = √64: with gain 1 a linear layer keeps the size
    x, seen = torch.randn(128, 64, dtype=torch.float64, requires_grad=True), []
    for layer, normalize in zip(layers, norms, strict=True):
        x = x + torch.tanh(layer(normalize(x))) if bounded else torch.tanh(layer(x))
        x.retain_grad()
        seen.append(x)
    x.square().mean().backward()
    sizes = [value.grad.square().mean().sqrt().item() for value in seen if value.grad is not None]
    return [size / sizes[-1] for size in sizes]


@claim(
    "gradients-by-depth",
    "Gradient at the first of 30 tanh layers over that at the last, as a power of ten, by the weights' gain: with 0.5 "
    "it vanishes, with 3 it explodes, and a residual connection with a norm keeps it within about ten times.",
    expected={"0.5": -7.89, "1": -0.10, "3": 3.60, "0.5, residual and norm": 0.38, "3, residual and norm": 1.10},
    tolerance=0.02,
    unit="power of ten",
)
def gradients_by_depth() -> Charted:
    """Runs one backward through each stack, in float64, and takes the logarithm of the quotient."""
    ratios = {f"{gain:g}": gradient_by_depth(gain) for gain in (0.5, 1.0, 3.0)}
    ratios |= {f"{gain:g}, residual and norm": gradient_by_depth(gain, bounded=True) for gain in (0.5, 3.0)}
    lines = {
        name: [Spread.of([size]).point(layer) for layer, size in enumerate(line, 1)] for name, line in ratios.items()
    }
    chart = Chart("Gradient by depth", "layer", "gradient, relative to the last layer", lines, "y")
    return Charted({name: math.log10(line[0]) for name, line in ratios.items()}, chart)


@claim(
    "weight-gradients-by-depth",
    "Gradient of the first layer's weights over that of the last one's, in the plain stack of 30 tanh layers: with a "
    "gain of 0.5 about equal, with 3 thousands of times as large. And how large the last one's is.",
    expected={"0.5": 0.06, "3": 3.87, "0.5, the last": -17.65},
    tolerance=0.02,
    unit="power of ten",
)
def weight_gradients_by_depth() -> Mapping[str, float]:
    """Runs one backward through each stack, in float64; the logarithms of the quotient and of the L2 norm."""
    found = {}
    for gain in (0.5, 3):
        torch.manual_seed(0)
        layers = [nn.Linear(64, 64, bias=False).double() for _ in range(30)]
        for layer in layers:
            nn.init.normal_(layer.weight, std=gain / 8)
        x = torch.randn(128, 64, dtype=torch.float64)
        for layer in layers:
            x = torch.tanh(layer(x))
        x.square().mean().backward()
        norms = [layer.weight.grad.norm().item() for layer in layers if layer.weight.grad is not None]
        found[f"{gain}"] = math.log10(norms[0] / norms[-1])
        if gain == 0.5:
            found["0.5, the last"] = math.log10(norms[-1])
    return found


@claim(
    "relu-stack-scales-to-the-29th",
    "All weights of a 30-layer ReLU stack times g make the first layer's gradient g²⁹ times as large.",
    expected={"g 0.5": 1, "g 0.9": 1, "g 1.1": 1, "g 2.0": 1},
    tolerance=1e-3,
    unit="growth over g²⁹",
)
def relu_stack() -> Mapping[str, float]:
    """Divides the norms with He's weights times g and without g, and that by g²⁹; the tolerance is fp32's rounding."""
    normal = _first_weight(torch.relu, HE)
    return {f"g {g}": _first_weight(torch.relu, HE * g) / normal / g**29 for g in (0.5, 0.9, 1.1, 2.0)}


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
    unit="gradients",
)
def one_inf() -> Mapping[str, float]:
    """Puts inf into one gradient of a fresh Lab 02 model, clips to norm 1, and counts."""
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


# ---------------------------------------------------------------------------------------------------------- hooks
def _three_layers() -> tuple[nn.Sequential, list[nn.Linear], Tensor]:
    """A net without biases in float64, its three layers, and 8 inputs: twice the input gives twice the output."""
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4, bias=False).double() for _ in range(3)]
    return nn.Sequential(*layers), layers, torch.randn(8, 4).double()


def _grad(parameter: Tensor) -> Tensor:
    """A copy of a parameter's gradient, which must exist."""
    assert parameter.grad is not None
    return parameter.grad.clone()


def _multiply_grad(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad *= 10


TEN_TIMES: dict[str, Callable[[Any], Any]] = {  # each registers a hook that multiplies by 10; returns its handle
    "forward pre": lambda layer: layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 10,)),
    "forward": lambda layer: layer.register_forward_hook(lambda _, __, output: output * 10),
    "full backward pre": lambda layer: layer.register_full_backward_pre_hook(lambda _, outer: (outer[0] * 10,)),
    "full backward": lambda layer: layer.register_full_backward_hook(lambda _, inner, __: (inner[0] * 10,)),
    "tensor": lambda layer: layer.weight.register_hook(lambda gradient: gradient * 10),
    "post-accumulate": lambda layer: layer.weight.register_post_accumulate_grad_hook(_multiply_grad),
}


@claim(
    "reach-of-six-hooks",
    "A hook that multiplies by 10 at the middle of three layers: a forward hook reaches the output and all gradients, "
    "a full backward pre hook the gradients of its layer and of the layer before, a full backward hook only that of "
    "the layer before, and the two hooks of the weight only that weight's.",
    expected={
        f"{kind}, {place}": 10 if place in reached else 1
        for kind, reached in {
            "forward pre": ("output", "before", "own", "after"),
            "forward": ("output", "before", "own", "after"),
            "full backward pre": ("before", "own"),
            "full backward": ("before",),
            "tensor": ("own",),
            "post-accumulate": ("own",),
        }.items()
        for place in ("output", "before", "own", "after")
    },
    tolerance=1e-12,
    unit="times",
)
def reach_of_hooks() -> Mapping[str, float]:
    """Compares the output and the gradients of the three weights with and without the hook; the loss is linear."""
    net, layers, x = _three_layers()
    toward = torch.randn(8, 4).double()

    def run() -> list[Tensor]:
        net.zero_grad()
        output = net(x)
        (output * toward).sum().backward()
        return [output.detach(), *(_grad(layer.weight) for layer in layers)]

    plain, factors = run(), {}
    for kind, register in TEN_TIMES.items():
        handle = register(layers[1])
        for place, hooked, without in zip(("output", "before", "own", "after"), run(), plain, strict=True):
            factors[f"{kind}, {place}"] = (hooked.norm() / without.norm()).item()
        handle.remove()
    return factors


@claim(
    "two-hooks-over-two-passes",
    "Two backward passes without zero_grad: a hook of the weight that multiplies by 10 leaves {expected[tensor]} times "
    "the gradient of one pass, and a post-accumulate hook, which multiplies the first pass's share again, "
    "{expected[post-accumulate]} times.",
    expected={"tensor": 20, "post-accumulate": 110},
    tolerance=1e-10,
    unit="times the gradient of one pass",
)
def two_passes() -> Mapping[str, float]:
    """Runs backward twice on the same batch with each hook on the middle of three layers; divides the norms."""
    factors = {}
    for kind in ("tensor", "post-accumulate"):
        net, layers, x = _three_layers()
        (once,) = torch.autograd.grad(net(x).sum(), layers[1].weight)
        TEN_TIMES[kind](layers[1])
        for _ in range(2):
            net(x).sum().backward()
        factors[kind] = (_grad(layers[1].weight).norm() / once.norm()).item()
    return factors


@claim(
    "clipping-at-one-layer",
    "Of the gradients of Lab 02's 27 weight tensors, clipping at block 2's mlp.up changes {expected[tensor]} by a hook "
    "of the weight. A hook that clips the gradient entering this layer changes {expected[full backward pre]}: the "
    "layer's own and those of all earlier layers.",
    expected={"tensor": 1, "full backward pre": 1 + 4 + 2 * 6 + 2, "later than the layer": 0},
    unit="weight tensors",
)
def clipping_at_one_layer() -> Mapping[str, float]:
    """Halves the gradient at blocks.2.mlp.up, in the weight's hook or in the layer's, and compares all gradients.

    Before the layer are norm2 and the three tensors of attention in block 2, six tensors in each of blocks 0 and 1, and
    two embeddings. Later are mlp.proj of block 2, block 3 and the last norm; the output layer is the token embedding.
    """
    model, batch = make_model(), make_batch()
    layer: Any = model.get_submodule("blocks.2.mlp.up")

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        token_loss(model, *batch).backward()
        return {name: _grad(p) for name, p in model.named_parameters()}

    def changed(handle: Any) -> set[str]:
        names = {name for name, gradient in gradients().items() if not torch.equal(gradient, plain[name])}
        handle.remove()
        return names

    plain = gradients()
    own = changed(layer.weight.register_hook(lambda gradient: gradient / 2))
    entering = changed(layer.register_full_backward_pre_hook(lambda _, outer: (outer[0] / 2,)))
    later = {name for name in own | entering if name.startswith(("blocks.2.mlp.proj", "blocks.3", "norm"))}
    return {"tensor": len(own), "full backward pre": len(entering), "later than the layer": len(later)}


@claim(
    "hooks-left-behind",
    "A forward hook that halves a layer's output, registered before each of three runs and never removed, is called "
    "{expected[calls]} times instead of 3, and the third output is {expected[third output]} of the right one.",
    expected={"calls": 6, "third output": 1 / 8},
    unit="",
)
def hooks_left_behind() -> Mapping[str, float]:
    """Counts the calls, and divides the third output by the output of the model without hooks."""
    net, layers, x = _three_layers()
    right, calls = net(x), 0

    def halve(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return output / 2

    output = right
    for _ in range(3):
        layers[1].register_forward_hook(halve)
        output = net(x)
    return {"calls": calls, "third output": (output / right).mean().item()}


# ------------------------------------------------------------------------------------------------ activation patching
VALUES, PLACES_OF_VALUES = 8, 3  # tokens 0 to 7 are values; 8 to 10 point to one of three places; 11 asks


def _pointer_batch(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Prompts [count, 6] of three values, a pointer and two question tokens; the values pointed to; their places."""
    values = torch.randint(VALUES, (count, PLACES_OF_VALUES), generator=generator)
    places = torch.randint(PLACES_OF_VALUES, (count,), generator=generator)
    question = torch.full((count, 2), VALUES + PLACES_OF_VALUES)
    prompts = torch.cat([values, VALUES + places[:, None], question], dim=1)
    return prompts, values[torch.arange(count), places], places


def _pointer_gpt(generator: torch.Generator) -> GPT:
    """A GPT of four blocks, 32 wide, trained for 300 steps to answer with the value that the pointer points to."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(VALUES + PLACES_OF_VALUES + 1, block_size=6, n_layer=4, n_head=2, hidden_dim=32))
    optimizer = AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(300):
        prompts, answers, _ = _pointer_batch(128, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(prompts)[:, -1], answers).backward()
        optimizer.step()
    return model


def _patched(model: nn.Module, module: nn.Module, prompts: Tensor, other: Tensor, position: int | None) -> Tensor:
    """Logits of `prompts`, the module's output replaced by that for `other`, at one position or at all."""
    kept = []
    handle = module.register_forward_hook(lambda _, __, output: kept.append(output))
    model(other)
    handle.remove()

    def replace(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        patched = output.clone()
        here = slice(None) if position is None else position
        patched[:, here] = kept[0][:, here]
        return patched

    handle = module.register_forward_hook(replace)
    logits: Tensor = model(prompts)
    handle.remove()
    return logits


@claim(
    "patched-block-decides-the-logits",
    "Patched at all positions, any block of Lab 02's GPT gives the logits of the other prompt bit for bit; patched at "
    "the last position, the last block gives the other prompt's last logits, and no block changes logits before it.",
    expected={"all positions": 0, "last block, last position": 0, "before the last position": 0},
    unit="logits that differ",
)
@torch.no_grad()
def patched_logits() -> Mapping[str, float]:
    """Runs a fresh Lab 02 GPT on 12 random prompts, each block patched with its output for 12 others; counts logits."""
    model, (prompts, other) = make_model(), make_batch()
    own, wanted = model(prompts), model(other)
    differing = {"all positions": 0, "last block, last position": 0, "before the last position": 0}
    for block in model.blocks:
        whole, last = (_patched(model, block, prompts, other, position) for position in (None, -1))
        differing["all positions"] += int((whole != wanted).sum())
        differing["before the last position"] += int((last[:, :-1] != own[:, :-1]).sum())
    differing["last block, last position"] = int((last[:, -1] != wanted[:, -1]).sum())
    return differing


@claim(
    "patching-follows-a-value",
    "In a GPT trained to answer with the value that a pointer names, patching restores over 0.9 of the answer's logit "
    "difference at one position per depth: the value's after the embedding, the pointer's after block 0, the last "
    "after block 3.",
    expected={"right answers": 1, "embedding, value": 1, "block 0, pointer": 1, "block 3, last": 1},
    tolerance=0.1,
    unit="of the difference",
)
@torch.no_grad()
def patching_follows_a_value() -> Charted:
    """Changes the value pointed to in the prompts whose pointer names the second place, of 2,000 prompts; patches.

    The difference is the logit of the right value minus that of the value put in its place, at the last position; 0 is
    its mean in the changed prompts, 1 in the prompts as they were. Each depth and position is patched by itself.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.enable_grad():
        model = _pointer_gpt(generator)
    prompts, answers, places = _pointer_batch(2000, generator)
    prompts, answers = prompts[places == 1], answers[places == 1]
    changed, rows = prompts.clone(), torch.arange(len(prompts))
    changed[:, 1] = (answers + 1 + torch.randint(VALUES - 1, (len(prompts),), generator=generator)) % VALUES

    def difference(logits: Tensor) -> float:
        return (logits[rows, -1, answers] - logits[rows, -1, changed[:, 1]]).mean().item()

    whole, lost = difference(model(prompts)), difference(model(changed))
    depths = {"embedding": model.drop, **{f"block {number}": block for number, block in enumerate(model.blocks)}}
    restored = {
        name: [
            (difference(_patched(model, module, changed, prompts, position)) - lost) / (whole - lost)
            for position in range(prompts.shape[1])
        ]
        for name, module in depths.items()
    }
    lines = {
        name: [(place, share, share, share) for place, share in enumerate(shares)] for name, shares in restored.items()
    }
    value = {
        "right answers": (model(prompts)[:, -1].argmax(-1) == answers).double().mean().item(),
        "embedding, value": restored["embedding"][1],
        "block 0, pointer": restored["block 0"][3],
        "block 3, last": restored["block 3"][5],
    }
    return Charted(value, Chart("Logit difference restored by a patch", "position", "restored share", lines))
