"""Checking of a learner's file: a mistake costs only its own checks, and the report explains it."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest
import torch
from rich.console import Console
from tiers import sampled
from warm_process import cold_starts

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.diagnosis import diagnose, same_answers
from rankzero.exercises.checks.judges import mismatch_text, number_equals
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong, wrong_source
from rankzero.exercises.checks.mistake_pairs import Pair, merged
from rankzero.exercises.checks.probe_client import LocalProbeClient, ProbeClient, Reply
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.answers import AnswerError, decode, encode, equal
from rankzero.exercises.probes.loader import error_text, load, loop_around
from rankzero.exercises.probes.rank_probes import failure_text
from rankzero.exercises.probes.untrusted_values import described, plain_number
from rankzero.exercises.study import report_display as display
from rankzero.exercises.study.next_steps import next_steps
from rankzero.publish.stubs import stub

LAB = find_lab("02")
LONG_S = 300.0  # limit of a process that ends by itself
ENDLESS = "    import time\n    while True:\n        time.sleep(0.01)"  # sleeps, so that other tests can use the core
ENDLESS_AT_TARGET_0 = (
    "        losses.append(loss)\n    return losses",
    "        losses.append(loss)\n    import time\n    while target == 0:\n        time.sleep(0.01)\n    return losses",
)
EXERCISES = exercises_of(LAB)
# With a shorter time limit, for endless loops; a right answer takes a tenth of it.
HURRIED = tuple(
    replace(exercise, checks=tuple(replace(check, seconds=1.0) for check in exercise.checks)) for exercise in EXERCISES
)


def altered(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """Writes the reference with these texts replaced."""
    source = LAB.reference.read_text()
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    file = tmp_path / "exercises.py"
    file.write_text(source)
    return file


def with_step(tmp_path: Path, body: str, top: str = "") -> Path:
    """Writes the reference with another train_step."""
    source = LAB.reference.read_text()
    start, end = source.index("def train_step"), source.index("def evaluate")
    file = tmp_path / "exercises.py"
    file.write_text(
        f"{source[:start]}{top}\n\ndef train_step(model, optimizer, x, y, max_norm):\n{body}\n\n\n{source[end:]}"
    )
    return file


def shown(report: Report, exercises: tuple[Exercise, ...] = EXERCISES, rows: int = 0) -> str:
    """Returns the report as a terminal of 80 columns shows it; with `rows`, shortened to so many."""
    console = Console(file=io.StringIO(), width=80, highlight=False, markup=False)
    if rows:
        display.show_on_screen(report, exercises, console, rows, " --file here.py")
    else:
        display.show(report, exercises, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def check(
    file: Path,
    client: LocalProbeClient,
    *names: str,
    exercises: tuple[Exercise, ...] = EXERCISES,
    explain: bool = False,
) -> Report:
    """Checks with seed 3, these exercises only. `explain`: also look for the mistake, which runs all known ones."""
    client.forget(file)
    chosen = tuple(exercise for exercise in exercises if not names or exercise.name in names)
    return check_file(LAB, file, chosen, seed=3, client=client, explain=explain)


BAD = {
    "exit": ("    raise SystemExit(0)", "error", r"exercises.py, line \d+: called sys.exit\(\)"),
    "os._exit": ("    import os; os._exit(0)", "killed", "the process ended without an answer"),
    "crash": ("    import ctypes; ctypes.string_at(0)", "killed", "the process ended by signal SIGSEGV"),
    "exception": ("    return 1 / 0", "error", r"exercises.py, line \d+: ZeroDivisionError: division by zero"),
    "none": ("    return None", "fail", "the return value is of type NoneType; expected a tuple of two floats"),
    "nan": ("    return float('nan'), 1.0", "fail", "the loss is nan; expected"),
    "memory": ("    import torch; torch.ones(10 * 2**30 // 4)", "oom", "memory"),
    "recursion": ("    return train_step(model, optimizer, x, y, max_norm)", "error", "RecursionError"),
    "undefined": ("    return losss", "error", "NameError: name 'losss' is not defined"),
    "string": ("    return 'low'", "fail", "of type str"),
    "breakpoint": ("    breakpoint()", "error", r"exercises.py, line 26: a breakpoint\(\) is left here"),
    "pdb": ("    import pdb; pdb.set_trace()\n    x = y", "error", r"line 27: a breakpoint\(\) is left here"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_misbehaving_function_costs_its_own_checks_only(tmp_path: Path, client: LocalProbeClient, name: str) -> None:
    body, status, message = BAD[name]
    report = check(with_step(tmp_path, body), client, "train_step", "evaluate", "learning_rate")
    first = report.results[0]
    assert first.status == status
    assert re.search(message, first.text), first.text
    assert all(result.status == "pass" for result in report.results if result.exercise != "train_step")


def test_an_endless_loop_times_out_once_and_its_line_is_named(tmp_path: Path, client: LocalProbeClient) -> None:
    report = check(with_step(tmp_path, ENDLESS), client, exercises=HURRIED)
    assert sum("no answer after" in result.text for result in report.results) <= 2  # the checks of one probe
    statuses = {e.name: [r.status for r in report.results if r.exercise == e.name] for e in EXERCISES}
    assert statuses["train_step"] == ["timeout", "skipped", "timeout", *6 * ["skipped"]]
    assert re.search(r"no answer after 1 s; exercises.py, line 2[78] was running", report.results[0].text)
    assert "blocked by the check before, which ran out of time" in report.results[1].text
    assert set(statuses["overfit_one_batch"]) == {"skipped"}
    assert report.points == 30
    assert check(LAB.reference, client).points == 50, "the probe server still runs"


def test_the_endless_loop_around_a_call_is_named(tmp_path: Path, client: LocalProbeClient) -> None:
    loop = "    while not losses or losses[-1] >= target:"
    file = altered(tmp_path, ("    while len(losses) < max_steps and (not losses or losses[-1] >= target):", loop))
    number = 1 + file.read_text().splitlines().index(loop)
    report = check(file, client, "overfit_one_batch", exercises=HURRIED)
    text = next(result.text for result in report.results if result.status == "timeout")
    sentence, *source = text.splitlines()
    assert sentence.endswith(f"was running, in the loop that begins in line {number}")
    assert source[-1] == f"    line {number}: {loop.strip()}"


def test_an_error_in_an_earlier_exercise_blocks_the_later_one(tmp_path: Path, client: LocalProbeClient) -> None:
    lab = find_lab("07")
    file = tmp_path / "exercises.py"
    old, source = "        dist.broadcast(tensor.detach(), src=0)", lab.reference.read_text()
    assert old in source
    file.write_text(source.replace(old, "        raise ValueError(tensor.shape)"))
    exercises = tuple(each for each in exercises_of(lab) if each.name in ("same_start", "data_parallel"))
    report = check_file(lab, file, exercises, seed=1, client=client)
    later = [result for result in report.results if result.exercise == "data_parallel"]
    assert {result.status for result in later} == {"skipped"}
    assert {result.needs for result in later} >= {"same_start"}


def test_an_endless_while_is_named_rather_than_the_for_inside_it(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    lines = ["while True:", "    for n in range(3):", "        n += 1", "", "for m in range(3):", "    m"]
    file.write_text("\n".join(lines))
    assert [loop_around(file, line) for line in (3, 6, 4)] == [1, 5, 0]


@pytest.mark.real
def test_probes_end_when_the_process_that_asked_is_killed(tmp_path: Path) -> None:
    file = with_step(tmp_path, ENDLESS)
    command = [sys.executable, "-m", "rankzero", "check", "02", "train_step", "--file", str(file)]
    asking = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    family: list[psutil.Process] = []
    while len(family) < 2:  # the probe server, and its fork that runs the probe
        assert asking.poll() is None
        time.sleep(0.05)
        family = psutil.Process(asking.pid).children(recursive=True)
    asking.kill()
    asking.wait()
    assert psutil.wait_procs(family, timeout=LONG_S)[1] == []


def test_weights_that_do_not_fit_are_named_once(tmp_path: Path, client: LocalProbeClient) -> None:
    file = altered(tmp_path, ('"model": model.state_dict()', '"model": dict(model.named_parameters())'))
    text = next(result for result in check(file, client, "checkpoint").results if result.status == "error").text
    assert "Error(s) in loading state_dict for GPT: Missing key(s) in state_dict: " in text
    assert text.count("model.load_state_dict(") == 1
    assert not any(result.printed for result in check(file, client, "checkpoint").results), "the probe warns"


def test_answers_before_an_endless_loop_count(tmp_path: Path, client: LocalProbeClient) -> None:
    file = altered(tmp_path, ENDLESS_AT_TARGET_0)
    report = check(file, client, "overfit_one_batch", exercises=HURRIED)
    assert [r.status for r in report.results] == ["pass", "pass", "pass", "timeout", "skipped"]


def test_what_was_asked_ahead_is_not_run_again(
    tmp_path: Path, client: LocalProbeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = altered(tmp_path, ENDLESS_AT_TARGET_0)
    (exercise,) = (exercise for exercise in HURRIED if exercise.name == "overfit_one_batch")
    client.forget(file)
    client.ask_ahead(LAB, file, exercise, [3])
    client.ask_ahead(LAB, LAB.reference, exercise, [3])
    monkeypatch.setattr(client, "_send", None)
    client.ask_ahead(LAB, LAB.reference, exercise, [3])
    report = check_file(LAB, file, (exercise,), seed=3, client=client, explain=False)
    assert [r.status for r in report.results] == ["pass", "pass", "pass", "timeout", "skipped"]


def test_a_file_that_never_loads_times_out_once(
    tmp_path: Path, client: LocalProbeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    send = client._send

    def count(*request: Any) -> Any:
        sent.append(request)
        return send(*request)

    monkeypatch.setattr(client, "_send", count)
    report = check(with_step(tmp_path, "    pass", top=f"if True:\n{ENDLESS}"), client, exercises=HURRIED)
    assert len(sent) == 1
    assert re.search(r"not loaded after 1 s; exercises.py, line 2[56] was running", report.unusable)
    assert "below `if __name__ == '__main__':`." in report.unusable
    assert report.points == 0


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count waits")
def test_a_probe_that_waits_for_a_core_is_not_late(tmp_path: Path) -> None:
    core = {min(os.sched_getaffinity(0))}
    busy = "import time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.3:\n    pass\n"
    file = tmp_path / "exercises.py"
    file.write_text(busy + LAB.reference.read_text())
    with LocalProbeClient() as new_client:
        assert check(file, new_client, "learning_rate", exercises=HURRIED).points == 10
        os.sched_setaffinity(new_client._process.pid, core)
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(7)]
        try:
            for other in others:
                os.sched_setaffinity(other.pid, core)
            began = time.monotonic()
            assert check(file, new_client, "learning_rate", exercises=HURRIED).points == 10
            assert time.monotonic() - began > 1.5, "the limit of 1 s and the time to report were over"
        finally:
            for other in others:
                other.kill()
                other.wait()


@pytest.mark.real
def test_ctrl_c_in_the_terminal_does_not_end_the_probe_server() -> None:
    with cold_starts():
        new_client = LocalProbeClient()
    with new_client:
        check(LAB.reference, new_client, "learning_rate")
        os.kill(new_client._process.pid, signal.SIGINT)
        assert check(LAB.reference, new_client, "learning_rate").points == 10


IMPORTS = """
import sys
from pathlib import Path
from rankzero.exercises.probes.probe_server import import_modules_of

