"""Search index: a script with every entry of the site. static/search-ranking.js finds and ranks the entries.

The index is a script because a page opened from a file can load no other data. MiniSearch makes the index while the
site is built: a browser takes four times as long to make an index as to load it.
"""

import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from rankzero.curriculum import ROOT
from rankzero.publish.site import npm_packages
from rankzero.publish.site.views import search_entries
from rankzero.publish.site.views.search_entries import Entry

SYNONYMS = Path(__file__).with_name("search_synonyms.toml")
SHARED = Path(__file__).parents[1] / "static" / "search-ranking.js"
BUILD = """
const [minisearch, shared] = process.argv.slice(1);
const MiniSearch = require(minisearch);
require(shared);
const data = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const index = new MiniSearch(rankzeroIndex.options);
index.addAll(rankzeroIndex.documents(data));
process.stdout.write(JSON.stringify(index));
"""


def _record_title(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Records the titles of the pages that are not made from a document."""
    if doctree is None:
        app.__dict__.setdefault("rankzero_made", {})[pagename] = context.get("title", "")


def _entries(app: Sphinx) -> list[Entry]:
    entries = list(search_entries.all_of(app.env))
    for page, title in sorted(app.__dict__.get("rankzero_made", {}).items()):
        file = ROOT / page.removeprefix("source/")
        if page.startswith("source/") and file.is_file():
            entries += search_entries.of_file(file)
        elif search_entries.kind_of(page) == "page":
            entries.append(Entry(page, title, "", title, ""))
    return entries


def _write(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Writes search.js's data: pages [address, title, kind], entries [page, anchor, title, text], synonyms, index."""
    entries = _entries(app)
    names = list(dict.fromkeys((entry.page, entry.page_title) for entry in entries))
    pages = [[app.builder.get_target_uri(page), title, search_entries.kind_of(page)] for page, title in names]
    rows = [[names.index((entry.page, entry.page_title)), entry.anchor, entry.title, entry.text] for entry in entries]
    synonyms = tomllib.loads(SYNONYMS.read_text(encoding="utf-8"))["words"]
    data = _json({"pages": pages, "entries": rows, "synonyms": synonyms})
    minisearch = npm_packages.path("minisearch/dist/cjs/index.cjs")
    command = [str(npm_packages.NODE), "-e", BUILD, str(minisearch), str(SHARED)]
    result = subprocess.run(command, input=data, capture_output=True, text=True, encoding="utf-8")
    if result.returncode:
        raise ExtensionError(f"the search index was not made: {result.stderr}")
    script = f"var rankzeroData = {data[:-1]},\n{_json('index')}:{result.stdout}}};\n"
    Path(app.outdir, "_static", "search-data.js").write_text(script, encoding="utf-8")
    yield from ()  # no page


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("html-page-context", _record_title)
    app.connect("html-collect-pages", _write, priority=990)  # once all pages are known
    app.add_css_file("search.css")
    app.add_js_file("search.js", loading_method="defer")
