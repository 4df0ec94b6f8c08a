"""Who sees some topics only: no page, file or live frame names another one, and nothing is done to it."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Group
from django.http import Http404
from django.test import Client
from msgspec.structs import replace

from broker.client import Consumer, Decision, Message, SimpleConsumer, TransactionProducer, prepare
from broker.mirror.models import Topic
from broker.redisson import DelayedQueue
from console.features.alerts.models import AlertRule
from console.features.clients import read_clients
from console.features.groups import read as groups_read
from console.features.messages import read as messages_read
from console.features.overview.findings import forget
from console.features.transactions.shapes import Board, TransactionRow, TransactionState
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import OutOfReach
from console.operations.models import AuditEntry, Operation
from console.operations.registry import scope_of
from console.security.models import TopicPermission
from console.security.topic_scope import ALL, NOTHING, AuthorisedRead, TopicScope, scoped, visible_topics
from console.site.evidence import Evidence
from console.templatetags.transactions import board_drawing
from console.ui.live import LivePage, _render, live_pages
from tests.console.delayed_stage import MINUTE
from tests.console.messages.test_life import consumed_events, sent_event, tell
from tests.console.people import browser_of, person
from tests.console.security.test_roles import CLOSED, NOT_FOUND
from tests.console.stage import Stage
from tests.house.sources import ROOT, tree

HOUR_MS = 3_600_000
SOURCES = {"mirrored", "cluster", "ask", "_ask", "ask_each", "read_each", "ask_redis"}
#: reads that are not given the scope of whoever looks, and why they need not be
OPEN_READS = {
    "alerts.evaluate.read": "watches all, for the rules",
    "dashboards.read.current_run": "which run is shown; its points are read for whoever looks",
    "dashboards.runs.first_broker": "a broker's name",
    "dashboards.runs.parts_in_total": "names of brokers, and where their logs are",
    "dead_letters.pages.read_dead_letters": "REST says itself what a token sees",
    "messages.across.hops_elsewhere": "the page that asks leaves out what is not seen",
    "messages.across.is_offset_id": "addresses of brokers",
    "messages.sent_now.half_now": "the page that asks is of an operation, which is seen by who sees the topic",
    "messages.sent_now.timer_now": "the page that asks is of an operation, which is seen by who sees the topic",
    "overview.finding_pages.finding": "names of brokers; the findings are read for whoever looks",
    "redisson.due.due_of_queues": "who asks says which queues are seen",
    "redisson.read.read_queue": "REST says itself what a token sees",
    "redisson.read.read_queues": "REST says itself what a token sees",
    "schedule.read.highest_level": "a number",
    "schedule.read.kept_lanes": "counts and moments of the whole broker, no names",
    "schedule.read.lanes": "counts and moments of the whole broker, no names",
    "timers.due.timers_due": "counts of the whole broker, no names",
    "timers.read.timers_mark": "numbers that nobody is shown",
    "topics.losses.is_there_again": "an operation says it of the topic that it names, to who sees that",
    "topics.pages.stored_mark": "numbers that nobody is shown",
    "transactions.pages.transactions_mark": "numbers that nobody is shown",
}
FOREIGN = "payroll"
#: opens of its own address as well as by a list
NAMED = [
    "/topics/payroll/", "/topics/payroll/descriptor/", "/topics/payroll/send/", "/topics/payroll/tail/",
    "/topics/payroll/0/",
    "/groups/wages/", "/dead-letters/of/wages/",
    "/messages/?topic=payroll", "/messages/?topic=payroll&q=payroll-1", "/redisson/queue/?name=payroll",
    "/topics/SCHEDULE_TOPIC_XXXX/15/", "/topics/%25RETRY%25wages/", "/topics/rmq_sys_wheel_timer/0/",
]  # fmt: skip

#: pages that name it to who sees all
TOLD_TO_ALL = {
    "/topics/", "/groups/", "/alerts/", "/audit/", "/operations/", "/timers/", "/timers/list/", "/transactions/",
    "/transactions/list/", "/redisson/", "/dead-letters/", "/schedule/16/", "/messages/", "/find/?q=ay",
}  # fmt: skip


def limited_person(name: str, *prefixes: str, role: str = "operator") -> Any:
    """An operator, or who has another role, who sees what begins with the prefixes."""
    user = person(name, role=role)
    group = Group.objects.create(name=f"of {name}")
    user.groups.add(group)
    for prefix in prefixes:
        TopicPermission.objects.create(group=group, pattern=f"{prefix}*")
    return user


@pytest.fixture
def filled(stage: Stage, server: redis.Redis) -> Iterator[Stage]:
    """The same of `orders`, which is seen, and of `payroll`, which is not."""
    forget()
    stage.admin.create_topic(FOREIGN, queues=1)
    for topic, group in (("orders", "billing"), (FOREIGN, "wages")):
        note = {"note": topic}
        sent = stage.producer.send(topic, topic, keys=[f"{topic}-1"], tag=topic, queue_id=0, properties=note)
        stage.producer.send(topic, topic, keys=[f"{topic}-2"], delay_level=16)
        due_ms = time.time_ns() // 1_000_000 + 2 * HOUR_MS
        stage.producer.send(topic, topic, keys=[f"{topic}-3"], schedule_key=f"{topic}-3", deliver_at_ms=due_ms)
        record = stage.admin.message_by_offset_id(sent.offset_message_id)
        stage.admin.create_group(group)
        stage.admin.move_group(group, topic, 0, 0)
        stage.admin.send_back(group, record, delay_level=-1, max_reconsume_times=0)
        DelayedQueue(topic, server).offer(topic, delay=MINUTE)
        AlertRule.objects.create(what="backlog", subject=group, limit=1)
        with TransactionProducer(f"of-{topic}", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
            producer.commit(producer.send_half(topic, prepare(topic, keys=[f"{topic}-4"])))
            producer.send_half(topic, prepare(topic, keys=[f"{topic}-5"]))
    stage.mirror.run_once()
    stage.wait_for(lambda: len(stage.admin.timers(0, due_ms + HOUR_MS).items) == 2)
    yield stage
    forget()


def drafts_of(topic: str, group: str) -> list[tuple[str, dict[str, Any]]]:
    """An operation of each family on a topic."""
    return [
        ("timers.cancel", {"filter": {"topic": topic}}),
        ("groups.reset_offsets", {"group": group, "topic": topic, "to": "last"}),
        ("dead_letters.send_as_new", {"group": group, "filter": {}, "is_all": True}),
        ("topics.change", {"name": topic, "settings": {"read_queues": 3}}),
        ("groups.delete", {"name": group}),
        ("redisson.clear", {"queue": topic}),
    ]


def ids_of(stage: Stage, topic: str) -> list[str]:
    """Offset ids of the topic's messages, parked ones included."""
    keys = [f"{topic}-{number}" for number in (1, 2)]
    hits = [*messages_read.messages(topic, keys[0]).hits, *messages_read.messages(topic, keys[1]).hits]
    assert len(hits) >= 2
    return [hit.offset_message_id for hit in hits]


