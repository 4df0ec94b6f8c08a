"""The socket that a door listens on."""

from __future__ import annotations

import socket


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to an address, 0 for a free port; raises OSError if it is taken."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening
