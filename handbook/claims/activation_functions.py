"""Claims of handbook/activation-functions.md."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model
from rankzero.learn.models import llama
from rankzero.learn.models.gpt import MLP, Block, GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.learn.profiling.memory import tensor_bytes

Curve = Callable[[Tensor], Tensor]
CURVES: dict[str, Curve] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ReLU": F.relu,
    "leaky ReLU": F.leaky_relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}


def _slope(curve: Curve, x: Tensor) -> Tensor:
    """The curve's slope at each number of `x`, by autograd."""
    at = x.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(curve(at).sum(), at)
    return slope


def _grid() -> Tensor:
    """-8 to 8 in steps of 0.0001, float64."""
    return torch.linspace(-8, 8, 160_001, dtype=torch.float64)


# ------------------------------------------------------------------------------------------------- why bend, and how
@claim(
    "two-linears-are-one",
    "Two linear layers without an activation between them compute what one does.",
    expected=0,
    tolerance=1e-13,
    unit="largest difference",
)
def two_linears() -> float:
    """Multiplies the matrices of two float64 layers and compares 1,000 outputs near 1 in size; the rest is rounding."""
    torch.manual_seed(0)
    up, down = nn.Linear(64, 256).double(), nn.Linear(256, 64).double()
    x = torch.randn(1000, 64, dtype=torch.float64)
    one = F.linear(x, down.weight @ up.weight, down.weight @ up.bias + down.bias)
    return (down(up(x)) - one).abs().max().item()


