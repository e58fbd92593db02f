"""Operations of a GPT's training step: each with the tensors that it reads or writes, its FLOPs and its bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Operation:
    """One operation. A tensor that is read and written is in `tensors` twice. `flops` is given if it is no product."""

    name: str
    run: Callable[[], Any]
    tensors: tuple[Tensor, ...]
    flops: int = 0

    def cost(self) -> tuple[int, int]:
        """Returns FLOPs and bytes: each tensor moves once, as if no cache held any of them."""
        with FlopCounterMode(display=False) as counter:
            self.run()
        return self.flops or counter.get_total_flops(), sum(tensor.nbytes for tensor in self.tensors)


def gpt_operations(
    batch: int, tokens: int, width: int, heads: int, vocabulary: int, device: torch.device
) -> list[Operation]:
    """Returns the operations of a GPT's step that take time, in fp32, and two products that are too small.

    `batch` sequences of `tokens` tokens each, `width` numbers per token.
    """
    rows, C, T, H = batch * tokens, width, tokens, heads

    def tensor(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device)

    def product(name: str, *shapes: tuple[int, ...]) -> Operation:
        a, b = (tensor(*shape) for shape in shapes)
        out = torch.matmul(a, b)
        return Operation(name, lambda: torch.matmul(a, b, out=out), (a, b, out))

    x, wide, add = tensor(rows, C), tensor(rows, 4 * C), tensor(rows, C)
    weights, gradients, mean, square = (tensor(12 * C * C).abs() for _ in range(4))  # of one block
    step = [torch.tensor(1.0)]
    adamw: Any = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}

    def update() -> None:
        states: Any = ([weights], [gradients], [mean], [square], [], step)
        torch._fused_adamw_(*states, amsgrad=False, maximize=False, **adamw)

    if device.type == "cuda":
        step[0] = step[0].to(device)
    return [
        product("qkv", (rows, C), (C, 3 * C)),
        product("scores", (batch * H, T, C // H), (batch * H, C // H, T)),
        product("MLP up", (rows, C), (C, 4 * C)),
        product("MLP down", (rows, 4 * C), (4 * C, C)),
        product("head", (rows, C), (C, vocabulary)),
        product("one row", (1, C), (C, 4 * C)),  # a token at a time, as in generating
        product("32 wide", (32, 32), (32, 32)),
        Operation("GELU", lambda: F.gelu(wide), (wide, wide), 10 * wide.numel()),
        Operation("LayerNorm", lambda: F.layer_norm(x, (C,)), (x, x), 8 * x.numel()),
        Operation("residual add", lambda: torch.add(x, add, out=x), (x, add, x), x.numel()),
        Operation("AdamW", update, (*(weights, mean, square) * 2, gradients), 14 * weights.numel()),
    ]