sys.modules.pop("colorsys", None)
import_modules_of(Path(sys.argv[1]))
print("colorsys" in sys.modules, "rankzero.missing" in sys.modules)
"""


ENDS = ["raise RuntimeError('the probes are not run')", "import no_such_module", "def ("]


@pytest.mark.parametrize("end", sampled(ENDS, ENDS[:1]))
def test_the_server_imports_what_probes_import_and_does_not_run_them(end: str, tmp_path: Path) -> None:
    probes = tmp_path / "probes.py"
    probes.write_text(f"import rankzero.missing\nimport colorsys\n{end}\n")
    command = [sys.executable, "-c", IMPORTS, str(probes)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=True).stdout
    assert output.split() == [str(end != "def ("), "False"]


def test_escape_sequences_of_a_learner_do_not_reach_the_terminal(tmp_path: Path, client: LocalProbeClient) -> None:
    body = """
    print("\\x1b]0;owned\\x07\\x1b[2J\\x9b2J [red]x[/] \\u202etxt\\u2069 \\u2028line")
    raise ValueError("\\x1b[2J\\x1b]8;;http://evil.example\\x1b\\\\ \\u202e \\udc80 [bold]")"""
    screen = shown(check(with_step(tmp_path, body), client, "train_step"))
    assert r"\x1b]0;owned\x07\x1b[2J\x9b2J [red]x[/] \u202etxt\u2069" in screen
    assert re.search(r"line \d+: ValueError:\s+\\x1b\[2J.*\\udc80 \[bold\]", screen)
    assert all(character == "\n" or character.isprintable() for character in screen)
    screen.encode()  # fails for half of a surrogate pair, which cannot be printed


def test_a_flood_of_prints_is_cut_and_does_not_change_the_verdict(tmp_path: Path, client: LocalProbeClient) -> None:
    source = LAB.reference.read_text().replace(
        "    optimizer.zero_grad(set_to_none=True)\n",
        "    print('x' * 20_000_000)\n    optimizer.zero_grad(set_to_none=True)\n",
    )
    (tmp_path / "exercises.py").write_text(source)
    report = check(tmp_path / "exercises.py", client, "train_step")
    assert all(result.status == "pass" for result in report.results)
    assert report.results[0].printed.startswith("xxx")
    assert len(report.results[0].printed) <= 4096


def test_a_warning_is_shown_by_its_first_sentence_without_files(tmp_path: Path, client: LocalProbeClient) -> None:
    warn = "    import warnings\n    warnings.warn('This is slow. Consider another.\\nMore.', FutureWarning)\n"
    file = altered(tmp_path, ("    loss = F.cross_entropy(model(x)", f"{warn}    loss = F.cross_entropy(model(x)"))
    report = check(file, client, "train_step")
    assert (report.points, report.results[0].printed) == (10, "FutureWarning: This is slow")


def test_prints_are_cut_and_the_number_of_further_lines_is_shown(tmp_path: Path, client: LocalProbeClient) -> None:
    file = altered(
        tmp_path, ("    loss.backward()\n", "    for n in range(20):\n        print('line', n)\n    loss.backward()\n")
    )
    report = check(file, client, "train_step")
    printed = report.results[0].printed.splitlines()
    steps = 1 + 3 + 3 + 1 + 2 + 1 + 2  # that the probes of train_step take with seed 3, without the batch of padding
    assert printed == [*(f"line {n}" for n in range(12)), f"+{20 * steps - 12} lines more"]
    assert "line 11\n" in shown(report)
    assert f"+{20 * steps - 12} lines more" in shown(report)
    assert (
        check(altered(tmp_path, ("    loss.backward()\n", "    print(end='x')\n    loss.backward()\n")), client)
        .results[0]
        .printed
        == "x" * steps
    )


@pytest.mark.parametrize(
    ("text", "message", "source"),
    [
        ("x = 1\ny = (1 +\nz = 2\n", "line 2: '(' was never closed.", "\n    y = (1 +\n        ^"),
        (
            "def f():\n    x = 1\n\treturn x\n",
            "line 3: this line is indented by tabs, and others by spaces",
            "    return x",
        ),
        ("import nosuchmodule\n", "line 1: ModuleNotFoundError", "\n    import nosuchmodule"),
        ("x = 1\ny = '\x00'", "line 2: source code string cannot contain null bytes", ""),
    ],
)
def test_a_file_that_does_not_load_is_shown_with_its_line(
    tmp_path: Path, client: LocalProbeClient, text: str, message: str, source: str
) -> None:
    file = tmp_path / "exercises.py"
    file.write_text(text)
    report = check(file, client, "train_step")
    assert message in report.unusable
    assert source in report.unusable


# Body of train_step -> its text in the report.
TEXTS = {
    "the line": ("    return 1 / 0", r"exercises.py, line \d+: ZeroDivisionError: division by zero\n    return 1 / 0"),
    "a loop": (
        "    n = 0\n    while True:\n        n += 1",
        r"no answer after 1 s; exercises.py, line \d+ was running, in the loop that begins in line \d+\n    \w.*",
    ),
    "memory": (
        "    return torch.ones(10**11)",
        r"exercises.py, line \d+: not enough memory for a tensor of 400,000,000,000 bytes\n    return torch.*",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_error_in_a_function_is_shown_with_its_line(tmp_path: Path, client: LocalProbeClient, name: str) -> None:
    body, text = TEXTS[name]
    report = check(with_step(tmp_path, body), client, "train_step", exercises=HURRIED)
    assert re.fullmatch(text, report.results[0].text), report.results[0].text


def test_a_function_with_other_arguments_is_named_with_its_def(tmp_path: Path, client: LocalProbeClient) -> None:
    source = LAB.reference.read_text()
    file = tmp_path / "exercises.py"
    file.write_text(source.replace("def learning_rate(step: int, ", "def learning_rate("))
    text = check(file, client, "learning_rate").results[0].text
    assert re.search(r"line \d+: TypeError: learning_rate\(\) takes 4 .*\n    def learning_rate\(peak", text)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("learning_rate = 3", r"learning_rate is of type int: define it as a function again\.\n    learning_rate = 3"),
        (
            "async def learning_rate():\n    return 1",
            r"learning_rate is an `async def`, .*\n    async def learning_rate",
        ),
        (
            "def learning_rate():\n    yield 1",
            r"learning_rate has a `yield`, .* generator: .*\n    def learning_rate\(\):",
        ),
    ],
)
def test_a_function_that_no_call_would_run_is_refused_with_its_line(
    tmp_path: Path, client: LocalProbeClient, definition: str, text: str
) -> None:
    file = tmp_path / "exercises.py"
    source = LAB.reference.read_text().replace("def learning_rate(", "def another(")
    file.write_text(f"{source}\n\n{definition}\n")
    results = check(file, client, "learning_rate").results
    assert {result.status for result in results} <= {"error", "skipped"}
    assert re.match(rf"exercises.py, line {len(source.splitlines()) + 3}: {text}", results[0].text), results[0].text


def test_an_error_in_another_function_names_the_line_that_led_to_it(tmp_path: Path, client: LocalProbeClient) -> None:
    lab, old = find_lab("05"), "    return checkpoint(keep_or_reuse(function, keep), *inputs)"
    new = old.replace("keep_or_reuse(function, keep), *inputs", "keep_or_reuse(function(*inputs), keep)")
    lines = lab.reference.read_text().replace(old, new).splitlines()
    file = tmp_path / "exercises.py"
    file.write_text("\n".join(lines))
    client.forget(file)
    exercise = next(each for each in exercises_of(lab) if "checkpoint_selective" in each.functions)
    only = replace(exercise, functions=("checkpoint_selective",))
    text = check_file(lab, file, (only,), seed=3, client=client, explain=False).results[0].text
    own, inner = lines.index(new) + 1, lines.index("            output = function(*inputs)") + 1
    named = f"exercises.py, line {own}, in checkpoint_selective, which called line {inner}, in keep_or_reuse: TypeError"
    assert text.startswith(named)
    assert text.splitlines()[1:] == [new]


def test_an_error_in_a_function_of_the_learners_own_shows_both_lines(tmp_path: Path, client: LocalProbeClient) -> None:
    file = with_step(tmp_path, "    return ratio(1)", top="def ratio(n):\n    return n / 0")
    lines = file.read_text().splitlines()
    text = check(file, client, "train_step").results[0].text
    own, inner = (lines.index(line) + 1 for line in ("    return ratio(1)", "    return n / 0"))
    assert text.splitlines() == [
        f"exercises.py, line {own}, in train_step, which called line {inner}, in ratio: ZeroDivisionError: "
        "division by zero",
        f"    line {own}: return ratio(1)",
        f"    line {inner}: return n / 0",
    ]


def test_an_output_without_a_graph_is_asked_about(tmp_path: Path) -> None:
    try:
        torch.zeros(1).backward()
    except RuntimeError as error:
        text = error_text(error, tmp_path / "exercises.py")
    assert text.endswith("Was it detached, or computed under torch.no_grad()?")


ADVISED = {
    "a missing gradient": ("p.grad.norm()", "A parameter that takes no part in the loss has None in p.grad."),
    "an empty list": ("torch.stack([])", "The list or tensor is empty here: handle this case first."),
    "an iterator at its end": ("next(iter([]))", "next() found no item: nothing was left, or nothing matched."),
    "an empty storage": (
        "torch.zeros(0).as_strided((4,), (1,))",
        "A tensor is used while its storage is emptied: fill it again first.",
    ),
    "a storage that is too small": (
        "p.as_strided((4,), (1,))",
        "The storage has fewer bytes than the tensor needs.",
    ),
    "None elsewhere": ("None.norm()", None),
}


@pytest.mark.parametrize("name", ADVISED)
def test_an_error_that_learners_meet_says_what_it_means(tmp_path: Path, name: str) -> None:
    line, advice = ADVISED[name]
    file = tmp_path / "exercises.py"
    file.write_text(f"import torch\np = torch.zeros(1)\ndef f():\n    {line}\n")
    module = load(file)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        module.f()
    sentence, source = error_text(caught.value, file).split("\n")
    assert sentence.startswith("exercises.py, line 4: ")
    assert sentence.endswith(f". {advice}") if advice else sentence.endswith("'norm'")
    assert source == f"    {line}"


def test_an_error_in_what_came_back_names_no_line_of_a_probe(tmp_path: Path) -> None:
    try:
        iter(3)  # type: ignore[call-overload]
    except TypeError as error:
        text = error_text(error, tmp_path / "exercises.py")
    assert text == "TypeError: 'int' object is not iterable (in the check, on what your code returned)"


def test_ranks_that_fail_alike_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    file.write_text("x = 1\nreturn lossy\n")
    error = "NameError: name 'lossy' is not defined (exercises.py, line 2, in ring)"
    text = failure_text(f"rank 0 of 2: {error}\n  rank 1: {error}", file)
    assert text == f"each of 2 ranks: {error}\n    return lossy"
    assert (
        failure_text("rank 0 of 2: ValueError: no (probes.py, line 98, in work)", file) == "rank 0 of 2: ValueError: no"
    )


def test_ranks_that_wait_for_the_failed_rank_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    file.write_text("send()\nrecv()\n")
    waited = "waited for rank 1, which did not complete the call (exercises.py, line 2, in ring)"
    error = "rank 1 of 4: ValueError: no (exercises.py, line 1, in ring)"
    text = failure_text(f"{error}\n  rank 0: {waited}\n  rank 2: {waited}\n  rank 3: {waited}", file)
    assert text == f"{error}\nThe other ranks waited for rank 1.\n    send()"
    text = failure_text(f"{error}\n  rank 0: {waited}\n  rank 2: {waited}\n  rank 3: was done", file)
    assert text == f"{error}\n  rank 3: was done\nRanks 0 and 2 waited for rank 1.\n    send()"


@pytest.mark.parametrize(
    ("got", "expected", "text"),
    [
        (0.5, 0.75, "is 0.500000; expected 0.750000."),
        (1.0, 1.0 + 2e-16, "is 1.0; expected 1.0000000000000002."),
        (1e-20, 2e-20, "is 1e-20; expected 2e-20."),
        (None, 0.75, "is None; expected 0.750000."),
        (plain_number(torch.ones(2, 3)), 0.75, "is a Tensor of shape [2, 3], float32; expected 0.750000."),
        (plain_number("low"), 0.75, "is a str; expected 0.750000."),
        ([0.0] * 9, [0.0] * 8 + [1.0], "at index 8 is 0.000000; expected 1.000000."),
        ([0.0] * 9, [0.0] * 8, "has 9 items; expected 8."),
        ([0.0], 1.0, "is [0.000000]; expected 1.000000."),
    ],
)
def test_a_mismatch_shows_two_different_values(got: object, expected: object, text: str) -> None:
    assert mismatch_text(got, expected).startswith(text)


def test_a_value_that_is_cut_ends_with_an_ellipsis() -> None:
    assert described([4.5, 1]) == "a list, [4.5, 1]"
    text = described([4 / 3] * 3)
    assert text.startswith("a list, [1.3333333333333333, 1.33333")
    assert (text[-1], len(text)) == ("…", 60)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def train_step(:\n", r"exercises.py, line 1: invalid syntax"),
        ("import math\nimport nosuchmodule\n", r"exercises.py, line 2: ModuleNotFoundError: No module named 'nosuch"),
        ("raise SystemExit\n", r"exercises.py, line 1: called sys.exit\(\)"),
        ("x = 1\n\x00", "null byte"),
        ("print 'loss'\n", r"exercises.py, line 1: .* Did you mean print\(...\)\?$"),
        ("open('corpus.txt')\n", r"line 1: FileNotFoundError: .* 'corpus.txt'\.$"),
        ("lr = input()\n", r"line 1: input\(\) waits for somebody to type, and nobody is there\.$"),
        ("import math\n".encode("utf-16"), r"exercises.py is saved as UTF-16: save it as UTF-8\.$"),
    ],
)
def test_the_report_names_the_line_of_an_import_error(
    tmp_path: Path, client: LocalProbeClient, text: str | bytes, message: str
) -> None:
    file = tmp_path / "exercises.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = check(file, client, "train_step")
    assert report.results[0].status == "error"
    assert re.search(message, report.unusable, re.MULTILINE), report.unusable
    assert report.points == 0
    assert " ".join(shown(report).split()).count("Nothing can be checked") == 1
    assert len(shown(report).splitlines()) < 6, "shown once, not for every check"


def test_a_missing_function_is_named_once_per_exercise(tmp_path: Path, client: LocalProbeClient) -> None:
    report = check(altered(tmp_path, ("def evaluate(", "def evalute(")), client)
    assert report.points == 40
    assert shown(report).count("evaluate is missing from exercises.py") == 1


def test_an_exercise_that_calls_a_missing_function_is_blocked_and_not_wrong(
    tmp_path: Path, client: LocalProbeClient
) -> None:
    lab = find_lab("07")
    file = tmp_path / "exercises.py"
    file.write_text(lab.reference.read_text().replace("def exchange(", "def exchang("))
    client.forget(file)
    exercises = exercises_of(lab)[:2]
    report = check_file(lab, file, exercises, seed=3, client=client)
    text = shown(report, exercises)
    assert re.search(r"FAIL     exchange +0 of", text)
    assert re.search(r"blocked  ring_all_reduce +0 of +\d   needs exchange\n", text)
    assert "NameError" not in text
    assert text.endswith("exchange is missing from exercises.py: put its `def` line back.\n")
    assert next_steps(lab, report, exercises) == []
    ring = exercises[1:]
    report = check_file(lab, file, ring, seed=3, client=client)
    assert "exchange is missing from exercises.py: put its `def` line back." in " ".join(shown(report, ring).split())
    assert next_steps(lab, report, ring) == ["Next: rankzero check 07 exchange"]


def test_a_stub_is_named_once(tmp_path: Path, client: LocalProbeClient) -> None:
    source = LAB.reference.read_text()
    stubs = LAB.stubs.read_text()
    file = tmp_path / "exercises.py"
    file.write_text(source[: source.index("def load_checkpoint")] + stubs[stubs.index("def load_checkpoint") :])
    text = shown(check(file, client, "checkpoint"))
    assert re.search(r"todo     checkpoint +1 of 10   next: load_checkpoint\n", text)


# Two mistakes in one file.
COMBINED = {
    "diluted by padding, and left in evaluation mode": (
        ("tokens = tokens + (y != -100).sum(dim=0)", "tokens = tokens + len(y)"),
        ("        module.training = training\n", "        pass\n"),
        ["padding_diluted", "eval_mode_left_on"],
    ),
    "a tensor, and nothing moves": (
        ("    optimizer.step()\n    return loss.item(), norm", "    return loss, norm"),
        ["nothing_moves", "returns_the_graph"],
    ),
    "from zero, and a straight line": (
        ("peak * (step + 1)", "peak * step"),
        ("floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))", "peak + (floor - peak) * progress"),
        ["linear_decay", "warm_up_from_zero"],
    ),
    "a sum, and padding as token 0, written in another way": (
        (
            "    loss = F.cross_entropy(model(x)",
            "    targets = torch.where(y < 0, 0, y)\n    loss = F.cross_entropy(model(x)",
        ),
        ("y.flatten(), ignore_index=-100)\n    loss.b", "targets.flatten(), reduction='sum')\n    loss.b"),
        ["padding_as_token_0", "sum_over_tokens"],
    ),
    "no random state, and a step too far": (
        ('    torch.set_rng_state(state["rng"])\n', ""),
        ('int(state["step"])', 'int(state["step"]) + 1'),
        ["one_step_further", "random_state_forgotten"],
    ),
}


@pytest.mark.parametrize("name", COMBINED)
def test_each_of_two_mistakes_is_explained(tmp_path: Path, client: LocalProbeClient, name: str) -> None:
    *changes, expected = COMBINED[name]
    report = check(altered(tmp_path, *changes), client, explain=True)  # type: ignore[arg-type]
    assert sorted(diagnosis.name for diagnosis in report.diagnoses) == sorted(expected)


def test_two_mistakes_in_the_same_numbers_are_shown_together(tmp_path: Path, client: LocalProbeClient) -> None:
    *changes, _ = COMBINED["a sum, and padding as token 0, written in another way"]
    text = shown(check(altered(tmp_path, *changes), client, "train_step", explain=True))  # type: ignore[arg-type]
    assert re.search(
        r"Two known mistakes at once: The loss is the sum .*And the other: Targets of -100", text, re.DOTALL
    )


def test_changes_of_two_mistakes_are_joined_word_by_word() -> None:
    line = "loss = mean(model(x), y)\n"
    assert merged(line, "loss = sum(model(x), y)\n", "loss = mean(model(x), x)\n") == "loss = sum(model(x), x)\n"
    assert merged(line, "loss = sum(model(x), y)\n", "loss = max(model(x), y)\n") is None


SAME_CAUSE = {
    "paths": ("No such file or directory: '/tmp/tmpa1/moved.rng'", "No such file or directory: '/x/moved.pt.opt'"),
    "attributes of None": ("'NoneType' object has no attribute 'norm'", "'NoneType' object has no attribute 'square'"),
}


@pytest.mark.parametrize("name", SAME_CAUSE)
def test_errors_that_differ_in_paths_or_attributes_of_none_are_of_one_mistake(name: str) -> None:
    one, other = (Reply("error", cause=f"Error: {text}") for text in SAME_CAUSE[name])
    assert same_answers(one, other)
    assert not same_answers(one, Reply("error", cause="Error: division by zero"))


def test_whole_numbers_are_of_one_mistake_only_if_they_are_equal() -> None:
    one, other = (Reply("answered", {"bytes": [number]}) for number in (10**12, 10**12 + 4))
    assert not same_answers(one, other)
    assert same_answers(one, one)


def test_a_mistake_that_fails_a_check_which_passes_explains_nothing() -> None:
    failing, passing = (cast(Check, SimpleNamespace(name=name)) for name in ("f/modes", "f/result"))
    both = KnownWrong("both", fails=(failing.name, passing.name), read="", explanation="", change="")
    one = KnownWrong("one", fails=(failing.name,), read="", explanation="", change="")

    def alike(checks: Sequence[Check], candidate: object, all_answers: bool) -> Iterator[bool]:
        return iter([True] * len(checks))

    assert diagnose([failing], [], [both], alike) == ([], False)
    assert diagnose([failing], [], [both, one], alike) == ([one], False)
    assert diagnose([failing], [passing], [both], alike) == ([both], False)


def test_a_hint_is_offered_where_a_known_mistake_explains_only_a_later_failure() -> None:
    exercise = next(each for each in exercises_of(LAB) if each.name == "learning_rate")
    first, later = (check.name for check in exercise.checks[:2])
    results = tuple(Result(name, exercise.name, "fail", 0, 1, "is wrong") for name in (first, later))
    hint = f"No known mistake explains this. A hint: rankzero hint {LAB.number} {exercise.name}"
    for check, offered in ((first, []), (later, [hint])):
        mistake = Diagnosis(exercise.name, "mistake", "It is wrong.", "handbook/learning-rate.md", (check,))
        report = Report(LAB.slug, str(LAB.reference), 1, results, (mistake,))
        assert next_steps(LAB, report, (exercise,)) == offered


def test_in_a_pair_one_mistake_may_hide_that_the_other_fails_a_check(tmp_path: Path) -> None:
    calls, gradient = (cast(Check, SimpleNamespace(name=name)) for name in ("f/calls", "f/gradient"))
    order = KnownWrong("order", fails=(calls.name,), read="", explanation="", change="")
    counts = KnownWrong("counts", fails=(gradient.name, calls.name), read="", explanation="", change="")

    def alike(checks: Sequence[Check], candidate: object, all_answers: bool) -> Iterator[bool]:
        return iter([isinstance(candidate, Pair)] * len(checks))

    def pairs(candidates: Sequence[KnownWrong], found: Sequence[KnownWrong]) -> Iterator[Pair]:
        return (Pair((one, other), tmp_path) for one, other in combinations(candidates, 2))

    assert diagnose([calls], [], [order, counts], alike, pairs) == ([order, counts], True)
    other = KnownWrong("other", fails=(gradient.name,), read="", explanation="", change="")
    assert diagnose([calls], [], [order, other], alike, pairs) == ([], False)


def test_an_unknown_mistake_is_not_explained(tmp_path: Path, client: LocalProbeClient) -> None:
    changes = ("return peak * (step + 1) / warmup_steps", "return peak / 7"), ("loss = F.cross", "loss = 1.5 * F.cross")
    report = check(altered(tmp_path, *changes), client, explain=True)
    assert report.points == 25
    assert report.diagnoses == ()


@pytest.mark.parametrize("change", ["", "    optimizer.zero_grad()\n    optimizer.step()\n"])
def test_every_mistake_that_leaves_the_weights_unchanged_gets_the_same_explanation(
    tmp_path: Path, client: LocalProbeClient, change: str
) -> None:
    report = check(altered(tmp_path, ("    optimizer.step()\n", change)), client, "train_step", explain=True)
    (diagnosis,) = report.diagnoses
    assert diagnosis.name == "nothing_moves"
    assert "step() is missing" in diagnosis.explanation
    assert "backward() is missing" in diagnosis.explanation


def test_the_refusal_of_a_checkpoint_names_the_object_in_it(tmp_path: Path, client: LocalProbeClient) -> None:
    change = "torch.save(state, path)", 'torch.save(state | {"path": path}, path)'
    report = check(altered(tmp_path, change), client, "checkpoint", explain=True)
    assert re.search(r"refuses the file: it holds a pathlib\.\w*Path", report.results[0].text)
    assert report.diagnoses == (), "not whole models"
    assert "\x1b" not in report.as_json()
    assert "\\u001b" not in report.as_json()


def test_differing_numbers_are_shown_with_enough_digits(tmp_path: Path, client: LocalProbeClient) -> None:
    report = check(altered(tmp_path, ("math.pi", "3.14159")), client, "learning_rate")
    text = next(result.text for result in report.results if result.status == "fail")
    match = re.search(r"is (\S+); expected (\S+)\.(?: |$)", text)
    assert match
    assert match[1] != match[2]


@pytest.mark.parametrize(
    ("number", "named"),
    [(0.125001 * (1 + 1e-7), True), (0.125001 * (1 + 1e-5), False), (7, False), (None, False)],
)
def test_a_difference_in_the_seventh_digit_is_named_as_that_of_fp32(number: float | None, named: bool) -> None:
    failure = number_equals("loss", "the loss")({"loss": number}, {"loss": 0.125001})
    assert failure
    assert failure.endswith("rounded to fp32 on the way.") is named


def test_rounding_is_not_blamed_where_a_known_mistake_explains_the_difference(
    tmp_path: Path, client: LocalProbeClient
) -> None:
    file = altered(tmp_path, ("gradient.mul_(max_norm / norm)", "gradient.mul_(max_norm / (norm + 1e-6))"))
    report = check(file, client, "train_step", explain=True)
    assert [diagnosis.name for diagnosis in report.diagnoses] == ["epsilon_in_the_norm"]
    assert not any("rounded to fp32" in result.text for result in report.results)


def test_counts_are_shown_as_whole_numbers(tmp_path: Path, client: LocalProbeClient) -> None:
    changes = ('int(state["step"])', 'int(state["step"]) + 1'), ("    return losses\n", "    return losses[-1]\n")
    texts = " ".join(result.text for result in check(altered(tmp_path, *changes), client).results)
    step = re.search(r"the step that load_checkpoint returns is (\d+); expected (\d+)\.", texts)
    assert step
    assert int(step[1]) == int(step[2]) + 1
    assert "the return value is of type float; expected a list of floats." in texts
    assert "None" not in texts


def test_a_blocked_check_names_the_check_that_blocks_it(tmp_path: Path, client: LocalProbeClient) -> None:
    report = check(altered(tmp_path, ("optimizer.step()", "pass")), client)
    texts = [result.text for result in report.results if result.exercise == "overfit_one_batch"]
    assert set(texts) == {"blocked until train_step moves the weights once, along this batch's gradient"}
    assert re.search(r"blocked  overfit_one_batch +0 of 10   needs train_step\n", shown(report))


def test_a_blocked_exercise_that_is_checked_alone_names_the_failing_exercise(
    tmp_path: Path, client: LocalProbeClient
) -> None:
    report = check(altered(tmp_path, ("optimizer.step()", "pass")), client, "overfit_one_batch", explain=True)
    assert {result.status for result in report.results} == {"skipped"}
    assert "blocked until train_step moves the weights once, along this batch's gradient" in report.results[0].text
    overfit = tuple(exercise for exercise in EXERCISES if exercise.name == "overfit_one_batch")
    assert "until train_step moves the weights once" in shown(report, overfit)
    assert next_steps(LAB, report, overfit) == ["Next: rankzero check 02 train_step"]


def test_the_first_failure_and_its_diagnosis_end_the_report(tmp_path: Path, client: LocalProbeClient) -> None:
    changes = ("    optimizer.step()\n    return loss.item()", "    return loss"), ("math.pi", "3.14159")
    text = shown(check(altered(tmp_path, *changes), client, explain=True))
    assert re.search(r"FAIL     train_step +1 of 10\n", text)
    assert re.search(r"ok       evaluate +10 of 10\n", text)
    assert "ok       leaves" not in text, "an exercise that passes takes one line"
    last = ["learning_rate\n", "The weights do not move.", "FAIL     returns two floats", "of type Tensor"]
    last += ["The loss is returned as a tensor"]
    places = [text.rindex(part) for part in last]
    assert places == sorted(places)
    assert text.endswith("Read handbook/backpropagation.md#lifetime-of-the-graph\n")


@pytest.mark.parametrize("rows", sampled([12, 18, 20, 24], [24]))
def test_a_report_is_shortened_to_the_rows_of_a_screen(tmp_path: Path, client: LocalProbeClient, rows: int) -> None:
    changes = (
        ("    optimizer.step()\n    return loss.item()", "    return loss"),
        ("    loss.backward()\n", "    for n in range(20):\n        print('line', n)\n    loss.backward()\n"),
        ("math.pi", "3.14159"),
    )
    report = check(altered(tmp_path, *changes), client, explain=True)
    text = shown(report, rows=rows)
    assert len(text.splitlines()) <= rows
    assert "Shortened; all of it: rankzero check 02 train_step --seed 3 --file here.py\n" in text
    assert re.search(r"FAIL     returns two floats[^!]*\n +the loss is of type Tensor", text)
    if rows == 20:
        assert "ok       2 exercises\n" in text, "a line for each state, where a line for each exercise does not fit"
    if rows > 12:
        assert text.endswith("Read handbook/backpropagation.md#lifetime-of-the-graph\n")
    assert "Shortened" not in shown(check(LAB.reference, client), rows=rows)


class CountingClient(ProbeClient):
    """Counts the probes that run on another client's server."""

    def __init__(self, client: LocalProbeClient) -> None:
        super().__init__()
        self.client, self.count = client, 0

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        self.count += len(request["probes"])
        return self.client._exchange(request)


