"""Claims of handbook/loss-functions.md."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig


# ---------------------------------------------------------------------------------------------------- before training
@claim(
    "untrained-loss-near-ln-v",
    "The loss of an untrained GPT is within 0.1 nats of ln V: {expected[V 96]:.3f} for 96 tokens, "
    "{expected[V 50,257]:.3f} for 50,257.",
    expected={"V 96": math.log(96), "V 50,257": math.log(50_257)},
    tolerance=0.1,
    unit="nats",
)
@torch.no_grad()
def untrained_loss() -> Mapping[str, float]:
    """Scores random tokens with fresh models of five seeds; shown is the loss that is farthest from ln V."""

    def farthest(vocab_size: int) -> float:
        losses = []
        for seed in range(5):
            torch.manual_seed(seed)
            model = GPT(GPTConfig(vocab_size))
            losses.append(token_loss(model, *torch.randint(vocab_size, (2, 4, 64))).item())
        return max(losses, key=lambda loss: abs(loss - math.log(vocab_size)))

    return {"V 96": farthest(96), "V 50,257": farthest(50_257)}


@claim(
    "unshifted-targets-a-nat-better",
    "Scored on its own input, an untrained model with a tied output layer is a nat better than guessing: it knows the "
    "token that it was given.",
    expected=math.log(96) - 1,
    tolerance=0.1,
    unit="nats",
)
@torch.no_grad()
def unshifted_targets() -> float:
    """Scores a fresh Lab 02 model on random tokens with the inputs as targets."""
    x, _ = make_batch()
    return token_loss(make_model(), x, x).item()


@claim(
    "large-weights-are-sure-at-random",
    "With every weight matrix times 10 or 50 the first loss on random tokens is not {expected[times 1]} but "
    "{expected[times 10]} and {expected[times 50]} nats.",
    expected={"times 1": 4.6, "times 10": 7.3, "times 50": 31.4},
    tolerance=0.05,
    unit="nats",
)
@torch.no_grad()
def large_weights() -> Mapping[str, float]:
    """Multiplies the matrices of a fresh Lab 02 model and scores 12 sequences of random tokens, all seeds 0."""
    torch.manual_seed(0)
    noise = torch.randint(96, (12, 65))
    losses = {}
    for scale in (1, 10, 50):
        model = make_model()
        for matrix in (p for p in model.parameters() if p.dim() == 2):
            matrix.mul_(scale)
        losses[f"times {scale}"] = token_loss(model, noise[:, :-1], noise[:, 1:]).item()
    return losses


# ------------------------------------------------------------------------------------------------------------- logits
@claim(
    "logits-of-10000",
    "At a logit of 10,000 cross_entropy gives the loss and its three gradients; exp and sum, or softmax and log, none "
    "of the four.",
    expected={"exp / sum, log": 0, "softmax, log": 0, "cross_entropy": 4},
    unit="finite numbers of 4",
)
def logits_of_10000() -> Mapping[str, float]:
    """Computes the loss of token 1 at logits 10,000, 0 and -10,000 in fp32 by each route and counts finite numbers."""
    routes = {
        "exp / sum, log": lambda z: -(z.exp() / z.exp().sum()).log()[0, 1],
        "softmax, log": lambda z: -z.softmax(-1).log()[0, 1],
        "cross_entropy": lambda z: F.cross_entropy(z, torch.tensor([1])),
    }
    finite = {}
    for name, route in routes.items():
        logits = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
        loss = route(logits)
        (gradients,) = torch.autograd.grad(loss, logits)
        finite[name] = int(torch.cat([loss.detach().reshape(1), gradients[0]]).isfinite().sum())
    return finite


@claim(
    "sum-between-1-and-v",
    "With the largest logit subtracted, the sum of exponentials lies between 1 and V, however large the logits are.",
    expected=True,
    unit="",
)
def shifted_sum() -> bool:
    """Draws logits of 96 tokens at scales from 1e-3 to 1e30 in fp32, subtracts the largest, and looks at the sum."""
    torch.manual_seed(0)
    logits = torch.randn(1000, 96) * torch.logspace(-3, 30, 1000)[:, None]
    sums = (logits - logits.max(dim=-1, keepdim=True).values).exp().sum(-1)
    return bool(((sums >= 1) & (sums <= 96)).all())


# -------------------------------------------------------------------------------------------------------------- means
def _tokens_of_loss(nats: float, count: int) -> tuple[Tensor, Tensor]:
    """Float64 logits of two classes and targets such that each of `count` tokens has a loss of `nats`."""
    return torch.tensor([[0.0, math.log(math.expm1(nats))]]).double().repeat(count, 1), torch.zeros(count).long()


def _two_means(batches: list[tuple[Tensor, Tensor]]) -> Mapping[str, float]:
    total = sum(F.cross_entropy(*batch, reduction="sum").item() for batch in batches)
    means = [F.cross_entropy(*batch).item() for batch in batches]
    return {
        "mean of means": sum(means) / len(means),
        "mean over tokens": total / sum(len(targets) for _, targets in batches),
    }


@claim(
    "mean-of-batch-means",
    "100 tokens at 2 nats and 4 at 6 have a mean of {expected[mean over tokens]:.3f} nats; the mean of the two "
    "batches' means is 4.",
    expected={"mean of means": (2 + 6) / 2, "mean over tokens": (100 * 2 + 4 * 6) / 104},
    tolerance=1e-6,
    unit="nats",
)
def batch_means() -> Mapping[str, float]:
    """Builds logits with those losses and takes both means of cross_entropy; the tolerance is the logits' rounding."""
    return _two_means([_tokens_of_loss(2.0, 100), _tokens_of_loss(6.0, 4)])


