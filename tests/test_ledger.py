"""Ledger: predictions agree with measurements to the byte, and impossible settings are refused in one sentence."""

import random
import re
from typing import Any

import pytest
import torch
from matplotlib.patches import Rectangle

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.ledger.ledger import PHASES, Kind, Ledger, LedgerError, Row, compare
from rankzero.ledger.measure import SavedTensors, measure
from rankzero.ledger.models import PRESETS, Config, build, find_preset, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plot import plot_ledgers
from rankzero.ledger.predict import largest_micro_batch, predict, states_per_rank
from rankzero.ledger.published import ReferenceLayer, korthikanti
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES, bytes_per_parameter, find_optimizer, find_recipe

ADAMW = OPTIMIZERS["adamw"]
EXACT = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER, Kind.ACTIVATIONS, Kind.KV_CACHE)


def random_config(seed: int) -> Config:
    """Returns the config of a small GPT for even seeds, of a small Llama for odd seeds."""
    draw = random.Random(seed)
    heads, head_dim = draw.choice([2, 4, 6]), draw.choice([4, 8, 16])
    sizes = {
        "vocab_size": draw.randrange(11, 400),
        "block_size": draw.randrange(8, 40),
        "n_layer": draw.randrange(1, 4),
        "n_head": heads,
        "hidden_dim": heads * head_dim,
    }
    if seed % 2 == 0:
        return GPTConfig(**sizes)
    return LlamaConfig(**sizes, n_kv_head=draw.choice([1, 2, heads]), ffn_dim=draw.randrange(5, 200))


def predict_and_measure(
    config: Config, recipe: str, optimizer: str = "adamw", **settings: Any
) -> tuple[Ledger, Ledger]:
    step: dict[str, Any] = {"batch_size": 3, "seq_len": config.block_size - 1}
    step |= {"recipe": RECIPES[recipe], "optimizer": OPTIMIZERS[optimizer]}
    return predict(config, **step), measure(config, **step, **settings)


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "amp"])
@pytest.mark.parametrize("seed", range(20))  # ten GPTs and ten Llamas
def test_prediction_and_measurement_agree_to_the_byte(seed: int, recipe: str) -> None:
    predicted, measured = predict_and_measure(random_config(seed), recipe, peaks=False)
    differences = {line.kind: line.difference for line in compare(predicted, measured) if line.kind in EXACT}
    assert differences == dict.fromkeys(EXACT, 0)


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_every_recipe_is_predicted_to_the_byte(recipe: str) -> None:
    predicted, measured = predict_and_measure(random_config(0), recipe, peaks=False)
    assert [line.difference for line in compare(predicted, measured) if line.kind in EXACT] == [0] * len(EXACT)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_other_optimizers_are_predicted_to_the_byte(optimizer: str) -> None:
    predicted, measured = predict_and_measure(random_config(1), "fp32", optimizer, peaks=False)
    assert predicted.total(Kind.OPTIMIZER) == measured.total(Kind.OPTIMIZER)


def test_fake_tensors_count_the_same_as_real_ones() -> None:
    config = random_config(3)
    (_, real), (_, fake) = predict_and_measure(config, "amp"), predict_and_measure(config, "amp", device="fake")
    assert real == fake


@pytest.mark.parametrize("recipe", ["fp32", "mixed", "bf16-fp32-accum"])
def test_temporary_buffers_of_a_large_vocabulary_are_predicted_to_the_byte(recipe: str) -> None:
    # The prediction is for models in which the loss has the largest temporary tensors.
    predicted, measured = predict_and_measure(GPTConfig(5000, 16, 2, 2, 32), recipe)
    assert predicted.total(Kind.TEMPORARY) == measured.total(Kind.TEMPORARY)
    assert predicted.peak() == measured.peak()