FIRST_WRONG = {wrong.exercise: wrong for wrong in [*known_wrong(LAB).values()][::-1]}


@pytest.mark.prove
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(wrong, id=name, marks=() if name == "train_step" else pytest.mark.prove)
        for name, wrong in FIRST_WRONG.items()
    ],
)
def test_a_wrong_file_runs_few_more_probes_than_a_right_file(
    tmp_path: Path, client: LocalProbeClient, wrong: KnownWrong
) -> None:
    copy = altered(tmp_path)
    counting = CountingClient(client)
    assert check_file(LAB, copy, EXERCISES, seed=3, client=counting).points == 50
    right, counting = counting.count, CountingClient(client)
    copy.write_text(wrong_source(LAB, wrong))
    report = check_file(LAB, copy, EXERCISES, seed=3, client=counting)
    assert [diagnosis.name for diagnosis in report.diagnoses] == [wrong.name]
    assert counting.count <= 1.3 * right
    counting.count = 0
    counting.forget(copy)
    check_file(LAB, copy, EXERCISES, seed=3, client=counting)
    assert counting.count == right / 2, "a watch runs only the learner's file again"


def test_each_probe_begins_in_an_empty_folder_that_is_removed(tmp_path: Path, client: LocalProbeClient) -> None:
    leave = (
        "    import os\n    print(len(os.listdir()), os.getcwd())\n    open('left', 'w').close()\n    return 1.0, 1.0"
    )
    printed = check(with_step(tmp_path, leave), client, "train_step").results[0].printed
    lines = [line.split(" ", 1) for line in printed.splitlines() if line[0] in "01"]
    first = dict(reversed([(folder, int(files)) for files, folder in lines]))
    assert len(first) > 1
    assert set(first.values()) == {0}
    assert not any(Path(folder).exists() or tmp_path.is_relative_to(folder) for folder in first)
    assert not Path("left").exists()


