"""Functions that ranks run for the claims of handbook/sharding-and-zero.md, in a module that loads quickly."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer

from rankzero.claims.toolkit.lab_model import SHAPE, next_token_loss
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.tcp_bytes import tcp_bytes_sent
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.measure import local_part, storage_bytes

SMALL = GPTConfig(vocab_size=96, block_size=16, n_layer=2, n_head=2, hidden_dim=32)
WIDTH, LAYERS = 256, 8
LAYER_BYTES = 4 * WIDTH**2


def layers(count: int = LAYERS) -> nn.Sequential:
    """Layers of 256 by 256 in fp32: with one short row of input, their weights are all that counts."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)))


def shard(model: nn.Module, blocks: Iterable[nn.Module], **options: Any) -> None:
    """`fully_shard` on each block, then on the model."""
    for block in blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)


def shard_gpt(model: GPT, **options: Any) -> None:
    """`fully_shard` on each block, then on the rest."""
    shard(model, model.blocks, **options)


def step(model: nn.Module) -> None:
    """Forward and backward of one row."""
    model(torch.ones(1, WIDTH)).sum().backward()


def tokens_of(rank: int, ranks: int, config: GPTConfig, batch: int = 8) -> Tensor:
    """The rank's part of one batch of random tokens, the same batch for every number of ranks."""
    generator = torch.Generator().manual_seed(7)
    return torch.randint(config.vocab_size, (batch, 17), generator=generator).chunk(ranks)[rank]


class Zero:
    """AdamW in ZeRO's mixed recipe on a small GPT, all its weights in one vector: what a rank holds, and no more."""

    def __init__(self, stage: int) -> None:
        self.stage, self.ranks = stage, dist.get_world_size()
        torch.manual_seed(0)
        model = GPT(SMALL).bfloat16()
        start = nn.utils.parameters_to_vector(model.parameters()).detach()  # 28,320 numbers divide by 4
        part = len(start) // self.ranks
        own = slice(dist.get_rank() * part, (dist.get_rank() + 1) * part)
        self.names = [name for name, _ in model.named_parameters()]
        self.model = model.to("meta")  # shapes only: the weights come from the vector
        self.model.head.weight = self.model.token_embedding.weight  # which the move has untied
        self.weights = start[own].clone() if stage == 3 else start
        self.master = nn.Parameter((start[own] if stage else start).float())
        self.gradient = torch.empty(0)
        self.optimizer = AdamW([self.master], lr=1e-3)

    def step(self) -> None:
        """One update from the rank's own part of a batch of 8."""
        whole = self._gathered(self.weights) if self.stage == 3 else self.weights
        gradient = self._gradient(whole) / self.ranks
        del whole
        if self.stage == 0:
            dist.all_reduce(gradient)
            mine = gradient
        else:
            mine = gradient.new_empty(len(self.master))
            dist.reduce_scatter_tensor(mine, gradient)
        self.gradient = gradient if self.stage < 2 else mine
        self.master.grad = mine.float()
        self.optimizer.step()
        self.master.grad = None
        updated = self.master.detach().bfloat16()
        self.weights = self._gathered(updated) if self.stage in (1, 2) else updated

    def _gathered(self, part: Tensor) -> Tensor:
        whole = part.new_empty(self.ranks * len(part))
        dist.all_gather_into_tensor(whole, part)
        return whole

    def _gradient(self, whole: Tensor) -> Tensor:
        whole = whole.detach().requires_grad_()
        shapes = [parameter.shape for parameter in self.model.parameters()]
        parts = whole.split([shape.numel() for shape in shapes])
        named = zip(self.names, parts, shapes, strict=True)
        weights = {name: part.view(shape) for name, part, shape in named}
        tokens = tokens_of(dist.get_rank(), self.ranks, SMALL)
        loss = next_token_loss(lambda ids: functional_call(self.model, weights, (ids,)), tokens)
        return torch.autograd.grad(loss, whole)[0]

    def bytes_a_parameter(self) -> float:
        """Of all that the rank holds after a step; AdamW's count of steps is left out."""
        state = self.optimizer.state[self.master]
        held = [self.weights, self.gradient, self.master, state["exp_avg"], state["exp_avg_sq"]]
        return storage_bytes(held) / sum(parameter.numel() for parameter in self.model.parameters())

    def all_weights(self) -> Tensor:
        """The whole vector."""
        return self._gathered(self.weights) if self.stage == 3 else self.weights


