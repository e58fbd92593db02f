"""Preload of the fork server: modules that ranks share, and the handling of Ctrl-C and SIGTERM in the server.

A fork server imports modules by name before it forks (`set_forkserver_preload` in world.py), but calls no function. So
this file, unlike all others in the library, does its work when it is imported, and no other file imports it.
"""

import gc
import importlib
import os
import signal

from rankzero.learn.distributed.rank_process import QUIET_LOGS

for number in (signal.SIGINT, signal.SIGTERM):  # the parent process handles them; each rank resets its own handlers
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked while this process started
os.environ.update(QUIET_LOGS | os.environ)  # read when torch is loaded
for name in (
    "torch._dynamo.utils",  # imported by the first optimizer, DDP or fully_shard: 1.5 s
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.optim",
    "rankzero.learn.runs.training_options",  # imported by every starter
):
    importlib.import_module(name)
gc.freeze()  # a collection in a rank would go through all modules, and copy their pages
