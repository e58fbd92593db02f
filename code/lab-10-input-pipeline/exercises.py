"""Lab 10, exercises: pictures as a batch, samples divided over ranks and workers, packed documents, a tokenizer.

Six exercises, in the order of the page. Replace the lines that raise NotImplementedError and keep the signatures.
A stub may need further imports: put them at the top.

    rankzero check 10                  # all of them
    rankzero check 10 prepare          # one
    rankzero hint 10 prepare           # when stuck
"""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info


# ------------------------------------------------------------------------------------------------------------ pictures
def prepare(images: Tensor, mean: Tensor, std: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Returns a batch as a model reads it: float32 [B, C, H, W], contiguous, each channel normalized.

    `images` is uint8 [B, H, W, C] with B >= 1, as image decoders return it. Brightness is a byte divided by 255. `mean`
    and `std`, float32 [C], are the mean and the standard deviation of each channel's brightness over all training
    pictures. Each pixel becomes (brightness - mean) / std of its channel.

    With a generator, the pictures are training data and are shifted before they are normalized: each picture by its
    own dy rows down and dx columns to the right (up and left if negative). Pixels that leave the picture are lost, and
    pixels that enter are byte 0. The shifts are `torch.randint(-2, 3, (B, 2), generator=generator)`; row i holds dy
    and dx of picture i. No other random number is drawn.

    Without a generator, no picture is shifted and no random number is drawn. The arguments stay unchanged, and so does
    torch's global generator.

    Read: handbook/input-pipeline.md, "Training data and validation data"
    """
    raise NotImplementedError("prepare is not written yet. A hint: rankzero hint 10 prepare")


# ------------------------------------------------------------------------------------------- ranks, workers and epochs
def epoch_indices(size: int, seed: int, epoch: int, rank: int, ranks: int, worker: int, workers: int) -> Tensor:
    """Returns the samples that one worker of one rank reads in an epoch, in the order of reading, int64 [its share].

    Samples are numbered 0 to size - 1, ranks 0 to ranks - 1, and the workers of each rank 0 to workers - 1. Over all
    workers of all ranks, each sample comes exactly once per epoch. A share may be empty.

    The order is random and depends on seed and epoch only: other epochs and other seeds have other orders, and seed 1
    in epoch 2 has another order than seed 2 in epoch 1. Each share keeps the order in which a single worker would read
    all samples. The samples of a rank also change from epoch to epoch, and not only their order. The global random
    generators are neither used nor changed.

    The shares of two ranks differ by at most one sample, and so do the shares of two workers of a rank. With 14
    samples and two workers on each of two ranks, each rank reads 7 samples, 4 by one worker and 3 by the other.

    Read: handbook/input-pipeline.md, "Who reads which sample"
    """
    raise NotImplementedError("epoch_indices is not written yet. A hint: rankzero hint 10 epoch_indices")


def seed_worker(seed: int, epoch: int, rank: int, worker: int) -> None:
    """Seeds the global generators of Python's `random`, of NumPy (`np.random`) and of torch for one worker.

    After two calls with the same four values (whole numbers of 0 or more, without an upper limit), each generator
    returns the same random numbers again. After calls that differ in at least one value, each generator returns other
    random numbers, also if the sums of the values are equal: (0, 1, 0, 0) and (0, 0, 1, 0).

    A loader calls it in each worker: DataLoader(..., worker_init_fn=functools.partial(seed_worker, seed, epoch, rank)).
    Read: handbook/input-pipeline.md, "Order and random numbers"
    """
    raise NotImplementedError("seed_worker is not written yet. A hint: rankzero hint 10 seed_worker")


class TextStream(IterableDataset[dict[str, Tensor]]):
    """Windows of a text, each once per epoch over all ranks and workers, with a position that a checkpoint can store.

    The input of window i is tokens[i * length : (i + 1) * length], and its targets are the same tokens shifted by one.
    There are (len(tokens) - 1) // length windows. `epoch_indices` gives each worker its windows in the epoch, and
    their order. The training process of each rank holds one object; a loader gives a copy of it to each worker.
    """

    def __init__(self, tokens: Tensor, length: int, seed: int, rank: int, ranks: int, workers: int) -> None:
        """`tokens` is int64 [N]; `workers` is the loader's num_workers, 0 or more. Begins with epoch 0.

        Without workers (0), the training process counts as one worker.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yields the windows of this worker that remain in the epoch: "x" and "y", int64 [length], "worker", int64 [].

        "worker" is the id in torch.utils.data.get_worker_info(). That returns None in the training process, which reads
        by itself if the stream has no workers: "worker" is then 0. An iteration fixes its list of windows before its
        first sample: calls of `advance` after that do not change this iteration.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def advance(self, worker: Tensor) -> None:
        """Records, in the training process, a step on a batch; `worker`, int64 [B], is the batch's "worker".

        After a step on the last window of this rank, the next epoch begins. A window that a worker has loaded, but no
        step has trained on, is not recorded.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def state_dict(self) -> dict[str, Any]:
        """Returns the position: ints and lists of ints, with at most one number per worker.

        The returned state stays unchanged by later calls.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues after the last window that the run had trained on at `state`; `state` stays unchanged.

        `state` is from a stream with the same tokens, length and seed. Raises ValueError and changes nothing if that
        stream had another number of ranks or workers (0 and 1 count as equal), because its counts then belong to other
        shares.
        """
        raise NotImplementedError("TextStream is not written yet. A hint: rankzero hint 10 TextStream")


# --------------------------------------------------------------------------------------------------------------- texts
class Packed(NamedTuple):
    """Rows of packed documents, four int64 tensors [N, length]."""

    tokens: Tensor
    targets: Tensor  # the next token of the same document, -100 where there is none
    documents: Tensor  # number of the document, -1 for padding
    positions: Tensor  # position in the document, 0 for its first token in the row


def pack_documents(documents: list[list[int]], length: int, eos: int) -> Packed:
    """Joins the documents, each followed by the token `eos`, and cuts the result into rows of `length` tokens.

    A document that does not fit continues in the next row. Its positions restart at 0 there, because no token attends
    to another row. The `eos` after a document belongs to it: it has the document's number and the next position. The
    target of a token is the next token of its document, also at the end of a row. The `eos` after a document has no
    target: -100. An empty document consists of its `eos`. A document may also contain the token `eos`.

    The last row is filled with padding: token `eos`, target -100, document -1, position 0. No documents give 0 rows.
    `documents` stays unchanged.

    pack_documents([[5, 6, 7], [8]], length=4, eos=0) has the rows
        tokens    [[5, 6, 7, 0], [8, 0, 0, 0]]            documents [[0, 0, 0, 0], [1, 1, -1, -1]]
        targets   [[6, 7, 0, -100], [0, -100, -100, -100]] positions [[0, 1, 2, 3], [0, 1, 0, 0]]
    Read: handbook/input-pipeline.md, "Packing documents"
    """
    raise NotImplementedError("pack_documents is not written yet. A hint: rankzero hint 10 pack_documents")


def document_mask(documents: Tensor) -> Tensor:
    """Returns the attention mask of packed rows, bool [N, 1, T, T], from their document numbers, int64 [N, T].

    mask[n, 0, i, j] is True if token i of row n may attend to token j: both are of one document, and j <= i. A token of
    padding (document -1) attends only to itself, because the softmax of a row without any True is NaN. The dimension of
    size 1 is for the heads: F.scaled_dot_product_attention takes the mask as its argument attn_mask.
    """
    raise NotImplementedError("document_mask is not written yet. A hint: rankzero hint 10 document_mask")


def merge_pair(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Returns a new list in which the token `new` replaces each `pair` of neighbors, from left to right.

    Replaced pairs do not overlap: merge_pair([7, 7, 7, 5], (7, 7), 256) is [256, 7, 5]. `tokens` stays unchanged.
    """
    raise NotImplementedError("merge_pair is not written yet. A hint: rankzero hint 10 merge_pair")


def train_bpe(text: str, merges: int) -> list[tuple[int, int]]:
    """Returns the first `merges` merges of a byte-pair tokenizer of `text`: pairs of tokens, in the order learned.

    Tokens 0 to 255 are the bytes of the text in UTF-8. Merge i, counted from 0, takes the most frequent pair of
    neighbors and replaces it everywhere by the token 256 + i, as `merge_pair` does. All pairs of neighbors count,
    overlapping ones too: in [7, 7, 7] the pair (7, 7) occurs twice. Of equally frequent pairs, the smallest is taken:
    (97, 98) before (97, 99), and (97, 99) before (98, 97). Training ends early if no pair occurs twice.

    train_bpe("low lower lowest", 3) is [(108, 111), (256, 119), (32, 257)]: "lo", "low", " low". The pair "ow" occurs
    as often as "lo" at first, but (111, 119) is greater than (108, 111).
    Read: handbook/input-pipeline.md, "Tokens"
    """
    raise NotImplementedError("train_bpe is not written yet. A hint: rankzero hint 10 train_bpe")


def encode(text: str, merges: list[tuple[int, int]]) -> list[int]:
    """Returns the tokens of any text: its bytes in UTF-8, with the merges applied in the order learned.

    `merges` stays unchanged.
    """
    raise NotImplementedError("encode is not written yet. A hint: rankzero hint 10 encode")