def text_of(browser: Client, path: str) -> str:
    page: Any = browser.get(path)
    return (b"".join(page) if page.streaming else page.content).decode()


def test_no_page_names_a_topic_that_is_not_seen(filled: Stage, actor: Actor, operator: Client) -> None:
    user = limited_person("anna", "ord")
    anna = browser_of(user)
    rows = [workflow.draft(kind, given, actor) for kind, given in drafts_of(FOREIGN, "wages")]
    mine = [workflow.draft(kind, given, actor) for kind, given in drafts_of("orders", "billing")]
    for row in (rows[1], mine[1]):
        workflow.confirm(row.pk, actor, reason=str(row.parameters["topic"]))
    timers = {row.topic: row.position for row in filled.admin.timers(0, 2**62).items}
    paths = [path for _, path in CLOSED]
    paths += ["/topics/?kind=all", "/timers/list/", "/messages/?q=payroll-1", "/messages/?q=payroll-2", "/find/?q=ay"]
    for path in (*paths, "/schedule/16/", "/messages/?q=orders-1", "/audit/data.json", "/groups/billing/"):
        shown = text_of(anna, path)
        # what was asked for stands in the page that answers
        assert FOREIGN not in shown.replace(path.partition("?q=")[2] or "nothing", ""), path
        assert "wages" not in shown, path
        if path in TOLD_TO_ALL:
            told = text_of(operator, path)
            assert FOREIGN in told or "wages" in told, path
    closed = [*NAMED, f"/timers/{timers[FOREIGN]}/", *(f"/operations/{row.pk}/" for row in rows)]
    halves = {row.topic: row.position for row in filled.admin.transactions("open").items}
    closed.append(f"/transactions/{halves[FOREIGN]}/")
    closed += [f"/messages/{each}/{part}" for each in ids_of(filled, FOREIGN) for part in ("", "body")]
    for path in closed:
        assert anna.get(path).status_code == 404, path