@claim(
    "mean-of-device-means",
    "900 tokens at 1 nat and 100 at 3 have a mean of {expected[mean over tokens]} nats; the mean of the two devices' "
    "means is 2.",
    expected={"mean of means": 2.0, "mean over tokens": (900 * 1 + 100 * 3) / 1000},
    tolerance=1e-6,
    unit="nats",
)
def device_means() -> Mapping[str, float]:
    """Builds logits with those losses and takes both means of cross_entropy; the tolerance is the logits' rounding."""
    return _two_means([_tokens_of_loss(1.0, 900), _tokens_of_loss(3.0, 100)])


@claim(
    "padding-counted-as-perfect",
    "Averaging after reduction='none' counts padding as perfect: with 3 of 10 tokens ignored it gives {expected} of "
    "the loss.",
    expected=0.7,
    tolerance=1e-6,
    unit="of the loss over the real tokens",
)
def padding() -> float:
    """Divides the mean of the ten single losses by cross_entropy's own mean, which counts 7 tokens."""
    torch.manual_seed(0)
    logits, targets = torch.randn(10, 96), torch.randint(96, (10,))
    targets[7:] = -100
    return (F.cross_entropy(logits, targets, reduction="none").mean() / F.cross_entropy(logits, targets)).item()


@claim(
    "one-token-of-768",
    "One token of probability e⁻⁸⁰ among 768 adds 80/768 = {expected[nats added]:.3f} nats to the mean, and no entry "
    "of its gradient is larger than 1/768.",
    expected={"nats added": 80 / 768, "largest gradient times 768": 1},
    tolerance=1e-6,
    unit="",
)
def one_token() -> Mapping[str, float]:
    """Takes the mean of 768 losses in float64, one of 80 nats and the others 0, and its gradient for that token.

    The tolerance is rounding.
    """
    logits = torch.zeros(768, 2, dtype=torch.float64)
    logits[:, 0] = 80.0  # e^-80 is left for the other
    targets = torch.zeros(768, dtype=torch.int64)
    targets[0] = 1
    loss = F.cross_entropy(logits.requires_grad_(), targets)
    (gradients,) = torch.autograd.grad(loss, logits)
    return {"nats added": loss.item(), "largest gradient times 768": gradients[0].abs().max().item() * 768}


