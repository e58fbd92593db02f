"""Claims of handbook/errata.md, section *Compile and export*."""

import io
import zipfile
from collections.abc import Mapping

import torch
from torch import nn

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import kept_tensors
from rankzero.claims.toolkit.op_counter import raises
from rankzero.learn.profiling.memory import tensor_bytes


@claim(
    "errata-recompilations",
    "Six batch sizes make torch.compile compile {expected[by default]} times: the second size makes the shape dynamic. "
    "With dynamic=False it compiles {expected[dynamic=False]} times.",
    expected={"by default": 2, "dynamic=False": 6},
    unit="compilations",
)
def recompilations() -> Mapping[str, float]:
    """Compiles a linear layer with a backend that counts its calls, and calls it with six batch sizes."""
    from torch._dynamo.testing import CompileCounter

    counts = {}
    for name, dynamic in (("by default", None), ("dynamic=False", False)):
        torch._dynamo.reset()
        counter = CompileCounter()
        layer = torch.compile(nn.Linear(4, 4), backend=counter, dynamic=dynamic)
        for rows in (8, 16, 24, 32, 40, 48):
            layer(torch.ones(rows, 4))
        counts[name] = counter.frame_count
    return counts


@claim(
    "errata-compiled-relu",
    "A ReLU by itself keeps {expected[eager]} bytes per element in eager mode and {expected[compiled]}, a mask of "
    "bools, once the compiler has cut forward from backward.",
    expected={"eager": 4, "compiled": 1},
    unit="B per element",
)
def compiled_relu() -> Mapping[str, float]:
    """Counts the bytes that autograd keeps of 1,024 rows of 256, with the compiler's partition into two graphs."""
    torch._dynamo.reset()
    x = torch.randn(1024, 256, requires_grad=True)
    compiled = torch.compile(nn.ReLU(), backend="aot_eager_decomp_partition")
    return {
        "eager": tensor_bytes(kept_tensors(nn.ReLU(), x)) / x.numel(),
        "compiled": tensor_bytes(kept_tensors(compiled, x)) / x.numel(),
    }


@claim(
    "errata-compiled-differs",
    "Compiled by Inductor, normalization, GELU and softmax change in their last digits, and dropout with the same "
    "random seed keeps other elements: {expected} % of two masks agree, as by chance.",
    expected=50,
    unit="% of the mask",
    tolerance=1,
)
def compiled_differs() -> float:
    """Runs 512 rows of 256 eagerly and compiled; then a dropout of one half on 100,000 ones, twice from seed 0."""
    torch._dynamo.reset()
    layers = nn.Sequential(nn.LayerNorm(256), nn.GELU(), nn.Softmax(-1))
    torch.manual_seed(0)
    x, ones = 3 * torch.randn(512, 256), torch.ones(100_000)
    expected, compiled = layers(x), torch.compile(layers)(x)
    assert torch.allclose(expected, compiled, atol=1e-6)
    assert not torch.equal(expected, compiled)
    masks = []
    for dropout in (nn.Dropout(0.5), torch.compile(nn.Dropout(0.5))):
        torch.manual_seed(0)
        masks.append(dropout(ones))
    return 100 * float((masks[0] == masks[1]).double().mean())


@claim(
    "errata-exported-program",
    "torch.export saves a graph and weights: {expected} files of its archive hold machine code or source code.",
    expected=0,
    unit="files",
)
def exported_program() -> int:
    """Exports and saves a layer, and counts the archive's files that a machine or a compiler could run."""
    archive = io.BytesIO()
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),)), archive)
    names = zipfile.ZipFile(archive).namelist()
    assert any(name.endswith("models/model.json") for name in names)
    return sum(name.endswith((".so", ".o", ".a", ".cpp", ".cu", ".cubin", ".ptx")) for name in names)


@claim(
    "errata-export-is-a-module",
    "torch.export(model, ...) raises TypeError, because torch.export is a module; torch.export.export is the function.",
    expected=True,
    unit="",
)
def export_is_a_module() -> bool:
    """Calls both with a layer and its input."""
    layer, inputs = nn.Linear(4, 4), (torch.ones(2, 4),)
    works = isinstance(torch.export.export(layer, inputs), torch.export.ExportedProgram)
    return works and bool(raises(lambda: torch.export(layer, inputs), TypeError))  # type: ignore[operator]
