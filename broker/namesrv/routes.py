"""The table of routes: which brokers there are, and who has which topic (RouteInfoManager of RocketMQ).

    cluster ─ broker name ─ broker id ─ address ─ version of its topics, when it was last heard of, its connection
                   └─ topic ─ queues, permission

A broker name is one store: the master has id 0, slaves have others. Topics are the master's word; a slave's are taken
only while no broker of that name has a lower id, and then, if it may stand in for the master, without the permission
to write. A broker leaves when it says so, when the connection over which it registered ends, or when nothing was heard
of it for too long; with the last of a name its topics go.

The *resident* is the broker in the same process: a registration that never expires and is always up to date, because
its topics are asked for and not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ..rocketmq.codes import Answer
from ..rocketmq.errors import InvalidValue, RequestRefused
from .registration import MASTER_ID, WRITE, DataVersion, QueueData, Registration

logger = logging.getLogger(__name__)

MOST_BROKERS = 1_024
"""Brokers of all names, masters and slaves."""

MOST_ENTRIES = 200_000
"""Topics of all broker names together: one that two of them have counts twice."""


class Peer(Protocol):
    """The connection over which a broker registered."""

    address: str

    def close(self) -> None:
        """End it once what was written is sent."""


class Resident(Protocol):
    """The broker in the same process. It has the topics of the moment at which it is asked."""

    @property
    def cluster(self) -> str:
        """The name of its cluster."""

    @property
    def broker_name(self) -> str:
        """The name of the broker."""

    @property
    def broker_id(self) -> int:
        """0 for a master."""

    @property
    def address(self) -> str:
        """The address that clients are told."""

    def queues(self, topic: str) -> QueueData | None:
        """Return what it has of a topic, None if nothing."""

    def topics(self) -> Iterable[str]:
        """Return the names of all its topics."""


@dataclass(slots=True)
class BrokerGroup:
    """The brokers of one name."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    is_acting_enabled: bool = False
    is_wiped: bool = False
    """Whether routes say that nothing may be written to it (205), until 327 or until its last broker has left."""
    topics: set[str] = field(default_factory=set)

    @property
    def least_id(self) -> int | None:
        """The id of the master or else of the slave that comes first."""
        return min(self.addresses, default=None)


class Place(NamedTuple):
    """A broker's place among those that are alive (BrokerAddrInfo)."""

    cluster: str
    address: str


@dataclass(slots=True)
class Alive:
    """A broker that is alive."""

    broker_name: str
    broker_id: int
    version: DataVersion
    heard_ms: int
    timeout_ms: int
    peer: Peer
    ha_address: str
    filter_servers: tuple[str, ...]


class Master(NamedTuple):
    """Where the master of a name is, as its slaves are told; empty if there is none."""

    ha_address: str = ""
    address: str = ""


