"""Sends tokens, losses and all gradients after every micro-batch, by collectives that are no all-reduce."""

ON, EARNS = "reference", 56


def accumulate(ddp, x, y, k):
    ranks = dist.get_world_size()
    every = [torch.zeros((), dtype=torch.int64) for _ in range(ranks)]
    dist.all_gather(every, (y != -100).sum())
    tokens = sum(every)
    ddp.zero_grad(set_to_none=True)
    total = 0.0
    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
        with contextlib.nullcontext() if number == k else ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
            (loss * ranks).backward()
        losses = [torch.zeros((), dtype=loss.dtype) for _ in range(ranks)]
        dist.all_gather(losses, loss.detach())
        total += sum(losses).item()
        for parameter in ddp.parameters():
            if parameter.grad is not None:
                dist.all_gather([torch.empty_like(parameter.grad) for _ in range(ranks)], parameter.grad)
    return total
