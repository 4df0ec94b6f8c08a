"""The pages of Redisson's delayed queues in a browser: live, and acted on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from playwright.sync_api import BrowserContext, expect

from broker.redisson import DelayedQueue
from console.features.redisson.read import hang_up
from console.operations.models import AuditEntry
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE

HOUR_MS = 3_600_000


@pytest.fixture
def queues(valkey: str, settings: Any) -> Iterator[redis.Redis]:
    """A queue that waits, one that is stuck, one that is damaged and poisoned, and hostile names and values."""
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    orders = DelayedQueue("orders", client)
    for number in range(60):
        orders.offer(f"order-{number}", delay=HOUR_MS + number * 60_000)
    for text in HOSTILE:
        orders.offer(text, delay=HOUR_MS // 2)
        DelayedQueue(text, client).offer(text, delay=HOUR_MS)
    DelayedQueue("stuck", client).offer("late", at=1)
    odd = DelayedQueue("odd", client)
    odd.offer("whole", delay=HOUR_MS)
    client.zadd(odd.keys.timeout, {b"neither packing": 5})
    yield client
    hang_up()
    client.delete(*[key for key in client.scan_iter() if b"delay" in key])
    client.close()


def test_what_is_offered_shows_up_by_itself(web: Web, context: BrowserContext, queues: redis.Redis) -> None:
    page, complaints = opened(context, web.address + "/redisson/")
    expect(page.locator("#queues")).not_to_contain_text("bills")
    DelayedQueue("bills", queues).offer("b-1", delay=HOUR_MS)
    expect(page.locator("#queues")).to_contain_text("bills")
    assert page.evaluate("violations") == []
    assert complaints == []


def test_chosen_values_are_removed_after_a_look_and_a_reason(
    web: Web, context: BrowserContext, queues: redis.Redis
) -> None:
    orders = DelayedQueue("orders", queues)
    before = orders.size()
    page, complaints = opened(context, web.address + "/redisson/queue/?name=orders")
    boxes = page.locator("#values tbody input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    expect(page.locator("[data-select-count]")).to_have_text("2")
    page.get_by_role("button", name="Remove…").click()
    expect(page.locator("h1")).to_contain_text("Remove pending values")
    assert orders.size() == before
    page.fill("textarea", "paid meanwhile")
    page.get_by_role("button", name="Remove values").click()
    expect(page.locator("#run")).to_contain_text("2 of 2")
    assert orders.size() == before - 2
    entry = AuditEntry.objects.get(what=AuditEntry.What.FINISHED)
    assert (entry.kind, entry.reason) == ("redisson.remove", "paid meanwhile")
    assert complaints == []
