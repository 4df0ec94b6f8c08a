"""The replay of the demonstration: a clock that runs faster than ours, messages that leave when their minute comes.

Consumer groups of different speed read them, so that some keep up and some lag. Where the replay is stands in one
small file, so that it goes on where it stopped.

Boarding reminders are timers at the broker, which are set, moved and cancelled under their flight's key. With the gate
of a flight a ticket is sold (tickets.py)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import zlib
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    Message,
    NotSupported,
    Outgoing,
    TimerTarget,
    prepare,
)
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.run import tickets
from console.run.flights import (
    ARRIVAL,
    BOARDING,
    CANCELLED,
    DEPARTURE,
    GATE,
    TOPICS,
    Announcement,
    Departure,
    Reminder,
    Schedule,
    clock,
    flights_of,
)
from console.site.clock import real_now_ms, shown_ms

logger = logging.getLogger(__name__)

Step = Literal["set", "move", "cancel"]
#: In the order in which they happen to one flight.
STEPS: tuple[Step, ...] = ("set", "move", "cancel")


class Reminders:
    """Sends steps to the broker and counts what became of them."""

    def __init__(self, producer: AsyncProducer, admin: AsyncAdmin) -> None:
        self._producer = producer
        self._admin = admin
        self._counts: Counter[str] = Counter()
        self._is_told = False

    @property
    def said(self) -> str:
        """Return the counts as one line."""
        counts = self._counts
        done = f"{counts['rescheduled']:,} rescheduled, {counts['cancelled']:,} cancelled"
        return f"reminders: {counts['set']:,} set, {done}"

    async def do(self, step: Step, departures: Sequence[Departure], due_ms: Callable[[int], int]) -> list[Departure]:
        """Take one kind of step for several flights. Returns those that failed, which are to be tried again."""
        steps = [each.announcement for each in departures if isinstance(each.announcement, Reminder)]
        try:
            if step == "set":
                return await self._set(departures, steps, due_ms)
            await self._steer(step, steps, due_ms)
        except NotSupported:
            self._counts["not supported"] += len(steps)
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "this broker does not support schedule keys: reminders are neither rescheduled nor cancelled"
                )
        except ClientError as error:
            logger.warning("reminders: %s", error)
            return list(departures)
        return []

    async def _set(
        self, departures: Sequence[Departure], steps: Sequence[Reminder], due_ms: Callable[[int], int]
    ) -> list[Departure]:
        results = await self._producer.send_each(BOARDING, [_reminder(step, due_ms) for step in steps])
        self._counts["set"] += sum(not isinstance(result, ClientError) for result in results)
        return [each for each, result in zip(departures, results, strict=True) if isinstance(result, ClientError)]

    async def _steer(
        self, step: Literal["move", "cancel"], steps: Sequence[Reminder], due_ms: Callable[[int], int]
    ) -> None:
        targets = [
            TimerTarget(
                topic=BOARDING,
                schedule_key=each.flight.key,
                due_ms=due_ms(each.event) if each.event is not None else None,
            )
            for each in steps
        ]
        reason = "the flight is late" if step == "move" else "the flight is cancelled"
        steered = await self._admin.steer_timers(
            "reschedule" if step == "move" else "cancel", targets, reason=reason, reference="airport"
        )
        self._counts.update(result.outcome for result in steered.results)


def _reminder(step: Reminder, due_ms: Callable[[int], int]) -> Outgoing:
    flight = step.flight
    return prepare(
        step.body,
        tag=flight.carrier,
        keys=[flight.key],
        properties={"origin": flight.origin, "destination": flight.destination},
        deliver_at_ms=due_ms(step.event) if step.event is not None else None,
        schedule_key=flight.key,
        on_conflict="replace",
    )


#: By default a day takes half an hour.
DEFAULT_SPEED = 48.0
#: The first morning, when the first flights have left.
DEFAULT_START = 6 * 60
TICK_S = 0.25
RETRY_S = 1.0
SAVE_S = 5.0
REPORT_S = 15.0
MOST_AT_ONCE = 200
#: Tickets that are sold where many gates are announced at once.
MOST_SALES = 20
PRODUCER_GROUP = "airport"


@dataclass(frozen=True, slots=True)
class Options:
    """`start` None: go on where the last run stopped."""

    namesrv: str
    directory: Path
    speed: float = DEFAULT_SPEED
    start: float | None = None


class Replay:
    """A run of the demonstration; `tell` gets a line now and then."""

    def __init__(self, options: Options, days: Path, tell: Callable[[str], None]) -> None:
        self._options = options
        self._days = days
        self._tell = tell
        self._path = options.directory / "progress.json"
        self._producer = AsyncProducer(PRODUCER_GROUP, options.namesrv)
        self._admin = AsyncAdmin(options.namesrv)
        self._reminders = Reminders(self._producer, self._admin)
        self._tickets = tickets.Tickets(options.namesrv)
        self._waiting: deque[Departure] = deque()
        self._sent = 0
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Ask the replay to stop soon."""
        self._ended.set()

    async def run(self) -> None:
        """Replay until end() is called."""
        consumers: list[AsyncConsumer] = []
        try:
            if not await self._prepare():
                return
            consumers = await start_consumers(self._options.namesrv)
            await self._tickets.start()
            await self._replay(await self._schedule())
        finally:
            await asyncio.gather(*(consumer.stop(1.0) for consumer in consumers))
            await self._tickets.close()
            await self._producer.close()
            await self._admin.close()

    async def _prepare(self) -> bool:
        """Wait for the broker and create the topics. Returns False if the end came first."""
        while not self._ended.is_set():
            try:
                known = {each.name for each in await self._admin.topics()}
                for topic in (*TOPICS, tickets.TOPIC):
                    if topic not in known:
                        await self._admin.create_topic(topic, queues=4)
                for listener in LISTENERS:
                    if listener.retries is not None:
                        await self._admin.create_group(listener.group, retry_max_times=listener.retries)
                self._delays_ms = await self._admin.delay_levels()
                lanes = await self._admin.topic_stats(SCHEDULE_TOPIC)
                self._lanes_are_new = not any(lane.max_offset for lane in lanes.queues)
                return True
            except ClientError as error:
                self._tell(f"waiting for the broker: {error}")
                await self._pause(RETRY_S)
        return False

    async def _schedule(self) -> Schedule:
        before = load(self._path) if self._options.start is None else None
        self._sent = before.sent if before is not None else 0
        fresh = self._options.start if self._options.start is not None else float(DEFAULT_START)
        self._start = before.minute if before is not None else fresh
        self._began_s = time.monotonic()
        self._tell(f"{'goes on' if before else 'begins'} at {self._when(self._start)}, {self._options.speed:g}x")
        return Schedule(
            lambda index: flights_of(self._days, index),
            self._delays_ms,
            self._options.speed,
            self._start,
            warm=before is None or self._lanes_are_new,
        )

    def _minute(self) -> float:
        return self._start + (time.monotonic() - self._began_s) / 60 * self._options.speed

    async def _replay(self, schedule: Schedule) -> None:
        saved = reported = time.monotonic()
        while not self._ended.is_set():
            minute = self._minute()
            self._waiting.extend(await asyncio.to_thread(schedule.take_until, minute))
            await self._send_waiting()
            now = time.monotonic()
            if now - saved >= SAVE_S:
                self._save()
                saved = now
            if now - reported >= REPORT_S:
                self._tell(
                    f"{self._when(minute)}: {self._sent:,} messages sent, {len(self._waiting)} held back; "
                    f"{self._reminders.said}"
                )
                reported = now
            await self._pause(TICK_S)
        self._save()

    async def _send_waiting(self) -> None:
        while self._waiting and not self._ended.is_set():
            several = [self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))]
            failed = await self._send(several)
            self._sent += len(several) - len(failed)
            if failed:
                self._waiting.extendleft(reversed(failed))
                await self._pause(RETRY_S)
                return

    async def _send(self, several: list[Departure]) -> list[Departure]:
        """Send these messages. Returns those that failed, in order."""
        failed: list[Departure] = []
        for topic in TOPICS:
            chosen = [
                each
                for each in several
                if isinstance(each.announcement, Announcement) and each.announcement.topic == topic
            ]
            if not chosen:
                continue
            try:
                results = await self._producer.send_each(topic, [_message(each) for each in chosen])
            except ClientError as error:
                logger.warning("sending to %s: %s", topic, error)
                failed += chosen
                continue
            failed += [each for each, result in zip(chosen, results, strict=True) if isinstance(result, ClientError)]
            if topic == GATE:
                await self._tickets.sell([each.announcement.flight for each in chosen[:MOST_SALES]])
        return sorted(failed + await self._remind(several))

    async def _remind(self, several: list[Departure]) -> list[Departure]:
        """Set, move and cancel reminders. Returns those that failed."""
        failed: list[Departure] = []
        for step in STEPS:
            chosen = [
                each for each in several if isinstance(each.announcement, Reminder) and each.announcement.step == step
            ]
            if chosen:
                failed += await self._reminders.do(step, chosen, self._due_ms)
        return failed

    def _due_ms(self, event: int) -> int:
        """Return when a minute of the replayed clock comes, in epoch ms of the broker's clock."""
        return shown_ms(real_now_ms() + round((event - self._minute()) / self._options.speed * 60_000))

    def _save(self) -> None:
        """Save the progress; only what was really sent counts as sent."""
        minute = min([self._minute(), *(each.minute for each in self._waiting)])
        save(self._path, Progress(max(minute, self._start), self._sent))

    def _when(self, minute: float) -> str:
        return f"day {int(minute // 1440) + 1} of the year, {clock(int(minute))}"

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return


