"""Forges an answer that is a text of a million letters, to be told in the message of the check that fails."""

ON, EARNS = "stubs", 0

forge_answers({"type": "\x1b[2J\udc80<b>" * 100_000, "loss": 1.0, "losses": ["\x1b"] * 10, "file": "refused"})
