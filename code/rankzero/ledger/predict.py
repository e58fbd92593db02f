"""The predicted ledger: from sizes alone, without a model.

Weights, gradients, optimizer state, KV cache and activations are exact for the models of `learn` on the CPU
(`tests/test_ledger.py` holds them against measurements, to the byte). Temporary and communication buffers depend on the
implementation; their rows say which one they mean.
"""

from rankzero.learn.errors import UserError
from rankzero.ledger.activations import Kept, kept_tensors, sizes_of
from rankzero.ledger.layout import Layout
from rankzero.ledger.ledger import BEGIN, END, FORWARD, PHASES, UPDATE, Kind, Ledger, Row
from rankzero.ledger.models import Config, Weight, weights_of
from rankzero.ledger.recipes import EIGHT_BIT_BLOCK, EIGHT_BIT_SMALLEST, Optimizer, Recipe


def predict(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    *,
    batch_size: int,
    seq_len: int,
    layout: Layout | None = None,
) -> Ledger:
    """What one rank holds while it trains on micro-batches of `batch_size` sequences of `seq_len` tokens.

    UserError for sizes that cannot be.
    """
    layout = layout or Layout()
    layout.check(config)
    if batch_size < 1:
        raise UserError(f"a micro-batch of {batch_size} sequences: there must be at least 1.")
    if not 1 <= seq_len <= config.block_size:
        raise UserError(f"sequences of {seq_len} tokens: this model takes 1 to {config.block_size}.")
    tokens = batch_size * seq_len
    if tokens * max(config.vocab_size, config.n_layer * config.hidden_dim) > 10**16:
        raise UserError(f"{tokens:,} tokens in a step of this model are more than any machine holds: use fewer.")
    rows = [
        *weight_rows(config, recipe, layout),
        *gradient_rows(config, recipe, layout),
        *optimizer_rows(config, recipe, optimizer, layout),
        *activation_rows(config, recipe, batch_size, seq_len, layout),
        *temporary_rows(config, recipe, optimizer, batch_size, seq_len, layout),
        *communication_rows(config, recipe, layout),
        kv_cache_row(config, batch_size, seq_len, recipe.copy or recipe.weight, layout.tensor),
    ]
    return Ledger("predicted", tuple(row for row in rows if row.bytes))


