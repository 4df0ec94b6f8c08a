"""What brokers of a cluster are filled with, and the console's pages that show it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import chain

from bench.furnishing import WINDOW, await_routes, create_groups, create_topics, each_of
from broker.client import AsyncAdmin, AsyncProducer, as_half, prepare

BODY = bytes(range(128))
SHARED, OWN, GROUP, HALF_GROUP = "Shared-{:04}", "{}-{:04}", "readers-{:02}", "deciders"
QUEUES = 2
LEVELS = (16, 18)
#: timers are due from one hour on, one a minute
FIRST_MS, APART_MS = 3_600_000, 60_000


@dataclass(frozen=True, slots=True)
class Size:
    """What each broker gets: topics (half of them shared by all), groups (all shared), messages that wait."""

    topics: int = 1_000
    groups: int = 50
    parked: int = 2_000
    timers: int = 2_000
    halves: int = 20

    @property
    def shared(self) -> list[str]:
        """The topics that all brokers have."""
        return [SHARED.format(number) for number in range(self.topics // 2)]

    def own(self, broker: str) -> list[str]:
        """Return the topics that one broker has alone."""
        return [OWN.format(broker, number) for number in range(self.topics // 2)]


FULL = Size()


def last_topic(broker: str, size: Size) -> str:
    """Return the topic that a broker got last."""
    return size.own(broker)[-1]


def topics_in_turn(brokers: list[str], size: Size) -> list[str]:
    """Return topics such that each broker gets its turn: a shared one after one of each broker's own."""
    rows = zip(*(size.own(broker) for broker in brokers), size.shared, strict=True)
    return list(chain.from_iterable(rows))


async def furnish(namesrv: str, brokers: list[str], size: Size) -> None:
    """Fill all brokers: topics and groups that they share, then what is of one alone, then progress of groups."""
    await create_topics(namesrv, size.shared, QUEUES)
    groups = [GROUP.format(number) for number in range(size.groups)]
    await create_groups(namesrv, groups)
    for broker in brokers:
        await create_topics(namesrv, size.own(broker), QUEUES, broker)
    await await_routes(namesrv, size.shared, brokers)
    async with AsyncProducer("furnish", namesrv) as producer:
        await each_of(size.shared, lambda topic: producer.send(topic, BODY, keys=["first"]))
        for broker in brokers:
            await fill(namesrv, broker, producer, size)
    async with AsyncAdmin(namesrv) as admin:
        for number, group in enumerate(groups):
            topic = size.shared[number % len(size.shared)]
            for broker in brokers:
                await admin.move_group(group, topic, 0, 0, broker=broker)


async def fill(namesrv: str, broker: str, producer: AsyncProducer, size: Size) -> None:
    """Fill one broker with what is its own."""
    own = size.own(broker)
    await await_routes(namesrv, own, [broker])
    await each_of(own, lambda topic: producer.send(topic, BODY, keys=["first"]))
    begin_ms = time.time_ns() // 1_000_000 + FIRST_MS
    parked = [prepare(BODY, delay_level=LEVELS[number % len(LEVELS)]) for number in range(size.parked)]
    due = [prepare(BODY, deliver_at_ms=begin_ms + number * APART_MS) for number in range(size.timers)]
    halves = [as_half(prepare(BODY), HALF_GROUP) for _ in range(size.halves)]
    for start in range(0, len(parked) + len(due) + len(halves), WINDOW):
        part = [*parked, *due, *halves][start : start + WINDOW]
        await asyncio.gather(*(producer.send_prepared(own[0], each) for each in part))


def pages(size: Size) -> dict[str, str]:
    """Return the main pages by name; what they show is on every broker."""
    topic, group = size.shared[0], GROUP.format(1)
    return {
        "overview": "/", "schedule": "/schedule/", "a delay level": f"/schedule/{LEVELS[0]}/", "timers": "/timers/",
        "list of timers": "/timers/list/", "transactions": "/transactions/",
        "open halves": "/transactions/list/?state=open", "topics": "/topics/", "topics found": "/topics/?search=-004",
        "topics further on": "/topics/?offset=200", "a topic": f"/topics/{topic}/", "a tail": f"/topics/{topic}/tail/",
        "groups": "/groups/", "a group": f"/groups/{group}/", "dead letters": "/dead-letters/", "clients": "/clients/",
        "messages": "/messages/", "found by key": f"/messages/?topic={topic}&q=first", "places": "/find/?q=Shared-00",
        "operations": "/operations/", "alerts": "/alerts/",
    }  # fmt: skip