@claim(
    "xor-needs-a-bend",
    "The best linear function answers {expected[linear, error]} to every row of exclusive or; two ReLUs answer "
    "without error.",
    expected={"linear, farthest from 0.5": 0, "linear, error": 0.5, "two ReLUs, error": 0},
    tolerance=1e-6,
    unit="",
)
def exclusive_or() -> Mapping[str, float]:
    """Fits the four rows by least squares with a bias, and evaluates relu(a + b) - 2 relu(a + b - 1)."""
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0], dtype=torch.float64)
    rows = torch.cat([x, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    linear = (rows @ torch.linalg.lstsq(rows, y[:, None]).solution)[:, 0]
    bent = F.relu(x.sum(1)) - 2 * F.relu(x.sum(1) - 1)
    return {
        "linear, farthest from 0.5": (linear - 0.5).abs().max().item(),
        "linear, error": (linear - y).abs().max().item(),
        "two ReLUs, error": (bent - y).abs().max().item(),
    }


@claim(
    "curves-steepest-slope",
    "The steepest slope of a sigmoid is {expected[sigmoid]}, of tanh, ReLU and leaky ReLU 1, of GELU "
    "{expected[GELU]}, of SiLU {expected[SiLU]:.3f}.",
    expected={"sigmoid": 0.25, "tanh": 1, "ReLU": 1, "leaky ReLU": 1, "GELU": 1.129, "SiLU": 1.1},
    tolerance=5e-4,
    unit="",
)
def steepest() -> Mapping[str, float]:
    """Differentiates each curve by autograd at 160,001 points from -8 to 8."""
    return {name: _slope(curve, _grid()).max().item() for name, curve in CURVES.items()}


@claim(
    "curves-lowest-value",
    "GELU is lowest at -0.75, where it is -0.170; SiLU at -1.28, where it is -0.278.",
    expected={"GELU": -0.17, "GELU, at": -0.752, "SiLU": -0.278, "SiLU, at": -1.278},
    tolerance=6e-4,
    unit="",
)
def lowest() -> Mapping[str, float]:
    """Evaluates both at 160,001 points from -8 to 8."""
    found, grid = {}, _grid()
    for name in ("GELU", "SiLU"):
        values = CURVES[name](grid)
        found[name] = values.min().item()
        found[f"{name}, at"] = grid[values.argmin()].item()
    return found


@claim(
    "slopes-at-3",
    "At 3 a sigmoid's slope is {expected[sigmoid, 3]:.0f} % of its best and a tanh's 1 %; at 5 the sigmoid's is "
    "{expected[sigmoid, 5]:.1f} %.",
    expected={"sigmoid, 3": 18.1, "sigmoid, 5": 2.66, "tanh, 3": 0.99},
    tolerance=0.05,
    unit="% of the slope at 0",
)
def slopes_at_3() -> Mapping[str, float]:
    """Differentiates by autograd."""

    def share(name: str, x: float) -> float:
        at_0, at_x = _slope(CURVES[name], torch.tensor([0.0, x], dtype=torch.float64)).tolist()
        return 100 * at_x / at_0

    return {"sigmoid, 3": share("sigmoid", 3), "sigmoid, 5": share("sigmoid", 5), "tanh, 3": share("tanh", 3)}


@claim(
    "ten-layers-of-slopes",
    "The root mean square of a sigmoid's slopes at standard normal inputs is 0.212, and its tenth power 2e-7, ten to "
    "the -6.74; tanh passes about as much as GELU.",
    expected={"sigmoid": -6.74, "tanh": -1.67, "ReLU": -1.51, "GELU": -1.71, "SiLU": -2.1},
    tolerance=0.02,
    unit="powers of ten",
)
def ten_layers() -> Mapping[str, float]:
    """Draws a million inputs; the tolerance is their sampling error, tenfold."""
    torch.manual_seed(0)
    x = torch.randn(1_000_000, dtype=torch.float64)
    names = ("sigmoid", "tanh", "ReLU", "GELU", "SiLU")
    return {name: 10 * math.log10(_slope(CURVES[name], x).square().mean().sqrt().item()) for name in names}


# -------------------------------------------------------------------------------------------------------------- death
def _dead(before: Tensor) -> Tensor:
    """Which units are off for every example, bool [units]; `before` is [examples, units]."""
    return (before <= 0).all(dim=0)


def _descend(parameters: Sequence[Tensor], loss_of: Callable[[], Tensor], steps: int, rate: float) -> None:
    optimizer = torch.optim.SGD(parameters, lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


class _OneLayer:
    """64 units on 128 examples of 8 numbers from 0 to 1, as on the page."""

    def __init__(self, curve: Curve, centered: bool) -> None:
        torch.manual_seed(0)
        self.x = torch.rand(128, 8, dtype=torch.float64)
        self.y = self.x[:, :4].sum(dim=1, keepdim=True)
        self.x = self.x - self.x.mean(dim=0) if centered else self.x
        self.up, self.down, self.curve = nn.Linear(8, 64).double(), nn.Linear(64, 1).double(), curve
        nn.init.kaiming_normal_(self.up.weight, nonlinearity="relu")
        nn.init.zeros_(self.up.bias)
        self.parameters = [*self.up.parameters(), *self.down.parameters()]

    def output(self) -> Tensor:
        return self.down(self.curve(self.up(self.x)))

    def loss(self) -> Tensor:
        return (self.output() - self.y).square().mean()

    def dead(self) -> Tensor:
        return _dead(self.up(self.x))


@claim(
    "large-steps-kill-relus",
    "Three steps at a rate of 0.2 leave {expected[after 3 steps]} of 64 ReLUs off for every example; none has a "
    "gradient or comes back in 100 careful steps. {expected[at birth]} were dead at birth, because the inputs are "
    "all positive; centered, none is.",
    expected={"at birth": 4, "after 3 steps": 47, "come back": 0, "gradient": 0, "centered": 0},
    unit="units of 64; size",
)
def kill_relus() -> Mapping[str, float]:
    """Trains the page's one-layer network with SGD and counts units off for all 128 examples."""
    raw, centered = _OneLayer(F.relu, centered=False), _OneLayer(F.relu, centered=True)
    born = raw.dead()
    _descend(raw.parameters, raw.loss, steps=3, rate=0.2)
    died = raw.dead()
    _descend(raw.parameters, raw.loss, steps=100, rate=0.01)
    _descend(centered.parameters, centered.loss, steps=3, rate=0.2)
    gradient = raw.up.weight.grad
    assert gradient is not None
    return {
        "at birth": born.sum().item(),
        "after 3 steps": died.sum().item(),
        "come back": (died & ~raw.dead()).sum().item(),
        "gradient": gradient[died].abs().sum().item(),
        "centered": centered.dead().sum().item(),
    }


@claim(
    "dead-units-come-back-in-depth",
    "In a second layer of 64 ReLUs, {expected[came back]} of {expected[dead after 3 large steps]} dead units come "
    "back while the first layer goes on learning.",
    expected={"dead after 3 large steps": 52, "came back": 18},
    unit="units",
)
def come_back() -> Mapping[str, float]:
    """Trains a network of two hidden layers on the page's task: 3 steps of SGD at 0.2, then 100 at 0.01."""
    torch.manual_seed(0)
    x = torch.rand(128, 8, dtype=torch.float64)
    y = x[:, :4].sum(dim=1, keepdim=True)
    first, second, out = nn.Linear(8, 64), nn.Linear(64, 64), nn.Linear(64, 1)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    network = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), out).double()
    parameters = list(network.parameters())

    def loss() -> Tensor:
        return (network(x) - y).square().mean()

    dead = []
    for steps, rate in ((3, 0.2), (100, 0.01)):
        _descend(parameters, loss, steps, rate)
        dead.append(_dead(network[:3](x)))
    return {
        "dead after 3 large steps": dead[0].sum().item(),
        "came back": (dead[0] & ~dead[1]).sum().item(),
    }


@claim(
    "leaky-relu-still-learns",
    "With all 64 units on the flat side a ReLU network gives one answer to all 128 examples, and no unit has a "
    "gradient; a leaky one gives 128 answers, and all units have one.",
    expected={
        "ReLU: units off": 64,
        "ReLU: answers": 1,
        "ReLU: units with a gradient": 0,
        "leaky ReLU: units off": 64,
        "leaky ReLU: answers": 128,
        "leaky ReLU: units with a gradient": 64,
    },
    unit="",
)
def still_learns() -> Mapping[str, float]:
    """Takes three steps of SGD at a rate of 1 on centered inputs, then one backward pass."""
    found: dict[str, float] = {}
    for name in ("ReLU", "leaky ReLU"):
        network = _OneLayer(CURVES[name], centered=True)
        _descend(network.parameters, network.loss, steps=3, rate=1.0)
        network.up.weight.grad = None
        network.loss().backward()
        gradient = network.up.weight.grad
        assert gradient is not None
        found[f"{name}: units off"] = network.dead().sum().item()
        found[f"{name}: answers"] = len(network.output().unique())
        found[f"{name}: units with a gradient"] = gradient.ne(0).any(dim=1).sum().item()
    return found


# ---------------------------------------------------------------------------------------------------- GELU and SwiGLU
@claim(
    "two-gelus",
    "GELU's tanh form is at most {expected[tanh form]:.4f} from the exact one; SiLU, stretched, "
    "{expected[SiLU(1.702 x) / 1.702]}; SiLU as it is {expected[SiLU]}, 400 times the first.",
    expected={"tanh form": 0.000473, "SiLU(1.702 x) / 1.702": 0.0203, "SiLU": 0.193},
    tolerance=5e-5,
    unit="largest difference",
)
def two_gelus() -> Mapping[str, float]:
    """Compares the curves at 160,001 points from -8 to 8."""
    grid = _grid()
    others = {
        "tanh form": F.gelu(grid, approximate="tanh"),
        "SiLU(1.702 x) / 1.702": F.silu(1.702 * grid) / 1.702,
        "SiLU": F.silu(grid),
    }
    return {name: (other - F.gelu(grid)).abs().max().item() for name, other in others.items()}


@claim(
    "swiglu-parameters",
    "SwiGLU has as many weights as the plain MLP of width 4C at h = 8/3 C, {expected[Llama-2-7B]:.4f} times as many "
    "in Llama-2-7B, {expected[Llama-3-8B]} in Llama-3-8B, {expected[4 C]} at h = 4C.",
    expected={"8/3 C": 1, "Llama-2-7B": 1.0078125, "Llama-3-8B": 1.3125, "4 C": 1.5},
    unit="times",
    source="[GLU variants](https://arxiv.org/abs/2002.05202)",
)
def swiglu_parameters() -> Mapping[str, float]:
    """Builds the labs' MLPs without memory and counts their weights; 8/3 C at C = 768, as in the paper, the rest at
    4,096.
    """

    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    def times(width: int, ffn: int) -> float:
        with torch.device("meta"):
            gated = llama.MLP(LlamaConfig(1, n_head=4, n_kv_head=4, hidden_dim=width, ffn_dim=ffn))
            return count(gated) / count(MLP(GPTConfig(1, hidden_dim=width)))

    return {
        "8/3 C": times(768, 2048),
        "Llama-2-7B": times(4096, 11_008),
        "Llama-3-8B": times(4096, 14_336),
        "4 C": times(4096, 16_384),
    }


@claim(
    "unscaled-attention-saturates",
    "Without division by the root of the width, one of 64 keys has more than 0.99 of the weight in {expected[64]} % "
    "of rows at a width of 64 and in {expected[256]} % at 256; with it, in none.",
    expected={"64": 22, "64, scaled": 0, "256": 49, "256, scaled": 0},
    tolerance=4,
    unit="% of rows",
)
def unscaled_attention() -> Mapping[str, float]:
    """Takes softmax of the scores of 512 queries and 64 keys of standard normal numbers; the tolerance is two standard
    errors of 512 rows.
    """
    torch.manual_seed(0)
    shares = {}
    for width in (64, 256):
        queries, keys = torch.randn(2, 512, width, dtype=torch.float64)
        scores = queries @ keys[:64].T
        for name, logits in ((f"{width}", scores), (f"{width}, scaled", scores / width**0.5)):
            shares[name] = 100 * (logits.softmax(-1).amax(-1) > 0.99).double().mean().item()
    return shares


# ------------------------------------------------------------------------------------------------------------- memory
def _gelu_by_hand(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class _Between(nn.Module):
    """A curve between two linear layers, 192 and 768 wide."""

    def __init__(self, curve: Curve) -> None:
        super().__init__()
        self.up, self.down, self.curve = nn.Linear(192, 768), nn.Linear(768, 192), curve

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.curve(self.up(x)))


def _kept_units(module: nn.Module) -> float:
    """Bytes that autograd keeps, parameters left out, in units of the input's."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    x = torch.randn(256, 192, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(x)
    own = {p.data_ptr() for p in module.parameters()}
    return tensor_bytes(tensor for tensor in kept if tensor.data_ptr() not in own) / x.nbytes


@claim(
    "kept-between-two-linears",
    "Between linear layers of C and 4C an MLP keeps 5 inputs' worth with ReLU, sigmoid or tanh, in place or not, 9 "
    "with GELU or SiLU, {expected[GELU by hand]} with GELU's tanh form written out; SwiGLU with h = 8/3 C keeps "
    "{expected[SwiGLU]:.1f}.",
    expected={
        "ReLU": 5,
        "ReLU in place": 5,
        "sigmoid": 5,
        "tanh": 5,
        "leaky ReLU": 9,
        "leaky ReLU in place": 5,
        "GELU": 9,
        "SiLU": 9,
        "SiLU in place": 9,
        "ReLU squared": 9,
        "x * sigmoid(x)": 13,
        "GELU by hand": 21,
        "SwiGLU": 1 + 4 * 8 / 3,
    },
    unit="times the input",
)
def kept_between() -> Mapping[str, float]:
    """Counts the storages that autograd keeps, through its hooks; one that two layers share counts once."""
    curves: dict[str, Curve] = {
        "ReLU": F.relu,
        "ReLU in place": lambda x: F.relu(x, inplace=True),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "leaky ReLU": F.leaky_relu,
        "leaky ReLU in place": lambda x: F.leaky_relu(x, inplace=True),
        "GELU": F.gelu,
        "SiLU": F.silu,
        "SiLU in place": lambda x: F.silu(x, inplace=True),
        "ReLU squared": lambda x: F.relu(x).square(),
        "x * sigmoid(x)": lambda x: x * torch.sigmoid(x),
        "GELU by hand": _gelu_by_hand,
    }
    units = {name: _kept_units(_Between(curve)) for name, curve in curves.items()}
    gated = llama.MLP(LlamaConfig(1, hidden_dim=192, n_head=2, n_kv_head=2, ffn_dim=512))
    return units | {"SwiGLU": _kept_units(gated)}


@claim(
    "in-place-after-what",
    "In-place ReLU is fine after a linear layer, a LayerNorm or GELU, and raises in backward after a sigmoid, a "
    "softmax or another ReLU, which keep their output.",
    expected={"linear": 0, "LayerNorm": 0, "GELU": 0, "sigmoid": 1, "softmax": 1, "ReLU": 1},
    unit="raises",
)
def in_place_after() -> Mapping[str, float]:
    """Runs each with F.relu_ behind it, forward and backward, and looks for the RuntimeError."""
    x = torch.randn(4, 8, requires_grad=True)
    before: dict[str, Curve] = {
        "linear": nn.Linear(8, 8),
        "LayerNorm": nn.LayerNorm(8),
        "GELU": F.gelu,
        "sigmoid": torch.sigmoid,
        "softmax": nn.Softmax(dim=-1),
        "ReLU": F.relu,
    }

    def raises(first: Curve) -> int:
        try:
            F.relu_(first(x)).sum().backward()
        except RuntimeError as error:
            return int("inplace operation" in str(error))
        return 0

    return {name: raises(first) for name, first in before.items()}


# ------------------------------------------------------------------------------------------------------------ weights
def _through(curve: Curve, gain: float, depth: int = 50, width: int = 256) -> tuple[float, float]:
    """Standard deviation before the activation of the last layer; cosine of two unrelated examples there."""
    torch.manual_seed(0)
    x = torch.randn(64, width, dtype=torch.float64)
    before = x
    for _ in range(depth):
        before = x @ (torch.randn(width, width, dtype=torch.float64) * gain / width**0.5).T
        x = curve(before)
    return before.std().item(), F.cosine_similarity(before[0], before[1], dim=0).item()


@claim(
    "fifty-layers-of-relu",
    "After 50 layers ReLU with Kaiming's weights holds a standard deviation of order 1; with Xavier's 10^-7.3 is left.",
    expected={"Kaiming": 0, "Xavier": -7.3},
    tolerance=0.5,
    unit="powers of ten",
    source="[He et al.](https://arxiv.org/abs/1502.01852)",
)
def fifty_layers() -> Mapping[str, float]:
    """Sends 64 normal inputs through 50 layers of 256 units. The tolerance is what a width of 256 leaves to chance."""
    return {name: math.log10(_through(F.relu, gain)[0]) for name, gain in (("Kaiming", 2**0.5), ("Xavier", 1.0))}


@claim(
    "unrelated-inputs-align",
    "After 50 layers of ReLU or sigmoid two unrelated inputs have a cosine of {expected[ReLU]} or more; of tanh with "
    "gain 5/3 near 0.",
    expected={"ReLU": 0.99, "sigmoid": 1, "tanh": 0},
    tolerance=0.1,
    unit="cosine",
)
def inputs_align() -> Mapping[str, float]:
    """Sends both through 50 layers of 256 units; the tolerance is the cosine of unrelated vectors of that width."""
    return {
        "ReLU": _through(F.relu, 2**0.5)[1],
        "sigmoid": _through(torch.sigmoid, 1.0)[1],
        "tanh": _through(torch.tanh, 5 / 3)[1],
    }


@claim(
    "no-gain-for-gelu",
    "After 50 layers GELU with a gain of √2 has faded to 2e-4, 10^-3.7; with the gain right for variance 1 it has "
    "grown to 81, and SiLU with its own to 6,000.",
    expected={"GELU, √2": -3.7, "GELU, 1.5335": 1.9, "SiLU, 1.6765": 3.8},
    tolerance=0.2,
    unit="powers of ten",
)
def no_gain() -> Mapping[str, float]:
    """Sends 64 normal inputs through 50 layers of 256 units and takes the logarithm of the standard deviation."""
    cases: dict[str, tuple[Curve, float]] = {
        "GELU, √2": (F.gelu, 2**0.5),
        "GELU, 1.5335": (F.gelu, 1.5335),
        "SiLU, 1.6765": (F.silu, 1.6765),
    }
    return {name: math.log10(_through(curve, gain)[0]) for name, (curve, gain) in cases.items()}


@claim(
    "gelu-inputs-at-the-start",
    "In Lab 02's untrained model GELU's inputs have a standard deviation of 0.23 in every block: 0.02 · √128.",
    expected={f"block {i}": 0.226 for i in range(4)},
    tolerance=0.01,
    unit="",
)
def gelu_inputs() -> Mapping[str, float]:
    """Hooks the layer before GELU in each block and runs one batch."""
    model, stds = make_model(), dict[str, float]()

    def remember(name: str) -> Callable[[nn.Module, tuple[Tensor], Tensor], None]:
        return lambda module, inputs, output: stds.update({name: output.std().item()})

    for index, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        block.mlp.up.register_forward_hook(remember(f"block {index}"))
    model(make_batch()[0])
    return stds


# ------------------------------------------------------------------------------------------------------------ 16 bits
def _positive(dtype: torch.dtype) -> Tensor:
    """Every finite number of a 16-bit type that is at least 0."""
    numbers = torch.arange(2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    return numbers[numbers.isfinite()]


@claim(
    "sigmoid-is-one-in-16-bits",
    "From 6.25 on a sigmoid is 1 and its slope 0 in bf16, from 8.32 on in fp16.",
    expected={"bf16, is 1": 6.25, "bf16, slope 0": 6.25, "fp16, is 1": 8.32, "fp16, slope 0": 8.32},
    tolerance=0.001,
    unit="input",
)
def sigmoid_is_one() -> Mapping[str, float]:
    """Evaluates and differentiates the sigmoid at every positive number of each type and takes the least."""
    found = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        x = _positive(dtype)
        found[f"{name}, is 1"] = x[torch.sigmoid(x) == 1].min().item()
        found[f"{name}, slope 0"] = x[_slope(torch.sigmoid, x) == 0].min().item()
    return found


@claim(
    "gelu-by-hand-in-fp16",
    "GELU's tanh form written out in fp16 has a gradient of nan from {expected[by hand]:.0f} on, where 3x² "
    "overflows; PyTorch's has none.",
    expected={"by hand": 147.875, "PyTorch's": 0},
    unit="least input with nan; how many nan",
)
def gelu_in_fp16() -> Mapping[str, float]:
    """Differentiates both at every positive fp16 number."""
    x = _positive(torch.float16)
    by_hand = _slope(_gelu_by_hand, x)
    library = _slope(lambda at: F.gelu(at, approximate="tanh"), x)
    return {"by hand": x[by_hand.isnan()].min().item(), "PyTorch's": library.isnan().sum().item()}


@claim(
    "gelu-by-hand-cancels",
    "Written out with erf in bf16, GELU at -3 is {expected[by hand]:.0f} % too far from 0; PyTorch's "
    "{expected[PyTorch's]} %.",
    expected={"by hand": 44.7, "PyTorch's": 0.2},
    tolerance=0.1,
    unit="% off",
)
def gelu_cancels() -> Mapping[str, float]:
    """Divides by the exact value, computed in float64."""
    x = torch.tensor(-3.0, dtype=torch.bfloat16)
    exact = F.gelu(x.double()).item()
    by_hand = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return {name: 100 * (y.item() / exact - 1) for name, y in (("by hand", by_hand), ("PyTorch's", F.gelu(x)))}
