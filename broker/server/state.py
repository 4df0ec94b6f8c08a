"""The state that the processors of a broker share: connected clients, locks of queues, and offsets that were reset.

`Clients` alone knows who is connected: producers and consumers by group, and what each consumer group subscribes
to. Most requests to clients (39, 40, 220) are sent and forgotten. `ClientCalls` holds those that are answered, each
with a time of its own: what a consumer does, a reply that is handed to whoever waits for it.

`QueueLocks` is for orderly consumers: one client of a group at a time holds a queue, for 60 seconds from the last time
it asked.

`OffsetResets` are offsets that an administrator has set while consumers are at work. A consumer goes on from what it
remembers itself. So its next pull of the queue is answered with "go on there", and what it commits until then is not
taken: it is about messages from before. A pull that waits is answered at once.
"""

from __future__ import annotations

import math
from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from ..engine.config import EngineConfig
from ..engine.engine import Engine
from ..engine.errors import TopicNotFound
from ..engine.tables.groups import Group
from ..engine.tables.topics import Topic
from ..rocketmq.codes import ONEWAY_FLAG, Request
from ..rocketmq.frame import LANGUAGES, Command
from ..rocketmq.message import written_address
from ..rocketmq.subscription import Subscription
from .connection import Connection
from .long_polls import WaitingPulls
from .send_reply import Sends
from .statistics import Rates, Statistics

LONGEST_CLIENT_ID = 512


@dataclass(frozen=True, slots=True)
class Member:
    """A client of a group at the end of a connection."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int = 0
    """When its last heartbeat came."""


def language_of(said: str) -> str:
    """Return the language of a client as it is shown; any text may stand there, and an unknown one refuses nobody."""
    return said if said in LANGUAGES else "OTHER"


@dataclass(slots=True)
class ConsumerGroup:
    """The consumers of a group that are connected now."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[Connection, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def consume_as(self, said: ConsumerGroup) -> None:
        """Take over how a newer heartbeat says that the group consumes."""
        self.consume_type, self.message_model, self.from_where = said.consume_type, said.message_model, said.from_where

    def join(self, member: Member) -> bool:
        """Take in a member, or its newer heartbeat; return whether it was not there."""
        is_new = member.connection not in self.members
        self.members[member.connection] = member
        return is_new

    def subscribe(self, subscriptions: list[Subscription]) -> bool:
        """Subscribe to these topics and no others, each as its newest version says; return whether that is a change."""
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        changed = False
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or known.version < subscription.version:
                changed = changed or known is None or known.expression != subscription.expression
                self.subscriptions[topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in wanted]:
            del self.subscriptions[topic]
            changed = True
        return changed


