"""Hours of everything at once against our broker, in accelerated time, and what the broker takes meanwhile.

The broker's clock is simulated: `speed` ms of it pass in one, so that timers and levels of half an hour, retention and
rounds of checks come as often as in the hours themselves. Every message is accounted for in a ledger (no history: of
millions it would be too long), memory, descriptors and lateness are noted each ten minutes of the broker's clock.

`python -m tests.reliability.hours --hours 8 --speed 16`
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    ClientError,
    Decision,
    Message,
    Received,
    SendResult,
    prepare,
)
from broker.client.timers import Steered
from tests.reliability.faults import LASTS_S, Fault
from tests.reliability.history import Outcome, Recorder, body_of, read_body
from tests.reliability.rig import Lasting, Rig
from tests.reliability.workload import FAILED_PAUSE_S, SEND_TIMEOUT_MS, of_send, of_steer

PLAIN, LEVEL, TIMER, HALF, POISON = "plain", "level", "timer", "half", "poison"
KINDS = (PLAIN, LEVEL, TIMER, HALF, POISON)
PUSHED, POPPED, FAILING = "hours-push", "hours-pop", "hours-failing"
#: who is to get everything of a kind
READERS = {PLAIN: (PUSHED, POPPED), LEVEL: (PUSHED,), TIMER: (PUSHED, POPPED), HALF: (PUSHED,), POISON: (FAILING,)}
#: senders of a kind beside each other; each sends one message after the other, on average so far apart: as many on a
#: quick machine as on a slow one, since what is pending, and so what a broker holds, depends on how much is sent
SENDERS = {PLAIN: 4, LEVEL: 2, TIMER: 4, HALF: 2, POISON: 1}
APART_S = 0.04
#: who was kept longer, by a fault, does not send all at once what was left out
MOST_BEHIND_S = 1.0
#: "1s 2s 3s 1s 1s 2s 10m 1h" are the rig's levels: the longest that is sent is ten minutes
LEVELS = (1, 2, 3, 7)
MOST_DELAY_MS = 30 * 60_000
INVISIBLE_MS = 20 * 60_000
RETRIES = 2
QUEUES = 4
SAMPLES_AN_HOUR = 6
#: What ends the broker's process comes each hour in the first quarter of a run, the others come in all hours: memory is
#: judged in what is left, where one process has to last.
GENTLE, ENDING = ("stop", "cut", "mute"), ("kill", "restart")
#: Until then a process grows, or half of a short run: what waits has not reached its number yet, caches fill.
YOUNG_HOURS = 2
#: Memory and descriptors may move by so much.
FLAT = 0.02
SETTLE_S = 60.0

DELIVERED, CANCELLED, ROLLED_BACK, DEAD, OPEN = range(1, 6)


class Ledger:
    """What became of each message, in a byte each: how its send ended, what is to become of it, who had it how often.

    A number is a message of a kind. `OPEN`: it may come or not, as nobody was answered.
    """

    def __init__(self) -> None:
        self.said = {kind: bytearray() for kind in KINDS}
        self.due = {kind: bytearray() for kind in KINDS}
        self.had = {(kind, group): bytearray() for kind, groups in READERS.items() for group in groups}
        self.letters: Counter[int] = Counter()
        self.unread = 0

    def begin(self, kind: str) -> int:
        """Return the number of a new message."""
        number = len(self.said[kind])
        for column in (self.said[kind], self.due[kind], *(self.had[kind, group] for group in READERS[kind])):
            column.append(0)
        self.due[kind][number] = DEAD if kind == POISON else DELIVERED
        return number

    def sent(self, kind: str, number: int, outcome: Outcome) -> None:
        """Note how a send ended."""
        self.said[kind][number] = {"ok": 1, "unknown": 2, "refused": 3}[outcome]

    def hand(self, group: str, body: bytes) -> None:
        """Note what a group was given."""
        name, intact = read_body(body)
        kind, _, number = name.partition("-")
        if not intact:
            self.unread += 1
            return
        column = self.had[kind, group]
        column[int(number)] = min(column[int(number)] + 1, 255)

    def wrong(self) -> list[str]:
        """Return what is not as it was promised, a line each."""
        found = [f"{self.unread} bodies were damaged"] if self.unread else []
        for kind in KINDS:
            found += [f"{kind}: {count} {what}" for what, count in sorted(Counter(self._faults(kind)).items())]
        return found

    def _faults(self, kind: str) -> Iterator[str]:
        columns = [self.had[kind, group] for group in READERS[kind]]
        for number, (said, due) in enumerate(zip(self.said[kind], self.due[kind], strict=True)):
            had = [column[number] for column in columns]
            if said == 3 and any(had):
                yield "refused and shown"
            if said != 1:
                continue
            if due in (DELIVERED, DEAD) and not all(had):
                yield "accepted and not had"
            if due in (CANCELLED, ROLLED_BACK) and any(had):
                yield "taken back and shown"
            if due == DEAD and not self.letters[number]:
                yield "accepted, failed, and no dead letter"

    def fates(self) -> Counter[str]:
        """Return how many there are of each: accepted is the sum of delivered, dead, cancelled and rolled back."""
        counts: Counter[str] = Counter()
        names = {DELIVERED: "delivered", CANCELLED: "cancelled", ROLLED_BACK: "rolled back", DEAD: "dead"}
        for kind in KINDS:
            first = self.had[kind, READERS[kind][0]]
            for number, (said, due) in enumerate(zip(self.said[kind], self.due[kind], strict=True)):
                counts[("", "accepted", "unknown", "refused")[said]] += 1
                if said == 1:
                    is_had = due == OPEN and first[number]
                    counts["delivered" if is_had else names.get(due, "cancelled or rolled back, not answered")] += 1
        counts["again"] = sum(max(each - 1, 0) for (kind, _), had in self.had.items() if kind != POISON for each in had)
        # the answer to who gives a message back may be lost: then it is given back again
        counts["dead again"] = self.letters.total() - len(self.letters)
        return counts

    def missing(self) -> int:
        """Return how many of those who are to get something have not got it yet."""
        return sum("not had" in fault or "no dead letter" in fault for kind in KINDS for fault in self._faults(kind))

    def shown(self, kind: str) -> int:
        """Return how many of a kind anybody had: so many records its topic is to have held."""
        columns = [self.had[kind, group] for group in READERS[kind]]
        return sum(any(had) for had in zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker at one moment: `life` counts its processes, `descriptors` those that are no files of the store."""

    hour: float
    life: int
    memory_bytes: int
    descriptors: int
    late_p50_ms: float
    late_p99_ms: float

    def line(self) -> str:
        """One line."""
        memory = f"{self.memory_bytes / 1e6:.1f} MB, {self.descriptors} descriptors"
        return f"{self.hour:5.2f} h, life {self.life}: {memory}, late {self.late_p50_ms:g} / {self.late_p99_ms:g} ms"


