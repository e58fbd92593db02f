"""scheduler.step() is called once a pass. Many examples do that, with schedules whose steps are meant to be epochs. A
schedule whose length is a number of updates then hardly moves."""

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
        scheduler.step()
    return rates
