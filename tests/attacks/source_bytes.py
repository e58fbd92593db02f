"""Bytes that are no text in any encoding that it names."""

EARNS, STATUS = 0, "error"
FILE = [(b"# coding: no-such-thing\n\xff\xfe\x80\n", 1)]
