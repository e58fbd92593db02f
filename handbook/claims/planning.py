"""Claims of handbook/planning.md: steps run on a fake cluster, or on real ranks, and counted."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import LiveBytes
from rankzero.learn.distributed.collectives import RING, CollectiveCounter
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.ledger import Kind
from rankzero.ledger.models import PRESETS, Config, build, parameter_count
from rankzero.ledger.plan import model_stages, pipeline_schedule
from rankzero.ledger.plan.collective_traffic import totals
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.plan import Plan
from rankzero.ledger.plan.simulate import Counted, count_step, fake_world, mesh_of, simulate
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

ADAMW = OPTIMIZERS["adamw"]
LLAMA = LlamaConfig(64, block_size=16, n_layer=4, n_head=4, n_kv_head=2, hidden_dim=32, ffn_dim=48)
DEEP = LlamaConfig(64, block_size=16, n_layer=8, n_head=4, n_kv_head=2, hidden_dim=32, ffn_dim=48)


def plan(config: Config, layout: Layout, recipe: str = "fp32", batch_size: int = 2, seq_len: int = 16) -> Plan:
    return Plan("", config, RECIPES[recipe], ADAMW, layout, batch_size, seq_len, HARDWARE["h100"])


def counted(made: Plan, stage: int = 0) -> Counted:
    sizes = {"batch_size": made.batch_size, "seq_len": made.seq_len, "stage": stage}
    return simulate(made.config, made.recipe, made.optimizer, made.layout, **sizes)


def calls(found: Counted) -> Counter[str]:
    return Counter(record.collective for record in found.records)


def sent(found: Counted) -> float:
    """Bytes on the wire, by the rule of the ring."""
    return sum(record.bytes * RING[record.collective](record.ranks) for record in found.records)


def differences(made: Plan, found: Counted, stage: int) -> dict[str, int]:
    """Returns the differences of plan and count: bytes held, calls, bytes of tensors sent."""
    planned, got = totals(made.collectives_of(stage)), found.totals()
    pairs = [(planned.get(key, (0, 0)), got.get(key, (0, 0))) for key in planned | got]
    return {
        "bytes held": sum(abs(line.difference) for line in found.lines(made.ledgers[stage])),
        "calls": sum(abs(a[0] - b[0]) for a, b in pairs),
        "bytes sent": sum(abs(a[1] - b[1]) for a, b in pairs),
    }


# ------------------------------------------------------------------------------------------------- the plan is the step
@claim(
    "plan-equals-fake-cluster",
    "Three layouts, up to 64 fake ranks and four kinds of parallelism at once: planned and counted differ by 0.",
    expected={"bytes held": 0, "calls": 0, "bytes sent": 0},
    unit="",
)
def equals_fake_cluster() -> Mapping[str, float]:
    """Runs a step of a small Llama as one rank of each fake cluster; sums what differs from its plan."""
    layouts = (
        Layout(data=64, zero=3, shard=8),
        Layout(pipeline=2, micro_batches=2, interleave=2),
        Layout(data=4, zero=3, shard=2, tensor=2, sequence_parallel=True, pipeline=2),
    )
    total: Counter[str] = Counter({"bytes held": 0, "calls": 0, "bytes sent": 0})
    for layout in layouts:
        made = plan(LLAMA, layout)
        total.update(differences(made, counted(made, layout.pipeline - 1), layout.pipeline - 1))
    return dict(total)


@claim(
    "plan-equals-real-ranks",
    "On 4 real ranks too, hybrid, tensor-parallel with shards, in a pipeline: planned and counted differ by 0.",
    expected={"bytes held": 0, "calls": 0, "bytes sent": 0},
    unit="",
)
def equals_real_ranks() -> Mapping[str, float]:
    """Runs three steps in a world of 4 processes with gloo, and sums what rank 0 counts beside the plans."""
    layouts = [
        Layout(data=4, zero=3, shard=2),
        Layout(data=2, zero=3, tensor=2, sequence_parallel=True),
        Layout(data=2, pipeline=2, micro_batches=2),
    ]
    total: Counter[str] = Counter({"bytes held": 0, "calls": 0, "bytes sent": 0})
    for layout, found in zip(layouts, run_world(_steps, 4, layouts)[0], strict=True):
        total.update(differences(plan(LLAMA, layout), found, 0))
    return dict(total)


def _steps(layouts: list[Layout]) -> list[Counted]:
    return [count_step(LLAMA, RECIPES["fp32"], ADAMW, layout, batch_size=2, seq_len=16) for layout in layouts]


@claim(
    "plan-8b-on-64",
    "Llama-3-8B over 64 ranks, sharded, bf16 with fp32 masters: {expected[GB of states]:.2f} GB of states on each, "
    "{expected[all-gathers]} all-gathers a step.",
    expected={"GB of states": 2.008, "all-gathers": 65, "reduce-scatters": 33, "GB gathered": 30.02, "to DDP": 1.434},
    unit="",
    tolerance=0.001,
)
def llama_on_64() -> Mapping[str, float]:
    """Runs a step of 8,192 tokens on fake tensors as rank 0 of 64; counts storages and collectives.

    The last number is what the ring sends, over twice the gradients' share that DDP's all-reduce sends.
    """
    config = PRESETS["llama-3-8b"]
    found = counted(plan(config, Layout(data=64, zero=3), "mixed", 1, 8192))
    gathered = sum(record.bytes for record in found.records if record.collective == "all_gather")
    return {
        "GB of states": found.ledger.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER) / 1e9,
        "all-gathers": calls(found)["all_gather"],
        "reduce-scatters": calls(found)["reduce_scatter"],
        "GB gathered": gathered / 1e9,
        "to DDP": sent(found) / (RING["all_reduce"](64) * 2 * parameter_count(config)),
    }


# --------------------------------------------------------------------------------------------------------- on the wire
@claim(
    "plan-fsdp-to-ddp",
    "Sharded weights cost GPT-2 {expected:.2f} times DDP's bytes, not 1.5: its embedding is gathered once.",
    expected=1.342,
    unit="times",
    tolerance=0.001,
)
def fsdp_to_ddp() -> float:
    """Runs a step of 8 tokens as one of 64 fake ranks both ways, and divides the bytes that the ring sends."""
    both = [counted(plan(PRESETS["gpt2"], Layout(data=64, zero=zero), "bf16", 1, 8)) for zero in (3, 0)]
    return sent(both[0]) / sent(both[1])


@claim(
    "plan-ddp-buckets",
    "DDP sends 52.0 MB of fp32 gradients in three buckets: the cap of {expected[third]:.0f} MiB closes one, it is no "
    "maximum.",
    expected={"first": 1.05, "second": 26.23, "third": 24.69},
    unit="MB",
    tolerance=0.01,
)
def buckets() -> Mapping[str, float]:
    """Trains a GPT with 20,000 tokens, 10 blocks and a width of 256 on two real ranks; the third step's all-reduces."""
    sizes = run_world(_buckets, 2)[0]
    return dict(zip(("first", "second", "third"), [size / 1e6 for size in sizes], strict=True))


