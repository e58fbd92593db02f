"""Claims of labs/lab-07-ddp.md."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW
from torch.utils.data import DistributedSampler, TensorDataset

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import degrees_between, flat, gradient_of
from rankzero.claims.toolkit.lab_model import CPU, make_batch, make_model, text_batch, token_loss
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.curriculum import find_lab
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_file
from rankzero.exercises.probes.loader import load
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.world import WorldTimeoutError, run_world
from rankzero.learn.profiling.memory import PhaseMemory


def exercises(wrong: str = "") -> Any:
    """The solved exercises; or with one known-wrong solution in place."""
    lab = find_lab("07")
    return load(wrong_file(lab, known_wrong(lab)[wrong]) if wrong else lab.reference)


def weights(model: nn.Module) -> Tensor:
    """All weights laid end to end."""
    return flat(model.parameters())


def small_net(seed: int = 0) -> nn.Sequential:
    """Two layers in float64."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def my_rows_of(step: int) -> tuple[Tensor, Tensor]:
    """This rank's rows of a batch of 12."""
    x, y = torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y[:, :3].chunk(ranks)[rank]


# --------------------------------------------------------------------------------------------------------- the equality
def apart(dtype: torch.dtype) -> float:
    """On one rank: how far the starter's gradient is from that of one process with all 12 sequences."""
    lab, batch = starter("07"), make_batch()
    whole = lab.first_gradient(make_model(), *batch, dtype, parallel=False)
    mine = lab.first_gradient(make_model(), *lab.my_rows(*batch), dtype, parallel=True)
    return ((mine - whole).abs().max() / whole.abs().max()).item()


@claim(
    "lab-07-ranks-equal-the-whole",
    "In float64 the gradient that 2, 3 or 4 ranks hold after backward is that of one process with all 12 sequences, in "
    "12 digits.",
    expected={"2 ranks": 0, "3 ranks": 0, "4 ranks": 0},
    tolerance=1e-12,
    unit="largest difference, of the largest gradient",
)
def ranks_equal() -> Mapping[str, float]:
    """Takes what the starter's train_step hands to the optimizer on each rank, for Lab 02's GPT; the worst rank counts.

    The tolerance is rounding: float64 has 16 digits, and a weight's gradient is a sum over 768 tokens.
    """
    return {f"{ranks} ranks": max(run_world(apart, ranks, torch.float64)) for ranks in (2, 3, 4)}


@claim(
    "lab-07-float32-rounds",
    "In float32 the same gradients agree in 5 digits at least.",
    expected=0,
    tolerance=1e-5,
    unit="largest difference, of the largest gradient",
)
def float32_rounds() -> float:
    """The same comparison on 2 ranks in float32, whose numbers have 7 digits."""
    return max(run_world(apart, 2, torch.float32))


@claim(
    "lab-07-same-losses",
    "20 steps on 2 and on 3 ranks give Lab 02's losses to the third decimal.",
    expected={"2 ranks": 0, "3 ranks": 0},
    tolerance=5e-4,
    unit="nats, largest difference",
)
def same_losses() -> Mapping[str, float]:
    """Runs both starters with a tiny model and compares the losses that they log.

    The tolerance: float32 rounds the gradients in their 7th digit, and AdamW's quotient carries that into the weights.
    """
    steps = "--steps=20"
    alone = logged_losses("02", steps)

    def differ(ranks: str) -> float:
        return max(abs(a - b) for a, b in zip(logged_losses("07", steps, f"--ranks={ranks}"), alone, strict=True))

    return {"2 ranks": differ("2"), "3 ranks": differ("3")}


# --------------------------------------------------------------------------------------------------------- what is sent
def sent_in_three_steps() -> list[list[tuple[str, int]]]:
    """On one rank: collectives and bytes of the first three steps of Lab 02's GPT."""
    model, lab = make_model(), starter("07")
    parallel, optimizer = DistributedDataParallel(model), AdamW(model.parameters())
    found = []
    for _ in range(3):
        with CollectiveCounter() as counter:
            lab.train_step(parallel, optimizer, *lab.my_rows(*make_batch()))
        found.append([(record.collective, record.bytes) for record in counter.records])
    return found


