"""Faults that others had with their files: what was acknowledged and lost, believed and wrong, deleted by a guess."""

from __future__ import annotations

import pytest

from broker.engine.config import EngineConfig
from broker.engine.errors import InvalidTopicName, StoreFailed, TopicNotFound
from broker.engine.testing import Fault, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.topics import SCHEDULE_TOPIC

LOG = "/store/commitlog/00000000000000000000"


def opened(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def every_disk(files: SimulatedFiles) -> list[tuple[str, SimulatedFiles]]:
    """The disks that a stop may leave: a kill, a power loss, and eight in which parts of what was written survive."""
    losses = [PowerLoss("kill"), PowerLoss("all"), *(PowerLoss("random", seed) for seed in range(8))]
    return [(f"{loss.kind} {loss.seed}", files.crash(loss)) for loss in losses]


def test_what_was_not_put_into_queues_before_a_kill_is_put_there_afterwards() -> None:
    """https://github.com/apache/rocketmq/issues/467"""
    files = SimulatedFiles()
    driver = opened(files)
    for number in range(30):
        driver.append("orders", b"%d" % number)
        if number % 3 == 2:
            job = driver.engine.take_sync(driver.clock.now_ms)
            assert job is not None
            job.run()  # on disk; the process ends before it is told so, and puts nothing into the queue
            if number < 20:
                driver.engine.synced(job, None, driver.clock.now_ms)
            else:
                break
    again = opened(files.crash(PowerLoss("kill")), clock=driver.clock)
    assert again.bodies("orders") == [b"%d" % n for n in range(number + 1)]
    pulled = again.engine.pull("orders", 0, 0, 99, 1 << 20)
    assert (len(pulled.records), pulled.next_offset) == (number + 1, number + 1)
    assert again.send("orders", b"next").queue_offset == number + 1


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_checkpoint_vouches_for_no_queue_that_could_not_be_written(kind: str) -> None:
    """https://github.com/apache/rocketmq/issues/678"""
    for nth in (1, 2, 3):
        files = SimulatedFiles()
        driver = opened(files)
        for number in range(20):
            driver.send("orders", b"%d" % number, KEYS=f"k{number}")
        files.fail(Fault(kind, nth=nth, path_part="consumequeue"))  # type: ignore[arg-type]  # one of the kinds
        driver.clock.advance(6_000)
        driver.upkeep()
        files.fail()
        for name, disk in every_disk(files):
            again = opened(disk, clock=driver.clock)
            assert again.bodies("orders") == [b"%d" % number for number in range(20)], name


def test_a_flush_that_failed_is_not_made_good_by_the_next_one() -> None:
    """https://github.com/apache/rocketmq/issues/9713"""
    files = SimulatedFiles()
    driver = opened(files)
    driver.send("orders", b"kept")
    files.fail(Fault("sync", path_part="commitlog"))  # the next one would succeed
    driver.append("orders", b"lost")
    assert driver.flush() == []
    assert driver.bodies("orders") == [b"kept"]
    with pytest.raises(StoreFailed):
        driver.append("orders", b"more")
    assert driver.flush() is None
    again = opened(files.crash(PowerLoss("all")), clock=driver.clock)
    assert again.bodies("orders") == [b"kept"]


def test_a_send_is_not_answered_when_its_flush_failed() -> None:
    """https://github.com/apache/rocketmq/issues/2706"""
    for kind in ("write", "sync"):
        files = SimulatedFiles()
        driver = opened(files)
        files.fail(Fault(kind, path_part="commitlog", forever=True))  # type: ignore[arg-type]  # one of the kinds
        for number in range(3):
            driver.append("orders", b"%d" % number)
        assert driver.flush() == []
        assert driver.engine.queue_bounds("orders", 0) == (0, 0)
        assert driver.engine.health().state == "FAILED"


def test_what_is_not_on_disk_yet_is_not_read_and_moves_no_group_past_it() -> None:
    """https://github.com/apache/rocketmq/issues/8239"""
    files = SimulatedFiles()
    driver = opened(files)
    driver.send("orders", b"0")
    driver.append("orders", b"1")
    driver.engine.tick(driver.clock.now_ms)
    pulled = driver.engine.pull("orders", 0, 1, 32, 1 << 20)
    assert (list(pulled.records), pulled.next_offset) == ([], 1)
    assert driver.engine.queue_bounds("orders", 0) == (0, 1)
    again = opened(files.crash(PowerLoss("all")), clock=driver.clock)
    assert again.send("orders", b"another").queue_offset == 1
    assert again.engine.pull("orders", 0, pulled.next_offset, 32, 1 << 20).next_offset == 2


def test_an_answer_means_that_it_is_on_disk_in_a_store_of_one_node() -> None:
    """https://github.com/etcd-io/etcd/issues/14370"""
    files = SimulatedFiles()
    driver = opened(files)
    answered: list[bytes] = []
    left: list[tuple[int, SimulatedFiles]] = []
    for number in range(40):
        ticket = driver.append("orders", b"%d" % number)
        if number % 4 == 3:
            answered += [b"%d" % one.queue_offset for one in driver.settle()]
            assert ticket.queue_offset == number
        left.append((len(answered), files.crash(PowerLoss("all"))))
    for count, disk in left:
        assert opened(disk, clock=driver.clock).bodies("orders")[:count] == answered[:count]


def test_nothing_has_to_be_set_to_keep_what_was_acknowledged() -> None:
    """https://github.com/nats-io/nats-server/issues/7564"""
    assert EngineConfig("/store").flush == "sync"
    files = SimulatedFiles()
    driver = opened(files)
    for number in range(20):
        driver.send("orders", b"%d" % number)
        if number == 9:
            driver.engine.topics.ensure("late", 2)
            driver.send("late", b"first")
    again = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    assert again.bodies("orders") == [b"%d" % number for number in range(20)]
    assert again.bodies("late") == [b"first"]


@pytest.mark.parametrize("clean", [False, True])
def test_one_bit_costs_at_most_the_message_that_it_is_in(clean: bool) -> None:
    """https://github.com/nats-io/nats-server/issues/7549"""
    files = SimulatedFiles()
    driver = opened(files)
    tickets = [driver.send("orders", b"%02d" % number + b"x" * 40) for number in range(40)]
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.send("orders", b"40")
    if clean:
        driver.close()
    for number in (0, 7, 19, 38):
        for at in (2, 9, 30, 70, 100, -3):
            disk = files.crash(PowerLoss("kill"))
            place = tickets[number].position + (at if at >= 0 else tickets[number].size + at)
            disk.flip(f"/store/commitlog/{place // 4_096 * 4_096:020d}", place % 4_096 * 8)
            again = opened(disk, clock=driver.clock)
            found = {body[:2] for body in again.bodies("orders")}
            assert {b"%02d" % n for n in range(41)} - found <= {b"%02d" % number}, (number, at)
            assert again.send("orders", b"41").queue_offset == 41, "no offset is given out twice"


@pytest.mark.parametrize("table", ["topics.json", "subscriptionGroup.json", "consumerOffset.json"])
@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"topicConfigTable":{}}', b"{rot"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_table_that_cannot_be_read_makes_no_message_an_orphan(table: str, content: bytes, clean: bool) -> None:
    """https://github.com/nats-io/nats-server/issues/7556"""
    files = SimulatedFiles()
    driver = opened(files)
    driver.engine.groups.ensure("billing")
    for number in range(12):
        driver.send("orders", b"%d" % number, DELAY="3" if number > 9 else "0")
    driver.engine.offsets.commit("billing", "orders", 0, 4)
    driver.clock.advance(6_000)
    driver.upkeep()
    if clean:
        driver.close()
    files = files.crash(PowerLoss("kill"))
    for path in list(files.contents()):
        if path.startswith(f"/store/config/{table}"):
            files.replace(path, content)
    for _ in range(2):
        driver = open_engine(files, clock=driver.clock)
        driver.advance(10_000)
        assert sorted(map(int, driver.bodies("orders"))) == list(range(12))
        driver.clock.advance(11_000)
        driver.upkeep()
        driver.close()


