"""Who is connected to the broker, and those requests of the broker to its clients that wait for an answer.

`Clients` is the one owner of who is there: producers and consumers by group, and what each consumer group subscribes
to. Most requests to clients (39, 40, 220) are sent and forgotten. `ClientCalls` holds those that are answered, each
with a time of its own: what a consumer does, a reply that is handed to whoever waits for it.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from ..rocketmq.codes import ONEWAY_FLAG, Request
from ..rocketmq.frame import LANGUAGES, Command
from ..rocketmq.subscription import Subscription
from .connection import Connection

LONGEST_CLIENT_ID = 512


@dataclass(frozen=True, slots=True)
class Member:
    """One client of a group at the end of a connection."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int = 0
    """When its last heartbeat came."""


def language_of(said: str) -> str:
    """The language of a client as it is shown; any text may stand there, and an unknown one refuses nobody."""
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
        """Connected producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer(self, client_id: str) -> Member | None:
        """The client of that name, if it has registered as a producer."""
        return self._producer_ids.get(client_id)

    def all_producers(self) -> dict[str, list[Member]]:
        """Connected producers by group."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def consumers(self, group: str) -> ConsumerGroup | None:
        """The group, if any of its consumers is connected."""
        return self._consumers.get(group)

    def consumer_counts(self) -> dict[str, int]:
        """Group -> its connected consumers, of groups that have any."""
        return {name: len(group.members) for name, group in self._consumers.items() if group.members}

    def since_ms(self, connection: Connection) -> int | None:
        """When the first heartbeat of those that this connection is known by now came."""
        return self._since_ms.get(connection)

    def groups_of_topic(self, topic: str) -> Iterator[str]:
        """Connected groups that subscribe to a topic."""
        return (name for name, group in self._consumers.items() if topic in group.subscriptions)

    def add_producer(self, group: str, member: Member) -> None:
        """Registers (or refreshes) a producer."""
        self._producers.setdefault(group, {})[member.connection] = member
        self._producer_ids[member.client_id] = member
        self._note(member, ("producer", group))

    def add_consumer(
        self, group: ConsumerGroup, member: Member, subscriptions: list[Subscription], *, notify: bool
    ) -> bool:
        """Registers (or refreshes) a consumer with what its group subscribes to now; True if something changed."""
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
        """Unregisters one client from a group."""
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
        """Unregisters all that came over a connection that has ended."""
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
        """Tells the group's members, but not the cause, that it has changed: they share out the queues anew."""
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
    """All requests to clients that wait for their answers."""

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
        """Sends a request to a client. A client that does not read what it was sent is not asked."""
        if not connection.is_open or connection.is_paused or self._count >= MOST_WAITING:
            answered(None)
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        timer = get_running_loop().call_later(timeout_ms / 1000, self._end, connection, opaque, None)
        self._waiting.setdefault(connection, {})[opaque] = (timer, answered)
        self._count += 1
        connection.send(Command(code, ext, body, opaque=opaque, serialization=connection.serialization))

    def answer(self, connection: Connection, command: Command) -> None:
        """Takes a client's answer; one that nobody waits for is dropped."""
        self._end(connection, command.opaque, command)

    def remove_connection(self, connection: Connection) -> None:
        """Answers for a client that is gone."""
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
