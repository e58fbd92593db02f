"""The curriculum is whole: every lab has its files, every page its sections, and a bad manifest says where."""

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import draft_labs
import pytest

from rankzero.curriculum import ROOT, Grading, Lab, LatePolicy, all_labs, find_lab
from rankzero.errors import UserError

LABS = all_labs()
SECTIONS = [
    "Concept Goal",
    "Mental Model",
    "Starter Files",
    "Annotated Code Preview",
    "Line-by-line Explanation",
    "What to Notice",
    "Exercises",
    "Break It",
    "Common Misunderstandings",
    "Interview Explanation",
    "Additional Intuition",
    "Further Reading",
]
GOOD = """
title = "T"
part = "One device"
summary = "S"
starter = "train.py"
chapters = ["c"]
minutes = 10
difficulty = "beginner"
needs = ["cpu"]
"""


def each_lab() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)


def test_there_are_labs() -> None:
    assert LABS


@each_lab()
def test_a_lab_has_its_files(lab: Lab) -> None:
    files = [lab.page, lab.folder / "README.md", lab.starter, lab.notebook, lab.notebook_source]
    missing = [file for file in [*files, lab.notebook_source.with_suffix(".ipynb")] if not file.is_file()]
    assert not missing


@each_lab()
def test_a_page_has_its_sections_in_order(lab: Lab) -> None:
    has_exercises = (lab.solutions / "exercises.py").exists()
    headings = re.findall(r"^## (.+)$", lab.page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [section for section in SECTIONS if has_exercises or section != "Exercises"]


@each_lab()
def test_a_starter_is_read_in_one_sitting(lab: Lab) -> None:
    assert len(lab.starter.read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize("chapter", sorted({chapter for lab in LABS for chapter in lab.chapters}), ids=lambda c: c.stem)
def test_a_chapter_opens_with_a_question_and_ends_with_what_to_do(chapter: Path) -> None:
    text = chapter.read_text(encoding="utf-8")
    assert re.match(r"# .+\n\n> \*\*[^*]+\?\*\*(?: <!-- given -->)?\n", text)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    ending = [heading for heading in headings[headings.index("Takeaway") :] if not heading.startswith("Appendix")]
    assert ending in (["Takeaway", "Problems", "Quiz", "Next step"], ["Takeaway", "Quiz", "Next step"])
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE))
    assert re.fullmatch(r"\*\*[^*]*\d[^*]*\*\*", sections["Takeaway"].strip()), "one bold sentence with a number"
    assert sections["Quiz"].count("<details>") == sections["Quiz"].count("</details>") == 5
    assert sections.get("Problems", "<details>" * 4).count("<details>") in range(4, 7)


@pytest.mark.parametrize("name", ["2", "02", "lab-02", "lab-02-single-gpu-training"])
def test_a_lab_is_found_by_any_of_its_names(name: str) -> None:
    assert find_lab(name).slug == "lab-02-single-gpu-training"


def test_a_draft_is_found_by_its_number_and_left_out_of_all_labs(tmp_path: Path) -> None:
    make(tmp_path, GOOD)
    make(tmp_path, f"draft = true\n{GOOD}", "lab-06-y")
    assert [lab.slug for lab in all_labs(tmp_path)] == ["lab-05-x"]
    assert [lab.slug for lab in all_labs(tmp_path, drafts=True)] == ["lab-05-x", "lab-06-y"]
    assert find_lab("06", tmp_path).draft


def test_tests_leave_out_the_files_of_drafts_alone() -> None:
    for lab in all_labs(drafts=True):
        files = (lab.page, lab.notebook, lab.solutions / "notebook.ipynb", lab.tests / "test_starter.py")
        assert {draft_labs.is_left_out(file) for file in files} == {lab.draft}, lab.slug


def test_an_unknown_lab_names_those_there_are() -> None:
    with pytest.raises(UserError, match=r"there is no lab '99': the labs are .*02"):
        find_lab("99")


def make(root: Path, manifest: str, slug: str = "lab-05-x") -> Path:
    folder = root / "code" / slug
    folder.mkdir(parents=True)
    (root / "handbook").mkdir(exist_ok=True)
    (root / "handbook" / "c.md").touch()
    (folder / "train.py").touch()
    (folder / "lab.toml").write_text(manifest)
    return root


def test_a_good_manifest(tmp_path: Path) -> None:
    (lab,) = all_labs(make(tmp_path, GOOD))
    assert (lab.number, lab.title, lab.minutes, lab.needs) == ("05", "T", 10, ("cpu",))
    assert lab.page == tmp_path / "labs" / "lab-05-x.md"
    assert lab.grading == Grading(LatePolicy(percent_per_day=0, max_days=None, grace_hours=0), "visible")