class Clients:
    """The one owner of who is connected. `deserted` is called with a group whose last consumer has left."""

    def __init__(self, deserted: Callable[[str], None] = lambda _group: None) -> None:
        self._deserted = deserted
        self._producers: dict[str, dict[Connection, Member]] = {}
        self._producer_ids: dict[str, Member] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        self._of_connection: dict[Connection, set[tuple[str, str]]] = {}
        self._since_ms: dict[Connection, int] = {}

    def producers(self, group: str) -> list[Member]:
        """Return the connected producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer(self, client_id: str) -> Member | None:
        """Return the client of that id, if it has registered as a producer."""
        return self._producer_ids.get(client_id)

    def all_producers(self) -> dict[str, list[Member]]:
        """Return the connected producers by group."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def consumers(self, group: str) -> ConsumerGroup | None:
        """Return the group, if any of its consumers is connected."""
        return self._consumers.get(group)

    def consumer_counts(self) -> dict[str, int]:
        """Return the number of connected consumers of each group that has any."""
        return {name: len(group.members) for name, group in self._consumers.items() if group.members}

    def since_ms(self, connection: Connection) -> int | None:
        """Return when this connection, as it is known by now, sent its first heartbeat."""
        return self._since_ms.get(connection)

    def groups_of_topic(self, topic: str) -> Iterator[str]:
        """Return the connected groups that subscribe to a topic."""
        return (name for name, group in self._consumers.items() if topic in group.subscriptions)

    def add_producer(self, group: str, member: Member) -> None:
        """Register a producer, or take in its newer heartbeat."""
        self._producers.setdefault(group, {})[member.connection] = member
        self._producer_ids[member.client_id] = member
        self._note(member, ("producer", group))

    def add_consumer(
        self, group: ConsumerGroup, member: Member, subscriptions: list[Subscription], *, notify: bool
    ) -> bool:
        """Register a consumer with what its group subscribes to now; return whether something changed."""
        known = self._consumers.get(group.name)
        if known is None:
            known = self._consumers[group.name] = group
        known.consume_as(group)
        is_new = known.join(member)
        self._note(member, ("consumer", group.name))
        changed = known.subscribe(subscriptions)
        if notify and (is_new or changed):
            # The newcomer too: its own first round may have come before the retry topic had a route.
            self._notify(known, None)
        return is_new or changed

    def _note(self, member: Member, membership: tuple[str, str]) -> None:
        self._of_connection.setdefault(member.connection, set()).add(membership)
        self._since_ms.setdefault(member.connection, member.seen_ms)

    def remove(self, connection: Connection, kind: str, group: str, *, notify: bool = True) -> None:
        """Unregister one client from a group."""
        memberships = self._of_connection.get(connection)
        if memberships is None or (kind, group) not in memberships:
            return
        memberships.discard((kind, group))
        if not memberships:
            del self._of_connection[connection]
            del self._since_ms[connection]
        if kind == "producer":
            self._drop_producer(connection, group)
        else:
            self._drop_consumer(connection, group, notify)

    def remove_connection(self, connection: Connection) -> None:
        """Unregister everybody that came over a connection that has ended."""
        for kind, group in list(self._of_connection.get(connection, ())):
            self.remove(connection, kind, group)

    def _drop_producer(self, connection: Connection, group: str) -> None:
        members = self._producers[group]
        member = members.pop(connection, None)
        if not members:
            del self._producers[group]
        is_left = any(kind == "producer" for kind, _ in self._of_connection.get(connection, ()))
        if member is not None and not is_left:
            named = self._producer_ids.get(member.client_id)
            if named is not None and named.connection is connection:
                del self._producer_ids[member.client_id]

    def _drop_consumer(self, connection: Connection, name: str, notify: bool) -> None:
        group = self._consumers[name]
        del group.members[connection]
        if not group.members:
            del self._consumers[name]
            self._deserted(name)
        if notify:
            self._notify(group, connection)

    def _notify(self, group: ConsumerGroup, cause: Connection | None) -> None:
        """Tell the group's members, but not the cause, that it has changed: they share out the queues anew."""
        for member in group.members.values():
            if member.connection is not cause:
                member.connection.send(
                    Command(
                        Request.NOTIFY_CONSUMER_IDS_CHANGED,
                        {"consumerGroup": group.name},
                        flag=ONEWAY_FLAG,
                        serialization=member.connection.serialization,
                    )
                )


# Requests to clients that wait for an answer.

MOST_WAITING = 10_000
"""Requests without an answer yet; one more is answered as if its client said nothing."""

Answered = Callable[[Command | None], None]
"""Called once: with the client's answer, or None if there was none in time or the connection ended."""


