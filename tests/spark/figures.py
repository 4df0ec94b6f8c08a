"""Checks that the figures of every dashboard equal a slow count in plain Python, whoever computes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from spark.options import parse_options
from spark.queries import NAMES
from spark.question import Question
from spark.segment import Stretch, read_stretch
from spark.view import OPTIONS
from tests.crash.golden import load
from tests.spark import plain, sorting
from tests.spark.count import Points, as_text, count_all
from tests.spark.randomlog import RandomLog

SELECTION = parse_options({**OPTIONS, "path": "/none"}).selection
Line = tuple[str, str, str, str, int | None, float, list[int] | None]
#: Series whose bars lead to messages.
COUNTED = {
    "sent", "released", "committed", "bytes", "consumed", "producers", "histogram", "pending", "minute", "hour", "day",
    "before", "fate", "outcome", "checks", "checked", "attempts", "dead", "poison", "reach", "hot", "content", "growth",
    "held", "accepted", "alarm",
}  # fmt: skip
OFFSETS = [("orders", "mail", 0, 30), ("orders", "print", 1, 5), ("late", "mail", 0, 9)]
#: Computes dashboards of a log that is given by its segments.
Ask = Callable[[dict[int, bytes], Question, Sequence[str]], dict[str, list[Line]]]
#: The stores of Apache RocketMQ and the dashboards that have something to say about them.
OF_APACHE = {
    "delay_levels": ("lateness", "ledger"),
    "timers": ("cancellations", "ledger"),
    "transactions": ("transactions", "ledger"),
    "retry_dlq": ("retries", "ledger"),
}


def records_of(segments: dict[int, bytes]) -> pa.Table:
    """The records of a log as a scan for the dashboards has them."""
    batches: list[pa.RecordBatch] = []
    for start, data in sorted(segments.items()):
        end = start + len(data)

        def bytes_at(position: int, count: int, data: bytes = data, start: int = start) -> bytes:
            return data[position - start : position - start + count]

        batches += read_stretch(bytes_at, Stretch(start, end, end, bounded=False), SELECTION)
    return pa.Table.from_batches(batches, SELECTION.schema)


def points_of(rows: list[Line]) -> Points:
    found = Counter(tuple(row[:5]) for row in rows)
    assert [key for key, count in found.items() if count > 1] == [], "the same point twice"
    return {tuple(row[:5]): row[5] for row in rows if row[5] or row[0] in ("share", "difference")}


def behind_are_messages(rows: dict[str, list[Line]], topics: dict[int, str]) -> None:
    """A point of a topic names records of that topic, in order; what counts messages names at least one."""
    for name, lines in rows.items():
        for series, topic, label, part, at_ms, value, positions in lines:
            where = (name, series, topic, label, part, at_ms)
            assert positions is None or positions == sorted(positions), where
            for position in positions or ():
                assert topics[position] == topic or (name == "ledger" and part == "unknown"), where
            named = series.endswith("_max") or (value and series in COUNTED)
            assert not named or positions, where


def question_of(segments: dict[int, bytes], now_ms: int) -> Question:
    return Question(now_ms, OFFSETS, [(start, len(data)) for start, data in segments.items()])


def segments_of_apache(name: str) -> dict[int, bytes]:
    return {int(path[-20:]): data for path, data in load(name).files.items() if "/commitlog/" in path}


def compare(ask: Ask, segments: dict[int, bytes], now_ms: int, names: Sequence[str] = NAMES) -> dict[str, Points]:
    """Every figure is what is counted slowly; returns the figures."""
    expected = count_all(plain.messages(segments), now_ms, OFFSETS, len(segments[min(segments)]))
    rows = ask(segments, question_of(segments, now_ms), names)
    found = {name: points_of(lines) for name, lines in rows.items()}
    behind_are_messages(rows, {message.position: sorting.shown(message) for message in plain.messages(segments)})
    for name in names:
        points = expected[name]
        wanted = {key: value for key, value in points.items() if value or key[0] in ("share", "difference")}
        rounded = {key: pytest.approx(value) for key, value in wanted.items()}
        assert found[name] == rounded, f"{name}\n{as_text(found[name])}\nexpected\n{as_text(wanted)}"
    return found


def agree_on_a_random_log(ask: Ask, seed: int = 1) -> None:
    log = RandomLog(seed).fill(700)
    found = compare(ask, log.segments, log.now_ms)
    kinds = {key[0] for points in found.values() for key in points}
    assert {"committed", "rolled back", "stuck", "open", "alarm", "consumed", "poison", "held", "late_p99"} <= kinds
    alarms = {key[3] for key in found["ledger"] if key[0] == "alarm"}
    assert alarms == {"twice", "unknown", "overdue", "no copy", "two copies"}


def agree_on_a_store_of_apache(ask: Ask, name: str) -> None:
    segments = segments_of_apache(name)
    last_ms = max(message.store_ms for message in plain.messages(segments))
    found = compare(ask, segments, last_ms, OF_APACHE[name])
    assert sum(value for key, value in found["ledger"].items() if key[0] == "difference") == 0
    assert sum(value for key, value in found["ledger"].items() if key[0] == "accepted") > 0
    assert [key for key in found["ledger"] if key[0] == "alarm"] == []


def damage_is_named(ask: Ask) -> None:
    log = RandomLog(2).fill(60)
    data = bytearray(log.segments[0])
    second = next(message for message in plain.messages(log.segments) if message.position > 0)
    data[second.position + 60] ^= 1
    rows = ask({0: bytes(data)}, Question(log.now_ms), ["ledger"])["ledger"]
    assert [row[6] for row in rows if row[0] == "alarm" and row[3] == "lost"] == [[second.position]]


def on_request_is_early(ask: Ask) -> None:
    log = RandomLog(3)
    due_ms = log.now_ms + 18_000_000
    for number in range(2):
        timer = {"UNIQ_KEY": f"K{number}", "ESC_DUE_MS": str(due_ms), "REAL_TOPIC": "late", "REAL_QID": "0"}
        parked = log.write("rmq_sys_wheel_timer", timer)
        log.now_ms += number * 30_000_000  # the first one at once, the second one after its moment
        log.write("late", {**timer, "ESC_SOURCE": str(parked)})
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["lateness"])
    found = points_of(rows["lateness"])
    assert {key[3]: value for key, value in found.items() if key[0] == "histogram"} == {"early": 1, "< 6 h": 1}
    counts = {key[0]: value for key, value in found.items() if key[0].endswith("_count")}
    assert counts == {"late_count": 1, "hour_count": 1}
    assert min(value for key, value in found.items() if key[0] == "late_p50") > 0


def tries_are_those_of_the_group(ask: Ask) -> None:
    log = RandomLog(4)
    for topic, origin in (("%RETRY%mail_orders", "A"), ("%RETRY%mail+seats", "B"), ("%DLQ%mail", "A")):
        log.write(topic, {"ORIGIN_MESSAGE_ID": origin, "ORIGIN_GROUP": "mail", "KEYS": origin}, times=1)
    log.write("%RETRY%mail_print", {"ORIGIN_MESSAGE_ID": "C", "KEYS": "C"}, times=1)
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["retries"])["retries"]
    found = {(series, topic, label): value for series, topic, label, _, _, value, _ in rows}
    assert {key[1:]: value for key, value in found.items() if key[0] == "attempts"} == {
        ("%RETRY%mail_orders", "mail"): 1, ("%RETRY%mail+seats", "mail"): 1, ("%RETRY%mail_print", "mail_print"): 1,
    }  # fmt: skip
    # what was given up succeeded never
    assert {key[1] for key in found if key[0] == "again_count"} == {"%RETRY%mail+seats", "%RETRY%mail_print"}


def what_has_no_due_time_is_named(ask: Ask) -> None:
    log = RandomLog(5)
    parked = [log.write("rmq_sys_wheel_timer", {"UNIQ_KEY": f"K{number}", "REAL_TOPIC": "late"}) for number in range(2)]
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["pending"])["pending"]
    assert rows == [("pending", "late", "unknown", "", None, 2, [parked[0]])]


def of_those_that_are_due_next_the_first_is_named(ask: Ask) -> None:
    log = RandomLog(5)
    due = [str(log.now_ms - 60_000 * minutes) for minutes in (1, 3, 3, 2)]
    timers = [{"UNIQ_KEY": f"K{number}", "REAL_TOPIC": "late", "ESC_DUE_MS": at} for number, at in enumerate(due)]
    parked = [log.write("rmq_sys_wheel_timer", timer) for timer in timers]
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["pending"])["pending"]
    assert rows == [("pending", "late", "overdue", "", None, 4, [parked[1]])]


def only_whole_words_of_ops_count_and_the_first(ask: Ask) -> None:
    """Two words about one half, and words that only look like an offset: the first one counts, and none."""
    log = RandomLog(6)
    for number in range(5):
        log.write("RMQ_SYS_TRANS_HALF_TOPIC", {"UNIQ_KEY": f"K{number}", "PGROUP": "pay", "REAL_TOPIC": "orders"})
    ops = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    log.write(ops, {"ESC_DECISIONS": "r0c1"}, b"0,0,")
    log.write(ops, {"ESC_DECISIONS": "c2"}, b"1\n,")
    log.write(ops, {"ESC_DECISIONS": "c2"}, b"2\xc2\x85,")
    log.write(ops, {"ESC_DECISIONS": "c2"}, b"\xff,3,")
    log.write("rmq_sys_esc_checks", {}, b"4:2\n,4:99999999999,")
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["transactions"])["transactions"]
    counted = {row[3]: row[5] for row in rows if row[0] == "outcome" and row[2] == "pay"}
    assert counted == {"rolled back": 1, "open": 3, "committed": 1}
    assert [row for row in rows if row[0] == "checks"] == []


def checks_add_up_beyond_64_bits(ask: Ask) -> None:
    log = RandomLog(8)
    for number in range(11):
        found = {"UNIQ_KEY": f"K{number}", "PGROUP": "pay", "REAL_TOPIC": "orders", "REAL_QID": "0"}
        log.write("RMQ_SYS_TRANS_HALF_TOPIC", {**found, "TRANSACTION_CHECK_TIMES": "9" * 18})
    rows = ask({0: log.fill(0).segments[0]}, Question(log.now_ms), ["transactions"])["transactions"]
    assert [row[5] for row in rows if row[0] == "checks"] == [float(11 * (10**18 - 1))]
