"""A long operation in a browser: its progress shows by itself, it is stopped, and goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from playwright.sync_api import BrowserContext, expect

from console.operations import registry, runner, workflow
from console.operations.actor import Actor
from console.operations.models import Operation
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.operations.marking import Marking


class Gate:
    """Lets the runner through, a batch at a time."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)
        self.reached = threading.Semaphore(0)

    def wait(self, count: int) -> None:
        self.reached.release()
        assert self._open.acquire(timeout=60)

    def let(self, count: int = 1) -> None:
        self._open.release(count)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The kind `tests.marking`, whose batches wait for the test."""
    made, kind = Gate(), Marking()
    kind.before = made.wait
    monkeypatch.setitem(registry.KINDS, kind.name, kind)
    yield made
    made.let(100)


@pytest.fixture
def running(web: Web, gate: Gate, operator: object) -> Iterator[Operation]:
    """1,200 to touch; the first batch waits at the gate."""
    actor = Actor.of(get_user_model().objects.get(username="operator"))
    row = workflow.draft("tests.marking", {"many": 1_200}, actor)
    Operation.objects.filter(pk=row.pk).update(state=Operation.State.QUEUED, reason="because")

    def work() -> None:
        runner.run(row.pk)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    assert gate.reached.acquire(timeout=30)
    yield row
    gate.let(100)
    thread.join(30)


def test_progress_shows_by_itself_and_it_can_be_stopped(
    web: Web, context: BrowserContext, gate: Gate, running: Operation
) -> None:
    page, complaints = opened(context, f"{web.address}/operations/{running.pk}/")
    expect(page.locator("#live")).to_contain_text("Live")
    expect(page.locator("#run")).to_contain_text("0 of 1,200")
    gate.let()
    assert gate.reached.acquire(timeout=30)
    expect(page.locator("#run")).to_contain_text("500 of 1,200")
    expect(page.locator("#run progress")).to_have_attribute("value", "41")
    page.get_by_role("button", name="Stop after this batch").click()
    gate.let()
    expect(page.locator("#run")).to_contain_text("1,000 of 1,200")
    expect(page.locator("#state")).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Stop after this batch")).to_be_hidden()
    expect(page.locator("#audit")).to_contain_text("stop requested")
    page.reload()
    gate.let()
    Operation.objects.filter(pk=running.pk).update(preview={**running.preview, "count": 200})
    page.get_by_role("button", name="Continue with remaining items").click()
    expect(page.locator("#run")).to_contain_text("1,200 of 1,200")
    expect(page.locator("#state")).to_contain_text("done")
    assert page.evaluate("violations") == []
    assert complaints == []
