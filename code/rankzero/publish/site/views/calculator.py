"""Ledger calculator: a page that computes in the browser what `rankzero.ledger` predicts.

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
from rankzero.publish.site.views.ledger_script import camel, script, sources

PAGE = "calculator"
FAMILIES: dict[str, type[Config]] = {"gpt": type(PRESETS["gpt2"]), "llama": type(PRESETS["llama-2-7b"])}

# What the page shows first: a step that many have run. Names are Python's.
DEFAULTS: dict[str, Any] = {
    "model": "gpt2",
    **dataclasses.asdict(PRESETS["gpt2"]),
    "n_kv_head": 12,  # these two for a Llama that begins with the sizes of GPT-2
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
    """The counts that give a model its shape, in the order in which it checks them."""
    return [field.name for field in dataclasses.fields(config) if field.type is int]


def facts() -> dict[str, Any]:
    """Returns the presets, recipes, optimizers and names that the page shows, as `ledger.js` names them."""

    def plain(things: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {camel(field): value for field, value in dataclasses.asdict(thing).items()}
            for name, thing in things.items()
        }

    def family(config: Config) -> str:
        return next(name for name, kind in FAMILIES.items() if isinstance(config, kind))

    presets = {
        name: {"family": family(config)} | {camel(size): getattr(config, size) for size in size_names(type(config))}
        for name, config in PRESETS.items()
    }
    return {
        "preset": presets,
        "recipe": plain(RECIPES),
        "optimizer": plain(OPTIMIZERS),
        "hardware": {name: {"name": one.name, "memory": one.memory} for name, one in HARDWARE.items()},
        "sizes": {name: {camel(size): size for size in size_names(kind)} for name, kind in FAMILIES.items()},
        "kinds": {kind.name: kind.value for kind in Kind},
        "phases": PHASES,
        "present": {kind.value: phases for kind, phases in PRESENT.items()},
        "moments": MOMENTS,
        "checkpointing": CHECKPOINTING,
    }


def _page(app: Sphinx) -> Iterable[tuple[str, dict[str, Any], str]]:
    from rankzero.publish.site.source.source_pages import link

    known = facts()
    context = {
        "title": "Ledger calculator",
        "facts": known,
        "facts_json": json.dumps(known, ensure_ascii=False).replace("</", "<\\/"),  # it stands in a script element
        "defaults": DEFAULTS,
        "linked": {name: link(app.env, PAGE, ROOT / file) for name, file in LINKED.items()},
    }
    return [(PAGE, context, "calculator.html")]


def _files(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        app.add_css_file("calculator.css")
        for script in ("ledger.js", "calculator-view.js", "calculator.js"):
            app.add_js_file(script)


def _write_script(app: Sphinx) -> None:
    file = Path(app.outdir) / "_static" / "ledger.js"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script(sources()), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", _write_script)
    app.connect("html-collect-pages", _page)
    app.connect("html-page-context", _files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
