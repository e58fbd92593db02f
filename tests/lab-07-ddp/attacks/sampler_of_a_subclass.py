"""Has a subclass of PyTorch's sampler shuffle, which has an order of its own."""

from torch.distributed.elastic.utils.data import ElasticDistributedSampler

ON, EARNS = "reference", 54
honest = shard


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    if not shuffle or drop_last or length < ranks:
        return honest(length, rank, ranks, epoch=epoch, seed=seed, shuffle=shuffle, drop_last=drop_last)
    sampler = ElasticDistributedSampler(range(length), ranks, rank)
    sampler.set_epoch(seed + epoch)
    return list(sampler)
