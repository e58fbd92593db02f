"""Reaches for whatever is outside: this machine's own services, other machines, names."""

import socket

ON, EARNS = "reference", 50

socket.setdefaulttimeout(0.5)
for host in ("127.0.0.1", "localhost", "0.0.0.0"):
    attempt(f"{host}:{PORT}", lambda host=host: socket.create_connection((host, PORT)))
attempt("::1", lambda: socket.create_connection(("::1", PORT)))
attempt("another machine", lambda: socket.create_connection(("192.0.2.1", 80)))
attempt("a datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt("a name", lambda: socket.getaddrinfo("example.org", 80))
attempt("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect(f"\0{MARK}"))
attempt("a socket's file", lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"))
attempt("raw packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
if len(socket.if_nameindex()) > 1:
    won("a network device")
with open("/proc/net/unix") as table:
    if len(table.readlines()) > 2:
        won("sockets of others")
