"""Lab 10, checks: what each exercise's code must do, for how many points, and how a mistake is worded."""

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, each_says, items, mismatch_text, says, shorten
from rankzero.exercises.probes.answers import Answers, equal

FP32 = 1e-5  # sums and quotients in fp32 differ by about 1e-6 of a number
GENERATORS = "random.random()", "np.random.random()", "torch.rand(1)"


def array_equals(name: str, tolerance: float) -> Judge:
    """Passes if the array `name` equals the reference's; the failure names the first number that differs."""

    def judge(got: Answers, expected: Answers) -> str | None:
        array, reference = got.get(name), expected[name]
        if not isinstance(array, np.ndarray) or array.shape != reference.shape or array.dtype != reference.dtype:
            return f"{name}: no tensor of numbers in the right shape came back."
        if equal(array, reference, tolerance):
            return None
        apart = ~np.isclose(array, reference, rtol=tolerance, atol=tolerance, equal_nan=True)
        place = tuple(int(index) for index in np.argwhere(apart)[0]) if apart.any() else (0,) * array.ndim
        where = f"{name}[{', '.join(map(str, place))}] (picture, channel, row, column)"
        return f"{where} {mismatch_text(float(array[place]), float(reference[place]))}"

    return judge


# ---------------------------------------------------------------------------------------------- pictures and samples
BATCH = all_of(
    says("form", "the batch is {got}; expected {expected}."),
    array_equals("batch", FP32),
    says("strides", "the batch has strides {got}; a contiguous batch has {expected}."),
    says("unchanged", "an argument is not as it was before the call."),
)


def times_text(times: object, expected: list[int], thing: str = "sample") -> str | None:
    """Returns what is wrong with how often each sample comes; None if each comes once and nothing else does."""
    found = items(times, expected)
    if equal(found, expected):
        return None
    if not equal(found[-1], expected[-1]):
        return f"{shorten(found[-1])} of the {thing}s that came are none of the {len(expected) - 1}."
    counts = [count if isinstance(count, int) else 0 for count in found[:-1]]
    number = next((number for number, count in enumerate(counts) if count != 1), 0)
    missing, repeated = (sum(1 for count in counts if wrong(count)) for wrong in (lambda n: n < 1, lambda n: n > 1))
    if missing + repeated == len(counts) == counts.count(counts[0]) and counts[0] > 1:
        return f"every {thing} comes {shorten(counts[0])} times; expected once."
    also = f"Of {len(counts)} {thing}s, {missing} never come and {repeated} come too often"
    overlap = missing and repeated and sum(counts) == len(counts)
    why = ": the shares overlap, as if they came from different orders" if overlap else ""
    return f"{thing} {number} comes {shorten(counts[number])} times; expected once. {also}{why}."


def each_once(got: Answers, expected: Answers) -> str | None:
    """In each case, each sample comes once, in shares that are tensors."""
    forms = got.get("forms")
    if not equal(forms, expected["forms"]):
        some = forms if isinstance(forms, list) else [forms]
        wrong = next((form for form in some if not equal(form, "int64 [n]")), None)
        return f"a share is {shorten(wrong)}; expected a tensor int64 [n]."
    for case, times, reference in zip(
        expected["cases"], items(got.get("times"), expected["times"]), expected["times"], strict=True
    ):
        if failure := times_text(times, reference):
            return f"{case_text(case)}: {failure}"
    return None


def case_text(case: list[int]) -> str:
    size, _, _, ranks, workers = case
    return f"{size} samples on {ranks} ranks of {workers} workers"


def sizes_equal(got: Answers, expected: Answers) -> str | None:
    """In each case, the shares are as equal as they can be."""
    for case, sizes, reference in zip(
        expected["cases"], items(got.get("sizes"), expected["sizes"]), expected["sizes"], strict=True
    ):
        ranks, workers = items(sizes, reference)
        if not equal(ranks, reference[0]):
            return f"{case_text(case)}: the ranks read {shorten(ranks)}; expected {reference[0]}, in some order."
        if not equal(workers, reference[1]):
            pairs = zip(items(workers, reference[1]), reference[1], strict=True)
            wrong = next((counts for counts, right in pairs if not equal(counts, right)), None)
            return f"{case_text(case)}: the workers of a rank read {shorten(wrong)}; they may differ by one."
    return None


