"""The scheduler steps before the optimizer. The schedule's first rate is never used, and every update has the next
one's. torch warns of it once, in a line that is easily overlooked."""

import itertools

EXERCISE = "schedule"
FAILS = ("schedule/rates", "schedule/moves")
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    for epoch in epochs:
        stream = iter(epoch)
        while group := list(itertools.islice(stream, k)):
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
            train_epoch(model, optimizer, group, k)  # noqa: F821
    return rates
