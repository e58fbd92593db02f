"""Lab 07, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
What a rank holds is compared with what one process computes from the whole batch, which the probe brings as `whole`.
"""

import math
from typing import Any

import numpy as np

from rankzero.exercises.checks.answer_schema import (
    boolean,
    either,
    has_form,
    integer,
    list_of,
    none,
    real_number,
    row_of,
    short_text,
)
from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, has_reference_form, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

EXACT = 1e-12  # float64 rounds at 1e-16; the sums here have a few hundred terms
SECONDS = 15.0  # of a probe: up to three worlds, each with a limit of its own
FLOAT32 = 1e-6  # a loss may be averaged in float32
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "gather", "scatter")
ALL_IN = {
    "send": " dist.send returns when the other side has received: somebody must.",
    "recv": " dist.recv returns when something has come: somebody must send first.",
}


def plural(count: int, thing: str) -> str:
    """'1 message', '3 messages'."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ss') else 's'}"


# ---------------------------------------------------------------------------------------------------- ring_all_reduce
def cases(answers: Answers) -> list[str]:
    """In which world, and of how many numbers, each case is."""
    lengths = [math.prod(shape) for shape in answers["shapes"]]
    return [f"on {plural(k, 'rank')}, with {n} numbers" for k, n in zip(answers["ranks"], lengths, strict=True)]


def nobody_waits_forever(got: Answers, expected: Answers) -> str | None:
    """The ranks came to an end."""
    stuck = got["stuck"]
    if not stuck:
        return None
    known = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "barrier", *COLLECTIVES)
    places = [f"in dist.{call}" if call in known else "at a line of yours, a wait() perhaps" for call in stuck[:4]]
    told = ", ".join(f"rank {rank} is {place}" for rank, place in enumerate(places))
    why = ALL_IN.get(stuck[0], "") if len(set(stuck)) == 1 else ""
    return f"on {len(stuck)} ranks it never ends: {told}.{why}"


ENDS = all_of(has_form("stuck", list_of(short_text)), nobody_waits_forever)
SENT_MESSAGES = has_form("sent", list_of(row_of(integer, integer)), 2)


def sums(got: Answers, expected: Answers) -> str | None:
    """Every rank holds the sum over all ranks."""
    for where, mine, wanted in zip(cases(expected), got["sums"], expected["sums"], strict=True):
        for rank, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            wrong = [n for n, (a, b) in enumerate(zip(one, other, strict=True)) if not equal(a, b, EXACT)]
            if wrong:
                n = wrong[0]
                many = f"; {plural(len(wrong), 'number')} of {len(other)} {'is' if len(wrong) == 1 else 'are'} wrong"
                return f"{where}: rank {rank}, number {n} {mismatch_text(one[n], other[n])[:-1]}{many}."
    return None


SUMS = all_of(has_form("sums", real_number, 3), sums)


def no_collective(got: Answers, expected: Answers) -> str | None:
    """Messages only."""
    for where, ranks in zip(cases(expected), got["others"], strict=True):
        for rank, names in enumerate(ranks):
            if names:
                return f"{where}: rank {rank} called {names[0]}; expected messages to neighbors only."
    return None


def to_neighbors(got: Answers, expected: Answers) -> str | None:
    """Every message goes to the next rank and comes from the one before; the first holds the rank's own numbers."""
    for case, where in enumerate(cases(expected)):
        sent, received, right = got["sent"][case], got["received"][case], expected["sent"][case]
        if any(right) and not any(sent):
            return f"{where}: nothing was sent."
        for rank in range(len(sent)):
            after, before = (rank + 1) % len(sent), (rank - 1) % len(sent)
            wrong = [peer for peer, _ in sent[rank] if peer != after]
            if wrong:
                return f"{where}: rank {rank} sent to rank {wrong[0]}; expected rank {after} only."
            wrong = [peer for peer, _ in received[rank] if peer != before]
            if wrong:
                return f"{where}: rank {rank} received from rank {wrong[0]}; expected rank {before} only."
            if right[rank] and not (sent[rank] and received[rank]):
                return f"{where}: rank {rank} {'received' if sent[rank] else 'sent'} nothing."
            first, given = got["first"][case][rank], expected["given"][case][rank]
            if first not in (given if expected["first"][case][rank] is not None else [None]):
                return f"{where}: rank {rank} began with a message of other numbers than its own."
    return None


