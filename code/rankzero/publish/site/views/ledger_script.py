"""Ledger script: the calculator's JavaScript, translated from the Python that predicts the ledger.

`templates/ledger.js` has the page's functions; `python_to_javascript.py` translates.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

from rankzero.curriculum import ROOT
from rankzero.publish.site.python_to_javascript import runtime, statements_script

LIBRARY = ROOT / "code" / "rankzero"
TEMPLATE = Path(__file__).parents[1] / "templates" / "ledger.js"
MODULES = {
    "learn/runs/options.py": ("LARGEST", "positive_int", "_int"),
    "learn/models/gpt.py": ("GPTConfig",),
    "learn/models/llama.py": ("LlamaConfig",),
    "ledger/models.py": ("Part", "Weight", "weights_of", "parameter_count"),
    "ledger/recipes.py": ("EIGHT_BIT_BLOCK", "EIGHT_BIT_SMALLEST", "bytes_per_parameter"),
    "ledger/ledger.py": ("LedgerError", "Kind", "PHASES", "FORWARD", "PRESENT", "Row", "Ledger", "human"),
    "ledger/plan/layout.py": ("CHECKPOINTING", "MOST_MICRO_BATCHES", "Layout"),
    "ledger/activations.py": ("Kept", "Sizes", "sizes_of", "kept_tensors", "kept_bytes", "_gpt", "_llama"),
    "ledger/plan/shard_buffers.py": ("Unit", "units_of", "buffers_of"),
    "ledger/predict.py": (
        *("predict", "backward_rows", "held", "held_gradient", "weight_rows", "gradient_rows", "optimizer_rows"),
        *("_eight_bit", "activation_rows", "_times", "loss_bytes", "block_again", "temporary_rows"),
        *("communication_rows", "kv_cache_row", "largest_micro_batch"),
    ),
}


def sources() -> dict[str, str]:
    """Returns the text of each Python module by its path in the library."""
    return {name: (LIBRARY / name).read_text(encoding="utf-8") for name in MODULES}


def script(modules: Mapping[str, str]) -> str:
    """Returns the JavaScript made of the texts of MODULES. NotImplementedError for Python that it cannot translate."""
    trees = [(ast.parse(text), MODULES[name]) for name, text in modules.items()]
    formulas = statements_script(node for tree, names in trees for node in tree.body if names_of(node) & set(names))
    template = TEMPLATE.read_text(encoding="utf-8")
    return template.replace("// PYTHON", runtime("BigInt")).replace("// FORMULAS", formulas)


def names_of(node: ast.stmt) -> set[str]:
    """Returns the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