def global_numbers(name: str, when: str) -> Judge:
    """Passes if the global generators return the numbers that they return without the learner's function."""
    failure = f"{when}, {{subject}} returns another number than without the call: a global generator was used."
    return each_says(name, GENERATORS, failure)


ORDERS = all_of(
    says("size", "the answer `size` does not have the form that the probe gives it."),
    says("regular", "in {got} of 6 epochs, the samples follow one another at regular distances: no random order."),
    says("another size", "with the same seed and epoch, but 5 samples more, not each sample comes once."),
    says("epochs", "{expected} epochs of one seed have {got} different orders; expected {expected}."),
    says(
        "pairs",
        "8 pairs of seed and epoch, such as (1, 2) and (2, 1), have {got} different orders; expected {expected}. "
        "Seed 1 in epoch 2 must not have the order of seed 2 in epoch 1.",
    ),
    says("same samples", "rank 0 of 2 reads the same samples in two epochs; expected others."),
    says("kept", "{got} of {expected} shares keep the order that one worker of one rank reads; expected all."),
    says(
        "repeats",
        "drawn a second time, {got} of {expected} orders are the same; expected all: the order depends on "
        "seed and epoch only.",
    ),
)


def changes_counted(got: Answers, expected: Answers) -> str | None:
    """A change of any of the four numbers changes what each generator draws."""
    rows = zip(
        ("seed", "epoch", "rank", "worker"),
        items(got.get("changed"), expected["changed"]),
        expected["changed"],
        strict=True,
    )
    for name, counts, references in rows:
        for generator, count, reference in zip(GENERATORS, items(counts, references), references, strict=True):
            if not equal(count, reference):
                return (
                    f"with another {name}, {generator} gives another first number in {shorten(count)} of "
                    f"{reference} cases; expected all."
                )
    return None


def seeds_differ(got: Answers, expected: Answers) -> str | None:
    """No two workers start the same numbers; a failure names two."""
    if not equal(got.get("weighted"), []):
        first, second = items(got.get("weighted"), [None, None])
        return (
            "torch's seed is a weighted sum of the four values: the workers whose seed, epoch, rank and worker are "
            f"{shorten(first)} and {shorten(second)} start alike."
        )
    answers = [items(got.get(name), expected[name]) for name in ("of sums", "different", "pairs")]
    for generator, of_sums, different, pair, right_of_sums, right in zip(
        GENERATORS, *answers, expected["of sums"], expected["different"], strict=True
    ):
        if not equal(of_sums, right_of_sums):
            return (
                f"{right_of_sums} workers were seeded by four numbers that differ, but have the same sum: {generator} "
                f"gave {shorten(of_sums)} different first numbers; expected {right_of_sums}."
            )
        if not equal(different, right) or not equal(pair, []):
            first, second = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
            return (
                f"{right} workers start {shorten(different)} different numbers with {generator}. Seed, epoch, rank "
                f"and worker of two that start alike: {shorten(first)}, {shorten(second)}."
            )
    return None


# ---------------------------------------------------------------------------------------------------------- TextStream
def windows_equal(got: Answers, expected: Answers) -> str | None:
    """Each window comes once, in the right form, with its tokens and targets."""
    if not equal(got.get("iterable"), expected["iterable"]):
        return "the stream is no IterableDataset: a DataLoader would not iterate over it."
    for forms, right in zip(items(got.get("forms"), expected["forms"]), expected["forms"], strict=True):
        if not equal(forms, right):
            some = forms if isinstance(forms, list) else []
            wrong = next((form for form in some if not any(equal(form, one) for one in right)), some)
            return f"a sample has {shorten(wrong)}; expected {'; '.join(right)}."
    texts = ("", "a text whose length is a multiple of the window's: ")
    for place, where in enumerate(texts):
        windows = items(got.get("windows"), expected["windows"])[place]
        if failure := times_text(windows, expected["windows"][place], "window"):
            return f"{where}rank 0 of 1, without workers: {failure}"
        for name in ("x", "y"):
            rows = items(items(got.get(name), expected[name])[place], expected[name][place])
            for number, (row, reference) in enumerate(zip(rows, expected[name][place], strict=True)):
                if not equal(row, reference):
                    return f"{where}{name} of window {number} is {shorten(row)}; expected {reference}."
    return None