@pytest.mark.prove
def test_the_folders_of_probes_are_removed_with_their_client(tmp_path: Path) -> None:
    with LocalProbeClient() as new_client:
        leave = "    import os\n    print(os.getcwd())\n    open('../../left', 'w').close()\n    return 1.0, 1.0"
        report = check(with_step(tmp_path, leave), new_client, "train_step")
        folder = Path(report.results[0].printed.splitlines()[0]).parents[1]
        assert (folder / "left").exists()
    assert not folder.exists()


def test_the_file_is_imported_again_for_each_check(tmp_path: Path, client: LocalProbeClient) -> None:
    file = with_step(tmp_path, "    return None")
    assert check(file, client, "train_step").points == 0
    file.write_text(LAB.reference.read_text())
    assert check(file, client, "train_step").points == 10


def test_a_seed_repeats_the_report_and_another_seed_changes_inputs(tmp_path: Path, client: LocalProbeClient) -> None:
    file = with_step(tmp_path, "    return 0.0, 0.0")
    texts = [
        check_file(LAB, file, EXERCISES[:1], seed=seed, client=client, explain=False).results[0].text
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]
    assert re.fullmatch(r"the loss is 0.000000; expected \d+\.\d{6}\.", texts[0])


def test_patching_torch_gains_no_points(tmp_path: Path, client: LocalProbeClient) -> None:
    top = "torch.equal = torch.allclose = lambda *a, **k: True\nclass Any(float):\n    __eq__ = lambda a, b: True"
    report = check(with_step(tmp_path, "    return Any(1.0)", top), client, "train_step")
    assert report.points == 0


