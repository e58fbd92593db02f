"""Corpora: texts to train on, as token ids of their characters, split for training and validation."""

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rankzero.errors import UserError
from rankzero.learn.data.downloads import downloaded

TINYSHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
TINYSHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

# The embedded text differs a little between Python versions, so its vocabulary is fixed: V, and with it the model's
# size and the loss at initialization, is the same everywhere.
PRINTABLE_ASCII = "\n" + "".join(map(chr, range(32, 127)))
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})


@dataclass(frozen=True)
class Corpus:
    """A text as token ids, one per character.

    `load_corpus(name)` loads the same corpus again; `characters[i]` is the character of token id `i`. `train` and `val`
    are int64 [N]: the first 90 % of the text and the last 10 %, so no validation token is ever trained on. `sha256`
    identifies the text.
    """

    name: str
    characters: str
    train: Tensor
    val: Tensor
    sha256: str

    @property
    def vocab_size(self) -> int:
        """V, the number of different characters."""
        return len(self.characters)

    def summary(self) -> str:
        """Returns two lines: name and sizes; characters, and the loss in nats of a guess that takes all as equal."""
        sizes = f"{len(self.train):,} tokens to train on, {len(self.val):,} to validate"
        guess = f"a uniform guess has a loss of ln {self.vocab_size} = {math.log(self.vocab_size):.3f}"
        return f"{self.name}: {sizes}\n        {self.vocab_size} characters; {guess}"

    def encode(self, text: str) -> Tensor:
        """Returns the ids of the characters, int64 [len(text)]. UserError for a character outside the vocabulary."""
        return _encode(text, self.characters)

    def decode(self, tokens: Tensor) -> str:
        """Returns the text of `tokens`, an integer tensor [N]."""
        return "".join(self.characters[i] for i in tokens.tolist())


def load_corpus(spec: str = "embedded") -> Corpus:
    """Loads the corpus that `spec` names.

    `embedded`: the Python language reference from the standard library, always available. `tinyshakespeare`: downloaded
    once, its digest checked. Any other `spec` is the path of a UTF-8 text file. UserError for an unusable text.
    """
    if spec == "embedded":
        return make_corpus(spec, load_text(spec), PRINTABLE_ASCII)
    return make_corpus(spec if spec == "tinyshakespeare" else os.path.abspath(spec), load_text(spec))


def load_text(spec: str) -> str:
    """Returns the text that `spec` names, as in `load_corpus`. UserError for an unusable text."""
    if spec == "embedded":
        return _embedded_text()
    if spec == "tinyshakespeare":
        return _tinyshakespeare_text()
    return _file_text(Path(spec))


def make_corpus(name: str, text: str, characters: str | None = None) -> Corpus:
    """Returns `text` as a corpus. Without `characters` the vocabulary is the sorted set of the text's characters."""
    characters = characters or "".join(sorted(set(text)))
    tokens = _encode(text, characters)
    split = int(0.9 * len(tokens))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Corpus(name, characters, tokens[:split], tokens[split:], digest)


def _encode(text: str, characters: str) -> Tensor:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    known = np.frombuffer(characters.encode("utf-32-le"), dtype="<u4")  # sorted, as `characters` is
    ids = np.searchsorted(known, codes).clip(max=max(len(known) - 1, 0))
    if len(codes) and (unknown := codes != known[ids]).any():
        raise UserError(f"the character {chr(codes[unknown][0])!r} is not in this corpus's vocabulary.")
    return torch.from_numpy(ids.astype(np.int64))


def _embedded_text() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise UserError("this Python lacks pydoc_data, the embedded text: name a text file instead.") from None
    # In an order that mixes the subjects, so that the last tenth reads like the other nine.
    names = sorted(topics, key=lambda name: hashlib.sha256(name.encode()).digest())
    text = "\n\n".join(topics[name] for name in names).translate(_TYPOGRAPHY)
    return "".join(character for character in text if character in PRINTABLE_ASCII)


def _tinyshakespeare_text() -> str:
    content = downloaded(
        TINYSHAKESPEARE_URL,
        TINYSHAKESPEARE_SHA256,
        name="TinyShakespeare",
        cached="tinyshakespeare.txt",
        fetch_it=f"fetch {TINYSHAKESPEARE_URL} where there is a network "
        "and name that file instead of tinyshakespeare, or use the text 'embedded'.",
        copy_of_yours="name a copy you trust instead of tinyshakespeare, or use the text 'embedded'.",
    )
    return content.decode()


def _file_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"corpus {path} does not exist: pass a text file, 'embedded' or 'tinyshakespeare'.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise UserError(f"corpus {path} cannot be read ({error}): pass a text file.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise UserError(
            f"corpus {path} is not UTF-8 text (byte {byte:#04x} at offset {error.start}): pass a text file."
        ) from None
    if "\0" in text:
        raise UserError(f"corpus {path} is binary (it holds a zero byte): pass a text file.")
    return text