def stream_case(case: list[int]) -> str:
    return "ranks: {}, workers of each: {}, windows: {}".format(*case)


def stream_shares(got: Answers, expected: Answers) -> str | None:
    """Each window comes once over all ranks and workers, in shares as equal as they can be."""
    where = stream_case(expected["case"])
    if failure := times_text(got.get("times"), expected["times"], "window"):
        return f"{where}: {failure}"
    if not equal(got.get("sizes"), expected["sizes"]):
        return f"{where}: the workers read {shorten(got.get('sizes'))} windows; expected {expected['sizes']}."
    if not equal(got.get("numbers"), expected["numbers"]):
        return f'{where}: the "worker" of some samples is another worker.'
    if equal(got.get("ordered"), expected["ordered"]):
        return None
    ordered = f"{shorten(got.get('ordered'))} of {expected['ordered']} workers"
    return f"{where}: {ordered} yield the windows that epoch_indices returns, in its order; expected all."


def stream_epochs_differ(got: Answers, expected: Answers) -> str | None:
    """Each epoch has each window once, and epochs have several orders."""
    for workers, epochs, reference in zip(
        ("without workers", "with workers"), items(got.get("times"), expected["times"]), expected["times"], strict=True
    ):
        for number, (times, right) in enumerate(zip(items(epochs, reference), reference, strict=True)):
            if failure := times_text(times, right, "window"):
                return f"2 ranks {workers}, epoch {number}: {failure}"
    if failure := times_text(got.get("begun"), expected["begun"], "window"):
        return f"an iteration during which advance counts all windows of the epoch: {failure}"
    different = items(got.get("different"), expected["different"])
    if equal(different, expected["different"]):
        return None
    wrong = next((count for count in different if not equal(count, 3)), None)
    return f"the number of different orders in 3 epochs is {shorten(wrong)}; expected 3."


def resumed_text(case: list[int]) -> str:
    ranks, workers, size, batches = case
    return f"ranks: {ranks}, workers of each: {workers}, stopped after {size * batches} windows, resumed"


def resumes(got: Answers, expected: Answers) -> str | None:
    """In each case, each window comes once in the interrupted epoch, and it is that of the uninterrupted run."""
    times, same = (items(got.get(name), expected[name]) for name in ("times", "same"))
    for number, case in enumerate(expected["cases"]):
        if failure := times_text(times[number], expected["times"][number], "window"):
            return f"{resumed_text(case)}: {failure}"
        if not equal(same[number], expected["same"][number]):
            return f"{resumed_text(case)}: other windows come than in a run that never stopped."
    return None


def state_is_small(got: Answers, expected: Answers) -> str | None:
    """The state has plain values, at most one per worker, and does not change afterwards."""
    if not equal(got.get("form"), expected["form"]):
        form = got.get("form")
        found = shorten(form, 80) if isinstance(form, str) else "has another form"
        return f"the state {found}; expected {expected['form']}, at most one per worker."
    for change, count, right in zip(
        ("the stream goes on", "another stream has loaded it and goes on"),
        items(got.get("changed"), expected["changed"]),
        expected["changed"],
        strict=True,
    ):
        if not equal(count, right):
            return f"a state that state_dict returned changes while {change}."
    read = got.get("read")
    return (
        None
        if equal(read, expected["read"])
        else f"the streams read {shorten(read)} windows; expected {expected['read']}."
    )


REFUSED = (
    *("a state of one worker more", "a state of one worker less", "a state of one rank more"),
    *("a state of one rank less", "a state with the numbers of ranks and workers exchanged"),
    *("a state without workers in a stream of one worker", "a state of one worker in a stream without workers"),
)


