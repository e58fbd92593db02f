"""What the fork server of worlds loads once, so that no rank has to."""

import importlib
import os

# c10d's own log of an error, which the report of the world says better. Read when torch is loaded.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it announces each profile, too
for name in ("torch.distributed.fsdp", "torch.distributed.checkpoint", "torch.optim", "rankzero.learn.gpt"):
    importlib.import_module(name)
