"""The examples of docs/TRANSACTIONS.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group as Order

from broker.client import Decision, Producer
from broker.outbox import transactional
from broker.outbox.after_commit import Worker
from broker.outbox.transaction_block import close_all, producer_of
from broker.testing import BrokerThread, small_store
from console.security.gate import ROLES
from tests.client.halfbroker import HalfBroker

PAGE = (Path(__file__).parents[2] / "docs" / "TRANSACTIONS.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COROUTINES = re.findall(r"```python coroutines\n(.*?)```", PAGE, re.DOTALL)
TIMERS = re.findall(r"```python timers\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.django_db(transaction=True)
def test_the_examples_of_the_page_run(broker: HalfBroker) -> None:
    names: dict[str, Any] = {"Order": Order, "namesrv": broker.namesrv}
    for example in EXAMPLES:
        exec(example.replace("from escapement_mq.", "from broker."), names)  # noqa: S102 - the page is ours
    shown = {(half.topic, half.body.decode()): half.codes for half in broker.halves.values()}
    assert shown == {
        ("orders", "4711"): [Decision.COMMIT],
        ("orders", "paid"): [Decision.COMMIT],
        ("coupons", "one more"): [Decision.ROLLBACK],
        ("paid", "4711"): [Decision.COMMIT],
        ("refunded", "4711"): [Decision.COMMIT],
    }
    assert Worker(producer_of("shop"), "default").turn().sent == 1
    assert broker.plain == [("metrics", b"one order more"), ("orders", b"4713")]
    assert set(Order.objects.exclude(name__in=ROLES).values_list("name", flat=True)) == {"4711", "4712", "4713"}


@pytest.mark.django_db(transaction=True)
def test_the_timers_of_the_page_are_put_moved_and_taken_back(tmp_path: Path, settings: Any) -> None:
    settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
    names: dict[str, Any] = {"Order": Order, "transactional": transactional}
    with BrokerThread(small_store(tmp_path)) as broker, Producer("office", broker.namesrv) as office:
        settings.ESCAPEMENT_NAMESRV = broker.namesrv
        dues = []
        for part in TIMERS[0].split("\n\n")[1:]:
            exec(f"from datetime import timedelta\n{part}", names)  # noqa: S102 - the page is ours
            found = office.timers.get("reminders", "4714")
            dues.append(None if found is None else round((found.due_ms - found.store_ms) / 86_400_000))
        assert dues == [14, 21, None]
        close_all()


@pytest.mark.django_db(transaction=True)
async def test_the_coroutine_of_the_page_pays(broker: HalfBroker) -> None:
    names: dict[str, Any] = {"Order": Order}
    for example in COROUTINES:
        exec(example.replace("from escapement_mq.", "from broker."), names)  # noqa: S102 - the page is ours
    assert await names["view"](None) == "4715"
    assert await Order.objects.filter(name="4715").aexists()
    assert [half.codes for half in broker.halves.values()] == [[Decision.COMMIT]]


def test_every_example_is_run() -> None:
    assert len(EXAMPLES) + len(TIMERS) + len(COROUTINES) == PAGE.count("```python") - PAGE.count("```python settings")
