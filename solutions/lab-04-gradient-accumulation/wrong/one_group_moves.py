"""The new rate is written into the first parameter group by hand. The other groups keep the rate they began with: the
usual second group, without weight decay, never decays its rate. scheduler.step() moves them all."""

import itertools

EXERCISE = "schedule"
FAILS = ("schedule/moves",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    others = [group["lr"] for group in optimizer.param_groups[1:]]
    for epoch in epochs:
        stream = iter(epoch)
        while micro_batches := list(itertools.islice(stream, k)):
            rates.append(optimizer.param_groups[0]["lr"])
            train_epoch(model, optimizer, micro_batches, k)  # noqa: F821
            scheduler.step()
            for group, rate in zip(optimizer.param_groups[1:], others, strict=True):
                group["lr"] = rate
    return rates