NEIGHBORS = all_of(
    SENT_MESSAGES,
    has_form("received", list_of(row_of(integer, integer)), 2),
    has_form("others", list_of(short_text), 2),
    has_form("first", either(real_number, none), 2),
    no_collective,
    to_neighbors,
)


def in_chunks(got: Answers, expected: Answers) -> str | None:
    """2(K-1) messages a rank, of one chunk each, and 2(K-1) times the numbers in all."""
    rows = zip(cases(expected), expected["shapes"], got["sent"], expected["sent"], strict=True)
    for where, shape, sent, wanted in rows:
        ranks, length = len(sent), math.prod(shape)
        total, right = (sum(numbers for rank in every for _, numbers in rank) for every in (sent, wanted))
        if total != right:
            return f"{where}: all ranks together sent {total}; expected 2(K-1) x {length} = {right}."
        for rank, messages in enumerate(sent):
            many = 2 * (ranks - 1)
            # Empty chunks need no message, and none counts: who sends fewer then depends on where each began.
            if len(messages) != many and (length >= ranks or len(messages) > many):
                return f"{where}: rank {rank} sent {plural(len(messages), 'message')}; expected 2(K-1) = {many}."
            most = max((numbers for _, numbers in messages), default=0)
            if most > -(-length // ranks):
                chunk = -(-length // ranks)
                return f"{where}: rank {rank} sent a message of {most}; a chunk has at most {chunk}."
    return None


# ------------------------------------------------------------------------------------------- data_parallel and overlap
def same_start(got: Answers, expected: Answers) -> str | None:
    """All ranks hold rank 0's weights and buffers, by value and by the bytes that were broadcast."""
    sent, right = got["bytes"], expected["bytes"][0]
    broadcast = f"{sent[0]:,} bytes were broadcast; " + (
        "as many as expected" if sent[0] == right else f"expected {right:,}"
    )
    for rank, (mine, wanted) in enumerate(zip(got["weights"], expected["weights"], strict=True)):
        wrong = np.flatnonzero(mine != wanted)
        if len(wrong):
            first = int(wrong[0])
            parameters = expected["parameters"]
            what = f"parameter number {first}" if first < parameters else f"buffer number {first - parameters}"
            both = mismatch_text(float(mine[first]), float(wanted[first]))[:-1]
            return f"after the call, rank {rank}'s {what} {both}, which is rank 0's. {broadcast}."
    if any(one != right for one in sent):
        return f"{max(sent):,} bytes were broadcast; expected {right:,}: each parameter and each buffer once."
    return None


def gradients_are_the_wholes(when: str, steps: tuple[str, ...]) -> Judge:
    """Each rank's gradients are those of one process with the whole batch; nan stands for None."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for ranks, mine, wanted in zip(expected["ranks"], got["gradients"], expected["whole"], strict=True):
            for rank in range(ranks):
                said = _differs(mine[rank], wanted[rank], steps)
                if said:
                    return f"{when}on {ranks} ranks, rank {rank}, {said}"
        return None

    return all_of(has_reference_form("gradients"), judge)


def _differs(mine: np.ndarray, wanted: np.ndarray, steps: tuple[str, ...]) -> str | None:
    for step, one, other in zip(steps, np.split(mine, len(steps)), np.split(wanted, len(steps)), strict=True):
        if equal(one, other, EXACT):
            continue
        here, there = np.isnan(one), np.isnan(other)
        if (here & ~there).any():
            return f"{step}: {int((here & ~there).sum())} of {len(one)} weights have no gradient."
        if (there & ~here).any():
            return f"{step}: {int((there & ~here).sum())} weights have a gradient that should have none (None)."
        large = np.abs(np.nan_to_num(other)) > 1e-9
        with np.errstate(all="ignore"):
            factors = one[large] / other[large]
            one_factor = large.any() and np.isfinite(factors).all() and np.ptp(factors) < 1e-6 * abs(factors[0])
        if one_factor:
            return f"{step}: every gradient is {factors[0]:.4g} times that of the whole batch."
        worst = int(np.nanargmax(np.abs(one - other)))
        both = mismatch_text(float(one[worst]), float(other[worst]))
        return f"{step}: gradient {worst} of {len(one)} {both}"
    return None


BACKWARDS = ("in the first backward", "in the second", "in a third, on top of gradients that differed by rank")
EACH_STEP = ("step 1", "step 2", "step 3")


def one_call_each(got: Answers, expected: Answers) -> str | None:
    """As many all-reduces and bytes in each backward as there are parameters with a gradient, and nothing else."""
    for where, mine, wanted, size, sizes in _by_rank(got, expected, "calls", "bytes"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            if one[0]:
                return f"{where}: {plural(one[0], 'collective')} before backward number {step + 1}; expected none."
            if one[1] != other[1]:
                had = plural(one[1], "all-reduce")
                return f"{where}: backward number {step + 1} made {had}; expected {other[1]}, one a parameter."
            if one[2] != other[2]:
                return f"{where}: backward number {step + 1} made {one[2] - one[1]} collectives beside its all-reduces."
            if size[step] != sizes[step]:
                return f"{where}: backward {step + 1} all-reduced {size[step]:,} bytes; expected {sizes[step]:,}."
    return None


ONE_CALL_EACH = all_of(has_form("calls", integer, 4), has_form("bytes", integer, 3), one_call_each)


def _by_rank(got: Answers, expected: Answers, *names: str) -> list[tuple[Any, ...]]:
    rows = []
    for world, ranks in enumerate(expected["ranks"]):
        for rank in range(ranks):
            pairs = [every[name][world][rank] for name in names for every in (got, expected)]
            rows.append((f"on {ranks} ranks, rank {rank}", *pairs))
    return rows


def as_they_come(got: Answers, expected: Answers) -> str | None:
    """Gradients are sent when they are complete, not when backward is over."""
    for where, mine, wanted in _by_rank(got, expected, "early"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            if one < other:
                return (
                    f"{where}: when backward number {step + 1} reached the first layer, {plural(one, 'all-reduce')} "
                    f"had been made; expected {other}, one for each parameter of the layers behind it."
                )
    return None


def grouped(got: Answers, expected: Answers) -> str | None:
    """The buckets hold the right parameters in the right order."""
    for case, mine, wanted in zip(expected["cases"], got["buckets"], expected["buckets"], strict=True):
        if not equal(mine, wanted):
            cap, sizes = case[0], case[1:]
            frozen = "; every 4th is frozen" if len(sizes) > 4 else ""
            told = f"parameters of {sizes} numbers{frozen}" if sizes else "no parameters"
            return f"cap {cap}, {told}: the buckets hold numbers {shorten(mine, 120)}; expected {wanted}."
    return None


def sent_in_order(got: Answers, expected: Answers) -> str | None:
    """One all-reduce a bucket, in order, of the bucket's size."""
    for where, mine, wanted in _by_rank(got, expected, "sent"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True), start=1):
            if one[3] != other[3]:
                calls = plural(one[3], "all-reduce")
                return f"{where}: step {step} made {calls}; expected {other[3]}, one a bucket."
            if one[0] != other[0]:
                return f"{where}: step {step} sent {shorten(one[0], 120)} bytes, in this order; expected {other[0]}."
    return None


def sent_early(got: Answers, expected: Answers) -> str | None:
    """Full buckets are on their way while backward still runs."""
    for where, mine, wanted in _by_rank(got, expected, "sent"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True), start=1):
            for place, when in ((1, "when backward reached the first layer"), (2, "when backward was over")):
                if one[place] != other[place]:
                    calls = plural(one[place], "all-reduce")
                    return f"{where}: step {step}: {when}, {calls} had been started; expected {other[place]}."
    return None


