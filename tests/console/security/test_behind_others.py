"""Every list, asked by somebody who sees some topics only and whose rows stand behind more of others than a page holds.

Which pages have lists is said here for each address: a new one fails until it says what it shows.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from broker.client import Consumer, Decision, TransactionProducer, prepare
from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, Topic
from broker.redisson import DelayedQueue
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.features.overview.findings import forget
from console.operations import audit_pages
from console.operations.models import AuditEntry, Operation
from console.security.gate import ADMINISTRATOR
from console.security.topic_scope import visible_topics
from console.ui.live import LivePage, _render
from console.urls import urlpatterns
from tests.console.delayed_stage import MINUTE
from tests.console.people import browser_of
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage
from tests.console.ui.test_snapshots_pages import move, taken

FOREIGN, OTHERS = "payroll", 200
#: nobody who sees `orders` alone is told these
THEIRS = ("payroll", "wages", "theirs")
HOUR_MS = 3_600_000
#: more than the table of timers by topic has
TOPICS = 20
#: more than a page looks at by itself
MANY = 2_100
#: each list: addresses, and what stands there of the one who looks
LISTS: dict[str, dict[str, tuple[str, ...]]] = {
    "overview": {"/": ("mine-waiting", "billing")},
    "due": {"/due/": ("The whole broker",)},
    "schedule": {"/schedule/": ("The whole broker",)},
    "lane": {"/schedule/16/": ("orders-lane",)},
    "timers": {"/timers/": ("orders-timer", ">orders<", "The whole broker")},
    "timer_list": {"/timers/list/": ("orders-timer",), "/timers/list/?key=shared": ("orders",)},
    "transactions": {"/transactions/": ("orders-half", "of-orders", "orders-decided", "The whole broker")},
    "transaction_list": {
        "/transactions/list/": ("orders-half",), "/transactions/list/?state=decided": ("orders-decided",),
    },
    "delayed_queues": {"/redisson/": ("orders",)},
    "operations": {"/operations/": ("mine-done",)},
    "topics": {"/topics/": ("orders",), "/topics/?order=-last": ("orders",)},
    "topic": {"/topics/orders/": ("billing",)},
    "tail": {"/topics/orders/tail/": ("orders-plain",)},
    "queue": {"/topics/orders/0/": ("orders-plain",)},
    "messages": {
        "/messages/?q=shared": (">orders<",), "/messages/?q=shared&topic=orders": ("orders",),
        "/messages/?topic=orders": ("orders-plain",),
    },
    "dashboards": {"/dashboards/": ("orders",)},
    "dashboard": {"/dashboards/flow/": ("orders",)},
    "dashboard_series": {"/dashboards/flow/series/sent.json": ("orders",)},
    "dashboard_data": {"/dashboards/flow/data.csv": ("orders",)},
    "dead_letters": {"/dead-letters/": ("billing",)},
    "dead_letters_of": {"/dead-letters/of/billing/": ("orders-dead",)},
    "groups": {"/groups/": ("billing",)},
    "group": {"/groups/billing/": ("orders",)},
    "compare": {"/compare/": ("The whole broker",)},
    "clients": {"/clients/": ("billing",)},
    "broker": {"/broker/": ("billing",)},
    "alerts": {"/alerts/": ("billing", "mine-silenced")},
    "audit": {"/audit/": ("mine-done",), "/audit/?actor=boss": ("mine-done",)},
    "audit_data": {"/audit/data.json": ("mine-done",)},
    "find": {"/find/?q=ord": ("orders",), "/find/?q=bil": ("billing",)},
    "saved_views": {"/views/": ()},
}  # fmt: skip
#: pages of one thing, or without rows that are of a topic
SINGLE = {
    "timer", "transaction", "delayed_queue", "operation", "message", "message_body", "client", "alert_rule", "find_key",
    "design", "favicon", "alert_rule_new", "login", "sign_on", "sign_on_back", "prove", "send_again", "healthz",
    "readyz", "metrics", "admin_sign_in", "second_step", "own_password", "own_second_factor",
    "finding", "own_settings", "send", "topic_descriptor", "reference", "reference_operation",
    # a list of what is in no broker any more: tests/console/archive has it behind others
    "archive",
}  # fmt: skip
#: accounts, tokens and users of access control are about every topic: who sees some only is refused
CLOSED = {
    "access": "/access/", "access_user": "/access/payroll/", "people": "/people/", "person": "/people/1/",
    "tokens": "/tokens/",
}  # fmt: skip
#: what only acts
ACTS = {
    "operation_draft", "operation_preview", "operation_confirm", "operation_abort", "operation_continue",
    "operation_approve", "operation_decline", "operation_undo", "message_unmask", "dashboards_run", "dashboards_cancel",
    "transaction_unmask", "alert_silence", "alert_rule_test", "saved_view_keep", "saved_view", "saved_view_delete",
    "find_act", "logout", "set_theme", "set_zone", "set_density", "see_as", "see_as_stop", "topic_descriptor_draft",
}  # fmt: skip
#: sentences that say that there is nothing of anybody
_NOTHING = re.compile(
    r'(?:"|{% blocktranslate trimmed %}\s*)((?:Nothing|No|Nobody|There is no|This group has no) [^"{%]*?)'
    r'(?:"|\s*{% endblocktranslate)'
)
#: true here: of transfer services, rules and saved views there is none, and this is not about what waits
TRUE = {
    "Nothing in the topics that you can see.", "No transfer service is running.", "No saved views yet.",
    "None.", "No changes.", "Nothing released in the last 5 min.",
}  # fmt: skip


def sentences() -> set[str]:
    """What templates say where there is nothing."""
    files = Path(__file__).parents[3].joinpath("templates").rglob("*.html")
    return {" ".join(text.split()) for file in files for text in _NOTHING.findall(file.read_text())} - TRUE


def said(html: str) -> list[str]:
    """Those of the sentences that are the whole text of an element."""
    texts = {" ".join(text.split()) for text in re.findall(">([^<>]*)<", html)}
    return sorted(texts & sentences())


def test_every_address_says_whether_it_is_a_list() -> None:
    assert {str(each.name) for each in urlpatterns} == {*LISTS, *SINGLE, *CLOSED, *ACTS}
    assert len(sentences()) > 40


@pytest.fixture
def crowded(stage: Stage, server: redis.Redis) -> Iterator[Stage]:
    """`orders` and `billing`, each behind OTHERS of what is not seen."""
    forget()
    for topic in (FOREIGN, *(f"{FOREIGN}-{number:02}" for number in range(TOPICS))):
        stage.admin.create_topic(topic, queues=1)
    _send(stage)
    for group, topic in (("wages", FOREIGN), ("billing", "orders")):
        stage.admin.create_group(group)
        stage.admin.move_group(group, topic, 0, 0)
    _die(stage)
    for name in (*(f"{FOREIGN}-{number:03}" for number in range(OTHERS)), "orders"):
        DelayedQueue(name, server).offer("x", delay=MINUTE)
    stage.mirror.run_once()
    stage.wait_for(lambda: len(stage.admin.timers(0, 2**62, limit=1_000).items) == OTHERS + 1)
    consumer = Consumer("billing", stage.broker.namesrv)
    consumer.subscribe("orders", "none", lambda message: None)
    with consumer:
        stage.wait_for(lambda: stage.admin.consumers(["billing"]))
        stage.mirror.run_once()
        _rows()
        move(taken(), -2 * HOUR_MS)
        taken()
        yield stage
    forget()


def _send(stage: Stage) -> None:
    """Messages: the oldest and the last ones are of `orders`."""
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    namesrv, send = stage.broker.namesrv, stage.producer.send
    with (
        TransactionProducer("of-orders", namesrv, check=lambda _: Decision.UNKNOWN) as mine,
        TransactionProducer("of-wages", namesrv, check=lambda _: Decision.UNKNOWN) as others,
    ):
        mine.send_half("orders", prepare("x", keys=["shared-half", "orders-first"]))
        mine.commit(mine.send_half("orders", prepare("x", keys=["orders-decided"])))
        send("orders", "x", keys=["shared"], delay_level=17)
        for number in range(OTHERS):
            send(FOREIGN, "x", keys=["shared"], delay_level=16)
            send(f"{FOREIGN}-{number % TOPICS:02}", "x", keys=["shared"], deliver_at_ms=due_ms + number)
            send(FOREIGN, "x", keys=["shared"])
            others.send_half(FOREIGN, prepare("x", keys=["shared-half"]))
            others.commit(others.send_half(FOREIGN, prepare("x")))
        send("orders", "x", keys=["orders-lane"], delay_level=16)
        send("orders", "x", keys=["orders-timer", "shared"], deliver_at_ms=due_ms + HOUR_MS)
        send("orders", "x", keys=["orders-plain"], queue_id=0)
        mine.send_half("orders", prepare("x", keys=["orders-half"]))


def _die(stage: Stage) -> None:
    """Dead letters of one group: those of a topic that it does not read any more are newer."""
    for topic, key, count in (("orders", "orders-dead", 1), (FOREIGN, "x", OTHERS)):
        sent = stage.producer.send(topic, "x", keys=[key], queue_id=0)
        record = stage.admin.message_by_offset_id(sent.offset_message_id)
        for _ in range(count):
            stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)


def _rows() -> None:
    """What the database has: more of others' topics and groups, operations, alerts, points."""
    broker = Broker.objects.get()
    names = [f"aaa-wages-{number:03}" for number in range(3 * OTHERS)]
    ConsumerGroup.mirror_writer.bulk_create(ConsumerGroup(broker=broker, name=name, members=1) for name in names)
    ConsumerOffset.mirror_writer.bulk_create(
        ConsumerOffset(broker=broker, group=name, topic=FOREIGN, queue_id=0, offset=0) for name in names
    )
    Topic.mirror_writer.bulk_create(
        Topic(broker=broker, name=f"aaa-{FOREIGN}-{number}", read_queues=1, write_queues=1, permission=6)
        for number in range(OTHERS)
    )
    later = timezone.now() + timedelta(hours=1)
    for topic, word, count in (("orders", "mine", 1), (FOREIGN, "theirs", MANY)):
        made = [
            Operation(
                id=uuid.uuid4(), kind="topics.change", state=state, parameters={"name": topic}, actor="boss",
                reason=f"{word}-{state}", waits_until=later if state == "waiting" else None,
            )
            for state in ("done", "waiting")
            for _ in range(count)
        ]  # fmt: skip
        Operation.objects.bulk_create(made)
        AuditEntry.objects.bulk_create(
            AuditEntry(actor="boss", what="confirmed", kind=row.kind, operation=row.pk, reason=row.reason)
            for row in made
        )
    Operation.objects.filter(reason="mine-waiting").update(waits_until=later + timedelta(minutes=1))
    _alerts()
    run = DashboardRun.objects.create(
        broker=django_settings.BROKER_NAME, dashboard="flow", is_current=True, state="done", finished_at=later,
        as_of_ms=1,
    )  # fmt: skip
    DashboardPoint.objects.bulk_create(
        DashboardPoint(run=run, series="sent", topic=topic, label="", part="", at_ms=60_000, value=value)
        for topic, value in (*((f"{FOREIGN}-{number}", 1_000) for number in range(OTHERS)), ("orders", 1))
    )