@dataclass(slots=True)
class Hours:
    """What a run came to."""

    hours: float
    speed: float
    samples: list[Sample] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The counts in one line."""
        fates = ", ".join(f"{name} {count:,}" for name, count in sorted(self.fates.items()) if name)
        faults = " ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return f"{self.hours:g} h at {self.speed:g} times: {fates}; faults {faults}; wrong: {self.wrong or 'nothing'}"

    def grown(self) -> Iterator[str]:
        """Return each process whose memory or descriptors moved by more than `FLAT` once it was no longer young."""
        for life, group in itertools.groupby(self.samples, key=lambda one: one.life):
            samples = list(group)
            old = [one for one in samples if one.hour >= samples[0].hour + min(YOUNG_HOURS, self.hours / 2)]
            half = len(old) // 2
            if not half:
                continue
            for what, values in {
                "memory": [one.memory_bytes for one in old], "descriptors": [one.descriptors for one in old]
            }.items():  # fmt: skip
                before, after = statistics.median(values[:half]), statistics.median(values[-half:])
                if after > before * (1 + FLAT) and (what == "memory" or after > before + 1):
                    yield f"life {life}: {what} from {before:,.0f} to {after:,.0f}"


class Pace:
    """The times at which one sender sends, at random around an even rate."""

    def __init__(self, draws: random.Random) -> None:
        self._draws = draws
        self._next_s = time.monotonic()

    def wait_s(self) -> float:
        """Return how long to wait until the next one."""
        now_s = time.monotonic()
        self._next_s = max(self._next_s + self._draws.uniform(0, 2 * APART_S), now_s - MOST_BEHIND_S)
        return max(0.0, self._next_s - now_s)


class Run:
    """One run: a broker, its clients, faults, samples."""

    def __init__(self, hours: float, speed: float, seed: int, work: Path, say: logging.Logger | None = None) -> None:
        self.result = Hours(hours, speed)
        self._speed, self._seed, self._say = speed, seed, say
        # what waits, and what is kept, has to reach its number early enough for memory to be judged
        self._most_delay_ms = min(MOST_DELAY_MS, round(hours * 900_000))
        self._recorder = Recorder(work / "faults.jsonl")
        self.ledger = Ledger()
        self.rig = Rig("escapement", work, self._recorder, has_disk=False)
        self.rig.server.more_arguments = (*self.rig.server.more_arguments, "--simulated-clock", f"{speed:g}")
        self._sending, self._reading = Lasting(), Lasting()
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []
        self._opened: list[AsyncProducer | AsyncConsumer | AsyncSimpleConsumer | AsyncTransactionProducer] = []
        self._answers: dict[int, Decision] = {}
        #: of each queue of dead letters: those before it were read. Retention takes them some time later.
        self._letters_read: dict[int, int] = {}

    async def live(self) -> Hours:
        """Live through it."""
        try:
            await self.rig.start()
            await self._prepare()
            await self._read()
            self._send()
            await self._disturb()
            await self._end()
        finally:
            self._sending.over.set()
            self._reading.over.set()
            await asyncio.gather(*self._tasks, *self._readers, return_exceptions=True)
            for each in reversed(self._opened):
                with suppress(ClientError):
                    await each.close()
            await self.rig.clear()
            self._recorder.close()
        return self.result

    async def _prepare(self) -> None:
        async with AsyncAdmin(self.rig.namesrv) as admin:
            await admin.change_broker_settings({"fileReservedTime": f"{min(1.0, self.result.hours / 4):.3f}"})
            for kind in KINDS:
                await admin.create_topic(kind, queues=QUEUES)

    # Faults and samples.

    async def _disturb(self) -> None:
        """Pass the hours: a sample and a fault each ten minutes, and in the first quarter each hour an end."""
        draws = random.Random(f"hours {self._seed}")
        life = 1
        for number in range(1, round(self.result.hours * SAMPLES_AN_HOUR) + 1):
            await self._sending(3600 / SAMPLES_AN_HOUR / self._speed / 2)
            is_over = number % SAMPLES_AN_HOUR == 0 and number <= self.result.hours * SAMPLES_AN_HOUR / 4
            kind = draws.choice(ENDING if is_over else GENTLE)
            await self._sample(number / SAMPLES_AN_HOUR, life)
            await self.rig.do(Fault(kind, 0, draws.uniform(*LASTS_S)), self._sending)
            self.result.faults[kind] += 1
            life += is_over
            await self._sending(3600 / SAMPLES_AN_HOUR / self._speed / 2)

    async def _sample(self, hour: float, life: int) -> None:
        pid = self.rig.server.pid
        status = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
        (memory,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")]
        descriptors = await asyncio.to_thread(_descriptors, pid, str(self.rig.server.root))
        async with AsyncAdmin(self.rig.namesrv) as admin:
            told = await admin.timer_status()
            await self._read_letters(admin)
        late = [each for each in told.lateness_by_topic if each.topic == TIMER]
        p50_ms, p99_ms = (late[0].p50_ms, late[0].p99_ms) if late else (0, 0)
        sample = Sample(hour, life, memory * 1024, descriptors, p50_ms, p99_ms)
        self.result.samples.append(sample)
        if self._say is not None:
            self._say.warning(sample.line())

    async def _end(self) -> None:
        """Have everything come that is to come, and see that it is all."""
        self._sending.over.set()
        await asyncio.gather(*self._tasks)
        lasting = Lasting()
        async with AsyncAdmin(self.rig.namesrv) as admin:
            left, since_s = -1, time.monotonic()
            # whoever is behind is waited for as long as he gets on; timers may all be due at the end
            while time.monotonic() < since_s + self._most_delay_ms / 1000 / self._speed + SETTLE_S:
                await lasting(1.0)
                await self._read_letters(admin)
                before, left = left, self.ledger.missing() + (await admin.timer_status()).pending
                if left != before:
                    since_s = time.monotonic()
                if not left:
                    break
            self.result.wrong = self.ledger.wrong()
            for kind in KINDS:
                held = sum(part.max_offset for part in (await admin.topic_stats(kind)).queues)
                if held != self.ledger.shown(kind):
                    self.result.wrong.append(f"{kind}: {held:,} records for {self.ledger.shown(kind):,} messages")
        self.result.fates = self.ledger.fates()
        await self.rig.stop()
        self.result.wrong += [str(event.about["said"]) for event in self._recorder.events if event.op == "health"]

    async def _read_letters(self, admin: AsyncAdmin) -> None:
        """Count the dead letters that came since the last time."""
        topic = f"%DLQ%{FAILING}"
        with suppress(ClientError):
            for part in (await admin.topic_stats(topic)).queues:
                number = part.queue.queue_id
                offset = self._letters_read.get(number, part.min_offset)
                while offset < part.max_offset:
                    page = await admin.pull(topic, number, offset, 32)
                    for letter in page:
                        self.ledger.letters[int(read_body(letter.body)[0].partition("-")[2])] += 1
                    offset = self._letters_read[number] = page[-1].queue_offset + 1 if page else offset + 1

    # Senders.

    def _send(self) -> None:
        for kind, count in SENDERS.items():
            send = self._send_halves if kind == HALF else self._send_kind
            self._tasks += [asyncio.create_task(send(kind, number)) for number in range(count)]

    async def _send_kind(self, kind: str, sender: int) -> None:
        draws = random.Random(f"{self._seed} {kind} {sender}")
        pace = Pace(draws)
        producer = AsyncProducer(f"hours-{kind}", self.rig.namesrv, retries=0)
        self._opened.append(producer)
        while await self._sending(pace.wait_s()):
            number = self.ledger.begin(kind)
            more: dict[str, int | str] = {}
            if kind == LEVEL:
                more = {"delay_level": draws.choice(LEVELS)}
            elif kind == TIMER:
                more = {"delay_ms": draws.randint(1_000, self._most_delay_ms), "schedule_key": f"{kind}-{number}"}
            body = body_of(f"{kind}-{number}", 100 + number * 20 % 900)
            outcome = await _outcome(producer.send(kind, body, timeout_ms=SEND_TIMEOUT_MS, **more))
            self.ledger.sent(kind, number, outcome)
            if outcome != "ok":
                await self._sending(FAILED_PAUSE_S)
            elif kind == TIMER and draws.random() < 0.3:
                steered = await _outcome(
                    producer.timers.cancel(TIMER, f"{kind}-{number}", timeout_ms=SEND_TIMEOUT_MS), is_steer=True
                )
                self.ledger.due[kind][number] = {"ok": CANCELLED, "refused": DELIVERED, "unknown": OPEN}[steered]

    async def _send_halves(self, kind: str, sender: int) -> None:
        """Halves that are committed, rolled back, or left to the broker's questions."""
        draws = random.Random(f"{self._seed} {kind} {sender}")
        pace = Pace(draws)
        producer = AsyncTransactionProducer("hours-half", self.rig.namesrv, check=self._answer, retries=0)
        self._opened.append(producer)
        await producer.start()
        while await self._sending(pace.wait_s()):
            number = self.ledger.begin(kind)
            decision = draws.choice([Decision.COMMIT, Decision.COMMIT, Decision.ROLLBACK])
            self._answers[number] = decision
            if decision is Decision.ROLLBACK:
                self.ledger.due[kind][number] = ROLLED_BACK
            half = None
            try:
                half = await producer.send_half(
                    kind, prepare(body_of(f"{kind}-{number}", 200)), timeout_ms=SEND_TIMEOUT_MS
                )
                self.ledger.sent(kind, number, of_send(half))
            except ClientError as error:
                self.ledger.sent(kind, number, of_send(error))
                await self._sending(FAILED_PAUSE_S)
            if half is not None and draws.random() < 0.9:
                with suppress(ClientError):
                    await producer.end(half, decision, timeout_ms=SEND_TIMEOUT_MS)

    async def _answer(self, message: Message) -> Decision:
        return self._answers[int(read_body(message.body)[0].partition("-")[2])]

    # Readers.

    async def _read(self) -> None:
        push = AsyncConsumer(PUSHED, self.rig.namesrv, from_where="first")
        for kind, groups in READERS.items():
            if PUSHED in groups:
                push.subscribe(kind, "*", self._handler(PUSHED))
        failing = AsyncConsumer(FAILING, self.rig.namesrv, from_where="first", max_reconsume_times=RETRIES)
        failing.subscribe(POISON, "*", self._handler(FAILING))
        for consumer in (push, failing):
            await consumer.start()
            self._opened.append(consumer)
        self._readers = [asyncio.create_task(self._pop(kind)) for kind, groups in READERS.items() if POPPED in groups]

    def _handler(self, group: str) -> Callable[[Message], Awaitable[None]]:
        async def handle(message: Message) -> None:
            self.ledger.hand(group, message.body)
            if group == FAILING:
                raise ValueError("it fails each time")

        return handle

    async def _pop(self, kind: str) -> None:
        consumer = AsyncSimpleConsumer(POPPED, self.rig.namesrv)

        async def done(received: Received) -> None:
            self.ledger.hand(POPPED, received.message.body)
            with suppress(ClientError):
                await consumer.ack(received)

        self._opened.append(consumer)
        while not self._reading.over.is_set():
            try:
                received = await consumer.receive(kind, max_messages=32, invisible_ms=INVISIBLE_MS, wait_ms=500)
            except ClientError:
                await self._reading(0.2)
                continue
            await asyncio.gather(*map(done, received))


def _descriptors(pid: int, store: str) -> int:
    """Return how many descriptors a process has beside those of files of its store that are there.

    Of these there are as many as was written in the time of retention.
    """
    places = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            places.append(str(each.readlink()))
    return sum(not place.startswith(store) or place.endswith(" (deleted)") for place in places)


async def _outcome(work: Awaitable[SendResult | Steered], *, is_steer: bool = False) -> Outcome:
    judge = of_steer if is_steer else of_send
    try:
        return judge(await work)
    except ClientError as error:
        return judge(error)


def main() -> int:
    """Run it; 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.hours", description=__doc__)
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--speed", type=float, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL, format="%(message)s")
    say = logging.getLogger("hours")
    say.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)
    work = Path(tempfile.mkdtemp(prefix="escapement-hours-"))
    result = asyncio.run(Run(options.hours, options.speed, options.seed, work, say).live())
    sys.stdout.write(f"{result.line()}\n" + "".join(f"grown: {line}\n" for line in result.grown()))
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