SENT = has_form("sent", row_of(list_of(integer), integer, integer, integer), 3)


def unwaited(got: Answers, expected: Answers) -> str | None:
    """Nobody waits in backward; and finish() waits."""
    if got["in backward"] is not False:
        return "rank 0 waits for an all-reduce in the middle of its backward: start it with async_op=True and go on."
    if got["attended"] < expected["attended"]:
        many = f"{got['attended']} of {plural(expected['attended'], 'all-reduce')}"
        return f"rank 0 waited for {many}; expected all: they need not end in the order in which they were started."
    said = _differs(got["gradients"], expected["whole"], ("when finish() returns on rank 0",))
    return f"rank 1 was late, and {said} finish() has to wait." if said else None


def same_calls(got: Answers, expected: Answers) -> str | None:
    """Every rank makes one all-reduce a bucket, used or not."""
    for rank, (mine, wanted) in enumerate(zip(got["calls"], expected["calls"], strict=True)):
        if mine != wanted:
            return (
                f"ranks that use different layers: rank {rank} made {mine} all-reduces in two steps; {wanted} expected."
            )
    return None


# -------------------------------------------------------------------------------------------------------------- shard
def lists(got: Answers, expected: Answers) -> str | None:
    """Every rank's list is the expected one, and the learner's own work."""
    if not equal(got["torchs"], 0):
        return "DistributedSampler did the work: it is what this exercise builds."
    if got["kinds"]:
        return f"what came back is a {got['kinds'][0]}; a list of int was expected."
    for case, mine, wanted in zip(expected["cases"], got["shards"], expected["shards"], strict=True):
        if mine == wanted:
            continue
        length, ranks, epoch, seed, shuffle, drop_last = case
        how = f"epoch {epoch}, seed {seed}, shuffle={shuffle}, drop_last={drop_last}"
        where = f"{plural(length, 'sample')} on {ranks} ranks, {how}"
        sizes, right = [len(one) for one in mine], [len(one) for one in wanted]
        if sizes != right:
            return f"{where}: the ranks get {sizes} samples; expected {right}."
        rank = next(rank for rank in range(ranks) if mine[rank] != wanted[rank])
        return f"{where}: rank {rank} gets {shorten(mine[rank], 120)}; expected {wanted[rank]}."
    return None


