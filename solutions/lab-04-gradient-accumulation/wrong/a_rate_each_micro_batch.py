"""One rate is noted for each micro-batch. The updates are right, but a plot of these rates has k times as many points
as there were updates."""

import itertools

EXERCISE = "schedule"
FAILS = ("schedule/rates",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    for epoch in epochs:
        stream = iter(epoch)
        while group := list(itertools.islice(stream, k)):
            rates += [optimizer.param_groups[0]["lr"]] * len(group)
            train_epoch(model, optimizer, group, k)  # noqa: F821
            scheduler.step()
    return rates
