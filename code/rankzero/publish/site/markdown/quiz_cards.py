"""Quiz cards: quizzes and interview questions as cards that reveal their answers.

The answers are `<details>` in the pages, so that they can be read in print and without JavaScript. quiz-cards.js
records, in the browser only, which questions the reader knew.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.curriculum import all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.markdown.foldable_details import details, summary

PROGRESS = "progress"  # the page that lists all cards
ALOUD = "Say your own answer aloud first, in a minute or so."
log = logging.getLogger(__name__)


class card(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes so
    """A question and its answer; `key` changes with the question's text."""


class deck_head(nodes.General, nodes.Element):  # noqa: N801
    """The box above the cards of a `deck`; quiz-cards.js shows in it how many questions the reader knows."""


@dataclass(frozen=True)
class Deck:
    """All cards of one page: a chapter's quiz, or a lab's interview questions."""

    page: str
    anchor: str
    title: str
    kind: str  # the anchor of the card number n is KIND-n
    keys: tuple[str, ...]  # of the cards


class MakeCards(SphinxTransform):
    """Turns the questions of a page's quiz or interview into cards."""

    default_priority = 9

    def apply(self, **_: Any) -> None:
        for section in list(self.document.findall(nodes.section)):
            title = section[0].astext()
            if title == "Quiz":
                self._make_deck(section, "quiz", list(_quiz(section)))
            elif title == "Interview Explanation":
                self._make_deck(section, "interview", list(_interview(section, self.document)))

    def _make_deck(self, section: nodes.section, kind: str, pairs: list[tuple[list[nodes.Node], details]]) -> None:
        """Puts each question, a list of nodes, and its answer into a card, and the deck's head above the cards."""
        keys = []
        for number, (question, answer) in enumerate(pairs, 1):
            text = " ".join(" ".join(node.astext() for node in question).split())
            keys.append(hashlib.sha256(text.encode()).hexdigest()[:8])
            box = card(ids=[f"{kind}-{number}"], key=keys[-1], label=f"Question {number}", classes=["card", kind])
            answer.replace_self(box)
            for node in question:
                if node.parent:
                    node.parent.remove(node)
            answer["classes"] = ["answer"]
            box += [nodes.container("", *question, classes=["card-face"]), answer]
        deck = Deck(self.env.docname, section["ids"][0], self.document[0][0].astext(), kind, tuple(keys))
        section.insert(1, deck_head(deck=deck))
        self.env.metadata[deck.page]["rankzero_deck"] = deck


def _quiz(section: nodes.section) -> Iterator[tuple[list[nodes.Node], details]]:
    """Yields each question and its answer; a question is all nodes between two answers."""
    question: list[nodes.Node] = []
    for node in list(section)[1:]:
        if isinstance(node, details):
            yield question, node
            question = []
            continue
        if not question:
            number = next(iter(node.findall(nodes.strong)), None)
            if number is None or not re.fullmatch(r"\d+\.", number.astext()):
                log.warning("a question of a quiz begins with its number, as in **1.**", location=node)
            else:
                number.parent.remove(number)  # the card's label has the number
        question.append(node)


def _interview(section: nodes.section, document: nodes.document) -> Iterator[tuple[list[nodes.Node], details]]:
    """Yields the first question with its spoken answer, a block quote; then each question in its answer's summary."""
    for node in list(section)[1:]:
        if isinstance(node, nodes.block_quote):
            question = section[section.index(node) - 1]
            if not isinstance(question, nodes.paragraph):  # the question is the quote at the top of the lab's page
                question = next(document.findall(nodes.block_quote))[0].deepcopy()
            answer = details("", summary("", "A spoken answer"))
            node.replace_self(answer)
            answer += node
            yield [question, nodes.paragraph("", ALOUD, classes=["card-note"])], answer
        elif isinstance(node, details):
            question = node[0]
            node.replace(question, summary("", "Answer"))
            yield [nodes.paragraph("", "", *question.children)], node


def _visit_card(html: HTML5Translator, node: card) -> None:
    label = f"{node['ids'][0]}-label"
    attributes = {"role": "group", "aria-labelledby": label, "data-card": node["key"]}
    html.body.append(html.starttag(node, "div", **attributes))
    html.body.append(f'<p class="card-label" id="{label}">{node["label"]}</p>\n')


def _visit_head(html: HTML5Translator, node: deck_head) -> None:
    progress = html.builder.get_relative_uri(html.builder.current_docname, PROGRESS)
    context = {"deck": node["deck"], "here": "", "progress": progress}
    html.body.append(html.builder.templates.render("quiz-deck.html", context))
    raise nodes.SkipNode


def _progress_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields the page of all decks: chapters in the order of the handbook's map, then labs."""
    groups: dict[str, list[Deck]] = {}
    for heading, files in (("Chapters", page_names.chapters()), ("Labs", [lab.page for lab in all_labs()])):
        decks = (app.env.metadata[page_names.name_of(file)].get("rankzero_deck") for file in files)
        groups[heading] = [deck for deck in decks if deck]
    yield PROGRESS, {"title": "Your progress", "groups": groups}, "quiz-progress.html"


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.setup_extension("rankzero.publish.site.markdown.foldable_details")
    app.add_node(card, html=(_visit_card, lambda html, node: html.body.append("</div>\n")))
    app.add_node(deck_head, html=(_visit_head, None))
    app.add_transform(MakeCards)
    app.connect("html-collect-pages", _progress_page)
    app.add_css_file("quiz-cards.css")
    app.add_js_file("quiz-cards.js", loading_method="defer")
