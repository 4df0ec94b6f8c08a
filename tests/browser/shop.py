"""An evening of a shop: plausible names and numbers on every page, the same ones whenever pictures are taken."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import redis
from django.contrib.auth import get_user_model
from django.utils import timezone

from broker.client import Consumer, prepare
from broker.mirror.models import SLOT_MS, SLOTS, MirrorState, RateHistory
from broker.redisson import DelayedQueue
from console import snapshots
from console.features.alerts.models import Alert, AlertRule
from console.kept_figures import Figures, keep_figures
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import Operation
from console.past import Snapshot
from console.ui.saved_views import address_of, keep
from tests.browser import test_dashboards
from tests.browser.test_transactions import park, producer_of
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TOPICS = {"orders": 8, "payments": 8, "shipments": 4, "invoices": 4, "mail": 4, "seat-holds": 2}
#: level and how many wait there
LANES = {1: 12, 3: 24, 4: 30, 5: 14, 9: 40, 12: 22, 14: 64, 15: 31, 16: 120, 17: 88, 18: 45}
GROUPS = {"billing": "orders", "shipping": "orders", "mailer": "mail", "ledger": "payments"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def opened(stage: Stage, redisson: redis.Redis) -> Iterator[dict[str, str]]:
    """The shop, with its clients connected while the block runs; a page's name -> its address."""
    for name, queues in TOPICS.items():
        stage.admin.create_topic(name, queues=queues)
    with ExitStack() as at_work:
        for group, topic in GROUPS.items():
            consumer = Consumer(group, stage.broker.namesrv, from_where="first")
            consumer.subscribe(topic, "*", lambda message: None)
            at_work.enter_context(consumer)
        payers = at_work.enter_context(producer_of(stage, "checkout"))
        silent = at_work.enter_context(producer_of(stage, "legacy-till"))
        _send(stage)
        _wait(stage)
        park(stage, silent, "order-4402", "order-4417")
        halves = [payers.send_half("orders", _half(number)) for number in range(10)]
        for number in (0, 1, 3, 4, 7):
            payers.commit(halves[number])
        payers.rollback(halves[2])
        for number in range(7):
            bury(stage, f"order-{4_310 + number * 17}", body='{"error": "card declined"}', tag="paid")
        _offer(redisson)
        stage.wait_for(lambda: len(stage.admin.consumers(list(GROUPS))) >= len(GROUPS))
        stage.mirror.run_once()
        addresses = _act(stage)
        test_dashboards.fill_densely()
        _alerts()
        snapshots.take()
        yield addresses


def look(stage: Stage) -> None:
    """Mirror what is there now, and give the last five minutes a shape: they were not waited for."""
    stage.mirror.run_once()
    slot = now_ms() // SLOT_MS - 1
    state = MirrorState.objects.get()
    state.following_since_ms = (slot - SLOTS) * SLOT_MS
    MirrorState.upsert([state], ("broker",))
    named = [("topic", name, 200 + 40 * turn) for turn, name in enumerate(TOPICS)]
    named += [("group", name, 180 + 30 * turn) for turn, name in enumerate(GROUPS)]
    named += [("level", str(level), count) for level, count in LANES.items()]
    named += [("flow", name, height) for name, height in (("accepted", 900), ("released", 240), ("consumed", 860))]
    RateHistory.upsert(
        [
            RateHistory(
                broker_id=state.broker_id, kind=kind, name=name, slot=slot,
                counts=[round(height * (1 + 0.4 * math.sin(step / 7 + height))) for step in range(SLOTS)],
            )
            for kind, name, height in named
        ],
        ("broker", "kind", "name"),
    )  # fmt: skip
    _hour(state.broker_id)


def _hour(broker: str) -> None:
    """Figures of the last hour, for its charts: the same of a minute whenever it is asked for."""
    now = now_ms() // MINUTE
    through = {("flow", "accepted"): 9_000, ("flow", "consumed"): 8_600, ("lanes", ""): 2_400, ("timers", ""): 1_500}
    through |= {("topic", name): 1_200 + 240 * turn for turn, name in enumerate(TOPICS)}
    through |= {("group", name): 1_080 + 180 * turn for turn, name in enumerate(GROUPS)}
    seen = snapshots.look()
    assert seen is not None
    kept = snapshots.keep(seen)
    for at in range(now - 61, now):
        slot_ms, wave = at * MINUTE, 1 + 0.4 * math.sin(at / 7) + 0.1 * math.sin(at / 2)
        # nothing was pending for long: what is known of now stands for each minute
        kept.pk, kept.slot_ms, kept.at_ms = None, slot_ms, slot_ms
        Snapshot.objects.bulk_create([kept], ignore_conflicts=True)
        # what went through until then: the sum of the waves
        passed = at - 2.8 * math.cos(at / 7) - 0.2 * math.cos(at / 2)
        figures = [
            Figures(
                kind, name, round(height * passed), round(height / 9 * (2 - wave)),
                round(height / 40 * max(0.0, math.sin(at / 9))), round(900 * wave),
            )
            for (kind, name), height in through.items()
        ]  # fmt: skip
        keep_figures(broker, slot_ms, figures)


