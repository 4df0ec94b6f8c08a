"""TCP ports of this machine: which are in use, and which are free."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 0.5
#: where a broker's VIP channel is, below its port
VIP_BELOW = 2
_TRIES = 20


def taken(host: str, port: int) -> bool:
    """Whether another program occupies the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def answers(host: str, port: int) -> bool:
    """Whether a server accepts connections at the port."""
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a loopback port that is free now, as is the one two below it, a broker's VIP channel."""
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
            if not taken(LOOPBACK, port - VIP_BELOW):
                break
    return port
