"""Faults that others had with delay levels and retries: progress that was overwritten, too high, or unreadable."""

from __future__ import annotations

import json

import pytest

from broker.engine.testing import Fault, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import decode

PROGRESS = "/store/config/delayOffset.json"


def delayed(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def numbers(driver: Driver) -> list[int]:
    return [int(body) for body in driver.bodies("orders")]


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_start_that_is_cut_short_anywhere_keeps_the_progress_of_the_levels(stop: str) -> None:
    """https://github.com/apache/rocketmq/issues/6881"""
    files = SimulatedFiles()
    driver = delayed(files)
    for number in range(6):
        driver.send("orders", b"%d" % number, DELAY="2")
    driver.advance(5_000)
    driver.clock.advance(6_000)
    driver.upkeep()
    if stop == "clean":
        driver.close()
    left = files.crash(PowerLoss("kill"))
    kept = json.loads(left.contents()[PROGRESS])["offsetTable"]
    assert kept == {"2": 6}
    moments: list[SimulatedFiles] = []
    starting = left.crash(PowerLoss("kill"))
    starting.on_change = lambda: moments.append(starting.crash(PowerLoss("kill")))
    again = delayed(starting, clock=driver.clock)
    again.clock.advance(11_000)
    again.upkeep()
    assert len(moments) > 3
    for disk in moments:
        assert json.loads(disk.contents()[PROGRESS])["offsetTable"] == kept
        later = delayed(disk, clock=driver.clock)
        later.advance(20_000)
        assert numbers(later) == list(range(6))


@pytest.mark.parametrize("offset", [6, 99, 1 << 40])
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_progress_beyond_the_end_of_a_level_holds_nothing_back(offset: int, stop: str) -> None:
    """https://github.com/apache/rocketmq/issues/1869"""
    files = SimulatedFiles()
    driver = delayed(files)
    for number in range(3):
        driver.send("orders", b"%d" % number, DELAY="1")
    driver.advance(1_000)
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.send("orders", b"3", DELAY="1")
    driver.advance(1_000)
    driver.send("orders", b"4", DELAY="1")  # waits when the file goes wrong
    if stop == "clean":
        driver.close()
    disk = files.crash(PowerLoss("kill"))
    wrong = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0}, "offsetTable": {"1": offset}}
    disk.replace(PROGRESS, json.dumps(wrong).encode())
    again = delayed(disk, clock=driver.clock)
    for number in range(5, 9):
        again.send("orders", b"%d" % number, DELAY="1")
    again.advance(1_000)
    assert numbers(again) == list(range(9))


def test_progress_that_was_put_right_is_kept_and_not_wrong_again_at_the_next_start() -> None:
    """https://github.com/apache/rocketmq/issues/7077"""
    files = SimulatedFiles()
    driver = delayed(files)
    driver.send("orders", b"0", DELAY="1")
    driver.advance(1_000)
    driver.close()
    wrong = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0}, "offsetTable": {"1": 77}}
    files.replace(PROGRESS, json.dumps(wrong).encode())
    again = delayed(files, clock=driver.clock)
    again.clock.advance(11_000)
    again.upkeep()
    assert json.loads(files.contents()[PROGRESS])["offsetTable"] == {"1": 1}
    again.close()
    third = delayed(files, clock=driver.clock)
    third.send("orders", b"1", DELAY="1")
    third.advance(1_000)
    assert numbers(third) == [0, 1]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 64, b'{"offsetTable":{', "乱码".encode("gb18030"), b"[]", b"\xff\xfe{"]
)
@pytest.mark.parametrize("both", [False, True])
def test_progress_that_cannot_be_read_keeps_no_broker_from_starting(content: bytes, both: bool) -> None:
    """https://github.com/apache/rocketmq/issues/6096"""
    files = SimulatedFiles()
    driver = delayed(files)
    for number in range(4):
        driver.send("orders", b"%d" % number, DELAY="1" if number < 2 else "3")
    driver.advance(1_000)
    driver.clock.advance(6_000)
    driver.upkeep()
    disk = files.crash(PowerLoss("kill"))
    for path in list(disk.contents()):
        if path == PROGRESS or (both and path.startswith(PROGRESS)):
            disk.replace(path, content)
    again = delayed(disk, clock=driver.clock)
    assert again.engine.is_open
    again.advance(10_000)
    assert numbers(again) == [0, 1, 2, 3], "none is lost, and none comes again"


