"""Forges integers of thousands of digits, which no float can hold."""

ON, EARNS, STATUS = "stubs", 0, "error"

forge_answers({"loss": 10**4000, "losses": [10**400] * 6, "type": "float", "count": 10**4000, "rates": [-(10**400)]})
