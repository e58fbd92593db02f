"""Predicted ledger: the memory of one rank, computed from sizes alone, without a model.

Weights, gradients, optimizer state, KV cache and activations are exact for the models of `learn` on the CPU
(`tests/test_ledger.py` holds them against measurements, to the byte). Temporary and communication buffers depend on the
implementation; their rows name the implementation.
"""

from dataclasses import replace

from rankzero.errors import UserError
from rankzero.ledger.activations import Kept, kept_bytes, kept_tensors, sizes_of
from rankzero.ledger.ledger import BEGIN, END, FORWARD, PHASES, UPDATE, Kind, Ledger, Row
from rankzero.ledger.models import Config, Weight, weights_of
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.shard_buffers import buffers_of, units_of
from rankzero.ledger.recipes import EIGHT_BIT_BLOCK, EIGHT_BIT_SMALLEST, Optimizer, Recipe


def predict(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    *,
    batch_size: int,
    seq_len: int,
    layout: Layout | None = None,
    stage: int = 0,
) -> Ledger:
    """Returns the memory of one rank that trains on micro-batches of `batch_size` sequences of `seq_len` tokens.

    The rank is the first rank of pipeline stage `stage`; where parts are unequal, the first part is the largest.
    UserError for impossible sizes.
    """
    layout = layout or Layout()
    layout.check(config)
    if batch_size < 1:
        raise UserError(f"a micro-batch of {batch_size} sequences: there must be at least 1.")
    if not 1 <= seq_len <= config.block_size:
        raise UserError(f"sequences of {seq_len} tokens: this model takes 1 to {config.block_size}.")
    if layout.sequence_parallel and seq_len % layout.tensor:
        raise UserError(f"{layout.tensor} tensor ranks cannot split {seq_len} tokens evenly: use a multiple.")
    tokens = batch_size * seq_len
    if tokens * max(config.vocab_size, config.n_layer * config.hidden_dim) > 10**16:
        raise UserError(f"{tokens:,} tokens in a step of this model are more than any machine holds: use fewer.")
    part = layout.part(config, stage)
    weights = weights_of(config, part)
    rows = [
        *weight_rows(weights, recipe, layout),
        *gradient_rows(weights, recipe, layout),
        *optimizer_rows(weights, recipe, optimizer, layout),
        *backward_rows(config, recipe, optimizer, batch_size, seq_len, layout, stage),
        kv_cache_row(config, batch_size, seq_len, recipe.copy or recipe.weight, layout.tensor),
    ]
    return Ledger("predicted", tuple(row for row in rows if row.bytes))


def backward_rows(
    config: Config, recipe: Recipe, optimizer: Optimizer, batch_size: int, seq_len: int, layout: Layout, stage: int
) -> list[Row]:
    """Returns activations, temporary and communication buffers at the moment of backward that holds most of them.

    That moment is the beginning, in the loss; or, with sharded weights, in a block, whose buffers may be larger: by
    then the tensors that the end of the model kept are freed.
    """
    weights = weights_of(config, layout.part(config, stage))
    sizes = batch_size, seq_len, layout, stage
    activations = activation_rows(config, recipe, *sizes)
    temporary = temporary_rows(config, recipe, optimizer, *sizes)
    if layout.zero < 3 or layout.data == 1:
        return [*activations, *temporary, *communication_rows(weights, recipe, layout)]
    always, in_block, at_end = buffers_of(weights, recipe, layout)
    rerun = block_again(config, recipe, batch_size, seq_len, layout)
    ends = {kept.name for kept in kept_tensors(config, recipe) if kept.where == "last"}
    loss = Row(Kind.TEMPORARY, "loss: two gradients", loss_bytes(config, recipe, *sizes), "2·B·T·V·bytes")
    in_loss = loss.bytes + sum(row.bytes for row in activations if row.name in ends)
    if in_loss >= sum(row.bytes for row in (*in_block, rerun)):
        return [*activations, loss, *temporary[1:], *always, *at_end]
    activations = [replace(row, phases=(FORWARD,)) if row.name in ends else row for row in activations]
    return [*activations, rerun, *temporary[1:], *always, *in_block, *at_end]


