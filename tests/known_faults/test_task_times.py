"""The moment of a Celery task, whatever time zone its app is in."""

from __future__ import annotations

import time

import pytest
from celery import Celery

from broker.celery.envelope import parcel_of


@pytest.mark.parametrize("zone", ["UTC", "Europe/London", "Asia/Shanghai", "America/St_Johns"])
@pytest.mark.parametrize("in_utc", [True, False])
def test_a_countdown_is_as_long_in_every_time_zone(zone: str, in_utc: bool) -> None:
    """https://github.com/celery/celery/issues/2306"""
    app = Celery("shop", set_as_current=False)
    app.conf.update(timezone=zone, enable_utc=in_utc)
    before_ms = time.time() * 1_000
    headers, properties, body, _ = app.amqp.as_task_v2("T1", "shop.remind", countdown=180)
    after_ms = time.time() * 1_000
    message = {"body": str(body), "headers": headers, "properties": {**properties, "delivery_mode": 2}}
    parcel = parcel_of(message, int(before_ms))
    assert parcel.due_ms is not None, "it would run at once"
    assert before_ms + 180_000 - 1 <= parcel.due_ms <= after_ms + 180_000 + 1
