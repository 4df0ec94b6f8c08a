"""R20: stores that Apache RocketMQ wrote open here, with every message readable and every pending delay still due."""

from __future__ import annotations

import zlib

import pytest

from broker.engine.disk import OsFiles
from broker.engine.errors import StoreUnsupported
from broker.engine.testing import ManualClock
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import decode
from broker.rocketmq.topics import SCHEDULE_TOPIC

from . import golden

STORES = list(golden.folders())


def opened(store: golden.Golden) -> Driver:
    """The store, opened at the moment its broker was stopped."""
    clock = ManualClock(store.manifest["endedMs"])
    return open_engine(store.disk(), clock=clock, keep_unconsumed=True, **store.config)


@pytest.mark.parametrize("name", STORES)
def test_every_acknowledged_message_is_readable_byte_for_byte(name):
    store = golden.load(name)
    driver = opened(store)
    assert driver.engine.health().state == "OK"
    for entry in store.sent:
        message = decode(driver.engine.record_at(golden.position_of(entry)))
        assert message.offset_message_id == entry["offsetMsgId"]
        if not message.sys_flag & 1:
            assert message.body == golden.body_of(entry)
        elif message.sys_flag >> 8 & 7 in (0, 3):
            assert zlib.decompress(message.body) == golden.body_of(entry)
        assert message.unique_key == entry["msgId"].split(",")[0]
        assert (message.properties.get("REAL_TOPIC") or message.topic) == entry["topic"]
        assert message.flag == entry["flag"]
        wanted = {name: text for name, text in entry["properties"].items() if name != "DELAY"}
        assert wanted.items() <= message.properties.items()


@pytest.mark.parametrize("name", STORES)
def test_queues_have_the_bounds_the_broker_reported_and_hold_what_was_consumed(name):
    store = golden.load(name)
    driver = opened(store)
    for topic, queues in store.manifest.get("queueMinMaxOffset", {}).items():
        for queue_id, bounds in queues.items():
            low, high = driver.engine.queue_bounds(topic, int(queue_id))
            if "TRANS" in topic:
                high = min(high, bounds[1])  # checks went on between the report and the stop
            assert [low, high] == bounds, (topic, queue_id)
    for seen in store.manifest["seen"]:
        message = decode(driver.engine.record_at(seen["commitLogOffset"]))
        assert message.unique_key == seen["msgId"]
        assert (message.born_ms, message.store_ms) == (seen["bornTimestamp"], seen["storeTimestamp"])
        entries = driver.engine.entries(message.topic, message.queue_id, message.queue_offset, 1)
        assert entries[0].position == seen["commitLogOffset"]


@pytest.mark.parametrize("name", STORES)
def test_groups_continue_where_they_were(name):
    store = golden.load(name)
    driver = opened(store)
    for group, places in store.manifest.get("groupOffsets", {}).items():
        for place, (consumer, _) in places.items():
            topic, _, queue_id = place.rpartition("/")
            assert driver.engine.offsets.get(group, topic, int(queue_id)) == consumer, (group, place)


@pytest.mark.parametrize("name", STORES)
def test_every_key_leads_to_its_message(name):
    store = golden.load(name)
    driver = opened(store)
    for entry in store.sent:
        position = golden.position_of(entry)
        message = decode(driver.engine.record_at(position))
        for key in {entry["msgId"].split(",")[0], *message.keys}:
            found = driver.engine.find(
                message.topic, key, begin_ms=0, end_ms=1 << 50, max_count=200, now_ms=driver.clock.now_ms
            )
            assert position in found, (key, entry["n"])


@pytest.mark.parametrize("name", STORES)
def test_pending_delays_are_released_at_their_moment_and_none_twice(name):
    store = golden.load(name)
    driver = opened(store)
    clock = driver.clock
    pending = {}
    for status in driver.engine.schedule.status(clock.now_ms):
        entries = driver.engine.entries(SCHEDULE_TOPIC, status.number - 1, status.offset, 10_000)
        for entry in entries:
            parked = decode(driver.engine.record_at(entry.position))
            assert entry.tags_code == parked.store_ms + status.delay_ms
            pending[entry.position] = (parked, max(entry.tags_code, clock.now_ms))
        if entries:
            assert status.next_due_ms == entries[0].tags_code
    places = {(parked.properties["REAL_TOPIC"], int(parked.properties["REAL_QID"])) for parked, _ in pending.values()}
    before = {place: driver.engine.queue_bounds(*place)[1] for place in places}
    driver.advance(2 * 3_600_000 + 1)
    released = {}
    for place in places:
        for offset, message in driver.readable(*place).items():
            if offset >= before[place]:
                released[int(message.properties["ESC_SOURCE"])] = message
    assert released.keys() == pending.keys()
    for position, (parked, due_ms) in pending.items():
        assert released[position].body == parked.body
        assert released[position].store_ms == due_ms
        assert released[position].born_ms == parked.born_ms


def test_the_parked_messages_of_the_golden_stores_are_what_their_notes_say():
    """Levels 5, 9, 17, 18 and 30 were pending when the broker stopped; level 30 is kept as 18."""
    driver = opened(golden.load("delay_levels"))
    pending = {s.number: s.max_offset - s.offset for s in driver.engine.schedule.status(driver.clock.now_ms)}
    assert {level: count for level, count in pending.items() if count} == {5: 4, 9: 1, 18: 4}


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_continued_and_still_sound_on_a_real_disk(name, tmp_path):
    store = golden.load(name)
    for path, content in store.files.items():
        target = tmp_path / path.removeprefix("/store/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    clock = ManualClock(store.manifest["endedMs"])
    for number in range(3):
        driver = open_engine(OsFiles(), clock=clock, root=str(tmp_path), **store.config)
        driver.engine.topics.ensure("Continued", 1)
        driver.send("Continued", b"%d" % number)
        assert driver.bodies("Continued") == [b"%d" % before for before in range(number + 1)]
        for entry in store.sent:
            driver.engine.record_at(golden.position_of(entry))
        driver.close()


@pytest.mark.parametrize("field", ["segment_size_bytes", "queue_file_entries"])
def test_other_sizes_than_the_stores_own_are_refused_and_nothing_is_changed(field):
    store = golden.load("plain")
    disk = store.disk()
    config = {**store.config, field: store.config[field] * 2}
    with pytest.raises(StoreUnsupported):
        open_engine(disk, **config)
    unchanged = {path: content for path, content in disk.contents().items() if path in store.files}
    assert unchanged == {path: store.files[path] for path in sorted(store.files)}