def test_a_unique_id_of_somebody_else_tells_nothing_of_his_message(filled: Stage) -> None:
    filled.mirror.run_once()
    foreign = filled.admin.messages_by_key(FOREIGN, f"{FOREIGN}-1")[0]
    parked = next(each for each in filled.admin.messages_by_key("SCHEDULE_TOPIC_XXXX", f"{FOREIGN}-2"))
    ours, also = (
        filled.admin.message_by_offset_id(_forged(filled, record).offset_message_id) for record in (foreign, parked)
    )
    events = [
        sent_event(foreign, at_ms=foreign.store_ms, group="payers", client="10.9.8.7").replace("orders", FOREIGN),
        consumed_events(foreign, at_ms=foreign.store_ms, group="wages", client="10.9.8.6"),
    ]
    tell(filled, foreign, *events)
    named = Client()
    named.force_login(limited_person("named", "orders"))
    everybody = Client()
    everybody.force_login(person("all"))
    for record, hidden in ((ours, ("10.9.8.", "payers", "wages")), (also, ())):
        for address in (f"/messages/{record.offset_message_id}/", f"/messages/{record.unique_key}/?topic=orders"):
            page = named.get(address)
            assert page.status_code == 200, address
            told = page.content.decode()
            assert not [word for word in ("10.9.8.", "payers", "wages") if word in told], address
            assert {hop.topic for hop in page.context["data"].hops} == {"orders"}
            assert (page.context["data"].told, page.context["data"].due_ms) == (0, None)
            seen = everybody.get(address).content.decode()
            assert all(word in seen for word in hidden), address
    assert named.get(f"/messages/{foreign.offset_message_id}/").status_code == NOT_FOUND
    assert named.get(f"/messages/{foreign.unique_key}/?topic={FOREIGN}").status_code == NOT_FOUND


def _forged(stage: Stage, record: Message) -> Any:
    """One of `orders` that says to be the other one, and where it was."""
    message, unique = prepare("ours", keys=["forged"]), str(record.unique_key)
    said = message.properties.replace(message.message_id, unique) + f"REAL_TOPIC\x01{FOREIGN}\x02"
    return stage.producer.send_each("orders", [replace(message, properties=said, message_id=unique)])[0]


