"""New lab: every file of a lab laid out from templates, each with instructions on what to write in it.

An instruction is a line `<!-- write: … -->` or `# write: …`. A lab is written when none is left; see `verify_lab.py`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from string import Template

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.publish.lab_tables import PlannedLab, planned_labs
from rankzero.publish.sync import sync_lab

TEMPLATES = Path(__file__).parent / "templates"
INSTRUCTION = re.compile(r"^\s*(?:<!--|#) write: (?P<text>.+?)(?: -->)?$")


def new_lab(number: str, name: str, root: Path = ROOT) -> tuple[Lab, list[Path]]:
    """Lays out the files of lab `number`, two digits, and returns the lab and its files.

    UserError, before anything is written, if the number or a file exists or the name is not lower-case-with-hyphens.
    """
    if not re.fullmatch(r"\d\d", number):
        raise UserError(f"a lab's number is two digits, such as 09; it cannot be {number!r}.")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise UserError(f"a lab's name is lower-case words with hyphens between, such as input-pipeline, not {name!r}.")
    if existing := next((lab for lab in all_labs(root, drafts=True) if lab.number == number), None):
        raise UserError(f"lab {number} exists already, as {existing.slug}: choose another number, or edit its files.")
    slug, starter = f"lab-{number}-{name}", f"train_{name.replace('-', '_')}"
    title = name.replace("-", " ").capitalize()
    planned = {lab.number: lab for lab in planned_labs(root)}
    plan = planned.get(number) or PlannedLab(number, title, "Many devices", f"{title}: not written yet.")
    words = {"slug": slug, "starter": starter, **vars(plan), "heading": plan.title[0].lower() + plan.title[1:]}
    texts = {
        _destination(template, root, slug, starter): Template(template.read_text(encoding="utf-8")).substitute(words)
        for template in sorted(TEMPLATES.rglob("*.template"))
    }
    folders = [root / room / slug for room in ("code", "solutions", "tests")]
    if existing_path := next((path for path in [*folders, *texts] if path.exists()), None):
        raise UserError(f"{existing_path} exists already: remove it or choose another name; nothing was written.")
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    lab = find_lab(number, root)
    return lab, sorted({*texts, *sync_lab(lab, executed=False)})


def instructions(lab: Lab) -> Iterator[tuple[Path, int, str]]:
    """Yields file, line and text of each instruction left in a lab's files, in the order in which a lab is written."""
    files = [lab.folder / "lab.toml", lab.starter, lab.reference, lab.mine, lab.probes, lab.checks, lab.known_wrong]
    files += [lab.tests / "right_answers.py", lab.page, lab.claims, lab.figures]
    files += [lab.notebook_source, lab.tests / "test_starter.py", lab.folder / "README.md"]
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.exists() else [], start=1):
            if instruction := INSTRUCTION.match(line):
                yield file, number, instruction["text"]


def _destination(template: Path, root: Path, slug: str, starter: str) -> Path:
    """Returns the file that a template becomes: templates/ has the repository's folders."""
    room, name = template.relative_to(TEMPLATES).with_suffix("").parts
    if room == "labs":
        return root / "labs" / f"{slug}.md"
    return root / room / slug / (f"{starter}.py" if name == "starter.py" else name)
