"""Claims of labs/lab-03-amp.md."""

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, milliseconds, pick
from rankzero.claims.toolkit.lab_model import make_batch, make_model, text_batch, text_model, token_loss
from rankzero.claims.toolkit.low_precision import FORMATS, gradients, off_fp32
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory


# --------------------------------------------------------------------------------------------------------- the equality
@claim(
    "lab-03-scale-changes-no-bit",
    "A loss scale of 65,536, divided out again, changes none of 808,064 gradients in fp32 and none under bf16 "
    "autocast.",
    expected={"fp32": 0, "bf16": 0},
    unit="gradients changed",
)
def scale_changes_no_bit() -> Mapping[str, float]:
    """Computes the gradient of the starter's first batch with and without the scale and compares every bit."""
    return {name: int((gradients()[name][0] != gradients()[name][1]).sum()) for name in ("fp32", "bf16")}


@claim(
    "lab-03-scale-brings-back",
    "Under fp16 autocast the scale changes {expected} % of the gradients: those that depend on subnormal "
    "numbers of backward.",
    expected=75,
    tolerance=3,
    unit="% of gradients",
)
def scale_brings_back() -> float:
    """Compares the same two gradients in fp16. The tolerance is for other CPUs, which round in other places."""
    plain, scaled = gradients()["fp16"]
    return 100 * float((plain != scaled).double().mean())


@claim(
    "lab-03-lost-in-fp16",
    "Without a scale {expected[fp16]} % of the first batch's gradients become 0 under fp16 autocast, and none under "
    "bf16.",
    expected={"fp16": 0.016, "fp16, scaled": 0, "bf16": 0},
    tolerance=0.004,
    unit="% of gradients",
)
def lost_in_fp16() -> Mapping[str, float]:
    """Counts zeros where the fp32 gradient of the starter's first batch has none."""
    there = gradients()["fp32"][0] != 0
    cases = {
        "fp16": gradients()["fp16"][0],
        "fp16, scaled": gradients()["fp16"][1],
        "bf16": gradients()["bf16"][0],
    }
    return {name: 100 * float((one[there] == 0).double().mean()) for name, one in cases.items()}


@claim(
    "lab-03-off-by-eps",
    "The gradient is off from fp32's by 0.0044 of its length under bf16 and by 0.00055 under scaled fp16: "
    "{expected[bf16 over scaled fp16]} times less, as 3 more bits predict; without the scale fp16 is off by "
    "0.00076.",
    expected={"bf16": 4.4, "fp16, scaled": 0.55, "fp16": 0.76, "bf16 over scaled fp16": 8},
    tolerance=0.5,
    unit="thousandths; times",
)
def off_by_eps() -> Mapping[str, float]:
    """Divides lengths. bf16 rounds by 2^-8 = 0.0039 of a number at most, fp16 by 2^-11 = 0.00049."""
    bf16, plain, scaled = (off_fp32(one) for one in (gradients()["bf16"][0], *gradients()["fp16"]))
    return {
        "bf16": 1000 * bf16,
        "fp16, scaled": 1000 * scaled,
        "fp16": 1000 * plain,
        "bf16 over scaled fp16": bf16 / scaled,
    }


