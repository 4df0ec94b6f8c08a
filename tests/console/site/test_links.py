"""Links of the console lead to pages, whichever broker is chosen."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.console.several import several
from tests.interop.engine_stage import crawled


def test_every_link_leads_to_a_page(transactional_db: None, settings: Any, operator: Client) -> None:
    with several(settings) as both:
        both.producers["broker-a"].send("orders", "x", keys=["k"], delay_ms=600_000)
        both.mirror()
        opened, failed = crawled(operator, "/", "/at/broker-b/topics/orders/", "/timers/list/")
    assert failed == []
    assert len(opened) > 40