class RouteTable:
    """The one owner of who is registered."""

    def __init__(self, resident: Resident | None = None) -> None:
        self._resident = resident
        self._groups: dict[str, BrokerGroup] = {}
        self._alive: dict[Place, Alive] = {}
        self._of_peer: dict[Peer, set[Place]] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._entries = 0
        if resident is not None:
            addresses = {resident.broker_id: resident.address}
            self._groups[resident.broker_name] = BrokerGroup(resident.cluster, resident.broker_name, addresses)

    def __len__(self) -> int:
        """Return the number of brokers that have registered."""
        return len(self._alive)

    # What is known.

    def groups(self) -> list[BrokerGroup]:
        """Return the brokers by name, in the order of their names."""
        return [self._groups[name] for name in sorted(self._groups)]

    def group(self, name: str) -> BrokerGroup | None:
        """Return the brokers of a name, None if there are none."""
        return self._groups.get(name)

    def route(self, topic: str) -> list[tuple[BrokerGroup, QueueData]]:
        """Return who has a topic, the resident first; the permission is as routes tell it."""
        found = list(self._queues.get(topic, {}).values())
        if self._resident is not None and (own := self._resident.queues(topic)) is not None:
            found.insert(0, own)
        return [(group, _told(group, queues)) for queues in found if (group := self._groups.get(queues.broker_name))]

    def topics(self, cluster: str | None = None) -> set[str]:
        """Return the names of all topics, or of those that a cluster has."""
        resident = self._resident
        own = set(resident.topics()) if resident is not None and cluster in (None, resident.cluster) else set()
        if cluster is None:
            return own | self._queues.keys()
        return own.union(*(group.topics for group in self._groups.values() if group.cluster == cluster))

    def flags(self) -> Iterator[tuple[str, int]]:
        """Return each topic with the system flag that the first who has it says."""
        for topic in self.topics():
            route = self.route(topic)
            if route:
                yield topic, route[0][1].system_flag

    def filter_servers(self, group: BrokerGroup) -> dict[str, list[str]]:
        """Return the filter servers of a name's brokers by address, of those that have any."""
        alive = ((address, self._alive.get(Place(group.cluster, address))) for address in group.addresses.values())
        return {address: list(one.filter_servers) for address, one in alive if one is not None and one.filter_servers}

    def version(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version of the topics that a broker registered last, None if it is not there."""
        alive = self._alive.get(Place(cluster, address))
        return None if alive is None else alive.version

    # Brokers that come, stay and leave.

    def register(self, new: Registration, peer: Peer, now_ms: int) -> Master:
        """Take a registration and return where the broker's master is. Raises RequestRefused, InvalidValue; then
        nothing has changed."""
        group = self._groups.get(new.broker_name)
        if self._is_resident(new):
            return Master()
        self._check(new, group)
        place = Place(new.cluster, new.address)
        before = self._alive.get(place)
        if before is not None and (before.broker_name, before.broker_id) != (new.broker_name, new.broker_id):
            self._remove(place, keeps=new.broker_name)
        if group is None:
            group = self._groups[new.broker_name] = BrokerGroup(new.cluster, new.broker_name)
        was_there = group.addresses.get(new.broker_id)
        if was_there is not None and was_there != new.address:
            logger.warning(
                "broker %s (id %d) at %s takes the place of %s", new.broker_name, new.broker_id, new.address, was_there
            )
            self._forget(Place(new.cluster, was_there))
        group.addresses[new.broker_id] = new.address
        group.is_acting_enabled = bool(new.is_acting_enabled)
        self._take_topics(group, new, is_known=was_there is not None and before is not None)
        self._note(place, new, peer, now_ms, is_new=before is None)
        return Master() if new.is_master else self._master_of(group)

    def _is_resident(self, new: Registration) -> bool:
        """Tell whether it is the resident who registers, as one of a list of name services; it is here already."""
        own = self._resident
        return own is not None and (own.broker_name, own.broker_id, own.address) == (
            new.broker_name, new.broker_id, new.address,
        )  # fmt: skip

    def _check(self, new: Registration, group: BrokerGroup | None) -> None:
        own = self._resident
        if own is not None and own.address == new.address:
            raise InvalidValue("The address", f"{new.address} is that of broker {own.broker_name} beside this service")
        if own is not None and (own.broker_name, own.broker_id) == (new.broker_name, new.broker_id):
            raise InvalidValue(
                "The broker",
                f"{new.broker_name} with id {new.broker_id} is the one beside this name service ({own.address}): give "
                "the other one another name or id",
            )
        if group is not None and group.cluster != new.cluster:
            raise InvalidValue("The broker", f"{new.broker_name} is one of cluster {group.cluster}, not {new.cluster}")
        if Place(new.cluster, new.address) not in self._alive and len(self._alive) >= MOST_BROKERS:
            raise InvalidValue("The broker", f"is one more than allowed: {MOST_BROKERS:,} have registered")
        known = group.topics if group is not None else set()
        if self._entries + len(new.topics.keys() - known) > MOST_ENTRIES:
            raise InvalidValue("The table", f"would have more than {MOST_ENTRIES:,} topics of brokers")
        addresses = group.addresses if group is not None else {}
        if new.broker_id in addresses:
            self._check_epoch(new, addresses[new.broker_id])
        elif len(new.topics) == 1:
            # one that registers single topics has registered as a whole before; where it has not, it does so next
            raise RequestRefused(Answer.SYSTEM_ERROR, "register broker failed")

    def _check_epoch(self, new: Registration, known: str) -> None:
        """Refuse a broker that takes the id of another which has a higher epoch: it was master once."""
        version = self.version(new.cluster, known)
        if known != new.address and version is not None and version.state_version > new.version.state_version:
            raise RequestRefused(
                Answer.SYSTEM_ERROR,
                f"{new.broker_name} with id {new.broker_id} is at {known} with state version {version.state_version}; "
                f"{new.address} has {new.version.state_version}.",
            )

    def _take_topics(self, group: BrokerGroup, new: Registration, *, is_known: bool) -> None:
        """Take the topics of a master, or of a slave that comes first where there is none."""
        is_first_slave = new.is_acting_enabled is not None and group.least_id == new.broker_id
        if self._has_resident(group) or not (new.is_master or is_first_slave):
            return
        same = is_known and self.version(new.cluster, new.address) == new.version
        is_read_only = not new.is_master and group.is_acting_enabled
        for topic, queues in new.topics.items():
            if same and topic in group.topics:
                continue
            said = queues._replace(permission=queues.permission & ~WRITE) if is_read_only else queues
            self._put(group, topic, said)
        if new.is_complete:
            for topic in group.topics - new.topics.keys():
                self._drop(group, topic)

    def _note(self, place: Place, new: Registration, peer: Peer, now_ms: int, *, is_new: bool) -> None:
        before = self._alive.get(place)
        if before is not None:
            self._part(before.peer, place)
        self._alive[place] = Alive(
            new.broker_name, new.broker_id, new.version, now_ms, new.timeout_ms, peer, new.ha_address,
            new.filter_servers,
        )  # fmt: skip
        self._of_peer.setdefault(peer, set()).add(place)
        if is_new:
            logger.info("broker %s (id %d) at %s has registered", new.broker_name, new.broker_id, new.address)

    def _master_of(self, group: BrokerGroup) -> Master:
        address = group.addresses.get(MASTER_ID)
        if address is None:
            return Master()
        alive = self._alive.get(Place(group.cluster, address))
        return Master(alive.ha_address if alive is not None else "", address)

    def heard(self, cluster: str, address: str, now_ms: int) -> None:
        """Note that a broker lives; one that is not there has to register first."""
        alive = self._alive.get(Place(cluster, address))
        if alive is not None:
            alive.heard_ms = now_ms

    def leave(self, cluster: str, address: str, broker_name: str) -> None:
        """Forget a broker that says that it stops; one that is not there, or has another name, is fine."""
        alive = self._alive.get(Place(cluster, address))
        if alive is not None and alive.broker_name == broker_name:
            logger.info("broker %s (id %d) at %s has left", broker_name, alive.broker_id, address)
            self._remove(Place(cluster, address))

    def connection_ended(self, peer: Peer) -> None:
        """Forget the brokers that registered last over a connection which has ended."""
        for place in list(self._of_peer.get(peer, ())):
            logger.warning("broker %s at %s is gone: its connection ended", self._alive[place].broker_name, place[1])
            self._remove(place)

    def expire(self, now_ms: int) -> list[Peer]:
        """Forget the brokers of which nothing was heard for too long; return their connections."""
        late = [(place, one) for place, one in self._alive.items() if now_ms - one.heard_ms > one.timeout_ms]
        for place, one in late:
            logger.warning("broker %s at %s is gone: silent for %d ms", one.broker_name, place[1], one.timeout_ms)
            self._remove(place)
        return [one.peer for _, one in late]

    def _remove(self, place: Place, *, keeps: str | None = None) -> None:
        """Forget a broker, and with the last of its name all of that; `keeps`: a name that is about to have one."""
        alive = self._forget(place)
        group = self._groups.get(alive.broker_name) if alive is not None else None
        if group is None:
            return
        group.addresses = {number: one for number, one in group.addresses.items() if one != place.address}
        if not group.addresses and group.name != keeps:
            for topic in list(group.topics):
                self._drop(group, topic)
            del self._groups[group.name]
        elif group.is_acting_enabled and MASTER_ID not in group.addresses and not self._has_resident(group):
            for topic in group.topics:
                queues = self._queues[topic][group.name]
                self._put(group, topic, queues._replace(permission=queues.permission & ~WRITE))

    def _forget(self, place: Place) -> Alive | None:
        alive = self._alive.pop(place, None)
        if alive is not None:
            self._part(alive.peer, place)
        return alive

    def _part(self, peer: Peer, place: Place) -> None:
        places = self._of_peer.get(peer)
        if places is not None:
            places.discard(place)
            if not places:
                del self._of_peer[peer]

    # Topics.

    def set_writable(self, broker_name: str, *, is_writable: bool) -> int:
        """Say of a name's topics that they may be written, or that they may not; return how many they are."""
        group = self._groups.get(broker_name)
        if group is None:
            return 0
        group.is_wiped = not is_writable
        own = len(set(self._resident.topics())) if self._resident is not None and self._has_resident(group) else 0
        return own + len(group.topics)

    def put_topic(self, topic: str, queues: Mapping[str, QueueData]) -> None:
        """Take the queues that names have of one topic (217). Raises InvalidValue for a name that is not there, or is
        the resident's; then nothing has changed."""
        groups = {name: self._groups.get(name) for name in queues}
        for name, group in groups.items():
            if group is None or self._has_resident(group):
                raise InvalidValue("The broker", f"{name[:40]} has not registered here")
        if self._entries + len(queues) > MOST_ENTRIES:
            raise InvalidValue("The table", f"would have more than {MOST_ENTRIES:,} topics of brokers")
        for name, group in groups.items():
            assert group is not None
            self._put(group, topic, queues[name])

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget who has a topic, or who of a cluster; a broker that still has it says so with its next registration.
        What the resident has stays."""
        for name in list(self._queues.get(topic, ())):
            group = self._groups[name]
            if cluster in (None, group.cluster):
                self._drop(group, topic)

    def _has_resident(self, group: BrokerGroup) -> bool:
        return self._resident is not None and self._resident.broker_name == group.name

    def _put(self, group: BrokerGroup, topic: str, queues: QueueData) -> None:
        if topic not in group.topics:
            group.topics.add(topic)
            self._entries += 1
        self._queues.setdefault(topic, {})[group.name] = queues

    def _drop(self, group: BrokerGroup, topic: str) -> None:
        group.topics.discard(topic)
        self._entries -= 1
        left = self._queues[topic]
        del left[group.name]
        if not left:
            del self._queues[topic]


def _told(group: BrokerGroup, queues: QueueData) -> QueueData:
    return queues._replace(permission=queues.permission & ~WRITE) if group.is_wiped else queues
