"""Lab 07, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
What a rank holds is compared with what one process computes from the whole batch, which the probe brings as `whole`.
"""

import itertools
import math
from typing import Any

import numpy as np

from rankzero.exercises.checks.answer_schema import (
    boolean,
    count,
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
from rankzero.exercises.checks.judges import all_of, has_reference_form, mismatch_text, rounding_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

EXACT = 1e-12  # float64 rounds at 1e-16; the sums here have a few hundred terms
SECONDS = 10.0  # of a probe: up to two worlds, each with a limit of its own
FLOAT32 = 1e-6  # a loss may be averaged in float32


def plural(count: int, thing: str) -> str:
    """'1 message', '3 messages'."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ss') else 's'}"


# -------------------------------------------------------------------------------------- exchange and ring_all_reduce
def cases(answers: Answers) -> list[str]:
    """In which world, of which shape and dtype, each case is."""
    rows = zip(answers["ranks"], answers["shapes"], answers["dtypes"], strict=True)
    return [f"on {plural(k, 'rank')}, with {dtype}{shape}" for k, shape, dtype in rows]


def nobody_waits_forever(got: Answers, expected: Answers) -> str | None:
    """The ranks came to an end."""
    calls, places = got["stuck"], got["places"]
    if len(calls) != len(places):
        return "the answers `stuck` and `places` do not have one item per rank."
    if not calls:
        return "the answer `source` has lines although no rank waits." if got["source"] else None
    told = ", ".join(f"rank {rank} {place or 'was busy'}" for rank, place in enumerate(places[:4]))
    if len(set(places)) == 1:
        told = f"every rank {places[0] or 'was busy'}"
    why = ""
    if all(call == "send" for call in calls):
        why = " dist.send returns when the other side has received: some rank must receive first."
    if all(call == "recv" for call in calls):
        why = " Nothing has been sent to the ranks that wait: some rank must send first, to rank + 1."
    source = "".join(f"\n    {line}" for line in got["source"][:4])
    return f"on {len(places)} ranks the call never ends: {told}.{why}{source}"


ENDS = all_of(
    *(has_form(name, list_of(short_text)) for name in ("stuck", "places", "source")),
    nobody_waits_forever,
)
SENT_MESSAGES = has_form("sent", list_of(row_of(integer, integer)), 2)


def counts_in_chunk(ranks: list[list[float]], sums: list[float], place: int) -> str:
    """Says how often each rank's numbers are in the chunk of `sums` around `place`; empty if it is no such sum."""
    chunk = next(part for part in np.array_split(np.arange(len(sums)), len(ranks)) if place in part)
    rows, wanted = np.array(ranks)[:, chunk], np.array(sums)[chunk]
    for counts in itertools.product(range(4), repeat=len(ranks)):
        if equal(np.array(counts, float) @ rows, wanted, EXACT):
            said = {0: "missing", 2: "counted twice"}
            told = [f"rank {rank} is {said.get(n, f'counted {n} times')}" for rank, n in enumerate(counts) if n != 1]
            return f" In the sum of this chunk, {', '.join(told)}." if told else ""
    return ""


def values(name: str, subject: str) -> Judge:
    """Every rank holds the right numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for case, where in enumerate(cases(expected)):
            mine, wanted = got[name][case], expected[name][case]
            for rank, (one, other) in enumerate(zip(mine, wanted, strict=True)):
                wrong = [n for n, (a, b) in enumerate(zip(one, other, strict=True)) if not equal(a, b, EXACT)]
                if wrong:
                    n = wrong[0]
                    many = f"; {len(wrong)} of {plural(len(other), 'number')} differ"
                    why = rounding_text(one[n], other[n])
                    if not why and "given" in expected:
                        why = counts_in_chunk(expected["given"][case], one, n)
                    both = f"{mismatch_text(one[n], other[n])[:-1]}{many}.{why}"
                    return f"{where}: {subject} of rank {rank}, number {n} {both}"
        return None

    return all_of(has_form(name, real_number, 3), judge)


SUMS = values("sums", "the tensor")
INCOMING = values("incoming", "`incoming`")


def no_collective(got: Answers, expected: Answers) -> str | None:
    """Messages only."""
    for where, ranks in zip(cases(expected), got["others"], strict=True):
        for rank, names in enumerate(ranks):
            if names:
                return f"{where}: rank {rank} called {names[0]}; expected messages to neighbors only."
    return None


def to_neighbors(got: Answers, expected: Answers) -> str | None:
    """Every message goes to the next rank and comes from the rank before."""
    for case, where in enumerate(cases(expected)):
        sent, received = got["sent"][case], got["received"][case]
        for rank in range(len(sent)):
            after, before = (rank + 1) % len(sent), (rank - 1) % len(sent)
            wrong = [peer for peer, _ in sent[rank] if peer != after]
            if wrong:
                return f"{where}: rank {rank} sent to rank {wrong[0]}; expected rank {after} only."
            wrong = [peer for peer, _ in received[rank] if peer != before]
            if wrong:
                return f"{where}: rank {rank} received from rank {wrong[0]}; expected rank {before} only."
            for mine, wanted, word in ((sent, expected["sent"], "sent"), (received, expected["received"], "received")):
                if wanted[case][rank] and not mine[rank]:
                    return f"{where}: rank {rank} {word} nothing."
    return None


def own_numbers_first(got: Answers, expected: Answers) -> str | None:
    """The first message of each rank holds numbers that the rank itself had."""
    for case, where in enumerate(cases(expected)):
        for rank, first in enumerate(got["first"][case]):
            allowed = [None] if expected["first"][case][rank] is None else expected["given"][case][rank]
            if first not in allowed:
                return f"{where}: the first message of rank {rank} does not hold the rank's own numbers."
    return None


def sums_last(got: Answers, expected: Answers) -> str | None:
    """The last K - 1 messages of each rank hold finished sums."""
    for case, where in enumerate(cases(expected)):
        right = zip(got["last"][case], expected["last"][case], expected["sums"][case], strict=True)
        for rank, (mine, wanted, sums) in enumerate(right):
            finished = sum(any(equal(first, number, 1e-9) for number in sums) for first in mine)
            if not len(mine) == len(wanted) == finished:
                least = f"its last {len(wanted)} messages"
                return f"{where}: {finished} messages of rank {rank} hold finished sums; expected them in {least}."
    return None


SUMS_LAST = all_of(has_form("last", list_of(real_number), 2), sums_last)
NEIGHBORS = all_of(
    SENT_MESSAGES,
    has_form("received", list_of(row_of(integer, integer)), 2),
    has_form("others", list_of(short_text), 2),
    no_collective,
    to_neighbors,
)
RING_NEIGHBORS = all_of(
    NEIGHBORS,
    has_form("first", either(real_number, none), 2),
    own_numbers_first,
)


def one_message(got: Answers, expected: Answers) -> str | None:
    """Each rank sends one message, with all numbers of `outgoing`."""
    for where, mine, wanted in zip(cases(expected), got["sent"], expected["sent"], strict=True):
        for rank, (messages, right) in enumerate(zip(mine, wanted, strict=True)):
            if messages != right:
                sizes = [numbers for _, numbers in messages]
                return f"{where}: rank {rank} sent messages of {sizes} numbers; expected {[n for _, n in right]}."
    return None


def complete(got: Answers, expected: Answers) -> str | None:
    """`outgoing` is unchanged, and both messages have been waited for."""
    for case, where in enumerate(cases(expected)):
        for rank, changed in enumerate(got["changed"][case]):
            if changed:
                return f"{where}: {plural(changed, 'number')} of rank {rank}'s `outgoing` changed; expected none."
        for rank, unfinished in enumerate(got["unfinished"][case]):
            if unfinished:
                return (
                    f"{where}: exchange returned on rank {rank} without waiting for {plural(unfinished, 'message')}: "
                    "`outgoing` may not be sent yet, or `incoming` not filled. Call wait() for each message."
                )
    return None


def in_chunks(got: Answers, expected: Answers) -> str | None:
    """2(K-1) messages per rank, of one chunk each, and 2(K-1) times the numbers in all."""
    rows = zip(cases(expected), expected["shapes"], got["sent"], expected["sent"], strict=True)
    for where, shape, sent, wanted in rows:
        ranks, length = len(sent), math.prod(shape)
        total, right = (sum(numbers for rank in every for _, numbers in rank) for every in (sent, wanted))
        if total != right:
            return f"{where}: all ranks together sent {total} numbers; expected 2(K-1) x {length} = {right}."
        for rank, messages in enumerate(sent):
            many = 2 * (ranks - 1)
            # Empty chunks need no message, and none counts: who sends fewer then depends on where each began.
            if len(messages) != many and (length >= ranks or len(messages) > many):
                return f"{where}: rank {rank} sent {plural(len(messages), 'message')}; expected 2(K-1) = {many}."
            least, most = length // ranks, -(-length // ranks)
            wrong = [numbers for _, numbers in messages if not least <= numbers <= most]
            if wrong:
                sizes = f"{least} or {most}" if least < most else f"{most}"
                return f"{where}: rank {rank} sent a message of {plural(wrong[0], 'number')}; a chunk has {sizes}."
    return None


# ----------------------------------------------------------------------------- same_start, data_parallel and overlap
def rank_0s(name: str, what: str, when: str) -> Judge:
    """All ranks hold the numbers of rank 0."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for rank, (mine, wanted) in enumerate(zip(got[name], expected[name], strict=True)):
            wrong = np.flatnonzero(mine != wanted)
            if len(wrong):
                first = int(wrong[0])
                both = mismatch_text(float(mine[first]), float(wanted[first]))[:-1]
                has = f"{len(wrong)} of {len(wanted)} numbers of its {what} differ from rank 0's"
                return f"{when}, on {plural(len(expected[name]), 'rank')}, rank {rank}: {has}; number {first} {both}."
        return None

    return all_of(has_reference_form(name), judge)


def same_tensors(got: Answers, expected: Answers) -> str | None:
    """The model has the tensors, their memory, the frozen parameters and the mode that it had."""
    for rank, changed in enumerate(got["changed"]):
        if changed:
            return (
                f"on rank {rank} the model has other tensors, another requires_grad or another mode than before: an "
                "optimizer that was made before holds the old parameters."
            )
    for rank, moved in enumerate(got["moved"]):
        if moved:
            return (
                f"on rank {rank}, {plural(moved, 'tensor')} of the model had other memory or other strides after the "
                "call than before: expected only other numbers, as tensor.copy_(received) leaves them."
            )
    return None


def waited_for(got: Answers, expected: Answers) -> str | None:
    """Every collective has been waited for."""
    for rank, unwaited in enumerate(got["unwaited"]):
        if unwaited:
            return (
                f"same_start returned on rank {rank} without waiting for {plural(unwaited, 'collective')}: with "
                "async_op=True, a tensor has its new numbers only after wait() on the object that the call returned."
            )
    return None


def sent_once(got: Answers, expected: Answers) -> str | None:
    """The bytes of the broadcasts are those of the parameters and buffers, and nothing else is called."""
    right = expected["bytes"][0]
    for rank, (sent, names) in enumerate(zip(got["bytes"], got["calls"], strict=True)):
        others = [name for name in names if name != "broadcast"]
        if others:
            return f"rank {rank} called {others[0]}; expected broadcasts only."
        if sum(sent) != sum(right):
            both = f"{sum(sent):,} bytes were broadcast; expected {sum(right):,}"
            return f"rank {rank}: {both}: each parameter and buffer once."
        if sent != right:
            both = f"{plural(len(sent), 'broadcast')} for {plural(len(right), 'parameter')} and buffers"
            return f"rank {rank}: {both}; expected one for each."
        if names != ["broadcast"]:
            return f"rank {rank} called {shorten(names)}; expected ['broadcast']."
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
        if one_factor and abs(factors[0] - 1) > 1e-3:
            return f"{step}: every gradient is {factors[0]:.4g} times that of the whole batch."
        worst = int(np.nanargmax(np.abs(one - other)))
        pair = float(one[worst]), float(other[worst])
        return f"{step}: gradient {worst} of {len(one)} {mismatch_text(*pair)}{rounding_text(*pair)}"
    return None


BACKWARDS = (
    "in the first backward",
    "in the second backward, in eval mode",
    "in the third backward, on top of gradients that differed by rank",
)
EACH_STEP = ("step 1", "step 2, in eval mode", "step 3, over gradients of zeros")
FORKED_STEPS = tuple(
    f"{many} in a bucket, {step}"
    for many in ("one layer", "two layers")
    for step in ("step 1", "step 2, with other layers than in step 1")
)


def one_call_each(got: Answers, expected: Answers) -> str | None:
    """As many all-reduces and bytes in each backward as there are parameters with a gradient, and nothing else."""
    for where, mine, wanted, size, sizes in _by_rank(got, expected, "calls", "bytes"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            if one[0]:
                return f"{where}: {plural(one[0], 'collective')} before backward number {step + 1}; expected none."
            if one[1] != other[1]:
                had = plural(one[1], "all-reduce")
                return f"{where}: backward number {step + 1} made {had}; expected {other[1]}, one per parameter."
            if one[2] != other[2]:
                return f"{where}: backward number {step + 1} made {one[2] - one[1]} collectives beside its all-reduces."
            if size[step] != sizes[step]:
                told = f"all-reduced {size[step]:,} bytes; expected {sizes[step]:,}, each gradient in its own dtype."
                return f"{where}: backward {step + 1} {told}"
    for where, unwaited, _ in _by_rank(got, expected, "unwaited"):
        if any(unwaited):
            return (
                f"{where}: backward did not wait for {plural(max(unwaited), 'collective')}: with async_op=True, p.grad "
                "may be divided or read only after wait() on the object that the call returned."
            )
    return None


ONE_CALL_EACH = all_of(
    has_form("calls", integer, 4), has_form("bytes", integer, 3), has_form("unwaited", count, 3), one_call_each
)


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
    rows = zip(expected["cases"], expected["dtypes"], got["buckets"], expected["buckets"], strict=True)
    for (cap, *sizes), dtypes, mine, wanted in rows:
        if not equal(mine, wanted):
            each = [
                f"{number}: {size} x {dtype}" for number, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True))
            ]
            told = f"parameters {{{', '.join(each)}}}" if sizes else "no parameters"
            return f"cap {cap} bytes, {told}: the buckets are {shorten(mine, 120)}; expected {wanted}."
    return None