@pytest.mark.parametrize("recipe", ["fp32", "mixed", "amp"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_recomputed_blocks_are_predicted_to_the_byte(seed: int, recipe: str) -> None:
    config, chosen_recipe = random_config(seed), RECIPES[recipe]
    sizes: Any = {"batch_size": 3, "seq_len": 7}
    predicted = predict(config, chosen_recipe, ADAMW, layout=Layout(checkpointing="block"), **sizes)
    measured = measure(config, chosen_recipe, ADAMW, checkpointing="block", peaks=False, **sizes)
    differences = {line.kind: line.difference for line in compare(predicted, measured) if line.kind in EXACT}
    assert differences == dict.fromkeys(EXACT, 0)


def test_the_larger_of_loss_buffers_and_recomputed_block_counts() -> None:
    large, small = GPTConfig(5000, 16, 2, 2, 32), GPTConfig(50, 16, 2, 2, 32)
    for config, name in ((large, "loss: two gradients"), (small, "one block, run again")):
        sizes: Any = {"batch_size": 3, "seq_len": 16}
        predicted = predict(config, RECIPES["fp32"], ADAMW, layout=Layout(checkpointing="block"), **sizes)
        backward = [row.name for row in predicted.rows if row.kind is Kind.TEMPORARY and "update" not in row.name]
        assert backward == [name]
        if config is large:
            measured = measure(config, RECIPES["fp32"], ADAMW, checkpointing="block", **sizes)
            assert predicted.total(Kind.TEMPORARY) == measured.total(Kind.TEMPORARY)
            assert predicted.peak() == measured.peak()


@pytest.mark.prove
def test_a_7b_model_is_measured_with_fake_tensors() -> None:
    config = PRESETS["llama-2-7b"]
    measured = measure(
        config, RECIPES["mixed"], ADAMW, batch_size=1, seq_len=config.block_size, device="fake", peaks=False
    )
    assert measured.total(Kind.WEIGHTS) == 2 * 6_738_415_616
    assert measured.total(Kind.KV_CACHE) == 2 * 2**30


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt2", 124_337_664),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
    ],
)
def test_presets_have_their_published_sizes(name: str, parameters: int) -> None:
    assert parameter_count(find_preset(name)) == parameters


@pytest.mark.parametrize("seed", [0, 1])
def test_the_parameter_count_is_that_of_the_built_model(seed: int) -> None:
    config = random_config(seed)
    assert parameter_count(config) == sum(p.numel() for p in build(config).parameters())


def test_bytes_per_parameter_of_each_recipe() -> None:
    assert {name: bytes_per_parameter(recipe, ADAMW) for name, recipe in RECIPES.items()} == {
        "fp32": 16,
        "amp": 18,
        "mixed": 16,
        "mixed-fp32-accum": 20,
        "mixed-fp32-grad": 18,
        "bf16": 8,
        "bf16-fp32-accum": 12,
    }


def test_zero_stages_have_the_bytes_of_the_paper() -> None:
    grid = {
        ranks: [
            round(states_per_rank(7.5e9, RECIPES["mixed"], ADAMW, zero=stage, ranks=ranks) / 1e9, 3)
            for stage in range(4)
        ]
        for ranks in (4, 64, 1024)
    }
    assert grid[64] == [120.0, 31.406, 16.641, 1.875]
    assert grid[4] == [120.0, 52.5, 41.25, 30.0]
    assert grid[1024] == [120.0, 30.088, 15.103, 0.117]