def _half(number: int) -> Any:
    return prepare('{"amount": 42.5}', keys=[f"order-{4_500 + number}"], tag="paid")


def _send(stage: Stage) -> None:
    for number in range(120):
        body = f'{{"order": {4_200 + number}, "amount": {19 + number % 80}.90, "currency": "EUR"}}'
        stage.producer.send("orders", body, keys=[f"order-{4_200 + number}"], tag="paid" if number % 3 else "open")
        stage.producer.send("payments", body, keys=[f"order-{4_200 + number}"], tag="card")
        if number % 5 == 0:
            for topic in ("invoices", "shipments", "mail"):
                stage.producer.send(topic, body, keys=[f"order-{4_200 + number}"], tag=topic)
    for level, count in LANES.items():
        for number in range(count):
            key = f"order-{4_000 + number}"
            stage.producer.send("seat-holds", '{"seat": "12C"}', keys=[key], tag="hold", delay_level=level)


def _wait(stage: Stage) -> None:
    now = now_ms()
    for number in range(160):
        due_ms = now + 20_000 + round(number**1.9) * 900
        key = f"order-{4_100 + number}"
        stage.producer.send("mail", "reminder", keys=[key], schedule_key=f"remind-{number}", deliver_at_ms=due_ms)
        stage.producer.send("invoices", "due", keys=[key], deliver_at_ms=now + number * 3 * HOUR + 40_000 + number)
    for number in range(90):
        stage.producer.send("shipments", "batch", keys=[f"tour-{number}"], deliver_at_ms=now // MINUTE * MINUTE + HOUR)


def _offer(client: redis.Redis) -> None:
    for name, count in (("order-timeouts", 48), ("coupon-expiry", 17), ("seat-release", 5)):
        queue = DelayedQueue(name, client)
        for number in range(count):
            queue.offer(f"order-{4_300 + number}", delay=(number + 1) * 4 * MINUTE)


def _act(stage: Stage) -> dict[str, str]:
    actor = Actor.of(get_user_model().objects.get(username="operator"))
    waiting = stage.admin.timers(now_ms() + DAY, 2**62).items
    chosen = {"targets": [{"position": item.position} for item in waiting[:4]]}
    cancelled = workflow.start("timers.cancel", chosen, actor, reason="orders 4,140 to 4,143 were withdrawn")
    workflow.start(
        "groups.reset_offsets", {"group": "ledger", "topic": "payments", "to": "first"}, actor, reason="audit"
    )
    draft = workflow.draft("timers.reschedule", {"filter": {"topic": "shipments"}, "shift_ms": 30 * MINUTE}, actor)
    waits = workflow.draft("timers.pause", {}, actor)
    Operation.objects.filter(pk=waits.pk).update(
        state=Operation.State.WAITING, waits_until=timezone.now() + timedelta(hours=1), reason="stock is being counted",
        actor="anna", created_by=None,
    )  # fmt: skip
    for address, name in (("/topics/?order=rate", "busiest first"), ("/topics/?kind=retry", "tries")):
        view = address_of(address)
        assert view is not None
        keep(get_user_model().objects.get(username="operator"), view, name)
    late = stage.producer.send("mail", "reminder", keys=["order-4711"], tag="hold", delay_level=15)
    half = stage.admin.transactions("open").items[0]
    return {
        "lane": "/schedule/16/", "timer": f"/timers/{waiting[8].position}/",
        "transaction": f"/transactions/{half.position}/", "message": f"/messages/{late.offset_message_id}/",
        "operation": f"/operations/{draft.pk}/", "cancelled": f"/operations/{cancelled.pk}/",
    }  # fmt: skip


def _alerts() -> None:
    now = timezone.now()
    lag = AlertRule.objects.create(what="backlog", subject="*", limit=10_000, for_s=60, emails="shop@example.org")
    late = AlertRule.objects.create(what="lateness", limit=50, for_s=120, webhook="https://hooks.example.org/late")
    AlertRule.objects.create(what="dead-letters", subject="billing", limit=5)
    Alert.objects.create(
        rule=lag, subject="ledger", value=14_210, highest=18_904, state="firing", since=now - timedelta(minutes=7),
        raised_at=now - timedelta(minutes=6), told_before="mail: sent to 1",
    )  # fmt: skip
    for hours, highest in ((5, 84.0), (29, 61.5)):
        since = now - timedelta(hours=hours)
        Alert.objects.create(
            rule=late, subject="broker-a", value=2.0, highest=highest, state="ended", since=since, raised_at=since,
            ended_at=since + timedelta(minutes=9), told_before="webhook: 204",
        )  # fmt: skip
