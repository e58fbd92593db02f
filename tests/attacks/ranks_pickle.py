"""Lab 07: every rank returns an object that runs code wherever it is read."""

LAB, ON, EARNS, SECONDS = "07", "stubs", 0, 20.0


class Bomb:
    def __reduce__(self):
        return print, ("pickled code ran, in the sandbox as it may",)


for name in [
    name for name, one in globals().items() if callable(one) and getattr(one, "__module__", "") == "exercises"
]:
    if name not in TOOLS:
        globals()[name] = lambda *_, **__: Bomb()
