"""Modules of figures under a name that can be imported: a chapter's are in handbook/figures/, a lab's in tests/.

handbook/figures/memory.py is `rankzero.figures.content.memory`, and tests/lab-07-ddp/figures.py is
`rankzero.figures.content.lab-07-ddp.figures`.
"""

from rankzero.curriculum import ROOT

__path__ = [str(ROOT / "handbook" / "figures"), str(ROOT / "tests")]