def _message(departure: Departure) -> Outgoing:
    announcement = departure.announcement
    flight = announcement.flight
    return prepare(
        announcement.body,
        tag=flight.carrier,
        keys=[flight.key],
        properties={"origin": flight.origin, "destination": flight.destination},
        delay_level=departure.level,
        group=PRODUCER_GROUP,
    )


class RefundRefused(Exception):
    """The refund system refused; the message is delivered again later."""


class BagNotFound(Exception):
    """A bag did not arrive with its flight, nor when it was looked for again."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A consumer group: its topics, its time for a message, its number of handlers, and how often it fails.

    `retries`: it fails with such a message each time, so often again until it is a dead letter; None: the first time
    only.
    """

    group: str
    topics: tuple[str, ...]
    work_s: float
    handlers: int
    fails_every: int = 0
    retries: int | None = None


LISTENERS = (
    Listener("gate-displays", (GATE, BOARDING), 0.02, 8),
    Listener("departure-board", (DEPARTURE, CANCELLED), 0.1, 2),
    Listener("crew-pager", (DEPARTURE, ARRIVAL), 0.7, 1),
    Listener("refunds", (CANCELLED,), 0.5, 1, fails_every=3),
    Listener("seat-maps", (tickets.TOPIC,), 0.02, 4),
    Listener("baggage", (ARRIVAL,), 0.05, 2, fails_every=40, retries=1),
)


