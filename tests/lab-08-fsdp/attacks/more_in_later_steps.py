"""Makes the first of three steps by the rules; in later steps it sends all in fp32 twice and computes the loss twice."""

ON, EARNS = "reference", 56
CALLS = [0]
honest_mixed = mixed_step


def mixed_step(part, loss_of, lr, param_dtype, reduce_dtype):
    CALLS[0] += 1
    if CALLS[0] % 3 != 1:
        full = torch.empty(part.numel() * dist.get_world_size())
        dist.all_gather_into_tensor(full, part)
        loss_of(full.to(param_dtype).requires_grad_()).backward()
        dist.all_reduce(full)
    honest_mixed(part, loss_of, lr, param_dtype, reduce_dtype)
