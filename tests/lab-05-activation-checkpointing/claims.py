"""Claims of labs/lab-05-activation-checkpointing.md."""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, milliseconds, peak_mib, pick
from rankzero.claims.toolkit.gradients import gradient_of, off_by
from rankzero.claims.toolkit.lab_model import CPU, text_batch
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory
from rankzero.ledger.models import PRESETS

SHAPE = GPTConfig(vocab_size=96, n_layer=9, hidden_dim=64, dropout=0.1)  # the starter's defaults


def make_model(policy: str = "none", **changes: Any) -> Any:
    """The starter's model with seed 0; `changes` are fields of GPTConfig."""
    torch.manual_seed(0)
    model = starter("05").RecomputingGPT(GPTConfig(**(vars(SHAPE) | changes)))
    model.policy = policy
    return model


def first_loss(model: nn.Module) -> Tensor:
    """The loss of the first batch, with dropout from seed 0."""
    x, y = text_batch()
    torch.manual_seed(0)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def kept_and_peak(policy: str, **changes: Any) -> tuple[int, int]:
    """Bytes that autograd keeps after forward, and at the fullest moment."""
    model = make_model(policy, **changes)
    with PhaseMemory(model, torch.optim.SGD(model.parameters()), CPU) as memory:
        loss = first_loss(model)
        memory.record("forward")
        loss.backward()
    return memory.rows[0].activations, memory.peak_activations


@claim(
    "lab-05-equal-in-every-bit",
    "With dropout, under each policy, 0 of the loss and its 453,824 gradients differ in any bit from those of a step "
    "that recomputes nothing.",
    expected={"blocks": 0, "sqrt": 0, "selective": 0},
    unit="numbers that differ",
)
def equal_in_every_bit() -> Mapping[str, float]:
    """Asks the starter to compare its policies on its first batch; before a run it takes two sequences of it."""
    said = starter("05").equality(make_model(), *text_batch(), seed=0).partition(" none: ")[2]
    return {policy: int(count.replace(",", "")) for policy, count in re.findall(r"(\w+) ([\d,]*\d)", said)}


@claim(
    "lab-05-kept-by-policy",
    "After the forward pass the starter's model keeps {expected[none]} MiB of activations; {expected[blocks]} with "
    "each block recomputed, {expected[sqrt]} in √n segments, {expected[selective]} with only attention recomputed.",
    expected={"none": 51.59, "blocks": 2.55, "sqrt": 1.42, "selective": 24.59},
    unit="MiB",
    tolerance=0.005,
)
def kept_by_policy() -> Mapping[str, float]:
    """Counts what autograd keeps for backward under each policy, with dropout 0.1."""
    return {policy: kept_and_peak(policy)[0] / MIB for policy in starter("05").POLICIES}


@claim(
    "lab-05-peak-by-policy",
    "At the fullest moment the starter's model keeps {expected[none]} MiB of activations; {expected[blocks]} with "
    "each block recomputed, {expected[sqrt]} in √n segments, {expected[selective]} with only attention recomputed.",
    expected={"none": 51.59, "blocks": 7.33, "sqrt": 17.48, "selective": 24.67},
    unit="MiB",
    tolerance=0.005,
)
def peak_by_policy() -> Mapping[str, float]:
    """Follows what autograd keeps through forward and backward, recomputation included, and takes the most."""
    return {policy: kept_and_peak(policy)[1] / MIB for policy in starter("05").POLICIES}


@claim(
    "lab-05-one-input-a-block",
    "A recomputed block keeps one tensor [B, T, C] of {expected[recomputed]} bytes; a block that is not recomputed "
    "keeps {expected[kept]:.0f} times as much.",
    expected={"recomputed": 12 * 64 * 64 * 4, "kept": 30.1},
    unit="B, and times as much",
    tolerance=0.05,
)
def one_input_a_block() -> Mapping[str, float]:
    """Counts what models of 9 and of 10 blocks keep, and subtracts."""
    one = {p: kept_and_peak(p, n_layer=10)[0] - kept_and_peak(p, n_layer=9)[0] for p in ("blocks", "none")}
    return {"recomputed": one["blocks"], "kept": one["none"] / one["blocks"]}


@claim(
    "lab-05-runs-per-block",
    "In a step a recomputed block runs twice; with attention alone recomputed, attention twice and the MLP once.",
    expected={"none": 1, "blocks": 2, "sqrt": 2, "selective, attention": 2, "selective, MLP": 1},
    unit="runs",
)
def runs_per_block() -> Mapping[str, float]:
    """Counts the runs of the second block, or of its parts, with a forward hook."""

    def runs(policy: str, part: str) -> int:
        model, count = make_model(policy, n_layer=4), 0

        def ran(*_: object) -> None:
            nonlocal count
            count += 1

        model.get_submodule(part).register_forward_hook(ran)
        first_loss(model).backward()
        return count

    return {
        **{policy: runs(policy, "blocks.1.attention") for policy in ("none", "blocks", "sqrt")},
        "selective, attention": runs("selective", "blocks.1.attention"),
        "selective, MLP": runs("selective", "blocks.1.mlp"),
    }


