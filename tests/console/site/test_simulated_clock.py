"""The banner of a simulated clock, and what the pages count from; without one there is neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from broker.mirror.clock_file import ClockLine, clock_file
from console.site.clock import now_ms, real_now_ms, shown_ms
from tests.console.people import browser_of, person

START_MS = 1_767_225_600_000


@pytest.fixture
def var(settings: Any, tmp_path: Path, free_port: int) -> Path:
    """A house of this test, whose broker is away."""
    settings.VAR = tmp_path
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    return tmp_path


def test_every_page_says_that_the_clock_is_simulated(db: None, var: Path) -> None:
    clock_file().write(ClockLine(60.0, START_MS, real_now_ms()))
    viewer = browser_of(person("viewer"))
    staff = person("staff")
    staff.is_staff = True
    staff.save()
    pages = ((viewer, "/"), (viewer, "/timers/"), (viewer, "/operations/"), (Client(), "/login/"))
    for browser, path in (*pages, (browser_of(staff), "/admin/")):
        page = browser.get(path, headers={"accept-language": "en"}).content.decode()
        assert "Simulated clock: 60x" in page, path
        assert "2026-01-01 00:0" in page, path
    page = viewer.get("/").content.decode()
    assert f'data-shown-ms="{START_MS}"' in page and 'data-speed="60.0"' in page
    viewer.cookies["django_language"] = "zh-hans"
    assert "模拟时钟" in viewer.get("/").content.decode()


def test_without_a_simulation_no_page_says_anything(db: None, var: Path) -> None:
    viewer = browser_of(person("viewer"))
    for path in ("/", "/timers/"):
        page = viewer.get(path).content.decode()
        assert "simulated" not in page and "data-answered-ms" not in page and "clockline" not in page


def test_now_is_the_brokers(var: Path) -> None:
    before_ms = real_now_ms()
    assert before_ms <= now_ms() <= real_now_ms()
    clock_file().write(ClockLine(3600.0, START_MS, before_ms))
    assert shown_ms(before_ms + 1000) == START_MS + 3_600_000
    assert START_MS <= now_ms() <= START_MS + 3600 * (real_now_ms() - before_ms)