def test_answers_survive_encoding_and_other_objects_are_refused() -> None:
    answers = {"a": None, "b": True, "c": 1, "d": float("inf"), "e": "x", "f": [1.5, None], "g": np.eye(2)}
    decoded = decode(encode(answers))
    assert all(equal(decoded[name], value) for name, value in answers.items())
    with pytest.raises(TypeError):
        encode({"a": object()})
    with pytest.raises(TypeError):
        encode({"a": np.array([object()])})
    evil = b'{"a": {"npy": "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA10b3VjaCAvdG1wL3ptlIWUUpQu"}}'
    lists = b'{"a": [' + b"[]," * 200_000 + b"[]]}"  # 3 bytes per list in the message, about 100 bytes in memory
    for data in (b"", b"[]", b"{", b'{"a": {"npy": 3}}', b'{"a": {}}', evil, b'{"a": ' + b"[" * 100_000, lists):
        with pytest.raises(AnswerError):
            decode(data)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.001, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (1.0, float("inf"), False),
        (True, 1, False),
        ("1", 1, False),
        (None, 0, False),
        (np.zeros(3), np.zeros(4), False),
        (np.zeros(3), [0, 0, 0], False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], True),
    ],
)
def test_comparison_of_answers_respects_their_types(first: object, second: object, same: bool) -> None:
    assert equal(first, second, 1e-9) is same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f():\n    ### BEGIN SOLUTION\n    pass\n", r"a.py, line 2: ### BEGIN SOLUTION is not closed"),
        ("def f():\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    x\n", r"a.py, line 3: a second .* line 2, is"),
        ("def f(:\n", r"a.py, line 1: invalid syntax"),
        ("def f():\n    pass\n    ### END SOLUTION\n", r"a.py, line 3: ### END SOLUTION without"),
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n", r"a.py, line 1: .* is not inside a function"),
        ("def f():\n    # BEGIN SOLUTION\n    pass\n", r"a.py, line 2: a marker must be a line of its own"),
    ],
)
def test_malformed_markers_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        stub(file, "02")