@pytest.mark.parametrize("stop", ["kill", "all"])
def test_a_topic_that_was_just_made_is_there_after_a_kill(stop: str) -> None:
    """https://github.com/nats-io/nats-server/issues/6888"""
    files = SimulatedFiles()
    clock = None
    for life in range(6):
        driver = open_engine(files, clock=clock)
        clock = driver.clock
        known = {topic.name for topic in driver.engine.topics.all()}
        assert {f"life{number}" for number in range(life)} <= known
        driver.engine.topics.ensure(f"life{life}", 2)
        driver.send(f"life{life}", b"first", queue_id=1)
        files = files.crash(PowerLoss(stop))  # type: ignore[arg-type]  # one of the kinds
    last = open_engine(files, clock=clock)
    assert [last.bodies(f"life{number}", 1) for number in range(6)] == [[b"first"]] * 6


def test_a_segment_that_was_just_begun_is_there_after_a_power_loss() -> None:
    """https://github.com/mongodb-partners/mongo-rocks/issues/35"""
    files = SimulatedFiles()
    driver = opened(files)
    for number in range(30):
        driver.send("orders", b"%02d" % number + b"x" * 900)
        again = opened(files.crash(PowerLoss("all")), clock=driver.clock)
        assert [int(body[:2]) for body in again.bodies("orders")] == list(range(number + 1))
    assert len([path for path in files.contents() if "commitlog" in path]) > 5