def all_stages(steps: int) -> tuple[list[float], list[Tensor], list[dict[str, float]]]:
    """On each rank: bytes per parameter, weights, and bytes per parameter in the collectives of one step, by stage."""
    held, weights, sent = [], [], []
    for stage in range(4):
        zero = Zero(stage)
        for _ in range(steps):
            with CollectiveCounter() as counter:
                zero.step()
        held.append(zero.bytes_a_parameter())
        weights.append(zero.all_weights())
        sent.append({name: size / len(weights[-1]) for name, size in counter.bytes.items()})
    return held, weights, sent


def two_halves() -> tuple[float, dict[str, float]]:
    """On each rank: how far the two halves end from all-reduce, and TCP bytes of each collective over its payload."""
    ranks, sent = dist.get_world_size(), {}
    generator = torch.Generator().manual_seed(dist.get_rank())
    own = torch.randn(ranks * 2**18, generator=generator)
    together, part, again = own.clone(), own.new_empty(2**18), own.new_empty(len(own))
    dist.all_reduce(own.clone())  # connects
    dist.barrier()
    for name, call in (
        ("all-reduce", lambda: dist.all_reduce(together)),
        ("reduce-scatter", lambda: dist.reduce_scatter_tensor(part, own.clone())),
        ("all-gather", lambda: dist.all_gather_into_tensor(again, part)),
    ):
        before = tcp_bytes_sent()
        call()
        dist.barrier()
        sent[name] = (tcp_bytes_sent() - before) / own.nbytes
    return float((again - together).abs().max() / together.abs().max()), sent


def ring_volumes() -> dict[str, float]:
    """On each rank: what a ring would send in one step, in model sizes times (N-1)/N, by strategy."""
    volumes = {}
    for strategy in ("DDP", "keep", "reshard"):
        model = layers()
        network: nn.Module = model
        if strategy == "DDP":
            network = DistributedDataParallel(model)
        else:
            shard(model, model, reshard_after_forward=strategy == "reshard")
        with CollectiveCounter() as counter:
            step(network)
        sent = 2 * counter.bytes["all_reduce"] + counter.bytes["all_gather"] + counter.bytes["reduce_scatter"]
        volumes[strategy] = sent / (LAYERS * LAYER_BYTES)
    return volumes


def reduced_under_autocast() -> float:
    """On each rank: bytes per parameter that DDP hands to its all-reduces, if forward runs under autocast to bf16."""
    network = DistributedDataParallel(layers())
    with CollectiveCounter() as counter, torch.autocast("cpu", torch.bfloat16):
        step(network)
    return counter.bytes["all_reduce"] / (LAYERS * WIDTH**2)


def shares() -> list[float]:
    """On each rank: bytes of weights, gradients and AdamW's averages after a step of Lab 02's GPT in fp32."""
    torch.manual_seed(0)
    model = GPT(SHAPE)
    count = model.parameter_count()
    shard_gpt(model)
    optimizer = AdamW(model.parameters())
    next_token_loss(model, tokens_of(dist.get_rank(), dist.get_world_size(), SHAPE)).backward()
    optimizer.step()
    parameters = list(model.parameters())
    averages = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    roles: list[list[Tensor]] = [list(parameters), [p.grad for p in parameters if p.grad is not None], averages]
    return [storage_bytes(tensors) / count for tensors in roles]


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or gathered from all ranks."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def trained(strategy: str, rank: int, ranks: int) -> Tensor:
    """All weights of a small fp64 GPT after three steps of AdamW on the rank's part of a batch of 8."""
    torch.manual_seed(0)
    model = GPT(SMALL).double()
    if strategy == "fully_shard":
        shard_gpt(model)
    network = DistributedDataParallel(model) if strategy == "DDP" else model
    optimizer = AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        next_token_loss(network, tokens_of(rank, ranks, SMALL)).backward()
        optimizer.step()
    return torch.cat([whole(p).detach().flatten() for p in model.parameters()])


def trained_both_ways() -> dict[str, Tensor]:
    """On each rank."""
    return {name: trained(name, dist.get_rank(), dist.get_world_size()) for name in ("DDP", "fully_shard")}