@claim(
    "lab-07-sent-by-step",
    "The first step sends all gradients, {expected[step 1]} bytes, in one all-reduce. In the second, DDP broadcasts "
    "{expected[step 2, broadcast]} bytes that say how it has rebuilt its buckets, and sends "
    "{expected[step 2, first bucket]} and {expected[step 2, second bucket]}. The third sends these again. With each "
    "step go {expected[loss]} bytes for the loss.",
    expected={
        "step 1": 3_232_256,
        "step 1, all-reduces": 2,
        "step 2, broadcast": 120,
        "step 2, first bucket": 1_050_112,
        "step 2, second bucket": 2_182_144,
        "step 3, all-reduces": 3,
        "loss": 4,
    },
    unit="B, or all-reduces",
)
def sent_by_step() -> Mapping[str, float]:
    """Counts what the starter's train_step calls on two ranks, at the process group; both ranks must call the same."""
    first, other = run_world(sent_in_three_steps, 2)
    assert first == other
    reduced = [[size for name, size in step if name == "all_reduce"] for step in first]
    return {
        "step 1": reduced[0][0],
        "step 1, all-reduces": len(reduced[0]),
        "step 2, broadcast": sum(size for name, size in first[1] if name == "broadcast"),
        "step 2, first bucket": reduced[1][0],
        "step 2, second bucket": reduced[1][1],
        "step 3, all-reduces": len(reduced[2]),
        "loss": reduced[0][-1],
    }


def held_by_this_rank() -> int:
    """On one rank: the most activations of the starter's first step."""
    model, lab = make_model(), starter("07")
    parallel, optimizer = DistributedDataParallel(model), AdamW(model.parameters())
    with PhaseMemory(model, optimizer, CPU) as memory:
        lab.train_step(parallel, optimizer, *lab.my_rows(*make_batch()), after=memory.record)
    return max(row.activations for row in memory.rows)


@claim(
    "lab-07-activations-of-a-rank",
    "Of 12 sequences, each of 2 ranks holds the activations of 6: {expected[2 ranks]} MiB, where one process holds "
    "{expected[1 rank]}.",
    expected={"1 rank": 25.14, "2 ranks": 12.58},
    tolerance=0.006,
    unit="MiB",
)
def activations_of_a_rank() -> Mapping[str, float]:
    """Runs the starter's first step in worlds of one and of two ranks and takes the most activations of any phase."""
    return {name: max(run_world(held_by_this_rank, n)) / 2**20 for name, n in (("1 rank", 1), ("2 ranks", 2))}


def ring_bytes(wrong: str) -> float:
    """On one rank: what it sends to sum a vector of 1,200 numbers, in vectors, by an exercise's ring."""
    solved, x = exercises(wrong), torch.ones(1200)
    with CollectiveCounter() as counter:
        solved.ring_all_reduce(x)
    assert bool((x == dist.get_world_size()).all())
    return counter.bytes["send"] / (4 * x.numel())


@claim(
    "lab-07-ring-bytes",
    "The exercise's ring sends 2(K − 1)/K of the vector from each of K ranks: 1, {expected[3 ranks]:.2f} and "
    "{expected[4 ranks]} of it. Where the whole vector travels instead of chunks, 4 ranks send "
    "{expected[4 ranks, whole]} of it each.",
    expected={"2 ranks": 1, "3 ranks": 4 / 3, "4 ranks": 1.5, "4 ranks, whole": 3},
    tolerance=1e-9,
    unit="vectors sent by a rank",
)
def ring_sends() -> Mapping[str, float]:
    """Runs the solved exercise, and one of its known-wrong solutions, on real ranks, and counts the sends."""
    found = {f"{ranks} ranks": max(run_world(ring_bytes, ranks, "")) for ranks in (2, 3, 4)}
    return found | {"4 ranks, whole": max(run_world(ring_bytes, 4, "whole_tensor_travels"))}


def sends_first(numbers: int) -> None:
    """On one rank: every rank sends, then receives."""
    x, ranks = torch.ones(numbers), dist.get_world_size()
    dist.send(x, (dist.get_rank() + 1) % ranks)
    dist.recv(x, (dist.get_rank() - 1) % ranks)


