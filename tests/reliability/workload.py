"""What clients do while things are done to the broker: every kind of message, every kind of consumer.

Each sender sends one message after the other and never twice: a message whose send ended in no answer may be there
once, or not at all. Whoever reads is a member of a group that is to get everything of its topics.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    BrokerRefused,
    ClientError,
    Decision,
    InvalidArgument,
    Message,
    NotHeld,
    RouteNotFound,
    SendResult,
    prepare,
)
from broker.client.errors import BadAnswer
from broker.client.timers import Steered
from tests.reliability.checker import MOVED
from tests.reliability.history import Outcome, Recorder, body_of, now_ms, read_body
from tests.reliability.java_clients import JavaClients
from tests.reliability.rig import Lasting

PLAIN, LEVELS, TIMERS, KEYS, FAR, FAR_KEYS, HALVES, ORDERED, POISON = (
    f"life-{name}" for name in ("plain", "levels", "timers", "keys", "far", "far-keys", "halves", "ordered", "poison")
)
TOPICS = (PLAIN, LEVELS, TIMERS, KEYS, FAR, FAR_KEYS, HALVES, ORDERED, POISON)
SEND_TIMEOUT_MS = 2_000
#: A sender that failed waits before it goes on.
FAILED_PAUSE_S = 0.2
INVISIBLE_MS = 5_000
FAR_MS = 30 * 3_600_000
MOST_DELAY_MS = 5_000
#: Tries of what fails at each: the first, and so many retries.
RETRIES = 2
#: A member that comes and goes is away and there for so long; queues have moved so long after.
AWAY_S, THERE_S = (0.5, 3.0), (1.0, 5.0)
MOVED_MS = 2_000
SHARDS = 4
QUEUES = 4


def of_send(result: SendResult | Exception | Any) -> Outcome:
    """How a send ended: nothing was stored where it was refused; less than SEND_OK promises nothing."""
    if isinstance(result, BrokerRefused | InvalidArgument | RouteNotFound):
        return "refused"
    if isinstance(result, ClientError):
        return "unknown"
    if isinstance(result, Exception):
        raise result
    return "ok" if getattr(result, "status", "SEND_OK") == "SEND_OK" else "unknown"


def of_steer(result: Steered | Exception) -> Outcome:
    """How a cancel or move by key ended."""
    if isinstance(result, Steered):
        return "ok" if result.outcome in ("cancelled", "rescheduled", "delivered_now") else "refused"
    return of_send(result)


class Clients:
    """All clients of one run."""

    def __init__(self, namesrv: str, recorder: Recorder, seed: int, *, knows_keys: bool, members: int = 1) -> None:
        self._namesrv, self._recorder, self._seed, self._knows_keys = namesrv, recorder, seed, knows_keys
        self._members = members
        self._lasting = Lasting()
        self._reading = Lasting()
        self._senders: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []
        self._opened: list[Any] = []
        self._java: JavaClients | None = None
        #: what the producer of halves says of each when it is asked, one after the other; the last one always
        self._answers: dict[str, list[str]] = {}
        #: until when a timer may come, by the machine's clock where nobody steps the broker's
        self.last_due_ms = 0

    async def prepare(self) -> None:
        """Make the topics, and note who is to get what."""
        async with AsyncAdmin(self._namesrv) as admin:
            for topic in TOPICS:
                await admin.create_topic(topic, queues=QUEUES)
        for group, topics in {
            "life-push": (PLAIN, LEVELS, TIMERS, KEYS, HALVES), "life-pop": (PLAIN, TIMERS, HALVES),
            "life-orderly": (ORDERED,), "life-failing": (POISON,),
        }.items():  # fmt: skip
            for topic in topics:
                self._recorder.note("rig", "reader", group, topic=topic)
        self._recorder.note("rig", "letters", "life-failing", attempts=RETRIES + 1)

    async def start_java(self, work: Path) -> None:
        """Have the official clients take part."""
        self._java = JavaClients(self._namesrv, PLAIN, self._recorder, self._seed, work)
        await self._java.start()

    def collect(self) -> None:
        """Note what clients in other processes have got."""
        if self._java is not None:
            self._java.collect()

    async def start(self) -> None:
        """Begin to read and to send."""
        await self._start_readers()
        sends: dict[str, Callable[[str, AsyncProducer, random.Random], Awaitable[None]]] = {
            "plain-1": self._send_plain, "plain-2": self._send_plain, "level": self._send_level,
            "timer": self._send_timer, "far": self._send_far, "poison": self._send_poison,
        }  # fmt: skip
        if self._knows_keys:
            sends |= {"key": self._send_key, "far-key": self._send_far_key}
        for name, send in sends.items():
            self._senders.append(asyncio.create_task(self._repeat(name, send)))
        for shard in range(SHARDS):
            self._senders.append(asyncio.create_task(self._send_shard(f"shard-{shard}")))
        self._senders.append(asyncio.create_task(self._send_halves()))
        if self._java is not None:
            self._senders.append(asyncio.create_task(self._java.send(self._lasting)))

    async def stop_sending(self) -> None:
        """Let every sender finish what it has begun."""
        self._lasting.over.set()
        while begun := [task for task in self._senders if not task.done()]:
            await asyncio.gather(*begun)
        for task in self._senders:
            task.result()

    async def close(self) -> None:
        """End readers and all connections."""
        self._lasting.over.set()
        self._reading.over.set()
        await asyncio.gather(*self._senders, *self._readers, return_exceptions=True)
        if self._java is not None:
            self._java.end()
        for each in reversed(self._opened):
            with suppress(ClientError):
                await each.close()

    # Senders.

    async def _repeat(self, name: str, send: Callable[[str, AsyncProducer, random.Random], Awaitable[None]]) -> None:
        draws = random.Random(f"{self._seed} {name}")
        producer = AsyncProducer(f"life-{name}", self._namesrv, retries=0)
        self._opened.append(producer)
        pause_s = 0.15 if name in ("poison", "far", "far-key") else 0.03
        number = 0
        while await self._lasting(draws.uniform(0, 2 * pause_s)):
            number += 1
            await send(f"{name}-{number}", producer, draws)

    async def _send(self, name: str, producer: AsyncProducer, kind: str, topic: str, **more: Any) -> SendResult | None:
        """Send one message and note it; `more`: options of the send, and what the checker is to know."""
        noted = {each: more.pop(each) for each in ("due_ms", "shard", "number") if each in more}
        if "delay_ms" in more:
            noted["delay_ms"] = more["delay_ms"]
        if "delay_level" in more:
            noted["delay_ms"] = (1_000, 2_000, 3_000)[more["delay_level"] - 1]
        body = body_of(name, len(name) * 20 % 900)
        work = producer.send(topic, body, timeout_ms=SEND_TIMEOUT_MS, **more)
        client = name.rpartition("-")[0]
        sent = await self._recorder.call(client, "send", name, work, of_send, kind=kind, topic=topic, **noted)
        if sent is None:
            await self._lasting(FAILED_PAUSE_S)
        return sent

    async def _send_plain(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        await self._send(name, producer, "plain", PLAIN)

    async def _send_level(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        await self._send(name, producer, "level", LEVELS, delay_level=draws.randint(1, 3))

    async def _send_timer(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        """A timer by delay or moment; a third is recalled sooner or later."""
        delay_ms = draws.randint(100, MOST_DELAY_MS)
        is_recalled, after_s = draws.random() < 0.35, draws.uniform(0, delay_ms / 800)
        timing: dict[str, int] = {"delay_ms": delay_ms}
        if draws.random() < 0.3:
            due_ms = now_ms() + delay_ms
            timing = {"due_ms": due_ms, "deliver_at_ms": due_ms}
        self._note_due(delay_ms)
        sent = await self._send(name, producer, "timer", TIMERS, **timing)
        if sent is not None and sent.recall_handle and is_recalled:
            self._later(after_s, self._recall(name, producer, TIMERS, sent.recall_handle))

    async def _recall(self, name: str, producer: AsyncProducer, topic: str, handle: str) -> None:
        work = producer.recall(topic, handle, timeout_ms=SEND_TIMEOUT_MS)
        await self._recorder.call("recall", "cancel", name, work, of_send)

    async def _send_key(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        """A timer under a key; some are moved, some cancelled."""
        delay_ms, what = draws.randint(500, MOST_DELAY_MS), draws.random()
        after_s, again_ms = draws.uniform(0, delay_ms / 800), draws.randint(100, MOST_DELAY_MS)
        self._note_due(delay_ms + again_ms)
        sent = await self._send(name, producer, "timer", KEYS, delay_ms=delay_ms, schedule_key=name)
        if sent is None or what > 0.6:
            return
        timers = producer.timers
        if what < 0.3:
            work: Awaitable[Any] = timers.cancel(KEYS, name, timeout_ms=SEND_TIMEOUT_MS)
            self._later(after_s, self._recorder.call("cancel", "cancel", name, work, of_steer))
        else:
            work = timers.move(KEYS, name, delay_ms=again_ms, timeout_ms=SEND_TIMEOUT_MS)
            self._later(after_s, self._recorder.call("move", "move", name, work, of_steer, delay_ms=again_ms))

    async def _send_far(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        sent = await self._send(name, producer, "far", FAR, delay_ms=FAR_MS)
        if sent is not None and sent.recall_handle and draws.random() < 0.3:
            self._later(draws.uniform(0, 2), self._recall(name, producer, FAR, sent.recall_handle))

    async def _send_far_key(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        sent = await self._send(name, producer, "far", FAR_KEYS, delay_ms=FAR_MS, schedule_key=name)
        if sent is not None and draws.random() < 0.4:
            work = producer.timers.cancel(FAR_KEYS, name, timeout_ms=SEND_TIMEOUT_MS)
            self._later(draws.uniform(0, 2), self._recorder.call("cancel", "cancel", name, work, of_steer))

    async def _send_poison(self, name: str, producer: AsyncProducer, draws: random.Random) -> None:
        await self._send(name, producer, "poison", POISON)

    async def _send_shard(self, shard: str) -> None:
        draws = random.Random(f"{self._seed} {shard}")
        producer = AsyncProducer("life-ordered", self._namesrv, retries=0)
        self._opened.append(producer)
        number = 0
        while await self._lasting(draws.uniform(0, 0.08)):
            number += 1
            about = {"shard": shard, "number": number}
            await self._send(f"{shard}-{number}", producer, "ordered", ORDERED, sharding_key=shard, **about)

    async def _send_halves(self) -> None:
        """Halves that are committed, rolled back, or left to the broker's questions."""
        draws = random.Random(f"{self._seed} halves")
        producer = AsyncTransactionProducer("life-halves", self._namesrv, check=self._answer, retries=0)
        self._opened.append(producer)
        await producer.start()
        number = 0
        while await self._lasting(draws.uniform(0, 0.08)):
            number += 1
            name = f"half-{number}"
            says = draws.choices(["commit", "rollback", "later"], [0.5, 0.25, 0.25])[0]
            final = draws.choice(["commit", "rollback"]) if says == "later" else says
            self._answers[name] = ["unknown"] * draws.randint(0, 2) + [final] if says == "later" else [final]
            work = producer.send_half(HALVES, prepare(body_of(name, 200)), timeout_ms=SEND_TIMEOUT_MS)
            half = await self._recorder.call("half", "send", name, work, of_send, kind="half", topic=HALVES)
            if half is None:
                await self._lasting(FAILED_PAUSE_S)
            if half is None or says == "later":
                continue
            decision = Decision.COMMIT if says == "commit" else Decision.ROLLBACK
            await self._lasting(draws.uniform(0, 0.05))
            ended = producer.end(half, decision, timeout_ms=SEND_TIMEOUT_MS)
            await self._recorder.call("half", "decide", name, ended, _of_decision, said=says)

    async def _answer(self, message: Message) -> Decision:
        name, _ = read_body(message.body)
        answers = self._answers.get(name, ["rollback"])
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        self._recorder.note("half", "check", name, said=said)
        return {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK, "unknown": Decision.UNKNOWN}[said]

    def _note_due(self, delay_ms: int) -> None:
        self.last_due_ms = max(self.last_due_ms, now_ms() + delay_ms)

    def _later(self, seconds: float, work: Awaitable[Any]) -> None:
        """Do something after a while, or at once when sending ends."""

        async def wait() -> None:
            await self._lasting(seconds)
            await work

        self._senders.append(asyncio.create_task(wait()))

    # Readers.

    async def _start_readers(self) -> None:
        await self._join()
        for number in range(1, self._members):
            self._readers.append(asyncio.create_task(self._come_and_go(random.Random(f"{self._seed} member {number}"))))
        for topic in (PLAIN, TIMERS, HALVES) * self._members:
            self._readers.append(asyncio.create_task(self._pop(topic)))

    async def _join(self) -> list[AsyncConsumer]:
        """Have one more member in each group that is pushed to."""
        push = AsyncConsumer("life-push", self._namesrv, from_where="first")
        for topic in (PLAIN, LEVELS, TIMERS, KEYS, HALVES):
            push.subscribe(topic, "*", self._handler("life-push"))
        orderly = AsyncConsumer("life-orderly", self._namesrv, from_where="first", orderly=True)
        orderly.subscribe(ORDERED, "*", self._handler("life-orderly"))
        failing = AsyncConsumer("life-failing", self._namesrv, from_where="first", max_reconsume_times=RETRIES)
        failing.subscribe(POISON, "*", self._handler("life-failing", fails=True))
        for consumer in (push, orderly, failing):
            self._opened.append(consumer)
            await consumer.start()
        return [push, orderly, failing]

    async def _come_and_go(self, draws: random.Random) -> None:
        """Be a member of these groups from time to time, as long as there are senders; at the end they are."""
        while await self._lasting(draws.uniform(*AWAY_S)):
            async with self._queues_move():
                mine = await self._join()
            if not await self._lasting(draws.uniform(*THERE_S)):
                return
            async with self._queues_move():
                for consumer in mine:
                    self._opened.remove(consumer)
                    with suppress(ClientError):
                        await consumer.close()

    @asynccontextmanager
    async def _queues_move(self) -> AsyncIterator[None]:
        """Note that members take queues from one another, until they have them."""
        begin_ms = now_ms()
        yield
        self._recorder.note("rig", "fault", MOVED, call_ms=begin_ms, answer_ms=now_ms() + MOVED_MS)

    def _handler(self, group: str, *, fails: bool = False) -> Callable[[Message], Awaitable[None]]:
        async def handle(message: Message) -> None:
            self._hand(group, message, message.reconsume_times)
            if fails:
                raise ValueError("it fails each time")

        return handle

    def _hand(self, group: str, message: Message, attempt: int, call_ms: int | None = None) -> str:
        name, intact = read_body(message.body)
        self._recorder.note(
            group, "hand", name, call_ms=call_ms, group=group, topic=message.topic, queue=message.queue_id,
            offset=message.queue_offset, attempt=attempt, store_ms=message.store_ms, intact=intact,
        )  # fmt: skip
        return name

    async def _pop(self, topic: str) -> None:
        consumer = AsyncSimpleConsumer("life-pop", self._namesrv)
        self._opened.append(consumer)
        while not self._reading.over.is_set():
            call_ms = now_ms()
            try:
                received = await consumer.receive(topic, invisible_ms=INVISIBLE_MS, wait_ms=500)
            except ClientError:
                await self._reading(0.2)
                continue
            for each in received:
                name = self._hand("life-pop", each.message, each.attempt - 1, call_ms)
                place = {"topic": topic, "queue": each.message.queue_id, "offset": each.message.queue_offset}
                work = consumer.ack(each)
                await self._recorder.call("life-pop", "ack", name, work, _of_ack, group="life-pop", **place)