# --------------------------------------------------------------------------------------------------------------- memory
@claim(
    "lab-03-activations",
    "The first step keeps 25.14 MiB of activations in fp32 and 15.98 MiB under bf16 autocast, 1.52 of them copies of "
    "the weights.",
    expected={"fp32": 26_364_420, "bf16": 16_755_204, "bf16 copies of weights": 2 * (4 * 12 * 128**2 + 96 * 128)},
    unit="B",
)
def activations() -> Mapping[str, float]:
    """Counts what autograd keeps for Lab 02's model; copies are bf16 tensors of a weight's shape and values."""
    measured: dict[str, float] = {}
    for name in ("fp32", "bf16"):
        model, low = make_model(), FORMATS[name]
        with PhaseMemory(model, AdamW(model.parameters()), torch.device("cpu")) as memory:
            with torch.autocast("cpu", dtype=low, enabled=low is not None):
                loss = token_loss(model, *make_batch())
            memory.record("forward")
            loss.backward()
        measured[name] = memory.rows[0].activations
    model, kept = make_model(), {}
    copies = [weight.detach().bfloat16() for weight in model.parameters() if weight.dim() == 2]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sides = (tensor, tensor.T) if tensor.dim() == 2 else ()
        if any(torch.equal(side, copy) for side in sides for copy in copies if side.shape == copy.shape):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        token_loss(model, *make_batch())
    return measured | {"bf16 copies of weights": sum(kept.values())}


@claim(
    "lab-03-states-stay-fp32",
    "Under autocast weights, gradients and AdamW's averages stay fp32: 4 + 4 + {expected[averages]} bytes a "
    "parameter, as without.",
    expected={"weights": 4, "gradients": 4, "averages": 8},
    unit="B per parameter",
)
def states_stay_fp32() -> Mapping[str, float]:
    """Takes the starter's step in bf16 on Lab 02's model and counts bytes, the step counts left out."""
    model = make_model()
    optimizer = AdamW(model.parameters())
    step, scaler = starter("03").train_step, starter("03").LossScaler(False, 1.0, 2000)
    with PhaseMemory(model, optimizer, torch.device("cpu")) as memory:
        step(model, optimizer, *make_batch(), torch.bfloat16, scaler, after=memory.record)
    row, counts = memory.rows[-1], 4 * len(list(model.parameters()))
    return {
        name: held / model.parameter_count()
        for name, held in (
            ("weights", row.weights),
            ("gradients", row.gradients),
            ("averages", row.optimizer - counts),
        )
    }


@claim(
    "lab-03-loss-outside-autocast",
    "The first loss is {expected[inside]} nats; computed outside the autocast block, from bf16 logits, it is a bf16 "
    "number, 4.5.",
    expected={"inside": 4.53, "outside": 4.5, "bf16 outside": 1},
    tolerance=0.02,
    unit="nats",
)
def loss_outside_autocast() -> Mapping[str, float]:
    """Computes cross_entropy of the same logits inside the autocast block and after it."""
    model, (x, y) = text_model(), text_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x).flatten(0, 1)
        inside = F.cross_entropy(logits, y.flatten())
    outside = F.cross_entropy(logits, y.flatten())
    return {
        "inside": inside.item(),
        "outside": outside.item(),
        "bf16 outside": int(outside.dtype == torch.bfloat16 and inside.dtype == torch.float32),
    }


# --------------------------------------------------------------------------------------------------------------- scaler
@claim(
    "lab-03-scaler-like-torch",
    "The starter's scaler and torch.amp.GradScaler have the same scale after each of 40 steps, {expected[overflows]} "
    "of them overflows.",
    expected={"scales that differ": 0, "weights that differ": 0, "overflows": 8},
    unit="of 40",
)
def scaler_like_torch() -> Mapping[str, float]:
    """Gives both the same gradients, every fifth with an inf or a nan in it, and compares scale and weight."""
    ours = starter("03").LossScaler(True, 65536.0, 3)
    theirs = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=3)
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizers = [torch.optim.SGD([weight], lr=1e-3) for weight in weights]
    scales = apart = overflows = 0
    for number in range(40):
        bad = number % 5 == 4
        for weight in weights:
            weight.grad = torch.tensor([[math.inf, math.nan][number % 2] if bad else 1.0, 2.0]) * ours.scale
        theirs.scale(torch.ones(1))
        theirs.step(optimizers[1])
        theirs.update()
        finite = ours.unscale(iter([weights[0]]))
        if finite:
            optimizers[0].step()
        ours.update(finite)
        scales += ours.scale != theirs.get_scale()
        apart += not torch.equal(*weights)
        overflows += not finite
    return {"scales that differ": scales, "weights that differ": apart, "overflows": overflows}


