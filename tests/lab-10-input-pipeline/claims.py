"""Claims of labs/lab-10-input-pipeline.md."""

import contextlib
import functools
import io
import re
import statistics
import tempfile
import time
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, pick
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.data.augment import channel_statistics
from rankzero.learn.data.byte_pairs import BytePairTokenizer, learn_merges
from rankzero.learn.data.documents import load_documents
from rankzero.learn.data.downloads import cache_folder
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.data.slow_store import SlowStore, decoded
from rankzero.learn.data.text_report import attending_share, padding_share
from rankzero.learn.models.image_trainer import ImageTrainer
from rankzero.learn.profiling.loader_record import Record, seconds_of

SIDE, BATCH, STEP_MS, READ_MS = 16, 32, 25.0, 1.0


def new_pictures(read_ms: float = 0.0) -> Any:
    """The starter's data set of the digits."""
    digits = load_images("digits")
    return starter("10").Pictures(SlowStore(digits.train_images, read_ms), digits.train_labels, SIDE, 0)


def decoded_once() -> Any:
    """The starter's data set, as on the last rung of its ladder."""
    pictures = new_pictures()
    pictures.decoded = torch.stack([pictures.picture(number) for number in range(len(pictures.store))])
    return pictures


def new_order(batches: int = 44) -> Any:
    return starter("10").EpochOrder(batches * BATCH, BATCH, 0, 0, 1)


def timer(*batch: Tensor) -> Tensor:
    """A step of a device that computes without the cores of the host, as a GPU does."""
    time.sleep(STEP_MS / 1000)
    return torch.zeros(1)


@functools.cache
def timed_ladder() -> dict[str, Record]:
    """Climbs the starter's ladder with a timer as its device and a disk that needs 1 ms per picture on average."""
    lab = starter("10")
    rungs = [rung for rung in lab.ladder(2, 8) if "pin_memory" not in rung[1]]
    with contextlib.redirect_stdout(io.StringIO()):
        records, _ = lab.climb(rungs, new_pictures(READ_MS), new_order(40), lambda: SimpleNamespace(step=timer))
    return dict(records)


def share_that_waits(record: Record) -> float:
    whole, training = seconds_of(record.moments)
    return 100 * (1 - training / whole)