def norms() -> dict[str, float]:
    """On each rank: the norm of its own shards, of all of them, and the one that torch clips by."""
    torch.manual_seed(0)
    model = GPT(SMALL).double()
    shard_gpt(model)
    next_token_loss(model, tokens_of(dist.get_rank(), dist.get_world_size(), SMALL)).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    own = torch.stack([local_part(gradient).norm() for gradient in gradients]).norm()
    squares = own.square()
    dist.all_reduce(squares)
    clipped = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return {"own": own.item(), "by hand": squares.sqrt().item(), "torch": whole(clipped).item()}


def sharded_gpt(seed: int) -> tuple[GPT, Optimizer]:
    """A small GPT, sharded, and its optimizer."""
    torch.manual_seed(seed)
    model = GPT(SMALL)
    shard_gpt(model)
    return model, AdamW(model.parameters(), lr=1e-3)


def everything(model: GPT, optimizer: Optimizer) -> dict[str, Tensor]:
    """Weights and averages, gathered."""
    tensors = {name: whole(p).detach() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        tensors |= {f"{name}: {key}": whole(optimizer.state[p][key]) for key in ("exp_avg", "exp_avg_sq")}
    return tensors


def save(folder: str) -> tuple[dict[str, Tensor], int]:
    """On each rank: trains a step and saves; returns all there is, and the bytes of the full state dict it gets."""
    model, optimizer = sharded_gpt(seed=0)
    next_token_loss(model, tokens_of(dist.get_rank(), dist.get_world_size(), SMALL)).backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    save_shards({"model": weights, "optimizer": state}, checkpoint_id=folder)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    return everything(model, optimizer), sum(one.nbytes for one in full.values() if isinstance(one, Tensor))


def load(folder: str) -> dict[str, Tensor]:
    """On each rank: another model, and then what was saved."""
    model, optimizer = sharded_gpt(seed=1)
    weights, state = get_state_dict(model, optimizer)
    load_shards({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return everything(model, optimizer)


def redundancy_optimizer() -> tuple[float, dict[str, float], int]:
    """On each rank: its part of AdamW's averages; bytes of a step's collectives over the model's; broadcasts."""
    from torch.distributed.optim import ZeroRedundancyOptimizer  # takes a fifth of a second

    model = nn.Sequential(nn.Embedding(1536, WIDTH), *layers())  # the table is as large as six of the eight layers
    optimizer = ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=1e-3)
    network = DistributedDataParallel(model)
    for _ in range(3):  # DDP orders its buckets again after the first
        with CollectiveCounter() as counter:
            network(torch.zeros(1, dtype=torch.int64)).sum().backward()
            optimizer.step()
    count = sum(parameter.numel() for parameter in model.parameters())
    averages = [state[name] for state in optimizer.optim.state.values() for name in ("exp_avg", "exp_avg_sq")]
    sizes = {name: size / (4 * count) for name, size in counter.bytes.items()}
    return storage_bytes(averages) / (8 * count), sizes, counter.calls["broadcast"]


# ------------------------------------------------------------------------------------------------------------ failures
def drop_another_layer() -> tuple[int, int]:
    """On each rank: runs two of three layers, leaving out the one of its own number; foreign rows it computes with.

    The second number is how many rows there are in the two layers.
    """
    foreign: list[Tensor] = []
    model = layers(3)
    for layer in model:
        own = layer.get_parameter("weight").detach().clone()
        fully_shard(layer)  # its hook comes first, so the weights are whole in the next one
        layer.register_forward_pre_hook(lambda layer, _, own=own: foreign.append((layer.weight != own).any(1).sum()))
    fully_shard(model)
    x = torch.ones(1, WIDTH)
    for number, layer in enumerate(model):
        if number != dist.get_rank():
            x = layer(x)
    x.sum().backward()
    return int(sum(foreign)), 2 * WIDTH


def skip_a_block() -> None:
    """On each rank: a step of a sharded GPT; rank 1 leaves out the first of two blocks."""
    model = GPT(SMALL)
    shard_gpt(model)
    if dist.get_rank() == 1:
        model.blocks = model.blocks[1:]
    next_token_loss(model, tokens_of(0, 1, SMALL)).backward()
