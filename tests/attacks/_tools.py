# Helpers that precede every attack in the file that is handed in.
import sys

TOOLS = {"won", "attempt", "inside", "forge", "forge_answers", "system_call"}

with open("/proc/1/cmdline", "rb") as _first:
    if b"rankzero.grading.sandbox.sandbox_server" not in _first.read():
        raise SystemExit("this is an attack: it runs in a sandbox only")


def won(what):
    """Says that the attack got what it must not get."""
    print("WON:", what, flush=True)


def attempt(what, action):
    """Tries one thing; getting through is winning."""
    try:
        result = action()
    except BaseException:
        return
    if result != -1:
        won(what)


def inside():
    """The local variables of the function that runs the probes: token, request, pipe."""
    frame = sys._getframe()
    while frame.f_code.co_name != "run_probes":
        frame = frame.f_back
    return frame.f_locals


def forge(reply):
    """Writes a reply for each probe of the request, with the real token, and ends the process."""
    import json
    import os

    held = inside()
    for _ in held["request"]["probes"]:
        line = memoryview(
            held["token"].encode() + (reply if type(reply) is bytes else json.dumps(reply).encode()) + b"\n"
        )
        while line:
            line = line[os.write(held["result"], line) :]
    os._exit(0)


def forge_answers(answers):
    """The same, of answers."""
    import json

    forge({"status": "answered", "answers": json.dumps(answers)})


def system_call(number, *arguments):
    """A raw system call: -1 if the kernel refuses."""
    import ctypes

    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return ctypes.CDLL(None).syscall(ctypes.c_long(number), *words)
