"""What the environment says about the limits of timers is what the engine keeps to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.engine.errors import TimerFlowControl, TimerTooFar
from broker.engine.testing.driver import Driver, open_engine
from broker.hosting.servers import engine_config

DAY_MS = 86_400_000
_SAY = (
    "import django; django.setup(); from broker.hosting.servers import engine_config; c = engine_config('b');"
    "print(c.timer_max_delay_ms, c.timer_max_pending, c.timer_max_per_slot)"
)


def limited(settings: Any, days: int, pending: int, per_slot: int) -> Driver:
    settings.BROKER_TIMER_DAYS, settings.BROKER_TIMER_PENDING, settings.BROKER_TIMER_PER_SLOT = days, pending, per_slot
    config = engine_config("broker-a")
    driver = open_engine(
        timer_max_delay_ms=config.timer_max_delay_ms,
        timer_max_pending=config.timer_max_pending,
        timer_max_per_slot=config.timer_max_per_slot,
    )
    driver.engine.topics.ensure("orders", 1)
    return driver


def test_the_environment_is_read(tmp_path: Path) -> None:
    said = {"ESCAPEMENT_TIMER_DAYS": "7", "ESCAPEMENT_TIMER_PENDING": "20", "ESCAPEMENT_TIMER_PER_SLOT": "3"}
    env = {**os.environ, **said, "DJANGO_SETTINGS_MODULE": "console.site.settings", "ESCAPEMENT_VAR": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", _SAY], env=env, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(7 * DAY_MS), "20", "3"]


def test_no_timer_is_further_than_so_many_days(settings: Any) -> None:
    driver = limited(settings, days=7, pending=100, per_slot=0)
    driver.send("orders", b"x", TIMER_DELIVER_MS=str(driver.clock.now_ms + 7 * DAY_MS))
    with pytest.raises(TimerTooFar):
        driver.send("orders", b"x", TIMER_DELIVER_MS=str(driver.clock.now_ms + 7 * DAY_MS + 1))


def test_no_more_wait_in_all_or_in_one_second(settings: Any) -> None:
    driver = limited(settings, days=7, pending=3, per_slot=2)
    for _ in range(2):
        driver.send("orders", b"x", TIMER_DELAY_MS="5000")
    with pytest.raises(TimerFlowControl, match="for the second of"):
        driver.send("orders", b"x", TIMER_DELAY_MS="5000")
    driver.send("orders", b"x", TIMER_DELAY_MS="9000")
    with pytest.raises(TimerFlowControl, match="3 timers are pending"):
        driver.send("orders", b"x", TIMER_DELAY_MS="20000")
