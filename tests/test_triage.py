"""Triage: each sign is found in a small sick script and not in the healthy one, and mistakes get a sentence."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner
from warm_process import cold_starts

from rankzero.cli import app as cli
from rankzero.triage import process as process_module
from rankzero.triage.causes import CAUSES
from rankzero.triage.judge import judge
from rankzero.triage.process import run
from rankzero.triage.record import Record, read, write

LONG_S = 300.0  # limit of a process that ends by itself
CLASSIFIER = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
labels = torch.randint(4, (500,))
inputs = torch.randn(4, 8)[labels] + 0.5 * torch.randn(500, 8)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
kept = []
for step in range(60):
    model.train()
    rows = torch.randint(400, (16,))
    x, y = inputs[rows], labels[rows]
    optimizer.zero_grad()
    scores = model(x)
    loss = F.cross_entropy(scores, y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    kept.append(loss.item())
    if step % 10 == 9:
        model.eval()
        with torch.no_grad():
            for first in range(400, 500, 20):
                F.cross_entropy(model(inputs[first : first + 20]), labels[first : first + 20])
"""
ACCUMULATE = """    for part in range(4):
        loss = F.cross_entropy(model(x[part::4]), y[part::4]) / 4
        loss.backward()
"""
WHOLE = """    scores = model(x)
    loss = F.cross_entropy(scores, y)
    loss.backward()
"""
TEXT = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
text = torch.randint(20, (4000,))
embed, mix, head = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 20)
parameters = [*embed.parameters(), *mix.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = embed, mix, head
    def forward(self, tokens):
        x = self.embed(tokens)
        average = torch.ones(12, 12).tril()
        return self.head(x + self.mix(average / average.sum(-1, keepdim=True) @ x))
model = Model()
for step in range(40):
    windows = text.unfold(0, 13, 1)[torch.randint(3900, (8,))]
    inputs, targets = windows[:, :-1], windows[:, 1:]
    scores = model(inputs)
    loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PARTS = """x = embed(inputs)
    average = torch.ones(12, 12).tril()
    scores = head(x + mix(average / average.sum(-1, keepdim=True) @ x))"""
GAN = """
import torch
import torch.nn as nn
torch.manual_seed(0)
maker, judge = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)), nn.Linear(2, 1)
of_maker, of_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
loss_function = nn.BCEWithLogitsLoss()
for step in range(60):
    judge.zero_grad()
    loss_function(judge(torch.randn(32, 2) + 1), torch.ones(32, 1)).backward()
    made = maker(torch.randn(32, 4))
    loss_function(judge(made.detach()), torch.zeros(32, 1)).backward()
    of_judge.step()
    maker.zero_grad()
    loss_function(judge(made), torch.ones(32, 1)).backward()
    of_maker.step()
"""
CLOSURE = """def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)"""
SICK = {
    "gradients-not-cleared": (CLASSIFIER, [("    optimizer.zero_grad()\n", "")]),
    "gradients-cleared-early": (
        CLASSIFIER,
        [("    loss.backward()\n", "    loss.backward()\n    model.zero_grad()\n")],
    ),
    "accumulation-not-averaged": (CLASSIFIER, [(WHOLE, ACCUMULATE.replace(" / 4", ""))]),
    "stays-in-eval-mode": (CLASSIFIER, [("    model.train()\n", "    if step == 0:\n        model.train()\n")]),
    "validates-in-train-mode": (CLASSIFIER, [("        model.eval()\n", "")]),
    "softmax-before-loss": (CLASSIFIER, [("scores = model(x)", "scores = model(x).softmax(-1)")]),
    "schedule-in-wrong-unit": (CLASSIFIER, [("T_max=60", "T_max=6")]),
    "parameters-not-in-optimizer": (CLASSIFIER, [("kept = []", "model[-1] = nn.Linear(32, 4)\nkept = []")]),
    "graph-cut": (CLASSIFIER, [("scores = model(x)", "scores = model[3:](model[:3](x).detach())")]),
    "bad-initialization": (CLASSIFIER, [("kept = []", "nn.init.normal_(model[-1].weight, std=20)\nkept = []")]),
    "inputs-and-labels-misaligned": (CLASSIFIER, [("labels[rows]\n", "labels[torch.randint(400, (16,))]\n")]),
    "clipping-in-wrong-place": (
        CLASSIFIER,
        [
            ("    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n", "    optimizer.step()\n"),
            ("    scheduler.step()\n", "    scheduler.step()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"),
        ],
    ),
    "dead-units": (
        CLASSIFIER,
        [("nn.BatchNorm1d(32)", "nn.Linear(32, 32)"), ("kept = []", "model[1].bias.data -= 9\nkept = []")],
    ),
    "same-batch": (CLASSIFIER, [("    model.train()\n", "    model.train()\n    torch.manual_seed(1)\n")]),
    "validation-in-training": (CLASSIFIER, [("randint(400, (16,))", "randint(500, (64,))")]),
    "graph-kept": (CLASSIFIER, [("kept.append(loss.item())", "kept.append(loss + sum(kept[-1:]))")]),
    "slow-input": (CLASSIFIER, [("    model.train()\n", "    model.train()\n    __import__('time').sleep(0.03)\n")]),
    "anomaly-detection-on": (CLASSIFIER, [("kept = []", "torch.autograd.set_detect_anomaly(True)\nkept = []")]),
    "target-is-input": (TEXT, [("windows[:, 1:]", "windows[:, :-1]")]),
    "no-causal-mask": (TEXT, [(".tril()", "")]),
    "wrong-shape": (CLASSIFIER, [("nn.Linear(8, 32)", "nn.Linear(9, 32)")]),
    "two-devices": (CLASSIFIER, [("model(x)", "model(x.to('meta'))")]),
    "loss-without-graph": (CLASSIFIER, [("model(x)", "model(x).detach()")]),
    "wrong-dtype": (CLASSIFIER, [("model(x)", "model(x.double())")]),
    "label-out-of-range": (CLASSIFIER, [("labels[rows]\n", "labels[rows] + 2\n")]),
    "second-backward": (CLASSIFIER, [("    loss.backward()\n", "    loss.backward()\n    loss.backward()\n")]),
    "loss-not-finite": (CLASSIFIER, [("F.cross_entropy(scores, y)\n", "F.cross_entropy(scores, y) * float('nan')\n")]),
}
HEALTHY = {
    "classifier": (CLASSIFIER, []),
    "accumulation": (CLASSIFIER, [(WHOLE, ACCUMULATE)]),
    "text": (TEXT, []),
    "parts": (TEXT, [("scores = model(inputs)", PARTS)]),
    "gan": (GAN, []),
    "closure": (CLASSIFIER, [("    optimizer.step()", f"    {CLOSURE}")]),
    "loss-on-training-data": (CLASSIFIER, [("range(400, 500, 20)", "range(0, 500, 20)")]),
    "whole-data": (CLASSIFIER, [("inputs[rows], labels[rows]", "inputs[:400], labels[:400]")]),
    "frozen": (CLASSIFIER, [("kept = []", "model[0].requires_grad_(False)\nkept = []")]),
}
OFTEN = ("gradients-not-cleared", "graph-cut", "no-causal-mask", "wrong-shape", "graph-kept", "same-batch")


def script(tmp_path: Path, source: str, changes: list[tuple[str, str]]) -> Path:
    """Writes a script with changes, each of which must apply."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    file = tmp_path / "train.py"
    file.write_text(source)
    return file


def causes(file: Path) -> list[str]:
    """Returns the causes that triage finds in a script."""
    return judge(run(file, [], LONG_S, lambda line: None).records).causes()


@pytest.mark.parametrize(
    "cause", [cause if cause in OFTEN else pytest.param(cause, marks=pytest.mark.prove) for cause in SICK]
)
def test_the_cause_of_a_sick_script_is_named_first(cause: str, tmp_path: Path) -> None:
    assert causes(script(tmp_path, *SICK[cause]))[:1] == [cause]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_script_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert causes(script(tmp_path, *HEALTHY[name])) == []


def test_every_cause_has_a_meaning_and_a_place() -> None:
    assert set(SICK) <= set(CAUSES)
    for key, cause in CAUSES.items():
        assert cause.meaning, key
        assert cause.look_first, key
        assert not cause.meaning.endswith("."), key


def triage(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["triage", *arguments])
    return result.exit_code, result.output


def test_the_report_names_what_was_seen_and_where_to_look(tmp_path: Path) -> None:
    file = script(tmp_path, *SICK["gradients-not-cleared"])
    code, output = triage(str(file))
    assert code == 1
    words = " ".join(output.split())
    assert "1. gradients-not-cleared: gradients of earlier updates" in words
    assert f"Seen at {file}:18" in words.replace("\n", "")
    code, output = triage("--json", str(file))
    signs = {sign["looked_at"]: sign for sign in json.loads(output)["signs"]}
    assert signs["gradients before backward"]["saw"].endswith("before 59 of 59 backward passes")
    assert signs["gradients before backward"]["verdict"] == "finding"
    assert signs["first loss"]["verdict"] == "ok"


def test_options_after_the_script_reach_it(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import sys\nassert sys.argv[1:] == ['--steps', '3'], sys.argv\n{CLASSIFIER}")
    assert triage(str(file), "--steps", "3")[0] == 0
    assert triage(str(file), "--", "--steps", "3")[0] == 0


def test_a_script_is_stopped_at_the_limit_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the limit stands still until the script has made its updates."""

    def monotonic() -> float:
        return 100.0 if (tmp_path / "updated").exists() else 0.0

    update = "    scheduler.step()\n"
    sign = f"    if step == 60: open({str(tmp_path / 'updated')!r}, 'w')\n"
    file = script(
        tmp_path,
        CLASSIFIER,
        [
            ("range(60)", "range(10**9)"),
            ("    optimizer.zero_grad()\n", ""),
            (update, update + sign),
        ],
    )
    monkeypatch.setattr(process_module, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(process_module, "GRACE_S", LONG_S)  # the script ends by itself at SIGTERM
    code, output = triage("--limit", "4", str(file))
    assert code == 1
    assert "stopped after 4 s (--limit)" in " ".join(output.split())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("train.py", None, "there is no file"),
        ("train.txt", "loss 3", "is no script (.py) and no log (.jsonl)"),
        ("train.py", "for", "line 1 is no Python (invalid syntax)"),
        ("train.py", "print('no torch')", "called no PyTorch module"),
        ("log.jsonl", "", "has no line of JSON with a number `loss`"),
        ("log.jsonl", '{"event": "run"}\n{"lo', "has no line of JSON with a number `loss`"),
        ("log.jsonl", b"\xff\xfe", "cannot read"),
    ],
)
def test_a_mistake_gets_a_sentence(name: str, text: str | bytes | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, output = triage(str(tmp_path / name))
    assert code == 2
    assert message in output
    assert output.startswith("rankzero: ")
    assert "Traceback" not in output


def test_a_log_is_judged_by_its_curves(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(json.dumps({"event": "step", "step": i, "loss": 4 / (i + 1), "lr": 0.1}) + "\n" for i in range(60))
    )
    assert triage(str(log))[0] == 0
    log.write_text("".join(json.dumps({"step": i, "loss": 4.0, "lr": 0.1 if i < 9 else 0.0}) + "\n" for i in range(60)))
    code, output = triage("--json", str(log))
    assert (code, json.loads(output)["causes"]) == (1, ["schedule-in-wrong-unit"])
    log.write_text('{"loss": 2.0}\n{"loss": NaN}\n')
    assert json.loads(triage("--json", str(log))[1])["causes"] == ["loss-not-finite"]


@pytest.mark.real
def test_ctrl_c_ends_the_command_and_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"open('pid', 'w').write(str(__import__('os').getpid()))\n{CLASSIFIER.replace('60)', '10**9)')}"
    )
    command = [sys.executable, "-m", "rankzero.cli", "triage", str(tmp_path / "train.py")]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with cold_starts():
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert "Stopped by Ctrl-C." in errors
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_record_comes_back_from_its_file(tmp_path: Path) -> None:
    file = script(tmp_path, CLASSIFIER, [])
    (record,) = run(file, [], LONG_S, lambda line: None).records
    write(record, tmp_path / "record.json")
    assert read(tmp_path / "record.json") == record
    assert record.trouble == ""
    assert isinstance(record, Record)
