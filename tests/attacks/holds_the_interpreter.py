"""Stays in C code that lets nothing else of the interpreter run: no signal's handler, no other thread."""

import re

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

re.match(r"(a+)+$", "a" * 50 + "b")
