"""The time for which a Redis keeps others waiting: `python -m bench.blocked HOST PORT` pings it until its input ends.

It is a process of its own, so that no work of the measured ones delays it. At the end of each input line it prints one
JSON object and starts again: `longest_ms` (the slowest PING), `pings`.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

PING, PONG = b"PING\r\n", b"+PONG\r\n"
PAUSE_S = 0.001


def main(host: str, port: int) -> int:
    """Ping until the input ends."""
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        longest_ns, pings = 0, 0
        print(json.dumps({"event": "started"}), flush=True)
        while True:
            begin_ns = time.perf_counter_ns()
            connection.sendall(PING)
            answer = b""
            while len(answer) < len(PONG):
                answer += connection.recv(64)
            longest_ns, pings = max(longest_ns, time.perf_counter_ns() - begin_ns), pings + 1
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return 0
                report = {"event": "blocked", "longest_ms": round(longest_ns / 1e6, 1), "pings": pings}
                print(json.dumps(report), flush=True)
                longest_ns, pings = 0, 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
