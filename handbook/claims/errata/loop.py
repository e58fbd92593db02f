"""Claims of handbook/errata.md, section *The loop*."""

import statistics
import time
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import OneCycleLR

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import GPT_2
from rankzero.claims.toolkit.gpu import gpu, pick
from rankzero.claims.toolkit.gradients import flat, gradient, gradient_of, off_by
from rankzero.claims.toolkit.lab_model import SHAPE, TINY, next_token_loss, seeded_gpt
from rankzero.claims.toolkit.op_counter import calls_of, raises
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.models.llama import Llama, LlamaConfig


@claim(
    "errata-accumulation",
    "Four micro-batches give the gradient of the batch if each loss is divided by 4; undivided it is 4 times as long.",
    expected={"divided": 0, "undivided": 3},
    unit="of the gradient's length",
    tolerance=1e-12,
)
def accumulation() -> Mapping[str, float]:
    """Compares gradients of a tiny GPT in fp64. No learning rate appears anywhere."""
    model, tokens = seeded_gpt(TINY)
    right = gradient(model, lambda: next_token_loss(model, tokens))
    losses = [lambda part=part: next_token_loss(model, part) for part in tokens.chunk(4)]
    quarters = [lambda loss=loss: loss() / 4 for loss in losses]
    return {
        "divided": off_by(gradient(model, *quarters), right),
        "undivided": off_by(gradient(model, *losses), right),
    }


@claim(
    "errata-accumulation-breaks",
    "With BatchNorm, or with micro-batches of unequal size, the divided sum is another gradient.",
    expected={"BatchNorm": 39, "24 and 8 sequences": 60},
    unit="% of the gradient's length",
    tolerance=0.5,
)
def accumulation_breaks() -> Mapping[str, float]:
    """The same comparison, in fp64, for a network with BatchNorm and for a batch of 32 cut into 24 and 8."""
    model, tokens = seeded_gpt(TINY)
    right = gradient(model, lambda: next_token_loss(model, tokens))
    unequal = [lambda part=part: next_token_loss(model, part) / 2 for part in tokens.split([24, 8])]
    norm = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).double()
    x = torch.randn(32, 16, dtype=torch.float64)
    whole = gradient(norm, lambda: (norm(x) - x[:, :1]).square().mean())
    parts = [lambda part=part: (norm(part) - part[:, :1]).square().mean() / 4 for part in x.chunk(4)]
    return {
        "BatchNorm": 100 * off_by(gradient(norm, *parts), whole),
        "24 and 8 sequences": 100 * off_by(gradient(model, *unequal), right),
    }


@claim(
    "errata-undivided-loss",
    "A loss 8 times too large makes SGD's step 8 times as long and leaves AdamW's as it was.",
    expected={"SGD": 8, "AdamW": 1},
    unit="times as long",
    tolerance=0.001,
)
def undivided_loss() -> Mapping[str, float]:
    """Updates a tiny GPT once, in fp64, with the gradient and with 8 times the gradient."""

    def step_length(optimizer_type: type[SGD] | type[AdamW], factor: int) -> float:
        model, tokens = seeded_gpt(TINY)
        start = flat(list(model.parameters()))
        optimizer = optimizer_type(model.parameters(), lr=1e-3)
        gradient(model, lambda: factor * next_token_loss(model, tokens))
        optimizer.step()
        return float((flat(list(model.parameters())) - start).norm())

    return {kind.__name__: step_length(kind, 8) / step_length(kind, 1) for kind in (SGD, AdamW)}


@claim(
    "errata-clipped-norms",
    "After clipping to 1, a gradient 1,000 times too long is 1 long, like every other; the return value tells.",
    expected={"ordinary, after clipping": 1, "spike, after clipping": 1, "spike / ordinary, as returned": 1000},
    unit="",
    tolerance=0.01,
)
def clipped_norms() -> Mapping[str, float]:
    """Clips the gradient of Lab 02's first step, and that of a loss 1,000 times as large."""
    model, tokens = seeded_gpt(SHAPE, double=False)
    returned, after = [], []
    for factor in (1, 1000):
        gradient(model, lambda factor=factor: factor * next_token_loss(model, tokens[:12]))  # type: ignore[misc]
        returned.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        after.append(float(gradient_of(model).norm()))
    return {
        "ordinary, after clipping": after[0],
        "spike, after clipping": after[1],
        "spike / ordinary, as returned": returned[1] / returned[0],
    }


