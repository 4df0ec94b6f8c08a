"""Dashboards over several brokers in one run: what adds up is the sum, and no log is taken for another one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark.jobs import JOBS
from spark.places import BITS, numbered_batch, numbered_frame, place_of, position_at, positions_at
from spark.question import HOUR_MS, Question
from spark.scan import Source, shared_scan
from spark.store import LogStore
from spark.view import OPTIONS, view_of
from tests.spark.count import Points
from tests.spark.logs import read
from tests.spark.randomlog import SIZE, RandomLog
from tests.spark.test_jobs import OFFSETS, SELECTION, Line, points_of

#: What is counted a message or a byte; the rest are shares, percentiles, keys that both brokers have, and moments.
NO_SUMS = {"share", "reach", "hot", "expiry"}
NAMES = ("broker-a", "broker-b")


@dataclass(frozen=True, slots=True)
class Two:
    """Two logs with the same positions and the same unique keys, and all points of each alone and of both."""

    logs: tuple[RandomLog, RandomLog]
    alone: list[dict[str, list[Line]]]
    total: dict[str, list[Line]]

    def figures(self, name: str) -> tuple[list[Points], Points]:
        return [points_of(each[name]) for each in self.alone], points_of(self.total[name])


def lines(session: SparkSession, sources: list[Source], question: Question, scratch: Path) -> dict[str, list[Line]]:
    with shared_scan(session, sources, scratch) as records:
        view = view_of(records).keep()
        found = {name: [tuple(row) for row in job(view, question).collect()] for name, job in JOBS.items()}
        view.drop()
    return found


def stored(log: RandomLog, store: Path) -> str:
    (store / "commitlog").mkdir(parents=True)
    for start, data in log.segments.items():
        (store / "commitlog" / f"{start:020d}").write_bytes(data)
    return str(store)


@pytest.fixture(scope="module")
def two(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Two:
    directory = tmp_path_factory.mktemp("two")
    logs = RandomLog(1).fill(420), RandomLog(7).fill(260)
    assert logs[0].segments.keys() & logs[1].segments.keys()
    now_ms = max(log.now_ms for log in logs)
    paths = [stored(log, directory / name) for name, log in zip(NAMES, logs, strict=True)]
    segments = [[(one.start, one.size) for one in LogStore(path).segments()] for path in paths]
    alone = [
        lines(session, [Source(path, OPTIONS)], Question(now_ms, OFFSETS, of_log, HOUR_MS), directory)
        for path, of_log in zip(paths, segments, strict=True)
    ]
    question = Question(
        now_ms,
        [(*row, log) for log in range(2) for row in OFFSETS],
        [(place_of(log, start), size) for log, of_log in enumerate(segments) for start, size in of_log],
        brokers=NAMES,
        retentions_ms={0: HOUR_MS, 1: HOUR_MS},
    )
    sources = [Source(path, OPTIONS, log) for log, path in enumerate(paths)]
    return Two(logs, alone, lines(session, sources, question, directory))


@pytest.mark.parametrize("name", JOBS)
def test_what_adds_up_is_the_sum_of_both(two: Two, name: str) -> None:
    alone, total = two.figures(name)
    expected: Counter[tuple[object, ...]] = Counter()
    for broker, points in zip(NAMES, alone, strict=True):
        for (series, topic, label, part, at_ms), value in points.items():
            in_segments = series in ("content", "held", "held_bytes")
            expected[series, topic, f"{broker} {label}" if in_segments else label, part, at_ms] += value
    sums = {key: value for key, value in expected.items() if adds_up(str(key[0]))}
    assert sums or name == "keys"
    assert {key: value for key, value in total.items() if adds_up(key[0])} == sums


def adds_up(series: str) -> bool:
    is_percentile = series.endswith(("_p50", "_p95", "_p99", "_max"))
    return not is_percentile and series not in NO_SUMS and not series.startswith(("again_", "life_"))


def test_the_latest_of_both_is_the_latest(two: Two) -> None:
    alone, total = two.figures("lateness")
    largest: dict[object, float] = {}
    for points in alone:
        for key, value in points.items():
            largest[key] = max(value, largest.get(key, value))
    found = {key: value for key, value in total.items() if key[0] in ("late_max", "hour_max")}
    assert found == {key: value for key, value in largest.items() if key[0] in ("late_max", "hour_max")} != {}


def test_a_key_that_both_brokers_have_counts_once_and_lives_from_the_first_to_the_last(two: Two) -> None:
    alone, total = two.figures("keys")
    reach = [{key[1]: value for key, value in points.items() if key[0] == "reach"} for points in (*alone, total)]
    for topic, keys in reach[2].items():
        each = [one.get(topic, 0) for one in reach[:2]]
        assert max(each) <= keys <= sum(each), topic
    assert reach[2]["orders"] < reach[0]["orders"] + reach[1]["orders"]
    busiest = [{key[2]: value for key, value in points.items() if key[:2] == ("hot", "orders")} for points in alone]
    both = {key[2]: value for key, value in total.items() if key[:2] == ("hot", "orders")}
    assert both == Counter(busiest[0]) + Counter(busiest[1])


def test_positions_lead_to_records_of_their_own_log(two: Two) -> None:
    """Whatever a point of the total names is what the same point of that broker names, or lies between."""
    for name, points in two.total.items():
        named = [{(line[0], line[1]): set[int]() for line in each[name]} for each in two.alone]
        for number, each in enumerate(two.alone):
            for line in each[name]:
                named[number][line[0], line[1]] |= set(line[6] or ())
        for line in points:
            for place in line[6] or ():
                log, position = position_at(place)
                if name == "storage" or adds_up(line[0]):
                    assert position in named[log][line[0], line[1]], (name, line)


def test_the_ledger_balances(two: Two) -> None:
    alone, total = two.figures("ledger")
    accepted = [sum(value for key, value in points.items() if key[0] == "accepted") for points in (*alone, total)]
    assert accepted[0] + accepted[1] == accepted[2] > 0
    clean = [{key: value for key, value in points.items() if key[0] == "alarm"} for points in alone]
    assert {key[3] for points in clean for key in points} == {"twice", "unknown", "overdue", "no copy", "two copies"}


def test_segments_have_the_name_of_their_broker_and_go_each_by_its_own_time(two: Two) -> None:
    rows = [line for line in two.total["storage"] if line[0] == "expiry"]
    expected = {
        (f"{broker} {line[2]}", line[5]) for broker, each in zip(NAMES, two.alone, strict=True)
        for line in each["storage"] if line[0] == "expiry"
    }  # fmt: skip
    assert {(line[2], line[5]) for line in rows} == expected
    assert {line[2] for line in rows} >= {"broker-a 0", f"broker-a {SIZE}", "broker-b 0"}


def test_what_a_property_names_is_no_place_in_another_log() -> None:
    """A producer may put any number there, also one that is a place of another log."""
    inside, hostile = 77, [place_of(0, 77), place_of(1, 77), -1, (1 << 63) - 1, 1 << BITS]
    batch = pa.RecordBatch.from_pydict({"position": [inside] * 5, "source_position": hostile})
    for log in (0, 1, 5):
        found = numbered_batch(batch, log).to_pydict()
        assert [position_at(place) for place in found["position"]] == [(log, inside)] * 5
        assert {place >> BITS for place in found["source_position"]} == {log}
        assert found["source_position"].count(found["position"][0]) == 1
        assert found["log"] == [log] * 5
    assert positions_at([place_of(0, 3), place_of(1, 3)], NAMES) == ([3, 3], list(NAMES))


def test_spark_numbers_logs_as_the_reader_does(session: SparkSession) -> None:
    """A cluster of Spark keeps the rows itself, and never sees the reader's batches."""
    rows = read(RandomLog(2).fill(40).segments, selection=SELECTION)
    rows[3]["source_position"] = place_of(1, 9)
    rows[4]["source_position"], rows[5]["position"] = -5, None
    batch = pa.RecordBatch.from_pylist(rows, schema=SELECTION.schema)
    frame = numbered_frame(session.createDataFrame(pa.Table.from_batches([batch])), 3)
    expected = pa.Table.from_batches([numbered_batch(batch, 3)]).to_pylist()
    assert frame.toArrow().to_pylist() == expected


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Iterator[None]:
    """No scan is left behind."""
    yield
    assert not list(tmp_path.glob(f"scan-{os.getpid()}"))