def printed_by_starter(*arguments: str) -> str:
    """Runs the starter in a folder that is removed; returns what it prints."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        starter("10").main([*arguments, "--out", folder])
    return printed.getvalue()


@claim(
    "lab-10-waits",
    "A loop whose process loads by itself waits more than half of the time; with 2 workers it waits less than 3/4 of "
    "that share, and with pictures decoded once less than a third of it.",
    expected={"by itself: more than 50 %": 1, "2 workers: less than 3/4 of it": 1, "decoded once: less than 1/3": 1},
    unit="",
)
def waits() -> Charted:
    """Climbs the ladder with a disk of 1 ms per picture and a timer of 25 ms as the device, which needs no core."""
    shares = {name: share_that_waits(record) for name, record in timed_ladder().items()}
    first, workers, *_, last = shares.values()
    value = {
        "by itself: more than 50 %": int(first > 50),
        "2 workers: less than 3/4 of it": int(workers < 0.75 * first),
        "decoded once: less than 1/3": int(last < first / 3),
    }
    points: list[Point] = [(name, share, share, share) for name, share in shares.items()]
    return Charted(value, Chart("Time that waits", "loader", "% of the time", {"waits": points}))


@claim(
    "lab-10-ahead",
    "With 2 batches ahead per worker the loop waits in the middle of an epoch more than with 8.",
    expected=True,
    unit="",
)
def ahead() -> Charted:
    """Adds up the waits of the ladder's rungs, epochs' first 8 steps left out; the chart has the first 28 batches."""
    records, middle = timed_ladder(), {}
    lines: dict[str, list[Point]] = {}
    for name, record in records.items():
        steps = len(record.moments) // 3
        late = [moment for number, moment in enumerate(record.moments) if number % steps >= 8]
        middle[name] = sum(moment.taken - moment.asked for moment in late)
        begin = record.moments[0].asked
        for moment in record.moments[:28]:
            for row, x, end in (
                (f"worker {moment.worker}", moment.load_begin, moment.load_end),
                ("trains", moment.taken, moment.done),
            ):
                stop = 1000 * (end - begin)
                lines.setdefault(f"{name}: {row}", []).append((1000 * (x - begin), stop, stop, stop))
    names = list(records)
    chart = Chart("Loading and training", "ms", "end, ms", lines)
    return Charted(middle[names[2]] < middle[names[1]], chart)


@claim(
    "lab-10-equal-losses",
    "The losses of 120 steps are equal bit for bit with all five loaders.",
    expected=True,
    unit="",
)
def equal_losses() -> bool:
    """Runs the starter without a wait for the disk, and reads its verdict about the five loaders."""
    printed = printed_by_starter("--device=cpu", "--read-ms=0", "--epochs=1", "--merges=0")
    return "equal bit for bit: 120 losses with each of 5 loaders" in printed


@claim(
    "lab-10-loader-over-bare-loop",
    "DataLoader delivers at least 0.9 of the pictures per second of a bare loop over the same batches.",
    expected=True,
    unit="",
)
def loader_over_bare_loop() -> Charted:
    """Reads an epoch of decoded pictures 15 times each way in turn, in one process; compares the medians."""
    pictures, order = decoded_once(), new_order()
    loader = starter("10").make_loader(pictures, order, {"num_workers": 0})
    rates: dict[str, list[float]] = {"bare loop": [], "DataLoader": []}
    for _ in range(15):
        for name, batches in (("bare loop", (pictures[keys] for keys in order)), ("DataLoader", loader)):
            begin = time.perf_counter()
            count = sum(len(batch.labels) for batch in batches)
            rates[name].append(count / (time.perf_counter() - begin))
    medians = {name: statistics.median(samples) for name, samples in rates.items()}
    ratio = medians["DataLoader"] / medians["bare loop"]
    lines: dict[str, list[Point]] = {"ratio": [("DataLoader / bare loop", ratio, ratio, ratio)]}
    return Charted(ratio >= 0.9, Chart("Pictures per second", "", "ratio", lines))


@claim(
    "lab-10-each-sample-once",
    "On {expected[ranks]} ranks an epoch of 1,437 pictures in batches of 32 reads {expected[once]} once and "
    "{expected[twice]} twice; {expected[left out]} are left out.",
    expected={"ranks": 4, "once": 1408, "twice": 0, "left out": 29},
    unit="pictures",
)
def each_sample_once() -> dict[str, float]:
    """Counts the numbers that the starter's order gives to 1, 2 and 4 ranks, which must be the same numbers."""
    counts = {}
    for ranks in (1, 2, 4):
        orders = [starter("10").EpochOrder(1437, BATCH, 0, rank, ranks) for rank in range(ranks)]
        numbers = torch.tensor([number for order in orders for keys in order for _, number in keys])
        times = torch.bincount(numbers, minlength=1437)
        counts[ranks] = [int((times == 1).sum()), int((times > 1).sum()), int((times == 0).sum())]
    assert counts[1] == counts[2] == counts[4]
    once, twice, left_out = counts[4]
    return {"ranks": 4, "once": once, "twice": twice, "left out": left_out}


@functools.cache
def trained(*, epoch_reaches_workers: bool) -> tuple[list[float], float, dict[str, float]]:
    """Mean loss of the CNN per epoch, placements per picture, and shares of held-out pictures in the right class.

    Trains CNN and MLP for 16 epochs with two persistent workers. Otherwise each worker keeps the epoch in which it
    started.
    """
    lab, digits = starter("10"), load_images("digits")

    class EpochInDataSet(lab.Pictures):  # type: ignore[misc,name-defined]
        epoch = 0

        def __getitem__(self, keys: list[tuple[int, int]]) -> Any:
            return super().__getitem__([(self.epoch, number) for _, number in keys])

    pictures = decoded_once()
    if not epoch_reaches_workers:
        pictures.__class__ = EpochInDataSet
    order = lab.EpochOrder(1437, BATCH, 0, 0, 1)
    loader = lab.make_loader(pictures, order, {"num_workers": 2, "persistent_workers": True})
    held_out = torch.stack([decoded(file, SIDE) for file in SlowStore(digits.val_images, 0).files])
    trainer = ImageTrainer(channel_statistics(digits.train_images), SIDE, 10, 1e-3, 0, mlp=True)
    losses, placements = [], set()
    for epoch in range(16):
        order.epoch = epoch
        pictures.epoch = epoch  # changes the copy of this process
        rows = []
        for batch in loader:
            rows.append(trainer.step(batch.images, batch.labels)[0].item())
            pairs = zip(batch.numbers, batch.images, strict=True)
            placements |= {(number, image.numpy().tobytes()) for number, image in pairs}
        losses.append(statistics.mean(rows))
    return losses, len(placements) / 1437, trainer.shares_right(held_out, digits.val_labels)


@claim(
    "lab-10-accuracy",
    "After 16 epochs the CNN puts {expected[CNN]} % of the 360 held-out digits into the right class, and the MLP "
    "{expected[MLP]} %.",
    expected={"CNN": 98.6, "MLP": 94.4},
    tolerance=1.5,  # another CPU adds in another order
    unit="% of 360 pictures",
)
def accuracy() -> dict[str, float]:
    """Trains both on the same batches of the digits, with the starter's default options."""
    shares = trained(epoch_reaches_workers=True)[2]
    return {name: 100 * share for name, share in shares.items()}