def test_a_file_that_was_replaced_keeps_the_name_that_it_was_given() -> None:
    """https://github.com/facebook/rocksdb/pull/10573"""
    files = SimulatedFiles()
    driver = opened(files)
    driver.engine.groups.ensure("billing")
    replaced: set[str] = set()
    for number in range(6):
        driver.send("orders", b"%d" % number, DELAY="1", UNIQ_KEY=f"U{number}")
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS=str(3_600_000 + number))
        driver.engine.topics.ensure(f"t{number}", 1)
        driver.engine.offsets.commit("billing", "orders", 0, number)
        driver.advance(11_000)
        before = files.contents()
        driver.upkeep()
        after = files.contents()
        changed = {path for path in after if path in before and before[path] != after[path]}
        replaced |= changed
        left = files.crash(PowerLoss("all")).contents()
        # what is written in place is the business of other tests
        names = [path for path in changed if path.startswith(("/store/config/", "/store/escapement.timers"))]
        assert {path: left[path] for path in names} == {path: after[path] for path in names}
    assert {f"/store/config/{name}.json" for name in ("consumerOffset", "delayOffset")} <= replaced
    assert "/store/escapement.timers" in replaced


def test_no_table_is_empty_after_a_power_loss_between_its_rename_and_its_data() -> None:
    """https://bugs.launchpad.net/ubuntu/+source/linux/+bug/317781"""
    files = SimulatedFiles()
    moments: list[SimulatedFiles] = []
    driver = opened(files)
    driver.engine.groups.ensure("billing")
    files.on_change = lambda: moments.append(files.crash(PowerLoss("all")))
    for number in range(6):
        driver.engine.topics.ensure(f"t{number}", 1)
        driver.send(f"t{number}", b"x", DELAY="1")
        driver.engine.offsets.commit("billing", "orders", 0, number)
        driver.advance(6_000)
        driver.upkeep()
    files.on_change = None
    assert len(moments) > 100
    for disk in moments:
        tables = {path: content for path, content in disk.contents().items() if path.endswith(".json")}
        assert all(content for content in tables.values()), "a name that is durable has what it names"


def test_names_that_lead_elsewhere_are_refused_wherever_a_message_may_bring_one() -> None:
    """https://github.com/apache/rocketmq/issues/1637"""
    driver = opened()
    before = set(driver.engine._files.contents())  # type: ignore[attr-defined]  # a simulated disk
    for name in ("../../../../topic2020", "..", "a/b", "/etc", "..\\..\\topic", "orders/../../x", "\0"):
        with pytest.raises(InvalidTopicName):
            driver.engine.topics.ensure(name, 1)
        for waits in ({"DELAY": "1"}, {"TIMER_DELAY_MS": "5000"}, {}):
            with pytest.raises(TopicNotFound):
                driver.append(name, b"x", **waits)
    # a real topic in its properties is the broker's to say
    driver.send("orders", b"x", REAL_TOPIC="../../evil", REAL_QID="0", DELAY="1")
    driver.advance(2_000)
    assert driver.bodies("orders") == [b"x"]
    added = set(driver.engine._files.contents()) - before  # type: ignore[attr-defined]  # a simulated disk
    assert all(path.startswith(("/store/consumequeue/orders/", f"/store/consumequeue/{SCHEDULE_TOPIC}/")) for path in
               added if "consumequeue" in path)  # fmt: skip
    assert not any("evil" in path or ".." in path for path in added)


def test_a_name_for_further_queues_in_a_message_makes_no_path() -> None:
    """https://github.com/apache/rocketmq/issues/6747"""
    files = SimulatedFiles()
    driver = opened(files)
    for name in ("%LMQ%lmq_test/1", "%LMQ%../../x", "%LMQ%a,%LMQ%b/c/d"):
        driver.send("orders", b"x", INNER_MULTI_DISPATCH=name)
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.close()
    assert not [path for path in files.contents() if "LMQ" in path or ".." in path]
    again = opened(files, clock=driver.clock)
    assert again.bodies("orders") == [b"x"] * 3


def test_a_damaged_table_does_not_take_the_place_of_the_sound_one_before_it() -> None:
    """https://github.com/apache/rocketmq/issues/9705"""
    files = SimulatedFiles()
    driver = opened(files)
    driver.engine.groups.ensure("billing")
    for number in range(9):
        driver.send("orders", b"%d" % number)
    for offset in (3, 5):
        driver.engine.offsets.commit("billing", "orders", 0, offset)
        driver.clock.advance(6_000)
        driver.upkeep()
    driver.close()
    table = "/store/config/consumerOffset.json"
    files.replace(table, b"\0" * len(files.contents()[table]))
    # the start after it is cut short at each of its writes, and so is the one after that
    moments: list[SimulatedFiles] = []
    starting = files.crash(PowerLoss("kill"))
    starting.on_change = lambda: moments.extend(starting.crash(loss) for loss in (PowerLoss("kill"), PowerLoss("all")))
    again = opened(starting, clock=driver.clock)
    again.engine.offsets.commit("billing", "orders", 0, 6)
    again.clock.advance(6_000)
    again.upkeep()
    assert len(moments) > 10
    for disk in moments:
        later = opened(disk, clock=driver.clock)
        offset = later.engine.offsets.get("billing", "orders", 0)
        assert offset is not None and 3 <= offset <= 6, "an older one may count, none may be gone"