CHANGES = {
    "a function": ("import torch\ntorch.equal = lambda *_: True", "torch.equal"),
    "a method": ("import torch\ntorch.Tensor.__eq__ = lambda *_: True", r"torch.Tensor.__eq__"),
    "a counter": (
        "import rankzero.learn.distributed.collectives as c\nc.CollectiveCounter.__enter__ = 0",
        "CollectiveCounter.__enter__",
    ),
    "a method of an object": ("import random\nrandom._inst.shuffle = print", "random._inst.shuffle"),
    "what empties a folder": ("import shutil\nshutil.rmtree = print", "shutil.rmtree"),
    "what learns of an end": ("import weakref\nweakref.finalize = print", "weakref.finalize"),
    "what finds tensors": ("import torch.utils._pytree as p\np.tree_iter = print", "torch.utils._pytree.tree_iter"),
    "its code": ("import torch.nn.functional as F\nF.cross_entropy.__code__ = F.nll_loss.__code__", "cross_entropy"),
    "a module": ("import sys\nsys.modules['rankzero.learn.models.gpt'] = sys", "rankzero.learn.models.gpt"),
    "the probes": ("import sys\nf = sys._getframe()\nwhile 'probes' not in f.f_locals: f = f.f_back\n"
                   "f.f_locals['probes'].one_step = lambda *_: {}", "the probes.one_step"),
    "what the check says": (
        "import torch\nfrom rankzero.exercises.probes.tamper_check import TamperCheck\n"
        "TamperCheck.changed = TamperCheck.hidden = lambda self: ''\ntorch.equal = print",
        "a function of torch or of the probes",
    ),
    "the code of the check": (
        "import torch\nfrom rankzero.exercises.probes.tamper_check import TamperCheck\n"
        "TamperCheck.changed.__code__ = TamperCheck.hidden.__code__ = (lambda self: '').__code__\ntorch.equal = print",
        "a function of torch or of the probes",
    ),
    "the class of a module": (
        "import torch, types\ntorch.__class__ = type('Torch', (types.ModuleType,), {})", "torch, which",
    ),
    "a default value": (
        "import torch\nf = torch.nn.functional.cross_entropy\nf.__defaults__ = tuple(f.__defaults__)[:-1] + (9.0,)",
        "cross_entropy",
    ),
    "what a wrapper calls": (
        "import torch\ncells = torch.optim.AdamW.step.__closure__\n"
        "next(c for c in cells if callable(c.cell_contents)).cell_contents = print",
        "Adam.step",
    ),
    "the default dtype": ("import torch\ntorch.set_default_dtype(torch.float64)", "default dtype: put it back"),
    "the default device": ("import torch\ntorch.set_default_device('meta')", "default device or function mode: put it"),
    "saved tensors": (
        "import torch\ntorch.autograd.graph.saved_tensors_hooks(abs, abs).__enter__()", "hooks on saved tensors: put",
    ),
    "all modules": (
        "import torch\ntorch.nn.modules.module.register_module_forward_hook(lambda *_: None)", "global forward hooks",
    ),
    "all optimizers": (
        "import torch\nfrom torch.optim.optimizer import register_optimizer_step_pre_hook as f\nf(lambda *_: None)",
        "global optimizer pre hooks: put it back",
    ),
    "what functions of torch do": (
        "import torch\nclass Mode(torch.overrides.TorchFunctionMode):\n    pass\nMode().__enter__()",
        "function mode: put it back",
    ),
    "autocast": ("import torch\ntorch.set_autocast_enabled('cpu', True)", "autocast on the CPU: put it back"),
    "anomaly mode": ("import torch\ntorch.autograd.set_detect_anomaly(True)", "anomaly mode: put it back"),
    "the trace of Python": ("import sys\nsys.setprofile(lambda *_: None)", "Python's profile function: put it back"),
}  # fmt: skip


