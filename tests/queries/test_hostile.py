"""No record makes DuckDB fail, whatever stands in its columns; numbers that 64 bits do not hold count as missing."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from spark.queries import NAMES, Answers
from spark.question import Question
from tests.spark.figures import OFFSETS, question_of, records_of
from tests.spark.hostile import LEAST, LONGS, MOST, VALUES, hostile_records
from tests.spark.randomlog import SIZE, START_MS, RandomLog


def answered(records: pa.Table, question: Question) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        connection.register("records", records)
        answers = Answers(connection, question)
        return {name: list(answers.ask(name)) for name in NAMES}


@pytest.mark.parametrize("share", [0.02, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_extremes_and_rot_are_counted(seed: int, share: float) -> None:
    segments = [(0, SIZE), (SIZE, SIZE), (2 * SIZE, SIZE)]
    records = hostile_records(seed, share, {**VALUES, **LONGS, "position": LONGS["born_ms"]})
    found = answered(records, Question(START_MS + 3_000_000, OFFSETS, segments))
    assert all(found.values())
    for name, rows in found.items():
        for series, topic, label, part, at_ms, value, positions in rows:
            assert None not in (series, topic, label, part), name
            assert at_ms is None or LEAST <= at_ms <= MOST
            assert value is None or isinstance(value, float)
            assert positions is None or len(positions) <= 100
    several = records.append_column("log", pa.array([number % 3 for number in range(len(records))], pa.int32()))
    asked = Question(START_MS, [(*row, 1) for row in OFFSETS], segments, brokers=("a",), retentions_ms={0: MOST})
    assert all(answered(several, asked).values())


def test_a_log_without_records_has_no_points() -> None:
    nothing = records_of(RandomLog(1).fill(0).segments).slice(0, 0)
    assert answered(nothing, Question(START_MS, OFFSETS)) == {name: [] for name in NAMES}


def test_a_dashboard_is_asked_again_and_in_any_order() -> None:
    log = RandomLog(1).fill(100)
    with duckdb.connect() as connection:
        connection.register("records", records_of(log.segments))
        answers = Answers(connection, question_of(log.segments, log.now_ms))
        first = {name: sorted(answers.ask(name), key=repr) for name in reversed(NAMES)}
        assert {name: sorted(answers.ask(name), key=repr) for name in NAMES} == first
    with pytest.raises(KeyError):
        answers.ask("nothing")
