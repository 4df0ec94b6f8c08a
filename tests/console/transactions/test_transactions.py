"""The Transactions pages on a real broker: undecided halves, the board, decisions, parked ones, the life of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client

from broker.client import Decision, Half, TransactionProducer, prepare
from broker.mirror.models import Broker
from console.features.overview.pages import read_overview
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import (
    LifeEvent,
    TransactionEvent,
    TransactionFilter,
    TransactionLife,
    TransactionRow,
    TransactionState,
)
from console.operations.models import AuditEntry
from console.security.models import MaskRule
from console.site.clock import now_ms
from console.site.evidence import Evidence
from console.templatetags.escapement import mark
from console.templatetags.transactions import _DOTS, event_words, life_drawing
from console.ui.live import page_of, parts_of
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import HOSTILE, Stage, one_word, staged
from tests.console.ui.test_pages import tags_of, words

LIMIT_BYTES = 100_000
GROUP = "payers"


def transactor(stage: Stage, decision: Decision = Decision.UNKNOWN, group: str = GROUP) -> TransactionProducer:
    return TransactionProducer(group, stage.broker.namesrv, check=lambda message: decision)


@pytest.fixture
def payers(stage: Stage) -> Iterator[TransactionProducer]:
    """A connected producer that never knows."""
    with transactor(stage) as producer:
        yield producer


def begin(producer: TransactionProducer, *keys: str) -> list[Half]:
    return [producer.send_half("orders", prepare(key, keys=[key], tag="paid")) for key in keys]


def listed(state: str, **wanted: Any) -> list[TransactionRow]:
    """All pages of a list."""
    rows: list[TransactionRow] = []
    after: int | None = None
    while True:
        page = transactions_pages.read_transaction_list(TransactionFilter(state, **wanted), after, 2)
        rows.extend(page.rows)
        after = page.following
        if after is None:
            return rows


def test_what_is_undecided_is_listed_oldest_first(stage: Stage, payers: TransactionProducer) -> None:
    halves = begin(payers, "a", "b", "c")
    rows = listed("open")
    assert [(row.name, row.position, row.topic, row.group) for row in rows] == [
        (half_name, half.position, "orders", GROUP) for half_name, half in zip("abc", halves, strict=True)
    ]
    assert all(row.state == "open" and row.checks == 0 and row.next_check_ms for row in rows)
    stage.wait_for(lambda: listed("open")[0].producers)
    assert not any(row.is_alone for row in listed("open"))
    assert listed("open", group="nobody") == listed("open", topic="bills") == []
    assert [row.name for row in listed("open", before_ms=rows[1].store_ms)][:2] == ["a", "b"]
    assert listed("open", before_ms=(rows[0].store_ms or 0) - 1) == []


def test_the_page_counts_and_says_who_would_be_asked(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    first, second, third = begin(payers, "first", "second", "third")
    payers.commit(first)
    payers.rollback(second)
    stage.wait_for(lambda: len(transactions_pages.read_transactions().decided.rows) == 2)
    stage.wait_for(lambda: listed("open")[0].producers)
    data = transactions_pages.read_transactions()
    assert (data.figures.open, data.figures.parked, data.figures.half_total) == (1, 0, 3)
    assert (data.figures.commit_total, data.figures.rollback_total, data.figures.took_count) == (1, 1, 2)
    assert (data.figures.max_checks, data.figures.timeout_ms) == (15, 6_000)
    # totals begin anew with each start of the broker, and the page says when that was
    assert data.figures.started_ms == Broker.objects.get().started_ms is not None
    assert re.search(r"of 3 half messages since the last start .+? ago", words(operator.get("/transactions/")))
    assert [(row.group, row.open, row.producers) for row in data.groups] == [(GROUP, 1, 1)]
    assert data.lonely == ()
    assert {(row.name, row.state.value) for row in data.decided.rows} == {
        ("first", "committed"), ("second", "rolled back"),
    }  # fmt: skip
    assert all(row.by.startswith("producer ") for row in data.decided.rows)
    response = operator.get("/transactions/")
    page = words(response)
    assert len(response.content) < LIMIT_BYTES
    assert "0 / 15" in page
    assert (data.open.rows[0].producers or ("?",))[0][:40] in page
    assert data.open.rows[0].position == third.position
    assert "invisible to consumers until" in page


def test_a_group_without_a_producer_is_said(stage: Stage, operator: Client) -> None:
    with transactor(stage, group="gone") as producer:
        begin(producer, "left")
    stage.wait_for(lambda: listed("open")[0].is_alone)
    data = transactions_pages.read_transactions()
    assert [row.group for row in data.lonely] == ["gone"]
    page = words(operator.get("/transactions/"))
    assert "1 half message of gone is waiting: no producer of the group is connected" in page
    assert "none: no producer of gone is connected" in page
    assert "0 / 15; no producer connected" in page


def test_the_board_joins_each_decision_to_its_halves(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    halves = begin(payers, *(f"tx-{number}" for number in range(20)))
    for number in (8, 10, 12):
        payers.commit(halves[number])
    for number in (9, 2):
        payers.rollback(halves[number])
    stage.wait_for(lambda: len(transactions_pages.read_transactions().decided.rows) == 5)
    board = transactions_pages.read_transactions().board
    assert board is not None
    assert [row.offset for row in board.halves] == list(range(6, 20))
    assert (board.halves_total, board.ops_read) == (20, board.ops_total)
    joined = {half: word.value for op in board.ops for half, word in zip(op.halves, op.words, strict=True)}
    assert joined == {8: "committed", 9: "rolled back", 10: "committed", 12: "committed"}
    states = {row.offset: row.state.value for row in board.halves}
    assert states == {offset: joined.get(offset, "open") for offset in range(6, 20)}
    page = operator.get("/transactions/").content.decode()
    drawing = page[page.index('aria-label="Half queue') :].split("</svg>")[0]
    assert drawing.count('class="line-verd"') == 3
    assert len(re.findall(r'class="line-faint" d="M571', drawing)) == 1
    assert drawing.count("<a ") == 14


def test_an_empty_broker_says_so(stage: Stage, operator: Client) -> None:
    page = words(operator.get("/transactions/"))
    for said in (
        "No transactions yet.",
        "No undecided half messages.",
        "No decisions yet.",
        "No parked half messages.",
    ):
        assert said in page
    assert "No parked half messages." in words(operator.get("/transactions/list/?state=parked"))


def test_the_life_of_one_that_is_committed_leads_to_its_message(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    (half,) = begin(payers, "one")
    path = f"/transactions/{half.position}/"
    stage.wait_for(lambda: listed("open")[0].producers)
    assert "Undecided and invisible to consumers" in words(operator.get(path))
    payers.commit(half)
    stage.wait_for(lambda: transactions_pages.read_transaction_life(half.position).delivered)
    life = transactions_pages.read_transaction_life(half.position)
    assert {event.kind for event in life.events} == {
        TransactionEvent.HALF, TransactionEvent.COMMITTED, TransactionEvent.DELIVERED,
    }  # fmt: skip
    assert life.events[0].kind is TransactionEvent.HALF
    response = operator.get(path)
    assert "the message is in its topic" in words(response)
    assert life.delivered is not None
    link = f"/messages/{life.delivered.message_id}/"
    assert link in response.content.decode()
    message = operator.get(link)
    assert message.status_code == 200
    assert "orders" in words(message)
    assert "transactions.commit" not in response.content.decode()


def test_a_half_shows_what_it_holds_as_a_message_does(
    stage: Stage, payers: TransactionProducer, operator: Client
) -> None:
    message = prepare('{"amount": 7}', keys=["pay-1"], tag="paid", properties={"note": "by hand"})
    half = payers.send_half("orders", message)
    path = f"/transactions/{half.position}/"
    shown = operator.get(path)
    page = words(shown)
    for said in ("JSON, shown as text", '"amount": 7', "note", "by hand", "pay-1", "paid", "download the stored bytes"):
        assert said in page, said
    body = re.search(r'href="(/messages/[^"]+/body)"', shown.content.decode())
    assert body and operator.get(body[1]).content == b'{"amount": 7}'
    # opened by another decoder, as on the page of a message
    assert "The body is not of this format" in words(operator.get(path + "?decode=gzip"))
    # decided: what the half held is still there
    payers.rollback(half)
    stage.wait_for(lambda: listed("decided"))
    assert '"amount": 7' in words(operator.get(path))


def test_a_rule_masks_what_a_half_holds_and_who_may_see_it_says_why(stage: Stage, payers: TransactionProducer) -> None:
    half = payers.send_half("orders", prepare("secret words", keys=["pay-1"]))
    payers.send_half("bills", prepare("open words", keys=["bill-1"]))
    MaskRule.objects.create(prefix="orders", fields="body", why="they are of patients")
    path = f"/transactions/{half.position}/"
    viewer = browser_of(person("viewer"))
    page = viewer.get(path)
    assert "secret words" not in page.content.decode()
    assert "masked: they are of patients" in words(page)
    assert "console.unmask" in words(page)
    assert viewer.post(path + "unmask/", {"reason": "a call"}).status_code == 403
    (bill,) = [row for row in listed("open") if row.topic == "bills"]
    assert "open words" in words(viewer.get(f"/transactions/{bill.position}/"))
    clerk = browser_of(person("clerk", "unmask"))
    assert clerk.post(path + "unmask/", {"reason": ""}).status_code == 422
    seen = clerk.post(path + "unmask/", {"reason": "a call"})
    assert "secret words" in words(seen)
    assert seen["Cache-Control"] == "no-store"
    (entry,) = AuditEntry.objects.filter(kind="messages.unmask")
    assert (entry.actor, entry.reason, entry.result["topic"]) == ("clerk", "a call", "orders")
    raw = clerk.post(path + "unmask/", {"reason": "a call", "what": "body"})
    assert raw.content == b"secret words"


def test_what_a_half_holds_is_of_its_topic_for_somebody_who_sees_some(
    stage: Stage, payers: TransactionProducer
) -> None:
    stage.admin.create_topic("bills", queues=1)
    mine = payers.send_half("orders", prepare("my words", keys=["pay-1"]))
    others = payers.send_half("bills", prepare("their words", keys=["bill-1"]))
    browser = browser_of(limited_person("limited", "orders"))
    shown = browser.get(f"/transactions/{mine.position}/")
    assert "my words" in words(shown)
    body = re.search(r'href="(/messages/[^"]+/body)"', shown.content.decode())
    assert body and browser.get(body[1]).content == b"my words"
    assert browser.get(f"/transactions/{others.position}/").status_code == 404


def test_checks_of_which_no_record_is_left_are_said() -> None:
    def check(count: int, ms: int) -> LifeEvent:
        return LifeEvent(TransactionEvent.CHECK, ms, count=count)

    def told(*events: LifeEvent, checks: int = 0) -> list[str]:
        row = TransactionRow(7, TransactionState.OPEN, checks=checks)
        life = TransactionLife(Evidence("broker", 1, False), 100, 9, row, (half, *events))
        return [event_words(event) for event in life.listed]

    half = LifeEvent(TransactionEvent.HALF, 1)
    assert told(check(1, 2), check(2, 3)) == ["half message stored", "check 1", "check 2"]
    assert told(check(3, 2), check(4, 3)) == ["half message stored", "checks 1 to 2", "check 3", "check 4"]
    assert told(check(2, 2), check(5, 3)) == [
        "half message stored", "check 1", "check 2", "checks 3 to 4", "check 5",
    ]  # fmt: skip
    resumed = LifeEvent(TransactionEvent.RESUMED, 5)
    assert told(check(1, 2), check(2, 3), resumed, check(1, 6)) == [
        "half message stored", "check 1", "check 2", "checks resumed", "check 1",
    ]  # fmt: skip
    assert told(checks=4) == ["half message stored", "checks 1 to 4"]


def test_what_a_life_line_has_no_room_for_is_counted_on_it() -> None:
    events = [LifeEvent(TransactionEvent.HALF, 1)]
    events += [LifeEvent(TransactionEvent.CHECK, 1_000 * count, count=count) for count in range(1, 13)]
    life = TransactionLife(Evidence("broker", 1, False), 100, 9, None, tuple(events))
    drawing = str(life_drawing(life))
    assert "3 left out" in drawing
    assert "half message stored" in drawing
    assert ">check 3<" not in drawing
    assert ">check 4<" in drawing


def test_what_is_not_there_is_not_found(stage: Stage, operator: Client) -> None:
    for path in ("/transactions/7/", f"/transactions/{2**70}/", "/transactions/x/"):
        assert operator.get(path).status_code == 404, path
    assert operator.get("/transactions/list/?state=nonsense&after=nonsense").status_code == 200
    assert operator.get("/transactions/list/?before=yesterday").status_code == 422


def test_hostile_names_are_text(stage: Stage, operator: Client) -> None:
    for number, text in enumerate(HOSTILE):
        with transactor(stage) as producer:
            half = producer.send_half("orders", prepare(text, keys=[one_word(text)], tag=one_word(text)))
            if number % 2:
                producer.commit(half)
    positions = [row.position for row in listed("open")]
    for path in ("/transactions/", "/transactions/list/", *(f"/transactions/{position}/" for position in positions)):
        content = operator.get(path).content.decode()
        for bad in ("<script>alert", "<img src=x", "<svg onload", "' onmouseover='"):
            assert bad not in content, path
        for tag, attributes in tags_of(content):
            assert not [name for name in attributes if name == "style" or name.startswith("on")], tag


def test_a_broker_that_is_away_is_said(operator: Client, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    for path in ("/transactions/", "/transactions/list/", "/transactions/300/"):
        response = operator.get(path)
        assert response.status_code == 200, path
        assert "Nothing to show yet" in words(response), path


def test_the_page_is_live(stage: Stage, payers: TransactionProducer) -> None:
    begin(payers, "live-one")
    live = page_of("transactions")
    assert live is not None
    parts = parts_of(render_to_string(live.template, {"data": live.read(), "sequence": 1, "live": True}))
    assert set(parts) == {
        "#stale", "#alone", "#figures", "#board", "#open", "#decided", "#parked", "#producers",
        "#addresses",
    }  # fmt: skip
    assert "live-one" in parts["#open"]
    assert "live-one" in parts["#board"]


@pytest.fixture
def hurried(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Stage]:
    """A stage whose broker asks once, soon."""
    soon = {"transaction_timeout_ms": 100, "transaction_interval_ms": 100, "transaction_checks": 1}
    with staged(tmp_path / "hurried", settings, **soon) as made:
        yield made


def test_what_was_asked_about_often_enough_is_parked_and_resumed(hurried: Stage, operator: Client) -> None:
    said = [Decision.UNKNOWN]
    with TransactionProducer(GROUP, hurried.broker.namesrv, check=lambda message: said[0]) as producer:
        (half,) = begin(producer, "stuck")
        hurried.wait_for(lambda: listed("parked"))
        (row,) = listed("parked")
        assert (row.name, row.state.value, row.checks) == ("stuck", "parked", 1)
        assert row.parked_ms is not None
        assert row.parked_ms <= now_ms() + 1_000
        life = transactions_pages.read_transaction_life(half.position)
        assert [event.kind for event in life.events] == [
            TransactionEvent.HALF, TransactionEvent.CHECK, TransactionEvent.PARKED,
        ]  # fmt: skip
        assert "It can be committed, rolled back or checked again." in words(
            operator.get(f"/transactions/{half.position}/")
        )
        page = words(operator.get("/transactions/"))
        assert "parked after 1 / 1" in page
        assert "1 half message is parked: it reached the check limit without a decision and needs an operator." in page
        hurried.wait_for(lambda: hurried.mirror.run_once() and read_overview().findings)
        first = words(operator.get("/"))
        assert "1 half message reached the check limit without a decision of its producer" in first
        # both pages count what is undecided without what is parked, and say that beside it
        assert transactions_pages.read_transactions().figures.open == 0
        assert "Half messages undecided 0 and 1 parked" in first
        said[0] = Decision.COMMIT
        form = {"kind": "transactions.resume", "scope": "selected", "half": row.choice}
        address = operator.post("/operations/draft/", form).headers["Location"]
        assert operator.post(address + "confirm/", {"reason": "the bank knows by now"}).status_code == 303
        hurried.wait_for(lambda: listed("decided"))
    events = transactions_pages.read_transaction_life(half.position).events
    resumed = next(event for event in events if event.kind is TransactionEvent.RESUMED)
    assert (resumed.by, resumed.reason) == ("operator", "the bank knows by now")
    (row,) = listed("decided")
    assert row.state.value == "committed"
    assert row.by.startswith("check ")


def test_the_legend_of_the_board_names_each_mark_that_can_stand_there() -> None:
    board = Path(__file__).parents[3] / "templates" / "transactions" / "board.html"
    kinds = re.findall(r'{% state "(\w+)"', board.read_text())
    named = {shade for kind in kinds for shade in re.findall(r'class="([\w-]+)', mark(kind))}
    drawn = {shade for dot in _DOTS.values() for shade in re.findall(r'class="([\w-]+)', dot)}
    # grey: decided, and the records that say how are not there any more
    assert drawn - named == {"fill-faint"}