def bucket_calls(value: Any) -> bool:
    """The collectives that had been started when reduce_bucket returned, the number of all, and the bytes of each."""
    return list_of(count)(value) and len(value) >= 2 and value[1] == len(value) - 2


def reduced_once(got: Answers, expected: Answers) -> str | None:
    """One all-reduce of the bucket's bytes, which has been started when reduce_bucket returns."""
    for rank, (mine, wanted) in enumerate(zip(got["calls"], expected["calls"], strict=True)):
        for dtype, one, other in zip(("float64", "float32", "bfloat16"), mine, wanted, strict=True):
            where = f"a bucket of {dtype} on rank {rank}"
            if one[0] != other[0]:
                return (
                    f"{where}: {plural(one[0], 'collective')} had been started when reduce_bucket returned; expected 1."
                )
            if one[1:] != other[1:]:
                sizes = f"{plural(one[1], 'collective')} of {shorten(one[2:], 60)} bytes"
                return f"{where}: {sizes}; expected 1 of {other[2:]}."
    if not all(all(rank) for rank in got["in order"]):
        return "no all-reduce had the bucket's gradients in one flat tensor, in the bucket's order."
    return None


def like_the_parameter(got: Answers, expected: Answers) -> str | None:
    """Each gradient has the parameter's shape and dtype."""
    for rank, wrong in enumerate(got["dtypes"]):
        if wrong:
            return f"on rank {rank}, {wrong} of 12 gradients have another shape or dtype than their parameter."
    return None


