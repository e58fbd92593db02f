"""Forges a reply that says the probe was late, to be asked again and again, or to be excused."""

ON, EARNS, STATUS = "stubs", 0, "timeout"

forge({"status": "timeout", "text": "the machine was busy", "waited": 1e9})
