"""The small tables: a value that cannot be kept is refused before anything changes, and whatever goes wrong while a
change is saved, memory and file say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.engine.engine import Engine
from broker.engine.errors import InvalidGroupName, InvalidMessage, InvalidTopicName, InvalidValue
from broker.engine.pop.service import RequestMode
from broker.engine.tables import json_file
from broker.engine.tables.groups import Group
from broker.engine.tables.topics import MOST_QUEUES, Topic
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import open_engine

CONFIG = "/store/config/"


class Stubborn(SimulatedFiles):
    """A disk on which saving fails in ways of which a disk knows nothing, once armed: at so many-th step."""

    steps = -1
    error: BaseException = RuntimeError("out of the blue")

    def attempt(self, kind: Any, path: str) -> None:
        if self.steps == 0:
            self.steps = -1
            raise self.error
        self.steps -= 1
        super().attempt(kind, path)


def content(files: SimulatedFiles, name: str) -> dict[str, Any]:
    """What a restart would read."""
    file = files.open(CONFIG + name)
    return json_file.parse(file.read(file.size(), 0))


def tables(engine: Engine) -> list[Any]:
    """What all of them say."""
    return [
        {topic.name: topic for topic in engine.topics.all()},
        engine.topics.data_version,
        engine.topics.void_below("bills"),
        engine.topics.is_cancelled("bills", 76),
        {group.name: group.to_json() for group in engine.groups.all()},
        engine.groups.data_version,
        {group: dict(topics) for group, topics in engine.groups.forbidden().items()},
        engine.key_values.all("N"),
        engine.pops.modes.get("billing", "orders"),
        engine.pops.modes.get("billing", "bills"),
    ]


CHANGES: list[Callable[[Engine], object]] = [
    lambda engine: engine.topics.put(Topic("fresh", 1, 1)),
    lambda engine: engine.topics.put_many([Topic("fresh", 1, 1), Topic("orders", 4, 4)]),
    lambda engine: engine.topics.ensure("fresh", 4),
    lambda engine: engine.topics.delete("bills", 77),
    lambda engine: engine.topics.delete("bills", 77, "keep"),
    lambda engine: engine.topics.delete("bills", 77, "cancel"),
    lambda engine: engine.topics.cancel_waiting("bills", 77),
    lambda engine: engine.groups.put(Group("fresh")),
    lambda engine: engine.groups.put_many([Group("fresh"), Group("billing", retry_max_times=3)]),
    lambda engine: engine.groups.ensure("fresh"),
    lambda engine: engine.groups.delete("billing"),
    lambda engine: engine.groups.forbid("billing", "orders", True),
    lambda engine: engine.key_values.put("N", "k", "new"),
    lambda engine: engine.key_values.delete("N", "k"),
    lambda engine: engine.pops.modes.put("billing", "bills", RequestMode("POP")),
]


def prepared(files: SimulatedFiles) -> Engine:
    engine = open_engine(files).engine
    engine.topics.put_many([Topic("orders", 2, 2), Topic("bills", 2, 2)])
    engine.groups.put(Group("billing"))
    engine.key_values.put("N", "k", "v")
    engine.pops.modes.put("billing", "orders", RequestMode("POP"))
    return engine


@pytest.mark.parametrize("error", [RuntimeError("out of the blue"), KeyboardInterrupt(), OSError(5, "I/O error")])
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_memory_and_file_say_the_same_whatever_fails(number: int, error: BaseException) -> None:
    step, is_done = 0, False
    while not is_done:
        files = Stubborn()
        engine = prepared(files)
        before = tables(engine)
        files.error, files.steps = error, step
        try:
            CHANGES[number](engine)
        except type(error):
            assert tables(engine) == before, f"step {step}"
        else:
            is_done = files.steps >= 0
            assert tables(engine) != before
        files.steps = -1
        # the next change is none of the failed one's business, and takes nothing of it along
        expected = tables(engine)
        engine.topics.put(Topic("next", 1, 1))
        engine.groups.put(Group("next"))
        engine.key_values.put("M", "k", "v")
        engine.pops.modes.put("next", "next", RequestMode("PULL"))
        engine.topics.delete("next", 0)
        engine.groups.delete("next")
        again = open_engine_again(files)
        assert [one for one in tables(again) if type(one) is not int] == [
            one for one in expected if type(one) is not int
        ], f"step {step}"
        step += 1
    assert step > 1, "nothing was made to fail"


def open_engine_again(files: SimulatedFiles) -> Engine:
    """What a new start reads: the tables alone, of a copy."""
    copy = SimulatedFiles()
    copy.load(files.contents())
    return open_engine(copy).engine


@pytest.mark.parametrize("error", [OSError(24, "Too many open files")])
def test_a_folder_that_is_not_synced_leaves_the_file_as_memory_is(error: OSError) -> None:
    class Unsynced(SimulatedFiles):
        is_armed = False

        def sync_directory(self, path: str) -> None:
            if self.is_armed:
                raise error
            super().sync_directory(path)

    files = Unsynced()
    engine = prepared(files)
    files.is_armed = True
    with pytest.raises(OSError):
        engine.topics.put(Topic("fresh", 1, 1))
    files.is_armed = False
    assert engine.topics.get("fresh") is None
    assert "fresh" not in content(files, "topics.json")["topicConfigTable"]


BAD_TEXTS = ["\0", "a\nb", "\x1b[31m", "\x85", "\ud800", "\udcff", "x" * 100_000]
BAD_TOPICS: list[Topic] = [
    *(Topic("fresh", 1, 1, attributes={text: "1"}) for text in ["", *BAD_TEXTS]),
    *(Topic("fresh", 1, 1, attributes={"x": text}) for text in BAD_TEXTS),
    *(Topic("fresh", 1, 1, filter_type=text) for text in ["", "X" * 33, "single_tag", *BAD_TEXTS]),
    *(Topic(text, 1, 1) for text in ["", "a b", "x" * 128, *BAD_TEXTS]),
    *(Topic("fresh", count, 1) for count in (0, -1, MOST_QUEUES + 1, 1 << 70)),
    *(Topic("fresh", 1, count) for count in (0, -1, MOST_QUEUES + 1, 1 << 70)),
    *(Topic("fresh", 1, 1, permission=value) for value in (-1, 8, 1 << 70)),
    *(Topic("fresh", 1, 1, system_flag=value) for value in (-1, 1 << 31)),
    Topic("fresh", 1, 1, attributes={f"name{number}": "1" for number in range(65)}),
]


@pytest.mark.parametrize("topic", BAD_TOPICS, ids=repr)
def test_a_topic_that_cannot_be_kept_is_refused(topic: Topic) -> None:
    files = SimulatedFiles()
    engine = prepared(files)
    before = tables(engine)
    with pytest.raises((InvalidTopicName, InvalidValue)):
        engine.topics.put_many([Topic("good", 1, 1), topic])
    assert tables(engine) == before
    assert "good" not in content(files, "topics.json")["topicConfigTable"]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD_GROUPS: list[Group] = [
    *(Group(text) for text in ["", "a b", "x" * 256, *BAD_TEXTS]),
    *(Group("fresh", retry_max_times=value) for value in (-2, 1 << 31)),
    *(Group("fresh", retry_queues=value) for value in (-1, MOST_QUEUES + 1, 1 << 40)),
    *(Group("fresh", consume_timeout_minute=value) for value in (-1, 1 << 31)),
    *(Group("fresh", broker_id=value) for value in (-1, 1 << 63)),
    *(Group("fresh", which_broker_when_consume_slowly=value) for value in (-1, 1 << 63)),
    *(Group("fresh", extra={"attributes": {"+x": text}}) for text in BAD_TEXTS if text != "a\nb"),
    *(Group("fresh", extra={text: "x"}) for text in BAD_TEXTS),
    Group("fresh", extra={"x": 1 << 64}),
    Group("fresh", extra={"x": float("nan")}),
    Group("fresh", extra={"x": deep(40)}),
    Group("fresh", extra={"x": ["y" * 4000] * 20}),
    Group("fresh", extra={f"x{number}": 1 for number in range(65)}),
]


@pytest.mark.parametrize("group", BAD_GROUPS, ids=repr)
def test_a_group_that_cannot_be_kept_is_refused(group: Group) -> None:
    files = SimulatedFiles()
    engine = prepared(files)
    before = tables(engine)
    with pytest.raises((InvalidGroupName, InvalidValue)):
        engine.groups.put_many([Group("good"), group])
    assert tables(engine) == before
    assert "good" not in content(files, "subscriptionGroup.json")["subscriptionGroupTable"]


def test_other_tables_refuse_alike() -> None:
    engine = prepared(SimulatedFiles())
    before = tables(engine)
    for text in BAD_TEXTS:
        refused: list[Callable[[], object]] = [
            lambda text=text: engine.groups.forbid("billing", text, True),
            lambda text=text: engine.pops.modes.put(text, "orders", RequestMode("POP")),
            lambda text=text: engine.pops.modes.put("billing", text, RequestMode("POP")),
            lambda text=text: engine.pops.modes.put("billing", "orders", RequestMode(text)),
            lambda text=text: engine.offsets.commit(text, "orders", 0, 1),
            lambda text=text: engine.offsets.commit("billing", text, 0, 1),
        ]
        for call in refused:
            with pytest.raises(InvalidMessage):
                call()
    assert tables(engine) == before
    assert engine.offsets.all() == {}


ODD: dict[str, Any] = {
    "topicName": "odd", "readQueueNums": 20_000, "writeQueueNums": 20_000, "perm": 15, "topicFilterType": "X" * 40,
    "topicSysFlag": -1, "order": False, "attributes": {"a\0b": "\ud800", "long": "y" * 5_000},
}  # fmt: skip
ODD_GROUP: dict[str, Any] = {
    "groupName": "odd", "retryMaxTimes": -5, "retryQueueNums": 99_999, "brokerId": -1, "deep": deep(100),
    "text": "a\0\udfff",
}  # fmt: skip


def test_what_other_brokers_wrote_is_read_and_can_be_saved_and_changed() -> None:
    files = SimulatedFiles()
    prepared(files)
    store = SimulatedFiles()
    kept = dict(files.contents())
    for name, table, row in (
        ("topics.json", "topicConfigTable", ODD), ("subscriptionGroup.json", "subscriptionGroupTable", ODD_GROUP),
    ):  # fmt: skip
        value = content(files, name)
        value[table]["odd"] = row
        kept[CONFIG + name] = json.dumps(value).encode()
    store.load(kept)
    engine = open_engine(store).engine
    odd, group = engine.topics.get("odd"), engine.groups.get("odd")
    assert odd is not None
    assert (odd.read_queues, odd.filter_type, odd.attributes["a\0b"]) == (20_000, "X" * 40, "�")
    assert group is not None
    assert group.extra["text"] == "a\0�"
    engine.topics.put(Topic("odd", 20_000, 20_000, 6, "X" * 40, -1, False, {**odd.attributes, "message.type": "DELAY"}))
    engine.groups.put(Group("odd", -5, 99_999, broker_id=-1, consume_enable=False, extra=group.extra))
    again = open_engine_again(store)
    assert again.topics.get("odd") == engine.topics.get("odd")
    saved, changed = again.groups.get("odd"), engine.groups.get("odd")
    assert saved is not None
    assert changed is not None
    assert saved.to_json() == changed.to_json()


def test_a_topic_made_on_its_way_gets_no_more_queues_than_one_may_have() -> None:
    engine = prepared(SimulatedFiles())
    assert engine.topics.ensure("fresh", 1 << 31).read_queues == MOST_QUEUES