@claim(
    "lab-05-flops-by-policy",
    "The starter's step takes 1.33 times the FLOPs with each block recomputed or in √n segments, and "
    "{expected[selective]:.2f} times with attention alone.",
    expected={"blocks": 1.329, "sqrt": 1.329, "selective": 1.141},
    unit="times those of none",
    tolerance=0.001,
)
def flops_by_policy() -> Mapping[str, float]:
    """Counts forward and backward of the first batch under each policy."""
    counts = {}
    for policy in starter("05").POLICIES:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            first_loss(make_model(policy)).backward()
        counts[policy] = counter.get_total_flops()
    return {policy: counts[policy] / counts["none"] for policy in ("blocks", "sqrt", "selective")}


@claim(
    "lab-05-resumes-under-another-policy",
    "4 steps that recompute nothing, then 4 more that recompute attention, have the losses of 8 that recompute blocks.",
    expected=0,
    unit="of 8 losses differ",
)
def resumes_under_another_policy() -> float:
    """Runs the starter three times with a small model and dropout, and compares the losses in its logs."""
    with tempfile.TemporaryDirectory() as folder:
        whole = logged_losses("05", "--steps=8")
        parts = logged_losses("05", "--steps=4", "--recompute=none", f"--checkpoint={folder}/saved.pt")
        parts += logged_losses("05", "--steps=8", "--recompute=selective", f"--resume={folder}/saved.pt")
    return sum(a != b for a, b in zip(whole, parts, strict=True))


@contextlib.contextmanager
def broken(**methods: Any) -> Iterator[None]:
    """The starter's Checkpoint with those methods replaced."""
    module = starter("05")
    whole = module.Checkpoint
    module.Checkpoint = type("Checkpoint", (whole,), {name: staticmethod(one) for name, one in methods.items()})
    try:
        yield
    finally:
        module.Checkpoint = whole


def forgets_the_state(ctx: Any, *gradients: Tensor) -> Any:
    """The starter's backward without the three lines that set the random generator."""
    x = ctx.saved_tensors[0].detach().requires_grad_()
    with torch.enable_grad():
        y = ctx.run(x)
    torch.autograd.backward(y, gradients)
    return None, None, x.grad


@claim(
    "lab-05-another-mask",
    "If dropout 0.5 draws another mask in the second run, the loss is the same in every bit, and the gradient is off "
    "by {expected[gradient off by]} of its length.",
    expected={"loss differs by": 0, "gradient off by": 0.62},
    unit="nats, and lengths of the gradient",
    tolerance=0.1,  # one draw of the masks
)
def another_mask() -> Mapping[str, float]:
    """Replaces the starter's backward by one that does not restore the generator, and compares with the plain step."""
    found = []
    for policy, methods in (("none", {}), ("blocks", {"backward": forgets_the_state})):
        with broken(**methods):
            model = make_model(policy, dropout=0.5)
            loss = first_loss(model)
            loss.backward()
        found.append((loss.item(), gradient_of(model)))
    (loss_a, right), (loss_b, wrong) = found
    return {"loss differs by": abs(loss_a - loss_b), "gradient off by": off_by(wrong, right)}


@claim(
    "lab-05-nobody-asks",
    "After frozen embeddings {expected[without]} of the 54 weights of nine recomputed blocks get a gradient if no "
    "input of the node requires a gradient; if one does, all 54 get a gradient.",
    expected={"without": 0, "with": 54},
    unit="weights with a gradient",
)
def nobody_asks() -> Mapping[str, float]:
    """Freezes both embeddings, gives the node an empty tensor that does or does not require a gradient, and counts."""
    found = {}
    for name, asks in (("without", False), ("with", True)):
        model, module = make_model("blocks"), starter("05")
        for embedding in (model.token_embedding, model.position_embedding):
            embedding.requires_grad_(False)
        right = module.checkpoint
        module.checkpoint = lambda run, x, asks=asks, module=module: module.Checkpoint.apply(
            run, torch.empty(0, requires_grad=asks), x
        )
        try:
            first_loss(model).backward()
        finally:
            module.checkpoint = right
        found[name] = sum(p.grad is not None for p in model.blocks.parameters())
    return found


@claim(
    "lab-05-time-against-memory",
    "On a GPU, GPT-2 with each block recomputed takes longer per step and less memory at its peak.",
    expected={"longer": True, "less memory": True},
    unit="",
    needs=("cuda",),
)
def time_against_memory() -> Mapping[str, float]:
    """Times forward and backward of GPT-2 in bf16 with and without PyTorch's checkpoint around each block."""

    class Recomputing(GPT):
        def run_blocks(self, x: Tensor) -> Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    config = pick(PRESETS["gpt2"], GPTConfig(64, block_size=16, n_layer=2, hidden_dim=32))
    ids = torch.zeros(pick(8, 1), config.block_size, dtype=torch.int64, device=gpu())
    times, peaks = {}, {}
    for kind in (GPT, Recomputing):
        model = kind(config).to(gpu())  # type: ignore[arg-type]

        def both(model: nn.Module = model) -> None:
            with torch.autocast(gpu().type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()

        times[kind.__name__], peaks[kind.__name__] = milliseconds(both).median, peak_mib(both)
    return {
        "longer": times["Recomputing"] > times["GPT"],
        "less memory": peaks["Recomputing"] < peaks["GPT"],
    }
