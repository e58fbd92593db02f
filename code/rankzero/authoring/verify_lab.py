"""Gates of one lab: what must hold before it is finished, each with one sentence per failure and the way out.

`rankzero verify-lab NN` runs them. They are the depth of `make test` for this lab: one seed for each known-wrong
solution; `make prove` tries more seeds and every changed line.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rankzero.authoring.new_lab import instructions
from rankzero.claims.measurements import read_measurements
from rankzero.claims.page_links import bare_figures, claim_links, differing_numbers
from rankzero.claims.registry import all_claims
from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import changed_reference, known_wrong, wrong_file
from rankzero.exercises.checks.page_headings import page_headings
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.report import Report
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.loader import load
from rankzero.exercises.study.mine import used_exercises
from rankzero.exercises.study.starter_process import replacements
from rankzero.publish import notebooks
from rankzero.publish.figure_blocks import missing_figures
from rankzero.publish.stubs import stub
from rankzero.publish.sync import sync_lab

SEED = 1
HEADINGS = (
    *("Concept Goal", "Mental Model", "Starter Files", "Annotated Code Preview", "Line-by-line Explanation"),
    *("What to Notice", "Exercises", "Break It", "Common Misunderstandings", "Interview Explanation"),
    *("Additional Intuition", "Further Reading"),
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one gate: its failures, a sentence each, and the seconds that it took."""

    gate: str
    failures: tuple[str, ...]
    seconds: float


def verify_lab(lab: Lab, progress: Callable[[str], None] = lambda gate: None) -> Iterator[Verdict]:
    """Runs every gate of `lab` and yields its verdict; `progress` is called with the name of each gate before it runs.

    A gate that cannot run because a file is broken fails with the error's sentence.
    """
    with LocalProbeClient() as client, LocalProbeClient() as second, ThreadPoolExecutor(max_workers=2) as pool:
        beside = ("hurried answers", "starter, links", "notebook")  # these run beside the others
        begun = {gate: pool.submit(_verdict, gate, lab, second) for gate in beside}
        for gate in _GATES:
            progress(gate)
            yield begun[gate].result() if gate in begun else _verdict(gate, lab, client)


def _verdict(gate: str, lab: Lab, client: LocalProbeClient) -> Verdict:
    start = time.monotonic()
    try:
        failures = tuple(_GATES[gate](lab, client))
    except (UserError, OSError, RuntimeError) as error:  # RuntimeError: a notebook's kernel that dies
        failures = (f"{error}",)
    return Verdict(gate, failures, time.monotonic() - start)


def wrong_headings(page: str) -> str:
    """Returns what is wrong with the headings of a lab's page, in a sentence; empty if nothing is."""
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    if headings == list(HEADINGS):
        return ""
    missing = [heading for heading in HEADINGS if heading not in headings]
    unknown = [heading for heading in headings if heading not in HEADINGS]
    if missing:
        return f"the heading '## {missing[0]}' is missing"
    return f"the heading '## {unknown[0]}' is not one of a lab's" if unknown else "the headings are in another order"


