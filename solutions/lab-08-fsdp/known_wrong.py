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
        explanation="""The numbers are dealt out in turn: rank r gets number r, r + N and so on. Sizes come out right,
        but an all-gather lays parts end to end, so that the whole would come back shuffled.""",
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
        explanation="""The part does not end in zeros. What stands behind the last number is no number of the
        whole, but it is there: in a norm, in the optimizer's state, in a file. Memory from `new_empty` holds
        whatever was in it before; here the last number is repeated.""",
        change="""
-    part = whole.new_zeros(size)
+    part = whole.new_full((size,), whole.detach().flatten()[-1].item())
""",
    ),
    KnownWrong(
        "parts_of_unequal_size",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The parts differ in size by one, without fill. An all-gather into one tensor and a reduce-scatter
        want the same size from every rank, and with other sizes they fail, or hang.""",
        definitions="""
def cut(whole, rank, ranks):
    return whole.detach().flatten().tensor_split(ranks)[rank].clone()
""",
    ),
    KnownWrong(
        "tail_lost",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""N parts hold fewer than P numbers, and the last few belong to no rank. They would never be
        updated, and not be saved. P / N has to be rounded up, and the last part filled.""",
        change="""
-    size = -(-whole.numel() // ranks)
+    size = whole.numel() // ranks
""",
    ),
    KnownWrong(
        "last_part_is_short",
        fails=("flat/cut",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The last ranks' parts end where the numbers end, without fill. An all-gather into one tensor and
        a reduce-scatter want the same size from every rank, and with other sizes they fail, or hang.""",
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
        explanation="""The part is float32, whatever the whole is. float64 loses half of its digits, bfloat16 takes
        twice its memory, and a collective of tensors of two dtypes fails. Take the dtype of what was given, as
        `new_zeros` does.""",
        change="""
-    part = whole.new_zeros(size)
+    part = torch.zeros(size)
""",
    ),
    KnownWrong(
        "part_is_a_view",
        fails=("flat/storage",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part shares the memory of a larger tensor. As long as the part lives, that tensor does:
        every rank holds P numbers, as if nothing had been cut. A slice shares its tensor's memory; a copy lets the
        rest go.""",
        definitions="""
def cut(whole, rank, ranks):
    size = -(-whole.numel() // ranks)
    padded = whole.new_zeros(size * ranks)
    padded[: whole.numel()] = whole.detach().flatten()
    return padded[rank * size : (rank + 1) * size]
""",
    ),
    KnownWrong(
        "fill_left_in",
        fails=("flat/gather",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The fill is gathered with the parts and left in the whole, which is then longer than the tensor
        was, and has one dimension. Only the first shape.numel() numbers belong to it.""",
        change="""
-    return whole[: shape.numel()].view(shape)
+    return whole
""",
    ),
    KnownWrong(
        "one_tensor_for_all_parts",
        fails=("flat/gather",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Every part of the whole is the part of one rank. `[tensor] * N` is a list of N names for *one*
        tensor: each part that arrives is written over the one before. Make N tensors, or one of N times the size.""",
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
        explanation="""The caller's gradient is changed: it is divided where it is. The part that comes back is
        right, but p.grad is N times too small afterwards: a norm in the log, or a second use of it, is wrong.""",
        change="""
     part = gradient.new_empty(-(-gradient.numel() // ranks))
+    gradient /= ranks
@@
-    return part / ranks
+    return part
""",
    ),
    KnownWrong(
        "sum_of_gradients",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""A reduce-scatter sums. Each rank's loss is a mean over its own share of the batch, so the
        batch's gradient is the mean over ranks, and this one is N times too long. AdamW hides that; clipping and
        SGD do not.""",
        change="""
-    return part / ranks
+    return part
""",
    ),
    KnownWrong(
        "divided_by_two",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The sum is divided by 2, whatever the number of ranks. It works on the machine it was tried
        on. Ask the group: `dist.get_world_size()`.""",
        change="""
-    return part / ranks
+    return part / 2
""",
    ),
    KnownWrong(
        "mean_in_float32",
        fails=("flat/mean",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part of the mean is float32, whatever the gradient is. It is then a gradient that its
        parameter does not take: torch refuses a `.grad` of another dtype.""",
        change="""
-    return part / ranks
+    return part.float() / ranks
""",
    ),
    KnownWrong(
        "gathered_by_broadcasts",
        fails=("flat/gathers-once",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank in turn broadcasts its part: the same whole, in N collectives instead of one. They wait
        for each other, and while one rank sends the others' links are idle.""",
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
        explanation="""An all-reduce gives every rank the whole sum, of which it throws away all but its part. The
        numbers are right. A ring sends twice the bytes of a reduce-scatter for it, and each rank needs room for the
        whole once more.""",
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
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The fill is squared and summed with the rest. Where it is 0 nobody notices. Where it is memory
        that nobody wrote, the norm is anything, nan included, and a norm of nan clips nothing.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient
""",
    ),
    KnownWrong(
        "length_of_the_own_part",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""Each rank takes the length of its own part for the gradient's. It is too short, so too little is
        clipped; and every rank has another, so that the parts are multiplied by different numbers and the gradient
        turns.""",
        change="""
-    dist.all_reduce(squares)
""",
    ),
    KnownWrong(
        "lengths_added_up",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The ranks' lengths are added. Lengths of parts do not add up, their squares do: 3 and 4 make 5,
        not 7. The sum is too long, and the gradient is clipped too much.""",
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
        "norm_after_the_clipping",
        fails=("clip/norm",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""What comes back is the length after the clipping. The length before is wanted: in a log it shows
        a gradient that explodes, and after the clipping no length is above the limit.""",
        change="""
-    return norm
+    return min(norm, max_norm)
""",
    ),
    KnownWrong(
        "only_rank_0_reduces",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""Only rank 0 calls the all-reduce. Every rank must enter every collective: rank 0 waits in it for
        the others, and they wait in the next one for rank 0. What only one rank prints, all ranks must still
        compute.""",
        change="""
-    dist.all_reduce(squares)
+    if dist.get_rank() == 0:
+        dist.all_reduce(squares)
""",
    ),
    KnownWrong(
        "squares_averaged",
        fails=("clip/norm", "clip/direction"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The sum of the squares is divided by the number of ranks, as gradients are. But each rank has
        other numbers here, not another opinion of the same ones: nothing is to be averaged.""",
        change="""
     dist.all_reduce(squares)
+    squares /= dist.get_world_size()
""",
    ),
    KnownWrong(
        "clipped_copy",
        fails=("clip/direction",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The caller's gradient does not change: the clipped numbers are in another tensor. `gradient =
        gradient * ...` makes a new tensor and gives it the name inside the function; `gradient *= ...` and `mul_`
        change the gradient.""",
        change="""
-        gradient.mul_(max_norm / norm)
+        gradient = gradient * (max_norm / norm)
""",
    ),
    KnownWrong(
        "factor_of_the_own_part",
        fails=("clip/direction",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The norm that comes back is the whole gradient's, and the factor is not: each rank shortens its
        own part to the limit. The parts get different factors, and all together are longer than the limit.""",
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
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""NaN in the fill is taken as 0, and any other number in the fill is squared and summed with
        the gradient's. Memory that has not been written holds anything. Only the first numbers of the last part
        belong to the gradient: count them.""",
        change="""
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
+    mine = gradient.nan_to_num(0.0)
""",
    ),
    KnownWrong(
        "lengthened_to_the_limit",
        fails=("clip/limit",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""Every gradient is brought to the limit, the short ones too. A run that has nearly converged then
        makes steps as long as at the start.""",
        change="""
-    if norm > max_norm:
+    if norm > 0:
""",
    ),
    KnownWrong(
        "whole_gradient_gathered",
        fails=("clip/one-number",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The whole gradient is gathered on every rank to measure it. The norm is right, and costs as much
        memory and as many bytes as if the gradient had never been cut. One number per rank is enough.""",
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
        explanation="""Each parameter is cut by itself, and its parts are laid end to end. That is what fully_shard
        does, but then gradients must be laid out in the same way, and here they are not: numbers meet the gradients of
        others. It also fills once per parameter, not once in all.""",
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
        explanation="""This is an ordinary AdamW that calls itself sharded: every rank hands it all weights, so every
        rank keeps state for all of them, and the gradients are all-reduced. The weights come out right, which is why no
        test of numbers notices; counting does. Not one byte is saved.""",
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
        "part_holds_all_weights",
        fails=("zero1/state",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The part is a slice of the flat weights, and keeps all of them in memory a second time. The
        optimizer's state is as small as it should be; a full copy of the weights has come with it.""",
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
        explanation="""The update follows this rank's own gradient, of which it takes its part. Nothing is averaged: N -
        1 of N sequences have been computed for nothing.""",
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
        explanation="""The gradients are summed over the ranks and not divided. AdamW divides each gradient by its own
        size, so that the losses look right with one eps; the norm in the log is N times too long, and with SGD every
        step is.""",
        change="""
     part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))
+    part.grad *= dist.get_world_size()
""",
    ),
    KnownWrong(
        "missing_gradients_left_out",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Gradients that are None are left out of the flat gradient. Everything behind them moves forward,
        and where ranks lack different ones they call the reduce-scatter with different sizes. Put zeros in their
        places.""",
        change="""
-    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
+    gradients = [p.grad for p in parameters if p.grad is not None]
""",
    ),
    KnownWrong(
        "gathered_before_the_update",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""The weights are gathered before optimizer.step(): every rank keeps the weights of the update
        before. Update the part first, then gather it.""",
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
        explanation="""The parameters have other memory than before. The numbers are right, but views of the old
        memory, as tied weights or an optimizer's flat buffer have, keep the old numbers. Assigning `p.data` does
        this; `copy_` writes into the memory that is there.""",
        change="""
-            p.copy_(new.view_as(p))
+            p.data = new.view_as(p)
""",
    ),
    KnownWrong(
        "own_part_alone_is_updated",
        fails=("zero1/update",),
        read="handbook/sharding-and-zero.md#an-all-reduce-is-two-halves",
        explanation="""Each rank writes its own part back and nobody gathers. From the first update on every rank has
        another model, in which only its own part has been trained.""",
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
        explanation="""Where a gradient is missing zeros are put into p.grad, which stays so. Whoever asks later whether
        this parameter took part is told that it did, and an optimizer that skips missing gradients decays it.""",
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
        explanation="""part.grad keeps the gradients of earlier updates, and each update adds its own. What the
        optimizer follows is the sum of all gradients so far. The part has a new gradient in each update.""",
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
        explanation="""The update clears the gradients. They are the caller's, who may log their norm after the
        update, or add another micro-batch: an optimizer's step leaves p.grad as it is, and zero_grad() is a call
        of its own.""",
        change="""
     optimizer.step()
+    for p in parameters:
+        p.grad = None
""",
    ),
    KnownWrong(
        "adamw_of_all_weights_hidden",
        fails=("zero1/memory",),
        read="handbook/sharding-and-zero.md#sixteen-bytes-n-times",
        explanation="""The collectives are ZeRO-1's, and so is the optimizer that is handed in; the update is not
        theirs. What is gathered is the mean gradient, and every rank gives it to an optimizer of its own, which it
        keeps for all weights. The numbers and the calls are right, and all of the state is on every rank: each number
        of the optimizer's memory is there N times, as before.""",
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
        explanation="""Each rank broadcasts its new part in turn. The weights are right, in N collectives that wait for
        each other; one all-gather keeps every rank's link busy at the same time.""",
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
        explanation="""All gradients are all-reduced, and each rank uses its part of the mean. That is ZeRO-1 as it was
        first built, and right. The all-gather of the weights comes on top, so that a ring sends 3 times the bytes of
        the model where 2 are enough.""",
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
        explanation="""The module gets this rank's part, repeated, as if all numbers were there. The other parts
        are on the other ranks, and nothing is gathered.""",
        change="""
-    full = part.new_empty(part.numel() * dist.get_world_size())
-    dist.all_gather_into_tensor(full, part.detach())
+    full = part.detach().repeat(dist.get_world_size())
""",
    ),
    KnownWrong(
        "copies_of_pieces",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The weights are copies of what was gathered. Autograd keeps the copies for backward, so that
        freeing the gathered tensor frees none of them: the module stays whole, in as many tensors as it has
        parameters. Views share the memory that is freed.""",
        change="""
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    return full, {name: piece.view(shape).clone() for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
""",
    ),
    KnownWrong(
        "views_of_a_detached_tensor",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""No gradient of the weights reaches `full`: they share its memory, and autograd does not follow
        them. Views of `full.detach()` or `full.data` are like that: backward ends at them, and full.grad stays None.
        Make views of `full` itself.""",
        change="""
-    pieces = full[: sum(sizes)].split(sizes)
+    pieces = full.detach()[: sum(sizes)].split(sizes)
""",
    ),
    KnownWrong(
        "always_requires_a_gradient",
        fails=("whole_weights/views",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""`full` requires a gradient under torch.no_grad() too. An evaluation then builds on a leaf
        that asks for a gradient, and code that looks at it registers hooks for a backward that never comes.""",
        change="""
-    full.requires_grad_(torch.is_grad_enabled())
+    full.requires_grad_()
""",
    ),
    KnownWrong(
        "whole_gradient_summed",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The reduce-scatter sums, and nothing divides: the gradient is N times too large. Change the
        number of ranks, and the same learning rate makes other steps.""",
        change="""
-    mean /= dist.get_world_size()
""",
    ),
    KnownWrong(
        "part_gradient_replaced",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""A new gradient takes the place of the old one. Backward adds everywhere else in PyTorch:
        with two micro-batches, the first one's gradient is lost.""",
        change="""
-    part.grad = mean if part.grad is None else part.grad + mean
+    part.grad = mean
""",
    ),
    KnownWrong(
        "earlier_gradient_divided_again",
        fails=("whole_weights/reduced",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The gradient that was in part.grad before is divided by N once more: the sum of old and new is
        divided, where only the new one is a sum over ranks. With k micro-batches the first one counts an
        N**(k-1)-th.""",
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
        explanation="""The whole gradient is all-reduced and each rank keeps its part. The numbers are right, with
        twice the bytes on a ring: a rank needs the sum of its own part only, and that is what a reduce-scatter is.""",
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
        explanation="""The reduce-scatter has made this rank's part of the gradient, and the whole one stays in
        full.grad: P numbers per module, until Python's garbage collector finds them.""",
        change="""
-    full.grad = None
""",
    ),
    KnownWrong(
        "weights_stay_whole",
        fails=("whole_weights/given-back",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights stay in memory after the reduction. Each module is whole from its backward
        on, and when the first one's backward is done the whole model is there, on every rank, beside the
        optimizer's state.""",
        change="""
-    memory = full.untyped_storage()
-    memory.resize_(0)
""",
    ),
    KnownWrong(
        "not_gathered_again",
        fails=("sharded_forward/output",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The weights are freed after forward, and backward finds no memory behind them: autograd kept
        the tensors, not their numbers. After a free, gather again before the first gradient of the module is
        computed.""",
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
        "own_weights_only",
        fails=("sharded_forward/output",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The module computes with this rank's own part, repeated. The other parts are on the other
        ranks, and nothing is gathered in forward.""",
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
        explanation="""Nothing is reduced when the whole gradient is complete: it stays whole on each rank, and
        part.grad, which is all that an optimizer sees, stays None. The model does not train.""",
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
        explanation="""The gradient is the sum over the ranks, N times too large: a reduce-scatter sums, and
        nothing divides. Change the number of ranks, and the same learning rate makes other steps.""",
        definitions=reduce_otherwise("    mean /= dist.get_world_size()\n"),
    ),
    KnownWrong(
        "always_reshards",
        fails=("sharded_forward/frees", "sharded_forward/collectives"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""`reshard` has no effect: the weights are freed after every forward and gathered again in
        backward. Where memory allows to keep them, that is a third of the communication for nothing.""",
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
        explanation="""The gathered weights are freed, and a copy of them is kept for backward. That saves the
        second gather, and holds the whole weights all the same, in another tensor.""",
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
        explanation="""`reshard` has no effect: the whole weights stay from forward to backward, and are freed
        then. That is reshard_after_forward=False, ZeRO-2: in the middle of a step, when the last forward is done,
        all modules are whole on every rank.""",
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
        explanation="""The weights are gathered for the first use and never given back: after one step every rank
        holds the whole model. All numbers are right, and it is even faster, until the model does not fit. This is
        data parallelism with a detour.""",
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
        explanation="""The weights are gathered again in backward, into memory that was never given back: both the
        memory of keeping them and the communication of freeing them.""",
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
        autograd keeps the copies for backward: the weights are as whole as before, in as many tensors as the
        module has parameters. Views share the memory that is freed.""",
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
        explanation="""A replicated model that passes for a sharded one: the first forward makes the module whole and it
        stays so, and gradients are all-reduced, of which each rank keeps its part. Outputs and gradients are right.
        What every rank holds, and what it calls, are data parallelism's; and after an update of the parts it computes
        with old weights.""",
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
        explanation="""Backward gathers the weights again, and nothing frees them after it. Each module is whole
        from its backward on, and when the first one's backward is done the whole model is there, on every rank,
        beside the optimizer's state.""",
        definitions=reduce_otherwise("    full.untyped_storage().resize_(0)\n"),
    ),
    KnownWrong(
        "whole_gradient_kept",
        fails=("sharded_forward/frees",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The reduce-scatter has made this rank's part of the gradient, and the whole one stays in
        memory. A hook and its tensor hold each other, so Python frees them only when its garbage collector runs: P
        numbers per module, for some unknown time.""",
        definitions=reduce_otherwise("    full.grad = None\n"),
    ),
    KnownWrong(
        "gathered_by_an_all_reduce",
        fails=("sharded_forward/collectives", "sharded_forward/no-grad"),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The whole weights are put together by an all-reduce of parts between zeros. The sum is
        right, with twice the bytes of an all-gather on a ring: numbers travel to be added to zeros. An all-gather
        sends each part as it is.""",
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
        explanation="""The whole gradient is all-reduced and each rank keeps its part. The numbers are right, with
        twice the bytes on a ring: a rank needs the sum of its own part only, and that is what a reduce-scatter is.""",
        definitions=reduce_otherwise(
            "dist.reduce_scatter_tensor(mean, full.grad)",
            "dist.all_reduce(full.grad); mean = full.grad.view(-1, len(part))[dist.get_rank()].clone()",
        ),
    ),
    KnownWrong(
        "gradient_replaced",
        fails=("sharded_forward/adds",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""Each backward puts a new gradient in the place of the old one. Backward adds everywhere else
        in PyTorch: with two micro-batches, the first one's gradient is lost.""",
        definitions=reduce_otherwise(" if part.grad is None else part.grad + mean"),
    ),
    KnownWrong(
        "hooks_without_a_backward",
        fails=("sharded_forward/no-grad",),
        read="handbook/sharding-and-zero.md#fully_shard",
        explanation="""The hooks are registered whether or not a backward will come. Under no_grad the output
        belongs to no graph, and torch refuses to hook it: the first evaluation ends the run.""",
        change="""
-    if y.requires_grad:
+    if True:
""",
    ),
    KnownWrong(
        "loss_computed_twice",
        fails=("mixed_step/computes",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The loss is computed twice, perhaps once to look at it. That is one forward pass too many in
        every step, and where dropout draws random numbers, another loss.""",
        change="""
-    loss_of(full.requires_grad_()).backward()
+    loss_of(full.detach())
+    loss_of(full.requires_grad_()).backward()
""",
    ),
    KnownWrong(
        "a_new_part",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The caller's part does not change, and with it the model: the new weights are in another
        tensor. `part = part - ...` makes a new tensor and gives it the name inside the function; `part -= ...`
        changes the part.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part = part - lr * (mean / ranks).float()
""",
    ),
    KnownWrong(
        "always_reduced_in_fp32",
        fails=("mixed_step/update", "mixed_step/master", "mixed_step/bytes"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The reduction is in fp32 whatever was asked for. That is the careful choice, and somebody has
        chosen otherwise: bf16 halves the bytes of the gradients.""",
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
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The step follows the sum over the ranks, not their mean. With SGD it is N times as long, and with
        twice the ranks twice that.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * mean.float()
""",
    ),
    KnownWrong(
        "master_rounded",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The updated part is rounded to param_dtype. Near 1 the next number that bf16 knows is 1.0078, and
        most updates are smaller than half of that: they are rounded away, and those weights stand still.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part.copy_((part - lr * (mean / ranks).float()).to(param_dtype))
""",
    ),
    KnownWrong(
        "master_replaced_by_its_rounding",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The update starts from the weights as they were sent, rounded to param_dtype, and not from the
        fp32 part. Every step rounds the master copy, and what was below the last bit of bf16 is lost each time.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part.copy_(part.to(param_dtype).float() - lr * (mean / ranks).float())
""",
    ),
    KnownWrong(
        "rate_multiplied_in_bf16",
        fails=("mixed_step/update", "mixed_step/master"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The mean is still in reduce_dtype when it is multiplied by the learning rate: the product is
        rounded to the 8 bits of bf16 once more, before it meets the fp32 part. An update of a few parts in a thousand
        is off by as much.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * (mean / ranks)
""",
    ),
    KnownWrong(
        "reduced_as_computed",
        fails=("mixed_step/update", "mixed_step/master", "mixed_step/bytes"),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The gradient is reduced in the precision it was computed in. bf16 keeps 8 bits: at each
        addition of a reduction digits are lost, more with every rank. Casting before the reduction costs bytes and
        keeps them.""",
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
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The sum is divided in fp32, after the cast. That is more exact, and not what was asked for:
        the mean is to be rounded to reduce_dtype, so that a run does not depend on where the division happens. On
        2 and 4 ranks nobody sees it, because bf16 halves exactly.""",
        change="""
-    part -= lr * (mean / ranks).float()
+    part -= lr * (mean.float() / ranks)
""",
    ),
    KnownWrong(
        "gathered_in_fp32",
        fails=("mixed_step/bytes",),
        read="handbook/sharding-and-zero.md#what-changes-in-the-loop",
        explanation="""The fp32 parts are gathered and cast on arrival. The numbers are the same, and twice the bytes
        have travelled: cast first, then send.""",
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
        explanation="""All ranks write the same manifest to the same place at the same time. Most often that ends well.
        Two writers of one file can also leave one that is neither's: what is one for all is one rank's to write.""",
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
        explanation="""Every rank gathers the whole and writes it: full state on every rank. N times the bytes on the
        disk, and the one moment of the run at which the model must fit into one rank's memory.""",
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
        explanation="""The fill is written with the part, and counted. It belongs to this number of ranks: loaded on
        another number it stands in the middle of the weights.""",
        change="""
-    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
+    counts = [size] * ranks
""",
    ),
    KnownWrong(
        "rank_0_writes_everything",
        fails=("save_parts/files", "save_parts/sends-none"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank 0 gathers all parts and writes one file. The others wait for one disk and one link, and rank
        0 needs room for the whole, which sharding was to avoid.""",
        change="""
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    whole = part.new_empty(size * ranks)
+    dist.all_gather_into_tensor(whole, part)
+    if rank == 0:
+        (partial / "part-0.bin").write_bytes(whole.numpy()[:numel].tobytes())
""",
    ),
    KnownWrong(
        "renamed_before_all_have_written",
        fails=("save_parts/files", "save_parts/complete"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank 0 renames the folder when rank 0 has written. The others may still be writing: their files
        are missing, or end up in a folder that nobody renames.""",
        change="""
-    dist.barrier()
""",
    ),
    KnownWrong(
        "written_under_its_name",
        fails=("save_parts/files", "save_parts/complete"),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Everything is written straight into the folder, under the name it is looked for. Killed in the
        middle it leaves a folder that looks like a save and is none, and a resume takes it for the newest.""",
        change="""
-    partial = folder.with_name(folder.name + ".partial")
+    partial = folder
@@
-    if rank == 0:
-        partial.rename(folder)
""",
    ),
    KnownWrong(
        "torchs_name_of_the_dtype",
        fails=("save_parts/files",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The manifest has torch's name of the dtype, "torch.float64". NumPy, which reads the file,
        does not know that name: the save cannot be loaded. `part.numpy().dtype` has the name "float64".""",
        change="""
-        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
+        manifest = {"numel": numel, "dtype": str(part.dtype), "counts": counts}
""",
    ),
    KnownWrong(
        "manifest_after_the_rename",
        fails=("save_parts/complete",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The manifest is written when the folder has its name, as a seal on it. Killed between the two,
        the run leaves a folder with a good name and all parts, which nobody can load. What says that a save is complete
        is the name, so all that belongs to it is written before.""",
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
        explanation="""The bytes are read as float64, whatever the manifest says. Two float32 numbers make one float64,
        which is neither of them.""",
        change="""
-    dtype, size = np.dtype(manifest["dtype"]), -(-manifest["numel"] // ranks)
+    dtype, size = np.dtype("float64"), -(-manifest["numel"] // ranks)
""",
    ),
    KnownWrong(
        "loaded_without_fill",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The last rank's part ends where the numbers end, and is shorter than the others'. The next
        all-gather wants the same size from every rank.""",
        change="""
-    return torch.from_numpy(part)
+    return torch.from_numpy(part[: max(0, min(size, start - rank * size))])
""",
    ),
    KnownWrong(
        "a_map_of_the_file",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""The part shares its memory with the saved files. When a later save reuses the place, the
        weights of the running model change with it. Copy the numbers.""",
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
        explanation="""The place in the file is counted in numbers, and a file is read in bytes. What is read begins 8
        times too early, in the middle of another number.""",
        change="""
-            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
+            file, offset = folder / f"part-{saved}.bin", first - start
""",
    ),
    KnownWrong(
        "the_file_of_this_rank",
        fails=("load_part/parts",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Rank r reads part r. That is right as long as the run goes on with as many ranks as it was saved
        with; with more there is no such file, and with fewer the end of the model is lost.""",
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
        "everything_read",
        fails=("load_part/reads",),
        read="handbook/sharding-and-zero.md#checkpoints",
        explanation="""Every rank reads every file from end to end, and keeps its part. The whole may not fit into
        one rank's memory; and N ranks that each read everything read N times the checkpoint from one disk, at the
        same time.""",
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
        explanation="""Each file that has something of the part is read from end to end, and cut in memory. With many
        ranks every rank reads nearly everything there is, at the same time, from the same disk.""",
        change="""
-            file, offset = folder / f"part-{saved}.bin", (first - start) * dtype.itemsize
-            numbers = np.fromfile(file, dtype, count=last - first, offset=offset)
-            part[first - rank * size : last - rank * size] = numbers
+            numbers = np.frombuffer((folder / f"part-{saved}.bin").read_bytes(), dtype)
+            part[first - rank * size : last - rank * size] = numbers[first - start : last - start]
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
        "everything that a state_dict has": """
-    shapes = {name: p.shape for name, p in module.named_parameters()}
+    shapes = {name: p.shape for name, p in module.state_dict().items()}
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
        "up the slope": """
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
        "the fill set to zero": """
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
