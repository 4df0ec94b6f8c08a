"""What the broker whose log is read was told, and its log does not say: delays of its levels, how long it keeps."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from broker.mirror.models import ScheduleLevel
from console.site.broker import ask


def told(broker: str) -> dict[str, Any]:
    """Return these as the order of a run has them; what is not known is left to RocketMQ's defaults."""
    return {name: value for name, value in (("levels", _levels(broker)), ("retention_hours", _hours(broker))) if value}


def _levels(broker: str) -> str:
    """Its ``messageDelayLevel``, from the mirror's rows."""
    rows = ScheduleLevel.objects.filter(broker=broker).order_by("level").values_list("level", "delay_ms")
    delays_ms = [delay_ms for number, (level, delay_ms) in enumerate(rows, start=1) if level == number]
    if len(delays_ms) < len(rows) or any(delay_ms <= 0 or delay_ms % 1_000 for delay_ms in delays_ms):
        return ""
    return " ".join(f"{delay_ms // 1_000}s" for delay_ms in delays_ms)


def _hours(broker: str) -> float:
    """Its ``fileReservedTime``; 0 if it cannot be asked."""
    if broker != settings.BROKER_NAME:
        return 0.0
    config, _ = ask(lambda admin: admin.broker_config(), source=broker, requests=(26,))
    try:
        hours = float((config or {}).get("fileReservedTime", 0))
    except ValueError:
        return 0.0
    return hours if 0 < hours <= 1_000_000 else 0.0
