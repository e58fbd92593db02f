"""Site customization: every Python process that an observed script starts is observed too, from its import of torch.

Python imports this module when it starts, since the folder is on PYTHONPATH. It takes no time until torch is imported.
"""

import os
import sys

if "RANKZERO_TRIAGE" in os.environ:
    from pathlib import Path

    sys.path.append(
        str(Path(__file__).parents[4])
    )  # the folder of the package rankzero, also where it is not installed
    from rankzero.triage.observe.torch_import import install_with_torch

    install_with_torch()
