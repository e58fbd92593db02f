"""Says that it is written in an encoding in which a comment is code."""

EARNS, STATUS = 0, "killed"
FILE = [(b"# -*- coding: utf-7 -*-\n# +AAo-import os; os._exit(0)\n", 1)]