def late(got: Answers, expected: Answers) -> str | None:
    """reduce_bucket does not wait, and the returned function does."""
    if got["early"] != [False]:
        return "the other ranks were late, and reduce_bucket waited for them: start the all-reduce with async_op=True."
    said = _differs(got["late"], expected["late whole"], ("when the returned function is done on rank 0",))
    return f"the other ranks were late, and {said} That function must wait for the all-reduce." if said else None


def sent_in_order(got: Answers, expected: Answers) -> str | None:
    """One all-reduce per bucket, in order, of the bucket's size."""
    for where, mine, wanted in _by_rank(got, expected, "sent"):
        for step, (one, other) in enumerate(zip(mine, wanted, strict=True), start=1):
            if one[3] != other[3]:
                calls = plural(one[3], "all-reduce")
                return f"{where}: step {step} made {calls}; expected {other[3]}, one per bucket."
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
        return "rank 0 waits for an all-reduce in backward: start it with async_op=True, and wait in finish()."
    if got["attended"] < expected["attended"]:
        many = f"{got['attended']} of {plural(expected['attended'], 'all-reduce')}"
        return f"rank 0 waited for {many}; expected all of them: they may end in any order."
    said = _differs(got["gradients"], expected["whole"], ("when finish() returns on rank 0",))
    return f"rank 1 was late, and {said} finish() must wait for every all-reduce." if said else None


