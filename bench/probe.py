"""The first send answered: one plain frame at a time until the broker says that it is stored."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

from tests.interop.readiness import answered_code

SEND = 10
LOOK_EVERY_S = 0.01


def first_answer_s(address: str, topic: str, *, begin_s: float, timeout_s: float) -> float:
    """Seconds from `begin_s` (a monotonic time) until a send to queue 0 is answered with success."""
    pause = threading.Event()
    while not is_stored(address, topic):
        if time.monotonic() - begin_s > timeout_s:
            raise TimeoutError(f"{address} answered no send in {timeout_s} s")
        pause.wait(LOOK_EVERY_S)
    return time.monotonic() - begin_s


def is_stored(address: str, topic: str) -> bool:
    """Whether one message is accepted and on disk."""
    host, port = address.split(":")
    fields = {
        "producerGroup": "probe",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(time.time_ns() // 1_000_000),
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    header = {"code": SEND, "language": "OTHER", "version": 513, "opaque": 1, "flag": 0, "extFields": fields}
    encoded = json.dumps(header).encode()
    body = b"probe"
    frame = struct.pack(">ii", 4 + len(encoded) + len(body), len(encoded)) + encoded + body
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(frame)
            return answered_code(connection) == 0
    except (OSError, struct.error):
        return False
