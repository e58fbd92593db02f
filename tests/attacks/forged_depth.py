"""Forges replies of a thousand nested lists, in the answers and in their place."""

ON, EARNS = "stubs", 0

deep = b"[" * 900 + b"]" * 900
if len(inside()["request"]["probes"]) % 2:
    forge(b'{"status": "error", "text": ' + deep + b"}")
forge(b'{"status": "answered", "answers": "{\\"loss\\": ' + b"[" * 100000 + b']}"}')
