"""Each pass is put into a list before its first update. Rates and weights are right; a pass that is larger than memory
does not fit, and one that streams from a disk waits for its end first. Take k at a time."""

EXERCISE = "schedule"
FAILS = ("schedule/stream",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def train_scheduled(model, optimizer, scheduler, epochs, k):
    rates = []
    for epoch in epochs:
        every = list(epoch)
        for start in range(0, len(every), k):
            rates.append(optimizer.param_groups[0]["lr"])
            train_epoch(model, optimizer, every[start : start + k], k)  # noqa: F821
            scheduler.step()
    return rates
