"""The smallest training run with DDP, on CPUs or GPUs: torchrun --nproc-per-node 2 code/lab-07-ddp/smallest_ddp.py"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

on_gpu, local_rank = torch.cuda.is_available(), int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(device)  # by the local rank: the second node has no cuda:8
dist.init_process_group("nccl" if on_gpu else "gloo")  # reads torchrun's variables

torch.manual_seed(0)  # the same data on every rank
x = torch.randn(4096, 16)
data = TensorDataset(x, (x.sum(1) > 0).long())
sampler: DistributedSampler[int] = DistributedSampler(data)  # rows of this rank
loader = DataLoader(data, batch_size=32, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
net = DistributedDataParallel(model, device_ids=[local_rank] if on_gpu else None)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

for epoch in range(3):
    sampler.set_epoch(epoch)  # another order in each epoch
    total = torch.zeros(2, device=device)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs.to(device)), targets.to(device))
        loss.backward()  # DDP averages the gradients of all ranks meanwhile
        optimizer.step()
        total[0] += loss.detach() * len(inputs)
        total[1] += len(inputs)
    dist.all_reduce(total)  # a rank's own loss is that of its rows
    if dist.get_rank() == 0:
        loss, rows = total[0] / total[1], int(total[1])
        print(f"epoch {epoch}: {loss:.4f} nats over {rows} rows of all ranks")
dist.destroy_process_group()
