"""Tables as a whole: what would make one larger than every reader of it takes is refused before anything changes; a
store that has more opens, works and can be made smaller; what is due comes out of a full table, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

from broker.engine.engine import Engine
from broker.engine.errors import InvalidValue
from broker.engine.pop.service import RequestMode
from broker.engine.tables.groups import Group
from broker.engine.tables.topics import (
    MOST_ATTRIBUTE_BYTES,
    MOST_QUEUES,
    MOST_QUEUES_TOGETHER,
    Pending,
    Topic,
)
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import open_engine
from tests.engine.pop.popping import GROUP, RETRY, TOPIC, bodies, pop, popping
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


@pytest.mark.parametrize("letter", ["x", "ü", '"'])
def test_a_topic_has_so_many_bytes_of_attributes(letter: str) -> None:
    engine = open_engine().engine
    count = MOST_ATTRIBUTE_BYTES // 16 // len(letter.encode())
    most = {f"a{number:03}": letter * (count - 4 // len(letter.encode())) for number in range(16)}
    engine.topics.put(Topic("orders", 1, 1, attributes=most))
    for more in (most | {"a000": most["a000"] + "x"}, most | {"b": ""}):
        for name in ("orders", "fresh"):
            with pytest.raises(InvalidValue, match=f"attributes of .* bytes; allowed are {MOST_ATTRIBUTE_BYTES:,}"):
                engine.topics.put(Topic(name, 1, 1, attributes=more))
    assert engine.topics.get("orders") == Topic("orders", 1, 1, attributes=most)


def test_attributes_that_another_broker_took_can_be_kept_and_made_fewer() -> None:
    engine = open_engine().engine
    had = {f"a{number}": "x" * 1_000 for number in range(20)}
    engine.topics.restore([Topic("orders", 1, 1, attributes=had)])
    engine.topics.put(Topic("orders", 2, 2, attributes=had))
    fewer = {name: value for name, value in had.items() if name != "a7"}
    engine.topics.put(Topic("orders", 2, 2, attributes=fewer | {"b": "1"}))
    with pytest.raises(InvalidValue):
        engine.topics.put(Topic("orders", 2, 2, attributes=had | {"b": "1"}))


class Table(NamedTuple):
    """A table that can be filled: how a number of its rows is made and taken away, and what the file is called."""

    grow: Callable[[Engine, int], object]
    shrink: Callable[[Engine, int], object]
    same: Callable[[Engine, int], object]
    file: str


def forbid(engine: Engine, number: int, *, is_forbidden: bool = True) -> None:
    engine.groups.ensure("readers")
    engine.groups.forbid("readers", f"{number:0127}", is_forbidden)


LONG = "x" * 1_000
TABLES = {
    "topics": Table(
        lambda engine, number: engine.topics.put(Topic(f"t-{number:04}", 1, 1, attributes={"a": LONG})),
        lambda engine, number: engine.delete_topic(f"t-{number:04}"),
        lambda engine, number: engine.topics.put(Topic(f"t-{number:04}", 2, 2, 4, attributes={"b": LONG})),
        "topics.json",
    ),
    "first messages": Table(
        lambda engine, number: engine.topics.ensure(f"{number:0127}", 4),
        lambda engine, number: engine.delete_topic(f"{number:0127}"),
        lambda engine, number: engine.topics.put(Topic(f"{number:0127}", 5, 5, 4)),
        "topics.json",
    ),
    "groups": Table(
        lambda engine, number: engine.groups.put(Group(f"g-{number:04}", extra={"attributes": {"a": LONG}})),
        lambda engine, number: engine.groups.delete(f"g-{number:04}"),
        lambda engine, number: engine.groups.put(Group(f"g-{number:04}", 11, extra={"attributes": {"b": LONG}})),
        "subscriptionGroup.json",
    ),
    "groups by name": Table(
        lambda engine, number: engine.groups.find(f"{number:0255}", may_make=True),
        lambda engine, number: engine.groups.delete(f"{number:0255}"),
        lambda engine, number: engine.groups.put(Group(f"{number:0255}", retry_max_times=11)),
        "subscriptionGroup.json",
    ),
    "forbidden": Table(
        forbid,
        lambda engine, number: forbid(engine, number, is_forbidden=False),
        lambda engine, number: forbid(engine, number),
        "subscriptionGroup.json",
    ),
    "key-values": Table(
        lambda engine, number: engine.key_values.put("N", f"k-{number:04}", '"' * 500),
        lambda engine, number: engine.key_values.delete("N", f"k-{number:04}"),
        lambda engine, number: engine.key_values.put("N", f"k-{number:04}", "y" * 1_000),
        "kvConfig.json",
    ),
    "modes": Table(
        lambda engine, number: engine.pops.modes.put("g" * 255, f"{number:0127}", RequestMode("POP", 10)),
        lambda _engine, _number: None,
        lambda engine, number: engine.pops.modes.put("g" * 255, f"{number:0127}", RequestMode("POP", 99)),
        "messageRequestMode.json",
    ),
}
SMALL_BYTES = 32_768


@pytest.mark.parametrize("name", TABLES)
def test_a_table_as_a_whole_has_so_many_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.rocketmq.values.MOST_TABLE_BYTES", SMALL_BYTES)
    table, files = TABLES[name], SimulatedFiles()
    engine = open_engine(files).engine
    made = grow_until_refused(engine, table)
    size = len(json.dumps(content(files, table.file), indent=1, sort_keys=True))
    assert SMALL_BYTES * 3 // 4 < size < SMALL_BYTES + 8_192, "what the broker has there itself is little"
    before, kept = tables(engine), content(files, table.file)
    with pytest.raises(InvalidValue, match=f"bytes; allowed are {SMALL_BYTES:,}.* Nothing was changed"):
        table.grow(engine, made)
    assert (tables(engine), content(files, table.file)) == (before, kept)
    table.same(engine, 0)
    # after a start it holds as much and no more
    again = open_engine_again(files)
    with pytest.raises(InvalidValue):
        table.grow(again, made)
    table.same(again, 1)
    if name != "modes":
        table.shrink(again, 2)
        table.grow(again, made)


def grow_until_refused(engine: Engine, table: Table) -> int:
    """Fill a table; return how many rows it took."""
    for number in range(1_000):
        try:
            table.grow(engine, number)
        except InvalidValue:
            return number
    raise AssertionError("it took whatever came")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_holds_more_than_it_may_opens_and_only_growing_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, files = TABLES[name], SimulatedFiles()
    engine = open_engine(files).engine
    for number in range(60):
        table.grow(engine, number)
    monkeypatch.setattr("broker.rocketmq.values.MOST_TABLE_BYTES", 8_192)
    engine = open_engine_again(files)
    with pytest.raises(InvalidValue):
        table.grow(engine, 60)
    table.same(engine, 0)
    if name != "modes":
        for number in range(60):
            table.shrink(engine, number)
        table.grow(engine, 61)


def test_the_rest_of_groups_has_a_reserve_and_what_is_due_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = open_engine()
    engine = driver.engine
    engine.topics.ensure("orders", 1)
    driver.send("orders", b"later", DELAY="1")
    engine.delete_topic("orders")
    monkeypatch.setattr("broker.rocketmq.values.MOST_TABLE_BYTES", SMALL_BYTES)
    grow_until_refused(engine, TABLES["topics"])
    engine.topics.ensure("%RETRY%G", 1)
    engine.topics.ensure("%DLQ%G", 1)
    retry = Table(lambda engine, number: engine.topics.ensure(f"%RETRY%{number:0247}", 1), print, print, "")
    assert SMALL_BYTES // 4 // 1_000 < grow_until_refused(engine, retry) < SMALL_BYTES // 4 // 500
    driver.advance(1_000)
    assert driver.bodies("orders") == [b"later"]


def test_offsets_that_strangers_leave_come_to_an_end_and_known_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.tables.groups.MOST_OFFSETS_BYTES", SMALL_BYTES)
    files = SimulatedFiles()
    driver = open_engine(files)
    offsets = driver.engine.offsets
    rows = Table(lambda engine, number: engine.offsets.commit("G", "T", number, 1), print, print, "")
    made = grow_until_refused(driver.engine, rows)
    assert SMALL_BYTES // 100 < made < SMALL_BYTES // 60
    for refused in (
        lambda: offsets.commit("other", "T", 0, 1),
        lambda: offsets.reset("G", "T", made, 1),
        lambda: offsets.check_room("G", {"T": range(made + 1)}),
    ):
        with pytest.raises(InvalidValue, match=f"bytes; allowed are {SMALL_BYTES:,}.*delete groups"):
            refused()
    assert offsets.get("other", "T", 0) is None
    offsets.commit("G", "T", 0, 1 << 62)
    offsets.check_room("G", {"T": range(made)})
    driver.upkeep()
    again = open_engine_again(files).offsets
    with pytest.raises(InvalidValue):
        again.commit("other", "T", 0, 1)
    again.commit("G", "T", 0, 7)
    again.remove("G")
    again.commit("other", "T", 0, 1)


def test_a_pop_of_a_queue_whose_progress_has_no_room_is_refused_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = popping(messages=40)
    assert bodies(pop(driver, most_messages=1)) == [b"m0"]
    monkeypatch.setattr("broker.engine.tables.groups.MOST_OFFSETS_BYTES", 1)
    with pytest.raises(InvalidValue, match="offsets"):
        pop(driver, group="other")
    assert set(driver.engine.pops.table.queues) == {(GROUP, TOPIC, 0)}
    assert len(pop(driver)) == 32
    driver.advance(30_000)
    assert len(pop(driver)) == 32, "what comes again is known, too"
    driver.upkeep()
    assert (GROUP, RETRY) in driver.engine.offsets.all()


def test_a_topic_in_which_nothing_was_stored_leaves_no_name_behind() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.put(Topic("first", 1, 1))
    kept = set(content(files, FILE))
    for number in range(20):
        driver.engine.topics.put(Topic(f"t-{number}", 1, 1))
        driver.engine.delete_topic(f"t-{number}")
    assert set(content(files, FILE)) == kept
    driver.send("first", b"here")
    driver.engine.delete_topic("first")
    assert set(content(files, FILE)) - kept == {"escapementDeletedTopics"}
    driver.engine.topics.put(Topic("first", 1, 1))
    driver.engine.delete_topic("first")
    assert content(files, FILE)["escapementDeletedTopics"].keys() == {"first"}, "its messages are still in the log"


@pytest.mark.parametrize("pending", [None, "cancel"])
def test_names_of_deleted_topics_come_to_an_end_until_the_log_is_shorter(
    pending: Pending | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    names = [f"{number:0127}" for number in range(300)]
    for name in names:
        driver.engine.topics.ensure(name, 1)
        driver.append(name, b"x")
    driver.settle()
    monkeypatch.setattr("broker.rocketmq.values.MOST_TABLE_BYTES", SMALL_BYTES)
    deleting = Table(lambda engine, number: engine.delete_topic(names[number], pending), print, print, "")
    gone = grow_until_refused(driver.engine, deleting)
    with pytest.raises(InvalidValue, match=r"deleted topics would have .* with the oldest part of the log"):
        driver.engine.delete_topic(names[gone], pending)
    assert SMALL_BYTES // 360 < gone < SMALL_BYTES // 127
    assert driver.bodies(names[gone]) == [b"x"], "it is there as it was"
    assert len(json.dumps(content(files, FILE)["escapementDeletedTopics"])) < SMALL_BYTES
    driver.engine.topics.forget_deleted(1 << 40)
    driver.engine.delete_topic(names[gone], pending)


def test_a_refusal_tells_of_deleted_topics_that_take_room_because_something_waits() -> None:
    driver = open_engine()
    driver.engine.topics.put(Topic("orders", 10, 10))
    driver.send("orders", b"later", DELAY="3")
    driver.engine.delete_topic("orders", "keep")
    fill_with_queues(driver.engine, left=10)
    with pytest.raises(InvalidValue, match=r"with escPending=cancel, those that .*: orders\)"):
        driver.engine.topics.put(Topic("fresh", 1, 1))


def test_what_changed_is_remembered_up_to_a_number_and_who_is_further_behind_is_told_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names of what is gone again, too: a group that comes and goes with its offsets leaves nothing for ever."""
    monkeypatch.setattr("broker.engine.store.MOST_MARKS", 100)
    driver = open_engine()
    engine = driver.engine
    engine.topics.put(Topic("orders", 1, 1))
    first = engine.changes_since("", 1)["token"]
    for number in range(40):
        engine.groups.ensure(f"g-{number}")
        engine.offsets.commit(f"g-{number}", "orders", 0, 1)
    told = engine.changes_since(first, 1)
    assert (told["full"], len(told["groups"]), len(told["offsets"])) == (False, 40, 40)
    for number in range(40):
        engine.offsets.remove(f"g-{number}")
        engine.groups.delete(f"g-{number}")
    told = engine.changes_since(told["token"], 1)
    assert (told["full"], len(told["deletedGroups"])) == (False, 40)
    for number in range(200):
        engine.groups.ensure(f"h-{number}")
    assert len(engine._store.changes) <= 100
    late = engine.changes_since(told["token"], 1)
    assert (late["full"], len(late["groups"]), [topic["topicName"] for topic in late["topics"]][-1]) == (
        True, 200, "orders"
    )  # fmt: skip
    engine.groups.delete("h-7")
    again = engine.changes_since(late["token"], 1)
    assert (again["full"], again["deletedGroups"]) == (False, ["h-7"])
