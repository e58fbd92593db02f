"""Lab 10, exercises: data that keeps up with the model, each sample once, and no sample from the wrong set.

Eleven small exercises, in the order of the page; the later ones call the earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures. A float is Python's float, an int is Python's int, a list is a list. A stub
may need imports of your own: put them at the top.

    rankzero check 10                  # all of them
    rankzero check 10 prepare          # one
    rankzero hint 10 prepare           # when stuck
"""

import queue
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, get_worker_info


# ------------------------------------------------------------------------------------------------------------ pictures
def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all pixels of the training pictures, each float32 [C], 0 to 1.

    `images` is uint8 [N, H, W, C], as decoders give it, with 0 for dark and 255 for bright: 255 counts as 1.0. The
    standard deviation is that of the population: the mean of squares is divided by N H W. `images` stays as it is.

    For the two gray pixels 0 and 255, mean and standard deviation are 0.5.
    Read: handbook/input-pipeline.md, "Training data and validation data"
    """
    ### BEGIN SOLUTION
    pixels = images.reshape(-1, images.shape[-1]).double() / 255
    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
    ### END SOLUTION


def prepare(images: Tensor, mean: Tensor, std: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """A batch as a model reads it: float32 [B, C, H, W], contiguous, each channel normalized, on training data shifted.

    `images` is uint8 [B, H, W, C]; `mean` and `std` come from `channel_statistics`, for brightness from 0 to 1. A pixel
    becomes (brightness - mean) / std of its channel.

    With a generator the pictures are training data: before they are normalized, each is shifted by dy rows down and dx
    columns to the right (up and left where negative). Pixels that leave the picture are lost; those that enter are 0.
    The shifts are `torch.randint(-2, 3, (B, 2), generator=generator)`, in each row dy, dx; nothing else is drawn.
    Without a generator nothing is random. All arguments stay as they are, and so does torch's global generator.

    Read: handbook/input-pipeline.md, "Training data and validation data"
    """
    ### BEGIN SOLUTION
    if generator is not None:
        size, height, width, _ = images.shape
        shifts = torch.randint(-2, 3, (size, 2), generator=generator)
        padded = F.pad(images, (0, 0, 2, 2, 2, 2))  # [B, H + 4, W + 4, C], 0 around
        corners = (2 - shifts).tolist()
        images = torch.stack(
            [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
        )
    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
    ### END SOLUTION


def evaluate(model: nn.Module, dataset: Dataset[Any], batch_size: int) -> tuple[float, float]:
    """Mean loss per target in nats, and the share of targets that the model gives its highest score, two floats.

    `dataset` has a length of 1 or more; dataset[i] is (x, y). Of pictures, y is a label, an int64 tensor []; of texts,
    y is int64 [T], and targets of -100 are padding, which counts nowhere. Not all targets are padding. The model turns
    a batch of x into scores, float [B, K] of pictures and [B, T, K] of texts. The loss is the cross-entropy, computed
    in fp32 also where the scores are bf16.

    Each sample is read once, and at most `batch_size` enter the model at a time, fewer in the last batch if need be.
    Every target counts the same, whatever batch it is in. The model runs in eval mode and without recording gradients;
    afterwards, also after an exception, each of its modules is in the mode, train or eval, that it had before.

    Read: handbook/input-pipeline.md, "Training data and validation data"
    """
    ### BEGIN SOLUTION
    modes = {module: module.training for module in model.modules()}
    loss, right, count = 0.0, 0, 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in torch.utils.data.DataLoader(dataset, batch_size):
                logits = model(x).float().flatten(0, -2)  # [targets, K]
                targets = y.flatten()
                loss += F.cross_entropy(logits, targets, reduction="sum").item()
                real = targets != -100
                right += int((logits.argmax(-1) == targets)[real].sum())
                count += int(real.sum())
    finally:
        for module, mode in modes.items():
            module.training = mode
    return loss / count, right / count
    ### END SOLUTION


# ------------------------------------------------------------------------------------------- ranks, workers and epochs
def epoch_indices(size: int, seed: int, epoch: int, rank: int, ranks: int, worker: int, workers: int) -> Tensor:
    """The samples that one worker of one rank reads in an epoch, in their order, int64 [its share].

    Samples are numbered 0 to size - 1. Over all workers of all ranks, each sample comes exactly once per epoch. The
    epoch's order is a function of seed and epoch alone: other epochs and other seeds have other orders, and seed 1 in
    epoch 2 is not seed 2 in epoch 1. A rank reads other samples in each epoch, not the same ones in another order.
    Global random generators play no part and stay as they are.

    Ranks differ by at most one sample, and so do the workers of a rank: with 14 samples, two ranks of two workers each
    read 7 and 7, by 4 + 3 workers. Ranks are numbered 0 to ranks - 1, workers of a rank 0 to workers - 1; each has a
    share, perhaps an empty one.

    Read: handbook/input-pipeline.md, "Who reads which sample"
    """
    ### BEGIN SOLUTION
    order = np.random.default_rng((seed, epoch)).permutation(size)
    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
    ### END SOLUTION


def seed_worker(seed: int, epoch: int, rank: int, worker: int) -> None:
    """Seeds Python's `random`, NumPy's `np.random` and torch's generator, each for this worker in this epoch.

    Two calls with the same four numbers (each >= 0, of any size) start the same random numbers in all three
    generators. Calls that differ in any of the four start other random numbers in each: also (0, 1, 0, 0) and
    (0, 0, 1, 0), where sums are equal.

    A loader calls it in each worker: DataLoader(..., worker_init_fn=functools.partial(seed_worker, seed, epoch, rank)).
    Read: handbook/input-pipeline.md, "Order and random numbers"
    """
    ### BEGIN SOLUTION
    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
    random.seed(int(words[0]))
    np.random.seed(words[1])
    torch.manual_seed(int(words[2]))
    ### END SOLUTION


class TextStream(IterableDataset[dict[str, Tensor]]):
    """Windows of a text, each once per epoch over all ranks and workers, with a place that a checkpoint can keep.

    Window i reads tokens[i * length : (i + 1) * length] and predicts, for each of them, the token after it. There are
    (len(tokens) - 1) // length windows; the worker's share and its order are `epoch_indices` of the epoch. One object
    per rank lies in the training process; a loader gives a copy of it to each of its workers.
    """

    def __init__(self, tokens: Tensor, length: int, seed: int, rank: int, ranks: int, workers: int) -> None:
        """`tokens` is int64 [N]; `workers` is the loader's num_workers, 0 or more. Begins with epoch 0."""
        ### BEGIN SOLUTION
        self.tokens, self.length, self.seed = tokens, length, seed
        self.rank, self.ranks = rank, ranks
        self.windows = (len(tokens) - 1) // length
        self.epoch = 0
        self.taken = [0] * max(workers, 1)  # windows of this epoch that the run has trained on, by worker
        ### END SOLUTION

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yields this worker's windows that remain in the epoch: "x" and "y", int64 [length], and "worker", int64 [].

        The worker is that of torch.utils.data.get_worker_info(); without one, the training process reads by itself, as
        worker 0 of 1. Epoch and place are those when the first sample is taken: a later call of `advance` changes
        nothing in this iteration.
        """
        ### BEGIN SOLUTION
        info = get_worker_info()
        worker = info.id if info else 0
        place = self.epoch, self.rank, self.ranks, worker, len(self.taken)
        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
            start, end = window * self.length, (window + 1) * self.length
            yield {
                "x": self.tokens[start:end],
                "y": self.tokens[start + 1 : end + 1],
                "worker": torch.tensor(worker),
            }
        ### END SOLUTION

    def advance(self, worker: Tensor) -> None:
        """Notes in the training process that the run has trained on a batch whose "worker" is int64 [B].

        After the last window of this rank the next epoch begins. Windows that workers have read ahead don't count.
        """
        ### BEGIN SOLUTION
        for number in worker.tolist():
            self.taken[number] += 1
        if sum(self.taken) == len(epoch_indices(self.windows, self.seed, self.epoch, self.rank, self.ranks, 0, 1)):
            self.epoch, self.taken = self.epoch + 1, [0] * len(self.taken)
        ### END SOLUTION

    def state_dict(self) -> dict[str, Any]:
        """The place as plain ints and lists of ints, at most one number per worker; later calls don't change it."""
        ### BEGIN SOLUTION
        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken)}
        ### END SOLUTION

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on after the last window that the run had trained on at `state`, which stays as it is.

        The state is of a stream of the same tokens, length and seed. ValueError, and no change, if it had another
        number of ranks or workers (0 and 1 are the same): then nobody knows which windows are left.
        """
        ### BEGIN SOLUTION
        if (state["ranks"], len(state["taken"])) != (self.ranks, len(self.taken)):
            raise ValueError(
                f"the state is of {state['ranks']} ranks with {len(state['taken'])} workers each, "
                f"not of {self.ranks} with {len(self.taken)}: resume with as many."
            )
        self.epoch, self.taken = state["epoch"], list(state["taken"])
        ### END SOLUTION


# --------------------------------------------------------------------------------------------------------------- texts
class Packed(NamedTuple):
    """Rows of packed documents, four int64 tensors [N, length]."""

    tokens: Tensor
    targets: Tensor  # the next token of the same document, -100 where there is none
    documents: Tensor  # number of the document, -1 for padding
    positions: Tensor  # place in the document, 0 for its first token in the row


def pack_documents(documents: list[list[int]], length: int, eos: int) -> Packed:
    """Puts documents one after the other, an `eos` behind each, and cuts the whole into rows of `length` tokens.

    A document that does not fit goes on in the next row, where its position starts at 0 again, because no token attends
    to another row. The target of a token is the next token of its document, also at the end of a row; an eos has none.
    An empty document is its eos alone. The last row is padded: token eos, target -100, document -1, position 0. Without
    documents there are 0 rows. A document may hold the number `eos` inside. `documents` stays as it is.

    pack_documents([[5, 6, 7], [8]], length=4, eos=0) has the rows
        tokens    [[5, 6, 7, 0], [8, 0, 0, 0]]            documents [[0, 0, 0, 0], [1, 1, -1, -1]]
        targets   [[6, 7, 0, -100], [0, -100, -100, -100]] positions [[0, 1, 2, 3], [0, 1, 0, 0]]
    Read: handbook/input-pipeline.md, "Packing documents"
    """
    ### BEGIN SOLUTION
    packed: list[tuple[int, int, int, int]] = []
    for number, document in enumerate(documents):
        first = len(packed)
        next_tokens = [*document[1:], eos, -100] if document else [-100]
        for place, (token, target) in enumerate(zip([*document, eos], next_tokens, strict=True)):
            row_start = (first + place) // length * length
            position = first + place - max(first, row_start)
            packed.append((token, target, number, position))
    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
    ### END SOLUTION


def document_mask(documents: Tensor) -> Tensor:
    """Which token may attend to which, bool [N, 1, T, T], for `documents`, int64 [N, T], of packed rows.

    mask[n, 0, i, j] is True where token i of row n may attend to token j: of the same document, and j <= i. Padding,
    document -1, attends to itself alone, since the softmax of a row without any True is nan. The second dimension
    stands for the heads: F.scaled_dot_product_attention takes the mask as attn_mask.
    """
    ### BEGIN SOLUTION
    same = documents[:, :, None] == documents[:, None, :]  # [N, T, T]
    real = (documents >= 0)[:, :, None]
    itself = torch.eye(documents.shape[1], dtype=torch.bool, device=documents.device)
    return ((same & real).tril() | itself)[:, None]
    ### END SOLUTION


def count_pairs(tokens: list[int]) -> dict[tuple[int, int], int]:
    """How often each pair of neighbors occurs. Pairs may overlap: in [7, 7, 7] the pair (7, 7) occurs twice."""
    ### BEGIN SOLUTION
    return Counter(pairwise(tokens))
    ### END SOLUTION


def merge_pair(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """A new list in which the token `new` replaces each occurrence of `pair`, from left to right, without overlap.

    merge_pair([7, 7, 7, 5], (7, 7), 256) is [256, 7, 5]. `tokens` stays as it is.
    """
    ### BEGIN SOLUTION
    merged, place = [], 0
    while place < len(tokens):
        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
        merged.append(new if found else tokens[place])
        place += 2 if found else 1
    return merged
    ### END SOLUTION


def train_bpe(text: str, merges: int) -> list[tuple[int, int]]:
    """The first `merges` merges of a byte-pair tokenizer of `text`: pairs of tokens, in the order learned.

    Tokens 0 to 255 are the bytes of the text in UTF-8. Merge number i, from 0, joins the pair that occurs most often,
    by `count_pairs`, into the token 256 + i, everywhere. Of pairs that occur equally often, the smallest comes first:
    (97, 98) before (97, 99) and before (98, 97). The list is shorter where no pair occurs twice any more.

    train_bpe("low lower lowest", 3) is [(108, 111), (256, 119), (32, 257)]: "lo", "low", " low". The pair "ow" occurs
    as often as "lo" at first, but (111, 119) is greater than (108, 111).
    Read: handbook/input-pipeline.md, "Tokens"
    """
    ### BEGIN SOLUTION
    tokens = list(text.encode())
    learned: list[tuple[int, int]] = []
    while len(learned) < merges:
        counts = count_pairs(tokens)
        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if pair is None or counts[pair] < 2:
            break
        tokens = merge_pair(tokens, pair, 256 + len(learned))
        learned.append(pair)
    return learned
    ### END SOLUTION


def encode(text: str, merges: list[tuple[int, int]]) -> list[int]:
    """The tokens of any text: its bytes in UTF-8, with the merges applied in the order in which they were learned."""
    ### BEGIN SOLUTION
    tokens = list(text.encode())
    for number, pair in enumerate(merges):
        tokens = merge_pair(tokens, pair, 256 + number)
    return tokens
    ### END SOLUTION


def decode(tokens: list[int], merges: list[tuple[int, int]]) -> str:
    """The text of tokens: decode(encode(text, merges), merges) is `text`, for any text and any merges.

    A model may stop inside a character of several bytes: bytes that are no UTF-8 become U+FFFD, the replacement
    character, as bytes.decode(errors="replace") gives it; there is no error.
    """
    ### BEGIN SOLUTION
    content = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        content.append(content[left] + content[right])
    return b"".join(content[token] for token in tokens).decode(errors="replace")
    ### END SOLUTION


# -------------------------------------------------------------------------------------------------------- reading ahead
class Prefetcher(Iterator[Any]):
    """Draws items in a thread while the caller works: in their order, and never more than `ahead` at a time."""

    def __init__(self, items: Iterable[Any], ahead: int) -> None:
        """Starts the thread, which draws from `items`. `ahead` >= 1 items at most are drawn and not yet returned.

        The thread draws ahead as far as it may without being asked. An item counts until __next__ returns it.
        """
        ### BEGIN SOLUTION
        self.free = threading.Semaphore(ahead)
        self.ready: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.closed = False

        def draw() -> None:
            try:
                iterator = iter(items)
                while True:
                    self.free.acquire()
                    if self.closed:
                        return
                    self.ready.put(("item", next(iterator)))
            except StopIteration:
                self.ready.put(("end", None))
            except BaseException as error:
                self.ready.put(("error", error))

        self.thread = threading.Thread(target=draw, daemon=True)
        self.thread.start()
        ### END SOLUTION

    def __next__(self) -> Any:
        """The next item. StopIteration after the last, and after `close`, at every call.

        An exception that `items` raises comes here, after all items before it; from then on StopIteration.
        """
        ### BEGIN SOLUTION
        if self.closed:
            raise StopIteration
        kind, item = self.ready.get()
        self.free.release()
        if kind == "item":
            return item
        self.close()
        raise StopIteration if kind == "end" else item
        ### END SOLUTION

    def close(self) -> None:
        """Ends the thread, and returns when it has ended: after the item that it is just drawing. Twice is no error.

        No item is drawn afterwards. The thread also ends by itself after the last item or an exception.
        """
        ### BEGIN SOLUTION
        self.closed = True
        self.free.release()
        self.thread.join()
        ### END SOLUTION
