"""Script run: runs a script as `python SCRIPT` does, with the observers installed in it and in its child processes.

    python run_script.py SCRIPT [ARGUMENTS]

The records go into the folder that the environment variable RANKZERO_TRIAGE names.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    sys.path[0] = str(HERE.parents[2])
    from rankzero.learn.runs.quiet_start import stop_with_parent
    from rankzero.triage.observe.torch_import import install_with_torch

    stop_with_parent()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # a script may set it before its own import of torch
    install_with_torch()
    del sys.argv[0]
    __file__ = sys.argv[0]  # by which processes that the script starts find its functions
    sys.path[0] = os.path.dirname(__file__)
    sys.path.append(str(HERE.parents[2]))
    with open(__file__, "rb") as script:
        exec(compile(script.read(), __file__, "exec"))
