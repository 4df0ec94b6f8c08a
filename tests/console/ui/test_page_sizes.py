"""The lists whose rows are selected say how many they show, and have the size of page that is chosen."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from console.site.clock import now_ms
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

COUNT = 52
LISTS = ("/timers/list/", "/transactions/list/", "/dead-letters/of/billing/")


def fill(stage: Stage, address: str) -> None:
    if address.startswith("/timers"):
        for _nth in range(COUNT):
            stage.producer.send("orders", "x", deliver_at_ms=now_ms() + 3_600_000)
    elif address.startswith("/transactions"):
        with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
            for _nth in range(COUNT):
                producer.send_half("orders", prepare("x"))
    else:
        for nth in range(COUNT):
            bury(stage, f"order-{nth}")
    stage.mirror.run_once()


@pytest.mark.parametrize("address", LISTS)
def test_a_list_says_how_many_it_shows_and_has_the_size_that_is_chosen(
    stage: Stage, operator: Client, address: str
) -> None:
    """Nothing said that the first hundred, or fifty, were shown, and no other size could be had."""
    fill(stage, address)
    whole = operator.get(address, {"rows": "200"})
    assert len(whole.context["data"].rows) == COUNT
    assert "52 rows, which are all." in words(whole)
    first = operator.get(address, {"rows": "50"})
    assert len(first.context["data"].rows) == 50
    of = " of 52 are shown." if "dead" in address else " are shown; more follow."
    assert f"The first 50{of}" in words(first)
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first.content.decode())
    rest = operator.get(address + following.replace("&amp;", "&"))
    assert "rows=50" in following and "2 rows are shown." in words(rest)
    assert re.findall(r'href="\?[^"]*rows=(\d+)"\s+(aria-current)?', first.content.decode())[:3] == [
        ("50", "aria-current"), ("100", ""), ("200", ""),
    ]  # fmt: skip
    assert operator.get(address, {"rows": "7"}).context["size"].chosen == ""