def same_calls(got: Answers, expected: Answers) -> str | None:
    """Every rank makes one all-reduce per bucket, used or not."""
    for rank, (mine, wanted) in enumerate(zip(got["calls"], expected["calls"], strict=True)):
        if mine != wanted:
            made = f"rank {rank} made {mine} all-reduces in two steps; expected {wanted}."
            return f"where ranks use different layers, {made}"
    return None


# -------------------------------------------------------------------------------------------------------------- shard
def lists(got: Answers, expected: Answers) -> str | None:
    """Every rank's list is the expected one, and the learner's own work."""
    if not equal(got["torchs"], 0):
        return "DistributedSampler was used; write its steps yourself."
    if got["kinds"]:
        return f"the return value is a {got['kinds'][0]}; expected a list of int."
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
        return "torch's global generator was seeded or used, so dropout would repeat. Use a separate torch.Generator."
    return None


# --------------------------------------------------------------------------------------------------------- accumulate
def quiet(got: Answers, expected: Answers) -> str | None:
    """Forward and backward of each micro-batch in turn, and nothing sent before the last backward."""
    for where, mine, wanted in _by_rank(got, expected, "events"):
        forwards, right = ([event[0] for event in events if event[0]] for events in (mine, wanted))
        if forwards != right:
            return f"{where}: the forward passes had {shorten(forwards)} sequences; expected {right}."
        if [bool(event[0]) for event in mine] != [bool(event[0]) for event in wanted]:
            return f"{where}: forward and backward passes do not alternate; expected one backward after each forward."
        if [event[3] for event in mine] != [event[3] for event in wanted]:
            return f"{where}: the micro-batches went through the model in another order than first to last."
        sent = [number for number, event in enumerate(mine) if event[1]]
        if sent:
            begun = f"micro-batch {sent[0] // 2 + 1} of {len(right)} began"
            return f"{where}: gradients had been sent when {begun}; expected none before the last backward."
    return None


