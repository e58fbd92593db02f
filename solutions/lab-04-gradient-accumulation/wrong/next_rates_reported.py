"""The rate is noted after scheduler.step(): that is the rate of the next update. The training is right and the log is
off by one, so the first rate is missing and the last one was never used."""

import itertools

EXERCISE = "schedule"
FAILS = ("schedule/rates",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    for epoch in epochs:
        stream = iter(epoch)
        while group := list(itertools.islice(stream, k)):
            train_epoch(model, optimizer, group, k)  # noqa: F821
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
    return rates
