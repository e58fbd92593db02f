"""Text report: bytes per token by number of merges, and the padding of documents in rows, with and without packing."""

from rankzero.learn.data.byte_pairs import BytePairTokenizer, learn_merges


def vocabularies(merges: int) -> list[int]:
    """Returns numbers of merges from 0 to `merges`, so that the vocabulary doubles from row to row."""
    doubled = [256 * 2**power - 256 for power in range(20)]
    return [number for number in doubled if number < merges] + [merges]


def padding_share(lengths: list[int], row: int, *, packed: bool) -> float:
    """Share of padding where documents of these lengths in tokens fill rows of `row` tokens.

    Packed, the documents follow each other, and only the last row is padded. Otherwise each row holds tokens of one
    document, and a document that is longer than a row takes several.
    """
    rows = -(-sum(lengths) // row) if packed else sum(-(-length // row) for length in lengths)
    return 1 - sum(lengths) / (rows * row)


def attending_share(lengths: list[int], row: int) -> float:
    """Share of the pairs of a causal mask over packed rows that the mask of documents keeps."""
    kept, place = 0, 0
    for length in lengths:
        while length:
            part = min(length, row - place)
            kept += part * (part + 1) // 2
            place, length = (place + part) % row, length - part
    rows = -(-sum(lengths) // row)
    return kept / (rows * row * (row + 1) // 2)


def text_report(name: str, train: list[str], held_out: list[str], *, merges: int, row: int = 256) -> str:
    """Returns the report of a text's documents in lines. Merges are learned on the documents to train on alone."""
    learned = learn_merges("\n\n".join(train), merges)
    size = sum(len(document.encode()) for document in held_out)
    lines = [f"text    {name}: {len(train):,} documents to learn merges from, {len(held_out):,} held out"]
    lines += ["vocabulary   bytes/token   tokens held out", "-" * 43]
    for number in vocabularies(len(learned)):
        tokenizer = BytePairTokenizer(learned[:number])
        lengths = [len(tokenizer.encode(document)) + 1 for document in held_out]  # + 1: the token that ends a document
        tokens = sum(lengths) - len(lengths)
        lines.append(f"{tokenizer.vocab_size:>10,}{size / tokens:>14.2f}{tokens:>18,}")
    alone, packed = padding_share(lengths, row, packed=False), padding_share(lengths, row, packed=True)
    lines.append(f"\nrows of {row:,} tokens: {alone:.1%} padding with one document per row, {packed:.1%} packed")
    lines.append(f"packed, tokens attend to {attending_share(lengths, row):.1%} of the pairs of a causal row")
    return "\n".join(lines)
