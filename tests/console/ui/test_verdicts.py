"""The first sentence of a page: for each state of a message, timer, half, group and topic."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

import pytest

from console.features.groups.read import GroupPage, GroupRow, GroupState, Member
from console.features.messages.shapes import MessagePage, Reader, ReaderState
from console.features.timers.shapes import LifeEvent as TimerEvent
from console.features.timers.shapes import LifeKind, TimerLife, TimerRow
from console.features.topics.shapes import TopicKind, TopicPage, TopicReader, TopicRow
from console.features.transactions.shapes import LifeEvent, TransactionEvent, TransactionLife, TransactionRow
from console.features.transactions.shapes import TransactionState as Half
from console.site.evidence import Evidence, StaleReason

NOW_MS = 1_795_000_000_000
FRESH = Evidence("broker-a", NOW_MS, exact=True)
STALE = Evidence("broker-a", NOW_MS, exact=True, stale_reason=StaleReason.BROKER_UNREACHABLE)
Made = TypeVar("Made")


def plain(words: str) -> str:
    """A sentence without the marks of its moments, which the browser counts down."""
    return re.sub(r"</?time[^>]*>", "", words)


def made(shape: type[Made], **known: Any) -> Made:
    """A shape with what is named; of the rest what has no default is not known."""
    rest = {
        each.name: None
        for each in fields(shape)  # type: ignore[arg-type]  # shapes are dataclasses
        if each.default is MISSING and each.default_factory is MISSING
    }
    return shape(**{**rest, "now_ms": NOW_MS, **known} if "now_ms" in rest else {**rest, **known})


def reader(state: ReaderState, group: str = "billing", **more: Any) -> Reader:
    return Reader(**{"group": group, "state": state, "before": 3, "members": 1, "is_enabled": True, **more})


def message(*readers: Reader, **more: Any) -> Any:
    return made(MessagePage, evidence=FRESH, **{"found": True, "pending": False, "readers": readers, **more}).verdict


S = ReaderState


@pytest.mark.parametrize(
    ("readers", "tone", "words"),
    [
        ((), "idle", "no group that you can see"),
        ((reader(S.HAD),), "ok", "Received by billing."),
        ((reader(S.HAD), reader(S.DEAD, "mail")), "broken", "A dead letter of mail"),
        ((reader(S.NOT_YET, members=0), reader(S.DEAD, "mail")), "broken", "A dead letter of mail"),
        ((reader(S.NOT_YET),), "wait", "3 messages are ahead"),
        ((reader(S.NOT_YET, members=0),), "look", "no consumer of it is connected"),
        ((reader(S.NOT_YET, is_enabled=False),), "look", "consumption is disabled"),
        ((reader(S.AGAIN, next_ms=NOW_MS + 30_000),), "wait", "the next retry is in"),
        ((reader(S.SENT_BACK),), "wait", "messages are ahead"),
        ((reader(S.OUT),), "wait", "has not acknowledged it yet"),
        ((reader(S.UNKNOWN),), "look", "cannot be determined"),
    ],
)
def test_a_message_is_judged_by_the_group_for_which_it_is_worst(
    readers: tuple[Reader, ...], tone: str, words: str
) -> None:
    found = message(*readers)
    assert (found.tone, words in plain(found.words)) == (tone, True), found.words
    if tone not in ("ok", "idle"):
        assert found.address and found.label


def test_of_several_groups_it_says_how_many_have_a_message() -> None:
    found = message(reader(S.HAD), reader(S.HAD, "mail"), reader(S.NOT_YET, "stock", members=0))
    assert "stock" in found.words and found.advice == "2 of 3 groups have received it."


def test_a_message_on_a_lane_says_until_when_and_whether_that_has_passed() -> None:
    lane = message(pending=True, delay_level=16, due_ms=NOW_MS + 60_000)
    assert (lane.tone, lane.address) == ("wait", "/schedule/16/") and "released in 1 min." in plain(lane.words)
    late = message(pending=True, delay_level=16, due_ms=NOW_MS - 60_000)
    assert late.tone == "look" and "overdue by 1 min:" in late.words
    assert made(MessagePage, found=False).verdict is None


def test_names_of_others_are_text() -> None:
    assert "&lt;b&gt;" in message(reader(S.DEAD, "<b>")).words


TIMER = made(TimerRow, position=7, due_ms=NOW_MS + 5_000, keys=())
NO_REASON = TimerEvent(LifeKind.CANCELLED, NOW_MS, 7)


@pytest.mark.parametrize(
    ("known", "tone", "words", "advice"),
    [
        ({"state": "pending"}, "wait", "It fires in", "rescheduled or delivered immediately"),
        ({"state": "pending", "polled": True}, "wait", "It fires in", "can be cancelled."),
        ({"state": "pending", "timer": replace(TIMER, due_ms=NOW_MS - 9_000)}, "look", "should have fired", ""),
        ({"state": "released"}, "ok", "Delivered.", "page of its message"),
        ({"state": "released", "events": (TimerEvent(LifeKind.RELEASED, NOW_MS, 7, 3),)}, "ok", "3 ms after", "page"),
        ({"state": "cancelled"}, "idle", "was cancelled", "undone"),
        ({"state": "cancelled", "events": (NO_REASON,)}, "idle", "was cancelled", "undone"),
        ({"state": "cancelled", "events": (replace(NO_REASON, reason="<paid>"),)}, "idle", "&lt;paid&gt;", "undone"),
        ({"state": "rescheduled"}, "idle", "another record replaces it", ""),
        ({"state": "unknown"}, "look", "outcome is unknown", "expired"),
        ({"state": "unknown", "timer": None, "evidence": STALE}, "look", "does not respond", "how it was"),
    ],
)  # fmt: skip
def test_each_state_of_a_timer(known: dict[str, Any], tone: str, words: str, advice: str) -> None:
    found = made(TimerLife, **{"evidence": FRESH, "timer": TIMER, "events": (), **known}).verdict
    assert (found.tone, words in plain(found.words), advice in found.advice) == (tone, True, True), found


@pytest.mark.parametrize(
    ("row", "tone", "words"),
    [
        ({"state": Half.OPEN, "next_check_ms": NOW_MS + 9_000}, "wait", "the next check is in"),
        ({"state": Half.OPEN}, "wait", "Undecided and invisible"),
        ({"state": Half.DUE, "producers": ()}, "look", "no producer of shop is connected"),
        ({"state": Half.ENDING}, "wait", "being decided"),
        ({"state": Half.PARKED, "producers": ()}, "look", "Parked"),
        ({"state": Half.COMMITTED}, "ok", "Committed."),
        ({"state": Half.ROLLED_BACK}, "idle", "Rolled back"),
        ({"state": Half.DECIDED}, "idle", "Decided;"),
        ({"state": Half.REPLACED}, "idle", "queued again"),
        ({"state": Half.UNKNOWN}, "look", "unknown"),
    ],
)
def test_each_state_of_a_half(row: dict[str, Any], tone: str, words: str) -> None:
    half = TransactionRow(offset=1, group="shop", **row)
    found = made(TransactionLife, evidence=FRESH, row=half, events=()).verdict
    assert (found.tone, words in plain(found.words)) == (tone, True), found


def test_a_half_that_is_delivered_or_often_asked_about() -> None:
    half = TransactionRow(offset=1, group="shop", state=Half.COMMITTED)
    event = LifeEvent(TransactionEvent.DELIVERED, NOW_MS)
    assert made(TransactionLife, evidence=FRESH, row=half, events=(event,)).verdict.words.endswith("in its topic.")
    asked = replace(half, state=Half.OPEN, checks=2)
    found = made(TransactionLife, evidence=FRESH, row=asked, events=(), max_checks=15).verdict
    assert found.advice == "2 of 15 checks got no decision."
    assert made(TransactionLife, evidence=STALE, row=None, events=()).verdict.words.startswith("Not known now")


@pytest.mark.parametrize(
    ("group", "members", "tone", "words"),
    [
        ({"lag": 0}, 1, "ok", "Caught up: nothing"),
        ({"lag": 0}, 0, "idle", "no consumer is connected"),
        ({"lag": 0, "dead": 4}, 1, "look", "4 dead letters"),
        ({"lag": 0, "state": GroupState.NEVER_USED}, 0, "idle", "Never used"),
        ({"lag": None}, None, "idle", "not known"),
        ({"lag": 9}, 0, "look", "No consumer is connected, and 9 messages"),
        ({"lag": 9, "consume_enable": False}, 1, "look", "Consumption is disabled"),
        ({"lag": 9, "quiet_ms": 150_000}, 1, "broken", "consumed nothing for 2 min 30 s"),
        ({"lag": 9, "consumed_per_s": 3.0}, 1, "wait", "caught up in 3.00 s"),
        ({"lag": 9, "consumed_per_s": 0.0}, None, "wait", "9 messages behind."),
        ({"lag": 9, "consumed_per_s": 3.0, "arriving_per_s": 1.5}, 1, "wait", "caught up in 6.00 s"),
        (
            {"lag": 99, "consumed_per_s": 3.0, "arriving_per_s": 4.0},
            1,
            "look",
            "does not catch up: 4.0/s arrive, 3.0/s",
        ),
        ({"lag": 9, "consumed_per_s": 3.0, "arriving_per_s": 3.0}, 1, "wait", "9 messages behind."),
    ],
)
def test_each_state_of_a_group(group: dict[str, Any], members: int | None, tone: str, words: str) -> None:
    given = {"name": "billing", "consume_enable": True, "state": GroupState.CURRENT, **group}
    arriving = given.pop("arriving_per_s", None)
    row = made(GroupRow, **given)
    connected = None if members is None else (made(Member),) * members
    page = made(GroupPage, evidence=FRESH, name="billing", group=row, members=connected, arriving_per_s=arriving)
    assert (page.verdict.tone, words in page.verdict.words) == (tone, True), page.verdict
    assert replace(page, evidence=STALE).verdict.words.startswith("Not known now")
    assert replace(page, group=None).verdict is None


@pytest.mark.parametrize(
    ("topic", "lags", "tone", "words"),
    [
        ({}, [0, 0], "ok", "caught up"),
        ({}, [0, 7], "wait", "g1 is furthest behind: 7"),
        ({}, [0, None], "look", "How far g1 is behind"),
        ({}, [], "idle", "no group that you can see"),
        ({"stored_total": 0}, [], "idle", "never had a message"),
        ({"permission": 4}, [0], "look", "accepts no messages"),
        ({"permission": 2}, [0], "look", "no group can consume"),
        ({"kind": TopicKind.SYSTEM}, [7], "idle", "broker itself"),
    ],
)
def test_each_state_of_a_topic(topic: dict[str, Any], lags: list[int | None], tone: str, words: str) -> None:
    row = made(TopicRow, **{"name": "orders", "kind": TopicKind.NORMAL, "permission": 6, "stored_total": 9, **topic})
    readers = tuple(TopicReader(f"g{number}", lag, 1) for number, lag in enumerate(lags))
    page = made(TopicPage, evidence=FRESH, name="orders", topic=row, readers=readers)
    assert (page.verdict.tone, words in page.verdict.words) == (tone, True), page.verdict
    assert replace(page, evidence=STALE).verdict.words.startswith("Not known now")
    assert replace(page, topic=None).verdict is None