def test_a_layout_divides_the_ledger() -> None:
    config = GPTConfig(1024, 64, 2, 8, 64)
    sizes: Any = {"batch_size": 2, "seq_len": 64}
    whole = predict(config, RECIPES["mixed"], ADAMW, **sizes)
    sharded = predict(config, RECIPES["mixed"], ADAMW, layout=Layout(data=4, zero=3), **sizes)
    for kind in (Kind.WEIGHTS, Kind.GRADIENTS):
        assert sharded.total(kind) * 4 == whole.total(kind)  # every tensor divides by 4
    assert sharded.total(Kind.ACTIVATIONS) == whole.total(Kind.ACTIVATIONS)

    split = predict(config, RECIPES["mixed"], ADAMW, layout=Layout(tensor=8, sequence_parallel=True), **sizes)
    rows = {row.name: row.bytes for row in whole.rows}
    for row in split.rows:
        if row.kind is Kind.ACTIVATIONS:
            # Inputs of split products are gathered first, and DTensor keeps them whole; other activations are divided.
            whole_row = (row.name.endswith(": input") and "norm" not in row.name) or row.bytes == rows[row.name] < 2000
            assert row.bytes * (1 if whole_row else 8) == rows[row.name], row.name

    recomputed = predict(config, RECIPES["mixed"], ADAMW, layout=Layout(checkpointing="block"), **sizes)
    block_inputs = next(row for row in recomputed.rows if row.name == "block inputs")
    assert block_inputs.bytes == 2 * 2 * 64 * 64 * 2  # 2 layers, sbh elements, 2 bytes: Korthikanti's 2sbh per layer


@pytest.mark.parametrize(("s", "b", "h", "a"), [(32, 3, 64, 4), (16, 1, 128, 8)])
def test_a_published_formula_agrees_with_the_saved_bytes_of_its_layer(s: int, b: int, h: int, a: int) -> None:
    layer = ReferenceLayer(h, a).bfloat16()
    saved = SavedTensors(layer)
    with saved.active():
        layer(torch.randn(b, s, h, dtype=torch.bfloat16, requires_grad=True))
    statistics = 8 * s * b  # mean and 1/std of two norms, which the paper leaves out
    assert sum(saved.by_module.values()) == korthikanti(s, b, h, a) + statistics


def test_published_formulas_agree_in_common_cases() -> None:
    shape = (2048, 4, 6144, 64)
    sbh, squares = 2048 * 4 * 6144, 5 * 64 * 2048 / 6144
    assert korthikanti(*shape) == sbh * (34 + squares)
    assert korthikanti(*shape, t=8) == sbh * (10 + 24 / 8 + squares / 8)
    assert korthikanti(*shape, t=8, sequence_parallel=True) == pytest.approx(korthikanti(*shape) / 8, rel=1e-12)
    assert korthikanti(*shape, t=8, sequence_parallel=True, recompute="selective") == sbh * 34 / 8
    assert korthikanti(*shape, recompute="full") == 2 * sbh
    with pytest.raises(UserError, match="no recomputation 'some'"):
        korthikanti(*shape, recompute="some")  # type: ignore[arg-type]


def test_the_largest_micro_batch_fits_and_the_next_does_not() -> None:
    config, recipe = PRESETS["gpt2"], RECIPES["fp32"]
    budget = 16 * 10**9
    best = largest_micro_batch(config, recipe, ADAMW, seq_len=1024, budget=budget)

    def peak(batch_size: int) -> int:
        return predict(config, recipe, ADAMW, batch_size=batch_size, seq_len=1024).peak()[1]

    assert peak(best) <= budget < peak(best + 1)
    assert largest_micro_batch(config, recipe, ADAMW, seq_len=1024, budget=10**9) == 0


def test_the_table_of_a_large_model_fits_80_columns() -> None:
    ledger = predict(PRESETS["llama-2-7b"], RECIPES["mixed"], ADAMW, batch_size=4, seq_len=4096)
    lines = ledger.table().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.fullmatch(r"optimizer state +80\.86 GB +80,860,988,\d{3} B", line) for line in lines)


