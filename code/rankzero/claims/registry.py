"""Which claims there are: all that the modules in `about/` define."""

import functools
import importlib
import pkgutil

from rankzero.claims import about
from rankzero.claims.claim import Claim
from rankzero.curriculum import ROOT
from rankzero.errors import UserError


@functools.cache
def all_claims() -> dict[str, Claim]:
    """Claims by slug, in the order of their modules. UserError if two share a slug or a page is missing."""
    found: dict[str, Claim] = {}
    for info in pkgutil.iter_modules(about.__path__):
        module = importlib.import_module(f"{about.__name__}.{info.name}")
        for claim in vars(module).values():
            if not isinstance(claim, Claim):
                continue
            if claim.slug in found:
                raise UserError(f"claim {claim.slug}: two claims have this slug.")
            if not (ROOT / claim.page).exists():
                raise UserError(f"claim {claim.slug}: there is no page {claim.page}.")
            found[claim.slug] = claim
    return found


def find_claim(slug: str) -> Claim:
    """Returns the claim with this slug. UserError, with the nearest slugs, if there is none."""
    claims = all_claims()
    if slug not in claims:
        parts = set(slug.split("-"))
        near = sorted(claims, key=lambda other: -len(parts & set(other.split("-"))))[:3]
        raise UserError(f"there is no claim {slug!r}; near it are {', '.join(near)} (all: handbook/claims.md).")
    return claims[slug]
