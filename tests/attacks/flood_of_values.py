"""Forges answers of very many empty lists: two bytes each to send, and a hundred for their reader."""

ON, EARNS = "stubs", 0

forge(b'{"status": "answered", "answers": "{\\"loss\\": [' + b"[]," * 250000 + b'[]]}"}')
