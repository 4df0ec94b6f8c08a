"""Faults that the campaigns found once, each in its smallest form."""

from __future__ import annotations

from broker.engine.fsck.store import check_store
from broker.engine.testing import Fault, PowerLoss, SimulatedFiles, open_engine


def test_a_lost_release_is_made_again_although_a_later_one_of_the_same_write_survived():
    """Two messages of a level are released in one write of which a power loss takes only the first."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.append("orders", b"first" * 200, DELAY="1")
    driver.append("orders", b"second", DELAY="1")
    driver.settle()
    _, log_end = driver.engine.queue_bounds("SCHEDULE_TOPIC_XXXX", 0)
    assert log_end == 2
    driver.clock.advance(1_000)
    driver.engine.tick(driver.clock.now_ms)
    position = driver.engine.health().log_end_position
    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None
    job.run()
    path = "/store/commitlog/00000000000000000000"
    content = files.contents()[path]
    survived = content[:position] + bytes(1_100) + content[position + 1_100 :]
    disk = files.crash(PowerLoss("kill"))
    disk.replace(path, survived)
    after = open_engine(disk, clock=driver.clock)
    assert b"second" in after.bodies("orders"), "the second release is there"
    after.advance(1_000)
    assert sorted(after.bodies("orders")) == [b"first" * 200, b"second"]
    assert after.engine.schedule.state() == {"1": 2}
    after.upkeep()
    again = open_engine(disk.crash(PowerLoss("kill")), clock=driver.clock)
    again.advance(5_000)
    assert sorted(again.bodies("orders")) == [b"first" * 200, b"second"]


def test_a_key_is_found_after_the_clock_was_set_back():
    driver = open_engine()
    driver.engine.topics.ensure("orders", 1)
    ticket = driver.send("orders", b"x", KEYS="invoice-7")
    driver.clock.advance(-3_600_000)
    now_ms = driver.clock.now_ms
    found = driver.engine.find("orders", "invoice-7", begin_ms=0, end_ms=1 << 50, max_count=5, now_ms=now_ms)
    assert found == [ticket.position]


def test_a_topic_made_again_after_a_crash_does_not_find_its_older_lifes_messages():
    """Deleting a topic removes its queues, but a power loss may bring their folder back."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"older life")
    driver.clock.advance(10_000)
    driver.upkeep()
    driver.engine.delete_topic("orders")
    driver.engine.topics.ensure("orders", 1)
    after = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    assert after.bodies("orders") == []
    assert after.send("orders", b"new life").queue_offset == 0
    assert after.bodies("orders") == [b"new life"]


def test_a_topic_made_again_stays_empty_when_the_queues_are_built_from_the_log():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"older life")
    driver.engine.delete_topic("orders")
    driver.engine.topics.ensure("orders", 1)
    after = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    assert after.bodies("orders") == []
    after.send("orders", b"new life")
    again = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    assert again.bodies("orders") == []


def test_what_was_released_to_a_topic_deleted_since_is_not_released_again():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"delayed", DELAY="1")
    driver.advance(1_000)
    assert driver.bodies("orders") == [b"delayed"]
    driver.engine.delete_topic("orders")
    after = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    after.advance(10_000)
    assert after.engine.topics.get("orders") is None


def test_a_topic_that_only_the_damaged_version_of_the_table_knew_keeps_its_queues():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    driver.close()
    files.replace("/store/config/topics.json", b"{rot")
    for _ in range(2):
        driver = open_engine(files)
        assert driver.bodies("orders") == [b"kept"]
        assert driver.engine.topics.get("orders") is not None
        driver.close()


def test_a_queue_whose_messages_all_expired_goes_on_counting_after_a_restart():
    """Else a consumer that has come to offset 8 never sees the next eight messages."""
    files = SimulatedFiles()
    driver = open_engine(files, retention_hours=1)
    for topic in ("idle", "busy"):
        driver.engine.topics.ensure(topic, 1)
    for number in range(8):
        driver.send("idle", b"%d" % number)
    driver.clock.advance(20_000)
    driver.upkeep()
    for _ in range(20):
        driver.send("busy", b"x" * 1_500)
    driver.clock.advance(2 * 3_600_000)
    driver.send("busy", b"x" * 1_500)
    for _ in range(5):
        driver.clock.advance(20_000)
        driver.upkeep()
    assert driver.engine.queue_bounds("idle", 0) == (8, 8)
    after = open_engine(files.crash(PowerLoss("kill")), clock=driver.clock)
    assert after.engine.queue_bounds("idle", 0) == (8, 8)
    driver.close()
    again = open_engine(files, clock=driver.clock)
    assert again.engine.queue_bounds("idle", 0) == (8, 8)
    assert again.send("idle", b"next").queue_offset == 8


