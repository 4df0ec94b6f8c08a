"""Dashboards over several brokers in one run: what adds up is the sum, and no log is taken for another one.

DuckDB is asked the same on every run (tests/queries/test_several_logs.py), and whether both engines say the same of
several logs (test_queries.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark.by_spark import shared_scan
from spark.jobs import JOBS
from spark.places import BITS, numbered_batch, numbered_frame, place_of, position_at, positions_at
from spark.question import Question
from spark.scan import Source
from spark.view import OPTIONS, view_of
from tests.spark import two_logs
from tests.spark.figures import SELECTION, Line
from tests.spark.logs import read
from tests.spark.randomlog import RandomLog
from tests.spark.two_logs import NAMES, Two


def stored(segments: dict[int, bytes], store: Path) -> str:
    (store / "commitlog").mkdir(parents=True)
    for start, data in segments.items():
        (store / "commitlog" / f"{start:020d}").write_bytes(data)
    return str(store)


@pytest.fixture(scope="module")
def two(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Two:
    def by_spark(logs: Sequence[dict[int, bytes]], question: Question) -> dict[str, list[Line]]:
        directory = tmp_path_factory.mktemp("logs")
        paths = [stored(log, directory / str(number)) for number, log in enumerate(logs)]
        sources = [Source(path, OPTIONS, number if len(logs) > 1 else None) for number, path in enumerate(paths)]
        with shared_scan(session, sources, directory) as records:
            view = view_of(records).keep()
            found = {name: [tuple(row) for row in job(view, question).collect()] for name, job in JOBS.items()}
            view.drop()
        return found

    return two_logs.two_logs(by_spark)


@pytest.mark.soak
@pytest.mark.parametrize("name", JOBS)
def test_what_adds_up_is_the_sum_of_both(two: Two, name: str) -> None:
    two_logs.the_sum_of_both(two, name)


@pytest.mark.soak
def test_the_latest_of_both_is_the_latest(two: Two) -> None:
    two_logs.the_latest_of_both(two)


@pytest.mark.soak
def test_a_key_that_both_brokers_have_counts_once_and_lives_from_the_first_to_the_last(two: Two) -> None:
    two_logs.a_key_of_both_counts_once(two)


@pytest.mark.soak
def test_positions_lead_to_records_of_their_own_log(two: Two) -> None:
    two_logs.positions_are_of_their_own_log(two)


@pytest.mark.soak
def test_the_ledger_balances(two: Two) -> None:
    two_logs.the_ledger_balances(two)


@pytest.mark.soak
def test_segments_have_the_name_of_their_broker_and_go_each_by_its_own_time(two: Two) -> None:
    two_logs.segments_are_named_with_their_broker(two)


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
