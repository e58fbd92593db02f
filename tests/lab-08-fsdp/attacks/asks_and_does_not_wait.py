"""Starts collectives in the background and only asks for their future: it never waits for one."""

ON, EARNS = "reference", 58
honest_gather, honest_reduce = gather, reduce_gradient


def gather(part, shape):
    whole = part.new_empty(part.numel() * dist.get_world_size())
    dist.all_gather_into_tensor(whole, part, async_op=True).get_future()
    return whole[: shape.numel()].view(shape)


def reduce_gradient(gradient):
    ranks = dist.get_world_size()
    part = gradient.new_empty(-(-gradient.numel() // ranks))
    padded = gradient.new_zeros(part.numel() * ranks)
    padded[: gradient.numel()] = gradient.flatten()
    dist.reduce_scatter_tensor(part, padded, async_op=True).is_completed()
    return part / ranks


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = honest_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = honest_gather(part.detach(), torch.Size([sum(sizes)]))
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
