"""Dashboards over several brokers in one run by DuckDB: what adds up is the sum, and no log is taken for another."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pytest

from spark.places import BITS, numbered_batch, place_of
from spark.queries import NAMES, Answers
from spark.question import Question
from tests.spark import two_logs
from tests.spark.figures import Line, records_of
from tests.spark.two_logs import Two


def together(logs: Sequence[dict[int, bytes]]) -> pa.Table:
    """The records of several logs as one scan; of one alone with its own positions."""
    tables = [records_of(segments) for segments in logs]
    if len(tables) == 1:
        return tables[0]
    return pa.Table.from_batches(
        [numbered_batch(batch, number) for number, table in enumerate(tables) for batch in table.to_batches()]
    )


@pytest.fixture(scope="module")
def two() -> Two:
    def by_duckdb(logs: Sequence[dict[int, bytes]], question: Question) -> dict[str, list[Line]]:
        with duckdb.connect() as connection:
            connection.register("records", together(logs))
            answers = Answers(connection, question)
            return {name: list(answers.ask(name)) for name in NAMES}

    return two_logs.two_logs(by_duckdb)


@pytest.mark.parametrize("name", NAMES)
def test_what_adds_up_is_the_sum_of_both(two: Two, name: str) -> None:
    two_logs.the_sum_of_both(two, name)


def test_the_latest_of_both_is_the_latest(two: Two) -> None:
    two_logs.the_latest_of_both(two)


def test_a_key_that_both_brokers_have_counts_once_and_lives_from_the_first_to_the_last(two: Two) -> None:
    two_logs.a_key_of_both_counts_once(two)


def test_positions_lead_to_records_of_their_own_log(two: Two) -> None:
    two_logs.positions_are_of_their_own_log(two)


def test_the_ledger_balances(two: Two) -> None:
    two_logs.the_ledger_balances(two)


def test_segments_have_the_name_of_their_broker_and_go_each_by_its_own_time(two: Two) -> None:
    two_logs.segments_are_named_with_their_broker(two)


def test_a_place_has_as_many_bits_for_its_log_as_everywhere() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE records (log INTEGER)")
        Answers(connection, Question(1, brokers=("a",)))
        for log, position in ((0, 7), (3, 0), (2047, (1 << BITS) - 1)):
            found = connection.execute("SELECT log_of($1), position_of($1)", [place_of(log, position)]).fetchone()
            assert found == (log, position)
