"""Cards on the site: each question is a card with a folded answer, and the browser stores the reader's marks."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import BrowserContext, Locator, Page, expect
from sphinx.application import Sphinx
from tiers import sampled

from rankzero.curriculum import ROOT, all_labs, find_lab
from rankzero.publish.site import npm_packages
from rankzero.publish.site.markdown import quiz_cards
from rankzero.publish.site.page_names import chapters, name_of

LABS = [lab.page for lab in all_labs()]
QUIZZES = [chapter for chapter in chapters() if "\n## Quiz\n" in chapter.read_text(encoding="utf-8")]
QUOTING = next(page for page in QUIZZES if re.search(r"^\*\*1\.\*\* .*`", page.read_text("utf-8"), re.MULTILINE))
FOLDED = [page for page in [*chapters(), *LABS] if "<details>" in page.read_text(encoding="utf-8")]
CHAPTER, LAB = "handbook/training-loop.html", f"{name_of(find_lab('01').page)}.html"
SAMPLE = {ROOT / "handbook/training-loop.md", find_lab("01").page}


def soup_of(site: Path, source: Path) -> BeautifulSoup:
    return BeautifulSoup((site / f"{name_of(source)}.html").read_text(encoding="utf-8"), "html.parser")


def plain(markdown: str) -> str:
    """Returns the letters of a line of markdown, without markup and formulas."""
    text = re.sub(r"<!--.*?-->|\$[^$]*\$|\]\([^)]*\)", "", markdown, flags=re.DOTALL)
    return "".join(re.findall(r"[a-z]", text.lower()))


def letters(html: BeautifulSoup) -> str:
    """Returns the letters that a part of a page shows, without formulas."""
    for formula in html.select(".math"):
        formula.decompose()
    return "".join(re.findall(r"[a-z]", html.get_text().lower()))


def section(source: Path, heading: str) -> str:
    text = source.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


CARDS = len(re.findall(r"^\*\*\d+\.\*\* ", section(ROOT / "handbook/training-loop.md", "Quiz"), re.MULTILINE))


# ---- content of the pages


@pytest.mark.parametrize("source", sampled(QUIZZES, SAMPLE), ids=[page.stem for page in QUIZZES])
def test_every_quiz_question_is_a_card_with_its_answer(site: Path, source: Path) -> None:
    shape = r"\*\*\d+\.\*\* (.*?)\n\n<details><summary>Answer</summary>\n(.*?)</details>"
    questions = re.findall(shape, section(source, "Quiz"), re.DOTALL)
    cards = soup_of(site, source).select("#quiz .card")
    assert [card["id"] for card in cards] == [f"quiz-{number + 1}" for number in range(len(questions))]
    assert questions
    for card, (question, answer) in zip(cards, questions, strict=True):
        face, folded = card.select_one(".card-face"), card.select_one("details")
        assert letters(face) == plain(question)
        assert folded.find("summary").extract().get_text() == "Answer"
        assert letters(folded) == plain(answer)


@pytest.mark.parametrize("source", sampled(LABS, SAMPLE), ids=[page.stem for page in LABS])
def test_every_interview_question_is_a_card_with_its_answer(site: Path, source: Path) -> None:
    text = section(source, "Interview Explanation")
    follow_ups = re.findall(r"<details><summary>(.*?)</summary>\n(.*?)</details>", text, re.DOTALL)
    quoted = re.search(r"^\*\"(.*)\"\*$", text, re.MULTILINE)
    opening = re.search(r"^> \*\*(.*)\*\*$", source.read_text(encoding="utf-8"), re.MULTILINE)
    first = quoted or opening  # without a question here, the answer is to the lab's opening question
    spoken_answer = "\n".join(line for line in text.splitlines() if line.startswith(">"))
    assert first is not None
    cards = soup_of(site, source).select("#interview-explanation .card")
    assert len(cards) == 1 + len(follow_ups)
    for card, (question, answer) in zip(cards, [(first[1], spoken_answer), *follow_ups], strict=True):
        face, folded = card.select_one(".card-face p"), card.select_one("details")
        assert letters(face) == plain(question)
        folded.find("summary").extract()
        assert letters(folded) == plain(answer)


@pytest.mark.parametrize("source", sampled(FOLDED, SAMPLE), ids=[page.stem for page in FOLDED])
def test_the_site_folds_the_same_parts_as_github(site: Path, source: Path) -> None:
    count = source.read_text(encoding="utf-8").count("<details>")
    spoken = source in LABS  # the spoken answer is a quote on GitHub
    folded = soup_of(site, source).select("article details")
    assert len(folded) == count + spoken
    assert all(details.find("summary", recursive=False) for details in folded)
    assert not any(details.has_attr("open") for details in folded)


def test_code_in_a_question_is_code(site: Path) -> None:
    questions = re.findall(r"^\*\*\d+\.\*\* (.*)$", section(QUOTING, "Quiz"), re.MULTILINE)
    code = re.findall(r"`([^`]+)`", "\n".join(questions))
    shown = [part.get_text() for part in soup_of(site, QUOTING).select("#quiz .card-face code")]
    assert shown
    assert set(shown) <= set(code)


def test_the_list_of_all_cards_links_to_each_card(site: Path) -> None:
    soup = BeautifulSoup((site / "progress.html").read_text(encoding="utf-8"), "html.parser")
    links = [str(link["href"]) for link in soup.select(".deck-chips a")]
    card = re.compile(r'<div [^>]*class="card [^>]* id="([^"]+)"')
    cards = [
        f"{name_of(source)}.html#{anchor}"
        for source in [*QUIZZES, *LABS]
        for anchor in card.findall((site / f"{name_of(source)}.html").read_text(encoding="utf-8"))
    ]
    assert sorted(links) == sorted(cards)


# ---- use of the cards


def card_of(page: Page, place: int) -> Locator:
    return page.locator(".card").nth(place)


def mark(page: Page, place: int, name: str) -> None:
    card = card_of(page, place)
    if card.locator("details").get_attribute("open") is None:
        card.locator("summary").click()
    card.get_by_role("button", name=name).click()


@pytest.fixture
def quiz(site: Path, page: Page) -> Page:
    page.goto((site / CHAPTER).as_uri())
    return page


def test_answers_are_folded_and_marks_are_counted_and_survive_a_reload(quiz: Page) -> None:
    status, first = quiz.locator("#quiz").get_by_role("status"), card_of(quiz, 0)
    expect(status).to_have_text(f"0 of {CARDS} known")
    expect(first.locator("details > p").first).to_be_hidden()
    expect(first.get_by_role("button")).to_have_count(0)
    mark(quiz, 0, "I knew it")
    expect(first.locator("details > p").first).to_be_visible()
    expect(first.get_by_role("button", name="I knew it")).to_have_attribute("aria-pressed", "true")
    mark(quiz, 1, "Not yet")
    expect(status).to_have_text(f"1 of {CARDS} known, 1 to repeat")
    quiz.reload()
    expect(status).to_have_text(f"1 of {CARDS} known, 1 to repeat")
    expect(first.locator(".card-label")).to_contain_text("known")
    expect(card_of(quiz, 1).locator(".card-label")).to_contain_text("to repeat")
    expect(first.locator("details > p").first).to_be_hidden()  # so that the reader can try again


def test_a_mark_can_be_changed_and_taken_back(quiz: Page) -> None:
    status = quiz.locator("#quiz").get_by_role("status")
    mark(quiz, 0, "Not yet")
    mark(quiz, 0, "I knew it")
    expect(status).to_have_text(f"1 of {CARDS} known")
    mark(quiz, 0, "I knew it")
    expect(status).to_have_text(f"0 of {CARDS} known")


def test_links_point_to_the_next_card_to_repeat(quiz: Page) -> None:
    head = quiz.locator("#quiz .deck")
    expect(head.locator(".deck-next")).to_be_hidden()
    mark(quiz, 0, "I knew it")
    expect(card_of(quiz, 0).get_by_role("link", name="Next: question 2")).to_be_visible()
    expect(head.get_by_role("link", name="Next: question 2")).to_be_visible()
    mark(quiz, 3, "Not yet")
    head.get_by_role("link", name="Repeat question 4").click()
    expect(quiz).to_have_url(re.compile("#quiz-4$"))
    expect(card_of(quiz, 3)).to_be_in_viewport()
    for place in range(1, CARDS):
        mark(quiz, place, "I knew it")
    expect(head.locator(".deck-next")).to_be_hidden()
    expect(card_of(quiz, CARDS - 1).locator(".card-next")).to_be_hidden()


def test_start_over_removes_all_marks(quiz: Page) -> None:
    button = quiz.get_by_role("button", name="Start over")
    expect(button).to_be_hidden()
    mark(quiz, 0, "I knew it")
    button.click()
    expect(quiz.locator("#quiz").get_by_role("status")).to_have_text(f"0 of {CARDS} known")
    expect(quiz.locator(".card details[open]")).to_have_count(0)
    expect(quiz.get_by_role("link", name="Question 1")).to_be_focused()
    quiz.reload()
    expect(quiz.locator("#quiz").get_by_role("status")).to_have_text(f"0 of {CARDS} known")


def test_everything_can_be_done_with_the_keyboard(quiz: Page) -> None:
    press = quiz.keyboard.press
    quiz.get_by_role("link", name="All chapters and labs").focus()
    press("Tab")
    expect(card_of(quiz, 0).locator("summary")).to_be_focused()
    press("Enter")
    press("Tab")
    expect(card_of(quiz, 0).get_by_role("button", name="I knew it")).to_be_focused()
    press("Space")
    press("Tab")
    press("Tab")
    expect(card_of(quiz, 0).get_by_role("link", name="Next: question 2")).to_be_focused()
    press("Enter")
    press("Tab")
    expect(card_of(quiz, 1).locator("summary")).to_be_focused()
    expect(quiz.locator("#quiz").get_by_role("status")).to_have_text(f"1 of {CARDS} known")


@pytest.mark.prove
def test_the_page_of_all_cards_shows_the_marks(site: Path, quiz: Page) -> None:
    mark(quiz, 0, "I knew it")
    mark(quiz, 2, "Not yet")
    other = quiz.context.new_page()
    other.goto((site / LAB).as_uri())
    mark(other, 0, "I knew it")
    quiz.get_by_role("link", name="All chapters and labs").click()
    count = quiz.locator(".deck-chips a").count()
    expect(quiz.locator(".decks-total .deck-count")).to_have_text(f"2 of {count} known, 1 to repeat")
    expect(quiz.locator(f'[data-deck="{CHAPTER.removesuffix(".html")}"] .deck-count')).to_have_text(f"1 of {CARDS}")
    expect(quiz.get_by_role("link", name="Question 3, to repeat")).to_have_count(1)
    mark(other, 1, "I knew it")  # in another window
    expect(quiz.locator(".decks-total .deck-count")).to_have_text(f"3 of {count} known, 1 to repeat")
    quiz.get_by_role("link", name="Repeat question 3 of “Training loop”").click()
    expect(card_of(quiz, 2)).to_be_in_viewport()
    quiz.go_back()
    quiz.get_by_role("button", name="Start over with all").click()
    expect(quiz.locator(".decks-total .deck-count")).to_have_text(f"0 of {count} known")
    other.reload()
    expect(other.locator("#interview-explanation").get_by_role("status")).to_have_text(re.compile(r"^0 of \d+ known$"))


@pytest.mark.parametrize("theme", sampled(["light", "dark"], {"light"}))
def test_axe_finds_no_violation_in_cards_and_their_list(site: Path, page: Page, theme: str) -> None:
    """The cards are in every state: known, to repeat, and not marked."""
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    for name, part in ((CHAPTER, "#quiz"), ("progress.html", "article")):
        page.goto((site / name).as_uri())
        if name == CHAPTER:
            mark(page, 0, "I knew it")
            mark(page, 1, "Not yet")
        page.add_script_tag(path=npm_packages.path("axe-core/axe.min.js"))
        violations = page.evaluate("part => axe.run(part, {preload: false})", part)["violations"]
        assert [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in violations] == []


REFUSE_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("no", "SecurityError"); }
})"""