@claim(
    "lab-07-all-send-first",
    "Two ranks that both send first wait for each other, even if they send one number.",
    expected={"1 number": 1, "100,000 numbers": 1},
    unit="hangs",
)
def all_send_first() -> Mapping[str, float]:
    """Lets two ranks send and then receive, over gloo, and sees whether they are done after half a second."""

    def hangs(numbers: int) -> int:
        try:
            run_world(sends_first, 2, numbers, seconds=0.5)
        except WorldTimeoutError:
            return 1
        return 0

    return {f"{numbers:,} number{'s' if numbers > 1 else ''}": hangs(numbers) for numbers in (1, 100_000)}


# ------------------------------------------------------------------------------------------------------------- the bugs
def hooked(what: str) -> Callable[[Tensor], None]:
    """A hook that averages the gradient, or the parameter that it is handed."""

    def average(parameter: Tensor) -> None:
        tensor = parameter.grad if what == "gradient" else parameter.data
        assert tensor is not None
        dist.all_reduce(tensor)
        tensor.div_(dist.get_world_size())

    return average


def train_hooked(what: str, optimizer_class: Any, steps: int) -> tuple[Tensor, Tensor]:
    """On one rank: the weights before and after training with such hooks."""
    model = small_net()
    before = weights(model)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hooked(what))
    optimizer = optimizer_class(model.parameters(), lr=0.01)
    for step in range(steps):
        x, y = my_rows_of(step)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return before, weights(model)


@claim(
    "lab-07-weights-averaged",
    "Hooks that average the weights instead of the gradients nearly train: after 30 SGD steps the mean of 2 ranks' "
    "weights is off by {expected[mean of the ranks]} % of the way they have come. But each rank's are off by "
    "{expected[a rank]} %.",
    expected={"mean of the ranks": 0.1, "a rank": 4.6},
    tolerance=0.05,
    unit="% of the way",
)
def weights_averaged() -> Mapping[str, float]:
    """Trains a small net on 2 ranks with both hooks and compares the weights at the end, by their Euclidean norm."""
    (before, right), _ = run_world(train_hooked, 2, "gradient", SGD, 30)
    (_, one), (_, other) = run_world(train_hooked, 2, "parameter", SGD, 30)
    way = (right - before).norm()
    mean = (one + other) / 2
    off = {"mean of the ranks": mean - right, "a rank": one - right}
    return {name: 100 * (difference.norm() / way).item() for name, difference in off.items()}


def first_batch_with_hooks() -> float:
    """On one rank: how far the gradient is off on Lab 02's first batch if hooks average the parameters."""
    x, y = text_batch()
    whole, mine = make_model(), make_model()
    token_loss(whole, x, y).backward()
    for parameter in mine.parameters():
        parameter.register_post_accumulate_grad_hook(hooked("parameter"))
    token_loss(mine, *starter("07").my_rows(x, y)).backward()
    return ((gradient_of(mine) - gradient_of(whole)).abs().max() / gradient_of(whole).abs().max()).item()


@claim(
    "lab-07-gradient-of-own-rows",
    "On Lab 02's first batch, the gradient of a rank's own 6 sequences is off by {expected} of the largest gradient.",
    expected=0.3,
    tolerance=0.1,
    unit="largest difference, of the largest gradient",
)
def gradient_of_own_rows() -> float:
    """Runs one backward on 2 ranks with hooks that average the parameters, and compares with all 12 sequences.

    The embedded text differs a little between Python versions, and so does the batch: hence the tolerance.
    """
    return max(run_world(first_batch_with_hooks, 2))


def train_from_other_starts(steps: int) -> tuple[Tensor, Tensor]:
    """On one rank: the weights before and after training with averaged gradients, from a start of its own."""
    model = small_net(seed=dist.get_rank())
    before = weights(model)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hooked("gradient"))
    optimizer = SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, y = my_rows_of(step)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return before, weights(model)


@claim(
    "lab-07-different-starts-stay",
    "Ranks that start with different weights and average their gradients are as far apart after 50 SGD steps as "
    "before.",
    expected=0,
    tolerance=1e-12,
    unit="largest change of the difference between two ranks",
)
def different_starts() -> float:
    """Trains a small net on 2 ranks from two seeds, without a broadcast; compares the difference before and after."""
    (before, after), (other_before, other_after) = run_world(train_from_other_starts, 2, 50)
    assert (before - other_before).abs().max() > 0.1
    return ((after - other_after) - (before - other_before)).abs().max().item()


