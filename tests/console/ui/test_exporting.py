"""Every list as a file: the rows of its page, what a spreadsheet would run defused, bounded, limited and masked."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest
import redis
from django.test import Client
from django.utils import timezone

from broker.client import Consumer, Decision, TransactionProducer, prepare
from broker.redisson import DelayedQueue
from console.features.alerts.models import Alert, AlertRule
from console.features.clients import CLIENTS
from console.features.dead_letters.shapes import DEAD_LETTERS
from console.features.dead_letters.shapes import GROUPS as DEAD_LETTER_GROUPS
from console.features.groups.read import GROUPS
from console.features.messages.shapes import MESSAGES
from console.features.overview.pages import BROKERS
from console.features.redisson.pages import QUEUES, VALUES
from console.features.schedule.shapes import LANE
from console.features.timers.shapes import TIMERS
from console.features.topics.shapes import QUEUE, TOPICS
from console.features.transactions.shapes import TRANSACTIONS
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.pages import OPERATIONS
from console.security.models import MaskRule
from console.ui import export
from console.ui.export import exported
from tests.console.delayed_stage import MINUTE
from tests.console.people import browser_of
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage

FORMULA = "=cmd('/c')!A0"
#: a list's address, its columns, a column, and what stands there as it was sent
LISTS = [
    ("/?", "brokers", "name", "broker-a"), ("/topics/?search=ord&", "topics", "name", "orders"),
    ("/groups/?", "groups", "name", "billing"), ("/clients/?", "clients", "group", "billing"),
    ("/messages/?topic=orders&", "messages", "tag", FORMULA), ("/topics/orders/0/?", "queue", "preview", FORMULA),
    ("/schedule/16/?", "lane", "tag", FORMULA), ("/timers/list/?topic=orders&", "timers", "schedule_key", FORMULA),
    ("/transactions/list/?state=open&", "transactions", "tag", FORMULA),
    ("/dead-letters/?", "dead-letter-groups", "name", "billing"),
    ("/dead-letters/of/billing/?", "dead-letters", "preview", FORMULA),
    ("/redisson/?", "redisson-queues", "name", FORMULA),
    (f"/redisson/queue/?name={FORMULA}&", "redisson-values", "text", FORMULA),
]  # fmt: skip


TABLES = (
    BROKERS,
    TOPICS,
    GROUPS,
    CLIENTS,
    MESSAGES,
    QUEUE,
    LANE,
    TIMERS,
    TRANSACTIONS["open"],
    DEAD_LETTER_GROUPS,
    DEAD_LETTERS,
    QUEUES,
    VALUES,
)
FILES = {table.name: table for table in TABLES}


@pytest.fixture
def filled(stage: Stage, server: redis.Redis) -> Any:
    """Something on each list that a spreadsheet would run."""
    sent = stage.producer.send("orders", FORMULA, tag=FORMULA, keys=["k"], queue_id=0)
    stage.producer.send("orders", "x", tag=FORMULA, delay_level=16)
    due_ms = time.time_ns() // 1_000_000 + 3_600_000
    stage.producer.send("orders", "x", schedule_key=FORMULA, deliver_at_ms=due_ms)
    stage.admin.create_group("billing")
    stage.admin.move_group("billing", "orders", 0, 0)
    record = stage.admin.message_by_offset_id(sent.offset_message_id)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    DelayedQueue(FORMULA, server).offer(FORMULA, delay=MINUTE)
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("orders", prepare("x", tag=FORMULA, keys=["half"]))
    consumer = Consumer("billing", stage.broker.namesrv)
    consumer.subscribe("orders", "none", lambda message: None)
    with consumer:
        stage.wait_for(lambda: stage.admin.timers(0, 2**62).items and stage.admin.consumers(["billing"]))
        stage.mirror.run_once()
        yield stage


def text_of(browser: Client, address: str) -> str:
    answer: Any = browser.get(address)
    assert answer.status_code == 200, address
    return b"".join(answer).decode()


def test_every_list_is_a_file_of_its_rows_with_nothing_to_run(filled: Stage, operator: Client) -> None:
    anna = browser_of(limited_person("anna", "other"))
    for address, name, column, value in LISTS:
        page = operator.get(address)
        assert "as=csv" in page.content.decode(), address
        rows = list(csv.DictReader(io.StringIO(text_of(operator, f"{address}as=csv"))))
        told = json.loads(text_of(operator, f"{address}as=json"))
        assert tuple(rows[0]) == tuple(told[0]) == FILES[name].in_file, address
        assert value in [row[column] for row in told], address
        defused = value.replace("=", "'=", 1) if value == FORMULA else value
        assert defused in [row[column] for row in rows], address
        assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
        if name != "brokers":
            answer = anna.get(f"{address}as=json")
            assert answer.status_code == 404 or json.loads(b"".join(answer)) == [], address


def test_what_was_done_and_raised_are_files_too_of_who_may_see_it(stage: Stage, operator: Client, actor: Actor) -> None:
    stage.producer.send("orders", "x", deliver_at_ms=time.time_ns() // 1_000_000 + 3_600_000)
    workflow.start("timers.cancel", {"filter": {"topic": "orders"}}, actor, reason=FORMULA)
    rule = AlertRule.objects.create(what="backlog", limit=100)
    since = timezone.now()
    for subject in ("=billing", "mail"):
        Alert.objects.create(rule=rule, subject=subject, value=150, highest=400, since=since, state="firing")
    (done,) = csv.DictReader(io.StringIO(text_of(operator, "/operations/?as=csv")))
    assert (tuple(done), done["kind"], done["reason"]) == (OPERATIONS.in_file, "timers.cancel", f"'{FORMULA}")
    raised = json.loads(text_of(operator, "/alerts/?as=json"))
    assert {(row["subject"], row["rule.what"], row["highest"]) for row in raised} == {
        ("=billing", "backlog", 400.0), ("mail", "backlog", 400.0),
    }  # fmt: skip
    anna = browser_of(limited_person("anna", "other"))
    for address in ("/operations/", "/alerts/"):
        assert "as=csv" in operator.get(address).content.decode()
        assert json.loads(b"".join(anna.get(f"{address}?as=json"))) == []  # type: ignore[arg-type] # it is streamed


def test_files_are_masked_as_pages_are(filled: Stage, operator: Client) -> None:
    MaskRule.objects.create(fields="body, TAGS, ESC_SCHEDULE_KEY", why="cards")
    for address, name, column, value in LISTS:
        if value == FORMULA and name != "redisson-queues":
            rows = json.loads(text_of(operator, f"{address}as=json"))
            assert {row[column] for row in rows} <= {"•••• masked: cards", None, ""}, address


def test_a_file_goes_over_all_pages_up_to_its_limit_and_says_when_there_is_more(
    stage: Stage, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        stage.producer.send("orders", "x", keys=[f"k-{number}"], queue_id=0)
    stage.mirror.run_once()
    rows = json.loads(text_of(operator, "/topics/orders/0/?as=json"))
    assert [row["keys"] for row in rows] == [[f"k-{number}"] for number in reversed(range(40))]
    monkeypatch.setattr(export, "LIMIT", 35)
    rows = json.loads(text_of(operator, "/topics/orders/0/?as=json"))
    assert len(rows) == 36
    assert rows[35]["offset"] == "# There are more than 35: narrow the filter."


def test_a_broker_that_is_away_makes_no_empty_file(operator: Client, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    for address in ("/timers/list/?as=csv", "/topics/?as=csv"):
        assert operator.get(address).status_code == 503


def test_no_cell_begins_a_formula_and_no_half_character_ends_a_file() -> None:
    rows = [{"a": text} for text in ("=1", "+1", "-1", "@a", "\t=1", "\r=1", "a=1", "a; b;=1; +2", "\ud800x")] + [
        {"a": ["=1", "b"]}
    ]
    lines = b"".join(exported("x", "csv", ["a"], rows)).decode()
    cells = [row["a"] for row in csv.DictReader(io.StringIO(lines, newline=""))]
    assert cells == ["'=1", "'+1", "'-1", "'@a", "'\t=1", "'\r=1", "a=1", "a; b;'=1;' +2", "?x", "'=1 b"]
    assert json.loads(b"".join(exported("x", "json", ["a"], [{"a": "\ud800x"}]))) == [{"a": "?x"}]