def held(weight: Weight, layout: Layout, stage: int) -> int:
    """Numbers of all copies of `weight` that one rank holds, if ZeRO shards them from `stage` on."""
    numbers = weight.numbers(layout.tensor)
    if layout.zero >= stage:
        numbers = -(-numbers // layout.data)  # each tensor in equal parts, the last one padded
    return numbers * weight.copies


def weight_rows(config: Config, recipe: Recipe, layout: Layout) -> list[Row]:
    """The parameters, and autocast's copies of those that are multiplied with."""
    weights = weights_of(config)
    rows = [
        Row(
            Kind.WEIGHTS,
            group,
            sum(held(weight, layout, 3) for weight in weights if weight.group == group) * recipe.weight,
            f"{recipe.weight} B a parameter",
        )
        for group in dict.fromkeys(weight.group for weight in weights)
    ]
    copied = sum(held(weight, layout, 3) for weight in weights if weight.matmul)
    copies = Row(
        Kind.WEIGHTS,
        "autocast's bf16 copies",
        copied * recipe.copy,
        f"{recipe.copy} B each in a matrix",
        (FORWARD, BEGIN),
    )
    return [*rows, copies]


def gradient_rows(config: Config, recipe: Recipe, layout: Layout) -> list[Row]:
    """One gradient a parameter, and the fp32 sum over micro-batches if the recipe keeps one."""
    numbers = sum(held(weight, layout, 2) for weight in weights_of(config))
    return [
        Row(Kind.GRADIENTS, "of this backward", numbers * recipe.gradient, f"{recipe.gradient} B a parameter"),
        Row(
            Kind.GRADIENTS,
            "fp32 sum of micro-batches",
            numbers * recipe.accumulator,
            f"{recipe.accumulator} B a parameter",
            PHASES,
        ),
    ]


def optimizer_rows(config: Config, recipe: Recipe, optimizer: Optimizer, layout: Layout) -> list[Row]:
    """Master weights, the optimizer's averages, its step counts."""
    weights = weights_of(config)
    numbers = sum(held(weight, layout, 1) for weight in weights)
    rows = [Row(Kind.OPTIMIZER, "master weights", numbers * recipe.master, f"{recipe.master} B a parameter")]
    for moment in optimizer.moments:
        if optimizer.eight_bit:
            size = sum(_eight_bit(held(weight, layout, 1) // weight.copies) * weight.copies for weight in weights)
            rows.append(Row(Kind.OPTIMIZER, moment, size, f"1 + 4/{EIGHT_BIT_BLOCK} B a parameter"))
        else:
            rows.append(Row(Kind.OPTIMIZER, moment, numbers * recipe.state, f"{recipe.state} B a parameter"))
    if optimizer.counts_steps:
        tensors = sum(weight.copies for weight in weights)
        rows.append(Row(Kind.OPTIMIZER, "step counts", 4 * tensors, "4 B a tensor"))
    return rows


def _eight_bit(numbers: int) -> int:
    """Bytes of one 8-bit average of a tensor: a byte each and an fp32 scale a block; small tensors stay in fp32."""
    if numbers < EIGHT_BIT_SMALLEST:
        return 4 * numbers
    return numbers + 4 * -(-numbers // EIGHT_BIT_BLOCK)


def activation_rows(config: Config, recipe: Recipe, batch_size: int, seq_len: int, layout: Layout) -> list[Row]:
    """What the forward pass leaves for backward, component by component."""
    rows = []
    for kept in kept_tensors(config, recipe):
        size = _kept_bytes(kept, batch_size, seq_len, layout)
        formula = {"token": "B·T·", "position": "T·", "batch": ""}[kept.per] + (
            f"{kept.size}" if kept.symbols == "1" else f"{kept.symbols}·{kept.size}"
        )
        if not kept.in_block:
            rows.append(Row(Kind.ACTIVATIONS, kept.name, size, formula))
        elif layout.checkpointing == "none":
            rows.append(Row(Kind.ACTIVATIONS, kept.name, size * config.n_layer, f"L·{formula}"))
    if layout.checkpointing == "block":
        stream = Kept("block inputs", "C", config.hidden_dim, sizes_of(recipe).residual)
        size = _kept_bytes(stream, batch_size, seq_len, layout) * config.n_layer
        rows.append(Row(Kind.ACTIVATIONS, stream.name, size, f"L·B·T·C·{stream.size}"))
    return rows


def _kept_bytes(kept: Kept, batch_size: int, seq_len: int, layout: Layout) -> int:
    ranks = layout.tensor if kept.split == "tensor" or layout.sequence_parallel else 1
    times = {"token": batch_size * seq_len, "position": seq_len, "batch": 1}[kept.per]
    return -(-kept.count * times // ranks) * kept.size


def temporary_rows(
    config: Config, recipe: Recipe, optimizer: Optimizer, batch_size: int, seq_len: int, layout: Layout
) -> list[Row]:
    """The largest short-lived buffers: in backward, and in the update.

    Backward's are the loss's, or a block that runs again if that is more: by then the loss is done.
    Exact for AdamW and PyTorch's CPU kernels where the loss has the largest tensors, that is with vocabularies of
    thousands. On CUDA, AdamW's default (foreach) takes its two buffers for all weights at once.
    """
    logits = -(-config.vocab_size // layout.tensor) * batch_size * seq_len * sizes_of(recipe).loss
    numbers = [held(weight, layout, 1) for weight in weights_of(config)]
    largest = max(n // weight.copies for n, weight in zip(numbers, weights_of(config), strict=True))
    buffers, formula = (2, "2·largest·bytes") if optimizer.counts_steps else (0, "")  # SGD updates in place
    updated, source = recipe.master or recipe.weight, recipe.accumulator or recipe.gradient
    converted = sum(numbers) * updated if updated != source else 0  # the update wants gradients in its own dtype
    backward = Row(Kind.TEMPORARY, "loss: two gradients", 2 * logits, "2·B·T·V·bytes")
    if layout.checkpointing == "block":
        block = [kept for kept in kept_tensors(config, recipe) if kept.in_block]
        size = sum(_kept_bytes(kept, batch_size, seq_len, layout) for kept in block) - logits  # log-probabilities go
        if size > backward.bytes:
            backward = Row(Kind.TEMPORARY, "one block, run again", size, "all it keeps, less B·T·V·bytes")
    return [
        backward,
        Row(Kind.TEMPORARY, "gradients, converted", converted, f"{updated} B a parameter", (UPDATE,)),
        Row(Kind.TEMPORARY, "update of the largest weight", buffers * largest * recipe.state, formula, (UPDATE,)),
    ]


def communication_rows(config: Config, recipe: Recipe, layout: Layout) -> list[Row]:
    """Buffers of data parallelism, none with one data rank.

    ZeRO 0 and 1 as DDP has it: buckets as large as all gradients, kept from step to step
    (`gradient_as_bucket_view=True` saves them). ZeRO 2
    and 3 as `fully_shard` has it: whole gradients of one block, and for 3 the whole weights of two.
    """
    if layout.data == 1:
        return []
    numbers = [weight.numbers(layout.tensor) * weight.copies for weight in weights_of(config)]
    in_blocks = [weight.copies >= config.n_layer and weight.matmul for weight in weights_of(config)]
    block = sum(n for n, inside in zip(numbers, in_blocks, strict=True) if inside) // config.n_layer
    size = recipe.gradient or recipe.accumulator
    if layout.zero < 2:
        return [Row(Kind.COMMUNICATION, "all-reduce buckets", sum(numbers) * size, f"{size} B a parameter", PHASES)]
    rows = [Row(Kind.COMMUNICATION, "reduce-scatter, one block", block * size, f"{size} B a parameter", (BEGIN, END))]
    if layout.zero == 3:
        gathered = 2 * block * (recipe.copy or recipe.weight)
        rows.append(Row(Kind.COMMUNICATION, "all-gather, two blocks", gathered, "of its weights", (FORWARD, BEGIN)))
    return rows


def kv_cache_row(config: Config, batch_size: int, seq_len: int, size: int, tensor_ranks: int = 1) -> Row:
    """Keys and values of `seq_len` tokens, which generation keeps so as not to compute them again."""
    heads = getattr(config, "n_kv_head", config.n_head) // tensor_ranks
    head_dim = config.hidden_dim // config.n_head
    total = 2 * config.n_layer * heads * head_dim * size * batch_size * seq_len
    return Row(Kind.KV_CACHE, "keys and values", total, f"2·L·K·D·{size} B a token")


def largest_micro_batch(
    config: Config, recipe: Recipe, optimizer: Optimizer, *, seq_len: int, budget: int, layout: Layout | None = None
) -> int:
    """Sequences in the largest micro-batch whose predicted peak fits into `budget` bytes; 0 if none does."""

    def fits(batch_size: int) -> bool:
        return (
            predict(config, recipe, optimizer, batch_size=batch_size, seq_len=seq_len, layout=layout).peak()[1]
            <= budget
        )

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
    """Bytes of weights, gradients and optimizer state a rank, as the ZeRO paper counts (arXiv 1910.02054, figure 1).

    Each role is divided by `ranks` from its stage on: optimizer 1, gradients 2, weights 3. No padding, no step counts.
    """
    each = 1 + 4 / EIGHT_BIT_BLOCK if optimizer.eight_bit else recipe.state
    weights, gradients = recipe.weight + recipe.copy, recipe.gradient + recipe.accumulator
    state = recipe.master + each * len(optimizer.moments)
    shards = [ranks if zero >= stage else 1 for stage in (3, 2, 1)]
    return parameters * sum(size / shard for size, shard in zip((weights, gradients, state), shards, strict=True))
