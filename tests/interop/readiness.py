"""When a broker can be used: its name server answers a route, and it answers for itself."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping

from tests.interop.process import ChildFailed
from tests.waiting import NotInTime, until

GET_ROUTE = 105
GET_BROKER_RUNTIME_INFO = 28
GET_TOPIC_STATS = 202
TEMPLATE_TOPIC = "TBW102"
LOOK_EVERY_S = 0.05


def await_registration(namesrv: str, timeout_s: float) -> None:
    """Wait until the broker is registered; raises ChildFailed at the deadline."""
    _await(lambda: is_routed(namesrv, TEMPLATE_TOPIC), timeout_s, f"no broker registered at {namesrv}")


def await_runtime(address: str, timeout_s: float, signature: Mapping[str, str] | None = None) -> None:
    """Wait until a broker tells about itself: Apache RocketMQ fails to before its first second of statistics."""
    ext = dict(signature or {})
    _await(lambda: _is_answered(address, GET_BROKER_RUNTIME_INFO, ext), timeout_s, f"{address} tells nothing of itself")


def is_routed(namesrv: str, topic: str) -> bool:
    """Whether the name server knows a broker with this topic."""
    return _is_answered(namesrv, GET_ROUTE, {"topic": topic})


def has_topic(address: str, topic: str) -> bool:
    """Whether this very broker, a slave perhaps, has the topic."""
    return _is_answered(address, GET_TOPIC_STATS, {"topic": topic})


def _await(holds: Callable[[], bool], timeout_s: float, complaint: str) -> None:
    try:
        until(holds, timeout_s, every_s=LOOK_EVERY_S)
    except NotInTime as error:
        raise ChildFailed(f"{complaint} in {timeout_s} s") from error


def _is_answered(address: str, code: int, ext: dict[str, str]) -> bool:
    """Ask by one plain JSON frame; an address that does not listen yet is a no."""
    host, port = address.split(":")
    header = {"code": code, "language": "OTHER", "version": 513, "opaque": 1, "flag": 0}
    encoded = json.dumps({**header, "extFields": ext}).encode()
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
