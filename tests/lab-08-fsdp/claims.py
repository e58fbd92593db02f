"""Claims of labs/lab-08-fsdp.md."""

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, small_gpt
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.curriculum import find_lab
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_file
from rankzero.exercises.probes.loader import load
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.rank_sync import my_rows
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT
from rankzero.learn.profiling.sharded_memory import MeasuredStep, full_values, local_bytes, measure

WAYS = ("reshard", "no reshard", "DDP")


def functions() -> Any:
    """The functions of the lab's starter, for ranks."""
    module = starter("08")
    return SimpleNamespace(**{name: getattr(module, name) for name in ("shard", "train_step", "save", "restore")})


def small_batch(step: int = 0) -> tuple[Tensor, Tensor]:
    """A batch of 12 sequences, the same on every rank."""
    x, y = torch.randint(24, (2, 12, 8), generator=torch.Generator().manual_seed(step))
    return x, y


# -------------------------------------------------------------------------------------------------- bytes and messages
def _measured(lab: Any) -> dict[str, MeasuredStep]:
    """On one rank: the first step of Lab 02's GPT, three ways."""
    x, y = my_rows(*make_batch())
    replica = DistributedDataParallel(make_model())
    ways: dict[str, tuple[nn.Module, AdamW]] = {
        "reshard": lab.shard(make_model(), 1e-3),
        "no reshard": lab.shard(make_model(), 1e-3, reshard=False),
        "DDP": (replica, AdamW(replica.parameters())),
        "root resharded too": _with_root(reshard=True),
    }
    return {name: measure(lab.train_step, *way, x, y) for name, way in ways.items()}


def _with_root(reshard: bool | None) -> tuple[GPT, AdamW]:
    """Lab 02's GPT with blocks that reshard; the root resharded too, or, with None, not made a group at all."""
    model = make_model()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=True)
    if reshard is not None:
        fully_shard(model, reshard_after_forward=reshard)
    return model, AdamW(model.parameters(), lr=1e-3)


@functools.cache
def measured(ranks: int) -> list[dict[str, MeasuredStep]]:
    """The same by rank."""
    return run_world(_measured, ranks, functions())


@claim(
    "lab-08-shares-of-a-rank",
    "Of Lab 02's GPT, 808,064 parameters in fp32, each of 2 ranks holds after a step half of 4P bytes of weights, half "
    "of 4P of gradients and half of 8P of AdamW's averages, to the byte; with DDP all of each.",
    expected={
        "sharded, weights": 4 * 808_064 / 2,
        "sharded, gradients": 4 * 808_064 / 2,
        "sharded, averages": 8 * 808_064 / 2,
        "DDP, all three": 16 * 808_064,
    },
    unit="bytes",
)
def shares() -> Mapping[str, float]:
    """Runs the starter's step in two processes and adds up the local tensors' bytes on the rank that has most."""
    ways = {name: max((one[name] for one in measured(2)), key=lambda one: one.weights) for name in WAYS}
    sharded, replica = ways["reshard"], ways["DDP"]
    return {
        "sharded, weights": sharded.weights,
        "sharded, gradients": sharded.gradients,
        "sharded, averages": sharded.averages,
        "DDP, all three": replica.weights + replica.gradients + replica.averages,
    }


@claim(
    "lab-08-collectives-of-a-step",
    "A step of four blocks and the root: 5 all-gathers in forward and {expected[reshard, gathers, backward]} in "
    "backward with resharding, 5 and {expected[no reshard, gathers, backward]} without; 5 reduce-scatters either "
    "way. Resharding the root too makes it 5 and 5. DDP of this size: one all-reduce.",
    expected={
        "reshard, gathers, forward": 5,
        "reshard, gathers, backward": 4,
        "reshard, scatters": 5,
        "no reshard, gathers, forward": 5,
        "no reshard, gathers, backward": 0,
        "no reshard, scatters": 5,
        "root resharded too, gathers, forward": 5,
        "root resharded too, gathers, backward": 5,
        "root resharded too, scatters": 5,
        "DDP, all-reduces": 1,
    },
    unit="collectives",
)
def collectives() -> Mapping[str, float]:
    """Counts the operations of c10d in the starter's first step, by phase, on rank 0 of 2."""
    found: dict[str, float] = {}
    for name in ("reshard", "no reshard", "root resharded too"):
        calls = measured(2)[0][name].calls
        found[f"{name}, gathers, forward"] = calls["forward"]["all_gather"]
        found[f"{name}, gathers, backward"] = calls["backward"]["all_gather"]
        found[f"{name}, scatters"] = calls["backward"]["reduce_scatter"]
    return found | {"DDP, all-reduces": measured(2)[0]["DDP"].calls["backward"]["all_reduce"]}