def test_cards_work_in_a_browser_without_storage_and_warn_about_it(
    site: Path, new_context: Callable[..., BrowserContext]
) -> None:
    page = new_context().new_page()  # not the fixture `page`: the theme's own script has an error here
    page.add_init_script(REFUSE_STORAGE)
    page.goto((site / CHAPTER).as_uri())
    mark(page, 0, "I knew it")
    mark(page, 1, "Not yet")
    status = page.locator("#quiz").get_by_role("status")
    expect(status).to_contain_text(f"1 of {CARDS} known, 1 to repeat")
    expect(status).to_contain_text("this browser stores no marks")


@pytest.mark.parametrize("stored", ["not json", "null", "[]", '{"handbook/training-loop": 3}', '"text"'])
def test_stored_data_of_another_form_is_ignored(site: Path, page: Page, stored: str) -> None:
    page.goto((site / CHAPTER).as_uri())
    page.evaluate("stored => localStorage.setItem('rankzero-cards', stored)", stored)
    page.reload()
    mark(page, 0, "I knew it")
    expect(page.locator("#quiz").get_by_role("status")).to_have_text(f"1 of {CARDS} known")
    page.reload()
    expect(page.locator("#quiz").get_by_role("status")).to_have_text(f"1 of {CARDS} known")