@claim(
    "errata-gradient-norms",
    "The gradient of Lab 02's first step is {expected[1 sequence]} long on one sequence and "
    "{expected[12 sequences]} on 12.",
    expected={"1 sequence": 4.79, "12 sequences": 1.37},
    unit="length of the gradient",
    tolerance=0.01,
)
def gradient_norms() -> Mapping[str, float]:
    """Takes the gradient's length for two batches of random tokens on the same untrained model."""
    model, tokens = seeded_gpt(SHAPE, double=False)
    batches = {"1 sequence": tokens[:1], "12 sequences": tokens[:12]}
    return {
        name: float(gradient(model, lambda batch=batch: next_token_loss(model, batch)).norm())  # type: ignore[misc]
        for name, batch in batches.items()
    }


@claim(
    "errata-one-cycle",
    "OneCycleLR is no triangle: its peak comes after {expected[peak]:.0f} % of the steps, a quarter of the rise "
    "reaches {expected[quarter of the rise]:.0f} % of the peak, and it ends at 4 millionths of the peak.",
    expected={"peak": 29.8, "quarter of the rise": 18.1, "last": 0.0004},
    unit="% of the steps or of the peak rate",
    tolerance=0.05,
)
def one_cycle() -> Mapping[str, float]:
    """Runs PyTorch's schedule with its defaults for 430 steps, of which the first 128 rise."""
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1)
    scheduler = OneCycleLR(optimizer, max_lr=1, total_steps=430)
    rates = []
    for _ in range(430):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(rates) < 430:
            scheduler.step()
    top = rates.index(max(rates))
    return {"peak": 100 * top / 429, "quarter of the rise": 100 * rates[top // 4], "last": 100 * rates[-1]}


@claim(
    "errata-hidden-softmax",
    "A GPT of 4 layers computes {expected} softmaxes before its last layer, one in the attention of each block.",
    expected=4,
    unit="softmaxes",
)
def hidden_softmax() -> int:
    """Runs Lab 02's model with attention by the formula and counts the calls of softmax."""
    model, tokens = seeded_gpt(SHAPE, double=False)
    with sdpa_kernel(SDPBackend.MATH):
        calls = calls_of(lambda: model(tokens[:2, :-1]))
    return sum(count for name, count in calls.by_name.items() if "softmax" in name)


@claim(
    "errata-sharpness-rescaled",
    "The same outputs, {expected[sharpness]:.0f} times the sharpness: a ReLU network's first layer times 10, its "
    "second divided by 10.",
    expected={"sharpness": 95.1, "difference of outputs": 0},
    unit="times",
    tolerance=0.1,
    source="[Dinh et al.](https://arxiv.org/abs/1703.04933)",
)
def sharpness_rescaled() -> Mapping[str, float]:
    """Compares outputs, and the largest eigenvalue of the loss's Hessian, of 4 inputs, 8 ReLUs and 1 output in fp64."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 4).double(), torch.randn(64, 1).double()
    first, second = torch.randn(8, 4).double() / 2, torch.randn(1, 8).double() / 3

    def output(weights: Tensor) -> Tensor:
        return (x @ weights[:32].view(8, 4).T).relu() @ weights[32:].view(1, 8).T

    def sharpness(weights: Tensor) -> float:
        hessian = torch.func.hessian(lambda w: (output(w) - y).square().mean())(weights)
        return float(torch.linalg.eigvalsh(hessian).max())

    plain, scaled = flat([first, second]), flat([10 * first, second / 10])
    return {
        "sharpness": sharpness(scaled) / sharpness(plain),
        "difference of outputs": float((output(plain) - output(scaled)).abs().max()),
    }


@claim(
    "errata-no-decay-names",
    'A filter for "LayerNorm.weight" finds none of the norms of our GPT or Llama; p.dim() < 2 finds them all.',
    expected={"GPT, by name": 0, "GPT, by dimension": 9, "Llama, by name": 0, "Llama, by dimension": 9},
    unit="of 9 norms",
)
def no_decay_names() -> Mapping[str, float]:
    """Filters the parameters of two models of 4 layers, two norms per layer and one at the end."""
    llama = Llama(LlamaConfig(vocab_size=96, n_layer=4, n_head=4, n_kv_head=2, hidden_dim=64, ffn_dim=128))
    measured = {}
    for name, model in (("GPT", GPT(SHAPE)), ("Llama", llama)):
        named = dict(model.named_parameters())
        measured[f"{name}, by name"] = sum("LayerNorm.weight" in key for key in named)
        measured[f"{name}, by dimension"] = sum(parameter.dim() < 2 for parameter in named.values())
    return measured


@claim(
    "errata-silent-bugs-raise",
    "backward() on a loss that went through .item(), and adding tensors of two devices, raise an exception.",
    expected=True,
    unit="",
)
def silent_bugs_raise() -> bool:
    """Tries both: the loss as a number and as a new tensor, and CPU plus PyTorch's meta device."""
    loss = nn.Linear(4, 1)(torch.ones(2, 4)).mean()
    return all(
        (
            raises(lambda: loss.item().backward(), AttributeError),
            raises(torch.tensor(loss.item()).backward),
            raises(lambda: torch.ones(3) + torch.ones(3, device="meta")),
        )
    )


@claim(
    "errata-warm-up-from-zero",
    "A warm-up of step / warmup changes none of {expected[(step + 1) / (warmup + 1)]} parameter tensors in its first "
    "update, (step+1)/(warmup+1) all.",
    expected={"step / warmup": 0, "(step + 1) / (warmup + 1)": 27},
    unit="tensors changed",
)
def warm_up_from_zero() -> Mapping[str, float]:
    """Makes update 0 of a warm-up over 10 with AdamW on Lab 02's model and compares every parameter."""
    measured = {}
    step, warmup = 0, 10
    for name, share in (("step / warmup", step / warmup), ("(step + 1) / (warmup + 1)", (step + 1) / (warmup + 1))):
        model, tokens = seeded_gpt(SHAPE, double=False)
        before = [p.detach().clone() for p in model.parameters()]
        optimizer = AdamW(model.parameters(), lr=1e-3 * share)
        next_token_loss(model, tokens[:2]).backward()
        optimizer.step()
        measured[name] = sum(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    return measured


@claim(
    "errata-weight-gradient",
    "The gradient of nn.Linear's weight is dy.T @ x; x.T @ dy has the other shape.",
    expected=True,
    unit="",
)
def weight_gradient() -> bool:
    """Compares both products with what autograd puts into weight.grad of a layer of 3 inputs and 5 outputs."""
    linear, x, dy = nn.Linear(3, 5).double(), torch.randn(7, 3).double(), torch.randn(7, 5).double()
    linear(x).backward(dy)
    found = linear.weight.grad
    assert found is not None
    return torch.allclose(found, dy.T @ x) and (x.T @ dy).shape != found.shape


@claim(
    "errata-cudnn-deterministic",
    "cudnn.deterministic refuses {expected[cudnn.deterministic]} of two operations without a fixed order; "
    "use_deterministic_algorithms refuses {expected[use_deterministic_algorithms]}.",
    expected={"cudnn.deterministic": 0, "use_deterministic_algorithms": 2},
    unit="of 2 operations",
)
def cudnn_deterministic() -> Mapping[str, float]:
    """Tries put_ and max_unpool2d on the CPU under each switch."""
    pooled, places = F.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)

    def refused() -> int:
        put = raises(lambda: torch.zeros(5).put_(torch.tensor([0, 1]), torch.ones(2)))
        return put + raises(lambda: F.max_unpool2d(pooled, places, [2, 2]))

    with torch.backends.cudnn.flags(deterministic=True):
        by_cudnn = refused()
    torch.use_deterministic_algorithms(True)
    try:
        return {"cudnn.deterministic": by_cudnn, "use_deterministic_algorithms": refused()}
    finally:
        torch.use_deterministic_algorithms(False)


def cost_of_item(model: nn.Module, tokens: Tensor, *, steps: int, repeats: int = 5) -> float:
    """In %: how much longer steps take if the loss is read in each of them. Medians of alternating runs."""
    optimizer = AdamW(model.parameters())

    def seconds(read: bool) -> float:
        synchronize(tokens.device)
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = next_token_loss(model, tokens)
            loss.backward()
            optimizer.step()
            if read:
                loss.item()
        synchronize(tokens.device)
        return time.perf_counter() - begin

    seconds(read=True)  # warm-up
    pairs = [(seconds(read=False), seconds(read=True)) for _ in range(repeats)]
    without, reading = (statistics.median(column) for column in zip(*pairs, strict=True))
    return 100 * (reading / without - 1)


def synchronize(device: torch.device) -> None:
    """Waits until the device has done what was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@claim(
    "errata-item-cost",
    "Where kernels outlast their queueing (GPT-2's shape, B 8, T 1,024), loss.item() each step costs less than 10 %.",
    expected=0,
    unit="% of a step",
    tolerance=10,
    needs=("cuda",),
)
def item_cost() -> float:
    """Times 5 steps with and without reading the loss, five times each in turn, and compares the medians."""
    config = pick(GPT_2, GPTConfig(64, block_size=16, n_layer=1, hidden_dim=32))
    tokens = torch.randint(config.vocab_size, (pick(8, 2), config.block_size + 1), device=gpu())
    return cost_of_item(GPT(config).to(gpu()), tokens, steps=pick(5, 2))