shards = all_of(has_form("kinds", list_of(short_text)), has_form("shards", list_of(integer), 2), lists)


def undisturbed(got: Answers, expected: Answers) -> str | None:
    """The global generator is left alone."""
    if got["disturbed"] is not False:
        return "torch's global generator was seeded or used: dropout and the like would repeat. Use one of your own."
    return None


# --------------------------------------------------------------------------------------------------------- accumulate
def quiet(got: Answers, expected: Answers) -> str | None:
    """Forward and backward of each micro-batch in turn, and nothing sent before the last backward."""
    for where, mine, wanted in _by_rank(got, expected, "events"):
        forwards, right = ([event[0] for event in events if event[0]] for events in (mine, wanted))
        if forwards != right:
            return f"{where}: the forward passes had {shorten(forwards)} sequences; expected {right}."
        if [bool(event[0]) for event in mine] != [bool(event[0]) for event in wanted]:
            return f"{where}: forward and backward do not take turns: one backward after each forward."
        if [event[3] for event in mine] != [event[3] for event in wanted]:
            return f"{where}: the micro-batches went through the model in another order than first to last."
        sent = [number for number, event in enumerate(mine) if event[1]]
        if sent:
            begun = f"micro-batch {sent[0] // 2 + 1}"
            if mine[sent[0]][1] == 1:
                once = "expected once, after the last"
                return f"{where}: a number, the loss perhaps, had been all-reduced when {begun} began; {once}."
            return f"{where}: gradients had been sent when {begun} of {len(right)} began; expected none so far."
    return None


def sent_once(got: Answers, expected: Answers) -> str | None:
    """The gradients are all-reduced once, by DDP."""
    for where, mine, _ in _by_rank(got, expected, "events"):
        if not [event[2] for event in mine if event[0]][-1]:
            return f"{where}: DDP was kept from sending in the last micro-batch too; expected that it averages there."
    for where, mine, wanted in _by_rank(got, expected, "bytes"):
        if sum(mine) != sum(wanted):
            return f"{where}: {sum(mine):,} bytes of gradients were all-reduced; expected {sum(wanted):,}, once."
    return None


QUIET = all_of(
    has_form("events", list_of(row_of(integer, integer, boolean, integer)), 2),
    has_form("bytes", list_of(lambda size: integer(size) and size > 0), 2),
    quiet,
    sent_once,
)


def mean_losses(got: Answers, expected: Answers) -> str | None:
    """All ranks return the mean loss of all ranks, a float."""
    for kind in got["types"]:
        if kind != "float":
            return f"what came back is of type {kind}; the loss, a Python float, was expected."
    for ranks, mine, wanted in zip(expected["ranks"], got["losses"], expected["whole losses"], strict=True):
        for rank in range(ranks):
            if not equal(mine[rank], wanted[rank], FLOAT32):
                return f"on {ranks} ranks, the loss that rank {rank} returns {mismatch_text(mine[rank], wanted[rank])}"
    return None


LOSSES = all_of(has_form("types", short_text, 1), has_form("losses", either(real_number, none), 2), mean_losses)


