"""What tests of alerts share: rules, readings at a moment, and a webhook that keeps what it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.utils import timezone

from console.features.alerts import deliveries
from console.features.alerts.deliveries import send_due
from console.features.alerts.evaluate import News, Reading, Round, watch
from console.features.alerts.models import Alert, AlertRule

START_MS = 1_795_000_000_000
TOLD = frozenset(AlertRule.What.values)


def rule(**more: Any) -> AlertRule:
    return AlertRule.objects.create(**{"what": "backlog", "limit": 100, "for_s": 60, **more})


def after(seconds: int, told: frozenset[str] = TOLD, **lags: float) -> list[News]:
    found = tuple(Reading("backlog", name, lag) for name, lag in lags.items())
    return watch(Round(START_MS + seconds * 1000, found, told))


def tell(news: News, at: datetime | None = None) -> str:
    """Told at that moment, as the history has it."""
    at = at or timezone.now()
    deliveries.tell(news, at)
    send_due(at)
    return told(news.alert)


def told(alert: Alert) -> str:
    """What its history says now."""
    return Alert.objects.get(pk=alert.pk).told


#: how soon a webhook notices that it is to end
POLL_S = 0.01


class Webhook(HTTPServer):
    """Keeps what it got; answers with `status`."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 204

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805 - the library's names
                length = int(handler.headers["Content-Length"])
                self.got.append((dict(handler.headers), handler.rfile.read(length)))
                handler.send_response(self.status)
                handler.send_header("Location", "/elsewhere")
                handler.end_headers()

            def log_message(handler, *args: Any) -> None:  # noqa: N805 - so are these
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def webhook(settings: Any) -> Iterator[Webhook]:
    server = Webhook()
    settings.ALERT_ORIGINS = [f"http://127.0.0.1:{server.server_port}"]
    settings.CHECKBACK_NETWORKS = ["127.0.0.0/8"]
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
