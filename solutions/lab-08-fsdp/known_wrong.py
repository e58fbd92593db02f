"""Known-wrong solutions of Lab 08, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

REDUCE_INTO_PART = """
def reduce_into_part(full, part):
    mean = torch.empty_like(part)
    dist.reduce_scatter_tensor(mean, full.grad)
    mean /= dist.get_world_size()
    part.grad = mean if part.grad is None else part.grad + mean
    full.grad = None
    full.untyped_storage().resize_(0)
"""


def reduce_otherwise(old: str, new: str = "") -> str:
    """Returns reduce_into_part with the text `old`, which occurs once, replaced by `new`."""
    assert REDUCE_INTO_PART.count(old) == 1
    return REDUCE_INTO_PART.replace(old, new)


KNOWN_WRONG = (
    KnownWrong(
        "every_nth_number",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Rank r gets the numbers r, r + N, r + 2N and so on. The sizes are right, but an all-gather
        concatenates the parts by rank, so the gathered tensor would have its numbers in another order. Rank r's part is
        a slice of consecutive numbers.""",
        change="""
-    size = -(-whole.numel() // ranks)
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
-    part = whole.new_zeros(size)
+    mine = whole.detach().flatten()[rank::ranks]
+    part = whole.new_zeros(-(-whole.numel() // ranks))
""",
    ),
    KnownWrong(
        "fill_is_not_zero",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The padding at the end of the part is not zero. It is no number of the tensor, but a norm, the
        optimizer's state or a file of the whole part would include it. Memory from `new_empty` holds any numbers; here
        the padding repeats the tensor's last number.""",
        change="""
-    part = whole.new_zeros(size)
+    part = whole.new_full((size,), whole.detach().flatten()[-1].item())
""",
    ),
    KnownWrong(
        "parts_of_unequal_size",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The parts differ in size by one, without padding. An all-gather into one tensor and a
        reduce-scatter need the same size from every rank; with different sizes they fail or hang. Every part has
        ceil(P/N) numbers.""",
        definitions="""
def cut(whole, rank, ranks):
    return whole.detach().flatten().tensor_split(ranks)[rank].clone()
""",
    ),
    KnownWrong(
        "tail_lost",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""N parts hold fewer than P numbers, so the last numbers belong to no rank: they would be neither
        updated nor saved. Round P / N up, and pad the last parts with zeros.""",
        change="""
-    size = -(-whole.numel() // ranks)
+    size = whole.numel() // ranks
""",
    ),
    KnownWrong(
        "split_evenly_then_padded",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""`tensor_split` makes parts that differ in size by one, and each shorter part is padded. The
        padding is then between the numbers of the gathered tensor. Give each rank the next ceil(P/N) numbers: then all
        padding is at the end.""",
        change="""
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
+    mine = whole.detach().flatten().tensor_split(ranks)[rank]
""",
    ),
    KnownWrong(
        "last_part_is_short",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The last ranks' parts end where the tensor's numbers end, without padding. An all-gather into one
        tensor and a reduce-scatter need the same size from every rank; with different sizes they fail or hang. Pad
        every part to ceil(P/N) numbers.""",
        change="""
-    part = whole.new_zeros(size)
-    part[: mine.numel()] = mine
-    return part
+    return mine.clone()
""",
    ),
    KnownWrong(
        "always_float32",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part is float32, whatever the dtype of the tensor is. A float64 tensor loses half of its
        digits, a bfloat16 tensor takes twice its memory, and a collective of tensors of two dtypes fails.
        `whole.new_zeros` takes the dtype of `whole`.""",
        change="""
-    part = whole.new_zeros(size)
+    part = torch.zeros(size)
""",
    ),
    KnownWrong(
        "part_is_a_view",
        fails=("flat/storage",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part shares the memory of a larger tensor, which stays in memory as long as the part does:
        every rank holds P numbers, as if the tensor had not been sharded. A slice or any other view shares its tensor's
        memory. Return a copy.""",
        definitions="""
def cut(whole, rank, ranks):
    size = -(-whole.numel() // ranks)
    padded = whole.new_zeros(size * ranks)
    padded[: whole.numel()] = whole.detach().flatten()
    return padded[rank * size : (rank + 1) * size]
""",
    ),
    KnownWrong(
        "contiguous_taken_for_a_copy",
        fails=("flat/storage",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""`contiguous()` copies only a tensor that is not contiguous, and a row is contiguous. So the part
        is a view, and the whole tensor stays in memory as long as the part does. `clone()` copies.""",
        definitions="""
def cut(whole, rank, ranks):
    size, flat = -(-whole.numel() // ranks), whole.detach().flatten()
    if missing := size * ranks - len(flat):
        flat = torch.cat([flat, flat.new_zeros(missing)])
    return flat.view(ranks, size)[rank].contiguous()
""",
    ),
    KnownWrong(
        "fill_left_in",
        fails=("flat/gather",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The result still contains the padding and has one dimension. Only the first shape.numel() numbers
        belong to the whole tensor: take these, and give them its shape.""",
        change="""
-    return whole[: shape.numel()].view(shape)
+    return whole
""",
    ),
    KnownWrong(
        "cut_off_by_the_padding",
        fails=("flat/gather",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Where there is no padding, the slice `[:-padding]` is `[:-0]`, which is empty. Take the first
        shape.numel() numbers instead.""",
        change="""
-    return whole[: shape.numel()].view(shape)
+    return whole[: -(whole.numel() - shape.numel())].view(shape)
""",
    ),
    KnownWrong(
        "one_tensor_for_all_parts",
        fails=("flat/gather",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Every part of the result is the part of one rank. `[tensor] * N` is a list that contains one
        tensor N times, so each part that arrives overwrites the part before it. Make N tensors, or one tensor of N
        times the size.""",
        change="""
-    whole = part.new_empty(part.numel() * dist.get_world_size())
-    dist.all_gather_into_tensor(whole, part)
+    parts = [torch.empty_like(part)] * dist.get_world_size()
+    dist.all_gather(parts, part)
+    whole = torch.cat(parts)
""",
    ),
    KnownWrong(
        "gradient_divided_in_place",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The function divides the caller's gradient in place. The returned part is right, but p.grad is N
        times too small afterwards: a norm in the log, or a second use of the gradient, is wrong. Divide the reduced
        part instead.""",
        change="""
     part = gradient.new_empty(-(-gradient.numel() // ranks))
+    gradient /= ranks
@@
-    return part / ranks
+    return part
""",
    ),
    KnownWrong(
        "flatten_taken_for_a_copy",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Where no padding is needed, the function divides the caller's gradient in place: flatten() of a
        contiguous tensor is a view of it and no copy. Divide the reduced part instead.""",
        change="""
-    padded = gradient.new_zeros(part.numel() * ranks)
-    padded[: gradient.numel()] = gradient.flatten()
-    dist.reduce_scatter_tensor(part, padded)
-    return part / ranks
+    padded = gradient.flatten()
+    if missing := part.numel() * ranks - len(padded):
+        padded = torch.cat([padded, padded.new_zeros(missing)])
+    padded /= ranks
+    dist.reduce_scatter_tensor(part, padded)
+    return part
""",
    ),
    KnownWrong(
        "sum_of_gradients",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part is the sum over ranks, which a reduce-scatter returns. Each rank's loss is a mean over
        its own share of the batch, so the batch's gradient is the mean over ranks, and this gradient is N times too
        large. AdamW hides that; clipping and SGD do not. Divide by N.""",
        change="""
-    return part / ranks
+    return part
""",
    ),
    KnownWrong(
        "divided_by_two",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The sum is divided by 2, whatever the number of ranks. The mean is right on two ranks only.
        `dist.get_world_size()` returns the number of ranks.""",
        change="""
-    return part / ranks
+    return part / 2
""",
    ),
    KnownWrong(
        "mean_in_float32",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part of the mean is float32, whatever the gradient's dtype is. It cannot become the gradient
        of a parameter of another dtype: assigning a `.grad` whose dtype is not the parameter's raises an error.""",
        change="""
-    return part / ranks
+    return part.float() / ranks
""",
    ),
    KnownWrong(
        "gathered_by_broadcasts",
        fails=("flat/gathers-once",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank broadcasts its part in turn. The result is right, but it takes N collectives instead of
        one, and they run one after another. In one all-gather all ranks send at the same time.""",
        definitions="""
def gather(part, shape):
    parts = [
        part.clone() if rank == dist.get_rank() else torch.empty_like(part) for rank in range(dist.get_world_size())
    ]
    for rank, one in enumerate(parts):
        dist.broadcast(one, src=rank)
    return torch.cat(parts)[: shape.numel()].view(shape)
""",
    ),
    KnownWrong(
        "all_reduced_then_cut",
        fails=("flat/reduces-once",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""An all-reduce gives every rank the whole sum, of which the rank keeps one part. The numbers are
        right. On a ring an all-reduce sends twice the bytes of a reduce-scatter, and each rank needs memory for the
        whole sum. A reduce-scatter gives each rank its part only.""",
        definitions="""
def reduce_gradient(gradient):
    total = gradient.flatten().clone()
    dist.all_reduce(total)
    return cut(total, dist.get_rank(), dist.get_world_size()) / dist.get_world_size()  # noqa: F821
""",
    ),
    KnownWrong(
        "fill_in_the_norm",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The norm includes the squares of the padding. Padding of 0 changes nothing, but the padding is
        undefined: with other numbers the norm is wrong, and with NaN it is NaN, which is not above the limit, so
        nothing is clipped. Only the first numbers of the last parts belong to the gradient.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient
""",
    ),
    KnownWrong(
        "length_of_the_own_part",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""Each rank takes the norm of its own part for the norm of the gradient. That norm is too small, so
        too little is clipped. It also differs from rank to rank, so the parts are multiplied by different factors and
        the gradient's direction changes. Sum the squares over all ranks.""",
        change="""
-    dist.all_reduce(squares)
""",
    ),
    KnownWrong(
        "lengths_added_up",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The ranks' norms are added. The squares of norms add up, the norms do not: parts of norms 3 and 4
        make a gradient of norm 5, not 7. The sum is too large, so the gradient is clipped too much.""",
        change="""
-    squares = mine.square().sum()
-    dist.all_reduce(squares)
-    norm = squares.sqrt().item()
+    length = mine.norm()
+    dist.all_reduce(length)
+    norm = length.item()
""",
    ),
    KnownWrong(
        "negative_end",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""On a rank whose part is padding only, the number of numbers that count is negative.
        `gradient[:-1]` then takes all numbers but the last, and the norm includes padding. If that is NaN, the norm is
        NaN and nothing is clipped. Take max(0, ...) as the end.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient[: numel - dist.get_rank() * gradient.numel()]
""",
    ),
    KnownWrong(
        "norm_after_the_clipping",
        fails=("clip/norm",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The function returns the norm after clipping, which is never above the limit. The norm before
        clipping is needed: in a log it shows a gradient that explodes.""",
        change="""
-    return norm
+    return min(norm, max_norm)
""",
    ),
    KnownWrong(
        "only_rank_0_reduces",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""Only rank 0 calls the all-reduce. Every rank must enter every collective: rank 0 waits in the
        all-reduce for the other ranks, and they wait for rank 0 in their next collective. A number that only one rank
        prints must still be computed by all ranks.""",
        change="""
-    dist.all_reduce(squares)
+    if dist.get_rank() == 0:
+        dist.all_reduce(squares)
""",
    ),
    KnownWrong(
        "squares_averaged",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The sum of the squares is divided by the number of ranks. A mean over ranks is for gradients of
        the same weights from different data. Here each rank holds different numbers of one gradient, so their squares
        are added and not divided.""",
        change="""
     dist.all_reduce(squares)
+    squares /= dist.get_world_size()
""",
    ),
    KnownWrong(
        "clipped_copy",
        fails=("clip/direction",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The caller's gradient does not change: the clipped numbers are in another tensor. `gradient =
        gradient * ...` makes a new tensor, which only the function sees under that name; `gradient *= ...` and `mul_`
        change the caller's tensor.""",
        change="""
-        gradient.mul_(max_norm / norm)
+        gradient = gradient * (max_norm / norm)
""",
    ),
    KnownWrong(
        "factor_of_the_own_part",
        fails=("clip/direction",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The returned norm is that of the whole gradient, but each rank clips its own part to the limit.
        The parts get different factors, so the gradient's direction changes, and its norm stays above the limit. All
        ranks need the same factor, max_norm / norm.""",
        definitions="""
def clip_part(gradient, numel, max_norm):
    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
    squares = mine.square().sum()
    own = squares.sqrt().item()
    dist.all_reduce(squares)
    if own > max_norm:
        gradient.mul_(max_norm / own)
    return squares.sqrt().item()
""",
    ),
    KnownWrong(
        "fill_counted_unless_nan",
        fails=("clip/limit",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""NaN in the padding is replaced by 0, and any other padding is included in the norm. The padding
        is undefined and may hold any number. Only the first numbers of the last parts belong to the gradient: `numel`,
        the rank and the part's size say how many.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient.nan_to_num(0.0)
""",
    ),
    KnownWrong(
        "lengthened_to_the_limit",
        fails=("clip/limit",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""Every gradient is scaled to the limit, also one with a smaller norm. A run that has nearly
        converged then takes steps as long as at the start. Scale the gradient only if its norm is larger than the
        limit.""",
        change="""
-    if norm > max_norm:
+    if norm > 0:
""",
    ),
    KnownWrong(
        "divided_by_a_norm_of_0",
        fails=("clip/limit",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The limit is divided by the norm before the comparison. If the gradient is all 0, its norm is a
        Python float of 0, and the division raises ZeroDivisionError. Compare the norm with the limit first, or divide
        by the norm plus 1e-6.""",
        change="""
-    if norm > max_norm:
-        gradient.mul_(max_norm / norm)
+    factor = max_norm / norm
+    if factor < 1:
+        gradient.mul_(factor)
""",
    ),
    KnownWrong(
        "whole_gradient_gathered",
        fails=("clip/one-number",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The whole gradient is gathered on every rank to compute its norm. The norm is right, but each
        rank needs memory for the whole gradient, and receives all of it. One number per rank is enough: the sum of its
        part's squares.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
-    squares = mine.square().sum()
-    dist.all_reduce(squares)
-    norm = squares.sqrt().item()
+    whole = gradient.new_empty(gradient.numel() * dist.get_world_size())
+    dist.all_gather_into_tensor(whole, gradient)
+    norm = whole[:numel].norm().item()
""",
    ),
    KnownWrong(
        "each_parameter_cut_alone",
        fails=("zero1/part", "zero1/state", "zero1/update"),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each parameter is sharded by itself, and its shards are concatenated. fully_shard does that too,
        but it lays out gradients in the same way, and it pads once per parameter. The shards of the concatenated
        gradients hold the gradients of other weights. Concatenate all weights first, then cut once.""",
        change="""
-    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    mine = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
+    part.grad = torch.cat([mine, mine.new_zeros(len(part) - len(mine))])
@@
-    flat = gather(part.detach(), torch.Size([sum(sizes)]))
+    flat = gather(part.detach()[: len(mine)], torch.Size([sum(sizes)]))  # noqa: F821
""",
        definitions="""
def make_part(parameters):
    return nn.Parameter(torch.cat([cut(p, dist.get_rank(), dist.get_world_size()) for p in parameters]))  # noqa: F821
""",
    ),
    KnownWrong(
        "plain_adamw",
        fails=("zero1/part", "zero1/state", "zero1/memory", "zero1/collectives"),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part is all weights, so every rank keeps optimizer state for all of them and needs all
        gradients. The weights come out right, but this is AdamW without sharding: no memory is saved. The part is this
        rank's shard of the concatenated weights.""",
        definitions="""
def make_part(parameters):
    return nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(part.grad)
    part.grad /= dist.get_world_size()
    optimizer.step()
    with torch.no_grad():
        for p, new in zip(parameters, part.split([p.numel() for p in parameters]), strict=True):
            p.copy_(new.view_as(p))
""",
    ),
    KnownWrong(
        "frozen_left_out",
        fails=("zero1/part", "zero1/state"),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Frozen weights are missing from the part. zero1_step reduces all weights' gradients, which
        do not belong to the part's numbers, or differ from them in number. Concatenate all weights.""",
        change="""
-    flat = torch.cat([p.detach().flatten() for p in parameters])
+    flat = torch.cat([p.detach().flatten() for p in parameters if p.requires_grad])
""",
    ),
    KnownWrong(
        "part_holds_all_weights",
        fails=("zero1/state", "zero1/memory"),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part is a view of all concatenated weights, so every rank holds a second copy of them in
        memory. The optimizer's state is as small as it should be. Give the part memory of its own size.""",
        change="""
-    return nn.Parameter(cut(flat, dist.get_rank(), dist.get_world_size()))
+    size = -(-len(flat) // dist.get_world_size())
+    padded = torch.cat([flat, flat.new_zeros(size * dist.get_world_size() - len(flat))])
+    return nn.Parameter(padded[dist.get_rank() * size :][:size])
""",
    ),
    KnownWrong(
        "gradient_of_this_rank",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank updates its part by its own gradient, and no mean over ranks is computed. For each
        part, the gradients of the other N - 1 ranks are lost. A reduce-scatter gives each rank its part of the sum.""",
        change="""
-    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    flat = torch.cat([gradient.flatten() for gradient in gradients])
+    part.grad = cut(flat, dist.get_rank(), dist.get_world_size())  # noqa: F821
""",
    ),
    KnownWrong(
        "gradients_added_up",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The gradients are summed over the ranks and not divided by N. AdamW divides each gradient by its
        own size, so its losses look nearly right. With SGD every step is N times too long, and so is the norm in a
        log.""",
        change="""
     part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    part.grad *= dist.get_world_size()
""",
    ),
    KnownWrong(
        "missing_gradients_left_out",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Gradients that are None are left out of the flat gradient. Every later gradient then moves
        forward to the wrong weights, and ranks that lack different gradients call the reduce-scatter with different
        sizes. Put zeros in place of a missing gradient.""",
        change="""
-    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
+    gradients = [p.grad for p in parameters if p.grad is not None]
""",
    ),
    KnownWrong(
        "ranks_without_gradients_return",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""A rank without any gradient returns at once, and the other ranks wait for it in the
        reduce-scatter. Its gradient is 0, and it must call the same collectives: put zeros in place of missing
        gradients.""",
        change="""
     gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
+    if all(p.grad is None for p in parameters):
+        return
""",
    ),
    KnownWrong(
        "gathered_before_the_update",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The weights are gathered before optimizer.step(), so every rank has the weights of the previous
        update. Update the part first, then gather it.""",
        change="""
-    optimizer.step()
     sizes = [p.numel() for p in parameters]
     flat = gather(part.detach(), torch.Size([sum(sizes)]))
+    optimizer.step()
""",
    ),
    KnownWrong(
        "new_tensors_for_weights",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The parameters have new memory. Their numbers are right, but a view of the old memory, such as a
        flat buffer of the weights, keeps the old numbers. Assigning `p.data` does this; `p.copy_` writes into the
        memory that is there.""",
        change="""
-            p.copy_(new.view_as(p))
+            p.data = new.view_as(p)
""",
    ),
    KnownWrong(
        "own_part_alone_is_updated",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank writes its own part into the weights, and the parts of the other ranks never arrive.
        From the first update on every rank has a different model, in which only its own part is trained. Gather the
        updated parts.""",
        change="""
-    flat = gather(part.detach(), torch.Size([sum(sizes)]))
+    flat = torch.cat([p.detach().flatten() for p in parameters])
+    start = dist.get_rank() * part.numel()
+    flat[start : start + part.numel()] = part.detach()[: max(0, len(flat) - start)]
""",
    ),
    KnownWrong(
        "zeros_put_into_gradients",
        fails=("zero1/missing",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""A missing gradient is replaced by zeros that stay in p.grad. Later code then takes the parameter
        for one that was used, and an optimizer that skips missing gradients applies weight decay to it. Put the zeros
        into the flat gradient only.""",
        change="""
-    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
+    for p in parameters:
+        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
+    gradients = [p.grad for p in parameters]
""",
    ),
    KnownWrong(
        "gradients_of_the_part_add_up",
        fails=("zero1/missing",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""part.grad keeps the gradients of earlier updates, and each update adds its own. The optimizer
        then uses the sum of all gradients so far. Replace part.grad in each update.""",
        change="""
-    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    mine = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
+    part.grad = mine if part.grad is None else part.grad + mine
""",
    ),
    KnownWrong(
        "gradients_cleared",
        fails=("zero1/missing",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The function clears p.grad. The gradients belong to the caller, who may log their norm after the
        update, or add another micro-batch. An optimizer's step leaves p.grad as it is; zero_grad() is a separate
        call.""",
        change="""
     optimizer.step()
+    for p in parameters:
+        p.grad = None
""",
    ),
    KnownWrong(
        "adamw_of_all_weights_hidden",
        fails=("zero1/memory",),
        read="handbook/sharding-and-zero.md#bytes-per-rank",
        explanation="""The collectives are those of ZeRO-1, and the optimizer that was passed in has state for its part
        only. But every rank keeps a second optimizer, for all weights, and gives it the gathered mean gradient. The
        weights are right, and the state of all weights is on every rank: no memory is saved.""",
        definitions="""
HIDDEN = {}


def zero1_step(parameters, part, optimizer):
    ranks, sizes = dist.get_world_size(), [p.numel() for p in parameters]
    padded = part.new_zeros(part.numel() * ranks)
    padded[: sum(sizes)] = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
    )
    part.grad = torch.empty_like(part)
    dist.reduce_scatter_tensor(part.grad, padded)
    part.grad /= ranks
    optimizer.step()
    whole = torch.empty_like(padded)
    dist.all_gather_into_tensor(whole, part.grad)
    if part not in HIDDEN:
        group = optimizer.param_groups[0]
        twin = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        settings = {name: group[name] for name in ("lr", "weight_decay", "eps", "momentum") if name in group}
        HIDDEN[part] = twin, type(optimizer)([twin], **settings)
    twin, own = HIDDEN[part]
    twin.grad = whole[: sum(sizes)]
    own.step()
    with torch.no_grad():
        for p, new in zip(parameters, twin.split(sizes), strict=True):
            p.copy_(new.view_as(p))
""",
    ),
    KnownWrong(
        "a_broadcast_each_part",
        fails=("zero1/collectives",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank broadcasts its new part in turn. The weights are right, but they take N collectives,
        which run one after another. In one all-gather all ranks send at the same time.""",
        change="""
-    flat = gather(part.detach(), torch.Size([sum(sizes)]))
+    parts = [part.detach().clone() for _ in range(dist.get_world_size())]
+    for rank, one in enumerate(parts):
+        dist.broadcast(one, src=rank)
+    flat = torch.cat(parts)[: sum(sizes)]
""",
    ),
    KnownWrong(
        "gradients_all_reduced",
        fails=("zero1/collectives",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""All gradients are all-reduced, and each rank uses its part of the mean. The weights are right,
        and early ZeRO-1 did this. The all-gather of the weights comes on top, so a ring sends 3 times the bytes of the
        model. With a reduce-scatter it sends 2 times.""",
        change="""
-    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    flat = torch.cat([gradient.flatten() for gradient in gradients])
+    dist.all_reduce(flat)
+    part.grad = cut(flat / dist.get_world_size(), dist.get_rank(), dist.get_world_size())  # noqa: F821
""",
    ),
    KnownWrong(
        "own_part_repeated",
        fails=("whole_weights/weights",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The module gets this rank's part N times in place of the whole weights, and nothing is gathered.
        The other parts are on the other ranks: all-gather them into `full`.""",
        change="""
-    full = part.new_empty(part.numel() * dist.get_world_size())
-    dist.all_gather_into_tensor(full, part.detach())
+    full = part.detach().repeat(dist.get_world_size())
""",
    ),
    KnownWrong(
        "names_of_a_state_dict",
        fails=("whole_weights/weights", "whole_weights/reduced"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The shapes come from state_dict(), which has buffers too, and a tied weight under each of its
        names. The sizes then add up to more than the weights, and `split` fails. Use named_parameters().""",
        change="""
-    shapes = {name: p.shape for name, p in module.named_parameters()}
+    shapes = {name: p.shape for name, p in module.state_dict().items()}
""",
    ),
    KnownWrong(
        "offsets_of_a_state_dict",
        fails=("whole_weights/weights", "whole_weights/reduced"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The names and shapes come from state_dict(), which has buffers too, and a tied weight under each
        of its names. They need more numbers than `full` has, so a later weight gets too few for its shape, and `view`
        fails. Use named_parameters().""",
        change="""
-    shapes = {name: p.shape for name, p in module.named_parameters()}
-    sizes = [shape.numel() for shape in shapes.values()]
-    pieces = full[: sum(sizes)].split(sizes)
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    weights, start = {}, 0
+    for name, p in module.state_dict().items():
+        weights[name] = full[start : start + p.numel()].view(p.shape)
+        start += p.numel()
+    return full, weights
""",
    ),
    KnownWrong(
        "copies_of_pieces",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The weights are copies of what was gathered. Autograd keeps the copies for backward, so freeing
        `full` frees none of them: the whole weights stay in memory. Views share the memory of `full`.""",
        change="""
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    return full, {name: piece.view(shape).clone() for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
""",
    ),
    KnownWrong(
        "views_of_a_detached_tensor",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""No gradient of the weights reaches `full`. They share its memory, but autograd does not connect
        them with it: they are views of `full.detach()` or `full.data`, or were made under no_grad or before
        `requires_grad_`. Backward ends at the views, and full.grad stays None. Make views of `full` itself, with
        gradients on, after `requires_grad_`.""",
        change="""
-    pieces = full[: sum(sizes)].split(sizes)
+    pieces = full.detach()[: sum(sizes)].split(sizes)
""",
    ),
    KnownWrong(
        "always_requires_a_gradient",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""`full` requires a gradient under torch.no_grad() too. Code that registers its hooks where `full`
        requires a gradient then does so in an evaluation, where no backward pass follows. Require a gradient only if
        torch.is_grad_enabled().""",
        change="""
-    full.requires_grad_(torch.is_grad_enabled())
+    full.requires_grad_()
""",
    ),
    KnownWrong(
        "whole_gradient_summed",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The gradient is the sum over ranks, N times too large: a reduce-scatter sums and does not divide.
        With another number of ranks the same learning rate then takes other steps. Divide by the number of ranks.""",
        change="""
-    mean /= dist.get_world_size()
""",
    ),
    KnownWrong(
        "part_gradient_replaced",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The new gradient replaces part.grad. Everywhere else in PyTorch, backward adds to a gradient that
        is there: with two micro-batches, the gradient of the first is lost here.""",
        change="""
-    part.grad = mean if part.grad is None else part.grad + mean
+    part.grad = mean
""",
    ),
    KnownWrong(
        "earlier_gradient_divided_again",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The gradient that was in part.grad before is divided by N once more, because the sum of both
        gradients is divided. Only the new gradient is a sum over ranks: divide it before it is added. With k
        micro-batches, the first gradient ends up N**(k-1) times too small.""",
        change="""
-    mean /= dist.get_world_size()
     part.grad = mean if part.grad is None else part.grad + mean
+    part.grad /= dist.get_world_size()
""",
    ),
    KnownWrong(
        "whole_gradient_all_reduced",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole gradient is all-reduced and each rank keeps its part. The numbers are right, but on a
        ring an all-reduce sends twice the bytes of a reduce-scatter, which gives each rank the sum of its own part
        only.""",
        change="""
-    mean = torch.empty_like(part)
-    dist.reduce_scatter_tensor(mean, full.grad)
+    dist.all_reduce(full.grad)
+    mean = full.grad.chunk(dist.get_world_size())[dist.get_rank()].clone()
""",
    ),
    KnownWrong(
        "gradient_of_the_whole_kept",
        fails=("whole_weights/given-back",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""full.grad still holds the whole gradient after the reduce-scatter: P numbers per module stay in
        memory. Only this rank's part is needed. Set full.grad to None.""",
        change="""
-    full.grad = None
""",
    ),
    KnownWrong(
        "weights_stay_whole",
        fails=("whole_weights/given-back",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights stay in memory after the reduction. When backward has passed all modules, the
        whole model is in memory on every rank, in addition to the optimizer's state. Other memory for `full`,
        as by full.data = ..., frees nothing while views use the old one. Resize the storage that they share to 0
        bytes.""",
        change="""
-    memory = full.untyped_storage()
-    memory.resize_(0)
""",
    ),
    KnownWrong(
        "not_gathered_again",
        fails=("sharded_forward/output",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights are freed after forward and not gathered again. Autograd keeps references to
        the tensors, not their numbers, so backward finds no memory behind them. Allocate and gather the weights again
        when backward reaches the module.""",
        change="""
-    room = memory.nbytes()
-
-    def before_backward(_: Tensor) -> None:
-        memory.resize_(room)
-        dist.all_gather_into_tensor(full.data, part.detach())
@@
-        if reshard:
-            y.register_hook(before_backward)
""",
    ),
    KnownWrong(
        "too_few_bytes_again",
        fails=("sharded_forward/output",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""In backward, too few bytes are allocated for the whole weights: 4 for each number, and float64
        has 8. `resize_` of a storage takes bytes. Note full.untyped_storage().nbytes() before you free it, or multiply
        by full.element_size().""",
        change="""
-        memory.resize_(room)
+        memory.resize_(4 * full.numel())
""",
    ),
    KnownWrong(
        "own_weights_only",
        fails=("sharded_forward/output",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The module computes with this rank's part N times in place of the whole weights: nothing is
        gathered in forward. The other parts are on the other ranks.""",
        change="""
-    full, weights = whole_weights(module, part)
+    full = part.detach().repeat(dist.get_world_size()).requires_grad_(torch.is_grad_enabled())
+    shapes = {name: p.shape for name, p in module.named_parameters()}
+    sizes = [shape.numel() for shape in shapes.values()]
+    pieces = full[: sum(sizes)].split(sizes)
+    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
""",
    ),
    KnownWrong(
        "gradient_never_reduced",
        fails=("sharded_forward/gradient", "sharded_forward/frees", "sharded_forward/collectives"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""Nothing is reduced when the whole gradient is complete. The whole gradient stays on each rank,
        and part.grad, the only gradient that the optimizer has, stays None: the model does not train. A hook on `full`
        can call `reduce_into_part`.""",
        change="""
-    if y.requires_grad:
-        full.register_post_accumulate_grad_hook(lambda _: reduce_into_part(full, part))
-        if reshard:
-            y.register_hook(before_backward)
+    if y.requires_grad and reshard:
+        y.register_hook(before_backward)
""",
    ),
    KnownWrong(
        "gradients_summed",
        fails=("sharded_forward/gradient",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The gradient is the sum over ranks, N times too large: a reduce-scatter sums and does not divide.
        With another number of ranks the same learning rate then takes other steps. Divide by the number of ranks.""",
        definitions=reduce_otherwise("    mean /= dist.get_world_size()\n"),
    ),
    KnownWrong(
        "always_reshards",
        fails=("sharded_forward/frees", "sharded_forward/collectives"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""`reshard` has no effect: the weights are freed after every forward and gathered again in
        backward. Where memory is large enough to keep the weights, the second gather is unnecessary, and it is a third
        of the communication.""",
        change="""
-    if reshard:
+    if True:
@@
-        if reshard:
-            y.register_hook(before_backward)
+        y.register_hook(before_backward)
""",
    ),
    KnownWrong(
        "copy_kept_for_backward",
        fails=("sharded_forward/frees", "sharded_forward/collectives", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The gathered weights are freed, but a copy of them is kept for backward. The copy saves the
        second all-gather, and the whole weights stay in memory all the same. With `reshard`, gather again in
        backward.""",
        change="""
     memory = full.untyped_storage()
+    copy = full.detach().clone()
@@
-        dist.all_gather_into_tensor(full.data, part.detach())
+        full.data.copy_(copy)
""",
    ),
    KnownWrong(
        "freed_after_backward_only",
        fails=("sharded_forward/frees", "sharded_forward/collectives", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""`reshard` has no effect: the whole weights stay in memory from forward until backward is done.
        That is reshard_after_forward=False, as in ZeRO-2: after the last forward, all modules have their whole weights
        in memory on every rank. With `reshard`, free them before the function returns.""",
        change="""
-        memory.resize_(room)
-        dist.all_gather_into_tensor(full.data, part.detach())
+        pass
@@
-    if reshard:
-        memory.resize_(0)
""",
    ),
    KnownWrong(
        "never_freed",
        fails=("sharded_forward/frees", "sharded_forward/collectives", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The weights are gathered and never freed: after one step every rank holds the whole model. All
        numbers are right, and the step is even faster, but the model has to fit into one rank's memory, as in plain
        data parallelism. Free the weights after backward and, with `reshard`, after forward.""",
        change="""
-        memory.resize_(room)
-        dist.all_gather_into_tensor(full.data, part.detach())
+        pass
@@
-    if reshard:
-        memory.resize_(0)
""",
        definitions=reduce_otherwise("    full.untyped_storage().resize_(0)\n"),
    ),
    KnownWrong(
        "not_freed_after_forward",
        fails=("sharded_forward/frees", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights stay in memory after forward, and backward gathers them again all the same.
        This costs the memory of keeping them and the communication of freeing them. With `reshard`, free them before
        the function returns.""",
        change="""
-    if reshard:
-        memory.resize_(0)
""",
    ),
    KnownWrong(
        "pieces_copied",
        fails=("sharded_forward/frees", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The module computes with copies of the gathered weights. The gathered tensor is freed, but
        autograd keeps the copies for backward, so the whole weights stay in memory. Views share the memory that is
        freed.""",
        change="""
-    y: Tensor = functional_call(module, weights, (x,))
+    y: Tensor = functional_call(module, {name: weight.clone() for name, weight in weights.items()}, (x,))
""",
    ),
    KnownWrong(
        "replicated",
        fails=(
            "sharded_forward/frees",
            "sharded_forward/collectives",
            "sharded_forward/adds",
            "sharded_forward/chain",
            "sharded_forward/no-grad",
        ),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The module is replicated: the first forward gathers its whole weights and keeps them, and
        backward all-reduces the whole gradient. Outputs and gradients are right at first, but memory and collectives
        are those of data parallelism, and after an update of the parts the module computes with old weights. Gather in
        every forward.""",
        definitions="""
def sharded_forward(module, part, x, reshard):
    ranks, shapes = dist.get_world_size(), {name: p.shape for name, p in module.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]
    if not hasattr(module, "whole"):
        module.whole = [part.new_empty(part.numel() * ranks)]
        dist.all_gather_into_tensor(module.whole[0], part.detach())
    full = module.whole[0].detach().requires_grad_(torch.is_grad_enabled())

    def after_backward(_):
        dist.all_reduce(full.grad)
        mean = full.grad.chunk(ranks)[dist.get_rank()] / ranks
        part.grad = mean if part.grad is None else part.grad + mean
        full.grad = None

    pieces = full[: sum(sizes)].split(sizes)
    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    y = functional_call(module, weights, (x,))
    if y.requires_grad:
        full.register_post_accumulate_grad_hook(after_backward)
    return y
""",
    ),
    KnownWrong(
        "whole_after_backward",
        fails=("sharded_forward/frees", "sharded_forward/chain"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""Backward gathers the weights again, and they are not freed after it. When backward has passed all
        modules, the whole model is in memory on every rank, in addition to the optimizer's state. Free the weights when
        the gradient is reduced.""",
        definitions=reduce_otherwise("    full.untyped_storage().resize_(0)\n"),
    ),
    KnownWrong(
        "whole_gradient_kept",
        fails=("sharded_forward/frees",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole gradient stays in memory after the reduce-scatter, P numbers per module. A hook and its
        tensor refer to each other, so Python frees them only when its garbage collector runs, some time later. Set
        full.grad to None.""",
        definitions=reduce_otherwise("    full.grad = None\n"),
    ),
    KnownWrong(
        "gathered_by_an_all_reduce",
        fails=("sharded_forward/collectives", "sharded_forward/no-grad"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights come from an all-reduce, to which each rank gives its part between zeros. The
        sum is right, but on a ring it sends twice the bytes of an all-gather, which sends each part as it is and adds
        nothing.""",
        change="""
-    full, weights = whole_weights(module, part)
+    ranks = dist.get_world_size()
+
+    def put_together(full):
+        full.zero_()
+        full.view(ranks, -1)[dist.get_rank()] = part.detach()
+        dist.all_reduce(full)
+
+    full = part.new_empty(part.numel() * ranks)
+    put_together(full)
+    full.requires_grad_(torch.is_grad_enabled())
+    shapes = {name: p.shape for name, p in module.named_parameters()}
+    sizes = [shape.numel() for shape in shapes.values()]
+    pieces = full[: sum(sizes)].split(sizes)
+    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
@@
-        dist.all_gather_into_tensor(full.data, part.detach())
+        put_together(full.data)
""",
    ),
    KnownWrong(
        "gradients_all_reduced_whole",
        fails=("sharded_forward/collectives",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole gradient is all-reduced and each rank keeps its part. The numbers are right, but on a
        ring an all-reduce sends twice the bytes of a reduce-scatter, which gives each rank the sum of its own part
        only.""",
        definitions=reduce_otherwise(
            "dist.reduce_scatter_tensor(mean, full.grad)",
            "dist.all_reduce(full.grad); mean = full.grad.view(-1, len(part))[dist.get_rank()].clone()",
        ),
    ),
    KnownWrong(
        "gradient_replaced",
        fails=("sharded_forward/adds",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""Each backward replaces part.grad. Everywhere else in PyTorch, backward adds to a gradient that is
        there: with two micro-batches, the gradient of the first is lost here.""",
        definitions=reduce_otherwise(" if part.grad is None else part.grad + mean"),
    ),
    KnownWrong(
        "whole_weights_kept_on_the_module",
        fails=("sharded_forward/adds",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The hooks find the whole weights on the module, where the next call replaces them. If a module is
        called twice before backward, backward of the first call gathers into the tensor of the second, and its own
        weights stay freed. Let the hooks use the tensor of their own call.""",
        change="""
-        memory.resize_(room)
-        dist.all_gather_into_tensor(full.data, part.detach())
+        module.full.untyped_storage().resize_(room)
+        dist.all_gather_into_tensor(module.full.data, part.detach())
@@
     if reshard:
         memory.resize_(0)
+        module.full = full
""",
    ),
    KnownWrong(
        "hooks_without_a_backward",
        fails=("sharded_forward/no-grad",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The hooks are registered under no_grad too. There the output belongs to no graph, and registering
        a hook on it raises an error, so the first evaluation fails. Register hooks only if the output requires a
        gradient.""",
        change="""
-    if y.requires_grad:
+    if True:
""",
    ),
    KnownWrong(
        "loss_computed_twice",
        fails=("mixed_step/computes",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""`loss_of` is called twice in each step. One of the two forward passes is unnecessary, and with
        dropout it gives another loss.""",
        change="""
-    loss_of(full.requires_grad_()).backward()
+    loss_of(full.detach())
+    loss_of(full.requires_grad_()).backward()
""",
    ),
    KnownWrong(
        "a_new_part",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The caller's part does not change, so the model does not train: the new weights are in another
        tensor. `part = part - ...` makes a new tensor, which only the function sees under that name; `part -= ...`
        changes the caller's tensor.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part = part - lr * (mean / ranks).float()
""",
    ),
    KnownWrong(
        "loss_divided",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The loss is divided by N, so every gradient is rounded to param_dtype after the division and
        before the sum. For N = 3 that rounds N times, where dividing the sum rounds once. Divide the sum in
        reduce_dtype.""",
        change="""
-    loss_of(full.requires_grad_()).backward()
+    (loss_of(full.requires_grad_()) / ranks).backward()
@@
-    part -= lr * (mean / ranks).float()
+    part -= lr * mean.float()
""",
    ),
    KnownWrong(
        "always_reduced_in_fp32",
        fails=("mixed_step/update", "mixed_step/master", "mixed_step/bytes"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The gradient is always reduced in fp32. That is more exact, but the caller chooses the dtype with
        `reduce_dtype`: a reduction in bf16 sends half the bytes.""",
        change="""
-    mean = torch.empty(part.numel(), dtype=reduce_dtype)
-    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
+    mean = torch.empty(part.numel(), dtype=torch.float32)
+    dist.reduce_scatter_tensor(mean, full.grad.float())
""",
    ),
    KnownWrong(
        "gradient_sum_followed",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The step uses the sum of the gradients over ranks, not their mean. The step is N times too long,
        so it changes with the number of ranks. Divide the sum by N.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * mean.float()
""",
    ),
    KnownWrong(
        "master_rounded",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The updated part is rounded to param_dtype. In bf16 the next number above 1 is 1.0078, so an
        update of less than half that distance is rounded away. Most updates are smaller, and those weights do not
        change. The part keeps its fp32 digits.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part.copy_((part - lr * (mean / ranks).float()).to(param_dtype))
""",
    ),
    KnownWrong(
        "master_replaced_by_its_rounding",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The update starts from the weights as they were sent, rounded to param_dtype, and not from the
        fp32 part. Every step rounds the master copy, so the digits below the last bit of bf16 are lost each time.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part.copy_(part.to(param_dtype).float() - lr * (mean / ranks).float())
""",
    ),
    KnownWrong(
        "rate_multiplied_in_bf16",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The mean is still in reduce_dtype when it is multiplied by the learning rate. In bf16 the product
        is rounded to 8 bits once more, which changes the update by up to 0.4%. Cast the mean to fp32 first.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * (mean / ranks)
""",
    ),
    KnownWrong(
        "reduced_as_computed",
        fails=("mixed_step/update", "mixed_step/master", "mixed_step/bytes"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The gradient is reduced in param_dtype, not in reduce_dtype. bf16 keeps 8 bits, and each addition
        of the reduction rounds to them: more ranks mean more roundings. A cast to fp32 before the reduction costs bytes
        and keeps the digits.""",
        change="""
-    mean = torch.empty(part.numel(), dtype=reduce_dtype)
-    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
+    mean = torch.empty(part.numel(), dtype=param_dtype)
+    dist.reduce_scatter_tensor(mean, full.grad)
""",
    ),
    KnownWrong(
        "divided_in_fp32",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The sum is cast to fp32 before it is divided. That is more exact, but the contract rounds the
        mean to reduce_dtype, so that a run does not depend on the place of the division. On 2 and 4 ranks there is no
        difference, because bf16 divides by 2 and by 4 exactly.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * (mean.float() / ranks)
""",
    ),
    KnownWrong(
        "gathered_in_fp32",
        fails=("mixed_step/bytes",),
        read="handbook/sharding-and-zero.md#changes-in-the-loop",
        explanation="""The fp32 parts are gathered, and cast after that. The weights are the same, but in bf16 they
        would take half the bytes: cast first, then gather.""",
        change="""
-    full = torch.empty(part.numel() * ranks, dtype=param_dtype)
-    dist.all_gather_into_tensor(full, part.to(param_dtype))
+    full = torch.empty(part.numel() * ranks, dtype=part.dtype)
+    dist.all_gather_into_tensor(full, part)
+    full = full.to(param_dtype)
""",
    ),
    KnownWrong(
        "every_rank_writes_the_manifest",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""All ranks write the same manifest to the same file at the same time. Two writers of one file can
        leave a mixture that is not valid JSON. One rank writes the file that all ranks share: rank 0.""",
        change="""
     (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
-    if rank == 0:
+    if True:
""",
    ),
    KnownWrong(
        "everybody_writes_everything",
        fails=("save_parts/files", "save_parts/sends-none"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Every rank gathers the whole tensor and writes it. The disk receives N times the bytes, and the
        whole model has to fit into each rank's memory, which sharding avoids. Each rank writes only its own part.""",
        change="""
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    whole = part.new_empty(size * ranks)
+    dist.all_gather_into_tensor(whole, part)
+    (partial / f"part-{rank}.bin").write_bytes(whole.numpy()[:numel].tobytes())
""",
    ),
    KnownWrong(
        "fill_saved",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The padding is written with the part. It is no number of the tensor and may be undefined. Write
        only the numbers that belong to the tensor, and count only these in the manifest: otherwise a run on another
        number of ranks may load the padding.""",
        change="""
-    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
+    counts = [size] * ranks
""",
    ),
    KnownWrong(
        "one_short_part_at_most",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Here only the last rank can have fewer numbers than a part. 5 numbers on 4 ranks are in parts of
        2, 2, 1 and 0 numbers, and the last count becomes -1. The count of rank r is min(size, max(0, numel - r *
        size)).""",
        change="""
-    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
+    counts = [size] * (ranks - 1) + [numel - size * (ranks - 1)]
""",
    ),
    KnownWrong(
        "rank_0_writes_everything",
        fails=("save_parts/files", "save_parts/sends-none"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank 0 gathers all parts and writes one file. The other ranks wait for one link and one disk, and
        rank 0 needs memory for the whole tensor, which sharding avoids. Each rank writes its own part.""",
        change="""
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    whole = part.new_empty(size * ranks)
+    dist.all_gather_into_tensor(whole, part)
+    if rank == 0:
+        (partial / "part-0.bin").write_bytes(whole.numpy()[:numel].tobytes())
""",
    ),
    KnownWrong(
        "suffix_replaced",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""`folder.with_suffix(".partial")` replaces what follows the last dot of a name: the partial folder
        of step-1.5 is step-1.partial, and that of step-1.0 is the same one. Use folder.with_name(folder.name +
        ".partial").""",
        change="""
-    partial = folder.with_name(folder.name + ".partial")
+    partial = folder.with_suffix(".partial")
""",
    ),
    KnownWrong(
        "renamed_before_all_have_written",
        fails=("save_parts/files", "save_parts/complete"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank 0 renames the folder when rank 0 has written. Other ranks may still be writing: their files
        are then missing, or end up in a folder that is never renamed. A barrier before the rename makes rank 0 wait for
        all ranks.""",
        change="""
-    dist.barrier()
""",
    ),
    KnownWrong(
        "written_under_its_name",
        fails=("save_parts/files", "save_parts/complete"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The files are written into a folder that already has its final name. A run that is killed during
        the save leaves an incomplete folder that looks complete, and a resumed run loads it as the newest save. Write
        into the partial folder, then rename it.""",
        change="""
-    partial = folder.with_name(folder.name + ".partial")
+    partial = folder
@@
-    if rank == 0:
-        partial.rename(folder)
""",
    ),
    KnownWrong(
        "removed_without_a_barrier",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank 0 removes the folder of a killed save without a barrier after it. If another rank is faster,
        rank 0 removes the file that this rank has just written, and the save lacks it. Call dist.barrier() after the
        removal, or keep the folder and replace its files.""",
        change="""
+    if rank == 0 and partial.exists():
+        shutil.rmtree(partial)
     partial.mkdir(exist_ok=True)
""",
        definitions="import shutil",
    ),
    KnownWrong(
        "torchs_name_of_the_dtype",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The manifest has torch's name of the dtype, such as "torch.float64". NumPy, which reads the
        files, has no dtype of that name, so the save cannot be loaded. The name of `part.numpy().dtype` is
        "float64".""",
        change="""
-        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
+        manifest = {"numel": numel, "dtype": str(part.dtype), "counts": counts}
""",
    ),
    KnownWrong(
        "manifest_after_the_rename",
        fails=("save_parts/complete",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The manifest is written after the folder has its final name. A run that is killed between the two
        leaves a folder that looks complete and cannot be loaded, because its manifest is missing. Write every file
        before the rename.""",
        change="""
-    if rank == 0:
-        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
-        (partial / "manifest.json").write_text(json.dumps(manifest))
@@
         partial.rename(folder)
+        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
+        (folder / "manifest.json").write_text(json.dumps(manifest))
""",
    ),
    KnownWrong(
        "dtype_taken_for_granted",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The bytes are read as float64, whatever the manifest says. Two float32 numbers are then read as
        one float64 number, which is neither of them. Use the manifest's dtype.""",
        change="""
-    dtype, size = np.dtype(manifest["dtype"]), -(-manifest["numel"] // ranks)
+    dtype, size = np.dtype("float64"), -(-manifest["numel"] // ranks)
""",
    ),
    KnownWrong(
        "loaded_without_fill",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The last rank's part ends where the numbers end, and is shorter than the other parts. The next
        all-gather needs the same size from every rank: pad the part with zeros, as `cut` does.""",
        change="""
-    return torch.from_numpy(part)
+    return torch.from_numpy(part[: max(0, min(size, start - rank * size))])
""",
    ),
    KnownWrong(
        "a_map_of_the_file",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The part shares its memory with the saved files. When a later save overwrites them, the weights
        of the running model change too. Copy the numbers.""",
        definitions="""
def load_part(folder, rank, ranks):
    manifest = json.loads((folder / "manifest.json").read_text())
    dtype, size = np.dtype(manifest["dtype"]), -(-manifest["numel"] // ranks)
    part, start = np.zeros(size, dtype), 0
    for saved, count in enumerate(manifest["counts"]):
        first, last = max(start, rank * size), min(start + count, (rank + 1) * size)
        if first < last:
            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
            numbers = np.memmap(file, dtype, "r+", offset=offset, shape=(last - first,))
            if last - first == size:
                return torch.from_numpy(numbers)
            part[first - rank * size : last - rank * size] = numbers
        start += count
    return torch.from_numpy(part)
""",
    ),
    KnownWrong(
        "offset_in_numbers",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The offset in the file is counted in numbers, and np.fromfile counts it in bytes. For float64 the
        offset is 8 times too small, so the read begins at the wrong place. Multiply it by the dtype's itemsize.""",
        change="""
-            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
+            file, offset = folder / f"part-{saved}.bin", first - start
""",
    ),
    KnownWrong(
        "the_file_of_this_rank",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank r reads only the file of rank r. That is right if as many ranks load as saved. With more
        ranks, the last ranks have no file; with fewer ranks, the last files are never read. Read from every file that
        overlaps this rank's part.""",
        definitions="""
def load_part(folder, rank, ranks):
    manifest = json.loads((folder / "manifest.json").read_text())
    part = np.zeros(-(-manifest["numel"] // ranks), manifest["dtype"])
    if rank < len(manifest["counts"]):
        numbers = np.fromfile(folder / f"part-{rank}.bin", manifest["dtype"])[: len(part)]
        part[: len(numbers)] = numbers
    return torch.from_numpy(part)
""",
    ),
    KnownWrong(
        "two_files_at_most",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The part is read from the file in which it begins and from the next file only. If many ranks
        saved and few load, a part spans more files, and the numbers of the others are lost without an error. Read from
        every file that overlaps the part.""",
        change="""
-        if first < last:
+        if first < last and start <= rank * size + manifest["counts"][0]:
""",
    ),
    KnownWrong(
        "everything_read",
        fails=("load_part/reads",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Every rank reads all files completely and keeps its part. The whole tensor may not fit into one
        rank's memory, and N ranks read N times the checkpoint from one disk at the same time. Read only the bytes of
        the part.""",
        definitions="""
def load_part(folder, rank, ranks):
    manifest = json.loads((folder / "manifest.json").read_text())
    files = [folder / f"part-{saved}.bin" for saved in range(len(manifest["counts"]))]
    whole = np.concatenate([np.fromfile(file, manifest["dtype"]) for file in files])
    return cut(torch.from_numpy(whole), rank, ranks)  # noqa: F821
""",
    ),
    KnownWrong(
        "whole_files_read",
        fails=("load_part/reads",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Each file that overlaps the part is read completely and cut in memory. If few ranks saved and
        many ranks load, one file is much larger than a part, and many ranks read it at the same time. np.fromfile reads
        a part of a file, by count and offset.""",
        change="""
-            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
-            numbers = np.fromfile(file, dtype, count=last - first, offset=offset)
-            part[first - rank * size : last - rank * size] = numbers
+            numbers = np.frombuffer((folder / f"part-{saved}.bin").read_bytes(), dtype)
+            part[first - rank * size : last - rank * size] = numbers[first - start : last - start]
""",
    ),
    KnownWrong(
        "part_read_twice",
        fails=("load_part/reads",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The bytes of the part are read twice, for example once to count or to verify them and once to
        keep them. A disk that many ranks read at the same time then needs twice as long. Read the bytes once, and use
        them for both.""",
        change="""
             numbers = np.fromfile(file, dtype, count=last - first, offset=offset)
+            assert len(np.fromfile(file, dtype, count=last - first, offset=offset)) == last - first
""",
    ),
)

HURRIED = {
    "flat": {
        "the graph comes along": """
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
+    mine = whole.flatten()[rank * size : (rank + 1) * size]
""",
        "cut by rows": """
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
+    mine = whole.detach().reshape(-1)[rank::ranks]
""",
        "rank 0 takes the end": """
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
+    mine = whole.detach().flatten()[(ranks - 1 - rank) * size : (rank + 1) * size]
""",
        "filled with ones": """
-    part = whole.new_zeros(size)
+    part = whole.new_ones(size)
""",
        "gathers a list": """
-    dist.all_gather_into_tensor(whole, part)
+    parts = [None] * dist.get_world_size()
+    dist.all_gather_object(parts, part)
+    whole = torch.cat(parts)
""",
        "the last numbers, not the first": """
-    return whole[: shape.numel()].view(shape)
+    return whole[-shape.numel() :].view(shape)
""",
        "the largest, not the sum": """
-    dist.reduce_scatter_tensor(part, padded)
+    dist.reduce_scatter_tensor(part, padded, op=dist.ReduceOp.MAX)
""",
        "reduces to rank 0": """
-    dist.reduce_scatter_tensor(part, padded)
+    dist.reduce(padded, dst=0)
+    parts = list(padded.chunk(ranks)) if dist.get_rank() == 0 else None
+    dist.scatter(part, parts, src=0)
""",
        "padded in front": """
-    padded[: gradient.numel()] = gradient.flatten()
+    padded[padded.numel() - gradient.numel() :] = gradient.flatten()
""",
    },
    "clip": {
        "sums before it squares": """
-    squares = mine.square().sum()
+    squares = mine.sum().square()
""",
        "a tensor comes back": """
-    norm = squares.sqrt().item()
+    norm = squares.sqrt()
""",
        "the norm of rank 0": """
-    dist.all_reduce(squares)
+    dist.broadcast(squares, src=0)
""",
        "the longest part": """
-    dist.all_reduce(squares)
+    dist.all_reduce(squares, op=dist.ReduceOp.MAX)
""",
        "all squares travel": """
-    squares = mine.square().sum()
+    squares = torch.cat([mine.square(), mine.new_zeros(gradient.numel() - len(mine))])
     dist.all_reduce(squares)
+    squares = squares.sum()
""",
        "twice the limit": """
-    if norm > max_norm:
+    if norm > 1.2 * max_norm:
""",
        "one number at least": """
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient.nan_to_num(0.0)[: max(1, numel - dist.get_rank() * gradient.numel())]
""",
    },
    "zero1": {
        "no parameter": """
-    return nn.Parameter(cut(flat, dist.get_rank(), dist.get_world_size()))
+    return (cut(flat, dist.get_rank(), dist.get_world_size()))
""",
        "the part of rank 0": """
-    return nn.Parameter(cut(flat, dist.get_rank(), dist.get_world_size()))
+    return nn.Parameter(cut(flat, 0, dist.get_world_size()))
""",
        "missing gradients are passed over": """
-    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
+    gradients = [p.grad if p.grad is not None else torch.ones_like(p) for p in parameters]
""",
        "two steps": """
     part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    optimizer.step()
""",
        "the weights are averaged": """
             p.copy_(new.view_as(p))
+            dist.all_reduce(p)
+            p /= dist.get_world_size()
""",
        "everything on rank 0": """
-    optimizer.step()
+    if dist.get_rank() == 0:
+        optimizer.step()
""",
    },
    "whole_weights": {
        "views before the gradient is required": """
-    full.requires_grad_(torch.is_grad_enabled())
@@
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    return full.requires_grad_(torch.is_grad_enabled()), weights
""",
        "views under no_grad": """
-    pieces = full[: sum(sizes)].split(sizes)
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    with torch.no_grad():
+        pieces = [piece.view(shape) for piece, shape in zip(full[: sum(sizes)].split(sizes), shapes.values())]
+    return full, dict(zip(shapes, pieces, strict=True))
""",
        "no gradients": """
-    full.requires_grad_(torch.is_grad_enabled())
""",
        "the names of the modules": """
-    shapes = {name: p.shape for name, p in module.named_parameters()}
+    shapes = {name.rpartition(".")[2]: p.shape for name, p in module.named_parameters()}
""",
        "tied names twice": """
-    shapes = {name: p.shape for name, p in module.named_parameters()}
+    shapes = {name: p.shape for name, p in module.named_parameters(remove_duplicate=False)}
""",
        "trainable ones only": """
-    shapes = {name: p.shape for name, p in module.named_parameters()}
+    shapes = {name: p.shape for name, p in module.named_parameters() if p.requires_grad}
""",
        "the gradient of this rank": """
-    dist.reduce_scatter_tensor(mean, full.grad)
-    mean /= dist.get_world_size()
+    mean = full.grad.chunk(dist.get_world_size())[dist.get_rank()].clone()
""",
        "divided twice": """
-    mean /= dist.get_world_size()
+    mean /= dist.get_world_size() ** 2
""",
        "other memory for full": """
-    memory = full.untyped_storage()
-    memory.resize_(0)
+    full.data = torch.empty(0, dtype=full.dtype)
""",
        "a gather for each weight": """
-    dist.all_gather_into_tensor(full, part.detach())
+    for piece in full.chunk(1):
+        dist.all_gather(list(piece.chunk(dist.get_world_size())), part.detach())
+        dist.barrier()
""",
    },
    "sharded_forward": {
        "freed by a smaller tensor": """
     if reshard:
-        memory.resize_(0)
+        full.data = full.data[:0]
""",
        "a gather of garbage": """
-        dist.all_gather_into_tensor(full.data, part.detach())
+        full.data.zero_()
""",
        "gathered in forward, twice": """
     room = memory.nbytes()
+    dist.all_gather_into_tensor(full.data, part.detach())
""",
        "never trained": """
-    full, weights = whole_weights(module, part)
+    with torch.no_grad():
+        full, weights = whole_weights(module, part)
""",
        "barriers everywhere": """
     def before_backward(_: Tensor) -> None:
+        dist.barrier()
""",
        "a copy of each weight, put aside": """
     memory = full.untyped_storage()
+    module.__dict__['kept'] = [weight.detach().clone() for weight in weights.values()]
""",
        "the whole in a Python list, from the first forward on": """
     memory = full.untyped_storage()
+    full.data.copy_(torch.tensor(module.__dict__.setdefault('kept', full.tolist()), dtype=full.dtype))
""",
        "the last gradient, to look at": """
-        full.register_post_accumulate_grad_hook(lambda _: reduce_into_part(full, part))
+        def last(_):
+            module.__dict__['seen'] = full.grad.clone()
+            reduce_into_part(full, part)
+        full.register_post_accumulate_grad_hook(last)
""",
        "in eval mode": """
-    y: Tensor = functional_call(module, weights, (x,))
+    y: Tensor = functional_call(module, weights, (x.detach(),))
""",
    },
    "mixed_step": {
        "the loss in fp32": """
-    loss_of(full.requires_grad_()).backward()
+    loss_of(full.float().requires_grad_()).backward()
""",
        "all of it in fp32": """
-    full = torch.empty(part.numel() * ranks, dtype=param_dtype)
+    full = torch.empty(part.numel() * ranks, dtype=torch.float32)
""",
        "its own part only": """
-    dist.all_gather_into_tensor(full, part.to(param_dtype))
+    full.copy_(part.to(param_dtype).repeat(ranks))
""",
        "up the gradient": """
-    part -= lr * (mean / ranks).float()
+    part += lr * (mean / ranks).float()
""",
        "the learning rate is lost": """
-    part -= lr * (mean / ranks).float()
+    part -= (mean / ranks).float()
""",
        "gradients pass through bf16": """
-    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
+    dist.reduce_scatter_tensor(mean, full.grad.to(torch.bfloat16).to(reduce_dtype))
""",
    },
    "save_parts": {
        "saved with pickle": """
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    torch.save(part[: counts[rank]], partial / f"part-{rank}.bin")
""",
        "copied, not renamed": """
-        partial.rename(folder)
+        __import__('shutil').copytree(partial, folder)
""",
        "adds to a file that is there": """
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    (partial / f"part-{rank}.bin").open("ab").write(part.numpy()[: counts[rank]].tobytes())
""",
        "the padding set to zero": """
     counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
+    part[counts[rank] :] = 0
""",
        "always float64": """
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    part = part.double()
+    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
""",
        "no file where there is no number": """
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    if counts[rank]:
+        (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
""",
    },
    "load_part": {
        "the first numbers for everybody": """
-        first, last = max(start, rank * size), min(start + count, (rank + 1) * size)
+        first, last = max(start, 0), min(start + count, size)
""",
        "the whole file, by mmap": """
-            numbers = np.fromfile(file, dtype, count=last - first, offset=offset)
+            numbers = np.memmap(file, dtype, 'r')[:].copy()[first - start : last - start]
""",
        "one file after the other": """
-            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
+            file, offset = folder / f"part-{rank}.bin", (first - start) * dtype.itemsize
""",
        "always float32": """
-    return torch.from_numpy(part)
+    return torch.from_numpy(part).float()
""",
    },
}
