"""Every figure that Spark computes equals a slow count in plain Python over the same log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from spark.jobs import JOBS
from spark.queries import NAMES
from spark.question import Question
from spark.view import View, view_of
from tests.spark import figures
from tests.spark.figures import OF_APACHE, Ask, Line, records_of


def view(session: SparkSession, segments: dict[int, bytes]) -> View:
    return view_of(session.createDataFrame(records_of(segments)).coalesce(1)).keep()


@pytest.fixture
def ask(session: SparkSession) -> Ask:
    """Spark computes."""

    def by_spark(segments: dict[int, bytes], question: Question, names: Sequence[str]) -> dict[str, list[Line]]:
        frames = view(session, segments)
        found = {name: [tuple(row) for row in JOBS[name](frames, question).collect()] for name in names}
        frames.drop()
        return found

    return by_spark


def test_figures_of_random_logs(ask: Ask) -> None:
    figures.agree_on_a_random_log(ask)


@pytest.mark.parametrize("name", OF_APACHE)
def test_figures_of_stores_of_apache_rocketmq(ask: Ask, name: str) -> None:
    figures.agree_on_a_store_of_apache(ask, name)


def test_damage_is_an_alarm_with_its_position(ask: Ask) -> None:
    figures.damage_is_named(ask)


def test_a_timer_delivered_on_somebodys_word_is_early_and_no_measure_of_the_broker(ask: Ask) -> None:
    figures.on_request_is_early(ask)


def test_tries_of_a_group_that_pops_are_those_of_the_group(ask: Ask) -> None:
    figures.tries_are_those_of_the_group(ask)


def test_checks_add_up_beyond_64_bits(ask: Ask) -> None:
    figures.checks_add_up_beyond_64_bits(ask)


def test_dashboards_have_the_same_names_in_both_engines() -> None:
    assert tuple(JOBS) == NAMES


def test_what_has_no_due_time_is_named(ask: Ask) -> None:
    figures.what_has_no_due_time_is_named(ask)


def test_of_those_that_are_due_next_the_first_is_named(ask: Ask) -> None:
    figures.of_those_that_are_due_next_the_first_is_named(ask)


def test_only_whole_words_of_ops_count_and_the_first(ask: Ask) -> None:
    figures.only_whole_words_of_ops_count_and_the_first(ask)
