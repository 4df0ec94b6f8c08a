"""Every component of the console on one page, from the templates that the pages use; for those who build it.

Samples only: lists and strips with long names, what is unknown, and nothing at all; the wheel with its forecast, the
board, a life line, an operation under way.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.clients import Clients
from console.features.due.shapes import DueKind
from console.features.due.wheel import DueRing, DueWheel
from console.features.groups.read import Groups, GroupState
from console.features.messages.shapes import Hop, HopKind, LifeStep, MessagePage, StepKind, life_of
from console.features.overview.finding_kinds import Finding, FindingCode
from console.features.overview.findings import Flow, Halves, MirrorRow, Overview
from console.features.schedule.shapes import BUCKETS, DueSpread, Lane, LaneState
from console.features.timers.operations import TimersPreview
from console.features.timers.shapes import (
    DEFAULT,
    ZOOMS,
    Forecast,
    Herd,
    Lateness,
    Stretch,
    TimerFigures,
    TimerFilter,
    TimerList,
    TimerRow,
    TimersPage,
    Wheel,
    WheelSlot,
    window_of,
)
from console.features.topics.shapes import TopicKind, TopicRow, Topics
from console.features.transactions.shapes import (
    Board,
    OpRow,
    TransactionFigures,
    TransactionFilter,
    TransactionList,
    TransactionRow,
    TransactionsPage,
    TransactionState,
)
from console.operations.kind import TYPED_ABOVE
from console.operations.models import Operation
from console.operations.reading import OperationPage
from console.operations.registry import KINDS
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import SLOTS, History

#: as long as a topic's name may be (RocketMQ: TopicValidator.TOPIC_MAX_LENGTH)
LONG_NAME = ("a-name-as-long-as-a-topic-may-have-" * 4)[:127]
#: a word that nothing breaks, in letters of another width
WIDE_NAME = "订单付款超时取消" * 12


def fresh(now_ms: int) -> Evidence:
    """Read just now, exactly."""
    return Evidence("mirror of broker-a", now_ms - 400, True, requests=(202, 45, 321))


def stale(now_ms: int) -> Evidence:
    """Read a while ago, and not since."""
    return Evidence(
        "mirror of broker-a", now_ms - 754_000, False, StaleReason.BROKER_UNREACHABLE, detail="connection refused"
    )


def never() -> Evidence:
    """Return evidence of a mirror that was never read."""
    return Evidence("", None, False, StaleReason.MIRROR_EMPTY)


def wave(now_ms: int) -> History:
    """Return five minutes of history with a gap."""
    rates = [None if 20 <= slot < 26 else 40 + 30 * math.sin(slot / 6) for slot in range(SLOTS)]
    return History(tuple(rates), now_ms)


def topics(now_ms: int) -> Topics:
    """Return an ordinary topic, two with long names, one never used, and one of which little is known."""
    row = TopicRow("orders", TopicKind.NORMAL, 8, 8, 6, 1_234_567, 98_765_432, now_ms - 1_250, 61.4, wave(now_ms), 3)
    rows = (
        row,
        TopicRow(LONG_NAME, TopicKind.NORMAL, 16, 8, 6, 12, 12, now_ms - 86_400_000, 0.02, History(), 1),
        TopicRow(WIDE_NAME, TopicKind.DEAD_LETTER, 1, 1, 4, 1, 1, now_ms - 60_000, 0.0, wave(now_ms), 0),
        TopicRow("never", TopicKind.NORMAL, 1, 1, 6, 0, 0, None, 0.0, History(), 0),
        TopicRow("unknown", TopicKind.SYSTEM, 1, 1, 0, None, None, None, None, History(), 0),
    )
    return Topics(fresh(now_ms), now_ms, rows, len(rows), {}, 0, 50, "", "", "name")


def no_groups(now_ms: int) -> Groups:
    """Return the groups of a search that matches nothing."""
    return Groups(fresh(now_ms), now_ms, (), 0, 0, 50, "nothing-is-called-so")


def unknown_clients(now_ms: int) -> Clients:
    """Return the clients of a broker that was never reached."""
    return Clients(never(), now_ms, (), 0, None, 0, 0, 0, 50, "", "", False, 0)


def overview(now_ms: int) -> Overview:
    """Return an overview with findings of both kinds, figures, flows and a full minute."""
    findings = (
        Finding(FindingCode.BROKER_UNREACHABLE, "broker-a", detail="connection refused", span_ms=754_000),
        Finding(FindingCode.GROUP_WITHOUT_CONSUMER, LONG_NAME, 1_204_511, span_ms=720_000),
        *(
            Finding(FindingCode.GROUP_WITHOUT_CONSUMER, f"group-{number}", 40 - number, span_ms=61_000)
            for number in range(4)
        ),
        Finding(FindingCode.HERD_AHEAD, "00:00:00", 500_000, span_ms=19_600, at_ms=now_ms + 3_600_000),
    )
    flows = (
        Flow("accepted", 61.4, wave(now_ms), None), Flow("released", 0.0, History(), 12_345_678),
        Flow("consumed", None, History(), None),
    )  # fmt: skip
    rings = tuple(
        DueRing(
            now_ms, span_ms // length, tuple((slot * 7) % 23 for slot in range(length)),
            tuple(max(0, (slot * 5) % 17 - 8) for slot in range(length)),
        )
        for span_ms, length in ((60_000, 60), (3_600_000, 60), (86_400_000, 24))
    )  # fmt: skip
    wheel = DueWheel(rings, now_ms + 2_400, DueKind.LANES)
    mirror = MirrorRow("stale", 9, now_ms - 754_000, 754_000, 4.2, now_ms - 9_000_000, "")
    return Overview(
        stale(now_ms), now_ms, findings, (), mirror, flows, 12_345_678, wheel, 1_204, 318, None,
        98_765_432, Halves(4, 1), 1_000_000, 4.1,
    )  # fmt: skip


def lanes(now_ms: int) -> list[Lane]:
    """Return a lane in each state, one of which deserves a look."""
    waiting = DueSpread(tuple(spot * 40 % 97 for spot in range(BUCKETS)), 0, 0, True)
    rows = [
        (3, 10_000, LaneState.WAITING, 1_240, now_ms + 900, waiting, frozenset[str]()),
        (9, 300_000, LaneState.LATE, 87, now_ms - 4_200, waiting, frozenset({"p99", "persisted", "late"})),
        (16, 1_800_000, LaneState.EMPTY, 0, None, DueSpread((0,) * BUCKETS, 0, 0, True), frozenset[str]()),
        (17, 3_600_000, LaneState.NEVER_USED, 0, None, None, frozenset[str]()),
        (18, 7_200_000, LaneState.UNKNOWN, None, None, None, frozenset[str]()),
    ]
    return [
        Lane(
            level, delay_ms, state, backlog, due_ms, None if due_ms is None else now_ms - 3_000, 0,
            None if backlog is None else 9_000, 8_400, now_ms - 31_000, None if backlog is None else 9_000 + backlog,
            spread, None if backlog is None else 12.0, wave(now_ms) if backlog else History(), 9_000, 1.2, 14.7, 0,
            warnings,
        )
        for level, delay_ms, state, backlog, due_ms, spread, warnings in rows
    ]  # fmt: skip


#: one thing in the sample of an operation
_NUMBER = uuid.UUID(int=7)
_COMMITTED, _ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK


def timers(now_ms: int) -> TimersPage:
    """Return timers with something on every ring, a herd and a shape of lateness."""
    zoom = ZOOMS[DEFAULT]
    start_ms = window_of(DEFAULT, None, now_ms).start_ms
    second_ms = now_ms // 1000 * 1000
    rings = (_stretch(second_ms, 1_000, 60), _stretch(second_ms, 60_000, 60), _stretch(second_ms, 3_600_000, 24))
    strip = _stretch(start_ms, zoom.step_ms, zoom.span_ms // zoom.step_ms)
    herd = Herd(second_ms + 1_500_000, 500_000, 19_600, (("orders", 480_000), (LONG_NAME, 20_000)))
    histogram = ((1.0, 40), (2.0, 920), (4.0, 310), (8.0, 22), (None, 3))
    rows = tuple(
        TimerRow(n, n, second_ms + n * 900, topic, 0, 320, "", key, (key,), "", "", now_ms, now_ms, n % 3)
        for n, (topic, key) in enumerate((("orders", "order-4711"), (LONG_NAME, "k" * 200), (WIDE_NAME, WIDE_NAME)), 1)
    )
    lateness = Lateness("", 1_295, 1.4, 4.8, 21.0, histogram)
    return TimersPage(
        fresh(now_ms), now_ms, "broker-a", DEFAULT, None,
        TimerFigures(False, 1_000_000, second_ms + 900, None, 0, 61.0, 25_000.0), (), 0, lateness,
        TimerList(fresh(now_ms), now_ms, TimerFilter(), rows),
        Wheel(fresh(now_ms), rings, strip, ((start_ms + 1_800_000, 88),), 420_000, now_ms, 1_000, 604_800),
        Forecast(fresh(now_ms), strip, 25_000.0, (herd,)),
    )  # fmt: skip


def board(now_ms: int) -> TransactionsPage:
    """Return transactions decided both ways, parked, alone and fresh."""
    states = (
        _COMMITTED, _ROLLED_BACK, _COMMITTED, TransactionState.OPEN, TransactionState.PARKED, _COMMITTED,
        TransactionState.OPEN,
    )  # fmt: skip
    halves = tuple(
        TransactionRow(
            100 + n, state, 4_096 + n, "payers", LONG_NAME if n == 2 else "orders", 0, f"tx-{n}",
            (WIDE_NAME,) if n == 4 else (f"order-{n}",), "", now_ms - (8 - n) ** 3 * 1_000,
            checks=15 if state == TransactionState.PARKED else n, next_check_ms=now_ms + 20_000,
            producers=() if n == 3 else ("10.0.0.7@shop",),
        )
        for n, state in enumerate(states)
    )  # fmt: skip
    ops = (
        OpRow(40, 9_000, now_ms - 40_000, (100, 102), (_COMMITTED, _COMMITTED)),
        OpRow(41, 9_200, now_ms - 20_000, (101, 105), (_ROLLED_BACK, _COMMITTED)),
    )
    drawn = Board(fresh(now_ms), halves, ops, 2, 42, 107)
    figures = TransactionFigures(timeout_ms=6_000, interval_ms=30_000, max_checks=15)
    nothing = TransactionList(fresh(now_ms), now_ms, TransactionFilter(), (), None, 15)
    return TransactionsPage(fresh(now_ms), now_ms, "broker-a", figures, (), nothing, nothing, nothing, drawn)


def message(now_ms: int) -> MessagePage:
    """Return a message parked for half an hour, released, failed once and consumed, from the log and from clients."""
    born_ms = now_ms - 3_600_000
    parked = Hop(
        HopKind.PARKED, SCHEDULE_TOPIC, 15, 12, 4_096, 320, born_ms + 4, None, "0" * 32, 16,
        born_ms + 1_800_004, None, False,
    )  # fmt: skip
    released = replace(
        parked, kind=HopKind.RELEASED, topic="orders", queue_id=0, position=8_192, store_ms=born_ms + 1_800_006,
        after_ms=1_800_002, late_ms=2, current=True, due_ms=None, delay_level=None,
    )  # fmt: skip
    steps = (
        LifeStep(StepKind.SENT, born_ms, None, None, True, "shop", "10.0.0.7@shop", 3, True),
        LifeStep(StepKind.PARKED, parked.store_ms, 4, parked),
        LifeStep(StepKind.RELEASED, released.store_ms, 1_800_002, released),
        LifeStep(StepKind.CONSUMED, released.store_ms + 9, 9, released, True, LONG_NAME, WIDE_NAME, 812, False),
        LifeStep(StepKind.CONSUMED, released.store_ms + 10_900, 10_891, released, True, "mail", "10.0.0.9@mail", 4),
    )
    return MessagePage(
        fresh(now_ms), now_ms, "0" * 32, "broker-a", True, "orders", 0, "unique", "paid", ("order-4711",), born_ms,
        "10.0.0.7", "10.0.0.1", 0, 0, 0, None, False, None, (parked, released), (), 0, None, steps, 3,
    )  # fmt: skip


def operation(now_ms: int) -> OperationPage:
    """Return an operation under way, with a result of each kind."""
    row = Operation(
        id=_NUMBER, kind="timers.cancel", state=Operation.State.RUNNING, parameters={"filter": {"topic": "orders"}},
        reason="The price list of tonight is wrong.", actor="anna", total=1_250, done=843,
        results={"cancelled": 841, "not_found": 2},
    )  # fmt: skip
    preview = TimersPreview(at_ms=now_ms - 9_000, count=1_250)
    return OperationPage(row=row, kind=KINDS[row.kind], now_ms=now_ms, preview=preview, back={})


def _stretch(start_ms: int, step_ms: int, length: int) -> Stretch:
    counts = (round(max(0.0, 40 * math.sin(index / 5) + index % 7)) for index in range(length))
    slots = tuple(WheelSlot(start_ms + index * step_ms, count, count * 320) for index, count in enumerate(counts))
    return Stretch(start_ms, step_ms, slots)


MARKS = ("ok", "look", "broken", "wait", "idle")


@require_safe
def design(request: HttpRequest) -> HttpResponse:
    """Show the page of samples; what moves counts from now."""
    now = now_ms()
    sent = message(now)
    context = {
        "here": "design",
        "now_ms": now,
        "marks": MARKS,
        "heat": range(6),
        "group_states": list(GroupState),
        "transaction_states": [{"state": state} for state in TransactionState],
        "long_name": LONG_NAME,
        "wide_name": WIDE_NAME,
        "overview": overview(now),
        "lanes": {"lanes": lanes(now), "now_ms": now},
        "topics": topics(now),
        "groups": no_groups(now),
        "clients": unknown_clients(now),
        "stale": stale(now),
        "never": never(),
        "looked": {"looked": 20_000},
        "timers": timers(now),
        "board": board(now),
        "message": sent,
        "life": life_of(sent),
        "shown_told": 3,
        "operation": operation(now),
        "typed_above": TYPED_ABOVE,
        "given": {"reason": "", "typed": ""},
        "may": True,
        "name_length": 60,
        "may_share": True,
    }
    return render(request, "design/page.html", context)