def nothing_between(got: Answers, expected: Answers) -> str | None:
    """No loss and no count is all-reduced between micro-batches."""
    for where, mine, wanted in _by_rank(got, expected, "others"):
        if len(mine) != len(wanted):
            return f"{where}: {len(mine)} forward passes ran; expected {len(wanted)}."
        between = [number for number, calls in enumerate(mine, start=1) if calls != mine[0]]
        if between:
            begun = f"micro-batch {between[0]} of {len(mine)} began"
            return f"{where}: a loss or a count was all-reduced after the first micro-batch and before {begun}."
    return None


def gradients_sent_once(got: Answers, expected: Answers) -> str | None:
    """The gradients are all-reduced once, by DDP, and at most two small messages besides."""
    for where, mine, _ in _by_rank(got, expected, "events"):
        if not [event[2] for event in mine if event[0]][-1]:
            return f"{where}: DDP's average was off in the last micro-batch too; expected it to be on there."
    for where, mine, wanted in _by_rank(got, expected, "bytes"):
        if sum(mine) != sum(wanted):
            return f"{where}: {sum(mine):,} bytes of gradients were all-reduced; expected {sum(wanted):,}, once."
    for where, mine, _ in _by_rank(got, expected, "left"):
        if mine[2] > 2:
            return f"{where}: {mine[2]} all-reduces of one or two numbers were made; expected 2 at most."
    return None


# Each answer is read only if the answers before it are right, so that a mistake is recognized beside others.
QUIET = all_of(
    has_form("events", list_of(row_of(integer, boolean, boolean, integer)), 2),
    quiet,
    has_form("others", list_of(count), 2),
    nothing_between,
    has_form("bytes", list_of(lambda size: integer(size) and size > 0), 2),
    has_form("left", row_of(integer, integer, integer), 2),
    gradients_sent_once,
)


def left_as_it_was(got: Answers, expected: Answers) -> str | None:
    """The rows and the mode are unchanged, and DDP sends in the next backward."""
    for where, mine, wanted in _by_rank(got, expected, "left"):
        if mine[0]:
            return f"{where}: {plural(mine[0], 'number')} of x and y changed; they are the caller's."
        if mine[1] != wanted[1]:
            before, after = (("eval", "train")[bool(value[1])] for value in (wanted, mine))
            return f"{where}: the model is in {after} mode after the call; expected {before} mode, as before the call."
    for rank, syncs in enumerate(got["syncs"]):
        if not syncs:
            return f"rank {rank}: after the call DDP's average is still off: the next backward would average nothing."
    return None


LEFT = all_of(has_form("left", row_of(integer, integer, integer), 2), has_form("syncs", boolean, 1), left_as_it_was)


