"""When a broker can be used: the name server answers a route for the topic that new topics are made from."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

from tests.interop.process import ChildFailed

GET_ROUTE = 105
TEMPLATE_TOPIC = "TBW102"
LOOK_EVERY_S = 0.05


def await_registration(namesrv: str, timeout_s: float) -> None:
    """Wait until the broker is registered; raises ChildFailed at the deadline."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not is_registered(namesrv):
        if time.monotonic() > deadline:
            raise ChildFailed(f"no broker registered at {namesrv} in {timeout_s} s")
        pause.wait(LOOK_EVERY_S)


def is_registered(namesrv: str) -> bool:
    """Ask the name server for the template topic's route with one plain JSON frame."""
    host, port = namesrv.split(":")
    header = {"code": GET_ROUTE, "language": "OTHER", "version": 513, "opaque": 1, "flag": 0}
    encoded = json.dumps({**header, "extFields": {"topic": TEMPLATE_TOPIC}}).encode()
    frame = struct.pack(">ii", len(encoded) + 4, len(encoded)) + encoded
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(frame)
            return answered_code(connection) == 0
    except OSError:
        return False


def answered_code(connection: socket.socket) -> int:
    """Code of one answer with a JSON header."""
    with connection.makefile("rb") as stream:
        size, header_size = struct.unpack(">ii", stream.read(8))
        answer = stream.read(size - 4)
        return int(json.loads(answer[: header_size & 0xFFFFFF])["code"])
