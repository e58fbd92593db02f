"""Changes what torch and Python do by default: types, devices, seeds, gradients, recursion."""

import random
import sys

import torch

ON, EARNS = "stubs", 0

torch.set_default_dtype(torch.float16)
torch.set_default_device("meta")
torch.use_deterministic_algorithms(True)
torch.autograd.set_detect_anomaly(True)
torch.set_grad_enabled(False)
torch.manual_seed(0)
random.seed(0)
sys.setrecursionlimit(60)
