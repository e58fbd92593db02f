"""Forges an array that is a zip file, which NumPy would open."""

import base64

ON, EARNS, STATUS = "stubs", 0, "error"

forge_answers({"weights": {"npy": base64.b64encode(b"PK\x03\x04" + bytes(60)).decode()}})
