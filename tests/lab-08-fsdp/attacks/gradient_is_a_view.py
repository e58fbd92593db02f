"""Keeps the whole gradient in memory for ever: part.grad is a view into it."""

ON, EARNS = "reference", 56


def inside_of(whole, mine):
    whole = whole.detach().clone().flatten()
    place = whole[dist.get_rank() * mine.numel() :][: mine.numel()]
    return place.copy_(mine)


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    room = flat.new_zeros(part.numel() * dist.get_world_size())
    part.grad = inside_of(room, reduce_gradient(flat))
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))


def reduce_into_part(full, part):
    mean = torch.empty_like(part)
    dist.reduce_scatter_tensor(mean, full.grad)
    mean /= dist.get_world_size()
    part.grad = inside_of(full.grad, mean if part.grad is None else part.grad + mean)
    full.grad = None
    full.untyped_storage().resize_(0)
