"""What the fork server of worlds loads once, so that no rank has to."""

import importlib
import os
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever starts worlds; a rank listens again when it is up

# Read when torch is loaded: c10d's log of an error, which a world's report says better, and announcements of profiles.
QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL", "KINETO_LOG_LEVEL": "99"}
os.environ.update(QUIET | os.environ)
# torch._dynamo: optimizers and fully_shard import it in their first step, which took each rank a second and a half.
for name in (
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.optim",
    "rankzero.learn.gpt",
):
    importlib.import_module(name)