def test_a_manifest_may_say_how_it_is_graded(tmp_path: Path) -> None:
    table = '[grading]\nvisibility = "after_published"\n[grading.late]\npercent_per_day = 2.5\nmax_days = 3\n'
    (lab,) = all_labs(make(tmp_path, GOOD + table))
    assert lab.grading == Grading(LatePolicy(2.5, 3), "after_published")


@each_lab()
def test_no_manifest_repeats_a_default_of_grading(lab: Lab) -> None:
    table = tomllib.loads((lab.folder / "lab.toml").read_text(encoding="utf-8")).get("grading", {})
    defaults = asdict(Grading())
    assert [key for key, value in table.items() if value == defaults[key]] == []
    assert [key for key, value in table.get("late", {}).items() if value == defaults["late"][key]] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('title = "T"', ""), r"code/lab-05-x/lab.toml: key 'title' is missing"),
        (("minutes = 10", 'minutes = "10"'), r"lab.toml: key 'minutes' is '10'; it must be a valid integer"),
        (("minutes = 10", "minutes = true"), r"key 'minutes' is True; it must be a valid integer"),
        (("minutes = 10", "minutes = 0"), r"key 'minutes' is 0; it must be greater than or equal to 1"),
        (('["cpu"]', '["gpu"]'), r"key 'needs.0' is 'gpu'; it must be 'cpu', 'cuda' or 'ranks'"),
        (('"beginner"', '"easy"'), r"key 'difficulty' is 'easy'; it must be 'beginner', 'intermediate' or 'hard'"),
        (('"One device"', '"One devise"'), r"key 'part' is 'One devise'; it must be 'Before the loop', 'One device', "),
        (('"train.py"', '"tarin.py"'), r"key 'starter' names code/lab-05-x/tarin.py, which does not exist"),
        (('["c"]', '["d"]'), r"key 'chapters' names handbook/d.md, which does not exist"),
        (
            ('part = "One device"', 'part = "One device"\npoints = 3'),
            r"key 'points' is not known; the keys are title, part",
        ),
        (('part = "One device"', 'part = "One device'), r"lab.toml: not valid TOML"),
        (("minutes = 10", "minutes = 10\ngrading = 3"), r"key 'grading' is 3; it must be a table"),
        (('["cpu"]', '["cpu"]\n[grading]\npoints = 3'), r"key 'grading.points' is not known; the keys are late, vis"),
        (
            ('["cpu"]', '["cpu"]\n[grading]\nlate = "10% a day"'),
            r"code/lab-05-x/lab.toml: key 'grading.late' is '10% a day'; it must be a table",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading.late]\npercent_a_day = 10'),
            r"lab.toml: key 'grading.late.percent_a_day' is not known; the keys are percent_per_day, max_days, grace",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading.late]\npercent_per_day = 101'),
            r"lab.toml: key 'grading.late.percent_per_day' is 101; it must be less than or equal to 100",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading.late]\npercent_per_day = nan'),
            r"lab.toml: key 'grading.late.percent_per_day' is nan; it must be less than or equal to 100",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading.late]\nmax_days = 1.5'),
            r"lab.toml: key 'grading.late.max_days' is 1.5; it must be a valid integer",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading.late]\ngrace_hours = "2 h"'),
            r"lab.toml: key 'grading.late.grace_hours' is '2 h'; it must be a valid number",
        ),
        (
            ('["cpu"]', '["cpu"]\n[grading]\nvisibility = "never"'),
            r"lab.toml: key 'grading.visibility' is 'never'; it must be 'visible', 'hidden', 'after_due",
        ),
    ],
)
def test_a_bad_manifest_names_file_and_key(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(UserError, match=said):
        all_labs(make(tmp_path, GOOD.replace(*change)))


def test_a_bad_folder_name_and_a_number_taken_twice(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its folder must be named lab-NN-name"):
        all_labs(make(tmp_path / "a", GOOD, "lab-5-x"))
    make(tmp_path / "b", GOOD, "lab-05-x")
    with pytest.raises(UserError, match=r"lab-05-y/lab.toml: lab 05 exists already, as lab-05-x"):
        all_labs(make(tmp_path / "b", GOOD, "lab-05-y"))


def test_code_holds_no_package_that_hides_the_standard_library() -> None:
    assert not (ROOT / "code" / "__init__.py").exists()
    assert not list((ROOT / "code").glob("lab-*/__init__.py"))