def _of_ack(result: object) -> Outcome:
    return "refused" if isinstance(result, NotHeld) else of_send(result)


def _of_decision(result: object) -> Outcome:
    """A decision that was refused may have been taken by a check before."""
    return "unknown" if isinstance(result, ClientError) else of_send(result)


async def read_topics(namesrv: str, recorder: Recorder, *, knows_keys: bool) -> None:
    """Note what every topic holds at the end, and what still waits."""
    async with AsyncAdmin(namesrv) as admin:
        for topic in (*TOPICS, "%DLQ%life-failing"):
            with suppress(RouteNotFound):
                await _read_topic(admin, recorder, topic)
        if knows_keys:
            waiting = await admin.timers(0, now_ms() + 10 * FAR_MS, topic=FAR_KEYS, limit=1_000)
            for timer in waiting.items:
                recorder.note("reader", "pending", str(timer.schedule_key))
        counts = {metric.topic: metric.count for metric in await admin.timer_metrics()}
        recorder.note("reader", "count", FAR, waiting=counts.get(FAR, 0))


async def _read_topic(admin: AsyncAdmin, recorder: Recorder, topic: str) -> None:
    for part in (await admin.topic_stats(topic)).queues:
        offset = part.min_offset
        while offset < part.max_offset:
            page = await _page(admin, recorder, topic, part.queue.queue_id, offset)
            for message in page:
                name, intact = read_body(message.body)
                recorder.note(
                    "reader", "stored", name, topic=topic, queue=part.queue.queue_id, offset=message.queue_offset,
                    store_ms=message.store_ms, intact=intact,
                )  # fmt: skip
            offset = page[-1].queue_offset + 1 if page else offset + 1


async def _page(admin: AsyncAdmin, recorder: Recorder, topic: str, queue_id: int, offset: int) -> list[Message]:
    """Messages from here on; where one cannot be read that is noted, and it is passed by."""
    with suppress(BadAnswer):
        return await admin.pull(topic, queue_id, offset, 32)
    try:
        return await admin.pull(topic, queue_id, offset, 1)
    except BadAnswer as error:
        recorder.note("reader", "health", f"{topic} {queue_id} {offset}", said=str(error)[:160])
        return []
