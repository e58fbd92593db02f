"""Claims of handbook/tensors-and-modules.md."""

import io
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import kept_tensors


@claim(
    "tensors-views-copy-nothing",
    "Transposing, slicing and viewing a tensor share its storage; adding 0 makes a new one.",
    expected={"x.T": 0, "x[:, 1:]": 0, "x.view(-1)": 0, "x + 0": 24},
    unit="bytes copied",
)
def views_copy_nothing() -> Mapping[str, int]:
    """Compares the address of each result's storage with that of the tensor."""
    x = torch.arange(6.0).reshape(2, 3)
    results = {"x.T": x.T, "x[:, 1:]": x[:, 1:], "x.view(-1)": x.view(-1), "x + 0": x + 0}
    address = x.untyped_storage().data_ptr()
    return {
        name: 0 if result.untyped_storage().data_ptr() == address else result.untyped_storage().nbytes()
        for name, result in results.items()
    }


@claim(
    "tensors-saved-slice",
    "torch.save of one row of a 1,000 × 1,000 matrix writes the whole storage, more than 4 million bytes; of a clone "
    "of the row, less than 6 thousand.",
    expected={"row": True, "clone": True},
    unit="",
)
def saved_slice() -> Mapping[str, bool]:
    """Saves a row and its clone into memory and compares their bytes with the bounds."""

    def saved_bytes(tensor: Tensor) -> int:
        buffer = io.BytesIO()
        torch.save(tensor, buffer)
        return len(buffer.getvalue())

    row = torch.zeros(1000, 1000)[0]
    return {"row": saved_bytes(row) > 4_000_000, "clone": saved_bytes(row.clone()) < 6_000}


@claim(
    "tensors-positions-that-change",
    "A change at position 5 of 8 changes the output of a linear layer at position 5, and of causal attention at "
    "positions 5, 6 and 7.",
    expected={"linear, first": 5, "linear, last": 5, "attention, first": 5, "attention, last": 7},
    unit="position",
)
def positions_that_change() -> Mapping[str, int]:
    """Changes one position, counted from 0, of one sequence and finds the positions whose outputs differ."""
    torch.manual_seed(0)
    linear, before = nn.Linear(16, 16), torch.randn(1, 8, 16)
    after = before.clone()
    after[:, 5] += 1

    def attention(x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    operations: dict[str, Callable[[Tensor], Tensor]] = {"linear": linear, "attention": attention}
    positions: dict[str, int] = {}
    for name, run in operations.items():
        changed = (run(before) != run(after)).any(dim=2)[0].nonzero().flatten()
        positions |= {f"{name}, first": int(changed[0]), f"{name}, last": int(changed[-1])}
    return positions


@claim(
    "tensors-broadcast-bug",
    "With predictions [N, 1] and targets [N], the loss falls to the variance of the targets and the weights to 0; with "
    "equal shapes, the loss falls to the noise.",
    expected={"loss over the variance, [N, 1] and [N]": 1.0, "largest weight": 0.0, "loss, equal shapes": 0.01},
    unit="",
    tolerance=0.02,
)
def broadcast_bug() -> Charted:
    """Fits y = x·w + noise (deviation 0.1) by 60 steps of SGD, with the targets in both shapes."""
    lines: dict[str, list[Point]] = {}
    torch.manual_seed(0)
    x = torch.randn(200, 5)
    y = x @ torch.randn(5, 1) + 0.1 * torch.randn(200, 1)
    weights = {}
    for name, target in {"targets [N]": y[:, 0], "targets [N, 1]": y}.items():
        torch.manual_seed(1)
        model = nn.Linear(5, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        lines[name] = []
        for step in range(60):
            optimizer.zero_grad()
            loss = (model(x) - target).square().mean()
            loss.backward()
            optimizer.step()
            lines[name].append((step, loss.item(), loss.item(), loss.item()))
        weights[name] = model.weight.abs().max().item()
    variance = y.var(correction=0).item()
    lines["variance of the targets"] = [(step, variance, variance, variance) for step in (0, 59)]
    value = {
        "loss over the variance, [N, 1] and [N]": lines["targets [N]"][-1][1] / variance,
        "largest weight": weights["targets [N]"],
        "loss, equal shapes": lines["targets [N, 1]"][-1][1],
    }
    return Charted(value, Chart("Two losses of one regression", "step", "loss", lines))


class Layers(nn.Module):
    """Three layers in a container of the given class."""

    def __init__(self, container: type) -> None:
        super().__init__()
        self.layers = container([nn.Linear(4, 4) for _ in range(3)])


@claim(
    "tensors-unregistered-layers",
    "Three nn.Linear(4, 4) in a Python list give a module 0 parameters, in an nn.ModuleList 60.",
    expected={"list": 0, "ModuleList": 60},
    unit="parameters",
)
def unregistered_layers() -> Mapping[str, int]:
    """Counts the numbers in parameters() of both modules."""
    return {
        container.__name__: sum(parameter.numel() for parameter in Layers(container).parameters())
        for container in (list, nn.ModuleList)
    }


@claim(
    "tensors-forward-skips-hooks",
    "A forward hook runs once per call of a module, and not when its forward is called.",
    expected={"model(x)": 1, "model.forward(x)": 0},
    unit="runs of the hook",
)
def forward_skips_hooks() -> Mapping[str, int]:
    """Counts the runs of a forward hook."""
    model, x, runs = nn.Linear(2, 2), torch.zeros(1, 2), []
    model.register_forward_hook(lambda *_: runs.append(1))
    model(x)
    called = len(runs)
    model.forward(x)
    return {"model(x)": called, "model.forward(x)": len(runs) - called}


@claim(
    "tensors-no-grad-keeps-nothing",
    "Linear(64, 256), GELU, Linear(256, 64) keep 139,264 bytes for backward on a batch of 32, and 0 under no_grad.",
    expected={"graph": 139_264, "no_grad": 0},
    unit="bytes",
)
def no_grad_keeps_nothing() -> Mapping[str, int]:
    """Adds up the tensors that autograd saves in one forward pass."""
    model, x = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)), torch.zeros(32, 64)
    kept = {"graph": kept_tensors(model, x)}
    with torch.no_grad():
        kept["no_grad"] = kept_tensors(model, x)
    return {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in kept.items()}


@claim(
    "tensors-clipping-a-regression",
    "In the twelve-line regression, clipping to 1.0 clips {expected[epochs clipped]} of 100 epochs, and the loss ends "
    "at {expected[loss with clipping]} instead of {expected[loss without]}.",
    expected={"epochs clipped": 99, "loss with clipping": 0.27, "loss without": 0.06},
    unit="",
    tolerance=0.005,
)
def clipping_a_regression() -> Mapping[str, float]:
    """Runs the chapter's twelve lines with and without clip_grad_norm_(parameters, 1.0)."""
    losses, clipped = {}, 0
    for threshold in (1.0, float("inf")):
        torch.manual_seed(0)
        x = torch.randn(100, 5)
        y = x @ torch.randn(5, 1) + 0.1 * torch.randn(100, 1)
        model = nn.Linear(5, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(100):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            clipped += nn.utils.clip_grad_norm_(model.parameters(), threshold).item() > threshold
            optimizer.step()
        losses[threshold] = loss.item()
    return {"epochs clipped": clipped, "loss with clipping": losses[1.0], "loss without": losses[float("inf")]}
