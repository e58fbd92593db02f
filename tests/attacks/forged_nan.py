"""Forges replies with the real token, found in a frame: every number is nan, which is close to nothing, or infinite."""

ON, EARNS = "stubs", 0

nan, inf = float("nan"), float("inf")
forge_answers({name: nan for name in ("loss", "random", "step", "count")} | {"losses": [inf] * 6, "type": "float"})
