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
    raise NotImplementedError("channel_statistics is not written yet. A hint: rankzero hint 10 channel_statistics")


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
    raise NotImplementedError("prepare is not written yet. A hint: rankzero hint 10 prepare")


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
    raise NotImplementedError("evaluate is not written yet. A hint: rankzero hint 10 evaluate")


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
    raise NotImplementedError("epoch_indices is not written yet. A hint: rankzero hint 10 epoch_indices")


def seed_worker(seed: int, epoch: int, rank: int, worker: int) -> None:
    """Seeds Python's `random`, NumPy's `np.random` and torch's generator, each for this worker in this epoch.

    Two calls with the same four numbers (each >= 0, of any size) start the same random numbers in all three
    generators. Calls that differ in any of the four start other random numbers in each: also (0, 1, 0, 0) and
    (0, 0, 1, 0), where sums are equal.

    A loader calls it in each worker: DataLoader(..., worker_init_fn=functools.partial(seed_worker, seed, epoch, rank)).
    Read: handbook/input-pipeline.md, "Order and random numbers"
    """
    raise NotImplementedError("seed_worker is not written yet. A hint: rankzero hint 10 seed_worker")


class TextStream(IterableDataset[dict[str, Tensor]]):
    """Windows of a text, each once per epoch over all ranks and workers, with a place that a checkpoint can keep.

    Window i reads tokens[i * length : (i + 1) * length] and predicts, for each of them, the token after it. There are
    (len(tokens) - 1) // length windows; the worker's share and its order are `epoch_indices` of the epoch. One object
    per rank lies in the training process; a loader gives a copy of it to each of its workers.
    """

    def __init__(self, tokens: Tensor, length: int, seed: int, rank: int, ranks: int, workers: int) -> None:
        """`tokens` is int64 [N]; `workers` is the loader's num_workers, 0 or more. Begins with epoch 0."""
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yields this worker's windows that remain in the epoch: "x" and "y", int64 [length], and "worker", int64 [].

        The worker is that of torch.utils.data.get_worker_info(); without one, the training process reads by itself, as
        worker 0 of 1. Epoch and place are those when the first sample is taken: a later call of `advance` changes
        nothing in this iteration.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def advance(self, worker: Tensor) -> None:
        """Notes in the training process that the run has trained on a batch whose "worker" is int64 [B].

        After the last window of this rank the next epoch begins. Windows that workers have read ahead don't count.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def state_dict(self) -> dict[str, Any]:
        """The place as plain ints and lists of ints, at most one number per worker; later calls don't change it."""
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on after the last window that the run had trained on at `state`, which stays as it is.

        The state is of a stream of the same tokens, length and seed. ValueError, and no change, if it had another
        number of ranks or workers (0 and 1 are the same): then nobody knows which windows are left.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")


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
    raise NotImplementedError("pack_documents is not written yet. A hint: rankzero hint 10 pack_documents")


def document_mask(documents: Tensor) -> Tensor:
    """Which token may attend to which, bool [N, 1, T, T], for `documents`, int64 [N, T], of packed rows.

    mask[n, 0, i, j] is True where token i of row n may attend to token j: of the same document, and j <= i. Padding,
    document -1, attends to itself alone, since the softmax of a row without any True is nan. The second dimension
    stands for the heads: F.scaled_dot_product_attention takes the mask as attn_mask.
    """
    raise NotImplementedError("document_mask is not written yet. A hint: rankzero hint 10 document_mask")


def count_pairs(tokens: list[int]) -> dict[tuple[int, int], int]:
    """How often each pair of neighbors occurs. Pairs may overlap: in [7, 7, 7] the pair (7, 7) occurs twice."""
    raise NotImplementedError("count_pairs is not written yet. A hint: rankzero hint 10 count_pairs")


def merge_pair(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """A new list in which the token `new` replaces each occurrence of `pair`, from left to right, without overlap.

    merge_pair([7, 7, 7, 5], (7, 7), 256) is [256, 7, 5]. `tokens` stays as it is.
    """
    raise NotImplementedError("merge_pair is not written yet. A hint: rankzero hint 10 merge_pair")


def train_bpe(text: str, merges: int) -> list[tuple[int, int]]:
    """The first `merges` merges of a byte-pair tokenizer of `text`: pairs of tokens, in the order learned.

    Tokens 0 to 255 are the bytes of the text in UTF-8. Merge number i, from 0, joins the pair that occurs most often,
    by `count_pairs`, into the token 256 + i, everywhere. Of pairs that occur equally often, the smallest comes first:
    (97, 98) before (97, 99) and before (98, 97). The list is shorter where no pair occurs twice any more.

    train_bpe("low lower lowest", 3) is [(108, 111), (256, 119), (32, 257)]: "lo", "low", " low". The pair "ow" occurs
    as often as "lo" at first, but (111, 119) is greater than (108, 111).
    Read: handbook/input-pipeline.md, "Tokens"
    """
    raise NotImplementedError("train_bpe is not written yet. A hint: rankzero hint 10 train_bpe")


def encode(text: str, merges: list[tuple[int, int]]) -> list[int]:
    """The tokens of any text: its bytes in UTF-8, with the merges applied in the order in which they were learned."""
    raise NotImplementedError("encode is not written yet. A hint: rankzero hint 10 encode")


def decode(tokens: list[int], merges: list[tuple[int, int]]) -> str:
    """The text of tokens: decode(encode(text, merges), merges) is `text`, for any text and any merges.

    A model may stop inside a character of several bytes: bytes that are no UTF-8 become U+FFFD, the replacement
    character, as bytes.decode(errors="replace") gives it; there is no error.
    """
    raise NotImplementedError("decode is not written yet. A hint: rankzero hint 10 decode")


# -------------------------------------------------------------------------------------------------------- reading ahead
class Prefetcher(Iterator[Any]):
    """Draws items in a thread while the caller works: in their order, and never more than `ahead` at a time."""

    def __init__(self, items: Iterable[Any], ahead: int) -> None:
        """Starts the thread, which draws from `items`. `ahead` >= 1 items at most are drawn and not yet returned.

        The thread draws ahead as far as it may without being asked. An item counts until __next__ returns it.
        """
        raise NotImplementedError("Prefetcher is not written yet. A hint: rankzero hint 10 Prefetcher")

    def __next__(self) -> Any:
        """The next item. StopIteration after the last, and after `close`, at every call.

        An exception that `items` raises comes here, after all items before it; from then on StopIteration.
        """
        raise NotImplementedError("Prefetcher is not written yet. A hint: rankzero hint 10 Prefetcher")

    def close(self) -> None:
        """Ends the thread, and returns when it has ended: after the item that it is just drawing. Twice is no error.

        No item is drawn afterwards. The thread also ends by itself after the last item or an exception.
        """
        raise NotImplementedError("Prefetcher is not written yet. A hint: rankzero hint 10 Prefetcher")
