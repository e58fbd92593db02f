"""Embedded page: a page's body as part of another page, with unique ids and working links."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag

# Attributes whose values are ids of the same page, separated by spaces.
_REFERENCES = (
    *("for", "headers", "list", "form", "popovertarget", "commandfor", "interestfor"),
    *("aria-activedescendant", "aria-controls", "aria-describedby", "aria-details", "aria-errormessage"),
    *("aria-flowto", "aria-labelledby", "aria-owns"),
)
_LINKS = ("href", "src", "xlink:href", "poster", "data", "action")
_SITE = "site:"  # the beginning of a link that `take` has changed: a path from the site's root follows
_LEFT_OUT = ".lab-links, .belongs"  # links from a lab, a chapter or a starter to its side-by-side pages


@dataclass(frozen=True)
class Place:
    """A page's place as a part of the page `file`: `prefix` is before each of its ids, `top` is its first id."""

    file: str
    prefix: str
    top: str


def take(html: str, page: str, prefix: str) -> str:
    """Returns the body of the page `page`, with `prefix` before each id and links that `lead` must replace."""
    article = html[html.index('<article role="main"') : html.rindex("</article>") + len("</article>")]
    body = BeautifulSoup(article, "html.parser", multi_valued_attributes=None).article
    assert isinstance(body, Tag), page
    for left_out in body.select(_LEFT_OUT):
        left_out.decompose()
    ids = {str(tag["id"]) for tag in body.find_all(id=True)}
    for tag in body.find_all(True):
        _rename(tag, ids, prefix)
        for name in _LINKS:
            if name in tag.attrs:
                tag[name] = _from_root(str(tag[name]), page, ids, tag.name == "use")
    return body.decode_contents()


def _rename(tag: Tag, ids: set[str], prefix: str) -> None:
    def new(name: str) -> str:
        return prefix + name if name in ids else name

    if "id" in tag.attrs:
        tag["id"] = new(str(tag["id"]))
    for name in _REFERENCES:
        if name in tag.attrs:
            tag[name] = " ".join(map(new, str(tag[name]).split()))
    if "name" in tag.attrs and (tag.name == "details" or tag.get("type") == "radio"):
        tag["name"] = prefix + str(tag["name"])  # a browser opens, or selects, one element per name
    for name, value in tag.attrs.items():
        if "url(#" in str(value):
            tag[name] = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{new(match[1])})", str(value))
        elif tag.name == "use" and name.endswith("href"):
            tag[name] = "#" + new(str(value).removeprefix("#"))


def _from_root(link: str, page: str, ids: set[str], is_use: bool) -> str:
    if is_use or re.match(r"[a-z][a-z0-9+.-]*:|//", link, re.IGNORECASE):
        return link
    path, mark, fragment = link.partition("#")
    if not path and fragment and fragment not in ids:
        return link  # its target is outside the body, on every page
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else f"{page}.html"
    return f"{_SITE}{path}{mark}{fragment}"


def lead(html: str, file: str, places: Mapping[str, Place]) -> str:
    """Returns the result of `take` with links that work in the page `file`; links to a page in `places` lead there."""

    def relative(match: re.Match[str]) -> str:
        path, fragment = match[1], match[2]
        if place := places.get(path):
            fragment = place.prefix + fragment if fragment else "" if place.file != file else place.top
            path = place.file
        path = "" if path == file else posixpath.relpath(path, posixpath.dirname(file))
        return f'="{path}#{fragment}"' if fragment or not path else f'="{path}"'

    return re.sub(f'="{_SITE}([^"#]*)#?([^"]*)"', relative, html)
