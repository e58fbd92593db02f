"""Lab 04: replaces the counter and the model's own functions while a step is accumulated."""

LAB, ON, EARNS, STATUS = "04", "stubs", 0, "error"

import torch

torch.nn.Module.__call__ = lambda *_, **__: torch.zeros(())
torch.Tensor.backward = lambda *_, **__: None