def test_what_is_seen_is_there(filled: Stage, actor: Actor) -> None:
    anna = browser_of(limited_person("anna", "ord"))
    mine = [workflow.draft(kind, given, actor) for kind, given in drafts_of("orders", "billing")]
    timers = {row.topic: row.position for row in filled.admin.timers(0, 2**62).items}
    half = next(row.position for row in filled.admin.transactions("open").items if row.topic == "orders")
    for path, word in (
        ("/transactions/", "orders-4"), ("/transactions/list/", "orders-5"), (f"/transactions/{half}/", "orders-5"),
        ("/topics/", "orders"), ("/topics/orders/", "billing"), ("/groups/", "billing"), ("/schedule/16/", "orders-2"),
        ("/timers/list/", "orders-3"), (f"/timers/{timers['orders']}/", "orders-3"), ("/dead-letters/", "billing"),
        ("/dead-letters/of/billing/", "orders-1"), ("/redisson/", "orders"), ("/redisson/queue/?name=orders", "orders"),
        ("/messages/?q=orders-1", "orders-1"), ("/alerts/", "billing"), ("/find/?q=bil", "billing"),
        ("/topics/%25DLQ%25billing/0/", "orders-1"),
        *((f"/messages/{each}/", "orders-") for each in ids_of(filled, "orders")),
        *((f"/operations/{row.pk}/", "") for row in mine),
    ):  # fmt: skip
        page = anna.get(path)
        assert page.status_code == 200, path
        assert word in page.content.decode(), path


def test_nothing_is_done_to_what_is_not_seen(filled: Stage, actor: Actor, operator: Client) -> None:
    user = limited_person("anna", "ord")
    anna = Actor.of(user)
    for kind, given in drafts_of(FOREIGN, "wages"):
        with pytest.raises(OutOfReach):
            workflow.draft(kind, given, anna)
        theirs = workflow.draft(kind, given, actor)
        for step in (workflow.abort, workflow.go_on):
            with pytest.raises(OutOfReach):
                step(theirs.pk, anna)
        with pytest.raises(OutOfReach):
            workflow.confirm(theirs.pk, anna, reason="why not")
        with pytest.raises(OutOfReach):
            workflow.look_again(theirs, anna)
    positions = [{"position": row.position} for row in filled.admin.timers(0, 2**62).items]
    unbounded: list[tuple[str, dict[str, Any]]] = [
        ("timers.cancel", {"filter": {}, "is_all": True}), ("timers.cancel", {"targets": positions}),
        ("timers.pause", {}), ("due.measure", {}),
        ("transactions.commit", {"filter": {"state": "open"}, "is_all": True}),
        ("topics.create", {"name": "payroll-2", "settings": {}}), ("groups.create", {"name": "fresh", "settings": {}}),
        ("redisson.move", {"queue": "orders", "to": FOREIGN, "filter": {}, "is_all": True}),
    ]  # fmt: skip
    for kind, given in unbounded:
        with pytest.raises(OutOfReach):
            workflow.draft(kind, given, anna)
    assert len(filled.admin.timers(0, 2**62).items) == 2
    assert set(AuditEntry.objects.values_list("what", flat=True)) == {"denied"}
    for kind, given in drafts_of("orders", "billing"):
        assert workflow.draft(kind, given, anna).state == "draft"
    form = {"kind": "timers.cancel", "scope": "matching", "is_all": "1"}
    refused = browser_of(user).post("/operations/draft/", form)
    assert refused.status_code == 403
    assert "filter by one of them. Somebody who sees all topics can do the rest." in refused.content.decode()
    kept = workflow.start("timers.cancel", {"filter": {"topic": "orders"}}, anna, reason="mine")
    assert kept.results == {"cancelled": 1}
    again = {"operation": str(kept.pk)}
    assert workflow.draft("timers.take_back", again, anna).preview["count"] == 1
    with pytest.raises(OutOfReach):
        workflow.draft("timers.take_back", again, Actor.of(limited_person("ben", "pay")))


def test_live_frames_are_limited_as_pages_are(filled: Stage) -> None:
    visible = visible_topics(limited_person("anna", "ord"))
    arguments = {"topic": "orders", "tail": "orders", "group": "billing", "lane": "16"}
    queries_of = {"delayed_queue": (("name", "orders"),), "topics": (("kind", "all"),)}
    for name, kind in live_pages().items():
        if name in ("operation", "client"):
            continue
        page = LivePage(name, arguments[name] if kind.takes_argument else "", queries_of.get(name, ()), visible)
        html = "".join(_render(page, "en", 1, None)[0].values())
        assert html, name
        assert FOREIGN not in html, name
        assert "wages" not in html, name
    for page in (LivePage("topic", FOREIGN, (), visible), LivePage("group", "wages", (), visible)):
        with pytest.raises(Http404):
            _render(page, "en", 1, None)
    with pytest.raises(Http404):
        _render(LivePage("topic", "orders"), "en", 1, None)