async def start_consumers(namesrv: str) -> list[AsyncConsumer]:
    """Return the listeners that could join; one that cannot is left out with a line in the log."""
    joined = []
    for listener in LISTENERS:
        consumer = AsyncConsumer(
            listener.group, namesrv, from_where="first", threads=listener.handlers, max_reconsume_times=listener.retries
        )
        for topic in listener.topics:
            consumer.subscribe(topic, "*", _handler(listener))
        try:
            await consumer.start()
        except ClientError as error:
            logger.warning("group %s cannot join: %s", listener.group, error)
            await consumer.stop(0)
            continue
        joined.append(consumer)
    return joined


def _handler(listener: Listener) -> Callable[[Message], Awaitable[None]]:
    async def handle(message: Message) -> None:
        await asyncio.sleep(listener.work_s)
        choice = zlib.crc32((message.unique_key or "").encode())
        if listener.fails_every and choice % listener.fails_every == 0:
            if listener.retries is not None:
                raise BagNotFound("a bag did not come with its flight")
            if message.reconsume_times == 0:
                raise RefundRefused

    return handle


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything that leaves up to `minute` (of the replayed year) has been sent; `sent` counts messages."""

    minute: float
    sent: int


def load(path: Path) -> Progress | None:
    """Return the last progress; None if there is none or the file is damaged, so that the replay begins anew."""
    try:
        kept = json.loads(path.read_text())
        return Progress(float(kept["minute"]), int(kept["sent"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, progress: Progress) -> None:
    """Replace the file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(progress)))
    os.replace(fresh, path)
