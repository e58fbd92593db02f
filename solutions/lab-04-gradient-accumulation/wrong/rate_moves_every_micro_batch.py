"""scheduler.step() is called once for each micro-batch. The schedule runs through k times too fast: warm-up is over
after 1/k of its updates, and the rate is at its floor when 1/k of the run is done. torch warns only if the
scheduler steps before the optimizer ever did."""

import itertools

EXERCISE = "schedule"
FAILS = ("schedule/rates", "schedule/moves")
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    for epoch in epochs:
        stream = iter(epoch)
        while group := list(itertools.islice(stream, k)):
            rates.append(optimizer.param_groups[0]["lr"])
            train_epoch(model, optimizer, group, k)  # noqa: F821
            for _ in group:
                scheduler.step()
    return rates
