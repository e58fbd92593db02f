"""Forges texts that end a terminal's line, turn letters around, break UTF-8, and are scripts and formulas."""

ON, EARNS, STATUS = "stubs", 0, "error"

forge({"status": "error", "text": "\ud800\x1b[2J\x1b]0;pwned\x07\r\u202e<script>alert(1)</script>\n=cmd()|A1" * 1000})
