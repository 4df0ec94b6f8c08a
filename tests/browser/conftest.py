# ruff: noqa: F811 - fixtures taken from another conftest are parameters here
"""A real browser on the real console: broker, mirror, PostgreSQL, Valkey and the web server of production."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from broker.mirror.announcer import Announcer
from console.ui.live import fragments
from tests.console.conftest import operator, stage  # noqa: F401 - fixtures
from tests.console.stage import Stage
from tests.waiting import until

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
#: the web server threads and this one share a database; Playwright runs an event loop in this one
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
#: a deadline, not a wait: what is expected is looked for until it is there
expect.set_options(timeout=15_000)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI));
"""


# not longer than these tests: while Playwright runs it keeps an event loop in this thread, and no other may run there
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=list(ARGUMENTS))
        yield browser
        browser.close()


class Web:
    """The console behind its own port; stop and start it again to see what a page does."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        from console.site.asgi import application

        # as in a new process: what an earlier server rendered is not shown by this one
        fragments.forget()
        config = uvicorn.Config(application, host="127.0.0.1", port=self.port, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="web", daemon=True)
        self._thread.start()
        server = self._server
        until(lambda: server.started)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(15)
            assert not self._thread.is_alive(), "the web server did not stop"


@pytest.fixture
def web(stage: Stage, valkey: str, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    server = Web(free_port)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def teller(valkey: str) -> Iterator[Announcer]:
    announcer = Announcer(spacing_s=0.01)
    yield announcer
    announcer.close()


@pytest.fixture
def context(chromium: Browser, operator: Client, web: Web) -> Iterator[BrowserContext]:
    made = chromium.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    made.add_init_script(WATCH)
    cookie = operator.cookies["sessionid"].value
    made.add_cookies([{"name": "sessionid", "value": cookie, "url": web.address}])
    made.set_default_timeout(15_000)
    yield made
    made.close()


@pytest.fixture
def shots() -> Path | None:
    """Where screenshots go, if somebody wants them."""
    wanted: Any = os.environ.get("ESCAPEMENT_SHOTS")
    if not wanted:
        return None
    Path(wanted).mkdir(parents=True, exist_ok=True)
    return Path(wanted)
