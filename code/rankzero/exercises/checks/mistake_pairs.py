"""Mistake pairs: two known mistakes in one solution, those first whose changes are most like the learner's text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations, pairwise
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.exercises.checks.known_wrong import KnownWrong, source_file, wrong_source

MOST_PAIRS = 16  # that are tried: each costs about as much as a check
MOST_BYTES = 100_000  # of a file that are compared
WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Pair:
    """Two known mistakes, and a file with both."""

    mistakes: tuple[KnownWrong, KnownWrong]
    file: Path


def likely_pairs(
    lab: Lab, file: Path, functions: Sequence[str], candidates: Sequence[KnownWrong], found: Sequence[KnownWrong]
) -> Iterator[Pair]:
    """Yields at most MOST_PAIRS pairs of these solutions whose changes apply together, the likeliest first.

    `functions` are those of the exercise, in whose text in `file` the likeness is sought. All of `found` are in each
    pair.
    """
    source = lab.reference.read_text(encoding="utf-8")
    reference = _signs(source, functions)
    written = _signs(file.read_bytes()[:MOST_BYTES].decode(errors="replace"), functions)
    likeness = {
        wrong.name: _likeness(_signs(wrong_source(lab, wrong), functions), written, reference) for wrong in candidates
    }
    pairs = sorted(combinations(candidates, 2), key=lambda pair: -sum(likeness[wrong.name] for wrong in pair))
    tried = 0
    for one, other in pairs:
        fits = tried < MOST_PAIRS and all(wrong in (one, other) for wrong in found)
        if fits and (both := merged(source, wrong_source(lab, one), wrong_source(lab, other))):
            tried += 1
            yield Pair((one, other), source_file(lab, f"{one.name}+{other.name}", both))


def merged(reference: str, one: str, other: str) -> str | None:
    """Returns the reference with the changes of both texts, word by word; None if both change the same words."""
    words = WORDS.findall(reference)
    changes = sorted({*_changes(words, WORDS.findall(one)), *_changes(words, WORDS.findall(other))})
    if any(start < stop for (_, stop, _), (start, *_) in pairwise(changes)):
        return None
    for start, stop, new in reversed(changes):
        words[start:stop] = new
    return "".join(words)


def _changes(words: list[str], changed: list[str]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yields the places in `words`, as start and stop, where `changed` differs, and its words there."""
    begin = _equal(words, changed)
    end = _equal(words[begin:][::-1], changed[begin:][::-1])
    middle, new = words[begin : len(words) - end], changed[begin : len(changed) - end]  # few: the matcher is slow
    for kind, start, stop, first, last in SequenceMatcher(None, middle, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield begin + start, begin + stop, tuple(new[first:last])


def _equal(words: list[str], others: list[str]) -> int:
    """Returns how many words are equal from the beginning."""
    return next(
        (n for n, (a, b) in enumerate(zip(words, others, strict=False)) if a != b), min(len(words), len(others))
    )


def _likeness(wrong: set[str], written: set[str], reference: set[str]) -> float:
    """Returns how far `written` has what a mistake adds to the reference, and lacks what it removes: 0 to 1."""
    agree = [sign in written for sign in wrong - reference] + [sign not in written for sign in reference - wrong]
    return sum(agree) / max(1, len(agree))


def _signs(text: str, functions: Sequence[str]) -> set[str]:
    """Returns the words of these functions, and all pairs of neighboring words, without comments and docstrings."""
    names = "|".join(map(re.escape, functions))
    bodies = "".join(re.findall(rf"^(?:def|class) (?:{names})\b.*\n(?:[ )\n].*\n?|\n)*", text, flags=re.MULTILINE))
    code = re.sub(r'"""[\s\S]*?"""|#.*', "", bodies).replace("'", '"')
    words = [word for word in WORDS.findall(code) if not word.isspace()]
    return {*words, *(f"{word} {following}" for word, following in pairwise(words))}