def test_a_client_is_seen_with_all_that_it_reads(filled: Stage) -> None:
    with ExitStack() as consumers:
        for group, topic in (("billing", "orders"), ("wages", FOREIGN)):
            consumer = Consumer(group, filled.broker.namesrv)
            consumer.subscribe(topic, "*", lambda message: None)
            consumers.enter_context(consumer)
        filled.wait_for(lambda: len(filled.admin.consumers(["billing", "wages"])) == 2)
        filled.mirror.run_once()
        with scoped(visible_topics(limited_person("anna", "ord"))):
            assert [row.group for row in read_clients().rows] == ["billing"]
        assert {row.group for row in read_clients().rows} >= {"billing", "wages", "tests"}


def test_a_group_is_seen_whole_if_all_that_it_reads_is(filled: Stage) -> None:
    visible = visible_topics(limited_person("anna", "ord"))
    assert TopicScope(visible).whole_group("billing")
    for name in ("wages", "there is none"):
        assert not TopicScope(visible).group(name)
        assert not TopicScope(visible).whole_group(name)
    filled.admin.move_group("billing", FOREIGN, 0, 0)
    filled.mirror.run_once()
    # decision 0030: what it reads of hers is still hers to see (test_groups_in_part.py)
    assert TopicScope(visible).group("billing")
    assert not TopicScope(visible).whole_group("billing")
    assert not TopicScope(visible).topic("%DLQ%billing")
    assert TopicScope(ALL).group("billing")
    assert not TopicScope(NOTHING).topic("orders")


def test_tries_of_a_group_that_pops_are_seen_with_the_group(filled: Stage) -> None:
    filled.admin.create_group("till")
    with SimpleConsumer("till", filled.broker.namesrv) as consumer:
        for received in consumer.receive("orders", max_messages=32):
            consumer.nack(received)
        filled.wait_for(lambda: (filled.mirror.run_once(), Topic.objects.filter(name="%RETRY%till_orders").exists())[1])
        consumer.receive("orders", max_messages=1)
    filled.wait_for(lambda: (filled.mirror.run_once(), _lag_of("till"))[1])
    with scoped(visible_topics(limited_person("anna", "ord"))):
        page = groups_read.group("till")
        assert page.group is not None
        assert {row.topic for row in page.queues} == {"orders", "%RETRY%till_orders"}
        assert page.group.lag == sum(row.lag or 0 for row in page.queues) > 0
        assert TopicScope(visible_topics(limited_person("ben", "ord"))).topic("%RETRY%till_orders")
    assert not TopicScope(visible_topics(limited_person("carl", "pay"))).topic("%RETRY%till_orders")
    # a name that may be a group's that is not seen as well
    filled.admin.create_group("till_orders")
    filled.admin.move_group("till_orders", FOREIGN, 0, 0)
    filled.mirror.run_once()
    assert not TopicScope(visible_topics(limited_person("dora", "ord"))).topic("%RETRY%till_orders")


def _lag_of(group: str) -> int:
    return sum(row.lag or 0 for row in groups_read.group(group).queues if row.topic.startswith("%RETRY%"))


def opens_a_source(function: ast.FunctionDef) -> bool:
    """It asks the mirror, the broker or Redis itself, and is no part of a read that has asked for them."""
    if function.args.args and function.args.args[0].arg in ("here", "admin"):
        return False
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return bool({call.id for call in calls if isinstance(call, ast.Name)} & SOURCES)


