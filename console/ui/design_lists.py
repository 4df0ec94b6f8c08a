"""Samples of lists and strips: long names, what is unknown, and nothing at all."""

from __future__ import annotations

import math

from console.features.clients import Clients
from console.features.groups.read import Groups
from console.features.overview.finding_kinds import Finding, FindingCode
from console.features.overview.findings import Flow, MirrorRow, Overview
from console.features.schedule.shapes import BUCKETS, DueSpread, Lane, LaneState, NextMinute
from console.features.topics.shapes import TopicKind, TopicRow, Topics
from console.site.evidence import Evidence, StaleReason
from console.site.history import SLOTS, History

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
    """Never read."""
    return Evidence("", None, False, StaleReason.MIRROR_EMPTY)


def wave(now_ms: int) -> History:
    """Five minutes with a gap."""
    rates = [None if 20 <= slot < 26 else 40 + 30 * math.sin(slot / 6) for slot in range(SLOTS)]
    return History(tuple(rates), now_ms)


def topics(now_ms: int) -> Topics:
    """An ordinary one, two with long names, one that was never used, one of which little is known."""
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
    """Nothing matches."""
    return Groups(fresh(now_ms), now_ms, (), 0, 0, 50, "nothing-is-called-so")


def unknown_clients(now_ms: int) -> Clients:
    """The broker was never reached."""
    return Clients(never(), now_ms, (), 0, None, 0, 0, 0, 50, "", "", False, 0)


def overview(now_ms: int) -> Overview:
    """Findings of both kinds, figures, flows, a full minute."""
    findings = (
        Finding(FindingCode.BROKER_UNREACHABLE, "broker-a", detail="connection refused", span_ms=754_000),
        Finding(FindingCode.GROUP_WITHOUT_CONSUMER, LONG_NAME, 1_204_511, span_ms=720_000),
        Finding(FindingCode.HERD_AHEAD, "00:00:00", 500_000, span_ms=19_600, at_ms=now_ms + 3_600_000),
    )
    flows = (
        Flow("accepted", 61.4, wave(now_ms), None), Flow("released", 0.0, History(), 12_345_678),
        Flow("consumed", None, History(), None),
    )  # fmt: skip
    counts = tuple((second * 7) % 23 for second in range(60))
    minute = NextMinute(now_ms, counts, counts.index(max(counts)), 3, True)
    mirror = MirrorRow("stale", 9, now_ms - 754_000, 754_000, 4.2, now_ms - 9_000_000, "")
    return Overview(
        stale(now_ms), now_ms, findings, (), mirror, flows, 12_345_678, now_ms + 2_400, 3, minute, 1_204, 318, None,
        98_765_432, 1_000_000, 4.1,
    )  # fmt: skip


def lanes(now_ms: int) -> list[Lane]:
    """One of each state, and one that deserves a look."""
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
