"""Words: pages, docstrings, comments and messages use the field's words."""

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from rankzero.curriculum import ROOT

UNIT = (
    r"(?:[KMGT]i?B|[KMGT]?B|bytes?|bits?|FLOPs?|numbers?|tokens?|tensors?|samples?|updates?|steps?|seconds?|ms|%|floats?"
    r"|gradients?|averages?|scales?|copies|losses|examples|sequences|messages|collectives|calls|launches|kernels"
    r"|times|passes|batches|dollars|dimensions|words|weights?|values?|points|inputs|norms|rows)"
)
THING = (
    r"(?:parameters?|token|rank|block|tensor|step|layer|byte|FLOP|weight|number|sample|group|batch|second|epoch|update"
    r"|GPU|device|node|head|character|example|unit|row|element|micro-batch|iteration|process|shard|bucket|stage"
    r"|sequence|submission|seed|student|lab|page|run|call|neuron|channel|image|hour|day|year)"
)
VERB = r"(?:holds|keeps|sends|gets|needs|has|is|takes|makes|gives|can|does|computes|owns|reads|stores)"

# The word to avoid, by the word to use.
AVOIDED = {
    "per": rf"(?<![\w-]){UNIT} an? {THING}\b(?! (?:{VERB}|time)\b)",
    "gradient": r"(?<![\w-])slopes?(?![\w-])",
    "expensive": r"(?<![\w-])(?:dear|dearer|dearest)(?![\w-])",
    "again": r"(?<![\w-])anew(?![\w-])",
    "fix": r"(?<![\w-])mend(?:s|ed|ing)?(?![\w-])",
    "random seed": r"(?<![\w-])dice(?![\w-])",
    "padding": r"(?<![\w-])(?:in|of|no|only|its|the|with|into) fill(?![\w-]| in\b| the\b)",
    "a subject": r"(?m)(?:^#+ |^\s*\"\"\")(?:What|Whose|Whoever)\b[^?\n]*$",
}
# Phrases that are right although a pattern above finds them.
EXCEPTIONS = (
    "## What to Notice",  # a heading of every lab page
    "slope of a line",
    "slope of the line",
    "negative_slope",
)


PAGES = sorted(
    file
    for pattern in ("*.md", "handbook/*.md", "labs/*.md", "code/lab-*/README.md", "code/lab-*/lab.toml")
    for file in ROOT.glob(pattern)
    if file != ROOT / "handbook" / "claims.md"  # generated from the claims
)
SOURCES = sorted(
    file
    for folder in ("code", "solutions", "handbook", "tests", "benchmarks", "launch")
    for file in (ROOT / folder).rglob("*.py")
    if file.name != "test_words.py" and not (file.name == "exercises.py" and file.is_relative_to(ROOT / "code"))
)


def prose_of_page(text: str) -> str:
    """Returns a page without code, generated blocks of code, and the addresses of links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "`x`", text))


def prose_of_source(text: str) -> str:
    """Returns the comments and strings of a Python file: docstrings, messages, and the statements of claims."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    return "\n".join(re.sub(r"`[^`\n]*`", "`x`", token.string) for token in tokens if token.type in kinds)


def avoided_words(text: str) -> Counter[str]:
    """Counts the words to avoid in prose, by the word to use."""
    for phrase in EXCEPTIONS:
        text = text.replace(phrase, "")
    return Counter({word: len(re.findall(pattern, text)) for word, pattern in AVOIDED.items()})


def words_of(file: Path) -> Counter[str]:
    text = file.read_text(encoding="utf-8")
    return +avoided_words(prose_of_source(text) if file.suffix == ".py" else prose_of_page(text))


@pytest.mark.parametrize("folder", sorted({file.relative_to(ROOT).parts[0] for file in (*PAGES, *SOURCES)}))
def test_words_to_avoid_do_not_come_back(folder: str) -> None:
    files = [file for file in (*PAGES, *SOURCES) if file.relative_to(ROOT).parts[0] == folder]
    more = {
        str(file.relative_to(ROOT)): f"{dict(words)}: use the words on the left"
        for file in files
        if (words := words_of(file))
    }
    assert more == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("AdamW takes 8 bytes a parameter.", "per"),
        ("two norms a layer", "per"),
        ("Each weight has a slope.", "gradient"),
        ("Keep what is dear.", "expensive"),
        ("It starts anew.", "again"),
        ("the last shard ends in fill", "padding"),
        ("its own data and its own dice", "random seed"),
        ("## What one student is told", "a subject"),
        ('"""What a page says."""', "a subject"),
    ],
)
def test_each_word_to_avoid_is_found(text: str, word: str) -> None:
    assert +avoided_words(text) == {word: 1}


@pytest.mark.parametrize(
    "text",
    [
        "bytes per parameter",
        "the tensors a rank holds",
        "## What to Notice",
        "## What is a rank?",
        "clip-does-not-mend",
    ],
)
def test_plain_words_are_not_found(text: str) -> None:
    assert +avoided_words(text) == Counter()