def test_every_read_of_a_feature_is_authorised() -> None:
    open_reads = set()
    for path in (ROOT / "console" / "features").rglob("*.py"):
        if path.name.startswith(("rest", "operations")):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for function in tree(path).body:
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
                continue
            if not opens_a_source(function):
                continue
            if not isinstance(getattr(import_module(module), function.name), AuthorisedRead):
                open_reads.add(f"{module.removeprefix('console.features.')}.{function.name}")
    assert open_reads == set(OPEN_READS)


def test_what_no_rule_bounds_is_for_those_who_see_all() -> None:
    row = Operation(kind="new.kind", parameters={"name": "orders"})
    assert scope_of(row).is_seen(TopicScope(ALL))
    assert not scope_of(row).is_seen(TopicScope(NOTHING))


def test_staff_that_sees_some_topics_only_has_no_tables_of_all(db: None) -> None:
    user = limited_person("boss", "ord")
    user.is_staff = True
    user.save()
    user.groups.add(Group.objects.get(name="administrator"))
    browser: Client = browser_of(user)
    assert browser.get("/admin/").status_code == 200
    for table in ("broker/topic/", "console/operation/", "auth/user/"):
        assert browser.get(f"/admin/{table}").status_code == 403, table
    TopicPermission.objects.all().delete()
    assert browser.get("/admin/auth/user/").status_code == 200


def test_what_waits_behind_others_is_found(stage: Stage) -> None:
    """Behind more of others than a page holds: nothing says that there is nothing."""
    stage.admin.create_topic(FOREIGN, queues=1)
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    with TransactionProducer("of-all", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        for number in range(120):
            stage.producer.send(FOREIGN, "x", deliver_at_ms=due_ms + number)
            producer.send_half(FOREIGN, prepare("x"))
        stage.producer.send("orders", "x", keys=["orders-late"], deliver_at_ms=due_ms + 1_000)
        producer.send_half("orders", prepare("x", keys=["orders-half"]))
        stage.wait_for(lambda: len(stage.admin.timers(0, 2**62, limit=1_000).items) == 121)
        stage.mirror.run_once()
        anna = browser_of(limited_person("anna", "ord"))
        for path, word in (
            ("/timers/", "orders-late"), ("/timers/list/", "orders-late"),
            ("/transactions/", "orders-half"), ("/transactions/list/", "orders-half"),
        ):  # fmt: skip
            shown = text_of(anna, path)
            assert word in shown, path
            assert not any(
                nothing in shown
                for nothing in (
                    "No timer fires here",
                    "No timer is pending",
                    "No undecided half messages",
                    "No timer matches",
                )
            ), path


def test_the_lag_of_a_group_is_that_of_its_rows(filled: Stage) -> None:
    """It was 11 above rows of 0: the topic of its tries was hidden from who sees all that it reads."""
    record = filled.admin.message_by_offset_id(filled.producer.send("orders", "x", queue_id=1).offset_message_id)
    filled.admin.send_back("billing", record, delay_level=1, max_reconsume_times=16)
    filled.wait_for(lambda: filled.admin.topic_settings("%RETRY%billing"))
    filled.wait_for(lambda: filled.admin.topic_stats("%RETRY%billing").queues[0].max_offset)
    filled.mirror.run_once()
    anna = browser_of(limited_person("anna", "ord"))
    data = anna.get("/groups/billing/").context["data"]
    rows = {queue.topic for queue in data.queues}
    assert rows == {"orders", "%RETRY%billing"}
    assert data.group.retry == 1
    assert data.group.lag == sum(queue.lag or 0 for queue in data.queues) > 1
    page = text_of(anna, "/")
    assert "What follows covers all topics" in page
    assert "What follows covers all topics" not in text_of(browser_of(person("all", role="operator")), "/")


def test_of_a_half_that_is_not_seen_nothing_is_said() -> None:
    row, evidence = TransactionRow(7, TransactionState.OPEN), Evidence("broker-a", 1, True)
    drawn = board_drawing(Board(evidence, (row,), (), 0, 0, 1), 100_000, 6_000, 15)
    for said in ("fresh", " ms", "checks", "producer"):
        assert said not in drawn, said
