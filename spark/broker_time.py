"""Asks a broker where its log ends: request 28 of RocketMQ's remoting protocol (GET_BROKER_RUNTIME_INFO).

    4 bytes after these   4 size of the header (its first byte 0: JSON)   header   body

The checkpoint of a store is some seconds old; what was acknowledged since, only the broker knows.
"""

from __future__ import annotations

import json
import socket
import struct

from .errors import OptionInvalid

_RUNTIME_INFO = 28
_SUCCESS = 0
_TIMEOUT_S = 3.0
#: No answer to this question is larger.
_MOST_BYTES = 1 << 20


def acknowledged_end(address: str) -> int | None:
    """Return the position behind the last acknowledged record of the broker at ``host:port``.

    None if it cannot be asked now, or does not tell. Raises OptionInvalid for what is no address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise OptionInvalid(f"broker={address!r} is no address such as 127.0.0.1:10911.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(_question())
            (size,) = struct.unpack(">I", _exactly(connection, 4))
            if not 4 <= size <= _MOST_BYTES:
                return None
            return _said(_exactly(connection, size))
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _question() -> bytes:
    header = json.dumps(
        {"code": _RUNTIME_INFO, "flag": 0, "language": "PYTHON", "opaque": 1, "version": 0, "extFields": {}}
    ).encode()
    return struct.pack(">II", 4 + len(header), len(header)) + header


def _said(frame: bytes) -> int | None:
    """Return the end that an answer names. Raises ValueError, KeyError, TypeError for one that is none."""
    length = struct.unpack_from(">I", frame)[0] & 0xFFFFFF
    if json.loads(frame[4 : 4 + length])["code"] != _SUCCESS:
        return None
    return int(json.loads(frame[4 + length :])["table"]["commitLogMaxOffset"])


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionError("the broker closed the connection")
        found += part
    return found