# --------------------------------------------------------------------------------------------------------- accumulation
def sent_with(wrong: str) -> float:
    """On one rank: the bytes of gradients that accumulation in three micro-batches sends, in sets of gradients."""
    solved, model = exercises(wrong), make_model(n_layer=1)
    ddp = DistributedDataParallel(model)
    token_loss(ddp, *starter("07").my_rows(*make_batch())).backward()
    with CollectiveCounter() as counter:
        solved.accumulate(ddp, *starter("07").my_rows(*make_batch()), 3)
    return sum(r.bytes for r in counter.records if r.collective == "all_reduce" and r.bytes > 8) / (
        4 * sum(p.numel() for p in model.parameters())
    )


@claim(
    "lab-07-forward-reads-the-flag",
    "Three micro-batches send the gradients once with `no_sync()` around forward and backward, three times with it "
    "around backward alone, once, too early, with the flag set after forward, and never with it around all.",
    expected={"both": 1, "backward alone": 3, "flag after forward": 1, "all": 0},
    unit="sets of gradients sent",
)
def forward_reads_the_flag() -> Mapping[str, float]:
    """Counts what the solved exercise and three known-wrong solutions send on 2 ranks."""
    ways = {"both": "", "backward alone": "forward_outside", "flag after forward": "flag_set_after_forward"}
    ways["all"] = "never_sent"
    return {name: run_world(sent_with, 2, wrong)[0] for name, wrong in ways.items()}


def gradient_with_register_hook() -> Tensor:
    """On one rank: the gradient after two micro-batches, of which register_hook averages the last one's."""
    lab, model = starter("07"), make_model(n_layer=1).double()
    exercises("last_gradients_only").accumulate(DistributedDataParallel(model), *lab.my_rows(*make_batch()), 2)
    return gradient_of(model)


@claim(
    "lab-07-last-gradients-only",
    "Two micro-batches, with `register_hook` averaging in the last one: the two ranks' gradients point {expected} "
    "degrees apart.",
    expected=68,
    tolerance=15,
    unit="degrees",
)
def last_gradients_only() -> float:
    """Runs a known-wrong solution of `accumulate` on 2 ranks and measures the angle between their gradients.

    The tokens are random, but come from torch's generator, which may change: hence the tolerance.
    """
    first, other = run_world(gradient_with_register_hook, 2)
    return degrees_between(first, other)


# -------------------------------------------------------------------------------------------------------------- sampler
def sampler_of(length: int, ranks: int, rank: int, **how: Any) -> DistributedSampler[int]:
    """torch's sampler of so many samples."""
    return DistributedSampler(TensorDataset(torch.zeros(length)), ranks, rank, **how)


@claim(
    "lab-07-shard-is-torchs",
    "The exercise's shard() gives the indices of torch's DistributedSampler; without set_epoch, that one repeats its "
    "first epoch's order.",
    expected={"other indices": 0, "same order, set_epoch": 0, "same order, forgotten": 1},
    unit="shards that differ; 1 where the order is the same",
)
def shard_is_torchs() -> Mapping[str, float]:
    """Compares both for 90 combinations of length, ranks, epoch, shuffle and drop_last, each rank by itself."""
    shard, other = exercises().shard, 0
    for length in (1, 5, 12, 13, 31):
        for ranks in (2, 3, 4):
            for epoch, shuffle, drop_last in ((0, True, False), (2, True, False), (2, True, True)):
                for how in ({"shuffle": shuffle}, {"shuffle": not shuffle}):
                    if drop_last and length < ranks:
                        continue  # torch's sampler takes more samples than there are
                    for rank in range(ranks):
                        theirs = sampler_of(length, ranks, rank, seed=7, drop_last=drop_last, **how)
                        theirs.set_epoch(epoch)
                        mine = shard(length, rank, ranks, epoch=epoch, seed=7, drop_last=drop_last, **how)
                        other += list(theirs) != mine
    sampler = sampler_of(100, 4, 0, seed=7)
    first, forgotten = list(sampler), list(sampler)
    sampler.set_epoch(1)
    return {
        "other indices": other,
        "same order, set_epoch": int(list(sampler) == first),
        "same order, forgotten": int(forgotten == first),
    }
