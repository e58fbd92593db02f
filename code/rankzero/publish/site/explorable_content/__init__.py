"""Modules of explorables under a name that can be imported: handbook/explorables/ holds them."""

from rankzero.curriculum import ROOT

__path__ = [str(ROOT / "handbook" / "explorables")]
