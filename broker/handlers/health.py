"""A port at which an orchestrator asks whether the handlers can work, and Prometheus what they did.

`/healthz` answers 200, or 503 and a line for each thing that keeps a group from its work (a broker that is away, a
topic that is not there, a refusal). `/metrics` is in Prometheus' text format.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from ..client import Consumer

_NAMES = (
    ("escapement_handled_total", "counter", "Messages or batches that handlers have done."),
    ("escapement_handler_failures_total", "counter", "Messages or batches for which a handler failed."),
    ("escapement_handler_seconds_total", "counter", "Seconds that handlers took."),
    ("escapement_handlers_at_work", "gauge", "Threads in a handler now."),
    ("escapement_queues", "gauge", "Queues that this process reads."),
)


def troubles(running: Mapping[str, Consumer]) -> list[str]:
    """Return what keeps groups from their work now, a line for each."""
    return [f"{group}: {trouble}" for group, one in sorted(running.items()) for trouble in one.troubles]


def metrics(running: Mapping[str, Consumer]) -> str:
    """Return what the handlers did since the start, and do now."""
    rows: dict[str, list[str]] = {name: [] for name, _, _ in _NAMES}
    for group, one in sorted(running.items()):
        for topic, stats in sorted(one.activity.items()):
            labels = f'{{group="{group}",topic="{topic}"}}'  # names of neither have quotes
            rows["escapement_handled_total"].append(f"{labels} {stats.worked_total}")
            rows["escapement_handler_failures_total"].append(f"{labels} {stats.failed_total}")
            rows["escapement_handler_seconds_total"].append(f"{labels} {stats.took_total_s:.6f}")
        rows["escapement_handlers_at_work"].append(f'{{group="{group}"}} {one.at_work}')
        rows["escapement_queues"].append(f'{{group="{group}"}} {len(one.queues)}')
    lines = []
    for name, kind, words in _NAMES:
        lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *(name + row for row in rows[name])]
    return "\n".join(lines) + "\n"


class HealthPort:
    """Answers on `host:port` within its block; port 0 takes a free one."""

    def __init__(self, running: Mapping[str, Consumer], host: str, port: int) -> None:
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, metrics(running))
                elif self.path == "/healthz":
                    found = troubles(running)
                    self._answer(503 if found else 200, "\n".join(found or ["ok"]) + "\n")
                else:
                    self._answer(404, "There are /healthz and /metrics.\n")

            def _answer(self, code: int, text: str) -> None:
                body = text.encode()
                self.send_response(code)
                self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Log nothing: it is asked every few seconds."""

        self._server = ThreadingHTTPServer((host, port), Answers)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
