"""Forges an array whose header ends in the middle."""

import base64

ON, EARNS, STATUS = "stubs", 0, "error"

header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (((3,"
data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
forge_answers({"weights": {"npy": base64.b64encode(data).decode()}})
