"""Words: pages, docstrings, comments and messages use the field's words; counts of others may only fall.

LEFT holds what is still left in each file. Lower a file's number when you rewrite it, and remove its row at 0.
"""

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

# Words to avoid that are left, by file.
LEFT: dict[str, int] = {
    "code/lab-01-memory-ledger/memory_ledger.py": 2,
    "code/lab-03-amp/train_amp.py": 1,
    "code/lab-05-activation-checkpointing/compare_policies.py": 1,
    "code/lab-07-ddp/train_ddp.py": 1,
    "code/lab-08-fsdp/train_fsdp.py": 1,
    "handbook/README.md": 4,
    "handbook/backpropagation.md": 23,
    "handbook/batch-size-and-scaling.md": 8,
    "handbook/claims/activation_functions/sixteen_bits.py": 3,
    "handbook/claims/backpropagation.py": 12,
    "handbook/claims/batch_size_and_scaling/device.py": 2,
    "handbook/claims/batch_size_and_scaling/learning_rate.py": 4,
    "handbook/claims/engineering_tips/failures.py": 4,
    "handbook/claims/forward_pass.py": 8,
    "handbook/claims/gradient_mechanics.py": 6,
    "handbook/claims/loss_functions.py": 12,
    "handbook/claims/planning.py": 1,
    "handbook/claims/profiling_and_roofline/rates.py": 3,
    "handbook/claims/several_nodes/agents.py": 6,
    "handbook/claims/sharding_and_zero/on_ranks.py": 1,
    "handbook/claims/sharding_and_zero/ranks.py": 1,
    "handbook/distributed-data-parallel.md": 1,
    "handbook/engineering-tips.md": 4,
    "handbook/forward-pass.md": 10,
    "handbook/gradient-mechanics.md": 11,
    "handbook/how-to-read.md": 3,
    "handbook/loss-functions.md": 1,
    "handbook/memory.md": 2,
    "handbook/planning.md": 3,
    "handbook/precision.md": 2,
    "handbook/profiling-and-roofline.md": 4,
    "handbook/recomputation.md": 1,
    "handbook/several-nodes.md": 1,
    "handbook/sharding-and-zero.md": 1,
    "handbook/training-loop.md": 1,
    "labs/lab-03-amp.md": 2,
    "labs/lab-04-gradient-accumulation.md": 4,
    "labs/lab-08-fsdp.md": 6,
    "solutions/lab-01-memory-ledger/known_wrong.py": 1,
    "solutions/lab-01-memory-ledger/notebook.py": 1,
    "solutions/lab-02-single-gpu-training/known_wrong.py": 1,
    "solutions/lab-03-amp/known_wrong.py": 1,
    "solutions/lab-03-amp/notebook.py": 3,
    "solutions/lab-04-gradient-accumulation/known_wrong.py": 3,
    "solutions/lab-05-activation-checkpointing/known_wrong.py": 3,
    "solutions/lab-05-activation-checkpointing/notebook.py": 1,
    "solutions/lab-06-profiling/exercises.py": 3,
    "solutions/lab-06-profiling/known_wrong.py": 1,
    "solutions/lab-06-profiling/notebook.py": 8,
    "solutions/lab-07-ddp/known_wrong.py": 3,
    "solutions/lab-07-ddp/notebook.py": 1,
    "solutions/lab-08-fsdp/exercises.py": 2,
    "solutions/lab-08-fsdp/known_wrong.py": 5,
    "tests/lab-03-amp/checks.py": 1,
    "tests/lab-03-amp/claims.py": 1,
    "tests/lab-04-gradient-accumulation/checks.py": 1,
    "tests/lab-04-gradient-accumulation/claims.py": 2,
    "tests/lab-05-activation-checkpointing/checks.py": 3,
    "tests/lab-06-profiling/checks.py": 2,
    "tests/lab-06-profiling/claims.py": 1,
    "tests/lab-08-fsdp/checks.py": 13,
    "tests/lab-08-fsdp/claims.py": 3,
    "tests/lab-08-fsdp/probes.py": 2,
    "tests/test_claims.py": 1,
}

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
        name: f"{dict(words)}: use the words on the left; {LEFT.get(name, 0)} were left"
        for file in files
        if (words := words_of(file)).total() > LEFT.get(name := str(file.relative_to(ROOT)), 0)
    }
    assert more == {}


def test_files_with_words_left_exist() -> None:
    assert [name for name, count in LEFT.items() if count <= 0 or not (ROOT / name).exists()] == []


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