class ClientCalls:
    """The requests to clients that wait for an answer."""

    def __init__(self) -> None:
        self._opaques = count(1)
        self._waiting: dict[Connection, dict[int, tuple[TimerHandle, Answered]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def ask(
        self,
        connection: Connection,
        code: int,
        ext: dict[str, str],
        body: bytes,
        timeout_ms: int,
        answered: Answered,
    ) -> None:
        """Send a request to a client. One that does not read what it was sent is not asked."""
        if not connection.is_open or connection.is_paused or self._count >= MOST_WAITING:
            answered(None)
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        timer = get_running_loop().call_later(timeout_ms / 1000, self._end, connection, opaque, None)
        self._waiting.setdefault(connection, {})[opaque] = (timer, answered)
        self._count += 1
        connection.send(Command(code, ext, body, opaque=opaque, serialization=connection.serialization))

    def answer(self, connection: Connection, command: Command) -> None:
        """Take a client's answer; one that nobody waits for is dropped."""
        self._end(connection, command.opaque, command)

    def remove_connection(self, connection: Connection) -> None:
        """Give up the requests to a client that is gone."""
        for opaque in list(self._waiting.get(connection, ())):
            self._end(connection, opaque, None)

    def _end(self, connection: Connection, opaque: int, command: Command | None) -> None:
        calls = self._waiting.get(connection, {})
        if opaque not in calls:
            return
        timer, answered = calls.pop(opaque)
        if not calls:
            del self._waiting[connection]
        self._count -= 1
        timer.cancel()
        answered(command)


LOCK_LIFE_MS = 60_000
"""REBALANCE_LOCK_MAX_LIVE_TIME of RocketMQ; clients ask again every 20 s."""

QueueKey = tuple[str, int]


class OffsetResets:
    """The groups that are to be told where to go on, by (topic, queue id)."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[QueueKey, int]] = {}

    def set(self, group: str, queue: QueueKey, offset: int) -> None:
        """Have the group's next pull of this queue told to go on at `offset`."""
        self._by_group.setdefault(group, {})[queue] = offset

    def has(self, group: str, queue: QueueKey) -> bool:
        """Tell whether the group was not told yet: what it commits is out of date."""
        return bool(self._by_group) and queue in self._by_group.get(group, ())

    def take(self, group: str, queue: QueueKey) -> int | None:
        """Return where the group is to go on, the first time it is asked for; else None."""
        if not self._by_group:
            return None
        queues = self._by_group.get(group)
        if queues is None or queue not in queues:
            return None
        offset = queues.pop(queue)
        if not queues:
            del self._by_group[group]
        return offset

    def forget(self, group: str) -> None:
        """Tell the group nothing any more: its consumers are gone, and new ones begin with what is stored."""
        self._by_group.pop(group, None)


class QueueLocks:
    """The queues that clients of groups hold, by (topic, queue id)."""

    def __init__(self) -> None:
        self._held: dict[str, dict[QueueKey, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: list[QueueKey], now_ms: int) -> list[QueueKey]:
        """Take (or keep) what is free or expired; return the queues that this client holds now."""
        if not queues:
            return []
        held = self._held.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since_ms = held.get(queue, (client_id, now_ms))
            if owner == client_id or now_ms - since_ms > LOCK_LIFE_MS:
                held[queue] = (client_id, now_ms)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: list[QueueKey]) -> None:
        """Give back those of the queues that this client holds."""
        held = self._held.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
        if not held:
            self._held.pop(group, None)

    def has_live_locks(self, group: str, now_ms: int) -> bool:
        """Tell whether any queue is held by a consumer of the group: it consumes in order."""
        return any(now_ms - since_ms <= LOCK_LIFE_MS for _, since_ms in self._held.get(group, {}).values())

    def held(self, group: str, now_ms: int) -> list[tuple[QueueKey, str]]:
        """Return the queues of the group that are held now, and by whom."""
        return sorted(
            (queue, owner)
            for queue, (owner, since_ms) in self._held.get(group, {}).items()
            if now_ms - since_ms <= LOCK_LIFE_MS
        )


@dataclass(slots=True, kw_only=True)
class BrokerState:
    """The state of a broker: its engine, connected clients, waiting requests, and holders of queues."""

    engine: Engine
    config: EngineConfig
    clock: Callable[[], int]
    """The broker's clock: what is stored and falls due (clock.py)."""
    live_clock: Callable[[], int]
    """The live clock: what is between living processes."""
    waiting: WaitingPulls
    started_ms: int
    hurry: Callable[[], None]
    """To be called after a handler made something due, or appended it outside of a request."""
    kick: Callable[[], None]
    """To be called after something was noted outside of a request that is to be written."""
    at_rest: Callable[[Callable[[], None]], None]
    """Calls when the upkeep that is under way has ended."""
    may_send: Callable[[Connection, str], bool]
    """Whether who is at the other end of a connection may send to a topic."""
    registered: Callable[[], Mapping[str, bool]] = dict
    """The name servers where the broker registers, and whether each has its registration."""
    speed: float | None = None
    """How fast the broker's clock runs, if it is simulated."""
    clients: Clients = field(init=False)
    locks: QueueLocks = field(default_factory=QueueLocks)
    rates: Rates = field(default_factory=Rates)
    calls: ClientCalls = field(default_factory=ClientCalls)
    resets: OffsetResets = field(default_factory=OffsetResets)
    sends: Sends = field(default_factory=Sends)
    statistics: Statistics = field(init=False)

    def __post_init__(self) -> None:
        self.clients = Clients(deserted=self.resets.forget)
        self.statistics = Statistics(self.config.cluster_name, self.started_ms)
        self.statistics.begin(self.engine.topics.all(), self.engine.queue_growth)

    def use_settings(self, config: EngineConfig) -> None:
        """Go on with settings that were changed while the broker runs."""
        self.config = config

    def group(self, name: str) -> Group:
        """Return the group that somebody consumes as; it is made if it is new, unless the setting says that only
        administrators make groups. Raises GroupNotFound, InvalidGroupName, OSError."""
        return self.engine.groups.find(name, may_make=self.config.auto_create_groups)

    def topic(self, name: str) -> Topic:
        """Return the topic of that name; raises TopicNotFound."""
        topic = self.engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    @property
    def live_ms(self) -> Callable[[int], int] | None:
        """A function that tells when by the live clock a moment of the broker's clock comes; None where they are the
        same."""
        clock, live_clock, speed = self.clock, self.live_clock, self.speed
        if speed is None:
            return None
        return lambda moment_ms: live_clock() + max(0, math.ceil((moment_ms - clock()) / speed))

    @property
    def address(self) -> str:
        """The address that clients are told to connect to."""
        return written_address(self.config.host, self.config.port)