def _files(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    required = [lab.page, lab.folder / "README.md", lab.notebook_source, lab.reference, lab.known_wrong, lab.claims]
    required += [lab.probes, lab.checks, lab.tests / "right_answers.py", lab.tests / "test_starter.py"]
    for file in required:
        if not file.is_file():
            yield f"{_name(lab, file)} is missing: write it, as the other labs have it."
    if lab.page.is_file() and (trouble := wrong_headings(lab.page.read_text(encoding="utf-8"))):
        yield f"{_name(lab, lab.page)}: {trouble}: the headings are {', '.join(HEADINGS)}."
    if (lines := len(lab.starter.read_text(encoding="utf-8").splitlines())) > 250:
        yield f"{_name(lab, lab.starter)} has {lines} lines: shorten it to 250, which can be read in one sitting."


def _figures(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    """The page has two figures or more, and a picture in Concept Goal."""
    if lack := missing_figures(lab.page.read_text(encoding="utf-8")):
        way_out = f"draw it in {_name(lab, lab.figures)}: see 'Add a figure' in CONTRIBUTING.md"
        yield f"{_name(lab, lab.page)} {lack}: {way_out}."


def _instructions(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    for file, line, text in instructions(lab):
        yield f"{_name(lab, file)}, line {line}: write {text}; remove the line."


def _break_it(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    """Each diff of the lab's Break It applies to the files as they are."""
    for diff in sorted(lab.folder.glob("*.diff")):
        command = ["git", "apply", "--check", str(diff)]
        tried = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, check=False)
        if tried.returncode:
            reason = tried.stderr.strip().splitlines()[0].removeprefix("error: ")
            yield f"{_name(lab, diff)} does not apply ({reason}): make the change again, and write it with git diff."


def _generated(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    for file in sync_lab(lab, check=True):
        yield f"{_name(lab, file)} differs from its source: run `make sync`."


def _exercises(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    """Each exercise has its hints, known-wrong solutions and place on the page; names are unique."""
    page, checks = lab.page.read_text(encoding="utf-8"), _name(lab, lab.checks)
    exercises = exercises_of(lab)
    if not exercises:
        yield f"{checks} has no exercise: add one to EXERCISES."
    names = [check.name for exercise in exercises for check in exercise.checks]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{checks}: two checks are named {name}: rename one."
    for exercise in exercises:
        for check in exercise.checks:
            for unknown in set(check.requires) - set(names):
                yield f"{checks}: {check.name} requires {unknown}, which is no check: correct the name."
        if len(exercise.hints) < 2:
            yield f"{checks}: {exercise.name} has {len(exercise.hints)} hints: write two or more."
        wrong = [solution for solution in known_wrong(lab).values() if solution.exercise == exercise.name]
        if len(wrong) < 2:
            yield f"{_name(lab, lab.known_wrong)}: {exercise.name} has {len(wrong)} known-wrong solutions: write two."
        for block in ("facts", "hints"):
            if f"<!-- {block}: {exercise.name} -->" not in page:
                block_lines = f"<!-- {block}: {exercise.name} --> and <!-- /{block} -->"
                yield f"{_name(lab, lab.page)}: add the lines {block_lines} below the heading of {exercise.name}."
    for solution in known_wrong(lab).values():
        page_name, anchor = solution.read.partition("#")[::2]
        if anchor not in page_headings(lab.root / page_name):
            yield f"{_name(lab, lab.known_wrong)}: {solution.name}: there is no heading {solution.read}: correct it."


def _reference(lab: Lab, client: LocalProbeClient) -> Iterator[str]:
    for exercise in exercises_of(lab):
        for result in _check(lab, lab.reference, exercise, client).results:
            if result.status != "pass":
                yield f"the reference loses {result.check} ({result.text}): correct the reference, probe or judge."


def _stub(lab: Lab, client: LocalProbeClient) -> Iterator[str]:
    if lab.stubs.read_text(encoding="utf-8") != stub(lab.reference, lab.number):
        yield f"{_name(lab, lab.stubs)} differs from its source: run `make sync`."
        return
    for exercise in exercises_of(lab):
        for result in _check(lab, lab.stubs, exercise, client).results:
            named = any(f"{name} is not written yet" in result.text for name in exercise.functions)
            if result.status != "fail" or not named:
                yield f"{result.check} does not fail on the untouched stub by naming {exercise.name}: {result.text}"


def _known_wrong(lab: Lab, client: LocalProbeClient) -> Iterator[str]:
    for exercise in exercises_of(lab):
        solutions = [solution for solution in known_wrong(lab).values() if solution.exercise == exercise.name]
        for solution in solutions:  # a diagnosis compares with all of them
            client.ask_ahead(lab, wrong_file(lab, solution), exercise, [SEED])
        for solution in solutions:
            report = _check(lab, wrong_file(lab, solution), exercise, client, explain=True)
            failed = {result.check for result in report.results if result.status not in ("pass", "skipped")}
            diagnosed = [diagnosis.name for diagnosis in report.diagnoses]
            if unexpected := failed - set(solution.fails):
                yield f"{solution.name} also fails {_list(unexpected)}: correct the check, or add it to `fails`."
            if passed := set(solution.fails) - failed:
                yield f"{solution.name} does not fail {_list(passed)}: correct the check, or remove it from `fails`."
            elif not unexpected and diagnosed != [solution.name]:
                yield f"{solution.name} is recognized as {_list(diagnosed)}: let its check tell the two apart."


def _hurried(lab: Lab, client: LocalProbeClient) -> Iterator[str]:
    for answer, report in _changed(lab, client, "hurried answer", load(lab.known_wrong).HURRIED, trusted=True):
        if report.points == report.max_points:
            yield f"{answer} gets all points: add a check."


def _right(lab: Lab, client: LocalProbeClient) -> Iterator[str]:
    for answer, report in _changed(lab, client, "right answer", load(lab.tests / "right_answers.py").RIGHT):
        for result in report.results:
            if result.status != "pass":
                yield f"{answer} loses {result.check} ({result.text}): correct the check."


def _changed(
    lab: Lab, client: LocalProbeClient, kind: str, changes: dict[str, dict[str, str]], *, trusted: bool = False
) -> Iterator[tuple[str, Report]]:
    """Yields the name and the report of the reference with each change. UserError for a change to no exercise."""
    exercises = {exercise.name: exercise for exercise in exercises_of(lab)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "exercises.py")
        for name, by_title in changes.items():
            if name not in exercises:
                raise UserError(f"{kind}s of {name}: there is no such exercise: correct the name.")
            for title, change in by_title.items():
                answer = f"{kind} '{title}' to {name}"
                file.write_text(changed_reference(lab, name, change, answer), encoding="utf-8")
                client.forget(file)
                if trusted:
                    client.ask_ahead(lab, file, exercises[name], [SEED])
                yield answer, _check(lab, file, exercises[name], client)


def _mine(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    """The lab's mine.py, if there is one, names functions of exercises and replaces functions that the starter has."""
    if lab.mine.is_file():
        used_exercises(lab)  # UserError for a name that is no function of an exercise
        replacements(lab, lab.reference)  # UserError for a name that the starter lacks
    yield from ()


def _tests(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    """The starter's own test, the first lines of its recordings, and the links of the lab's page and notebooks."""
    places = [str(lab.tests / "test_starter.py"), "tests/test_recordings.py", "tests/test_links.py"]
    command = [sys.executable, "-m", "pytest", "--no-header", "--tb=no", "-k", lab.slug, *places]
    environment = os.environ | {"RANKZERO_DRAFTS": "1"}  # the lab may be one
    done = subprocess.run(command, cwd=lab.root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?", done.stdout, re.MULTILINE)
        for test, trouble in failed or [(_name(lab, lab.tests), "pytest cannot run")]:
            yield f"{test} fails ({trouble or 'see its output'}): run `.venv/bin/pytest '{test}'`, correct the cause."


def _notebook(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    notebooks.execute(notebooks.without_answers(lab.notebook_source), lab.notebook)  # UserError where a cell fails
    yield from ()


def _claims(lab: Lab, _: LocalProbeClient) -> Iterator[str]:
    page, name = lab.page.read_text(encoding="utf-8"), _name(lab, lab.page)
    claims, measured = all_claims(), read_measurements()
    linked = claim_links(page)
    for slug in sorted(linked - claims.keys()):
        yield f"{name} links to claim {slug}, which does not exist: write it in {_name(lab, lab.claims)}."
    for claim in claims.values():
        if claim.page == name and claim.slug not in linked:
            yield f"claim {claim.slug} is not linked from {name}: link its number, or remove the claim."
        is_stale = claim.slug not in measured or not measured[claim.slug].counts_for(claim)
        if claim.page == name and "cuda" not in claim.needs and is_stale:
            yield f"claim {claim.slug} is not measured as it is now: run `make claims`."
    for number in differing_numbers(lab.page, claims):
        yield f"{number}: correct the number, or the claim in {_name(lab, lab.claims)}."
    for figure in bare_figures(lab.page):
        yield f"{figure}: no claim, source or recorded output stands behind this figure: link one."


_GATES: dict[str, Callable[[Lab, LocalProbeClient], Iterator[str]]] = {
    "files and headings": _files,
    "instructions": _instructions,
    "Break It": _break_it,
    "figures": _figures,
    "exercises": _exercises,
    "generated parts": _generated,
    "reference": _reference,
    "stub": _stub,
    "known-wrong solutions": _known_wrong,
    "hurried answers": _hurried,
    "right answers": _right,
    "mine": _mine,
    "claims and figures": _claims,
    "notebook": _notebook,
    "starter, links": _tests,
}


def _check(lab: Lab, file: Path, exercise: Exercise, client: LocalProbeClient, *, explain: bool = False) -> Report:
    client.ask_ahead(lab, lab.reference, exercise, [SEED])
    return check_file(lab, file, (exercise,), seed=SEED, client=client, explain=explain)


def _name(lab: Lab, file: Path) -> str:
    return str(file.relative_to(lab.root))


def _list(names: "set[str] | tuple[str, ...] | list[str]") -> str:
    return ", ".join(sorted(names)) or "nothing"
