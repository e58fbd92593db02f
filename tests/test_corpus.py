"""Corpora: the embedded text, text files and TinyShakespeare, and the errors of unusable files and failed downloads."""

import hashlib
import io
import urllib.error
from pathlib import Path

import pytest

from rankzero.errors import UserError
from rankzero.learn.data import corpus as corpus_module
from rankzero.learn.data.corpus import PRINTABLE_ASCII, load_corpus, make_corpus
from rankzero.learn.data.downloads import cache_folder

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n" * 20


def test_embedded_text_is_large_prose_with_a_fixed_vocabulary() -> None:
    corpus = load_corpus("embedded")
    assert corpus.characters == PRINTABLE_ASCII
    assert corpus.vocab_size == 96
    assert len(corpus.train) + len(corpus.val) > 300_000
    text = corpus.decode(corpus.train)
    assert " the " in text
    assert "class" in text


def test_the_split_keeps_the_whole_text_without_overlap() -> None:
    corpus = make_corpus("x", TEXT)
    assert corpus.decode(corpus.train) + corpus.decode(corpus.val) == TEXT
    assert len(corpus.train) == int(0.9 * len(TEXT))


def test_encode_and_decode_are_inverse_beyond_ascii(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("naïve Grüße 学习 🙂\n" * 10, encoding="utf-8")
    corpus = load_corpus(str(path))
    assert corpus.decode(corpus.encode("学习 🙂")) == "学习 🙂"
    with pytest.raises(UserError, match=r"character 'z' is not in this corpus's vocabulary"):
        corpus.encode("z")


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbfabc")
    assert load_corpus(str(path)).characters == "abc"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n", r"text.txt is not UTF-8 text \(byte 0x89 at offset 0\): pass a text file"),
        ("Grüße".encode("latin-1"), r"is not UTF-8 text \(byte 0xfc at offset 2\)"),
        (b"abc\0def", "is binary"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_corpus(str(path))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.txt does not exist: pass a text file, 'embedded' or 'tinyshakespeare'"):
        load_corpus(str(tmp_path / "none.txt"))
    with pytest.raises(UserError, match=r"cannot be read .*Is a directory"):
        load_corpus(str(tmp_path))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers with TEXT in TinyShakespeare's place; returns the list of requests."""
    requests: list[str] = []

    def answer(url: str, timeout: float) -> io.BytesIO:
        requests.append(url)
        return io.BytesIO(TEXT.encode())

    monkeypatch.setenv("RANKZERO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", answer)
    monkeypatch.setattr(corpus_module, "TINYSHAKESPEARE_SHA256", hashlib.sha256(TEXT.encode()).hexdigest())
    return requests


def test_the_corpus_is_downloaded_once(server: list[str]) -> None:
    first, second = load_corpus("tinyshakespeare"), load_corpus("tinyshakespeare")
    assert first.decode(first.train) == second.decode(second.train) == TEXT[: int(0.9 * len(TEXT))]
    assert len(server) == 1


def test_a_damaged_cache_is_downloaded_again(server: list[str]) -> None:
    load_corpus("tinyshakespeare")
    (cache_folder() / "tinyshakespeare.txt").write_text("something else")
    assert load_corpus("tinyshakespeare").sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert len(server) == 2


def test_a_wrong_download_is_refused_and_not_kept(server: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "TINYSHAKESPEARE_SHA256", "0" * 64)
    with pytest.raises(UserError, match="its SHA-256 differs"):
        load_corpus("tinyshakespeare")
    assert len(server) == 1
    assert not cache_folder().exists()


def test_the_error_of_a_failed_download_names_other_corpora(server: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", fail)
    with pytest.raises(
        UserError, match=r"could not download TinyShakespeare .*name that file .*, or use the text 'embedded'"
    ):
        load_corpus("tinyshakespeare")
    assert server == []


def test_the_error_for_an_unwritable_cache_names_a_variable(server: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKZERO_CACHE", "/dev/null/cache")
    with pytest.raises(UserError, match=r"could not keep .* /dev/null/cache .*RANKZERO_CACHE"):
        load_corpus("tinyshakespeare")
    assert len(server) == 1
