# mypy: disable-error-code="arg-type"
"""Claims of handbook/input-pipeline.md: padding, packed documents, and byte-pair tokens."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.learn.data.byte_pairs import BytePairTokenizer, learn_merges
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.data.downloads import cache_folder

LENGTH, ROWS = 2048, 8  # tokens of a row, rows of a batch


def document_lengths() -> list[int]:
    """Returns the lengths of 4,096 made-up documents: a log-normal draw with a median of 400 tokens, cut at 2,048."""
    draws = np.random.default_rng(0).lognormal(np.log(400), 1.0, 4096)
    return [int(length) for length in draws.clip(1, LENGTH)]


def padding_share(lengths: list[int]) -> float:
    """Percentage of padding in batches of 8 rows, each padded to the longest row of its batch."""
    batches = [lengths[start : start + ROWS] for start in range(0, len(lengths), ROWS)]
    return 100 * (1 - sum(lengths) / sum(len(batch) * max(batch) for batch in batches))


@claim(
    "input-padding-share",
    "4,096 documents of log-normal length (median 400 tokens, at most 2,048) in batches of 8: {expected[to 2,048]} % "
    "of the tokens are padding if each row has 2,048, {expected[to the longest]} % if the longest row decides, "
    "{expected[sorted]} % if documents are sorted by length first, and {expected[packed]} % if they are packed.",
    expected={"to 2,048": 71.5, "to the longest": 61.4, "sorted": 0.31, "packed": 0.04},
    unit="% padding",
    tolerance=0.06,
)
def padding() -> Mapping[str, float]:
    """Adds up tokens and padding over all batches; packed documents follow each other and are cut at the row's end."""
    lengths = document_lengths()
    rows = -(-sum(lengths) // LENGTH)
    return {
        "to 2,048": 100 * (1 - sum(lengths) / (LENGTH * len(lengths))),
        "to the longest": padding_share(lengths),
        "sorted": padding_share(sorted(lengths)),
        "packed": 100 * (1 - sum(lengths) / (rows * LENGTH)),
    }


class Layer(nn.Module):
    """Embeddings of tokens and positions, and one attention with four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.qkv = nn.Linear(32, 96)

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Returns [T, 32] for tokens [T], their positions [T], and the pairs that may attend, a bool [T, T]."""
        x = self.tokens(tokens) + self.positions(positions)
        q, k, v = (part.view(len(x), 4, 8).transpose(0, 1) for part in self.qkv(x).chunk(3, dim=-1))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1).flatten(1)


@claim(
    "input-packed-attention",
    "Three documents in one row give what each gives alone if attention stays inside a document and positions restart. "
    "Without the mask or without the restart the largest difference is above a tenth of the largest output.",
    expected={"mask and positions": 0, "without the mask: above a tenth": 1, "without the positions: above a tenth": 1},
    unit="largest difference",
    tolerance=1e-5,
)
def packed_attention() -> Mapping[str, float]:
    """Runs one causal attention on documents of 20, 30 and 14 tokens, alone and packed, and compares the outputs."""
    torch.manual_seed(0)
    layer, lengths = Layer(), [20, 30, 14]
    documents = [torch.randint(50, (length,)) for length in lengths]
    row = torch.cat(documents)
    causal = torch.ones(64, 64, dtype=torch.bool).tril()
    number = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))
    same = causal & (number[:, None] == number[None, :])
    restarted = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        alone = torch.cat(
            [layer(text, torch.arange(len(text)), causal[: len(text), : len(text)]) for text in documents]
        )
        difference = {
            "mask and positions": layer(row, restarted, same) - alone,
            "without the mask": layer(row, restarted, causal) - alone,
            "without the positions": layer(row, torch.arange(64), same) - alone,
        }
    largest = {name: part.abs().max().item() for name, part in difference.items()}
    limit = alone.abs().max().item() / 10
    return {
        "mask and positions": largest["mask and positions"],
        "without the mask: above a tenth": int(largest["without the mask"] > limit),
        "without the positions: above a tenth": int(largest["without the positions"] > limit),
    }


def bytes_per_token(train: str, held_out: str, sizes: list[int]) -> list[float]:
    """Returns the held-out text's bytes per token for each vocabulary size, in a byte-pair vocabulary of `train`."""
    merges, size = learn_merges(train, max(sizes) - 256), len(held_out.encode())
    return [size / len(BytePairTokenizer(merges[: number - 256]).encode(held_out)) for number in sizes]


@claim(
    "input-bytes-per-token",
    "With a byte-pair vocabulary of size 512, a token of held-out embedded text has {expected[512]} bytes, of 1,024 "
    "{expected[1024]}, of 2,048 {expected[2048]} and of 4,096 {expected[4096]}.",
    expected={"256": 1, "512": 2.05, "1024": 2.71, "2048": 3.43, "4096": 3.96},
    unit="bytes per token",
    tolerance=0.1,  # the text differs a little between versions of Python
)
def tokens_of_a_vocabulary() -> Charted:
    """Learns merges on the first 90 % of the text and counts the tokens of the last 10 %; TinyShakespeare if cached."""
    sizes, lines = [256, 512, 1024, 2048, 4096], {}
    names = ["embedded"] + ["tinyshakespeare"] * (cache_folder() / "tinyshakespeare.txt").is_file()
    for name in names:
        corpus = load_corpus(name)
        lengths = bytes_per_token(corpus.decode(corpus.train), corpus.decode(corpus.val), sizes)
        lines[name] = [(float(size), length, length, length) for size, length in zip(sizes, lengths, strict=True)]
    value = {f"{point[0]:.0f}": point[1] for point in lines["embedded"]}
    chart: dict[str, list[Point]] = dict(lines)
    return Charted(value, Chart("Bytes per token", "vocabulary, tokens", "bytes per token", chart, "x"))