@claim(
    "lab-10-epoch-forgotten",
    "In 16 epochs a picture is seen in {expected[with the number]:.0f} placements on average if the epoch travels with "
    "its number, and in {expected[in the data set]:.0f} if the data set of persistent workers holds it.",
    expected={"with the number": 11.89, "in the data set": 1.0},
    tolerance=0.1,
    unit="placements per picture",
)
def epoch_forgotten() -> Charted:
    """Counts the different images of each picture over 16 epochs with two persistent workers; charts the losses."""
    lines: dict[str, list[Point]] = {}
    value = {}
    for name, reaches in (("with the number", True), ("in the data set", False)):
        losses, value[name], _ = trained(epoch_reaches_workers=reaches)
        lines[name] = [(float(epoch), loss, loss, loss) for epoch, loss in enumerate(losses, start=1)]
    return Charted(value, Chart("Training loss", "epoch", "loss, nats per picture", lines))


@claim(
    "lab-10-bytes-per-token",
    "Held-out paragraphs of the embedded text have {expected[256]:.1f} bytes per token with 256 merges and "
    "{expected[1792]:.1f} with 1,792.",
    expected={"0": 1, "256": 2.2, "768": 3.01, "1792": 3.78},
    tolerance=0.1,  # the text differs a little between versions of Python
    unit="bytes per token",
)
def bytes_per_token() -> Charted:
    """Learns merges on nine of ten paragraphs; charts tokens per byte of the others, TinyShakespeare too if cached."""
    value, lines = {}, dict[str, list[Point]]()
    names = ["embedded"] + ["tinyshakespeare"] * (cache_folder() / "tinyshakespeare.txt").is_file()
    for name in names:
        train, held_out = load_documents(name)
        merges = learn_merges("\n\n".join(train), 3840)
        size = sum(len(document.encode()) for document in held_out)
        for count in (0, 256, 768, 1792, 3840):
            tokenizer = BytePairTokenizer(merges[:count])
            tokens = sum(len(tokenizer.encode(document)) for document in held_out)
            share = tokens / size
            lines.setdefault(name, []).append((float(tokenizer.vocab_size), share, share, share))
            if name == "embedded" and count < 3840:
                value[str(count)] = size / tokens
    return Charted(value, Chart("Tokens per byte", "vocabulary, tokens", "tokens per byte", lines, "x"))


@claim(
    "lab-10-padding",
    "Of rows of 256 tokens, {expected[one per row]:.0f} % is padding with one paragraph of the embedded text per row "
    "and {expected[packed]:.0f} % if paragraphs are packed; then a token attends to {expected[attends]:.0f} % of the "
    "pairs of a causal row.",
    expected={"one per row": 81.4, "packed": 1.8, "attends": 29.6},
    tolerance=2.0,  # the text differs a little between versions of Python
    unit="%",
)
def padding() -> dict[str, float]:
    """Counts tokens of the held-out paragraphs with 1,792 merges, and one more for the end of each paragraph."""
    train, held_out = load_documents("embedded")
    tokenizer = BytePairTokenizer(learn_merges("\n\n".join(train), 1792))
    lengths = [len(tokenizer.encode(document)) + 1 for document in held_out]
    return {
        "one per row": 100 * padding_share(lengths, 256, packed=False),
        "packed": 100 * padding_share(lengths, 256, packed=True),
        "attends": 100 * attending_share(lengths, 256),
    }


@claim(
    "lab-10-gpu-ladder",
    "On a GPU, the loop waits more than half of the time while its process loads by itself, and less than a third of "
    "that share on the ladder's last rung.",
    expected={"by itself: more than 50 %": 1, "decoded once: less than 1/3": 1},
    unit="",
    needs=("cuda",),
)
def gpu_ladder() -> Charted:
    """Runs the starter and reads the table of its ladder, pinned memory included."""
    epochs = pick("4", "1")
    printed = printed_by_starter(
        "--device", gpu().type, "--epochs", epochs, "--merges=0", "--read-ms", pick("0.2", "0")
    )
    rows = re.findall(r"^(this process loads|\+ .*?) +[\d.]+ +[\d.]+ +(\d+)% +[\d,]+$", printed, re.MULTILINE)
    shares = {name: float(share) for name, share in rows}
    first, last = shares["this process loads"], shares["+ decoded once"]
    value = {"by itself: more than 50 %": int(first > 50), "decoded once: less than 1/3": int(last < first / 3)}
    points: list[Point] = [(name, share, share, share) for name, share in shares.items()]
    return Charted(value, Chart("Time that waits, on a GPU", "loader", "% of the time", {"waits": points}))
