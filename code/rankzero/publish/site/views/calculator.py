"""Ledger calculator: a page that computes the predictions of `rankzero.ledger` in the browser.

ledger_script.py translates the formulas into `_static/ledger.js`; `facts` puts the data into the page.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from rankzero.curriculum import ROOT
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.ledger import PHASES, PRESENT, Kind
from rankzero.ledger.models import PRESETS, Config
from rankzero.ledger.plan.layout import CHECKPOINTING
from rankzero.ledger.plan.plan_text import MOMENTS
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES
from rankzero.publish.site.python_to_javascript import camel
from rankzero.publish.site.source.source_pages import link
from rankzero.publish.site.views.ledger_script import script, sources

PAGE = "calculator"
FAMILIES: dict[str, type[Config]] = {"gpt": type(PRESETS["gpt2"]), "llama": type(PRESETS["llama-2-7b"])}

# The form's initial values, by their names in Python.
DEFAULTS: dict[str, Any] = {
    "model": "gpt2",
    **dataclasses.asdict(PRESETS["gpt2"]),
    "n_kv_head": 12,  # GPT-2 has neither n_kv_head nor ffn_dim: both are for a Llama
    "ffn_dim": 2048,
    "recipe": "amp",
    "optimizer": "adamw",
    "batch_size": 8,
    "micro_batches": 1,
    "seq_len": PRESETS["gpt2"].block_size,
    "checkpointing": "none",
    "data": 1,
    "zero": 0,
    "tensor": 1,
    "hardware": "h100",
    "memory": 24,
}
LINKED = {
    "formulas": "code/rankzero/publish/site/views/ledger_script.py",
    "python": "code/rankzero/ledger/predict.py",
    "test": "tests/site/test_calculator.py",
    "models": "code/rankzero/learn",
}


def size_names(config: type[Config]) -> list[str]:
    """Returns the names of the integers that give a model its shape, in the order in which the model checks them."""
    return [field.name for field in dataclasses.fields(config) if field.type is int]


def facts() -> dict[str, Any]:
    """Returns the presets, recipes, optimizers and names that the page shows, as `ledger.js` names them."""

    def fields(table: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {camel(field): value for field, value in dataclasses.asdict(row).items()}
            for name, row in table.items()
        }

    families = {config: name for name, config in FAMILIES.items()}
    return {
        "preset": {
            name: {"family": families[type(config)], **{camel(n): getattr(config, n) for n in size_names(type(config))}}
            for name, config in PRESETS.items()
        },
        "recipe": fields(RECIPES),
        "optimizer": fields(OPTIMIZERS),
        "hardware": {key: {"name": machine.name, "memory": machine.memory} for key, machine in HARDWARE.items()},
        "sizes": {name: {camel(size): size for size in size_names(config)} for name, config in FAMILIES.items()},
        "kinds": {kind.name: kind.value for kind in Kind},
        "phases": PHASES,
        "present": {kind.value: phases for kind, phases in PRESENT.items()},
        "moments": MOMENTS,
        "checkpointing": CHECKPOINTING,
    }


def _page(app: Sphinx) -> Iterable[tuple[str, dict[str, Any], str]]:
    context = {
        "title": "Ledger calculator",
        "facts": facts(),
        "facts_json": json.dumps(facts(), ensure_ascii=False).replace("</", "<\\/"),  # for a script element
        "defaults": DEFAULTS,
        "linked": {name: link(app.env, PAGE, ROOT / file) for name, file in LINKED.items()},
    }
    return [(PAGE, context, "calculator.html")]


def _files(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        app.add_css_file("calculator.css")
        for name in ("ledger.js", "calculator-view.js", "calculator.js"):
            app.add_js_file(name)


def _write_script(app: Sphinx) -> None:
    file = Path(app.outdir) / "_static" / "ledger.js"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script(sources()), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", _write_script)
    app.connect("html-collect-pages", _page)
    app.connect("html-page-context", _files)