SAMPLE = {  # a change of each kind: to a value, code, a closure, the probes, the check itself, and the state of torch
    "a function",
    "its code",
    "what a wrapper calls",
    "the probes",
    "the code of the check",
    "the default dtype",
    "all optimizers",
    "the trace of Python",
}


@pytest.mark.parametrize("target", sampled(CHANGES, SAMPLE))
def test_a_file_that_changes_a_library_gets_no_points_and_a_message(
    target: str, tmp_path: Path, client: LocalProbeClient
) -> None:
    code, name = CHANGES[target]
    indented = "".join(f"    {line}\n" for line in code.splitlines())
    for file in (with_step(tmp_path, "    return 1.0", top=code), with_step(tmp_path, indented)):
        report = check(file, client, "train_step")
        assert report.points == 0
        assert re.search(f"exercises.py changes .*{name}", report.results[0].text)


@pytest.mark.prove
def test_changes_that_torch_makes_itself_cost_no_points(tmp_path: Path, client: LocalProbeClient) -> None:
    source = LAB.reference.read_text()
    compiler = "    import torch._dynamo.config, torch.utils.checkpoint\n    torch._dynamo.is_compiling()\n"
    file = tmp_path / "exercises.py"
    place = source.index("    ", source.index('"""', source.index("def train_step") + 200) + 3)
    file.write_text(source[:place] + compiler + source[place:])
    report = check(file, client, "train_step")
    assert report.points == report.max_points


def test_a_forged_answer_line_gains_no_points(tmp_path: Path, client: LocalProbeClient) -> None:
    forged = (
        "    import json, os\n"
        "    line = json.dumps({'status': 'answered', 'answers': '{}'}).encode() + b'\\n'\n"
        "    for fd in range(3, 64):\n"
        "        try: os.write(fd, line)\n"
        "        except OSError: pass\n"
        "    os._exit(0)"
    )
    report = check(with_step(tmp_path, forged), client, "train_step")
    assert report.points == 0
    assert report.results[0].text == "the process ended without an answer"


def test_a_flood_of_lines_does_not_extend_the_time_limit(tmp_path: Path, client: LocalProbeClient) -> None:
    flood = (
        "    import os\n"
        "    while True:\n"
        "        for fd in range(3, 64):\n"
        "            try: os.write(fd, b'\\n')\n"
        "            except OSError: pass"
    )
    report = check(with_step(tmp_path, flood), client, "train_step", exercises=HURRIED)
    assert {result.status for result in report.results} == {"timeout", "skipped"}
