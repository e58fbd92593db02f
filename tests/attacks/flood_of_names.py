"""Forges as many names of answers as are read, each of which a diagnosis might look up for every known mistake."""

ON, EARNS, STATUS = "stubs", 0, "fail"

forge_answers(dict.fromkeys(map(str, range(45000)), 0))