def test_hints_are_shown_one_at_a_time(site: Path, page: Page) -> None:
    page.goto((site / LAB).as_uri())
    hints = page.locator("details.hints").first
    items, count = hints.get_by_role("listitem"), hints.locator("li").count()
    assert count > 1
    hints.locator("summary").click()
    expect(items).to_have_count(1)
    hints.get_by_role("button", name=f"Next hint ({count - 1} left)").click()
    expect(items).to_have_count(2)
    expect(items.nth(1)).to_be_focused()
    for shown in range(3, count + 1):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(items).to_have_count(shown)
    expect(hints.get_by_role("button")).to_have_count(0)


def test_each_exercise_links_its_solution_and_prints_none(site: Path, page: Page) -> None:
    page.goto((site / LAB).as_uri())
    links = page.get_by_role("link", name="A solution")
    expect(links).to_have_count(page.locator("details.hints").count())
    expect(page.locator("article pre", has_text="BEGIN SOLUTION")).to_have_count(0)
    links.first.click()
    expect(page.locator("body")).to_contain_text("BEGIN SOLUTION")


def test_a_printed_page_shows_all_folded_parts(site: Path, page: Page) -> None:
    for name in (CHAPTER, LAB):
        page.goto((site / name).as_uri())
        page.emulate_media(media="print")
        for text in page.locator("article details > :not(summary, button, .card-marks)").all():
            assert text.evaluate("element => element.checkVisibility({contentVisibilityAuto: true})")
        for hint in page.locator("details.hints li").all():
            expect(hint).to_be_visible()
        expect(page.locator(".card-marks:visible")).to_have_count(0)


