"""Wrong answers that somebody in a hurry writes, and that no known-wrong solution holds: none gets all points."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.client import Worker
from rankzero.exercises.runner import check_file, exercises_of

LAB = find_lab("02")
LOSS = "F.cross_entropy(model(x).flatten(0, 1), y.flatten())"
UPDATE = "    optimizer.step()\n"
ADAMW = "AdamW(model.parameters(), lr=lr)"
LOOP = """    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        losses.append(train_step(model, optimizer, x, y))
"""
LOOKS_TWICE = f"""    while len(losses) < max_steps and {LOSS}.item() >= target:
        losses.append(train_step(model, optimizer, x, y))
    if len(losses) < max_steps:
        losses.append(train_step(model, optimizer, x, y))
"""
PLATEAU = """        if len(losses) > 1 and abs(losses[-1] - losses[-2]) < 1e-4:
            break
"""
NO_DROPOUT = """    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
"""
# What is wrong: the exercise, what the reference has, what the hurried answer has instead.
HURRIED = {
    "token 0 is taken for padding": ("train_step", LOSS, LOSS[:-1] + ", ignore_index=0)"),
    "seeds in every step": (
        "train_step",
        "    optimizer.zero_grad",
        "    torch.manual_seed(0)\n    optimizer.zero_grad",
    ),
    "two updates": ("train_step", UPDATE, UPDATE * 2),
    "the loss of a second forward": ("train_step", "loss.item()", f"{LOSS}.item()"),
    "clips at 10": ("train_step", UPDATE, "    nn.utils.clip_grad_norm_(model.parameters(), 10.0)\n" + UPDATE),
    "stops after two batches": ("evaluate", "in batches:", "in list(batches)[:2]:"),
    "mode put back in the loop": ("evaluate", "y.numel()\n", "y.numel()\n            model.train(was_training)\n"),
    "dropout is gone for good": ("evaluate", "    model.eval()\n", "    model.eval()\n" + NO_DROPOUT),
    "padding is not counted": ("evaluate", "y.numel()", "int((y != 0).sum())"),
    "large losses are cut": ("evaluate", "return total / tokens", "return min(total / tokens, 10.0)"),
    "the first two rates are one": ("learning_rate", "(step + 1)", "max(step, 1)"),
    "ends a step early": ("learning_rate", "(total_steps - warmup_steps)", "max(1, total_steps - warmup_steps - 1)"),
    "AMSGrad": ("overfit_one_batch", ADAMW, ADAMW[:-1] + ", amsgrad=True)"),
    "looks at the loss again": ("overfit_one_batch", LOOP, LOOKS_TWICE),
    "trains a copy": (
        "overfit_one_batch",
        "    losses: ",
        "    model = __import__('copy').deepcopy(model)\n    losses: ",
    ),
    "stops on a plateau": ("overfit_one_batch", LOOP, LOOP + PLATEAU),
    "never overwrites": ("checkpoint", "    torch.save", "    if not path.exists():\n        torch.save"),
    "saves float32": ("checkpoint", "model.state_dict(),", "{k: v.float() for k, v in model.state_dict().items()},"),
    "saves in evaluation mode": ("checkpoint", "    torch.save", "    model.eval()\n    torch.save"),
    "asks the optimizer for the step": (
        "checkpoint",
        'int(state["step"])',
        'int(next(iter(optimizer.state.values()))["step"])',
    ),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as running:
        yield running


@pytest.mark.parametrize("name", HURRIED)
def test_a_hurried_answer_does_not_get_all_points(tmp_path: Path, worker: Worker, name: str) -> None:
    exercise, old, new = HURRIED[name]
    source = LAB.reference.read_text()
    assert old in source
    file = tmp_path / "exercises.py"
    file.write_text(source.replace(old, new))
    chosen = tuple(one for one in exercises_of(LAB) if one.name == exercise)
    for seed in range(5):
        report = check_file(LAB, file, chosen, seed=seed, worker=worker)
        assert report.unusable == ""
        assert all(result.status in ("pass", "fail", "skipped") for result in report.results)
        assert report.points < report.max_points, f"seed {seed}"