@claim(
    "lab-03-clipped-while-scaled",
    "A gradient of length 1, clipped to 1 while it carries a scale of 65,536, is 65,536 times too short after "
    "unscaling. SGD's step shrinks as much; AdamW's is 73 % as long at 1e5 parameters and "
    "{expected[AdamW, 1e7]:.0f} % at 1e7.",
    expected={"SGD, 1e5": 100 / 65536, "AdamW, 1e5": 72.5, "AdamW, 1e7": 28.7},
    tolerance=0.5,
    unit="% of the right step",
)
def clipped_while_scaled() -> Mapping[str, float]:
    """Clips, unscales and steps in either order, along random gradients, and divides the lengths of the steps."""

    def step_length(optimizer_class: type[torch.optim.Optimizer], count: int, clip_first: bool) -> float:
        weight = nn.Parameter(torch.zeros(count))
        gradient = torch.randn(count, generator=torch.Generator().manual_seed(0))
        weight.grad = gradient / gradient.norm() * 65536.0
        if clip_first:
            nn.utils.clip_grad_norm_([weight], 1.0)
        weight.grad.div_(65536.0)
        nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer_class([weight], lr=1e-3).step()  # type: ignore[call-arg]
        return weight.detach().norm().item()

    def percent(optimizer_class: type[torch.optim.Optimizer], count: int) -> float:
        return 100 * step_length(optimizer_class, count, True) / step_length(optimizer_class, count, False)

    return {
        "SGD, 1e5": percent(torch.optim.SGD, 10**5),
        "AdamW, 1e5": percent(AdamW, 10**5),
        "AdamW, 1e7": percent(AdamW, 10**7),
    }


@claim(
    "lab-03-clip-leaves-inf",
    "With one inf among 2,000 gradients clip_grad_norm_ makes nan of it and 0 of all others.",
    expected={"nan": 1, "zero": 1999},
    unit="of 2,000",
)
def clip_leaves_inf() -> Mapping[str, float]:
    """Clips two parameters' random gradients after setting one number to inf: the norm is inf, and x / inf is 0."""
    parameters = [nn.Parameter(torch.zeros(1000)) for _ in range(2)]
    for parameter in parameters:
        parameter.grad = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert parameters[0].grad is not None
    parameters[0].grad[3] = math.inf
    nn.utils.clip_grad_norm_(parameters, 1.0)
    every = torch.cat([parameter.grad for parameter in parameters if parameter.grad is not None])
    return {"nan": int(every.isnan().sum()), "zero": int((every == 0).sum())}


@claim(
    "lab-03-skip-leaves-no-trace",
    "After an overflow no weight has moved and AdamW has no state; without the check one step makes nan of weights.",
    expected={"moved": 0, "state": 0, "nan without the check": 1},
    unit="",
)
def skip_leaves_no_trace() -> Mapping[str, float]:
    """Takes one step in fp16 with a scale of 2^60, as the starter does, and without its test for inf."""
    tiny = GPTConfig(96, block_size=16, n_layer=1, n_head=2, hidden_dim=32)
    x, y = make_batch(4, 16)

    def after_a_step(look: bool) -> tuple[list[torch.Tensor], list[torch.Tensor], AdamW]:
        torch.manual_seed(0)
        model = GPT(tiny)
        before = [weight.detach().clone() for weight in model.parameters()]
        optimizer, scaler = AdamW(model.parameters()), starter("03").LossScaler(True, 2.0**60, 2000)
        if not look:
            unscale = scaler.unscale
            scaler.unscale = lambda parameters: unscale(parameters) or True
        starter("03").train_step(model, optimizer, x, y, torch.float16, scaler)
        return before, [weight.detach() for weight in model.parameters()], optimizer

    before, after, optimizer = after_a_step(look=True)
    _, spoiled, _ = after_a_step(look=False)
    return {
        "moved": sum(int((a != b).sum()) for a, b in zip(before, after, strict=True)),
        "state": len(optimizer.state),
        "nan without the check": int(any(bool(weight.isnan().any()) for weight in spoiled)),
    }