def test_eight_bit_adam_is_predicted_and_not_measured() -> None:
    config = GPTConfig(1024, 64, 2, 8, 64)
    predicted = predict(config, RECIPES["fp32"], OPTIMIZERS["adam8bit"], batch_size=1, seq_len=8)
    large = 1024 * 64 + 64 * 64 + 2 * 12 * 64**2  # elements of tensors with 4,096 or more
    small = 5 * 64
    assert predicted.total(Kind.OPTIMIZER) == 2 * (large + 4 * large // 256 + 4 * small)
    with pytest.raises(UserError, match="adam8bit is not in PyTorch"):
        measure(config, RECIPES["fp32"], OPTIMIZERS["adam8bit"], batch_size=1, seq_len=8)


def test_rows_refuse_meaningless_operations() -> None:
    weights, gradients = Row(Kind.WEIGHTS, "a", 4), Row(Kind.GRADIENTS, "a", 4)
    assert (weights + weights).bytes == (weights * 2).bytes == 8
    with pytest.raises(LedgerError, match=r"1\.5 is not a whole number of bytes"):
        Row(Kind.WEIGHTS, "a", 1.5)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="-1 is not a whole number"):
        Row(Kind.WEIGHTS, "a", -1)
    with pytest.raises(LedgerError, match="weights, a does not add to gradients, a"):
        weights + gradients
    with pytest.raises(LedgerError, match="compare totals"):
        weights < gradients  # noqa: B015
    with pytest.raises(LedgerError, match="'lunch' is no phase"):
        Ledger("", (weights,)).at("lunch")


def test_ledgers_add_row_by_row() -> None:
    first = Ledger("one", (Row(Kind.WEIGHTS, "a", 4), Row(Kind.KV_CACHE, "k", 9)))
    second = Ledger("two", (Row(Kind.WEIGHTS, "a", 2), Row(Kind.WEIGHTS, "b", 1)))
    assert [(row.name, row.bytes) for row in (first + second).rows] == [("a", 6), ("k", 9), ("b", 1)]
    assert (first + second).total() == 7  # training holds no KV cache


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: GPTConfig(96, 64, 4, 3, 128), "hidden_dim 128 does not divide into 3 attention heads"),
        (lambda: GPTConfig(96, 64, 0, 4, 128), "n_layer is 0: it must be at least 1"),
        (lambda: LlamaConfig(96, n_head=8, n_kv_head=3), "8 attention heads cannot share 3 heads"),
        (lambda: LlamaConfig(96, hidden_dim=100, n_head=32), "attention heads of even width"),
        (lambda: find_preset("gpt5"), "there is no preset 'gpt5': use one of gpt2, "),
        (lambda: find_recipe("fp8"), "there is no recipe 'fp8': use one of fp32, "),
        (lambda: find_optimizer("lion"), "there is no optimizer 'lion'"),
        (
            lambda: Layout(data=10**9).check(PRESETS["gpt2"]),
            "1,000,000,000 ranks are more than the model's 124,337,664",
        ),
        (lambda: Layout(data=0).check(PRESETS["gpt2"]), "0 data ranks: there must be at least 1"),
        (lambda: Layout(zero=4).check(PRESETS["gpt2"]), "there is no ZeRO stage 4"),
        (lambda: Layout(tensor=5).check(PRESETS["gpt2"]), "5 tensor ranks cannot share 12 heads"),
        (lambda: Layout(checkpointing="all").check(PRESETS["gpt2"]), "there is no checkpointing 'all'"),
        (lambda: Layout(sequence_parallel=True).check(PRESETS["gpt2"]), "use 2 tensor ranks or more"),
        (lambda: predict_and_measure(GPTConfig(96, dropout=0.1), "fp32"), "without dropout, not with dropout 0.1"),
        (
            lambda: predict(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, batch_size=0, seq_len=8),
            "a micro-batch of 0 sequences",
        ),
        (
            lambda: predict(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, batch_size=1, seq_len=1025),
            "sequences of 1025 tokens: this model takes 1 to 1024",
        ),
    ],
)
def test_impossible_settings_get_one_sentence(call: object, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        call()  # type: ignore[operator]
    assert sentence in str(error.value)


def test_the_bars_of_the_plot_have_the_bytes_of_each_phase() -> None:
    predicted = predict(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, batch_size=1, seq_len=64)
    axes = plot_ledgers(predicted).axes[0]
    tops = [0.0] * len(PHASES)
    for patch in axes.patches:
        assert isinstance(patch, Rectangle)
        index = round(patch.get_x() + patch.get_width() / 2)
        tops[index] = max(tops[index], patch.get_y() + patch.get_height())
    assert tops == pytest.approx([sum(predicted.at(phase).values()) / 1e9 for phase in PHASES])
