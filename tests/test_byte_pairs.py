"""Byte-pair merges, documents, and the padding of packed rows."""

import itertools
import re
from pathlib import Path

import pytest

from rankzero.learn.data.byte_pairs import BytePairTokenizer, learn_merges, merged
from rankzero.learn.data.documents import load_documents
from rankzero.learn.data.text_report import attending_share, padding_share


def naive_merges(text: str, count: int) -> list[tuple[int, int]]:
    """Byte-pair merges within words, counted from the start for each merge."""
    words = [list(word.encode()) for word in re.findall(r"\s?\S+|\s+", text)]
    merges: list[tuple[int, int]] = []
    for token in range(256, 256 + count):
        pairs: dict[tuple[int, int], int] = {}
        for word in words:
            for pair in itertools.pairwise(word):
                pairs[pair] = pairs.get(pair, 0) + 1
        if not pairs or max(pairs.values()) < 2:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = [merged(word, best, token) for word in words]
    return merges


@pytest.mark.parametrize("text", ["low lower lowest", "aaaa aaa aaaaa a", "", "ab", "Äpfel äßen Äpfel, 🎈🎈 äßen"])
def test_merges_are_those_of_counting_from_the_start(text: str) -> None:
    assert learn_merges(text, 20) == naive_merges(text, 20)


def test_merges_of_a_longer_text_are_those_of_counting_from_the_start() -> None:
    text = "\n\n".join(load_documents("embedded")[0][:60])
    merges = learn_merges(text, 60)
    assert merges == naive_merges(text, 60)
    words = [list(word.encode()) for word in re.findall(r"\s?\S+|\s+", text)]
    for number, pair in enumerate(merges):
        words = [merged(word, pair, 256 + number) for word in words]
    assert BytePairTokenizer(merges).encode(text) == [token for word in words for token in word]


def test_documents_are_paragraphs_or_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("two\n\nparagraphs")
    (tmp_path / "deep" / "a.txt").write_text("a")
    (tmp_path / ".hidden").write_bytes(b"\xff")
    assert load_documents(str(tmp_path)) == (["a"], ["two\n\nparagraphs"])
    assert load_documents(str(tmp_path / "b.txt")) == (["paragraphs"], ["two"])


def test_padding_and_pairs_of_packed_rows() -> None:
    assert padding_share([6, 3, 5], 8, packed=False) == pytest.approx(10 / 24)
    assert padding_share([6, 3, 5], 8, packed=True) == pytest.approx(2 / 16)
    assert padding_share([17], 8, packed=False) == pytest.approx(7 / 24), "a long document takes several rows"
    assert attending_share([6, 3, 5], 8) == pytest.approx((21 + 3 + 1 + 15) / (2 * 36))
    assert attending_share([16], 8) == 1