@claim(
    "lab-03-resumes-exactly",
    "In fp16, 11 steps and, after a resume, 9 more have the losses of 20 steps, bit for bit, with a scale that doubles "
    "after 4 good steps; without the scaler's state in the checkpoint the losses differ.",
    expected={"with the scaler": 0, "without it, some differ": 1},
    unit="of 20 losses differ",
)
def resumes_exactly() -> Mapping[str, float]:
    """Runs the starter both ways; then puts a new scaler's state into the checkpoint and resumes again."""
    options = ("--precision=fp16", "--growth-interval=4", "--lr=0.01", "--batch-size=4")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = logged_losses("03", "--steps=20", *options)
        file = folder / "checkpoint.pt"
        half = logged_losses("03", "--steps=11", f"--checkpoint={file}", *options)
        rest = logged_losses("03", "--steps=20", f"--resume={file}", "--batch-size=4")
        fresh = {"enabled": True, "scale": 65536.0, "growth_interval": 4, "good_steps": 0, "skipped": 0}
        torch.save(torch.load(file, weights_only=True) | {"scaler": fresh}, file)
        forgotten = logged_losses("03", "--steps=20", f"--resume={file}", "--batch-size=4")
    return {
        "with the scaler": sum(a != b for a, b in zip(whole, half + rest, strict=True)),
        "without it, some differ": int(whole != half + forgotten),
    }


# ----------------------------------------------------------------------------------------------------------------- CUDA
@claim(
    "lab-03-cuda-speed",
    "On a GPU with 16-bit matrix units a step of a GPT 1,024 wide is more than 1.5 times as fast under bf16 autocast "
    "as in fp32 without TF32.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def cuda_speed() -> bool:
    """Times forward and backward each way by CUDA events, on 8 sequences of 512 tokens, 6 layers."""
    torch.manual_seed(0)
    config = GPTConfig(pick(4096, 64), pick(512, 16), pick(6, 1), 16, pick(1024, 32))
    model = GPT(config).to(gpu())
    x, times = torch.randint(config.vocab_size, (pick(8, 2), config.block_size), device=gpu()), {}
    for name, low in (("fp32", None), ("bf16", torch.bfloat16)):

        def both(low: torch.dtype | None = low) -> None:
            model.zero_grad()
            with torch.autocast(gpu().type, dtype=low, enabled=low is not None):
                loss = token_loss(model, x, x)
            loss.backward()

        times[name] = milliseconds(both).median
    return times["fp32"] > 1.5 * times["bf16"]


@claim(
    "lab-03-cuda-memory",
    "On a GPU the peak of torch's allocator in a step is lower under bf16 autocast than in fp32, and by "
    "less than half.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def cuda_memory() -> bool:
    """Takes two steps each way of a GPT 512 wide on 32 sequences of 256 tokens and reads the allocator's peak."""
    device, peaks = torch.device("cuda"), {}
    for name, low in (("fp32", None), ("bf16", torch.bfloat16)):
        torch.manual_seed(0)
        model = GPT(GPTConfig(4096, block_size=256, n_layer=4, n_head=8, hidden_dim=512)).to(device)
        optimizer = AdamW(model.parameters())
        x = torch.randint(4096, (32, 256), device=device)
        torch.cuda.reset_peak_memory_stats()
        for _ in range(2):
            starter("03").train_step(model, optimizer, x, x, low, starter("03").LossScaler(False, 1.0, 2000))
        peaks[name] = torch.cuda.max_memory_allocated()
        del model, optimizer
    return peaks["fp32"] / 2 < peaks["bf16"] < peaks["fp32"]
