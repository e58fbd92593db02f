"""Plans, compared with counts on a fake cluster and on real ranks: equal bytes and equal numbers of calls."""

import contextlib
import functools
import json
import random
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tiers import sampled
from torch.nn.parallel import DistributedDataParallel
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.cli import plan_command
from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.ledger import Kind
from rankzero.ledger.models import PRESETS, Config, build, find_preset
from rankzero.ledger.plan import pipeline_schedule
from rankzero.ledger.plan.alternatives import alternatives
from rankzero.ledger.plan.collective_traffic import ddp_buckets
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.plan import Plan
from rankzero.ledger.plan.plan_text import would_fit
from rankzero.ledger.plan.simulate import Counted, count_step, simulate
from rankzero.ledger.plot import plot_plan
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

ADAMW = OPTIMIZERS["adamw"]
GPT_TINY = GPTConfig(52, 16, 4, 4, 32)
LLAMA_TINY = LlamaConfig(64, block_size=16, n_layer=4, n_head=4, n_kv_head=2, hidden_dim=32, ffn_dim=48)
runner = CliRunner()


def make(config: Config, layout: Layout, recipe: str = "fp32", **more: Any) -> Plan:
    layout.check(config)
    sizes = {"batch_size": 2, "seq_len": config.block_size} | more
    return Plan("tiny", config, RECIPES[recipe], ADAMW, layout, hardware=HARDWARE["h100"], **sizes)


def count(plan: Plan, stage: int) -> Counted:
    return simulate(
        plan.config,
        plan.recipe,
        plan.optimizer,
        plan.layout,
        batch_size=plan.batch_size,
        seq_len=plan.seq_len,
        stage=stage,
    )


def assert_agrees(plan: Plan, counted: Counted, stage: int) -> None:
    differences = {line.kind: line.difference for line in counted.lines(plan.ledgers[stage])}
    assert set(differences.values()) == {0}, differences
    planned = {(c.operation, c.ranks): 0 for c in plan.collectives_of(stage)}
    assert planned.keys() == counted.totals().keys()
    assert counted.agrees(plan.ledgers[stage], plan.collectives_of(stage)), (
        plan.collectives_of(stage),
        counted.totals(),
    )


# ------------------------------------------------------------------------------------------ planned = fake = real ranks
SHARDED = {
    "fsdp": Layout(data=2, zero=3),
    "fsdp, kept": Layout(data=2, zero=3, reshard=False, micro_batches=2),
    "hybrid": Layout(data=4, zero=3, shard=2),
    "replicas": Layout(data=2, micro_batches=2),
}
SPLIT = {
    "tensor": Layout(tensor=2),
    "sequence": Layout(tensor=2, sequence_parallel=True, micro_batches=2),
    "shards and sequence": Layout(data=2, zero=3, tensor=2, sequence_parallel=True, checkpointing="block"),
}
STAGES = {
    "pipeline": Layout(pipeline=2, micro_batches=4),
    "interleaved": Layout(pipeline=2, micro_batches=4, interleave=2),
    "shards in stages": Layout(data=2, zero=3, pipeline=2, micro_batches=3),
}
CASES = [(GPT_TINY, name) for name in (*SHARDED, *STAGES)] + [
    (LLAMA_TINY, name) for name in (*SHARDED, *SPLIT, *STAGES)
]
LAYOUTS = SHARDED | SPLIT | STAGES
FAST_CASES = {  # shards, tensor parallelism and pipelines; the other cases are proofs
    (GPT_TINY, "hybrid"),
    (LLAMA_TINY, "sequence"),
    (LLAMA_TINY, "shards in stages"),
}


def parameters_of(case: tuple[Config, str]) -> Any:
    config, name = case
    marks = [] if case in FAST_CASES else [pytest.mark.prove]
    return pytest.param(*case, id=f"{type(config).__name__[:-6]}: {name}", marks=marks)


