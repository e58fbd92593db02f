"""Registry of claims: all that the modules beside the chapters and in the labs' folders define."""

import difflib
import functools
import importlib
import re

from rankzero.claims import content
from rankzero.claims.claim import Claim
from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError

TABLE = ROOT / "handbook" / "claims.md"  # the page that lists them
SLUG = re.compile(r'@claim\(\s*"([^"]+)"')


def content_modules() -> list[str]:
    """Returns the names of the modules of claims under `rankzero.claims.content`: chapters by name, then labs."""
    folder = ROOT / "handbook" / "claims"
    chapters = [".".join(file.relative_to(folder).with_suffix("").parts) for file in sorted(folder.rglob("*.py"))]
    return chapters + [f"{lab.slug}.claims" for lab in all_labs(drafts=True) if lab.claims.exists()]


@functools.cache
def all_claims() -> dict[str, Claim]:
    """Returns the claims by slug, in the order of their modules. UserError if two share a slug or a page is missing."""
    claims: dict[str, Claim] = {}
    for name in content_modules():
        module = importlib.import_module(f"{content.__name__}.{name}")
        for claim in (value for value in vars(module).values() if isinstance(value, Claim)):
            if claim.slug in claims:
                raise UserError(f"claim {claim.slug}: two claims have this slug.")
            if not (ROOT / claim.page).exists():
                raise UserError(f"claim {claim.slug}: there is no page {claim.page}.")
            claims[claim.slug] = claim
    return claims


def find_claim(slug: str) -> Claim:
    """Returns the claim with this slug. UserError, with the nearest slugs, if there is none, before any is imported."""
    slugs = slugs_in_sources()
    if slug not in slugs:
        parts = set(slug.split("-"))

        def distance(other: str) -> tuple[float, float]:
            return -len(parts & set(other.split("-"))), -difflib.SequenceMatcher(None, slug, other).ratio()

        near = sorted(slugs, key=distance)[:3]
        raise UserError(f"there is no claim {slug!r}; near it are {', '.join(near)} (all: handbook/claims.md).")
    return all_claims()[slug]


def slugs_in_sources() -> set[str]:
    """Returns the slugs of all claims by the text of their modules: their imports take seconds."""
    files = [
        *(ROOT / "handbook" / "claims").rglob("*.py"),
        *(lab.claims for lab in all_labs(drafts=True) if lab.claims.exists()),
    ]
    return {slug for file in files for slug in SLUG.findall(file.read_text(encoding="utf-8"))}
