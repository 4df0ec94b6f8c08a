"""A producer that is asked about its halves and only counts: `python -m bench.asked HOST:PORT GROUP COUNT`.

Prints `there` when the broker knows it, and `asked COUNT in SECONDS` when so many questions were read.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command, encode

LENGTH_BYTES = 4
READ_BYTES = 1 << 20
TIMEOUT_S = 600


def main() -> None:
    """Connect, read frames and count them; the answer to the heartbeat is the first one."""
    address, group, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    host, _, port = address.rpartition(":")
    alive = {"clientID": "asked@1", "producerDataSet": [{"groupName": group}], "consumerDataSet": []}
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        say("there")
        begin_s = time.monotonic()
        connection.sendall(encode(Command(Request.HEART_BEAT, {}, json.dumps(alive).encode())))
        read_frames(connection, count + 1)
        say(f"asked {count} in {time.monotonic() - begin_s:.3f}")


def read_frames(connection: socket.socket, count: int) -> None:
    """Read so many frames; what is in them does not matter. Raises ConnectionError if the other side ends."""
    rest = b""
    while count > 0:
        read = connection.recv(READ_BYTES)
        if not read:
            raise ConnectionError(f"the broker ended while {count:,} frames were to come")
        data = rest + read
        at, end = 0, len(data)
        while at + LENGTH_BYTES <= end:
            following = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
            if following > end:
                break
            at = following
            count -= 1
        rest = data[at:]


def say(line: str) -> None:
    """Print one line for whoever started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