def mean_losses(got: Answers, expected: Answers) -> str | None:
    """All ranks return the mean loss of all ranks, a float."""
    for kind in got["types"]:
        if kind != "float":
            return f"the return value is of type {kind}; expected the loss, a Python float."
    for ranks, mine, wanted in zip(expected["ranks"], got["losses"], expected["whole losses"], strict=True):
        for rank in range(ranks):
            if not equal(mine[rank], wanted[rank], FLOAT32):
                why = " The mean over no token is nan." if mine[rank] != mine[rank] else ""
                both = mismatch_text(mine[rank], wanted[rank])
                return f"on {ranks} ranks, the loss that rank {rank} returns {both}{why}"
    return None


LOSSES = all_of(has_form("types", short_text, 1), has_form("losses", either(real_number, none), 2), mean_losses)


EXERCISES = (
    Exercise(
        name="exchange",
        functions=("exchange",),
        minutes=10,
        difficulty="easy",
        proves="you can order two messages so that no rank waits forever",
        hints=(
            "dist.send returns when the other rank has received. If all ranks send first, which rank receives?",
            "Start sending with dist.isend, receive with dist.recv, then wait until the tensor is sent. Or start "
            "both in the background, and wait for both.",
            "sending = dist.isend(outgoing, (rank + 1) % K); dist.recv(incoming, (rank - 1) % K); sending.wait().",
        ),
        checks=(
            Check(
                "exchange/incoming",
                "receives what the rank before sends, in every dtype",
                points=2,
                probe="exchanges",
                judge=all_of(ENDS, INCOMING),
                seconds=SECONDS,
            ),
            Check(
                "exchange/neighbors",
                "sends one message to the next rank and receives one from the rank before",
                points=1,
                probe="exchanges",
                judge=all_of(ENDS, NEIGHBORS, one_message),
            ),
            Check(
                "exchange/complete",
                "leaves `outgoing` as it is, and returns when both messages are complete",
                points=1,
                probe="exchanges",
                judge=all_of(ENDS, has_form("changed", integer, 2), has_form("unfinished", count, 2), complete),
            ),
        ),
    ),
    Exercise(
        name="ring_all_reduce",
        functions=("ring_all_reduce",),
        minutes=20,
        difficulty="hard",
        proves="you know what an all-reduce sends, and why it costs a rank hardly more for more ranks",
        hints=(
            "Draw the ring for K = 3 on paper. In step 0, rank r sends its chunk r. Which chunk does it receive in "
            "step 0, and which does it send in step 1? After K - 1 steps, which chunk is complete on rank r?",
            "tensor.view(-1).tensor_split(K) gives views to write into. `exchange` needs a tensor for the incoming "
            "chunk, as long as the chunk to which you add it.",
            "In step s, send chunk (rank - s) % K and receive chunk (rank - s - 1) % K: add it in the first K - 1 "
            "steps, copy it in the others.",
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
                "sends to the next rank and receives from the rank before, and calls no collective",
                points=1,
                probe="ring",
                judge=all_of(ENDS, RING_NEIGHBORS),
            ),
            Check(
                "ring_all_reduce/bytes",
                "sends 2(K-1) chunks per rank, and 2(K-1)/K of the tensor",
                points=2,
                probe="ring",
                judge=all_of(ENDS, SENT_MESSAGES, in_chunks),
                requires=("ring_all_reduce/neighbors",),
            ),
            Check(
                "ring_all_reduce/short",
                "works for fewer numbers than ranks, and for one rank alone",
                points=2,
                probe="ring_short",
                judge=all_of(ENDS, SUMS, RING_NEIGHBORS, in_chunks, SUMS_LAST),
                requires=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
            ),
        ),
    ),
    Exercise(
        name="same_start",
        functions=("same_start",),
        minutes=8,
        difficulty="easy",
        proves="you know which tensors of two models must be equal before the first step",
        hints=(
            "What does forward read besides the parameters that train?",
            "model.parameters() yields a tied parameter once, and also yields frozen parameters. model.state_dict() "
            "leaves out buffers with persistent=False; model.buffers() yields all buffers.",
            "for tensor in (*model.parameters(), *model.buffers()): dist.broadcast(tensor.detach(), src=0).",
        ),
        checks=(
            Check(
                "same_start/parameters",
                "gives every rank rank 0's parameters, frozen ones too",
                points=2,
                probe="started",
                judge=rank_0s("parameters", "parameters", "after the call"),
                seconds=SECONDS,
            ),
            Check(
                "same_start/buffers",
                "gives every rank rank 0's buffers, of every dtype",
                points=1,
                probe="started",
                judge=rank_0s("buffers", "buffers", "after the call"),
            ),
            Check(
                "same_start/once",
                "sends each parameter and buffer once, into the tensors that the model has",
                points=1,
                probe="started",
                judge=all_of(
                    has_form("bytes", list_of(count), 1),
                    has_form("calls", list_of(short_text), 1),
                    has_form("changed", integer, 1),
                    sent_once,
                    has_form("unwaited", count, 1),
                    waited_for,
                    has_form("moved", count, 1),
                    same_tensors,
                ),
                requires=("same_start/parameters", "same_start/buffers"),
            ),
        ),
    ),
    Exercise(
        name="data_parallel",
        functions=("data_parallel",),
        minutes=20,
        difficulty="medium",
        proves="you can say what DDP does when it wraps a model, and what its hooks do in backward",
        hints=(
            "K models stay equal if they start equal and always use the same gradient. `same_start` gives them the "
            "same start. When is a parameter's gradient complete, and which hook runs at that moment?",
            "p.register_post_accumulate_grad_hook(f) calls f(p) when p.grad is complete: f gets the parameter, not the "
            "gradient. A frozen parameter cannot have such a hook.",
            "def average(p): dist.all_reduce(p.grad); p.grad.div_(dist.get_world_size()). Register it on each p of "
            "model.parameters() that requires a gradient: that iterator names a tied parameter once.",
        ),
        checks=(
            Check(
                "data_parallel/start",
                "gives every rank the model of rank 0",
                points=1,
                probe="steps",
                judge=rank_0s("start", "parameters and buffers", "after the call"),
                seconds=SECONDS,
            ),
            Check(
                "data_parallel/gradient",
                "leaves the whole batch's gradient on every rank after every backward",
                points=3,
                probe="steps",
                judge=gradients_are_the_wholes("", BACKWARDS),
                requires=("data_parallel/start",),
            ),
            Check(
                "data_parallel/calls",
                "makes one all-reduce per parameter, as soon as its gradient is complete",
                points=2,
                probe="steps",
                judge=all_of(ONE_CALL_EACH, has_form("early", integer, 3), as_they_come),
            ),
            Check(
                "data_parallel/special",
                "sends nothing for frozen and unused parameters, tied ones once, keeps dtypes",
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
        name="make_buckets",
        functions=("make_buckets",),
        minutes=12,
        difficulty="medium",
        proves="you can say which gradients share an all-reduce, and when a bucket is full",
        hints=(
            "Take three parameters of 5 float32 numbers each, and a cap of twice the bytes of one. Which parameter "
            "fills the first bucket? Which one fills it if the second parameter is in bfloat16?",
            "Keep one open bucket per dtype, in a dictionary. First add the parameter, then test whether the bucket "
            "has reached the cap.",
            "for p in reversed([p for p in parameters if p.requires_grad]): bucket = filling.setdefault(p.dtype, []); "
            "bucket.append(p); if its bytes >= cap: closed.append(filling.pop(p.dtype)). Return closed, then the "
            "buckets that are still open.",
        ),
        checks=(
            Check(
                "make_buckets/buckets",
                "closes a bucket when it reaches the cap, one dtype each, last parameters first",
                points=4,
                probe="buckets",
                judge=all_of(has_form("buckets", list_of(list_of(integer)), 1), grouped),
            ),
        ),
    ),
    Exercise(
        name="reduce_bucket",
        functions=("reduce_bucket",),
        minutes=10,
        difficulty="medium",
        proves="you can start a collective now and wait for it later",
        hints=(
            "dist.all_reduce(flat, async_op=True) returns a handle at once. What will the returned function need?",
            "torch.cat copies, so the all-reduce changes the flat tensor and no p.grad. The returned function "
            "waits, divides, splits, and gives each parameter its part.",
            "def finish(): work.wait(); means = flat.div_(K).split([p.numel() for p in bucket]); then p.grad = "
            "mean.view_as(p) for each pair. Return finish itself, not finish().",
        ),
        checks=(
            Check(
                "reduce_bucket/mean",
                "leaves the mean over the ranks in every gradient, in its shape and dtype",
                points=2,
                probe="reduced",
                judge=all_of(
                    gradients_are_the_wholes(
                        "", ("a bucket of float64", "a bucket of float32", "a bucket of bfloat16")
                    ),
                    has_form("dtypes", integer, 1),
                    like_the_parameter,
                ),
                seconds=SECONDS,
            ),
            Check(
                "reduce_bucket/once",
                "starts one all-reduce of the whole bucket before it returns",
                points=1,
                probe="reduced",
                judge=all_of(has_form("calls", bucket_calls, 2), has_form("in order", boolean, 2), reduced_once),
            ),
            Check(
                "reduce_bucket/waits",
                "returns at once, and waits in the returned function",
                points=1,
                probe="reduced",
                judge=all_of(has_form("early", list_of(boolean)), has_reference_form("late"), late),
                requires=("reduce_bucket/mean",),
            ),
        ),
    ),
    Exercise(
        name="overlap",
        functions=("overlap",),
        minutes=30,
        difficulty="hard",
        proves="you know when DDP sends a bucket, why all ranks send in one order, and where to wait",
        hints=(
            "Backward completes the last layer's gradients first. Count down, for each bucket, how many of its "
            "gradients are still missing. What must happen if a bucket is complete before an earlier bucket is?",
            "A post-accumulate hook on each parameter counts down. Start buckets with reduce_bucket in a while loop, "
            "as long as the next bucket in order is complete. Store the functions that reduce_bucket returns. finish() "
            "starts the remaining buckets, then calls all stored functions.",
            "started = []; in the hook: missing[bucket_of[p]] -= 1; while len(started) < len(buckets) and "
            "missing[len(started)] == 0: started.append(reduce_bucket(buckets[len(started)])). At the end of finish() "
            "reset the counts and clear started.",
        ),
        checks=(
            Check(
                "overlap/gradient",
                "leaves the whole batch's gradient on every rank, step after step",
                points=3,
                probe="overlapped",
                judge=gradients_are_the_wholes("", EACH_STEP),
                seconds=SECONDS,
            ),
            Check(
                "overlap/calls",
                "starts one all-reduce per bucket, in order, each as soon as its bucket is full",
                points=3,
                probe="overlapped",
                judge=all_of(SENT, sent_in_order, sent_early),
                requires=("make_buckets/buckets",),
            ),
            Check(
                "overlap/waits",
                "does not wait in backward, and waits in finish()",
                points=2,
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
                    gradients_are_the_wholes("where ranks use different layers, ", FORKED_STEPS),
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
        proves="you can divide a data set over ranks, so that they read every sample in each epoch, in a new order",
        hints=(
            "All ranks compute the same order, and each takes every K-th sample of it. What must the seed depend on, "
            "and what must it not depend on?",
            "With K = 4 and 10 samples, each rank gets 3 samples with padding and 2 with drop_last. Padding repeats "
            "the order from its beginning; with 1 sample and 4 ranks, it repeats the order three times.",
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
                "with drop_last, leaves out the samples too many at the end",
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
        minutes=20,
        difficulty="medium",
        proves="your accumulation sends the gradients once per update, and all tokens of all ranks have equal weight",
        hints=(
            "Only the sum over the micro-batches has to be sent, so which backward must send? And by how many tokens "
            "must each micro-batch's loss be divided, so that all tokens of all ranks have the same weight?",
            "`with ddp.no_sync():` around *forward and backward* of every micro-batch but the last. All-reduce the "
            "number of counted tokens first, and divide cross_entropy(..., reduction='sum') by their sum. DDP also "
            "divides by K, so multiply the loss by K.",
            "tokens = (y != -100).sum(); dist.all_reduce(tokens); loss = cross_entropy(..., reduction='sum') / tokens; "
            "(loss * K).backward(), in contextlib.nullcontext() if it is the last micro-batch else ddp.no_sync(). Then "
            "all-reduce the sum of the losses.",
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
                "sends no gradient before the last backward, and the gradients once",
                points=3,
                probe="accumulated",
                judge=QUIET,
            ),
            Check(
                "accumulate/loss",
                "returns the mean loss over all ranks' tokens, on all of them",
                points=2,
                probe="accumulated",
                judge=LOSSES,
                tolerance=FLOAT32,
            ),
            Check(
                "accumulate/stale",
                "clears old gradients, runs rows without counted tokens, and leaves the rest as it was",
                points=1,
                probe="over_old_gradients",
                judge=all_of(
                    LOSSES,
                    gradients_are_the_wholes(
                        "over old gradients, where rows have no counted token, ", ("after the last micro-batch",)
                    ),
                    QUIET,
                    LEFT,
                ),
                requires=("accumulate/gradient", "accumulate/quiet", "accumulate/loss"),
                seconds=SECONDS,
            ),
        ),
    ),
)
