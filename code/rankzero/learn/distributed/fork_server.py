"""What the fork server of worlds loads once, so that no rank has to."""

import importlib
import os
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever starts worlds; a rank listens again when it is up

# Read when torch is loaded: c10d's log of an error, which a world's report says better, and announcements of profiles.
QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL", "KINETO_LOG_LEVEL": "99"}
os.environ.update(QUIET | os.environ)
for name in (
    "torch._dynamo.utils",  # optimizers, DDP and fully_shard import it when they begin: 1.5 s
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.optim",
    "rankzero.learn.runs.training_options",  # what every starter imports
):
    importlib.import_module(name)
