"""Both engines give the same rows, positions included, for one log and for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark.jobs import JOBS
from spark.places import numbered_batch
from spark.queries import Answers
from spark.question import Question
from spark.view import view_of
from tests.crash.golden import folders
from tests.spark import plain
from tests.spark.figures import question_of, records_of, segments_of_apache
from tests.spark.hostile import LONGS, VALUES, hostile_records
from tests.spark.randomlog import START_MS, RandomLog
from tests.spark.two_logs import both_of


def by_spark(session: SparkSession, records: pa.Table, question: Question) -> dict[str, list[tuple[Any, ...]]]:
    view = view_of(session.createDataFrame(records).coalesce(1)).keep()
    found = {name: [tuple(row) for row in job(view, question).collect()] for name, job in JOBS.items()}
    view.drop()
    return found


def same_rows(session: SparkSession, records: pa.Table, question: Question) -> None:
    expected = by_spark(session, records, question)
    with duckdb.connect() as connection:
        connection.register("records", records)
        answers = Answers(connection, question)
        for name, rows in expected.items():
            assert sorted(answers.ask(name), key=repr) == sorted(rows, key=repr), name
    assert sum(map(len, expected.values())) > 0


@pytest.mark.parametrize("name", folders())
def test_of_stores_of_apache_rocketmq(session: SparkSession, name: str) -> None:
    segments = segments_of_apache(name)
    last_ms = max(message.store_ms for message in plain.messages(segments))
    same_rows(session, records_of(segments), question_of(segments, last_ms))


@pytest.mark.parametrize("seed", [1, 21, 22])
def test_of_random_logs(session: SparkSession, seed: int) -> None:
    log = RandomLog(seed).fill(500)
    same_rows(session, records_of(log.segments), question_of(log.segments, log.now_ms))


def test_of_several_logs(session: SparkSession) -> None:
    logs = RandomLog(1).fill(420), RandomLog(7).fill(260)
    same_rows(session, numbered(*(records_of(log.segments) for log in logs)), both_of(*logs))


def numbered(*logs: pa.Table) -> pa.Table:
    return pa.Table.from_batches(
        [numbered_batch(batch, number) for number, log in enumerate(logs) for batch in log.to_batches()]
    )


@pytest.mark.parametrize(("seed", "values"), [(108, VALUES), (113, VALUES), (114, {**VALUES, **LONGS}), (115, LONGS)])
def test_of_records_that_nobody_writes(session: SparkSession, seed: int, values: Mapping[str, Sequence[Any]]) -> None:
    segments = RandomLog(seed).fill(300).segments
    same_rows(session, hostile_records(seed, values=values), question_of(segments, START_MS + 3_000_000))


def test_of_records_that_nobody_writes_in_several_logs(session: SparkSession) -> None:
    """The third one was pulled, so none of its segments is known."""
    logs = RandomLog(200).fill(300), RandomLog(1200).fill(300)
    question = replace(both_of(*logs), brokers=("broker-a", "broker-b", "broker-c"))
    same_rows(session, numbered(*map(hostile_records, (200, 1200, 2200))), question)