def test_a_dead_letter_does_not_wait_for_the_delay_of_its_last_try() -> None:
    """https://github.com/apache/rocketmq/issues/2724"""
    driver = delayed()
    position = driver.send("orders", b"poison", UNIQ_KEY="U1", DELAY="3").position
    driver.advance(10_000)
    (position,) = (message.position for message in driver.readable("orders").values())
    for _ in range(2):
        driver.engine.send_back(position, "billing", 3, 2, driver.clock.now_ms)
        driver.settle()
        driver.advance(10_000)
        retry = driver.readable("%RETRY%billing")
        position = retry[max(retry)].position
    driver.engine.send_back(position, "billing", 3, 2, driver.clock.now_ms)
    driver.settle()
    (dead,) = driver.readable("%DLQ%billing").values()
    assert (dead.body, dead.store_ms) == (b"poison", driver.clock.now_ms), "there at once"
    driver.advance(20_000)
    assert len(driver.readable("%DLQ%billing")) == 1


def test_a_message_is_tried_again_and_again_in_a_store_whose_progress_came_from_another() -> None:
    """https://github.com/apache/rocketmq/issues/1472"""
    files = SimulatedFiles()
    driver = delayed(files)
    position = driver.send("orders", b"later", UNIQ_KEY="U1").position
    for times in range(4):
        driver.engine.send_back(position, "billing", 1, 16, driver.clock.now_ms)
        driver.settle()
        driver.clock.advance(6_000)
        driver.upkeep()
        files = files.crash(PowerLoss("kill"))
        foreign = {"offsetTable": {str(level): 6_012 for level in (1, 2, 3)}}
        files.replace(PROGRESS, json.dumps(foreign).encode())
        driver = delayed(files, clock=driver.clock)
        driver.advance(1_000)
        retry = driver.readable("%RETRY%billing")
        assert retry[max(retry)].reconsume_times == times + 1
        position = retry[max(retry)].position


def test_a_release_that_the_disk_refused_is_made_later_and_once() -> None:
    """https://github.com/apache/rocketmq/issues/3473"""
    files = SimulatedFiles()
    driver = delayed(files)
    for number in range(40):
        driver.append("orders", b"%d" % number, DELAY="1")
    driver.settle()
    driver.clock.advance(1_000)
    driver.engine.tick(driver.clock.now_ms)
    # stopped in the middle of its releases: progress of none of them is kept
    files.fail(Fault("rename", path_part="delayOffset", forever=True))
    driver.settle()
    again = delayed(files.crash(PowerLoss("kill")), clock=driver.clock)
    again.advance(5_000)
    assert sorted(numbers(again)) == list(range(40))
    assert decode(again.engine.record_at(next(iter(again.readable("orders").values())).position)).topic == "orders"


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_what_waits_on_a_level_that_is_no_more_comes_out_at_its_moment(stop: str) -> None:
    """https://github.com/alibaba/rocketmq/issues/412"""
    files = SimulatedFiles()
    driver = delayed(files, delay_levels="1s 5s 10s 1h", checkpoint_interval_ms=100)
    start_ms = driver.clock.now_ms
    for level in (1, 3, 4):
        driver.send("orders", b"%d" % level, DELAY=str(level))
    driver.clock.advance(500)
    driver.upkeep()  # their moments are in the queue; made again without their levels, it would say: now
    if stop == "clean":
        driver.close()
    files = files.crash(PowerLoss("kill"))
    again = delayed(files, clock=driver.clock, delay_levels="1s", retention_hours=0.01, keep_unconsumed=False)
    assert [level.number for level in again.engine.schedule.levels] == [1]
    assert again.send("orders", b"5", DELAY="4").due_ms == again.clock.now_ms + 1_000, "nothing new waits there"
    again.advance(9_499)
    assert numbers(again) == [1, 5]
    again.advance(1)
    assert numbers(again) == [1, 5, 3]
    again.clock.advance(6_000)
    again.upkeep()
    third = delayed(files.crash(PowerLoss("kill")), clock=driver.clock, delay_levels="1s")
    third.advance(start_ms + 3_600_000 - third.clock.now_ms - 1)
    assert numbers(third) == [1, 5, 3]
    third.advance(1)
    assert numbers(third) == [1, 5, 3, 4]
