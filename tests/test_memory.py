"""Memory by phase: exact bytes, measured without influence on the training."""

import contextlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory, tensor_bytes

CPU = torch.device("cpu")


def step(model: nn.Module, optimizer: torch.optim.Optimizer, memory: PhaseMemory | None) -> None:
    tokens = torch.randint(96, (4, 17), generator=torch.Generator().manual_seed(0))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    if memory:
        memory.record("forward")
    loss.backward()
    if memory:
        memory.record("backward")
    optimizer.step()
    if memory:
        memory.record("update")


def make() -> tuple[GPT, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = GPT(GPTConfig(96, 16, 2, 2, 32))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


@pytest.mark.parametrize("hooks", [save_on_cpu(), saved_tensors_hooks(lambda kept: kept, lambda kept: kept)])
def test_hooks_of_the_step_hide_no_activation(hooks: saved_tensors_hooks) -> None:
    layer = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    kept = []
    for inside in (contextlib.nullcontext(), hooks):
        with PhaseMemory(layer, torch.optim.SGD(layer.parameters()), CPU) as memory:
            with inside:
                loss = layer(torch.ones(3, 8)).square().sum()
            memory.record("forward")
            loss.backward()
            memory.record("backward")
        kept.append([row.activations for row in memory.rows])
    assert kept[1][0] >= kept[0][0] > 0
    assert kept[0][1] == kept[1][1] == 0
    assert saved_tensors_hooks.__enter__.__module__ == "torch.autograd.graph"


def test_each_phase_has_the_exact_bytes_of_each_role() -> None:
    model, optimizer = make()
    with PhaseMemory(model, optimizer, CPU) as memory:
        step(model, optimizer, memory)
    weights = 4 * model.parameter_count()
    tensors = len(list(model.parameters()))
    forward, backward, update = memory.rows
    assert (forward.weights, forward.gradients, forward.optimizer) == (weights, 0, 0)
    assert (backward.weights, backward.gradients, backward.optimizer) == (weights, weights, 0)
    assert (update.weights, update.gradients, update.optimizer) == (weights, weights, 2 * weights + 4 * tensors)
    assert forward.activations > 0
    assert backward.activations == update.activations == 0
    assert forward.total == forward.weights + forward.activations


def test_a_long_table_is_folded_in_the_middle() -> None:
    model, optimizer = make()
    with PhaseMemory(model, optimizer, CPU) as memory:
        for _ in range(40):
            memory.record("forward")
            memory.record("backward")
        memory.record("update")
    lines = memory.table().splitlines()
    shown = ["forward", "backward"] * 3 + ["...", "forward", "backward", "update"]
    assert [line.split()[0] for line in lines[1:]] == shown
    assert lines[7] == "...      72 rows are left out"
    assert len({len(line) for line in lines if not line.startswith("...")}) == 1, "columns stand below their names"
    assert max(map(len, lines)) <= 80


def test_activations_of_a_linear_layer_are_its_input() -> None:
    layer = nn.Linear(8, 8)
    x = torch.randn(32, 8, requires_grad=True)
    with PhaseMemory(layer, torch.optim.SGD(layer.parameters()), CPU) as memory:
        y = layer(x)
        memory.record("forward")
        del y
        memory.record("graph dropped")
    assert [row.activations for row in memory.rows] == [x.nbytes, 0]


def test_a_tensor_that_two_operations_save_counts_once() -> None:
    x = torch.randn(1000, requires_grad=True)
    with PhaseMemory(nn.Linear(1, 1), torch.optim.SGD([x]), CPU) as memory:
        y = x * x + x.view(10, 100).sum() * x.sum()
        memory.record("forward")
    assert x.nbytes <= memory.rows[0].activations < 1.1 * x.nbytes
    y.sum().backward()


def test_peak_activations_include_recomputed_activations() -> None:
    def recomputed(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(torch.sin, checkpoint(torch.sin, x, use_reentrant=True), use_reentrant=True)

    x = torch.randn(1000, requires_grad=True)
    with PhaseMemory(nn.Linear(1, 1), torch.optim.SGD([x]), CPU) as memory:
        y = x.cos().cos().cos().sum()
        assert memory.peak_activations == 3 * x.nbytes
        y.backward()
        recomputed(x).sum().backward()  # at most both inputs: sin's saved input is one of them
    assert memory.peak_activations == 3 * x.nbytes


def test_measuring_changes_no_bit_of_the_weights() -> None:
    plain, plain_optimizer = make()
    step(plain, plain_optimizer, None)
    watched, watched_optimizer = make()
    with PhaseMemory(watched, watched_optimizer, CPU) as memory:
        step(watched, watched_optimizer, memory)
    for expected, parameter in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(parameter, expected)


def test_views_share_their_bytes() -> None:
    x = torch.zeros(100)
    assert tensor_bytes([x, x[:10], x.view(10, 10)]) == 400
    assert tensor_bytes([x, torch.zeros(5)]) == 420


def test_on_a_cpu_the_memory_of_this_process_is_reported() -> None:
    program = """
import contextlib
import subprocess
import sys

import torch
from rankzero.learn.profiling.memory import memory_now
before = memory_now(torch.device("cpu"))
ballast = torch.ones(50 * 2**20 // 4)  # 50 MiB, written to
after = memory_now(torch.device("cpu"))
assert after["resident"] - before["resident"] > 40 * 2**20
assert after["peak"] >= after["resident"]
"""  # in a new process: memory that an earlier test has freed would be used again, without growth
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