@claim(
    "lab-08-messages-of-a-step",
    "The messages of a step of Lab 02's GPT in units of the weights: {expected[reshard]} with resharding, which is 3 "
    "without the root's second gather; {expected[no reshard]} without resharding; {expected[DDP]} with DDP, which a "
    "ring sends twice.",
    expected={"reshard": 2.974, "no reshard": 2.0, "DDP": 1.0},
    tolerance=0.001,
    unit="times 4P bytes",
)
def messages() -> Mapping[str, float]:
    """Adds up the tensors of all collectives: the whole output of a gather, the whole input of a reduction."""
    return {name: measured(2)[0][name].messages / (4 * 808_064) for name in WAYS}


@claim(
    "lab-08-whole-after-forward",
    "When forward ends, a rank holds {expected[reshard]} bytes of whole weights of Lab 02's GPT with resharding, those "
    "of the root, and all {expected[no reshard]} without.",
    expected={"reshard": 82_432, "no reshard": 3_232_256},
    unit="bytes",
)
def whole_after_forward() -> Mapping[str, float]:
    """Between forward and backward, adds up the parameters that are plain tensors at that moment, and not DTensors."""
    return {name: measured(2)[0][name].whole for name in ("reshard", "no reshard")}


@claim(
    "lab-08-rows-of-three-ranks",
    "On 3 ranks, rows of 128, 384 and 512 numbers do not divide: of {expected[all]} parameters ranks 0 and 1 hold "
    "more than rank 2, and all together each once.",
    expected={"rank 0": 270_467, "rank 1": 270_467, "rank 2": 267_130, "all": 808_064},
    unit="parameters",
)
def uneven() -> Mapping[str, float]:
    """Shards the model in three processes and counts the local numbers on each."""
    held = run_world(_parameters_held, 3, functions())
    return {f"rank {rank}": count for rank, count in enumerate(held)} | {"all": sum(held)}


def _parameters_held(lab: Any) -> int:
    model, _ = lab.shard(make_model(), 1e-3)
    return local_bytes(model.parameters()) // 4


def _bytes_by_dtype(lab: Any) -> dict[str, float]:
    model, optimizer = lab.shard(small_gpt().float(), 1e-3, precision="bf16")
    with CollectiveCounter() as counter:
        lab.train_step(model, optimizer, *my_rows(*small_batch()))
    gathers = [record for record in counter.records if record.collective == "all_gather"]
    scatters = [record for record in counter.records if record.collective == "reduce_scatter"]
    return {
        "gather": gathers[1].bytes / (12 * 32**2 + 2 * 32),
        "scatter": scatters[0].bytes / (12 * 32**2 + 2 * 32),
        "kept": local_bytes(model.parameters()) * 2 / sum(p.numel() for p in small_gpt().parameters()),
    }


@claim(
    "lab-08-bf16-on-the-wire",
    "With --precision bf16 a block's gather sends {expected[gather]} bytes per parameter, and its reduce-scatter 4; "
    "all shards together keep 4.",
    expected={"gather": 2, "scatter": 4, "kept": 4},
    unit="bytes per parameter",
)
def bf16_bytes() -> Mapping[str, float]:
    """Counts the messages of the first block's group in one step of a small GPT, and the local bytes times ranks."""
    found = run_world(_bytes_by_dtype, 2, functions())[0]
    return {name: found[name] for name in ("gather", "scatter", "kept")}


