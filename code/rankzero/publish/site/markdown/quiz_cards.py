"""Quiz cards: quizzes and interview questions as cards that reveal their answers.

The answers are `<details>` in the pages and stay so: without a script, and in print, everything can be read.
quiz-cards.js keeps in the browser, and nowhere else, which questions the reader knew.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
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
    """A question and its answer; `card` says which."""


class deck_head(nodes.General, nodes.Element):  # noqa: N801
    """Stands above the cards of a `deck`; quiz-cards.js shows there how many are known."""


@dataclass(frozen=True)
class Card:
    """A question: where it is on its page, and a key that changes when its text does."""

    anchor: str
    key: str


@dataclass(frozen=True)
class Deck:
    """The cards of one page: a chapter's quiz, or a lab's interview questions."""

    page: str
    anchor: str
    title: str
    cards: tuple[Card, ...]


class MakeCards(SphinxTransform):
    """Makes cards of the questions of a page's quiz or interview."""

    default_priority = 9

    def apply(self, **_: Any) -> None:
        for section in list(self.document.findall(nodes.section)):
            title = section[0].astext()
            if title == "Quiz":
                self._deal(section, "quiz", list(_quiz(section)))
            elif title == "Interview Explanation":
                self._deal(section, "interview", list(_interview(section, self.document)))

    def _deal(self, section: nodes.section, kind: str, found: list[tuple[list[nodes.Node], details]]) -> None:
        cards = []
        for number, (face, answer) in enumerate(found, 1):
            text = " ".join(" ".join(node.astext() for node in face).split())
            one = Card(f"{kind}-{number}", hashlib.sha256(text.encode()).hexdigest()[:8])
            shown = card(ids=[one.anchor], card=one, label=f"Question {number}", classes=["card", kind])
            answer.replace_self(shown)
            for node in face:
                if node.parent:
                    node.parent.remove(node)
            answer["classes"] = ["answer"]
            shown += [nodes.container("", *face, classes=["card-face"]), answer]
            cards.append(one)
        deck = Deck(self.env.docname, section["ids"][0], self.document[0][0].astext(), tuple(cards))
        section.insert(1, deck_head(deck=deck))
        self.env.__dict__.setdefault("rankzero_decks", {})[deck.page] = deck


def _quiz(section: nodes.section) -> Iterator[tuple[list[nodes.Node], details]]:
    """Each question and its answer: what stands between two answers is the question, from its number on."""
    face: list[nodes.Node] = []
    for node in list(section)[1:]:
        if isinstance(node, details):
            yield face, node
            face = []
            continue
        if not face:
            number = next(iter(node.findall(nodes.strong)), None)
            if number is None or not re.fullmatch(r"\d+\.", number.astext()):
                log.warning("a question of a quiz begins with its number, as in **1.**", location=node)
            else:
                number.parent.remove(number)  # the card says it
        face.append(node)


def _interview(section: nodes.section, document: nodes.document) -> Iterator[tuple[list[nodes.Node], details]]:
    """The question with its spoken answer, a block quote; then questions that are the summaries of their answers."""
    for node in list(section)[1:]:
        if isinstance(node, nodes.block_quote):
            before = section[section.index(node) - 1]
            if not isinstance(before, nodes.paragraph):  # then it answers the question with which the lab opens
                before = next(document.findall(nodes.block_quote))[0].deepcopy()
            said = details("", summary("", "A spoken answer"))
            node.replace_self(said)
            said += node
            yield [before, nodes.paragraph("", ALOUD, classes=["card-note"])], said
        elif isinstance(node, details):
            question = node[0]
            node.replace(question, summary("", "Answer"))
            yield [nodes.paragraph("", "", *question.children)], node


def decks(env: BuildEnvironment) -> list[Deck]:
    """All decks: chapters in the order of the handbook's map, then labs."""
    found: dict[str, Deck] = getattr(env, "rankzero_decks", {})
    names = [*map(page_names.name_of, page_names.chapters()), *(page_names.name_of(lab.page) for lab in all_labs())]
    return [found[name] for name in names if name in found]


def _visit_card(html: HTML5Translator, node: card) -> None:
    label = f"{node['ids'][0]}-label"
    attributes = {"role": "group", "aria-labelledby": label, "data-card": node["card"].key}
    html.body.append(html.starttag(node, "div", **attributes))
    html.body.append(f'<p class="card-label" id="{label}">{node["label"]}</p>\n')


def _visit_head(html: HTML5Translator, node: deck_head) -> None:
    progress = html.builder.get_relative_uri(html.builder.current_docname, PROGRESS)
    facts = {"deck": node["deck"], "here": "", "progress": progress}
    html.body.append(html.builder.templates.render("quiz-deck.html", facts))
    raise nodes.SkipNode


def _collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    found = decks(app.env)
    groups = {
        "Chapters": [deck for deck in found if not deck.page.startswith("labs/")],
        "Labs": [deck for deck in found if deck.page.startswith("labs/")],
    }
    yield PROGRESS, {"title": "What you know", "groups": groups}, "quiz-progress.html"


def _forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "rankzero_decks", {}).pop(docname, None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.setup_extension("rankzero.publish.site.markdown.foldable_details")
    app.add_node(card, html=(_visit_card, lambda html, node: html.body.append("</div>\n")))
    app.add_node(deck_head, html=(_visit_head, None))
    app.add_transform(MakeCards)
    app.connect("html-collect-pages", _collect)
    app.connect("env-purge-doc", _forget)
    app.add_css_file("quiz-cards.css")
    app.add_js_file("quiz-cards.js", loading_method="defer")
    return {"parallel_read_safe": False, "parallel_write_safe": True}
