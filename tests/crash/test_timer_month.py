"""R10: thirty virtual days of timers with retention, checkpoints and crashes: each leaves once, at its ms."""

from __future__ import annotations

import random

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine

HOUR, DAY = 3_600_000, 86_400_000
SIZES = {
    "timer_wheel_interval_ms": DAY, "segment_size_bytes": 1 << 18, "queue_file_entries": 50_000, "index_slots": 50_000,
    "index_entries": 200_000, "timer_log_file_bytes": 1 << 20, "retention_hours": 24, "keep_unconsumed": False,
}  # fmt: skip


class Month:
    """A consumer that counts what it gets, and the broker's clock."""

    def __init__(self, count: int, slots: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.start_ms = self.clock.now_ms
        self.sizes = {**SIZES, "timer_slots": slots}
        self.driver: Driver = open_engine(self.files, clock=self.clock, **self.sizes)
        self.driver.engine.topics.ensure("orders", 1)
        self.left = count
        self.due: dict[int, int] = {}
        self.number = 0
        self.offset = 0
        self.late_ms = 0

    def put(self, count: int) -> None:
        """Some timers, due within what is left of the month, some of them in one ms."""
        end_ms = self.start_ms + 30 * DAY
        if self.clock.now_ms >= end_ms:
            return
        herd_ms = self.random.randint(self.clock.now_ms + 1, end_ms)
        for _ in range(min(count, self.left)):
            due_ms = herd_ms if self.random.random() < 0.2 else self.random.randint(self.clock.now_ms + 1, end_ms)
            self.driver.append("orders", b"%d" % self.number, TIMER_DELIVER_MS=str(due_ms))
            self.due[self.number] = due_ms
            self.number += 1
            self.left -= 1
        self.driver.settle()

    def get(self) -> None:
        """Take what has come: each once, none early."""
        while records := (pulled := self.driver.engine.pull("orders", 0, self.offset, 512, 1 << 20)).records:
            for record in records:
                number = int(record[88 : 88 + int.from_bytes(record[84:88], "big")])
                stored_ms = int.from_bytes(record[56:64], "big")
                late_ms = stored_ms - self.due.pop(number)
                assert late_ms >= 0, f"{number} came {-late_ms} ms early"
                self.late_ms = max(self.late_ms, late_ms)
            self.offset = pulled.next_offset

    def run(self, each_hour: int, crash_hours: int) -> None:
        """Hour by hour, up to the end of the month and a little more."""
        for hour in range(30 * 24 + 1):
            self.put(each_hour)
            end_ms = self.start_ms + (hour + 1) * HOUR
            while (next_ms := self.driver.tick()) is not None and next_ms <= end_ms:
                self.clock.now_ms = max(self.clock.now_ms, next_ms)
            self.clock.now_ms = end_ms
            self.driver.tick()
            self.get()
            self.driver.upkeep()
            if hour % crash_hours == crash_hours - 1:
                self.files = self.files.crash(PowerLoss("all"))
                self.driver = open_engine(self.files, clock=self.clock, **self.sizes)


def spend(count: int, slots: int, crash_hours: int, say) -> None:
    month = Month(count, slots, 7)
    month.run(max(1, count // (24 * 24)), crash_hours)
    status = month.driver.engine.timers.status(month.clock.now_ms)
    say(
        f"R10 timers: {month.number:,} in 30 virtual days, {status['rolledTotal']:,} rolls, latest {month.late_ms} ms, "
        f"log from {month.driver.engine.health().log_min_position:,}, 0 lost, 0 early, 0 twice"
    )
    assert not month.due, f"{len(month.due)} never came"
    assert (month.left, status["pending"], status["earlyTotal"]) == (0, 0, 0)
    month.driver.close()
    report = check_store(month.files, "/store")
    assert report.is_sound, report.damages[:3]


def test_a_month_of_timers(say) -> None:
    spend(3_000, 60_480, 120, say)


@pytest.mark.soak
def test_a_month_of_a_million_timers(say) -> None:
    spend(1_000_000, 604_800, 24, say)
