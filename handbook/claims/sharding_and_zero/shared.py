"""Sources that handbook/sharding-and-zero.md cites more than once."""

ZERO_PAPER = "[ZeRO](https://arxiv.org/abs/1910.02054)"
FULLY_SHARD = "[fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)"
