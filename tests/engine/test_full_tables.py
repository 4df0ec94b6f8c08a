"""Tables as a whole: what would make one larger than every reader of it takes is refused before anything changes; a
store that has more opens, works and can be made smaller; what is due comes out of a full table, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.engine.engine import Engine
from broker.engine.errors import InvalidValue
from broker.engine.store.topics import MOST_QUEUES, MOST_QUEUES_TOGETHER, Topic
from broker.engine.testing.driver import open_engine
from broker.engine.testing.simulated import SimulatedFiles
from tests.engine.pop.popping import RETRY, bodies, pop, popping
from tests.engine.test_tables import content, open_engine_again, tables

FILE = "topics.json"
LARGEST = [Topic(f"large-{number}", MOST_QUEUES, MOST_QUEUES) for number in range(8)]


def queues_of(engine: Engine) -> int:
    return sum(max(topic.read_queues, topic.write_queues) for topic in engine.topics.all())


def fill_with_queues(engine: Engine, left: int = 0) -> None:
    """Leave room for so many more queues of topics."""
    number = 0
    while (count := min(MOST_QUEUES_TOGETHER - left - queues_of(engine), MOST_QUEUES)) > 0:
        engine.topics.put(Topic(f"filler-{number}", 1, count))
        number += 1


GROWING: list[Callable[[Engine], object]] = [
    lambda engine: engine.topics.put_many(LARGEST),
    lambda engine: engine.topics.put_many([Topic("small", 1, 1), LARGEST[0]]),
    lambda engine: engine.topics.put(Topic("fresh", 1, 11)),
    lambda engine: engine.topics.put(Topic("fresh", 11, 1)),
    lambda engine: engine.topics.put(Topic("orders", 12, 12)),
    lambda engine: engine.topics.put_many([Topic("fresh", 6, 6), Topic("other", 5, 5)]),
    lambda engine: engine.topics.ensure("fresh", 11),
    lambda engine: engine.topics.put_many([Topic("%RETRY%G", 1, 1), Topic("fresh", 11, 11)]),
]


@pytest.mark.parametrize("grow", GROWING)
def test_all_topics_together_have_so_many_queues(grow: Callable[[Engine], object]) -> None:
    files = SimulatedFiles()
    engine = open_engine(files).engine
    engine.topics.put(Topic("orders", 1, 1))
    fill_with_queues(engine, left=10)
    before, kept = tables(engine), content(files, FILE)
    with pytest.raises(InvalidValue, match=f"allowed are {MOST_QUEUES_TOGETHER:,}.*delete topics") as refusal:
        grow(engine)
    assert "Nothing was changed" in str(refusal.value)
    assert (tables(engine), content(files, FILE)) == (before, kept)
    engine.topics.put_many([Topic("fresh", 5, 5), Topic("fresh", 10, 10), Topic("orders", 1, 1, permission=4)])
    assert queues_of(engine) == MOST_QUEUES_TOGETHER


def test_a_deleted_topic_makes_room_and_one_that_comes_back_takes_it() -> None:
    engine = open_engine().engine
    engine.topics.put(Topic("orders", 10, 10))
    fill_with_queues(engine)
    engine.topics.delete("orders", 1, "keep")
    with pytest.raises(InvalidValue):
        engine.topics.put(Topic("fresh", 1, 1))
    assert engine.topics.ensure("orders", 4).read_queues == 10, "its place was kept"
    engine.topics.delete("orders", 2, "keep")
    engine.topics.cancel_waiting("orders", 3)
    engine.topics.put(Topic("fresh", 10, 10))
    engine.topics.delete("fresh", 4)
    engine.topics.put(Topic("other", 10, 10))


def test_a_store_with_more_opens_works_and_can_be_made_smaller() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.restore(LARGEST)
    driver.close()
    engine = open_engine_again(files)
    assert queues_of(engine) > MOST_QUEUES_TOGETHER
    for grown in (Topic("fresh", 1, 1), Topic("BenchmarkTest", 1, 1025)):
        with pytest.raises(InvalidValue):
            engine.topics.put(grown)
    engine.topics.put(Topic("large-0", MOST_QUEUES, MOST_QUEUES, permission=4))
    engine.topics.put_many([Topic(topic.name, 1, 1) for topic in LARGEST])
    engine.topics.put(Topic("fresh", 1, 1))
    again = open_engine(files).engine
    again.topics.put_many([Topic(topic.name, 1, 1) for topic in LARGEST])
    fill_with_queues(again)
    assert queues_of(again) == MOST_QUEUES_TOGETHER


def test_where_no_more_topics_are_made_groups_still_get_theirs() -> None:
    engine = open_engine().engine
    fill_with_queues(engine)
    engine.topics.ensure("%RETRY%G", 1)
    engine.topics.put_many([Topic("%DLQ%G", 1, 1), Topic("%RETRY%H", 8, 8)])
    reserve = MOST_QUEUES_TOGETHER // 4
    engine.topics.put(Topic("%RETRY%I", reserve - 20, 1))
    with pytest.raises(InvalidValue):
        engine.topics.put(Topic("%RETRY%J", 11, 1))
    engine.topics.put(Topic("%RETRY%J", 10, 1))
    with pytest.raises(InvalidValue):
        engine.topics.ensure("%DLQ%I", 1)


def test_what_waited_for_a_topic_comes_out_of_a_full_table() -> None:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"later", DELAY="1")
    driver.engine.delete_topic("orders")
    fill_with_queues(driver.engine)
    driver.advance(1_000)
    assert driver.bodies("orders") == [b"later"]


def test_what_was_popped_comes_again_though_there_is_no_room_and_a_pop_that_would_need_some_is_refused() -> None:
    driver = popping(messages=2)
    assert bodies(pop(driver, most_messages=1)) == [b"m0"]
    fill_with_queues(driver.engine)
    driver.engine.topics.put(Topic("%RETRY%other", MOST_QUEUES_TOGETHER // 8, 1))
    driver.engine.topics.put(Topic("%RETRY%another", MOST_QUEUES_TOGETHER // 8, 1))
    with pytest.raises(InvalidValue, match="queues"):
        pop(driver)
    driver.advance(30_000)
    assert driver.bodies(RETRY) == [b"m0"]
    assert sorted(bodies(pop(driver))) == [b"m0", b"m1"], "its retry topic is there: nothing more is needed"
