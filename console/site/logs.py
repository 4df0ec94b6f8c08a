"""The logs on this machine: where they lie, and what their brokers were told that a log does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from broker.mirror.models import Broker, ScheduleLevel
from console.site.broker import ask
from console.site.chosen import choice_of, choosing


def stores() -> dict[str, Path]:
    """Return the stores of the brokers that run here, by name."""
    return {settings.BROKER_NAME: settings.BROKER_STORE, **settings.OTHER_STORES}


def broker_address(broker: str, source: str) -> str:
    """Return the broker that is asked where its log ends; empty if the checkpoint in the store has to do."""
    if source not in map(str, stores().values()):
        return ""
    row = Broker.objects.filter(name=broker).first()
    return row.address if row is not None else ""


def broker_settings(broker: str) -> dict[str, Any]:
    """Return the broker's settings as the order of a run has them; RocketMQ's defaults stand for what is not known."""
    return {name: value for name, value in (("levels", _levels(broker)), ("retention_hours", _hours(broker))) if value}


def _levels(broker: str) -> str:
    """Return the broker's ``messageDelayLevel``, from the mirror's rows."""
    rows = ScheduleLevel.objects.filter(broker=broker).order_by("level").values_list("level", "delay_ms")
    delays_ms = [delay_ms for number, (level, delay_ms) in enumerate(rows, start=1) if level == number]
    if len(delays_ms) < len(rows) or any(delay_ms <= 0 or delay_ms % 1_000 for delay_ms in delays_ms):
        return ""
    return " ".join(f"{delay_ms // 1_000}s" for delay_ms in delays_ms)


def _hours(broker: str) -> float:
    """Return the broker's ``fileReservedTime`` in hours, 0 if it cannot be asked."""
    if broker not in stores():
        return 0.0
    with choosing(choice_of(broker if settings.OTHER_STORES else "")):
        config, _ = ask(lambda admin: admin.broker_config(), source=broker, requests=(26,))
    try:
        hours = float((config or {}).get("fileReservedTime", 0))
    except ValueError:
        return 0.0
    return hours if 0 < hours <= 1_000_000 else 0.0
