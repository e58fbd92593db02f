"""Modules of claims under a name that every process can import: a chapter's lie in handbook/claims/, a lab's in tests/.

handbook/claims/memory/states.py is `rankzero.claims.content.memory.states`, and tests/lab-07-ddp/claims.py is
`rankzero.claims.content.lab-07-ddp.claims`. Within a chapter's folder, modules import each other relatively.
"""

from rankzero.curriculum import ROOT

__path__ = [str(ROOT / "handbook" / "claims"), str(ROOT / "tests")]