def test_damage_to_the_last_records_of_a_cleanly_stopped_store_frees_neither_their_place_nor_their_offsets():
    """Taken for an unfinished end, they would be cut off and their offsets given to other messages."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    damaged = driver.send("orders", b"damaged")
    driver.close()
    files.flip("/store/commitlog/00000000000000000000", 8 * (damaged.position + 120))
    after = open_engine(files)
    assert len(after.engine.pull("orders", 0, 0, 10, 10_000).records) == 1
    found = after.engine.health().damaged
    assert [(place.start, place.end) for place in found] == [(damaged.position, damaged.position + damaged.size)]
    assert after.send("orders", b"next").queue_offset == 2
    assert after.bodies("orders") == [b"kept", b"next"]


def test_a_damaged_queue_entry_is_put_right_from_the_log():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    for number in range(20):
        driver.send("orders", b"%d" % number)
    driver.close()
    path = "/store/consumequeue/orders/0/00000000000000000160"
    sound = files.contents()[path]
    files.replace(path, sound[:40] + bytes(60) + sound[100:])
    after = open_engine(files)
    pulled = after.engine.pull("orders", 0, 0, 32, 1 << 20)
    assert len(pulled.records) == 20
    assert after.engine.health().state == "OK"
    assert files.contents()[path] == sound


def test_a_parked_message_whose_queue_entry_is_damaged_is_released_and_not_early():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    ticket = driver.send("orders", b"parked", DELAY="3")
    driver.close()
    path = "/store/consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000"
    files.replace(path, bytes(len(files.contents()[path])))
    after = open_engine(files, clock=driver.clock)
    after.advance(9_999)
    assert after.bodies("orders") == []
    after.advance(10)
    released = after.readable("orders")[0]
    assert (released.body, released.store_ms) == (b"parked", ticket.due_ms)


def test_the_checkpoint_does_not_vouch_for_the_index_of_messages_still_under_way():
    """Else recovery indexes them again, or leaves keys of messages that never were."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"durable", KEYS="a")
    driver.append("orders", b"under way", KEYS="b")
    driver.clock.advance(10_000)
    driver.upkeep()
    for loss in (PowerLoss("all"), PowerLoss("kill")):
        disk = files.crash(loss)
        after = open_engine(disk, clock=driver.clock)
        after.send("orders", b"next", KEYS="c")
        after.close()
        assert check_store(disk, "/store").damages == []
    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None
    job.run()
    disk = files.crash(PowerLoss("kill"))
    open_engine(disk, clock=driver.clock).close()
    assert check_store(disk, "/store").damages == []


def test_zeroing_the_end_of_the_log_never_changes_a_segment_s_size():
    """Cut and grown again, a segment was short when the power went in between, and the store did not open any more."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    position = driver.engine.health().log_end_position
    path = "/store/commitlog/00000000000000000000"
    disk = files.crash(PowerLoss("kill"))
    content = disk.contents()[path]
    disk.replace(path, content[:position] + b"torn" * 50 + content[position + 200 :])
    disk.fail(
        Fault("truncate", path_part="commitlog", forever=True), Fault("allocate", path_part="commitlog", forever=True)
    )
    after = open_engine(disk)
    assert after.bodies("orders") == [b"kept"]
    assert disk.contents()[path][position:] == bytes(len(content) - position)


def test_a_message_lost_before_a_restored_segment_end_leaves_a_filler_in_its_queue():
    """Its zeros look like a segment that ended there: the gap in the queue must lead nowhere."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    tickets = [driver.send("orders", b"%02d" % number + b"x" * 500) for number in range(12)]
    second = next(index for index, ticket in enumerate(tickets) if ticket.position >= 4096)
    lost = tickets[second - 1]
    path = "/store/commitlog/00000000000000000000"
    disk = files.crash(PowerLoss("kill"))
    disk.replace(path, disk.contents()[path][: lost.position] + bytes(4096 - lost.position))
    for name in ("escapement.checkpoint", "abort"):
        disk.remove(f"/store/{name}")
    disk.remove_directory("/store/consumequeue")
    after = open_engine(disk, clock=driver.clock)
    expected = [b"%02d" % number + b"x" * 500 for number in range(12) if number != second - 1]
    assert after.bodies("orders") == expected
    pulled = after.engine.pull("orders", 0, 0, 32, 1 << 20)
    assert (len(pulled.records), pulled.next_offset) == (11, 12)
    assert after.engine.health().damaged == ()
    after.close()
    assert check_store(disk, "/store").damages == []


def test_a_release_known_from_the_log_is_not_made_again_when_those_before_it_were():
    """Of three releases in one write only the last survived; the clock was set back, so its turn comes later again."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    start_ms = driver.clock.now_ms
    for number in range(3):
        driver.send("orders", b"%d" % number + b"x" * 300, DELAY="1")
        driver.clock.advance(300)
    driver.clock.advance(2_000)
    position = driver.engine.health().log_end_position
    driver.engine.tick(driver.clock.now_ms)
    driver.settle()
    third = driver.engine.entries("orders", 0, 2, 1)[0].position
    path = f"/store/commitlog/{0:020d}"
    disk = files.crash(PowerLoss("kill"))
    content = disk.contents()[path]
    assert third < len(content)
    disk.replace(path, content[:position] + bytes(third - position) + content[third:])
    driver.clock.now_ms = start_ms + 1_300
    after = open_engine(disk, clock=driver.clock)
    after.tick()
    after.advance(5_000)
    assert sorted(body[:1] for body in after.bodies("orders")) == [b"0", b"1", b"2"]


def test_a_client_cannot_make_recovery_believe_that_a_parked_message_went_out():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    parked = driver.append("orders", b"parked", DELAY="3")
    driver.append("orders", b"forged", ESC_SOURCE=str(parked.position), KEYS="k")
    driver.settle()
    after = open_engine(files.crash(PowerLoss("kill")), clock=driver.clock)
    after.advance(10_000)
    assert after.bodies("orders") == [b"forged", b"parked"]
    forged = after.readable("orders")[0]
    assert "ESC_SOURCE" not in forged.properties
