"""Has PyTorch's own data parallelism do the work, by the function that puts it into the model itself."""

import torch.distributed as dist
from torch.distributed._composable.replicate import replicate

EARNS = 0


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
    replicate(model, bucket_cap_mb=1e-6)