# ------------------------------------------------------------------------------------------------------- other losses
@claim(
    "outlier-share-of-the-gradient",
    "Of four errors of 0.1 and one of 10, the outlier pulls {expected[MSE]:.0f} % of MSE's gradient, {expected[MAE]} "
    "% of MAE's, {expected[Huber]:.0f} % of Huber's.",
    expected={"MSE": 100 * 10 / 10.4, "MAE": 100 / 5, "Huber": 100 * 1 / 1.4},
    tolerance=1e-4,
    unit="%",
)
def outlier_share() -> Mapping[str, float]:
    """Divides the outlier's gradient by the sum of the gradients' sizes; the tolerance is fp32's rounding."""
    shares = {}
    for name, loss_of in (("MSE", F.mse_loss), ("MAE", F.l1_loss), ("Huber", F.huber_loss)):
        errors = torch.tensor([0.1, -0.1, 0.1, -0.1, 10.0], requires_grad=True)
        (gradients,) = torch.autograd.grad(loss_of(errors, torch.zeros(5)), errors)
        shares[name] = 100 * (gradients[4] / gradients.abs().sum()).item()
    return shares


@claim(
    "bce-stops-at-100",
    "For target 0 and a logit of 200, BCELoss of the sigmoid gives {expected[loss after sigmoid]} nats and no "
    "gradient, BCEWithLogitsLoss 200 and {expected[gradient with logits]}.",
    expected={"loss after sigmoid": 100, "its gradient": 0, "loss with logits": 200, "gradient with logits": 1},
    unit="nats",
    source="[BCELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.loss.BCELoss.html)",
)
def bce_stops() -> Mapping[str, float]:
    """Computes both losses in fp32 and differentiates them by the logit."""
    logit = torch.tensor([200.0], requires_grad=True)
    after_sigmoid = F.binary_cross_entropy(logit.sigmoid(), torch.zeros(1))
    with_logits = F.binary_cross_entropy_with_logits(logit, torch.zeros(1))
    gradients = [torch.autograd.grad(loss, logit)[0].item() for loss in (after_sigmoid, with_logits)]
    return {
        "loss after sigmoid": after_sigmoid.item(),
        "its gradient": gradients[0],
        "loss with logits": with_logits.item(),
        "gradient with logits": gradients[1],
    }


def _clip_loss(images: Tensor, captions: Tensor, temperature: float = 1.0) -> float:
    similarity, diagonal = images @ captions.T / temperature, torch.arange(len(images))
    return (F.cross_entropy(similarity, diagonal) + F.cross_entropy(similarity.T, diagonal)).item() / 2


@claim(
    "clip-perfect-without-temperature",
    "Without a temperature, 256 perfect pairs, orthogonal to all others, score ln(1 + 255/e) = "
    "{expected[temperature 1]:.3f} nats, one below chance; with 0.07 they score {expected[temperature 0.07]}.",
    expected={"chance": math.log(256), "temperature 1": math.log(1 + 255 / math.e), "temperature 0.07": 0.0002},
    tolerance=5e-5,
    unit="nats",
)
def clip_perfect() -> Mapping[str, float]:
    """Computes CLIP's loss of 256 equal pairs of unit vectors; chance is the loss when all vectors are equal."""
    ideal, equal = torch.eye(256).double(), torch.ones(256, 1).double()
    return {
        "chance": _clip_loss(equal, equal),
        "temperature 1": _clip_loss(ideal, ideal),
        "temperature 0.07": _clip_loss(ideal, ideal, temperature=0.07),
    }


@claim(
    "clip-chance-grows-with-the-batch",
    "Chance in a contrastive batch rises by ln 4 = {expected:.3f} nats when the batch grows from 256 to 1,024.",
    expected=math.log(4),
    tolerance=1e-6,
    unit="nats",
)
def clip_chance() -> float:
    """Computes CLIP's loss at both sizes with vectors that tell nothing apart, and subtracts."""
    small, large = (_clip_loss(torch.ones(n, 1).double(), torch.ones(n, 1).double()) for n in (256, 1024))
    return large - small