@pytest.mark.parametrize(("config", "name"), [parameters_of(case) for case in CASES])
def test_plans_agree_with_counts_on_fake_and_on_real_ranks(config: Config, name: str) -> None:
    plan = make(config, LAYOUTS[name])
    per_stage = plan.layout.data * plan.layout.tensor
    for stage in range(plan.layout.pipeline):
        assert_agrees(plan, count(plan, stage), stage)
        real = on_real_ranks(plan.layout.world_size, (config, name) in FAST_CASES)
        assert_agrees(plan, real[config, name][stage * per_stage], stage)


@functools.cache
def on_real_ranks(ranks: int, fast: bool) -> dict[tuple[Config, str], list[Counted]]:
    """Returns the counts of each rank, for all cases of this size in one world: a world per case takes minutes."""
    cases = [case for case in CASES if LAYOUTS[case[1]].world_size == ranks and (case in FAST_CASES) == fast]
    by_rank = run_world(_count_here, ranks, [(config, LAYOUTS[name]) for config, name in cases])
    return {case: [counts[index] for counts in by_rank] for index, case in enumerate(cases)}


def _count_here(cases: list[tuple[Config, Layout]]) -> list[Counted]:
    return [
        count_step(config, RECIPES["fp32"], ADAMW, layout, batch_size=2, seq_len=config.block_size)
        for config, layout in cases
    ]


WIDE = GPTConfig(20_000, 8, 10, 4, 256)  # 52 MB of gradients: three buckets


@pytest.mark.parametrize(
    ("config", "ranks"),
    [
        pytest.param(GPT_TINY, 2, id="GPT"),
        pytest.param(LLAMA_TINY, 2, id="Llama"),
        pytest.param(WIDE, 4, id="three buckets", marks=pytest.mark.prove),
    ],
)
def test_ddp_sends_the_planned_buckets(config: Config, ranks: int) -> None:
    plan = make(config, Layout(data=ranks))
    steps = run_world(_buckets_of_ddp, ranks, config)[0]
    (planned,) = plan.collectives
    assert steps[1] == steps[2]  # the first step has other buckets
    assert (planned.calls, planned.bytes) == (len(steps[1]), sum(steps[1]))
    assert planned.calls == (3 if config is WIDE else 1)
    counted = count(plan, 0)
    assert [record.bytes for record in counted.records] == steps[1]


