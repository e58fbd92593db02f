"""Claims of handbook/compile-and-export.md on exported programs and AOTInductor packages."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.op_counter import raises

# Runs in a new Python: loads a program, or a whole model, from a file, where rankzero cannot be imported.
STRANGER = """
import sys
sys.modules["rankzero"] = None  # any import of it fails
import torch
tokens = torch.arange(12).view(2, 6)
if sys.argv[2] == "export":
    print(torch.export.load(sys.argv[1]).module()(tokens).double().sum().item())
else:
    torch.load(sys.argv[1], weights_only=False)
"""


class Scorer(nn.Module):
    """Scores for the next token, from the mean of a row's embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] -> [B, V]"""
        scores: Tensor = self.head(torch.nn.functional.gelu(self.embedding(tokens).mean(1)))
        return scores


def exported(model: nn.Module) -> ExportedProgram:
    """The model for 1 to 8 rows of 3 to 16 tokens."""
    sizes = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=3, max=16)}
    return torch.export.export(model, (torch.zeros(2, 6, dtype=torch.int64),), dynamic_shapes=(sizes,))


def refuses(program: object, rows: int, length: int) -> int:
    """Returns 1 if a program raises an error for a batch of this shape."""
    batch = torch.zeros(rows, length, dtype=torch.int64)
    return raises(lambda: program(batch), Exception)  # type: ignore[operator]


@claim(
    "export-range",
    "A program exported for 1 to 8 rows of 3 to 16 tokens computes 8 x 16 and refuses 9 rows, 17 tokens and 2 tokens; "
    "exported without dynamic shapes it refuses any shape but the example's.",
    expected={"8 x 16": 0, "9 x 16": 1, "8 x 17": 1, "8 x 2": 1, "static, 3 x 6": 1, "static, 2 x 6": 0},
    unit="",
)
def shapes_in_range() -> Mapping[str, float]:
    """Calls the programs with batches of each shape; 1 is a refusal."""
    program = exported(Scorer()).module()
    static = torch.export.export(Scorer(), (torch.zeros(2, 6, dtype=torch.int64),)).module()
    measured = {
        f"{rows} x {length}": refuses(program, rows, length) for rows, length in ((8, 16), (9, 16), (8, 17), (8, 2))
    }
    return measured | {f"static, {rows} x 6": refuses(static, rows, 6) for rows in (3, 2)}


@claim(
    "export-message",
    "The refusal names the dimension and its limit.",
    expected=True,
    unit="",
)
def message() -> bool:
    """Reads the error of a batch of 9 rows, where 8 is the most."""
    try:
        exported(Scorer()).module()(torch.zeros(9, 6, dtype=torch.int64))
    except Exception as error:
        return "tokens.size()[0] <= 8" in str(error)
    return False


@claim(
    "export-without-the-code",
    "A new Python process that cannot import the model's code loads the exported program and computes the same sum; it "
    "fails to load the model saved by torch.save.",
    expected={"exported program": 1, "torch.save": 0},
    unit="",
)
def without_the_code() -> Mapping[str, float]:
    """Saves a small GPT both ways, and starts a Python in which importing rankzero is an error."""
    from rankzero.learn.models.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(64, 16, 1, 2, 32)).eval()
    tokens = torch.arange(12).view(2, 6)
    with tempfile.TemporaryDirectory() as folder:
        program, whole = Path(folder) / "program.pt2", Path(folder) / "model.pt"
        torch.export.save(torch.export.export(model, (tokens,)), program)
        torch.save(model, whole)
        done = {
            name: subprocess.run(
                [sys.executable, "-c", STRANGER, str(file), name],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            for name, file in (("export", program), ("torch.save", whole))
        }
    same = done["export"].stdout and abs(float(done["export"].stdout) - model(tokens).double().sum().item()) < 1e-4
    return {"exported program": int(bool(same)), "torch.save": int(done["torch.save"].returncode == 0)}


@claim(
    "aoti-package",
    "An AOTInductor package gives the model's scores to within 1e-6 without the model's code, and computes a batch of "
    "9 rows although it was exported for at most 8.",
    expected={"scores within 1e-6": 1, "9 rows refused": 0, "torch._inductor.aot_compile takes a module": 0},
    unit="",
)
def package() -> Mapping[str, float]:
    """Builds a package of an exported program, loads it, and calls it; needs a C++ compiler."""
    model, tokens = Scorer(), torch.arange(48).view(4, 12)
    takes_module = 1 - raises(lambda: torch._inductor.aot_compile(model, (tokens,)), Exception)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = torch._inductor.aoti_compile_and_package(exported(model), package_path=f"{folder}/package.pt2")
        loaded = torch._inductor.aoti_load_package(path)
        apart = (loaded(tokens) - model(tokens)).abs().max().item()
        return {
            "scores within 1e-6": int(apart < 1e-6),
            "9 rows refused": refuses(loaded, 9, 6),
            "torch._inductor.aot_compile takes a module": takes_module,
        }