def test_without_scripts_all_folded_parts_can_be_read(site: Path, new_context: Callable[..., BrowserContext]) -> None:
    context = new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / LAB).as_uri())
    hints = page.locator("details.hints").first
    hints.locator("summary").click()
    expect(hints.get_by_role("listitem")).to_have_count(hints.locator("li").count())
    card = card_of(page, 0)
    card.locator("summary").click()
    expect(card.locator("blockquote")).to_be_visible()
    expect(page.get_by_role("button", name="Start over")).to_have_count(0)
    page.goto((site / "progress.html").as_uri())
    expect(page.get_by_role("button", name="Start over with all")).to_have_count(0)


# ---- mistakes of authors


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("## Quiz\n\n**1.** Why?\n\n<details><summary>Answer</summary>\n\nSo.\n", "'Answer' has no </details>"),
        ("## Quiz\n\nWhy?\n\n<details><summary>Answer</summary>\n\nSo.\n\n</details>\n", "begins with its number"),
    ],
)
def test_a_malformed_card_is_a_warning(tmp_path: Path, text: str, warning: str) -> None:
    (tmp_path / "index.md").write_text(f"# A page\n\n{text}")
    warnings = io.StringIO()
    settings = {
        "extensions": ["myst_parser", "rankzero.publish.site.markdown.quiz_cards"],
        "html_theme": "furo",
        "templates_path": [str(Path(quiz_cards.__file__).parents[1] / "templates")],
    }
    folders = [tmp_path, None, tmp_path / "out", tmp_path / "trees"]
    Sphinx(*folders, "html", confoverrides=settings, status=None, warning=warnings).build()
    assert warning in warnings.getvalue()
    assert "index.md:" in warnings.getvalue()