EXERCISES = (
    Exercise(
        name="ring_all_reduce",
        functions=("ring_all_reduce",),
        minutes=35,
        difficulty="hard",
        proves="you know what an all-reduce sends, and can order messages so that nobody waits forever",
        hints=(
            "Take K = 3 and paper. In step 0 rank r sends its chunk r. Which chunk has it just received, and what does "
            "it send in step 1? After K - 1 steps, which chunk is complete on rank r?",
            "dist.send returns when the other side has received. If all ranks send first, nobody receives. Start the "
            "sending with isend, receive, then wait for the sending.",
            "In step s, send chunk (rank - s) % K and receive chunk (rank - s - 1) % K: add it in the first K - 1 "
            "steps, copy it in the others. tensor.view(-1).tensor_split(K) gives views to write into.",
        ),
        checks=(
            Check(
                "ring_all_reduce/sum",
                "leaves the sum on every rank, for lengths that K divides and others",
                points=3,
                probe="ring",
                judge=all_of(ENDS, SUMS),
                seconds=SECONDS,
            ),
            Check(
                "ring_all_reduce/neighbors",
                "sends to the next rank and receives from the one before, and calls no collective",
                points=2,
                probe="ring",
                judge=all_of(ENDS, NEIGHBORS),
            ),
            Check(
                "ring_all_reduce/bytes",
                "sends 2(K-1) chunks a rank, and 2(K-1)/K of the tensor",
                points=3,
                probe="ring",
                judge=all_of(ENDS, SENT_MESSAGES, in_chunks),
                requires=("ring_all_reduce/neighbors",),
            ),
            Check(
                "ring_all_reduce/short",
                "works for fewer numbers than ranks, and for one rank alone",
                points=2,
                probe="ring_short",
                judge=all_of(ENDS, SUMS, NEIGHBORS, in_chunks),
                requires=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
            ),
        ),
    ),
    Exercise(
        name="data_parallel",
        functions=("data_parallel",),
        minutes=25,
        difficulty="medium",
        proves="you can say what DDP does when it wraps a model, and what its hooks do in backward",
        hints=(
            "Two things make K models one: they start equal, and they follow the same gradient. What must be equal "
            "besides the parameters?",
            "Send each of model.parameters() and model.buffers() with dist.broadcast(tensor.detach(), src=0). Then "
            "p.register_post_accumulate_grad_hook(f) calls f(p) when p.grad is complete: f gets the parameter.",
            "def average(p): dist.all_reduce(p.grad); p.grad.div_(dist.get_world_size()). Register it on each p of "
            "model.parameters() that requires a gradient: that iterator names a tied parameter once.",
        ),
        checks=(
            Check(
                "data_parallel/start",
                "gives every rank rank 0's parameters and buffers, each sent once",
                points=3,
                probe="start",
                judge=all_of(has_form("bytes", integer, 1), has_reference_form("weights"), same_start),
                seconds=SECONDS,
            ),
            Check(
                "data_parallel/gradient",
                "leaves the whole batch's gradient on every rank after every backward",
                points=3,
                probe="steps",
                judge=gradients_are_the_wholes("", BACKWARDS),
            ),
            Check(
                "data_parallel/calls",
                "makes one all-reduce a parameter, as soon as its gradient is complete",
                points=2,
                probe="steps",
                judge=all_of(ONE_CALL_EACH, has_form("early", integer, 3), as_they_come),
            ),
            Check(
                "data_parallel/special",
                "leaves frozen and unused parameters alone, and sends tied ones once",
                points=2,
                probe="special",
                judge=all_of(
                    gradients_are_the_wholes("with frozen, tied and unused parameters, ", BACKWARDS), ONE_CALL_EACH
                ),
                requires=("data_parallel/gradient",),
            ),
        ),
    ),
    Exercise(
        name="overlap",
        functions=("make_buckets", "overlap"),
        minutes=45,
        difficulty="hard",
        proves="you know when DDP sends a bucket, why all ranks send in one order, and who waits",
        hints=(
            "Backward completes the last layer's gradients first. Count down, for each bucket, how many of its "
            "gradients are still missing. Whose turn is it when a bucket is full, but the one before it is not?",
            "Concatenate a bucket's gradients into one flat tensor and keep what dist.all_reduce(flat, async_op=True) "
            "returns. Start buckets in a while loop: as long as the next one in order is complete. finish() starts the "
            "rest, then waits.",
            "finish(): for each started (flat, work): work.wait(); flat.div_(K); split it by numel and give each "
            "parameter its part, as p.grad = part.view_as(p). Then set the counts back and forget what was started.",
        ),
        checks=(
            Check(
                "overlap/buckets",
                "closes a bucket when it reaches the cap, last parameters first",
                points=2,
                probe="buckets",
                judge=all_of(has_form("buckets", list_of(list_of(integer)), 1), grouped),
                seconds=SECONDS,
            ),
            Check(
                "overlap/gradient",
                "leaves the whole batch's gradient on every rank, step after step",
                points=3,
                probe="overlapped",
                judge=gradients_are_the_wholes("", EACH_STEP),
            ),
            Check(
                "overlap/calls",
                "starts one all-reduce a bucket, in order, each as soon as its bucket is full",
                points=2,
                probe="overlapped",
                judge=all_of(SENT, sent_in_order, sent_early),
                requires=("overlap/buckets",),
            ),
            Check(
                "overlap/waits",
                "does not wait in backward, and waits in finish()",
                points=3,
                probe="unwaited",
                judge=all_of(has_form("attended", integer), has_reference_form("gradients"), unwaited),
                requires=("overlap/gradient",),
            ),
            Check(
                "overlap/uneven",
                "keeps the order where ranks use different parameters",
                points=2,
                probe="forked",
                judge=all_of(
                    gradients_are_the_wholes("where ranks use different layers, ", EACH_STEP[:2]),
                    has_form("calls", integer, 2),
                    same_calls,
                ),
                requires=("overlap/gradient",),
            ),
        ),
    ),
    Exercise(
        name="shard",
        functions=("shard",),
        minutes=15,
        difficulty="easy",
        proves="every sample is read in every epoch, by one rank, in an order that no two epochs share",
        hints=(
            "All ranks compute the same order, and each takes every K-th of it. What has to be in the seed, and what "
            "must not?",
            "With K = 4 and 10 samples each rank gets 3 with padding, 2 with drop_last. Padding repeats the order from "
            "its beginning; with 1 sample and 4 ranks, more than once.",
            "order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist(); each = "
            "ceil(length / K) or length // K; lengthen or cut order to each * K; return order[rank::K].",
        ),
        checks=(
            Check(
                "shard/each",
                "gives each rank every K-th sample",
                points=2,
                probe="divided",
                judge=shards,
            ),
            Check(
                "shard/shuffle",
                "shuffles by seed and epoch, alike on all ranks, with a generator of its own",
                points=2,
                probe="shuffled",
                judge=all_of(shards, undisturbed),
                requires=("shard/each",),
            ),
            Check(
                "shard/padding",
                "pads from the beginning of the order",
                points=2,
                probe="padded",
                judge=shards,
                requires=("shard/shuffle",),
            ),
            Check(
                "shard/drop_last",
                "leaves out what is too much, where it is told to",
                points=2,
                probe="dropped",
                judge=shards,
                requires=("shard/shuffle",),
            ),
        ),
    ),
    Exercise(
        name="accumulate",
        functions=("accumulate",),
        minutes=15,
        difficulty="medium",
        proves="your accumulation sends the gradients once an update, and that you log everybody's loss",
        hints=(
            "DDP sends in every backward. Only the sum over the micro-batches has to be sent, so which backward is the "
            "one that should?",
            "`with ddp.no_sync():` around *forward and backward* of every micro-batch but the last. DDP notes in "
            "forward whether the next backward sends.",
            "contextlib.nullcontext() if it is the last else ddp.no_sync(); loss / k; backward. Then all-reduce the "
            "sum of the losses, and divide it by K.",
        ),
        checks=(
            Check(
                "accumulate/gradient",
                "leaves the whole batch's gradient on every rank",
                points=4,
                probe="accumulated",
                judge=gradients_are_the_wholes("", ("after the last micro-batch",)),
                seconds=SECONDS,
            ),
            Check(
                "accumulate/quiet",
                "sends nothing before the last backward, and the gradients once",
                points=3,
                probe="accumulated",
                judge=QUIET,
            ),
            Check(
                "accumulate/loss",
                "returns the mean loss over all ranks, on all of them",
                points=2,
                probe="accumulated",
                judge=LOSSES,
            ),
            Check(
                "accumulate/stale",
                "is not misled by gradients from before, and works in one piece",
                points=1,
                probe="over_old_gradients",
                judge=all_of(gradients_are_the_wholes("over old gradients, ", ("in one piece",)), QUIET),
                requires=("accumulate/gradient",),
            ),
        ),
    ),
)