def _buckets() -> list[int]:
    model = DistributedDataParallel(build(GPTConfig(20_000, 8, 10, 4, 256)))
    for _ in range(3):
        with CollectiveCounter() as counter:
            model(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
    return [record.bytes for record in counter.records if record.collective == "all_reduce"]


@claim(
    "plan-tensor-collectives",
    "Tensor parallelism all-reduces four times per block and twice at the ends; a block that runs again, five times.",
    expected={"2 blocks": 10, "2 blocks, run again": 12, "2 blocks, tokens split": 10},
    unit="large all-reduces, or pairs of all-gather and reduce-scatter",
)
def tensor_collectives() -> Mapping[str, float]:
    """Counts, as one of two fake ranks, the collectives of tensors as large as the activations [B, T, C]."""

    def large(layout: Layout, *names: str) -> int:
        found = counted(plan(replace(LLAMA, n_layer=2), layout)).records
        return sum(record.bytes == 2 * 16 * 32 * 4 and record.collective in names for record in found)

    split = Layout(tensor=2, sequence_parallel=True)
    pairs = {large(split, "all_gather"), large(split, "reduce_scatter")}
    return {
        "2 blocks": large(Layout(tensor=2), "all_reduce"),
        "2 blocks, run again": large(Layout(tensor=2, checkpointing="block"), "all_reduce"),
        "2 blocks, tokens split": pairs.pop() if len(pairs) == 1 else -1,
    }


# ------------------------------------------------------------------------------------------------------------ pipelines
@claim(
    "plan-bubble",
    "4 stages idle 27.3 % of the time with 8 micro-batches, GPipe or 1F1B; {expected[interleaved]:.1f} % with two "
    "runs of blocks each.",
    expected={"1F1B": 27.27, "GPipe": 27.27, "interleaved": 15.79, "1F1B, 32 micro-batches": 8.57},
    unit="%",
    tolerance=0.005,
)
def bubble() -> Mapping[str, float]:
    """Replays the schedules action by action, each when its inputs are there, a backward twice as long as a forward."""

    def idle(orders: list[list[pipeline_schedule.Action]], runs: int = 1) -> float:
        busy = sum(1 if action.forward else 2 for action in orders[0]) / runs
        return 100 * (1 - busy / pipeline_schedule.replay(orders, 1 / runs, 2 / runs))

    return {
        "1F1B": idle([pipeline_schedule.order(stage, 4, 8) for stage in range(4)]),
        "GPipe": idle([pipeline_schedule.gpipe(8)] * 4),
        "interleaved": idle([pipeline_schedule.order(stage, 4, 8, 2) for stage in range(4)], 2),
        "1F1B, 32 micro-batches": idle([pipeline_schedule.order(stage, 4, 32) for stage in range(4)]),
    }


@claim(
    "plan-1f1b-activations",
    "Of 8 micro-batches the first of 4 stages holds the activations of 4 at once, the last of {expected[last stage]}.",
    expected={"first stage": 4, "last stage": 1},
    unit="micro-batches",
)
def held_under_way() -> Mapping[str, float]:
    """Runs both stages on fake ranks, with 8 micro-batches and with 1, and divides the activations held at most."""

    def activations(stage: int, micro_batches: int) -> int:
        made = plan(LLAMA, Layout(pipeline=4, micro_batches=micro_batches))
        return counted(made, stage).ledger.total(Kind.ACTIVATIONS)

    return {
        name: activations(stage, 8) / activations(stage, 1) for name, stage in (("first stage", 0), ("last stage", 3))
    }


# ------------------------------------------------------------------------------------------------ where a plan is wrong
@claim(
    "plan-useless-gathers",
    "In an interleaved pipeline with sharded weights PyTorch's own prefetch gathers {expected[left to guess]} "
    "times; {expected[told]} gathers are needed.",
    expected={"left to guess": 19, "told": 18},
    unit="all-gathers",
)
def useless_gathers() -> Mapping[str, float]:
    """Counts all-gathers of the first of 2 stages, 2 runs of 2 blocks and 2 micro-batches: prefetch named, or not."""
    made = plan(DEEP, Layout(data=4, zero=3, pipeline=2, micro_batches=2, interleave=2))
    named = calls(counted(made))["all_gather"]
    shard = model_stages.shard_weights

    def without_prefetch(*arguments: object) -> None:
        shard(*arguments, prefetch=False)  # type: ignore[arg-type]

    with patch.object(model_stages, "shard_weights", without_prefetch):
        return {"left to guess": calls(counted(made))["all_gather"], "told": named}


@claim(
    "plan-embedding-gradient",
    "Under DTensor each of 4 tensor-parallel ranks holds the whole gradient of an embedding of which it has a quarter.",
    expected=4,
    unit="times its weights",
)
def embedding_gradient() -> float:
    """Runs a step as one of 4 fake ranks, one block, 8,192 tokens in the vocabulary: gradients less weights, and 1."""
    config = LlamaConfig(8192, block_size=16, n_layer=1, n_head=4, n_kv_head=4, hidden_dim=32, ffn_dim=48)
    ledger = counted(plan(config, Layout(tensor=4))).ledger
    own = 8192 * 32 * 4 // 4
    return 1 + (ledger.total(Kind.GRADIENTS) - ledger.total(Kind.WEIGHTS)) / own


@claim(
    "plan-peak-tracked",
    "The planned peak of sharded blocks is 0.0 % above the tracked one for GPT-2's, "
    "{expected[2 blocks of llama-3-8b, 2,048 tokens]} for Llama-3-8B's.",
    expected={"4 blocks of gpt2, 1,024 tokens": 0.0, "2 blocks of llama-3-8b, 2,048 tokens": 11.7},
    unit="% above",
    tolerance=0.05,
)
def peak_tracked() -> Mapping[str, float]:
    """PyTorch's FSDPMemTracker watches two steps in bf16 as one of 64 fake ranks, and keeps the highest total."""
    short = replace(PRESETS["llama-3-8b"], n_layer=2)
    found = {}
    for name, config, seq_len in (
        ("4 blocks of gpt2", replace(PRESETS["gpt2"], n_layer=4), 1024),
        ("2 blocks of llama-3-8b", short, 2048),
    ):
        made = plan(config, Layout(data=64, zero=3), "bf16", 1, seq_len)
        found[f"{name}, {seq_len:,} tokens"] = 100 * (made.ledger.peak()[1] / tracked(made) - 1)
    return found


def loss_memory(convert: bool) -> int:
    """Most bytes alive in a loss on bf16 logits [1, 8192, 128256] and its backward, with logits in fp32 or not."""
    with FakeTensorMode():
        logits = torch.empty(8192, 128_256, dtype=torch.bfloat16, requires_grad=True)
        targets = torch.zeros(8192, dtype=torch.int64)
        with LiveBytes() as live:
            F.cross_entropy(logits.float() if convert else logits, targets).backward()
    return live.peak


@claim(
    "plan-loss-in-fp32",
    "For 8,192 tokens of Llama-3-8B the loss holds {expected[bf16]} GB beside its bf16 logits, as the plan counts, and "
    "{expected[fp32]} GB if the logits are converted to fp32 first.",
    expected={"planned": 6.304, "bf16": 6.304, "fp32": 12.608},
    unit="GB",
    tolerance=0.01,
)
def loss_in_fp32() -> Mapping[str, float]:
    """Follows the storages of cross-entropy and its backward, without data; the plan's rows of the loss beside them."""
    rows = plan(PRESETS["llama-3-8b"], Layout(), "mixed", 1, 8192).ledger.rows
    planned = sum(row.bytes for row in rows if row.name in ("loss: log-probabilities", "loss: two gradients"))
    return {"planned": planned / 1e9, "bf16": loss_memory(convert=False) / 1e9, "fp32": loss_memory(convert=True) / 1e9}


@claim(
    "planning-problem-answers",
    "Of {expected[parameters]:.2f} billion parameters 1,024 replicas hold {expected[GB of states]:.0f} GB of states "
    "each. A bubble under 10 % of the time takes {expected[micro-batches of 8 stages]} micro-batches on 8 stages.",
    expected={
        "parameters": 70.55,
        "GB of states": 1128.9,
        "micro-batches of 8 stages": 63,
        "interleaved twice": 32,
        "pipeline to tensor, bytes": 0.0089,
        "MB of a GPT-2 slice on 64": 31.1,
    },
    unit="as named",
    tolerance=0.05,
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers of the chapter's problems."""
    parameters = parameter_count(PRESETS["llama-3-70b"])

    def enough(runs: int) -> int:
        return next(m for m in range(1, 999) if pipeline_schedule.bubble(8, m, runs) <= 0.1)

    return {
        "parameters": parameters / 1e9,
        "GB of states": 16 * parameters / 1e9,
        "micro-batches of 8 stages": enough(1),
        "interleaved twice": enough(2),
        "pipeline to tensor, bytes": 2 / (4 * 32 * 2 * 7 / 8),
        "MB of a GPT-2 slice on 64": 16 * parameter_count(PRESETS["gpt2"]) / 64 / 1e6,
    }


def tracked(made: Plan) -> int:
    """The highest total of tracked bytes in two steps."""
    with fake_world(made.layout.world_size), warnings.catch_warnings(action="ignore"):
        mesh = mesh_of(made.layout)
        with torch.device("meta"):
            runs = model_stages.parallelize(made.config, made.recipe, made.layout, mesh, 0).bfloat16()
        with FakeTensorMode(allow_non_fake_inputs=True):
            model_stages.off_meta(runs)
            optimizer = AdamW(runs.parameters(), foreach=False)
            x, y = torch.randint(made.config.vocab_size, (2, made.batch_size, made.seq_len))
            tracker = FSDPMemTracker(runs[0], optimizer)
            tracker.track_inputs((x, y))
            with tracker:
                for step in range(2):
                    F.cross_entropy(runs[0](x).flatten(0, 1), y.flatten()).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if step == 0:
                        tracker.reset_mod_stats()
            snapshot = tracker.get_tracker_snapshot("peak")
    return max(size for found in snapshot.values() for kind, size in found.items() if str(kind).endswith("Total"))
