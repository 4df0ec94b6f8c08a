"""What tests of timers by REST share: sending for a moment, and waiting until a message was delivered."""

from __future__ import annotations

import time
from typing import Any

import httpx

from broker.client import AsyncAdmin
from tests.waiting import until_true

ONE = "/api/v1/topics/orders/messages"
KEYED = "/api/v1/topics/orders/schedule/"
HOUR_MS = 3_600_000
TEN_YEARS_MS = 3_653 * 24 * HOUR_MS


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def send(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    """Send to `orders`, by default for an hour from now."""
    answer = await api.post(ONE, json={"body": "x", "delay_ms": HOUR_MS} | fields)
    assert answer.status_code in (200, 201), answer.text
    sent: dict[str, Any] = answer.json()
    return sent


async def delivered(admin: AsyncAdmin, unique_id: str) -> bool:
    """Comes back when the message is on its topic; fails after 20 s."""
    await until_true(lambda: admin.message_by_id("orders", unique_id))
    return True
