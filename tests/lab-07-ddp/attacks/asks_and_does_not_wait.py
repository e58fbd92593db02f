"""Starts everything in the background, asks once whether it is complete, and does not heed the answer."""

ON, EARNS = "reference", 54


def exchange(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(outgoing, (rank + 1) % ranks)
    dist.recv(incoming, (rank - 1) % ranks)
    sending.is_completed()


def same_start(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0, async_op=True).is_completed()


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad, async_op=True).get_future()
        parameter.grad.div_(dist.get_world_size())

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