def _alerts() -> None:
    """Raised and over, of others first; rules name others' groups."""
    now = timezone.now()
    for number in range(OTHERS):
        rule = AlertRule.objects.create(what="backlog", subject=f"wages-{number}", limit=1)
        for state, ended in (("firing", None), ("ended", now + timedelta(hours=1))):
            Alert.objects.create(rule=rule, subject=rule.subject, state=state, since=now, value=2, highest=2,
                                 ended_at=ended)  # fmt: skip
    mine = AlertRule.objects.create(what="backlog", subject="billing", limit=1)
    for state, ended in (("firing", None), ("ended", now)):
        Alert.objects.create(rule=mine, subject="billing", state=state, since=now + timedelta(minutes=1),
                             value=2, highest=2, ended_at=ended)  # fmt: skip
    Silence.objects.create(subject="billing", until=now + timedelta(hours=1), reason="mine-silenced")


def text_of(browser: Client, path: str) -> str:
    page: Any = browser.get(path, follow=True)
    assert page.status_code == 200, path
    return (b"".join(page) if page.streaming else page.content).decode()


def test_what_is_seen_is_found_behind_what_is_not(crowded: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # how many entries are read for one page is tried here; how long it may take is not, on a machine with other work
    monkeypatch.setattr(audit_pages, "PATIENCE_S", 60.0)
    anna = browser_of(limited_person("anna", "ord", role=ADMINISTRATOR))
    faults = []
    for name, pages in LISTS.items():
        for path, words in pages.items():
            shown = text_of(anna, path)
            faults += [(path, "lacks", word) for word in words if word not in shown]
            faults += [(path, "tells", word) for word in THEIRS if word in shown]
            faults += [(path, "says", text) for text in said(shown)]
            faults += _of_file(anna, name, path, words)
    assert not faults, "\n".join(map(str, faults))
    assert not _live_faults(limited_person("ben", "ord"))
    found: Any = anna.get("/find/key/?q=shared-half&of=transactions")
    assert "orders-first" in text_of(anna, found["Location"])


def test_who_sees_some_topics_only_has_no_lists_of_people(db: None) -> None:
    anna = browser_of(limited_person("anna", "ord", role=ADMINISTRATOR))
    for path in CLOSED.values():
        answer = anna.get(path)
        # what was asked for stands in the page that answers
        shown = answer.content.decode().replace(path, "")
        assert (answer.status_code, [word for word in THEIRS if word in shown]) == (403, []), path


def _of_file(anna: Client, name: str, path: str, words: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """The same of the list's file, where it has one."""
    page: Any = anna.get(f"{path}{'&' if '?' in path else '?'}as=csv")
    if not page["Content-Type"].startswith("text/csv") or name == "overview":
        return []
    file = b"".join(page).decode()
    lacks = [word for word in words if word.startswith(("orders", "mine-done")) and word not in file]
    return [(path, "file lacks", word) for word in lacks] + [(path, "file", word) for word in THEIRS if word in file]


def _live_faults(user: Any) -> list[tuple[str, str, str]]:
    """The same of what open pages are sent."""
    visible, faults = visible_topics(user), []
    for name, argument, word in (
        ("lane", "16", "orders-lane"), ("timers", "", "orders-timer"), ("transactions", "", "of-orders"),
        ("overview", "", "mine-waiting"), ("clients", "", "billing"), ("groups", "", "billing"),
        ("topics", "", "orders"), ("delayed_queues", "", "orders"),
    ):  # fmt: skip
        html = "".join(_render(LivePage(name, argument, (), visible), "en", 1, None)[0].values())
        faults += [(name, "lacks", word)] * (word not in html)
        faults += [(name, "tells", each) for each in THEIRS if each in html]
        faults += [(name, "says", text) for text in said(html)]
    return faults
