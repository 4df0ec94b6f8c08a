"""Samples of what is drawn: the wheel with its forecast, the board, a life line, an operation under way."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace

from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.messages.shapes import Hop, HopKind, LifeStep, MessagePage, StepKind
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
from console.operations.models import Operation
from console.operations.reading import OperationPage
from console.operations.registry import KINDS
from console.ui.design_lists import LONG_NAME, WIDE_NAME, fresh

#: one thing in the sample of an operation
_NUMBER = uuid.UUID(int=7)
_COMMITTED, _ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK


def timers(now_ms: int) -> TimersPage:
    """Something on every ring, a herd, a shape of lateness."""
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
    """Decided both ways, parked, alone, fresh."""
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
    """Parked for half an hour, released, failed once, consumed: what the log shows and what clients told."""
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
    """Under way, with a result of each kind."""
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
