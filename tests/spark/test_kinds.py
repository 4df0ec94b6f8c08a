"""What a record is, in columns, is what slow plain Python says about the same record."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rocketmq.message import Message
from spark.columns import KINDS, Selection
from tests.crash.golden import folders, load
from tests.spark import plain, sorting
from tests.spark.logs import log_of, read
from tests.spark.plain import number
from tests.spark.randomlog import RandomLog

SELECTION = Selection(groups=frozenset({"kinds"}), only=frozenset({"position", *KINDS}))
OF_TOPIC = {sorting.HALVES: "half", sorting.OPS: "op", sorting.CHECKS: "note", sorting.STUCK: "stuck"}
OF_TOPIC |= {sorting.POPS: "note"}


def kind_of(message: Message) -> str:
    if sorting.is_parked(message):
        return "parked"
    if sorting.is_delete(message):
        return "delete"
    if message.topic.startswith(sorting.REVIVE):
        return "note"
    return "rolled" if message.topic == sorting.TIMERS else OF_TOPIC.get(message.topic, "plain")


def row_of(message: Message) -> dict[str, Any]:
    found = message.properties
    modes = {sorting.LEVELS: "level", sorting.TIMERS: "timer"}
    return {
        "position": message.position,
        "kind": kind_of(message),
        "mode": modes.get(message.topic),
        "shown": sorting.shown(message),
        "released": sorting.is_release(message),
        "committed": sorting.is_commit(message),
        "sent": sorting.is_sent(message),
        "put_back": sorting.is_put_back(message),
        "exact": "ESC_DUE_MS" in found,
        "out_ms": number(found.get("TIMER_OUT_MS")),
        "cancels_position": number(found.get("ESC_CANCELS")),
        "replaces_position": number(found.get("ESC_REPLACES")),
        "stuck_position": number(found.get("ESC_PARKED")),
        "check_times": number(found.get("TRANSACTION_CHECK_TIMES")) or 0,
        "deletes_key": found.get("TIMER_DEL_UNIQKEY"),
        "producer_group": found.get("PGROUP"),
        "decisions": found.get("ESC_DECISIONS"),
        "origin_id": found.get("ORIGIN_MESSAGE_ID"),
        "origin_group": found.get("ORIGIN_GROUP"),
    }


def test_records_of_a_random_log() -> None:
    segments = RandomLog(31).fill(1_500).segments
    expected = [row_of(message) for message in plain.messages(segments)]
    assert {row["kind"] for row in expected} >= {"plain", "parked", "delete", "half", "op", "note", "stuck"}
    assert read(segments, selection=SELECTION) == expected


@pytest.mark.parametrize("name", sorted(folders()))
def test_records_of_apache_rocketmq(name: str) -> None:
    segments = {int(path[-20:]): data for path, data in load(name).files.items() if "/commitlog/" in path}
    assert read(segments, selection=SELECTION) == [row_of(message) for message in plain.messages(segments)]


def test_a_number_that_is_none_counts_as_missing() -> None:
    names = ("ESC_CANCELS", "ESC_REPLACES", "ESC_PARKED", "TIMER_OUT_MS", "TRANSACTION_CHECK_TIMES")
    [row] = read({0: log_of({"properties": dict.fromkeys(names, "seven")})}, selection=SELECTION)
    figures = ("cancels_position", "replaces_position", "stuck_position", "out_ms", "check_times")
    assert [row[name] for name in figures] == [None, None, None, None, 0]


def test_bytes_without_a_record_are_damage_and_nothing_else() -> None:
    data = bytearray(log_of({}, {}))
    data[40] ^= 1
    rows = read({0: bytes(data)}, selection=SELECTION)
    assert [row["kind"] for row in rows] == ["damage", "plain"]
    assert not any(rows[0][name] for name in ("released", "committed", "sent", "shown", "mode"))


def test_what_a_broker_writes_down_of_pops_was_sent_by_nobody() -> None:
    topics = ("rmq_sys_esc_pops", "rmq_sys_REVIVE_LOG_DefaultCluster", "%RETRY%mail_orders", "orders")
    rows = read({0: log_of(*({"topic": topic} for topic in topics))}, selection=SELECTION)
    assert [(row["kind"], row["sent"]) for row in rows] == [
        ("note", False), ("note", False), ("plain", True), ("plain", True),
    ]  # fmt: skip


def test_a_timer_that_is_moved_was_sent_once_and_one_in_the_place_of_another_too() -> None:
    timer = {"REAL_TOPIC": "late", "REAL_QID": "0", "ESC_DUE_MS": "9"}
    moved = timer | {"ESC_REPLACES": "0"}
    of_sender = moved | {"ESC_ON_CONFLICT": "replace"}
    kept = moved | {"ESC_ON_CONFLICT": "keep"}
    made = [{"topic": sorting.TIMERS, "properties": found} for found in (timer, moved, of_sender, kept)]
    rows = read({0: log_of(*made)}, selection=SELECTION)
    assert [row["sent"] for row in rows] == [True, False, True, False]
