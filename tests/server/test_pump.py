"""When the heart beats: at the moment the engine names, or at an earlier one that a new message asks for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter
from typing import cast

from broker.engine.engine import Engine
from broker.engine.log.commit_log import Writes
from broker.engine.log.ticket import SyncJob, Ticket
from broker.server.pump import QUICK_BYTES, QUICK_SYNC_S, Pump

BEGIN_MS = 1_000_000


class Hand:
    """An engine that notes its ticks, and a clock moved by hand. Batches hold nothing but the tickets put into them."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        self.ticks: list[int] = []
        self.following_ms: int | None = None
        self.tickets: list[Ticket] = []
        self.ticked = asyncio.Event()

    def tick(self, now_ms: int) -> int | None:
        self.ticks.append(now_ms)
        self.ticked.set()
        return self.following_ms

    def take_sync(self, now_ms: int) -> SyncJob | None:
        return SyncJob() if self.tickets else None

    def synced(
        self, job: SyncJob, error: OSError | None, now_ms: int, answer: Callable[[list[Ticket]], None]
    ) -> list[Ticket]:
        tickets, self.tickets = self.tickets, []
        answer(tickets)
        return tickets

    def take_arrivals(self) -> set[tuple[str, int]]:
        return set()

    def take_upkeep(self, now_ms: int) -> None:
        return None


def parked(due_ms: int) -> Ticket:
    return Ticket(None, "T", 0, 0, 0, 100, BEGIN_MS, b"", due_ms, None)


async def answered(pump: Pump, hand: Hand, *due_ms: int) -> None:
    """Timers due at these moments become durable."""
    hand.tickets = [parked(each) for each in due_ms]
    await pump.drain()


def pump_of(hand: Hand, stopwatch: Callable[[], float] | None = None) -> Pump:
    return Pump(
        cast(Engine, hand), lambda: hand.now_ms, stored=lambda tickets: None, arrived=lambda keys: None,
        failed=lambda reason, tickets: None, is_inline=stopwatch is None, stopwatch=stopwatch or perf_counter,
    )  # fmt: skip


class Disk(Hand):
    """An engine whose syncs take so long, by a clock of their own; it notes which were made in the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = self.sync_s = 0.0
        self.size_bytes = 100
        self.in_loop: list[bool] = []

    def take_sync(self, now_ms: int) -> SyncJob | None:
        return Sync(self) if self.tickets else None

    def synced(
        self, job: SyncJob, error: OSError | None, now_ms: int, answer: Callable[[list[Ticket]], None] | None
    ) -> list[Ticket]:
        tickets, self.tickets = self.tickets, []
        return tickets

    async def sync(self, pump: Pump, count: int = 1, *, sync_s: float = 0.0002) -> list[bool]:
        """Make so many syncs that each take so long; return whether the last of them were made in the loop."""
        self.sync_s = sync_s
        for _ in range(count):
            await answered(pump, self, BEGIN_MS)
        return self.in_loop[-count:]


class Sync(SyncJob):
    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk
        self.writes = Writes()
        self.writes.size_bytes = disk.size_bytes

    def run(self) -> None:
        self.disk.in_loop.append(threading.current_thread() is threading.main_thread())
        self.disk.passed_s += self.disk.sync_s


async def test_a_message_that_waits_longer_than_the_next_tick_makes_none() -> None:
    hand = Hand()
    hand.following_ms = BEGIN_MS + 400
    pump = pump_of(hand)
    pump.start()
    for _ in range(5):
        await answered(pump, hand, BEGIN_MS + 86_400_000, BEGIN_MS + 500)
    assert len(hand.ticks) == 1
    pump.stop()


async def test_what_is_due_goes_with_the_sync_that_begins() -> None:
    hand = Hand()
    hand.following_ms = BEGIN_MS + 400
    pump = pump_of(hand)
    pump.start()
    hand.following_ms = BEGIN_MS + 800
    hand.now_ms += 399
    await answered(pump, hand, BEGIN_MS + 86_400_000)
    assert len(hand.ticks) == 1
    hand.now_ms += 1
    await answered(pump, hand, BEGIN_MS + 86_400_000)
    assert hand.ticks == [BEGIN_MS, BEGIN_MS + 400]
    pump.stop()


async def test_a_message_that_is_due_sooner_than_the_next_tick_has_its_own() -> None:
    hand = Hand()
    pump = pump_of(hand)
    pump.start()
    hand.ticked.clear()
    await answered(pump, hand, BEGIN_MS + 86_400_000, BEGIN_MS + 3)
    hand.now_ms += 3
    await asyncio.wait_for(hand.ticked.wait(), 0.5)  # without it the next one would come after a second
    assert hand.ticks == [BEGIN_MS, BEGIN_MS + 3]
    pump.stop()


async def test_messages_that_wait_do_not_put_the_next_tick_off() -> None:
    hand = Hand()
    hand.following_ms = BEGIN_MS + 200
    pump = pump_of(hand)
    pump.start()
    hand.ticked.clear()

    async def keep_sending() -> None:
        while not hand.ticked.is_set():
            hand.now_ms += 1
            await answered(pump, hand, hand.now_ms + 150)
            await asyncio.to_thread(lambda: None)

    await asyncio.wait_for(keep_sending(), 2)
    pump.stop()


async def test_it_is_writing_from_when_something_is_to_be_written() -> None:
    """Whoever gives way to writers does so before the write has begun, not only while it goes on."""
    hand = Hand()
    pump = pump_of(hand)
    assert not pump.is_writing()
    pump.kick()
    assert pump.is_writing()
    await pump.drain()
    assert not pump.is_writing()
    pump.stop()


async def test_a_quick_disk_is_synced_in_the_loop_until_it_is_slow() -> None:
    disk = Disk()
    pump = pump_of(disk, lambda: disk.passed_s)
    first = await disk.sync(pump, 100)
    assert not any(first[:50]), "a disk that nobody knows yet"
    assert all(first[-10:])
    assert all(await disk.sync(pump, 3, sync_s=2 * QUICK_SYNC_S)), "a few may be slower"
    assert await disk.sync(pump, sync_s=1) == [True]
    after = await disk.sync(pump, 150)
    assert not any(after[:50])
    assert all(after[-10:])
    pump.stop()


async def test_a_slow_disk_never_keeps_the_loop_waiting() -> None:
    disk = Disk()
    pump = pump_of(disk, lambda: disk.passed_s)
    assert not any(await disk.sync(pump, 300, sync_s=1.1 * QUICK_SYNC_S))
    pump.stop()


async def test_what_is_large_never_keeps_the_loop_waiting() -> None:
    disk = Disk()
    pump = pump_of(disk, lambda: disk.passed_s)
    assert all((await disk.sync(pump, 100))[-10:])
    disk.size_bytes = QUICK_BYTES + 1
    assert not any(await disk.sync(pump, 3, sync_s=0.05))
    disk.size_bytes = QUICK_BYTES
    assert all(await disk.sync(pump, 10)), "how long large ones take says nothing of others"
    pump.stop()
