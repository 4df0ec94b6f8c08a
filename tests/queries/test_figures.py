"""Every figure that DuckDB computes equals a slow count in plain Python over the same log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import duckdb
import pytest

from spark.queries import Answers
from spark.question import SPANS, Question
from tests.house.sources import ROOT
from tests.spark import figures
from tests.spark.figures import OF_APACHE, Line, records_of


def by_duckdb(segments: dict[int, bytes], question: Question, names: Sequence[str]) -> dict[str, list[Line]]:
    with duckdb.connect() as connection:
        connection.register("records", records_of(segments))
        answers = Answers(connection, question)
        return {name: list(answers.ask(name)) for name in names}


@pytest.mark.parametrize("seed", [1, 11, 12])
def test_figures_of_random_logs(seed: int) -> None:
    figures.agree_on_a_random_log(by_duckdb, seed)


@pytest.mark.parametrize("name", OF_APACHE)
def test_figures_of_stores_of_apache_rocketmq(name: str) -> None:
    figures.agree_on_a_store_of_apache(by_duckdb, name)


def test_damage_is_an_alarm_with_its_position() -> None:
    figures.damage_is_named(by_duckdb)


def test_a_timer_delivered_on_somebodys_word_is_early_and_no_measure_of_the_broker() -> None:
    figures.on_request_is_early(by_duckdb)


def test_tries_of_a_group_that_pops_are_those_of_the_group() -> None:
    figures.tries_are_those_of_the_group(by_duckdb)


def test_checks_add_up_beyond_64_bits() -> None:
    figures.checks_add_up_beyond_64_bits(by_duckdb)


def test_spans_have_the_bounds_and_names_that_they_have_everywhere() -> None:
    bounds = [bound for bound, _ in SPANS]
    lengths = [-(1 << 62), *(length for bound in bounds for length in (bound - 1, bound)), None]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE records (position BIGINT)")
        Answers(connection, Question(1))
        rows = connection.execute("SELECT span_of(length) FROM (SELECT unnest($1) AS length)", [lengths]).fetchall()
    expected = [
        None if length is None else next((name for bound, name in SPANS if length < bound), None) for length in lengths
    ]
    assert [name for (name,) in rows] == expected


def test_what_has_no_due_time_is_named() -> None:
    figures.what_has_no_due_time_is_named(by_duckdb)


def test_of_those_that_are_due_next_the_first_is_named() -> None:
    figures.of_those_that_are_due_next_the_first_is_named(by_duckdb)


def test_only_whole_words_of_ops_count_and_the_first() -> None:
    figures.only_whole_words_of_ops_count_and_the_first(by_duckdb)


def test_whoever_computes_so_loads_no_spark() -> None:
    look = "import sys, spark.queries; print(sorted({'pyspark', 'pyarrow', 'django'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
