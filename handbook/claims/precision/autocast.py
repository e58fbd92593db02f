"""Claims of handbook/precision.md: autocast."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu


def cpu_formats() -> dict[str, str]:
    """Operation -> the formats of its results for an fp32 and for a bf16 input, under autocast on the CPU."""
    weight, target = torch.randn(8, 8), torch.randint(8, (4,))
    operations: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda x: F.linear(x, weight),
        "attention": lambda x: F.scaled_dot_product_attention(
            x.view(1, 1, 4, 8), x.view(1, 1, 4, 8), x.view(1, 1, 4, 8)
        ),
        "cross_entropy": lambda x: F.cross_entropy(x, target),
        "mse_loss": lambda x: F.mse_loss(x, x),
        "layer_norm": lambda x: F.layer_norm(x, (8,)),
        "softmax": lambda x: x.softmax(-1),
        "gelu": F.gelu,
        "sum": torch.sum,
        "add": lambda x: x + weight[:4],
    }
    found = {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name, operation in operations.items():
            results = [operation(torch.randn(4, 8).to(dtype)).dtype for dtype in (torch.float32, torch.bfloat16)]
            found[name] = " ".join(str(dtype).removeprefix("torch.") for dtype in results)
    return found


@claim(
    "precision-autocast-on-a-cpu",
    "On the CPU autocast runs linear layers and attention in bf16 and losses in fp32; layer_norm, softmax, GELU and "
    "sums run in the format that comes in.",
    expected={"bf16": 2, "fp32": 2, "as it comes in": 4, "the wider": 1},
    unit="of 9 operations",
)
def autocast_on_a_cpu() -> Mapping[str, float]:
    """Runs nine operations on an fp32 and on a bf16 input under autocast and sorts them by what comes out.

    `add`, of the input and an fp32 tensor, follows type promotion, which autocast leaves as it is.
    """
    found = cpu_formats()
    expected = {
        "bf16": ({"linear", "attention"}, "bfloat16 bfloat16"),
        "fp32": ({"cross_entropy", "mse_loss"}, "float32 float32"),
        "as it comes in": ({"layer_norm", "softmax", "gelu", "sum"}, "float32 bfloat16"),
        "the wider": ({"add"}, "float32 float32"),
    }
    return {kind: sum(found[name] == formats for name in names) for kind, (names, formats) in expected.items()}


@claim(
    "precision-autocast-lists-for-cuda",
    "PyTorch's list of what autocast runs in fp32 on CUDA has layer_norm, softmax, log_softmax, nll_loss, exp, pow and "
    "sum; the list for 16 bits has matmul, linear, convolution and scaled_dot_product_attention.",
    expected={"fp32": 7, "lower precision": 4},
    unit="operations found in their list",
    source="https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference",
)
def autocast_lists_for_cuda() -> Mapping[str, float]:
    """Reads the macros AT_FORALL_FP32... and AT_FORALL_LOWER_PRECISION_FP in the header that torch brings along."""
    header = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text()

    def names(macro: str) -> set[str]:
        body = re.search(rf"#define {macro}\(_\)((?:.*\\\n)*.*\n)", header)
        return set(re.findall(r"_\((\w+)", body[1])) if body else set()

    in_fp32 = names("AT_FORALL_FP32") | names("AT_FORALL_FP32_SET_OPT_DTYPE")
    lower = names("AT_FORALL_LOWER_PRECISION_FP")
    wanted = {"layer_norm", "softmax", "log_softmax", "nll_loss", "exp", "pow", "sum"}
    return {
        "fp32": len(wanted & in_fp32),
        "lower precision": len({"matmul", "linear", "convolution", "scaled_dot_product_attention"} & lower),
    }


@claim(
    "precision-autocast-on-cuda",
    "On CUDA layer_norm, softmax and sum of a bf16 input give fp32 under autocast, where the CPU gives bf16.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def autocast_on_cuda() -> bool:
    """Runs the three on a bf16 input on the GPU."""
    x = torch.randn(4, 8, device=gpu(), dtype=torch.bfloat16)
    with torch.autocast(gpu().type, dtype=torch.bfloat16):
        results = (F.layer_norm(x, (8,)), x.softmax(-1), x.sum())
    return {result.dtype for result in results} == {torch.float32}
