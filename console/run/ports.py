"""Which TCP ports of this machine are in use."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 0.5
VIP_BELOW = 2
_TRIES = 20


def taken(host: str, port: int) -> bool:
    """Whether a server could not listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def answers(host: str, port: int) -> bool:
    """Whether a server accepts connections there."""
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A loopback port that nothing listens on now, nor on the one two below: a broker's VIP channel."""
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
            if not taken(LOOPBACK, port - VIP_BELOW):
                break
    return port