# --------------------------------------------------------------------------------------------------------- the equality
def _three_steps(lab: Any) -> dict[str, float]:
    """The largest difference, of the largest weight, after three steps: to one process, and to DDP."""
    alone = small_gpt()
    optimizer = AdamW(alone.parameters(), lr=1e-3)
    model, sharded = lab.shard(small_gpt(), 1e-3)
    replica = DistributedDataParallel(small_gpt())
    both = AdamW(replica.parameters(), lr=1e-3)
    for step in range(3):
        x, y = small_batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(alone(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        lab.train_step(model, sharded, *my_rows(x, y))
        lab.train_step(replica, both, *my_rows(x, y))
    mine = full_values(model.parameters())

    def apart(other: nn.Module) -> float:
        right = full_values(other.parameters())
        return ((mine - right).abs().max() / right.abs().max()).item()

    return {"one process": apart(alone), "DDP": apart(replica)}


@claim(
    "lab-08-three-steps-equal",
    "In float64, after three AdamW steps on 2, 3 and 4 ranks, the sharded weights are those of one process with the "
    "whole batch, and on 2 those of DDP, in 12 digits.",
    expected={"2 ranks": 0, "3 ranks": 0, "4 ranks": 0, "DDP on 2": 0},
    tolerance=1e-12,
    unit="largest difference, of the largest weight",
)
def three_steps_equal() -> Mapping[str, float]:
    """Trains a small GPT each way, in real processes, and compares weight by weight on rank 0."""
    found = {ranks: run_world(_three_steps, ranks, functions())[0] for ranks in (2, 3, 4)}
    return {f"{ranks} ranks": one["one process"] for ranks, one in found.items()} | {"DDP on 2": found[2]["DDP"]}


# ------------------------------------------------------------------------------------------------------- the checkpoint
def _train_and_save(lab: Any, run: Path, steps: int) -> list[float]:
    model, optimizer = lab.shard(small_gpt(), 1e-3)
    losses = []
    for step in range(steps):
        losses.append(lab.train_step(model, optimizer, *my_rows(*small_batch(step))).item())
        if step == 1:
            lab.save(run, model, optimizer, step=2, settings={}, corpus_sha256="")
    return losses


def _go_on(lab: Any, folder: Path, steps: int) -> list[float]:
    model, optimizer = lab.shard(small_gpt(), 1e-3)
    first = lab.restore({"path": folder, "step": 2}, model, optimizer)
    return [lab.train_step(model, optimizer, *my_rows(*small_batch(step))).item() for step in range(first, steps)]


@claim(
    "lab-08-other-ranks-go-on",
    "A run that was saved on 2 ranks and goes on with 1, 3 or 4 has the losses that it would have had on 2.",
    expected={"on 1": 0, "on 3": 0, "on 4": 0},
    tolerance=1e-12,
    unit="largest difference of two losses after it, in nats",
)
def other_ranks_go_on() -> Mapping[str, float]:
    """Saves a small float64 GPT with AdamW after 2 steps, and takes steps 3 and 4 in worlds of other sizes."""
    with tempfile.TemporaryDirectory() as name:
        losses = run_world(_train_and_save, 2, functions(), Path(name), 4)[0]
        folder = Path(name) / "step-000002"
        rest = {ranks: run_world(_go_on, ranks, functions(), folder, 4)[0] for ranks in (1, 3, 4)}
    return {
        f"on {ranks}": max(abs(a - b) for a, b in zip(found, losses[2:], strict=True)) for ranks, found in rest.items()
    }


def _save(lab: Any, run: Path) -> None:
    model, optimizer = lab.shard(make_model(), 1e-3)
    lab.train_step(model, optimizer, *my_rows(*make_batch()))
    lab.save(run, model, optimizer, step=1, settings={}, corpus_sha256="")


@claim(
    "lab-08-file-of-a-rank",
    "Each of 2 ranks writes a file with its shards of weights and averages: half of 12 bytes per parameter, and a few "
    "percent for names and headers.",
    expected={"rank 0": 0.5, "rank 1": 0.5},
    tolerance=0.03,
    unit="of 12P bytes",
)
def file_of_a_rank() -> Mapping[str, float]:
    """Saves Lab 02's GPT after one step in two processes and takes the sizes of the two files."""
    with tempfile.TemporaryDirectory() as name:
        run_world(_save, 2, functions(), Path(name))
        files = sorted((Path(name) / "step-000001").glob("*.distcp"))
        return {f"rank {rank}": file.stat().st_size / (12 * 808_064) for rank, file in enumerate(files)}


# ------------------------------------------------------------------------------------------------------ what goes wrong
def _optimizer_first(lab: Any) -> dict[str, float]:
    model = small_gpt()
    before = full_values(model.parameters()).clone()
    early = AdamW(model.parameters(), lr=1e-3)
    model, _ = lab.shard(model, 1e-3)
    lab.train_step(model, early, *my_rows(*small_batch()))
    found = {"changed": int((full_values(model.parameters()) != before).sum()), "state": len(early.state)}
    kept = sum(p.numel() for group in early.param_groups for p in group["params"])
    return found | {"kept whole": kept / before.numel()}


@claim(
    "lab-08-optimizer-made-first",
    "An AdamW made before sharding changes no weight of a small GPT, has no state, and still holds the whole model.",
    expected={"weights changed": 0, "parameters with state": 0, "of the model kept whole": 1},
    unit="",
)
def optimizer_first() -> Mapping[str, float]:
    """Makes the optimizer, then shards, then takes the starter's step on two ranks, and looks at all three."""
    found = run_world(_optimizer_first, 2, functions())[0]
    return {
        "weights changed": found["changed"],
        "parameters with state": found["state"],
        "of the model kept whole": found["kept whole"],
    }


def _zero1(exercises: Any) -> tuple[list[float], int]:
    torch.manual_seed(dist.get_rank())
    parameters = [nn.Parameter(torch.full((5, 3), 0.5, dtype=torch.float64)), nn.Parameter(torch.ones(9).double())]
    part = exercises.make_part(parameters)
    optimizer = AdamW([part], lr=0.1)
    for _ in range(3):
        for p in parameters:
            p.grad = torch.randn_like(p)
        exercises.zero1_step(parameters, part, optimizer)
    averages = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    return full_values(parameters).tolist(), local_bytes(averages)


@claim(
    "lab-08-plain-adamw-passes",
    "On 2 ranks an unsharded AdamW gives the same weights after three updates as a sharded one, and keeps twice the "
    "state.",
    expected={"largest difference": 0, "state": 2},
    tolerance=1e-12,
    unit="of a weight, and times the sharded one's",
)
def plain_adamw_passes() -> Mapping[str, float]:
    """Runs the reference of the exercise zero1 and its known-wrong solution plain_adamw on the same gradients."""
    lab = find_lab("08")
    impostor = wrong_file(lab, known_wrong(lab)["plain_adamw"])
    weights, state = run_world(_zero1, 2, load(lab.reference))[0]
    theirs, whole_state = run_world(_zero1, 2, load(impostor))[0]
    apart = max(abs(a - b) for a, b in zip(weights, theirs, strict=True))
    return {"largest difference": apart, "state": whole_state / state}


def _after_a_step(lab: Any, root: bool) -> Tensor:
    model, optimizer = lab.shard(make_model(), 1e-3) if root else _with_root(reshard=None)
    lab.train_step(model, optimizer, *my_rows(*make_batch()))
    return full_values([model.token_embedding.weight])


def _relative_difference(exercises: Any, optimizer: type[Optimizer]) -> float:
    """Difference of a matrix after one ZeRO-1 update and one ordinary update, of the ordinary update's largest step."""
    start, gradient = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sharded, alone = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    sharded.grad, alone.grad = gradient.clone(), gradient.clone()
    part = exercises.make_part([sharded])
    exercises.zero1_step([sharded], part, optimizer([part], lr=0.1))  # type: ignore[call-arg]
    optimizer([alone], lr=0.1).step()  # type: ignore[call-arg]
    return ((sharded - alone).abs().max() / (alone - start).abs().max()).item()


@claim(
    "lab-08-optimizers-of-a-shard",
    "One update of a 6 × 4 matrix on 2 ranks: with SGD, AdamW and RMSprop, ZeRO-1 on the flat shard gives the "
    "optimizer's own update; with Adafactor an update that differs by {expected[Adafactor]} of the largest step.",
    expected={"SGD": 0, "AdamW": 0, "RMSprop": 0, "Adafactor": 0.64},
    tolerance=0.005,
    unit="largest difference, of the largest step",
)
def optimizers_of_a_shard() -> Mapping[str, float]:
    """Runs the reference of the exercise zero1 with each of torch's optimizers, and the same optimizer on the matrix.

    Adafactor keeps v by rows and columns of a matrix; a flat shard has neither.
    """
    reference = load(find_lab("08").reference)
    names = ("SGD", "AdamW", "RMSprop", "Adafactor")
    return {name: run_world(_relative_difference, 2, reference, getattr(torch.optim, name))[0] for name in names}


class _PartlyUsed(nn.Module):
    """Two layers, of which forward uses the first; the weights of the second are ones."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        nn.init.ones_(self.unused.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def _unused_after_an_update(exercises: Any) -> dict[str, float]:
    """The unused layer's first weight after one AdamW update, by way of training."""
    own = _PartlyUsed()
    part = exercises.make_part(list(own.parameters()))
    replica, sharded = DistributedDataParallel(_PartlyUsed(), find_unused_parameters=True), _PartlyUsed()
    fully_shard(sharded)
    models = {"ZeRO-1": own, "DDP": replica, "fully_shard": sharded}
    for way, model in models.items():
        optimizer = AdamW([part] if way == "ZeRO-1" else model.parameters(), lr=0.1, weight_decay=0.01)
        model(torch.ones(1, 2)).sum().backward()
        if way == "ZeRO-1":
            exercises.zero1_step(list(model.parameters()), part, optimizer)
        else:
            optimizer.step()
    return {way: full_values(list(model.parameters())[1:])[0].item() for way, model in models.items()}


@claim(
    "lab-08-unused-weight",
    "An unused weight of 1 after one AdamW update with a rate of 0.1 and a decay of 0.01: 0.999 with the exercise's "
    "ZeRO-1, where its gradient is zero; 1 with DDP and fully_shard, where its gradient is None.",
    expected={"ZeRO-1": 0.999, "DDP": 1, "fully_shard": 1},
    tolerance=1e-6,
    unit="the weight after the update",
)
def unused_weight() -> Mapping[str, float]:
    """Trains two layers, of which forward uses one, for one step on two ranks, three ways."""
    return run_world(_unused_after_an_update, 2, load(find_lab("08").reference))[0]


@claim(
    "lab-08-root-forgotten",
    "If the blocks are sharded and the root is not, two ranks have different embeddings after one step, because the "
    "gradients of the embeddings are not averaged. With the root sharded the embeddings are equal.",
    expected={"root sharded": 0, "root forgotten": 1},
    unit="whether the ranks' embeddings differ",
)
def root_forgotten() -> Mapping[str, float]:
    """Takes the starter's step on two ranks, each with its rows, both ways, and compares the whole embeddings."""
    found = {}
    for name, root in (("root sharded", True), ("root forgotten", False)):
        mine, theirs = run_world(_after_a_step, 2, functions(), root)
        found[name] = int(not torch.equal(mine, theirs))
    return found


def _norms(lab: Any) -> dict[str, float]:
    model, optimizer = lab.shard(small_gpt(), 1e-3)
    lab.train_step(model, optimizer, *my_rows(*small_batch()))
    own = torch.cat([p.grad.to_local().flatten() for p in model.parameters()]).norm().item()
    return {"own": own / full_values(p.grad for p in model.parameters()).norm().item()}


@claim(
    "lab-08-norm-of-the-own-part",
    "On 2 ranks the norm of a rank's shard of a small GPT's gradient is about 0.7 of the norm of the whole gradient; "
    "the squares of both ranks add up to {expected[squares together]}.",
    expected={"rank 0": 0.7, "rank 1": 0.7, "squares together": 1},
    tolerance=0.1,
    unit="of the whole gradient's",
)
def own_norms() -> Mapping[str, float]:
    """Takes the norm of the local tensors of p.grad on both ranks, and of the gathered ones."""
    found = [one["own"] for one in run_world(_norms, 2, functions())]
    return {"rank 0": found[0], "rank 1": found[1], "squares together": sum(one**2 for one in found)}


@claim(
    "lab-08-same-losses",
    "Over 10 steps of a small GPT the sharded run's losses are those of Lab 02's starter within 0.0005 nats.",
    expected=0,
    tolerance=5e-4,
    unit="nats, the largest difference of a step",
)
def same_losses() -> float:
    """Runs both starters in fp32, on the same batches of 12 of the embedded text, and compares each step's loss."""
    sharded, alone = (logged_losses(number, "--steps=10") for number in ("08", "02"))
    return max(abs(a - b) for a, b in zip(sharded, alone, strict=True))
