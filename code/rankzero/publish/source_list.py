"""Source list of the reading list: the addresses that other pages cite and that the page itself does not name.

One block (`generated_blocks.py`) is filled with a table per kind of source, each address once, with its pages::

    <!-- sources: of other pages -->
    <!-- /sources -->
"""

import re
import tomllib
from pathlib import Path
from urllib.parse import urldefrag

from rankzero.publish.generated_blocks import fill_blocks

_LINK = re.compile(r"\]\((https?://[^)\s]+)\)")
_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"<!-- sources: .*?<!-- /sources -->", re.DOTALL)
# The first kind whose pattern is in the address.
KINDS = {
    "Papers": r"arxiv\.org|doi\.org|acm\.org|jmlr\.org|proceedings|usenix|fsu\.edu|\.pdf",
    "PyTorch's documentation": r"pytorch\.org",
    "Source code, pull requests and issues": r"github\.com",
    "Documentation of other tools, and articles": "",
}
_ARXIV = "https://arxiv.org/abs/"
# One address for what two addresses lead to.
_SAME = {"://dl.acm.org/doi/": "://doi.org/", "://pytorch.org/docs/": "://docs.pytorch.org/docs/"}
_SAME |= {"://pytorch.org/tutorials/": "://docs.pytorch.org/tutorials/"}


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its list of sources filled."""

    def table(source: str, _: str) -> str:
        if source != "of other pages":
            raise LookupError("there is no such list; the list is 'of other pages'")
        return _tables(cited(root, page), named(text), root)

    return fill_blocks(page, text, "sources", table)


def named(text: str) -> set[str]:
    """Returns the addresses that a page links to, without fragments and without those of the generated list."""
    text = _CODE.sub("", _BLOCK.sub("", text))
    for address, same in _SAME.items():
        text = text.replace(address, same)
    return {urldefrag(link).url for link in _LINK.findall(text)}


def cited(root: Path, but: Path) -> dict[str, list[Path]]:
    """Returns the pages that link to each address, by address: chapters and labs, without claims.md and `but`."""
    pages = sorted([*(root / "handbook").glob("*.md"), *(root / "labs").glob("*.md")])
    found: dict[str, list[Path]] = {}
    for page in pages:
        if page not in (but, root / "handbook" / "claims.md"):
            for address in named(page.read_text(encoding="utf-8")):
                found.setdefault(address, []).append(page)
    return found


def _tables(pages: dict[str, list[Path]], on_this_page: set[str], root: Path) -> str:
    lines, titles = [], _titles(root)
    rest = sorted(pages.keys() - on_this_page)
    for kind, pattern in KINDS.items():
        chosen = [address for address in rest if re.search(pattern, address)]
        rest = [address for address in rest if address not in chosen]
        if chosen:
            lines += [f"**{kind}**\n", "| source | cited in |", "|---|---|"]
            lines += [
                f"| [{_name(address, titles)}]({address}) | {_pages(pages[address], root)} |" for address in chosen
            ]
            lines.append("")
    return "\n".join(lines)


def _titles(root: Path) -> dict[str, str]:
    """Returns titles of papers by arXiv number, from handbook/source_titles.toml."""
    file = root / "handbook" / "source_titles.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _name(address: str, titles: dict[str, str]) -> str:
    if address.startswith(_ARXIV):
        number = address.removeprefix(_ARXIV)
        return f"{titles[number]}, arXiv {number}" if number in titles else f"arXiv {number}"
    return address.split("://")[1].removeprefix("www.").removesuffix("/").replace("_", r"\_")


def _pages(pages: list[Path], root: Path) -> str:
    links = []
    for page in pages:
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        path = page.relative_to(root / "handbook") if page.parent.name == "handbook" else f"../labs/{page.name}"
        links.append(f"[{title}]({path})")
    return ", ".join(links)