@claim(
    "smoothed-loss-floor",
    "With label smoothing 0.1 over 96 classes no model gets below {expected[smoothed]} nats; there the plain loss is "
    "{expected[plain]}.",
    expected={"smoothed": 0.773, "plain": 0.104},
    tolerance=0.0005,
    unit="nats",
)
def smoothed_floor() -> Mapping[str, float]:
    """Minimizes PyTorch's smoothed loss over the 96 logits with L-BFGS, from 0, and computes both losses there."""
    logits, right = torch.zeros(1, 96, dtype=torch.float64, requires_grad=True), torch.tensor([1])
    optimizer = torch.optim.LBFGS([logits], max_iter=100, line_search_fn="strong_wolfe")

    def smoothed() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(logits, right, label_smoothing=0.1)
        loss.backward()
        return loss

    optimizer.step(smoothed)
    return {"smoothed": smoothed().item(), "plain": F.cross_entropy(logits, right).item()}


# ----------------------------------------------------------------------------------------------------------- rounding
@claim(
    "bf16-total-stands-still",
    "A total of 4.564s in bfloat16 stands still at {expected[total of 1,000]}, where neighbors are "
    "{expected[next number above it minus it]} apart.",
    expected={"total of 1,000": 2048, "next number above it minus it": 16},
    unit="nats",
)
def bf16_total() -> Mapping[str, float]:
    """Adds 4.564 to a bfloat16 zero 1,000 times, and asks for the number that follows 2,048."""
    total = torch.zeros((), dtype=torch.bfloat16)
    for _ in range(1000):
        total += 4.564
    start = torch.tensor(2048.0, dtype=torch.bfloat16)
    next_one = (start.view(torch.int16) + 1).view(torch.bfloat16)  # the bits, counted up by one
    return {"total of 1,000": total.item(), "next number above it minus it": (next_one - start).item()}


# ----------------------------------------------------------------------------------------------- the box and problems
@claim(
    "largest-gap-by-route",
    "In fp32 the loss of a token whose logit is 0 beside a larger one is right up to a gap of "
    "{expected[exp / sum, log]} by exp and sum, of {expected[softmax, log]} by softmax and log, and at every gap up to "
    "200 by cross_entropy.",
    expected={"exp / sum, log": 88, "softmax, log": 103, "cross_entropy": 200},
    unit="nats between the logits",
)
def largest_gap() -> Mapping[str, float]:
    """Raises one of two logits from 1 to 200 and takes the last gap before the loss is off by more than 1 %."""
    routes = {
        "exp / sum, log": lambda z: -(z.exp() / z.exp().sum()).log()[0, 1],
        "softmax, log": lambda z: -z.softmax(-1).log()[0, 1],
        "cross_entropy": lambda z: F.cross_entropy(z, torch.tensor([1])),
    }

    def right(route: Callable[[Tensor], Tensor], gap: int) -> bool:
        exact = math.log(1 + math.exp(gap))
        return math.isclose(route(torch.tensor([[float(gap), 0.0]])).item(), exact, rel_tol=0.01)

    return {
        name: next((gap - 1 for gap in range(1, 201) if not right(route, gap)), 200) for name, route in routes.items()
    }


@claim(
    "loss-functions-problem-answers",
    "Losses of 1 and 3 nats have a perplexity of {expected[perplexity of the mean]} by their mean, and a mean "
    "perplexity of {expected[mean perplexity]}; 2.9 nats per token of 4.2 bytes are {expected[bits per byte, A]} bits "
    "per byte, 0.75 nats per byte {expected[bits per byte, B]}; label smoothing 0.1 over 96 classes is best at a gap "
    "of {expected[best gap]} between the logits.",
    expected={
        "perplexity of the mean": 7.39,
        "mean perplexity": 11.4,
        "bits per byte, A": 0.996,
        "bits per byte, B": 1.082,
        "best gap": 6.76,
    },
    tolerance=0.005,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers of problems 1 to 3 from the numbers that they give."""
    shared = 0.1 / 96
    return {
        "perplexity of the mean": math.exp(2),
        "mean perplexity": (math.exp(1) + math.exp(3)) / 2,
        "bits per byte, A": 2.9 / 4.2 / math.log(2),
        "bits per byte, B": 0.75 / math.log(2),
        "best gap": math.log((0.9 + shared) / shared),
    }
