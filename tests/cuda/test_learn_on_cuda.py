"""The library that starters import, on a real GPU; `rankzero gpu` runs this file. Everywhere else it is skipped."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.optim import AdamW

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.learn.machine.device import choose_device, device_name, peak_flops
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory, check_fits, memory_now
from rankzero.learn.runs.checkpoints import read_checkpoint, save_checkpoint
from rankzero.learn.runs.phase_timer import PhaseTimer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CUDA = torch.device("cuda")
CONFIG = GPTConfig(vocab_size=97, block_size=32, n_layer=2, n_head=2, hidden_dim=64)


def make_model() -> GPT:
    torch.manual_seed(0)
    return GPT(CONFIG).to(CUDA)


def tokens() -> torch.Tensor:
    return torch.randint(97, (4, 32), generator=torch.Generator().manual_seed(1)).to(CUDA)


def step(model: GPT, optimizer: AdamW) -> float:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens()).flatten(0, 1), tokens().flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def test_auto_is_the_gpu_and_a_gpu_too_many_is_refused() -> None:
    assert choose_device("auto").type == "cuda"
    assert device_name(CUDA) == torch.cuda.get_device_name()
    with pytest.raises(UserError, match="this machine has"):
        choose_device(f"cuda:{torch.cuda.device_count()}")


def test_the_peak_in_bf16_is_higher_than_in_fp32_where_it_is_known() -> None:
    low, full = peak_flops(CUDA, torch.bfloat16), peak_flops(CUDA)
    assert (low is None) == (full is None)
    assert low is None or full is None or low > 4 * full


def test_the_allocators_counters_are_at_least_what_tensors_hold() -> None:
    model = make_model()
    optimizer = AdamW(model.parameters())
    with PhaseMemory(model, optimizer, CUDA) as memory:
        step(model, optimizer)
        memory.record("update")
    (row,) = memory.rows
    assert row.total <= row.system["allocated"] <= row.system["reserved"]
    assert memory_now(CUDA)["peak"] >= row.system["allocated"]
    with pytest.raises(UserError, match="out of memory"):
        check_fits(2**50, CUDA)


def test_a_checkpoint_of_the_gpu_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    model = make_model()
    optimizer = AdamW(model.parameters())
    step(model, optimizer)
    settings = {"hidden_dim": 64}
    save_checkpoint(tmp_path / "one.pt", model, optimizer, step=1, settings=settings, corpus_sha256="")
    expected = [step(model, optimizer) for _ in range(3)]
    saved = read_checkpoint(tmp_path / "one.pt", settings=settings)
    other = make_model()
    other.load_state_dict(saved["model"])
    resumed = AdamW(other.parameters())
    resumed.load_state_dict(saved["optimizer"])
    assert [step(other, resumed) for _ in range(3)] == pytest.approx(expected, rel=1e-5)


def test_the_timer_waits_for_the_device() -> None:
    timer = PhaseTimer(CUDA)
    a = torch.randn(4096, 4096, device=CUDA)
    timer.start()
    for _ in range(20):
        a @ a
    timer.record("products")
    assert timer._seconds["products"] >= 20 * 2 * 4096**3 / 2.5e15  # no GPU makes these products faster


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_the_loss_scaler_of_lab_03_trains_on_the_gpu(low: torch.dtype) -> None:
    starter = find_lab("03").import_starter()
    model = make_model()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scaler = starter.LossScaler(low is torch.float16, 2.0**16, 2000)
    losses = [float(starter.train_step(model, optimizer, tokens(), tokens(), low, scaler)) for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]