def refusals(got: Answers, expected: Answers) -> str | None:
    """States of other ranks and workers are refused, and change nothing."""
    for subject, ended, reference in zip(
        REFUSED, items(got.get("ended"), expected["ended"]), expected["ended"], strict=True
    ):
        if not equal(ended, reference):
            return f"{subject}: load_state_dict ended with {shorten(ended)}; expected {reference}."
    read = got.get("read")
    return None if equal(read, expected["read"]) else "after a state was refused, the stream reads other windows."


# --------------------------------------------------------------------------------------------------- texts and tokens
PARTS = "tokens", "targets", "documents", "positions"


def rows_of(*names: str, case: str = "") -> Judge:
    """Passes if these parts of the packed rows are the reference's, in form and numbers; `case` begins their names."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if not equal(got.get(f"{case}kind"), "Packed"):
            return f"{EDGES.get(case, '')}pack_documents returned {shorten(got.get(f'{case}kind'))}; expected Packed."
        for name in names:
            form, reference = got.get(f"{case}form of {name}"), expected[f"{case}form of {name}"]
            if not equal(form, reference):
                return f"{EDGES.get(case, '')}{name} is {shorten(form)}; expected {reference}."
        for name in names:
            rows, reference = got.get(f"{case}{name}"), expected[f"{case}{name}"]
            if equal(rows, reference):
                continue
            if not isinstance(rows, np.ndarray) or rows.shape != reference.shape:
                return f"{name}: no tensor of the right shape came back."
            for number, (row, right) in enumerate(zip(rows, reference, strict=True)):
                if not equal(row, right):
                    found, wanted = row_text(row), row_text(right)
                    return f"{EDGES.get(case, '')}row {number} of {name} is {found}; expected {wanted}."
            return f"{name} holds other numbers than expected."
        return says(f"{case}unchanged", "documents is not as it was before the call.")(got, expected)

    return judge


EDGES = {
    "odd ": "documents of which some are empty or contain eos: ",
    "full ": "documents that fill their rows to the last token: ",
    "none ": "no documents: ",
    "one ": "one document in rows of 1, with eos 0: ",
}


def row_text(row: object) -> str:
    """Returns a row of whole numbers as a list, as short as it can be."""
    numbers = row.tolist() if isinstance(row, np.ndarray) and row.ndim == 1 else row
    if isinstance(numbers, list) and all(isinstance(number, float) and number.is_integer() for number in numbers):
        numbers = [int(number) for number in numbers]
    return shorten(numbers, 100)


def mask_equals(got: Answers, expected: Answers) -> str | None:
    """Each token attends to the tokens of the contract, and attention returns no nan."""
    if not equal(got.get("form"), expected["form"]):
        return f"the mask is {shorten(got.get('form'))}; expected {expected['form']}."
    mask, reference = got.get("mask"), expected["mask"]
    if not equal(got.get("nan"), expected["nan"]):
        return f"{shorten(got.get('nan'))} tokens may attend to no token at all: their softmax is nan; expected 0."
    if not equal(got.get("none"), expected["none"]):
        return f"the mask of 0 rows is {shorten(got.get('none'))}; expected {expected['none']}."
    if equal(mask, reference):
        return says("unchanged", "documents is not as it was before the call.")(got, expected)
    if not isinstance(mask, np.ndarray) or mask.shape != reference.shape or not (mask != reference).any():
        return "the mask does not have the form that the probe gives it."
    row, _, query, key = (int(place) for place in np.argwhere(mask != reference)[0])
    may, should = ("may" if value else "may not" for value in (mask[row, 0, query, key], reference[row, 0, query, key]))
    documents = row_text(expected["documents"][row])
    return f"of the documents {documents}, token {query} {may} attend to token {key}; it {should}, by the contract."


def learned_equal(got: Answers, expected: Answers) -> str | None:
    """The merges of each text, in their order."""
    for text, merges, reference in zip(
        expected["texts"], items(got.get("learned"), expected["learned"]), expected["learned"], strict=True
    ):
        if equal(merges, reference):
            continue
        where = f"the text {shorten(repr(text), 50)}"
        if not isinstance(merges, list):
            return f"{where}: train_bpe returned no list of pairs of ints."
        for number, (merge, right) in enumerate(zip(merges, reference, strict=False)):
            if not equal(merge, right):
                return f"{where}: merge {number} is {shorten(merge)}; expected {right}."
        return f"{where}: {len(merges)} merges; expected {len(reference)}."
    return None


def tokens_equal(got: Answers, expected: Answers) -> str | None:
    """The tokens of each text; a failure shows the first that differs."""
    answers = items(got.get("tokens"), expected["tokens"])
    for text, merges, tokens, reference in zip(
        expected["texts"], expected["merges"], answers, expected["tokens"], strict=True
    ):
        if equal(tokens, reference):
            continue
        where = f"encode({text!r}, {merges})".replace("[", "(").replace("]", ")")
        if not isinstance(tokens, list):
            return f"{where} is no list of ints."
        for number, (token, right) in enumerate(zip(tokens, reference, strict=False)):
            if not equal(token, right):
                return f"{where}: token {number} is {shorten(token)}; expected {right}."
        return f"{where}: {len(tokens)} tokens; expected {len(reference)}."
    return None


def merged_equal(got: Answers, expected: Answers) -> str | None:
    """The list that merge_pair returns for each case."""
    answers = items(got.get("merged"), expected["merged"])
    for (tokens, pair, new), answer, reference in zip(expected["cases"], answers, expected["merged"], strict=True):
        if not equal(answer, reference):
            found = "no list of ints" if answer is None else shorten(answer, 100)
            call = f"merge_pair({shorten(tokens, 100)}, {tuple(pair)}, {new})"
            return f"{call} is {found}; expected {shorten(reference, 100)}."
    return None


EXERCISES = (
    Exercise(
        name="prepare",
        functions=("prepare",),
        minutes=20,
        difficulty="medium",
        proves="you can turn decoded pictures into a normalized batch, and augment training data only",
        hints=(
            "Three steps: shift the bytes (only with a generator), normalize, change the order of the dimensions.",
            "permute changes the order of the dimensions; view and reshape keep the order of the numbers and change "
            "only the shape. contiguous() after permute puts the numbers in their new order in memory.",
            "Pad each picture with 2 rows and columns of zeros on every side: F.pad counts dimensions from the last "
            "one, so F.pad(images, (0, 0, 2, 2, 2, 2)) leaves the channels alone. The picture shifted by dy, dx is the "
            "part of the padded picture that begins at row 2 - dy and column 2 - dx.",
        ),
        checks=(
            Check(
                "prepare/normalized",
                "returns contiguous float32 [B, C, H, W], each channel normalized with its own numbers",
                points=4,
                probe="prepared",
                judge=BATCH,
                tolerance=FP32,
            ),
            Check(
                "prepare/validation",
                "shifts nothing and draws no random number without a generator",
                points=2,
                probe="without_generator",
                judge=all_of(
                    says("differ", "two batches of the same pictures differ in {got} numbers; expected {expected}."),
                    global_numbers("numbers", "after prepare without a generator"),
                ),
            ),
            Check(
                "prepare/shifted",
                "shifts each training picture by its own dy and dx, with zeros at the edge, before it normalizes",
                points=4,
                probe="shifted",
                judge=BATCH,
                requires=("prepare/normalized",),
                tolerance=FP32,
            ),
            Check(
                "prepare/generator",
                "draws B pairs per batch from the given generator, and nothing else",
                points=2,
                probe="numbers_drawn",
                judge=all_of(
                    says("own", "after two batches, the given generator has not drawn the numbers of two batches."),
                    global_numbers("global", "after two training batches"),
                ),
                requires=("prepare/normalized",),
            ),
        ),
    ),
    Exercise(
        name="epoch_indices",
        functions=("epoch_indices",),
        minutes=15,
        difficulty="medium",
        proves="you can divide an epoch among ranks and workers",
        hints=(
            "First draw one order of all samples, which is the same for every worker of every rank. Then take the "
            "worker's part of this order.",
            "np.random.default_rng((seed, epoch)) makes a generator of its own, whose state depends on both numbers.",
            "order[rank::ranks] is the rank's share. Take the worker's share of the rank's share in the same way.",
        ),
        checks=(
            Check(
                "epoch_indices/once",
                "gives each sample to one worker of one rank",
                points=4,
                probe="divided",
                judge=each_once,
            ),
            Check(
                "epoch_indices/even",
                "gives ranks, and workers of a rank, shares that differ by at most one sample",
                points=2,
                probe="share_sizes",
                judge=sizes_equal,
                requires=("epoch_indices/once",),
            ),
            Check(
                "epoch_indices/order",
                "draws a random order that depends on seed and epoch only",
                points=3,
                probe="orders",
                judge=ORDERS,
                requires=("epoch_indices/once",),
            ),
            Check(
                "epoch_indices/global",
                "does not use the global random generators",
                points=1,
                probe="generators_left",
                judge=global_numbers("numbers", "after epoch_indices"),
            ),
        ),
    ),
    Exercise(
        name="seed_worker",
        functions=("seed_worker",),
        minutes=10,
        difficulty="easy",
        proves="you can give every worker random numbers of its own that repeat in another run",
        hints=(
            "Three generators, three calls: random.seed, np.random.seed, torch.manual_seed.",
            "The sum of the four values is no seed, because it is the same for many workers. "
            "np.random.SeedSequence((a, b, c, d)) mixes four numbers of any size; its generate_state(3).tolist() is a "
            "list of three ints, one for each generator.",
        ),
        checks=(
            Check(
                "seed_worker/repeats",
                "starts the same random numbers for the same four values, also for large values",
                points=2,
                probe="seeds_repeat",
                judge=each_says(
                    "repeats",
                    GENERATORS,
                    "seeded twice alike, as in two processes, {subject} repeats {got} of {expected} numbers.",
                ),
            ),
            Check(
                "seed_worker/differs",
                "starts other random numbers if seed, epoch, rank or worker differs",
                points=3,
                probe="one_differs",
                judge=changes_counted,
            ),
            Check(
                "seed_worker/mixes",
                "mixes the four values, so that equal sums give different random numbers",
                points=1,
                probe="several_differ",
                judge=all_of(
                    seeds_differ,
                    each_says(
                        "lost", GENERATORS, "with {subject}, a large value v and v % 2**32 start the same numbers."
                    ),
                ),
                requires=("seed_worker/differs",),
            ),
        ),
    ),
    Exercise(
        name="TextStream",
        functions=("TextStream",),
        minutes=30,
        difficulty="hard",
        proves="you can read a stream with many workers on many ranks, stop anywhere, and lose or repeat nothing",
        hints=(
            "Workers hold copies: a change in a worker's copy never reaches the training process. So the training "
            'process calls advance, which counts the windows trained on. Why does a sample carry "worker"?',
            "__iter__ yields the windows of the worker's share of the epoch's indices from position n on, where n is "
            "the count that advance keeps for this worker.",
            "The state is the epoch, the number of ranks and one count per worker, copied into a new list. advance "
            "compares the sum of the counts with the size of this rank's share, which epoch_indices gives for worker 0 "
            "of 1.",
        ),
        checks=(
            Check(
                "TextStream/windows",
                "yields each window with its targets, without workers",
                points=3,
                probe="stream_windows",
                judge=windows_equal,
                requires=("epoch_indices/once",),
            ),
            Check(
                "TextStream/divided",
                "gives each window to one worker of one rank",
                points=3,
                probe="stream_divided",
                judge=stream_shares,
                requires=("TextStream/windows", "epoch_indices/even"),
            ),
            Check(
                "TextStream/resumed",
                "continues after the last window trained on, wherever it was stopped",
                points=4,
                probe="stream_resumed",
                judge=resumes,
                requires=("TextStream/divided",),
            ),
            Check(
                "TextStream/epochs",
                "begins the next epoch after the last window, in another order, and resumes in it",
                points=2,
                probe="stream_epochs",
                judge=stream_epochs_differ,
                requires=("TextStream/resumed", "epoch_indices/order"),
            ),
            Check(
                "TextStream/state",
                "returns a small state that later calls do not change",
                points=2,
                probe="stream_state",
                judge=state_is_small,
                requires=("TextStream/windows",),
            ),
            Check(
                "TextStream/refuses",
                "refuses a state of other ranks or workers",
                points=1,
                probe="stream_refuses",
                judge=refusals,
                requires=("TextStream/resumed",),
            ),
        ),
    ),
    Exercise(
        name="pack_documents",
        functions=("pack_documents", "document_mask"),
        minutes=30,
        difficulty="medium",
        proves="you can fill rows with documents, and keep targets and attention inside each document",
        hints=(
            "Build four flat lists for all documents first, as if there were one endless row. Pad them, then cut.",
            "The targets of a document are its tokens from the second on, then eos, then -100 for the eos. A token's "
            "position is its index in the flat list minus the start of its document, or minus the start of its row if "
            "that comes later.",
            "document_mask: documents[:, :, None] == documents[:, None, :] compares each token with every token of its "
            "row, and tril() keeps the entries with j <= i. Which rows of the mask have no True if padding is masked?",
        ),
        checks=(
            Check(
                "pack_documents/tokens",
                "joins the documents, each with its eos, and pads the last row",
                points=2,
                probe="packed",
                judge=rows_of("tokens"),
            ),
            Check(
                "pack_documents/targets",
                "gives each token the next token of its document as target",
                points=3,
                probe="packed",
                judge=rows_of("targets"),
                requires=("pack_documents/tokens",),
            ),
            Check(
                "pack_documents/documents",
                "numbers documents, and restarts positions in each",
                points=2,
                probe="packed",
                judge=rows_of("documents", "positions"),
                requires=("pack_documents/tokens",),
            ),
            Check(
                "pack_documents/rows",
                "continues a long document in the next row",
                points=3,
                probe="packed_long",
                judge=rows_of(*PARTS),
                requires=("pack_documents/targets", "pack_documents/documents"),
            ),
            Check(
                "pack_documents/edges",
                "packs empty documents, documents that contain eos, full rows, and no documents",
                points=2,
                probe="packed_edges",
                judge=all_of(*(rows_of(*PARTS, case=case) for case in EDGES)),
                requires=("pack_documents/rows",),
            ),
            Check(
                "pack_documents/mask",
                "keeps attention inside a document, and lets padding attend to itself (document_mask)",
                points=4,
                probe="mask",
                judge=mask_equals,
            ),
        ),
    ),
    Exercise(
        name="train_bpe",
        functions=("merge_pair", "train_bpe", "encode"),
        minutes=30,
        difficulty="medium",
        proves="you can train a byte-pair tokenizer and apply it to any text",
        hints=(
            "merge_pair needs a while loop with an index: add 2 to the index after a merged pair, 1 otherwise. A for "
            "loop over pairs would merge overlapping pairs.",
            "Counter(pairwise(tokens)) counts all pairs of neighbors, and min(counts, key=lambda pair: (-counts[pair], "
            "pair)) is the most frequent pair, and of equally frequent pairs the smallest.",
            "encode treats a new text as training treated the training text: it applies merge after merge, each to all "
            "tokens.",
        ),
        checks=(
            Check(
                "train_bpe/merge",
                "merges a pair from left to right, without overlap (merge_pair)",
                points=3,
                probe="pairs_merged",
                judge=all_of(
                    merged_equal,
                    says("unchanged", "tokens is not as it was before the call."),
                    says("new", "merge_pair returned the list that it got; expected a new list."),
                ),
            ),
            Check(
                "train_bpe/learns",
                "learns the most frequent pair of bytes or tokens, again and again",
                points=4,
                probe="bpe_learned",
                judge=learned_equal,
                requires=("train_bpe/merge",),
            ),
            Check(
                "train_bpe/ties",
                "takes the smallest of equally frequent pairs, and ends when no pair occurs twice",
                points=2,
                probe="bpe_ties",
                judge=learned_equal,
                requires=("train_bpe/learns",),
            ),
            Check(
                "train_bpe/encode",
                "applies the merges in the order in which they were learned (encode)",
                points=3,
                probe="encoded",
                judge=all_of(tokens_equal, says("unchanged", "merges is not as it was before the call.")),
                requires=("train_bpe/merge",),
            ),
        ),
    ),
)