def _buckets_of_ddp(config: Config) -> list[list[int]]:
    model = DistributedDataParallel(build(config))
    buckets = []
    for _ in range(3):
        with CollectiveCounter() as counter:
            model(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
        buckets.append([record.bytes for record in counter.records if record.collective == "all_reduce"])
    return buckets


def test_a_bucket_is_closed_by_the_parameter_that_fills_it() -> None:
    mib = 2**20
    assert ddp_buckets([4 * mib] * 33) == [size * mib for size in (4, 28, 28, 28, 28, 16)]
    assert ddp_buckets([]) == []


def test_pipeline_ranks_send_the_planned_micro_batches() -> None:
    sent = run_world(_sends_of_pytorch, 2, make(LLAMA_TINY, STAGES["pipeline"]).layout)
    for stage, records in enumerate(sent):
        (planned,) = make(LLAMA_TINY, STAGES["pipeline"]).collectives_of(stage)
        assert (planned.calls, planned.bytes) == (len(records), sum(records)) == (4, 4 * 2 * 16 * 32 * 4)


def _sends_of_pytorch(layout: Layout) -> list[int]:
    """Returns the bytes of each send in PyTorch's own pipeline schedule."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    from rankzero.ledger.plan.model_stages import build_part

    rank = dist.get_rank()
    model = build_part(LLAMA_TINY, layout.part(LLAMA_TINY, rank))
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    pipeline = Schedule1F1B(
        stage,
        layout.micro_batches,
        loss_fn=lambda out, y: torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()),
    )
    tokens = torch.zeros(2 * layout.micro_batches, 16, dtype=torch.int64)
    for _ in range(2):  # in the first step the stages exchange their shapes
        with CollectiveCounter() as counter:
            pipeline.step(tokens) if rank == 0 else pipeline.step(target=tokens)
    return [record.bytes for record in counter.records if record.collective == "send"]


FAST_RECIPES = {(GPT_TINY, "amp"), (LLAMA_TINY, "mixed-fp32-accum")}


@pytest.mark.parametrize(
    ("config", "recipe"),
    [
        pytest.param(config, recipe, marks=[] if (config, recipe) in FAST_RECIPES else [pytest.mark.prove])
        for config in (GPT_TINY, LLAMA_TINY)
        for recipe in ("mixed", "mixed-fp32-accum", "mixed-fp32-grad", "bf16", "amp")
    ],
)
def test_plans_of_every_recipe_agree_with_counts(config: Config, recipe: str) -> None:
    plan = make(config, Layout(data=8, zero=3, shard=4), recipe)
    assert_agrees(plan, count(plan, 0), 0)


@pytest.mark.parametrize("seed", sampled(range(8), [0]))
def test_plans_of_random_layouts_agree_with_counts(seed: int) -> None:
    plan = random_plan(random.Random(seed))
    for stage in {0, plan.layout.pipeline - 1}:
        assert_agrees(plan, count(plan, stage), stage)


def random_plan(draw: random.Random) -> Plan:
    """Returns a plan with an uneven vocabulary and rows, and any recipe; draws again until the layout is possible."""
    while True:
        heads, seq_len, blocks = draw.choice([2, 4]), draw.choice([8, 16]), draw.choice([2, 4])
        sizes = (draw.randrange(20, 90), seq_len, blocks, heads)
        config: Config = GPTConfig(*sizes, heads * 8)
        if draw.random() < 0.6:
            config = LlamaConfig(*sizes, draw.choice([1, heads]), heads * 8, draw.choice([20, 24, 48]))
        layout = Layout(
            data=draw.choice([1, 2, 3, 4]),
            zero=draw.choice([0, 3, 3]),
            tensor=1 if isinstance(config, GPTConfig) else draw.choice([1, 2, 4]),
            sequence_parallel=draw.random() < 0.3,
            checkpointing=draw.choice(["none", "block"]),
            shard=draw.choice([None, None, 2]),
            reshard=draw.random() < 0.7,
            pipeline=draw.choice([1, 1, 2]),
            micro_batches=draw.choice([1, 2, 4]),
            interleave=draw.choice([1, 1, 2]),
        )
        recipe = draw.choice([name for name in RECIPES if name != "amp" or layout.tensor == 1])
        with contextlib.suppress(UserError):
            if layout.data > 1 or layout.zero == 0:
                return make(config, layout, recipe, batch_size=draw.choice([1, 3]))


@pytest.mark.prove
def test_a_plan_of_four_kinds_of_parallelism_agrees_with_counts() -> None:
    layout = Layout(
        data=8, zero=3, shard=4, tensor=2, sequence_parallel=True, checkpointing="block", pipeline=2,
        micro_batches=4, interleave=2,
    )  # fmt: skip
    plan = make(LLAMA_TINY, layout, "mixed")
    for stage in (0, 1):
        assert_agrees(plan, count(plan, stage), stage)


@pytest.mark.prove
def test_70b_on_1024_ranks_is_planned_and_counted_in_4_gb() -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (4 * 10**9, 4 * 10**9))"
    code = f"{limit}; from rankzero.cli.app import app; app()"
    command = [
        "plan",
        "llama-3-70b",
        "--data",
        "8",
        "--shard",
        "128",
        "--checkpointing",
        "block",
        "--simulate",
        "--json",
    ]
    result = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    printed = json.loads(result.stdout)
    assert printed["agrees"] is True
    assert printed["ranks"] == 1024
    peak_memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak_memory < 4e9


# ----------------------------------------------------------------------------------------------------------- schedules
@pytest.mark.parametrize(("stages", "micro", "runs"), [(2, 1, 1), (4, 8, 1), (8, 32, 1), (4, 8, 2), (8, 16, 3)])
def test_replayed_schedules_have_the_planned_bubble(stages: int, micro: int, runs: int) -> None:
    orders = [pipeline_schedule.order(stage, stages, micro, runs) for stage in range(stages)]
    ideal = 3 * micro
    seconds = pipeline_schedule.replay(orders, 1 / runs, 2 / runs)
    assert 1 - ideal / seconds == pytest.approx(pipeline_schedule.bubble(stages, micro, runs))
    if runs == 1:
        assert pipeline_schedule.replay([pipeline_schedule.gpipe(micro)] * stages) == pytest.approx(seconds)


def test_1f1b_holds_one_micro_batch_per_stage_from_its_own_to_the_last() -> None:
    def peak(stage: int) -> int:
        return max(sum(state.values()) for state in pipeline_schedule.in_flight(pipeline_schedule.order(stage, 4, 16)))

    assert [peak(stage) for stage in range(4)] == [4, 3, 2, 1]
    assert max(sum(state.values()) for state in pipeline_schedule.in_flight(pipeline_schedule.gpipe(16))) == 16


def test_a_deadlock_of_orders_is_found() -> None:
    backwards_first = [pipeline_schedule.Action(False, 0), pipeline_schedule.Action(True, 0)]
    with pytest.raises(ValueError, match="no rank can go on"):
        pipeline_schedule.replay([backwards_first])


# -------------------------------------------------------------------------------------------------- published figures
def test_flops_give_the_published_utilizations() -> None:
    eight = make(find_preset("llama-3-8b"), Layout(data=8, zero=3), "mixed", batch_size=1)
    per_token = eight.flops / eight.tokens
    assert 100 * 5762 * per_token / 989e12 == pytest.approx(33.7, abs=0.05)  # torchtitan
    assert 100 * 6667 * per_token / 989e12 == pytest.approx(39.0, abs=0.05)


def test_flops_of_mosaicmls_7b_give_the_published_utilization() -> None:
    # MosaicML's model has ALiBi instead of position embeddings; the parameter counts differ by 0.02 %.
    config = GPTConfig(50_432, 2048, 32, 32, 4096)
    plan = make(config, Layout(data=8, zero=3), "mixed", batch_size=1)
    assert 100 * 10_643 * plan.flops / plan.tokens / 989.5e12 == pytest.approx(46.44, abs=0.1)


def test_recomputation_adds_a_third_of_the_flops_if_nearly_all_are_in_blocks() -> None:
    plain, recomputed = (
        make(find_preset("llama-3-70b"), Layout(checkpointing=name), "mixed", batch_size=1)
        for name in ("none", "block")
    )
    ratio = recomputed.hardware_flops / plain.hardware_flops
    assert 1.32 < ratio < 4 / 3  # the output layer does not run again


@pytest.mark.parametrize(("zero", "bytes_each"), [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_bytes_of_states_per_parameter_are_those_of_the_zero_paper(zero: int, bytes_each: float) -> None:
    plan = make(find_preset("llama-2-7b"), Layout(data=64, zero=zero), "mixed", batch_size=1)
    states = plan.ledger.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
    # For the paper's 7.5e9 parameters, these are 120, 31.4, 16.6 and 1.9 GB.
    assert states / 6_738_415_616 == pytest.approx(bytes_each, rel=1e-5)


def test_bytes_per_parameter_with_a_distributed_optimizer_are_those_of_megatron() -> None:
    plan = make(find_preset("llama-2-7b"), Layout(data=8, zero=1), "mixed-fp32-grad", batch_size=1)
    states = plan.ledger.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
    assert states / 6_738_415_616 == pytest.approx(6 + 12 / 8, rel=1e-5)


# ------------------------------------------------------------------------------------------------------------- estimate
def test_parts_of_the_estimate_add_up_and_a_slower_link_costs_time() -> None:
    layout = Layout(data=128, zero=3, tensor=8, sequence_parallel=True)
    fast = make(find_preset("llama-3-70b"), layout, "mixed", batch_size=1)
    slow = make(find_preset("llama-3-70b"), layout, "mixed", batch_size=1, per_node=4)
    assert sum(fast.estimate.parts.values()) == pytest.approx(fast.estimate.seconds)
    assert fast.estimate.hfu == fast.estimate.mfu < 0.5
    assert slow.estimate.tensor > 2 * fast.estimate.tensor
    assert any("leave a node of 4" in warning for warning in slow.warnings)


@pytest.mark.parametrize(
    ("ranks", "stride", "per_node", "world", "ports"),
    [
        (8, 1, 8, 64, None),  # a node: NVLink
        (64, 1, 8, 64, 8),  # eight rings, one per port
        (8, 8, 8, 64, 1),  # one rank in each node
        (4, 4, 8, 64, 2),
        (6, 1, 8, 12, 2),  # the second six: two in one node, four in the next
        (4, 1, 6, 24, 2),
        (6, 1, 8, 6, None),  # all in one node
        (2, 6, 8, 8, None),  # the ends of a pipeline in one node
        (72, 1, 72, 144, None),
        (144, 1, 72, 144, 9),  # as many ports as NVLink carries
    ],
)
def test_a_ring_has_the_bandwidth_of_its_slowest_group(
    ranks: int, stride: int, per_node: int, world: int, ports: int | None
) -> None:
    h100 = HARDWARE["h100"]
    assert h100.bandwidth(ranks, stride, per_node, world) == (h100.nvlink if ports is None else ports * h100.network)


def test_a_single_gpu_reaches_the_assumed_efficiency_except_in_the_update() -> None:
    plan = make(find_preset("gpt2"), Layout(), "mixed", batch_size=8, efficiency=0.4)
    step = plan.estimate
    assert step.compute == pytest.approx(plan.flops / (0.4 * 989e12))
    assert step.seconds == step.compute + step.update


# ---------------------------------------------------------------------------------------------------------- the command
def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, ["plan", *arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("layout", "efficiency", "words"),
    [
        (Layout(data=8, zero=3), 1.0, " at least"),
        (Layout(data=8, zero=3), 0.5, ", estimated"),
        (Layout(data=4, tensor=2), 1.0, ", estimated"),  # their messages may overlap computation
        (Layout(data=4, pipeline=2, micro_batches=4), 1.0, ", estimated"),
    ],
)
def test_only_a_time_at_the_full_peak_with_nothing_exposed_is_a_lower_bound(
    layout: Layout, efficiency: float, words: str
) -> None:
    assert make(find_preset("gpt2"), layout, "mixed", efficiency=efficiency).bound == words


def test_the_command_prints_plan_and_counts() -> None:
    code, output = run("gpt2", "--shard", "64", "--seq", "64", "--simulate")
    assert code == 0, output
    for words in (
        "64 shards (ZeRO-3)",
        "peak",
        "all_gather, 64 shard",
        "A STEP TAKES, estimated",
        "COUNTED",
        "only computed",
    ):
        assert words in output


def test_json_has_every_part_of_the_plan(tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    code, output = run(
        "gpt2", "--data", "2", "--pipeline", "4", "--micro-batches", "2", "--json", "--plot", str(picture)
    )
    printed = json.loads(output)
    assert code == 0
    assert printed["ranks"] == 8
    assert len(printed["stages"]) == 4
    assert printed["bubble"] == pytest.approx(3 / 5)
    assert (
        "4 pipeline stages are more than can be filled by 2 micro-batches: 60% of each rank's time is bubble."
        in printed["warnings"]
    )
    assert picture.stat().st_size > 10_000
    assert run("gpt2", "--plot", str(picture)) == (
        2,
        f"rankzero: {picture} exists already: give another name, or --overwrite.",
    )
    assert run("gpt2", "--plot", str(picture), "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gpt5"], "there is no preset 'gpt5': did you mean gpt2? The names are gpt2, "),
        (
            ["gpt2", "--hardware", "h300"],
            "there is no hardware 'h300': did you mean h200? The names are a100, h100, h200, measured.",
        ),
        (["gpt2", "--tensor", "5"], "5 tensor ranks cannot share 12 heads evenly: use a divisor of 12."),
        (["gpt2", "--pipeline", "5"], "5 pipeline ranks cannot share 12 blocks evenly: use a divisor of 12."),
        (
            ["gpt2", "--pipeline", "4", "--interleave", "2", "--micro-batches", "4"],
            "8 runs of blocks (pipeline ranks times",
        ),
        (["gpt2", "--pipeline", "3", "--interleave", "2", "--micro-batches", "4"], "in groups of 3: 4 are none"),
        (["gpt2", "--interleave", "2"], "use 2 pipeline ranks or more"),
        (["gpt2", "--zero", "2"], "--zero 2 needs ranks to shard over: give --shard 2 or more."),
        (["gpt2", "--keep"], "--keep is about gathered weights"),
        (["gpt2", "--shard", "2", "--zero", "2", "--simulate"], "ZeRO-2 is computed only"),
        (["gpt2", "--tensor", "2", "--simulate"], "a GPT over tensor ranks is computed only"),
        (
            ["llama-2-7b", "--tensor", "2", "--recipe", "amp", "--simulate"],
            "autocast over tensor ranks is computed only",
        ),
        (
            ["llama-2-7b", "--tensor", "8", "--sequence-parallel", "--seq", "100"],
            "8 tensor ranks cannot split 100 tokens",
        ),
        (["gpt2", "--plot", "plan.xyz"], "plan.xyz: a picture's name ends in .png, .svg or .pdf."),
        (["gpt2", "--plot", "no/such/plan.png"], "there is no folder no/such"),
        (["gpt2", "--plot", "/proc/plan.png"], "cannot write /proc/plan.png (No such file or directory)"),
        (["gpt2", "--shard", "2", "--micro-batches", "1000000000"], "micro-batches in a step: use at most 100,000."),
        (["gpt2", "--seq", "2048", "--simulate", "--json"], "sequences of 2048 tokens: this model takes 1 to 1024."),
        (["gpt2", "--seq", "2048"], "sequences of 2048 tokens: this model takes 1 to 1024."),
        (["gpt2", "--shard", "1000000000"], "ranks are more than the model's 124,337,664 parameters"),
    ],
)
def test_mistakes_get_one_sentence(arguments: list[str], sentence: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert sentence in output
    assert "Traceback" not in output
    assert "ONE RANK HOLDS" not in output  # refused before any work


def test_a_vocabulary_that_does_not_divide_gets_a_warning() -> None:
    plan = make(find_preset("gpt2"), Layout(tensor=4), batch_size=1)
    assert plan.warnings == [
        "a vocabulary of 50,257 does not divide by 4 tensor ranks: the first ranks hold 12,565 rows."
    ]


def test_gathered_padding_gets_a_warning() -> None:
    (warning,) = make(find_preset("gpt2"), Layout(data=1024, zero=3), batch_size=1).warnings
    assert warning == "rows do not divide by 1,024 shards: 14% of what is gathered is padding."
    assert make(find_preset("gpt2"), Layout(data=64, zero=3), batch_size=1).warnings == []


def test_the_largest_batch_fits_on_every_stage() -> None:
    layout = Layout(data=8, pipeline=4, micro_batches=8)
    plan = make(find_preset("llama-3-8b"), layout, "mixed", batch_size=1, seq_len=1024)
    # Stage 3 is the fullest with one sequence; with more, it is stage 0, which holds four micro-batches.
    assert plan.stage == 3
    best = plan.largest_batch()
    assert replace(plan, batch_size=best).room >= 0 > replace(plan, batch_size=best + 1).room


def test_the_plot_shows_memory_and_time() -> None:
    left, right = plot_plan(make(PRESETS["gpt2"], Layout(data=8), batch_size=1)).axes
    assert left.get_title() == "tiny, one rank of 8: at most 3.22 GB of 80"
    labels = [label.get_text() for label in right.get_yticklabels()]
    assert labels == ["compute", "update", "hidden communication"]
    assert plot_plan(make(PRESETS["gpt2"], Layout(), batch_size=1)).axes[1].get_xlabel() == "ms of one step, estimated"


DOES_NOT_FIT = (
    "llama-3-70b --shard 1024",  # checkpointing alone
    "llama-3-70b --data 16 --tensor 8 --pipeline 8 --micro-batches 32",  # sequence parallelism is cheaper
    "gpt2 --micro-batch 256 --efficiency 0.4",  # smaller micro-batches
    "gpt2 --micro-batch 113 --hardware a100 --recipe fp32 --optimizer sgd --data 1000",  # of 1: 113 is prime
    "llama-2-7b --data 8",  # shards on the same GPUs
    "llama-3-8b --shard 8 --micro-batch 6 --keep --nodes-of 4",  # two changes together
    "llama-3-8b --pipeline 4 --interleave 2 --micro-batches 8",
    "llama-3-70b",  # more GPUs
    "llama-3-70b --tensor 8 --seq 8190",
    "llama-3-70b --shard 6 --zero 2 --micro-batch 3",
)


@pytest.mark.parametrize("arguments", DOES_NOT_FIT)
def test_a_plan_that_does_not_fit_has_no_speed_but_commands_of_plans_that_fit(arguments: str) -> None:
    code, output = run(*arguments.split())
    assert code == 0
    assert "does not fit" in output
    for speed in ("A STEP TAKES", "tokens/s", "MFU"):
        assert speed not in output
    printed = json.loads(run(*arguments.split(), "--json")[1])
    assert printed["time"] is None
    assert printed["would_fit"]
    for alternative in printed["would_fit"]:
        assert alternative["changes"]
        pasted = alternative["command"].split()
        assert pasted[:2] == ["rankzero", "plan"]
        code, other = run(*pasted[2:])
        assert code == 0, other
        assert "fits," in other
        assert "A STEP TAKES" in other
    assert printed["would_fit"][0]["command"] in output


def test_alternatives_keep_the_batch_and_the_gpus_if_that_suffices() -> None:
    plan = make(find_preset("gpt2"), Layout(data=2), "mixed", batch_size=192, seq_len=1024)
    assert plan.room < 0
    first = alternatives(plan)[0].plan
    assert (first.tokens, first.layout.world_size) == (plan.tokens, 2)


def test_the_cheapest_alternative_is_first() -> None:
    found = alternatives(make(find_preset("llama-2-7b"), Layout(data=8), "mixed", batch_size=1))
    costs = [(other.plan.layout.world_size, other.gpu_hours) for other in found]
    assert len(costs) > 1
    assert costs == sorted(costs)


def test_the_smallest_number_of_gpus_is_named_where_no_change_suffices() -> None:
    _, output = run("llama-3-70b")
    (number,) = re.findall(r"NOTHING FITS on 1 GPU. The smallest number of GPUs that would is (\d+);", output)
    assert f"rankzero plan llama-3-70b --shard {number} --checkpointing block" in output
    fewer = int(number) - 8  # one node
    for tensor in (1, 2, 4, 8):
        sequence = ["--sequence-parallel"] * (tensor > 1)
        shards = ["--shard", str(fewer // tensor), "--tensor", str(tensor)]
        assert "does not fit" in run("llama-3-70b", *shards, *sequence, "--checkpointing", "block")[1]


def test_a_model_for_which_no_cluster_suffices_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(HARDWARE["h100"], memory=10**9)  # less than the gathered weights of one block
    plan = replace(make(find_preset("llama-3-70b"), Layout(), "mixed", batch_size=1), hardware=tiny)
    assert alternatives(plan) == []
    assert would_fit(plan, []).startswith("NOTHING FITS on up to 65,536 GPUs with 8,192 tokens per sequence: use a")


@pytest.mark.parametrize(
    "line", [line for line in (plan_command.plan.__doc__ or "").splitlines() if "rankzero " in line]
)
def test_the_examples_of_the_help_fit(line: str) -> None:
    words = [word for word in line.strip().split("   ")[0].split() if word != "--simulate"]
    assert "fits," in run(*words[2:])[1]


def test_the_example_of_the_readme_fits() -> None:
    examples = re.findall(r"rankzero plan (\S.*?) *#", (ROOT / "README.md").read_text())
    assert examples
    for example in examples:
        assert "fits," in run(*example.split())[1]


def test_a_layout_that_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(UserError, match="ZeRO-1 is computed only"):
        count(make(GPT_TINY, Layout(data=2, zero=1)), 0)