def held(weight: Weight, layout: Layout, stage: int) -> int:
    """Returns the numbers of all copies of `weight` that one rank holds, if ZeRO shards them from `stage` on."""
    if layout.zero == 3:  # each tensor row by row
        return weight.shard(layout.tensor, layout.shards) * weight.copies
    numbers = weight.numbers(layout.tensor)
    if layout.zero >= stage:
        numbers = -(-numbers // layout.shards)  # each tensor in equal parts, the last one padded
    return numbers * weight.copies


def held_gradient(weight: Weight, layout: Layout) -> int:
    """Returns the numbers of the gradient on one rank. DTensor makes the gradient of a split embedding whole on every
    rank, unless it is sharded.
    """
    if layout.zero < 2 and weight.split is not None and not weight.matmul:
        return weight.numbers() * weight.copies
    return held(weight, layout, 2)


def weight_rows(weights: list[Weight], recipe: Recipe, layout: Layout) -> list[Row]:
    """Returns the parameters and autocast's copies of the matrices; gathered weights are copied whole."""
    rows = []
    for group in dict.fromkeys(weight.group for weight in weights):
        numbers = sum(held(weight, layout, 3) for weight in weights if weight.group == group)
        rows.append(Row(Kind.WEIGHTS, group, numbers * recipe.weight, f"{recipe.weight} B per parameter"))
    copied = sum(weight.numbers(layout.tensor) * weight.copies for weight in weights if weight.matmul) * recipe.copy
    formula = f"{recipe.copy} B each in a matrix"
    return [*rows, Row(Kind.WEIGHTS, "autocast's bf16 copies", copied, formula, (FORWARD, BEGIN))]


def gradient_rows(weights: list[Weight], recipe: Recipe, layout: Layout) -> list[Row]:
    """Returns one gradient per parameter, and the fp32 sum over micro-batches if the recipe keeps one.

    With several micro-batches a step, gradients are held from the first backward on: they add up.
    """
    numbers = sum(held_gradient(weight, layout) for weight in weights)
    summed = sum(held(weight, layout, 2) for weight in weights)
    name, phases = ("of this backward", None) if layout.micro_batches == 1 else ("summed over micro-batches", PHASES)
    formula = f"{recipe.accumulator} B per parameter"
    return [
        Row(Kind.GRADIENTS, name, numbers * recipe.gradient, f"{recipe.gradient} B per parameter", phases),
        Row(Kind.GRADIENTS, "fp32 sum of micro-batches", summed * recipe.accumulator, formula, PHASES),
    ]


def optimizer_rows(weights: list[Weight], recipe: Recipe, optimizer: Optimizer, layout: Layout) -> list[Row]:
    """Returns master weights, the optimizer's averages, and its step counts."""
    numbers = sum(held(weight, layout, 1) for weight in weights)
    rows = [Row(Kind.OPTIMIZER, "master weights", numbers * recipe.master, f"{recipe.master} B per parameter")]
    for moment in optimizer.moments:
        if optimizer.eight_bit:
            size = sum(_eight_bit(held(weight, layout, 1) // weight.copies) * weight.copies for weight in weights)
            rows.append(Row(Kind.OPTIMIZER, moment, size, f"1 + 4/{EIGHT_BIT_BLOCK} B per parameter"))
        elif moment == "velocity" and layout.zero == 0 and not recipe.accumulator:
            size = sum(held_gradient(weight, layout) for weight in weights) * recipe.state  # first velocity = gradient
            rows.append(Row(Kind.OPTIMIZER, moment, size, f"{recipe.state} B per parameter"))
        else:
            rows.append(Row(Kind.OPTIMIZER, moment, numbers * recipe.state, f"{recipe.state} B per parameter"))
    if optimizer.counts_steps:
        tensors = sum(weight.copies for weight in weights)
        rows.append(Row(Kind.OPTIMIZER, "step counts", 4 * tensors, "4 B per tensor"))
    return rows


def _eight_bit(numbers: int) -> int:
    """Returns the bytes of one 8-bit average of a tensor: a byte per number and an fp32 scale per block; small tensors
    stay in fp32.
    """
    if numbers < EIGHT_BIT_SMALLEST:
        return 4 * numbers
    return numbers + 4 * -(-numbers // EIGHT_BIT_BLOCK)


def activation_rows(
    config: Config, recipe: Recipe, batch_size: int, seq_len: int, layout: Layout, stage: int = 0
) -> list[Row]:
    """Returns the tensors kept for backward, component by component; in a pipeline, of all micro-batches in flight."""
    tensors = kept_tensors(config, recipe)
    if layout.checkpointing == "block":
        stream = Kept("block inputs", "C", config.hidden_dim, sizes_of(recipe).residual)
        tensors = [*(kept for kept in tensors if kept.where != "block"), stream]
    moments = [
        {kept: _times(config, kept, layout, stage, under_way) for kept in tensors}
        for under_way in layout.in_flight(stage)
    ]
    sizes = {kept: kept_bytes(kept, batch_size, seq_len, layout) for kept in tensors}
    times = max(moments, key=lambda moment: sum(sizes[kept] * count for kept, count in moment.items()))
    rows = []
    for kept in tensors:
        formula = {"token": "B·T·", "position": "T·", "batch": ""}[kept.per] + (
            f"{kept.size}" if kept.symbols == "1" else f"{kept.symbols}·{kept.size}"
        )
        if kept.where == "block" and layout.pipeline == 1:
            formula = "L·" + formula
        elif times[kept] > 1:
            formula = f"{times[kept]}·{formula}"
        rows.append(Row(Kind.ACTIVATIONS, kept.name, sizes[kept] * times[kept], formula))
    return rows


def _times(config: Config, kept: Kept, layout: Layout, stage: int, under_way: dict[int, int]) -> int:
    """Returns the instances of a kept tensor while `under_way[chunk]` micro-batches of each chunk are in flight."""
    times = 0
    for chunk, count in under_way.items():
        part = layout.part(config, stage, chunk)
        times += count * {"run": 1, "block": part.blocks, "first": int(part.first), "last": int(part.last)}[kept.where]
    return times


def loss_bytes(config: Config, recipe: Recipe, batch_size: int, seq_len: int, layout: Layout, stage: int = 0) -> int:
    """Returns the bytes of the two gradients with which backward begins: of the log-probabilities and the logits."""
    if not layout.part(config, stage).last:
        return 0
    return 2 * -(-config.vocab_size // layout.tensor) * batch_size * seq_len * sizes_of(recipe).loss


def block_again(config: Config, recipe: Recipe, batch_size: int, seq_len: int, layout: Layout) -> Row:
    """Returns all tensors that a block keeps when it runs again in backward; 0 bytes without checkpointing."""
    block = [kept for kept in kept_tensors(config, recipe) if kept.where == "block" and layout.checkpointing == "block"]
    size = sum(kept_bytes(kept, batch_size, seq_len, layout) for kept in block)
    return Row(Kind.TEMPORARY, "one block, run again", size, "all that it keeps")


def temporary_rows(
    config: Config, recipe: Recipe, optimizer: Optimizer, batch_size: int, seq_len: int, layout: Layout, stage: int = 0
) -> list[Row]:
    """Returns the largest short-lived buffers of backward and of the update.

    In backward these are the buffers of the loss, or a block that runs again if it is larger.
    Exact for AdamW and PyTorch's CPU kernels where the loss has the largest tensors, that is with vocabularies of
    thousands. On CUDA, AdamW's default (foreach) takes its two buffers for all weights at once.
    """
    weights = weights_of(config, layout.part(config, stage))
    numbers = [held(weight, layout, 1) for weight in weights]
    largest = max(n // weight.copies for n, weight in zip(numbers, weights, strict=True))
    buffers, formula = (2, "2·largest·bytes") if optimizer.counts_steps else (0, "")  # SGD updates in place
    updated, source = recipe.master or recipe.weight, recipe.accumulator or recipe.gradient
    converted = sum(numbers) * updated if updated != source else 0  # the update reads gradients in the weights' dtype
    loss = loss_bytes(config, recipe, batch_size, seq_len, layout, stage)
    backward = Row(Kind.TEMPORARY, "loss: two gradients", loss, "2·B·T·V·bytes")
    rerun = block_again(config, recipe, batch_size, seq_len, layout).bytes - loss // 2  # log-probabilities are freed
    if rerun > loss:
        backward = Row(Kind.TEMPORARY, "one block, run again", rerun, "all it keeps, less B·T·V·bytes")
    return [
        backward,
        Row(Kind.TEMPORARY, "gradients, converted", converted, f"{updated} B per parameter", (UPDATE,)),
        Row(Kind.TEMPORARY, "update of the largest weight", buffers * largest * recipe.state, formula, (UPDATE,)),
    ]


def communication_rows(weights: list[Weight], recipe: Recipe, layout: Layout) -> list[Row]:
    """Returns the buffers of data parallelism with ZeRO 0 to 2; none with one data rank. `shard_buffers` has ZeRO 3.

    ZeRO 0 and 1 are as in DDP: buckets as large as all gradients, kept from step to step
    (`gradient_as_bucket_view=True` saves them). ZeRO 2: whole gradients of one block.
    """
    if layout.data == 1 or layout.zero == 3:
        return []
    units = units_of(weights, layout)
    size = recipe.gradient or recipe.accumulator
    if layout.zero < 2:
        numbers = sum(unit.numbers * unit.copies for unit in units)
        return [Row(Kind.COMMUNICATION, "all-reduce buckets", numbers * size, f"{size} B per parameter", PHASES)]
    block = next(unit.numbers for unit in units if unit.name == "block")
    return [Row(Kind.COMMUNICATION, "reduce-scatter, one block", block * size, f"{size} B per parameter", (BEGIN, END))]


def kv_cache_row(config: Config, batch_size: int, seq_len: int, size: int, tensor_ranks: int = 1) -> Row:
    """Returns the keys and values of `seq_len` tokens, which generation keeps instead of computing them again."""
    heads = getattr(config, "n_kv_head", config.n_head) // tensor_ranks
    head_dim = config.hidden_dim // config.n_head
    total = 2 * config.n_layer * heads * head_dim * size * batch_size * seq_len
    return Row(Kind.KV_CACHE, "keys and values", total, f"2·L·K·D·{size} B per token")


def largest_micro_batch(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    *,
    seq_len: int,
    budget: int,
    layout: Layout | None = None,
    stage: int = 0,
) -> int:
    """Returns the sequences in the largest micro-batch whose predicted peak is at most `budget` bytes; 0 if none is."""

    def fits(batch_size: int) -> bool:
        sizes = {"batch_size": batch_size, "seq_len": seq_len, "stage": stage}
        return predict(config, recipe, optimizer, layout=layout, **sizes).peak()[1] <= budget

    if not fits(1):
        return 0
    high = 2
    while fits(high):
        high *= 2
    low = high // 2  # fits; high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def states_per_rank(parameters: float, recipe: Recipe, optimizer: Optimizer, *, zero: int, ranks: int) -> float:
    """Returns the bytes of weights, gradients and optimizer state per rank by arXiv 1910.02054 (ZeRO), figure 1.

    Each role is divided by `ranks` from its stage on: optimizer 1, gradients 2, weights 3. No padding, no step counts.
    """
    each = 1 + 4 / EIGHT_BIT_BLOCK if optimizer.eight_bit else recipe.state
    weights, gradients = recipe.weight + recipe.copy, recipe.gradient + recipe.accumulator
    state = recipe.master + each * len(optimizer.moments)
    shards = [ranks if zero >= stage else 1 for stage in (3, 2, 1)]
    return parameters * sum(size / shard for size, shard in zip((weights, gradients, state), shards, strict=True))
