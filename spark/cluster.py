"""A cluster as its name servers tell it: which topics there are, on which brokers their queues lie, how far they reach.

A broker is its master, or a slave where the master is away and the name server lists one. What a broker cannot be asked
now is left out of the answers, and ``away`` says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import BadFrame
from broker.rocketmq.frame import Command
from broker.rocketmq.routes import READABLE, STANDARD_JSON, BrokerRoute, all_brokers, topic_names, topic_route
from broker.rocketmq.topics import (
    BENCHMARK_TOPIC,
    OLD_SYSTEM_PREFIX,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TEMPLATE_TOPIC,
    is_of_group,
    reply_topic,
)

from .asking import Access, ClusterUnreachable, Link, RequestDenied, checked
from .offsets import Offsets, Queue
from .store import DashboardError

#: Ends the beginning of names: ``orders-*``.
ANY = "*"
UNKNOWN = "no name server knows an address of it."
#: System topics that stand for something else than messages of their own.
NOT_KEPT = frozenset({TEMPLATE_TOPIC, BENCHMARK_TOPIC})
T = TypeVar("T")
#: A request and its fields.
Asked = tuple[int, dict[str, str]]


class TopicMissing(DashboardError):
    """A topic is not there, or not to be read."""


class BrokerAway(DashboardError):
    """A broker that holds part of what is to be read does not answer; ``why``: what was tried."""

    def __init__(self, broker: str, why: str) -> None:
        super().__init__(
            f"The broker {broker} is not responding, and without it some messages would be missing: {why} To read the "
            "others only, name them: brokers=NAME,NAME."
        )
        self.why = why


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset that a queue still has, and the one behind its last."""

    first: int
    end: int


class Cluster:
    """Asks name servers and brokers; connections are kept. Raises ClusterUnreachable, RequestDenied."""

    def __init__(
        self,
        namesrv: Sequence[str],
        access: Access,
        *,
        brokers: frozenset[str] = frozenset(),
        system_topics: bool = False,
    ) -> None:
        """``brokers``: these only; empty: all. ``system_topics``: "*" stands for those of brokers and groups too."""
        self._namesrv = tuple(namesrv)
        self._access = access
        self._only = brokers
        self._system_topics = system_topics
        self._links: dict[str, Link] = {}
        #: addresses by broker, the master's first
        self.addresses: dict[str, tuple[str, ...]] = {}
        #: why a broker could not be asked, by its name
        self.away: dict[str, str] = {}

    def close(self) -> None:
        """End all connections that were kept."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def queues(self, topics: Collection[str], *, missing_ok: bool = False) -> list[Queue]:
        """Return the readable queues of topics, given by name or by how names begin (``orders-*``).

        Raises TopicMissing for a name that stands for none, unless that is fine.
        """
        found: list[Queue] = []
        spelled = {topic for topic in topics if not topic.endswith(ANY)}
        beginnings = {topic[: -len(ANY)] for topic in topics if topic.endswith(ANY)}
        names = spelled.union(*map(self._topics_like, beginnings))
        for topic in sorted(names):
            queues = self._queues_of(topic)
            if not queues and not missing_ok and topic in spelled:
                where = f" on {', '.join(sorted(self._only))}" if self._only else ""
                raise TopicMissing(
                    f"No broker{where} has the topic {topic!r} with queues to read: that is what {self._namesrv[0]} "
                    "says. Name a topic that is there, or the beginning of names: topics=orders-*."
                )
            found += queues
        return found

    def bounds(self, queues: Iterable[Queue]) -> dict[Queue, Bounds]:
        """Return the bounds of queues; without those of brokers that are away."""
        firsts = self._offsets(queues, Request.GET_MIN_OFFSET, {})
        ends = self._offsets(firsts, Request.GET_MAX_OFFSET, {})
        return {queue: Bounds(max(firsts[queue], 0), max(end, 0)) for queue, end in ends.items()}

    def offsets_at(self, queues: Iterable[Queue], at_ms: int) -> Offsets:
        """Return the offset of the first message stored at a moment or later; without brokers that are away."""
        return self._offsets(queues, Request.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(at_ms)})

    def require(self, queues: Iterable[Queue], *, named: bool = False) -> None:
        """Refuse to go on without a broker that has some of these queues; ``named``: or was asked for by name.

        Raises BrokerAway.
        """
        for broker in sorted({queue.broker for queue in queues} | (self._only if named else frozenset())):
            if broker in self.away or broker not in self.addresses:
                raise BrokerAway(broker, self.away.get(broker, UNKNOWN))

    def log_end(self, broker: str) -> int | None:
        """Return the position behind what a broker has in its log now, None if it does not tell."""
        if broker not in self.addresses:
            answer = checked(self._namesrv[0], self._ask_namesrv(Request.GET_BROKER_CLUSTER_INFO))
            self._note(self._read(all_brokers, answer).values())
        answers = self._ask_broker(broker, [(Request.GET_BROKER_RUNTIME_INFO, {})])
        try:
            return int(json.loads(answers[0].body)["table"]["commitLogMaxOffset"])
        except (IndexError, KeyError, TypeError, ValueError):
            return None

    # the name servers

    def _ask_namesrv(self, code: Request, ext: dict[str, str] | None = None) -> Command:
        """Ask the first name server that answers."""
        failure: ClusterUnreachable | None = None
        for address in self._namesrv:
            try:
                return self._link(address).ask(code, ext)
            except ClusterUnreachable as error:
                self._forget(address)
                failure = failure or error
        assert failure is not None
        raise failure

    def _topics_like(self, beginning: str) -> list[str]:
        answer = checked(self._namesrv[0], self._ask_namesrv(Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        names = self._read(topic_names, answer)
        if self._system_topics:
            names += [name for name in SYSTEM_TOPICS if name not in NOT_KEPT and name not in names]
        elif not beginning:
            names = [name for name in names if not is_own(name)]
        return [name for name in names if name.startswith(beginning)]

    def _queues_of(self, topic: str) -> list[Queue]:
        answer = self._ask_namesrv(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, STANDARD_JSON: "true"})
        if answer.code == Answer.TOPIC_NOT_EXIST:
            return self._unregistered(topic) if topic in SYSTEM_TOPICS else []
        route = self._read(topic_route, checked(self._namesrv[0], answer))
        self._note(route.broker_datas)
        return [
            Queue(topic, part.broker_name, number)
            for part in route.queue_datas
            if part.perm & READABLE and part.broker_name in self.addresses
            for number in range(part.read_queue_nums)
        ]

    def _unregistered(self, topic: str) -> list[Queue]:
        """Return the queues of a topic that brokers keep to themselves, on all brokers; one may not have it."""
        answer = checked(self._namesrv[0], self._ask_namesrv(Request.GET_BROKER_CLUSTER_INFO))
        brokers = self._read(all_brokers, answer)
        self._note(brokers.values())
        names = sorted(set(brokers) & set(self.addresses))
        return [Queue(topic, name, number) for name in names for number in range(SYSTEM_TOPICS[topic])]

    def _note(self, routes: Iterable[BrokerRoute]) -> None:
        for route in routes:
            if route.addresses and (not self._only or route.broker_name in self._only):
                self.addresses[route.broker_name] = route.addresses

    def _read(self, reader: Callable[[bytes], T], answer: Command) -> T:
        try:
            return reader(answer.body)
        except BadFrame as error:
            raise ClusterUnreachable(self._namesrv[0], str(error)) from None

    # the brokers

    def _offsets(self, queues: Iterable[Queue], code: Request, more: Mapping[str, str]) -> Offsets:
        by_broker: dict[str, list[Queue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker, []).append(queue)
        found: Offsets = {}
        for broker, asked in by_broker.items():
            requests: list[Asked] = [
                (code, {"topic": queue.topic, "queueId": str(queue.queue_id), **more}) for queue in asked
            ]
            for queue, answer in zip(asked, self._ask_broker(broker, requests), strict=False):
                if answer.code != Answer.TOPIC_NOT_EXIST:  # name servers list some names that no broker keeps
                    found[queue] = _whole(checked(broker, answer), broker)
        return found

    def _ask_broker(self, broker: str, requests: Sequence[Asked]) -> list[Command]:
        """Return the answers of the master, or of a slave while it is away; none if all are away."""
        why = UNKNOWN
        for address in self.addresses.get(broker, ()):
            try:
                answers = list(self._link(address).ask_many(requests))
            except ClusterUnreachable as error:
                self._forget(address)
                why = str(error)
                continue
            self.away.pop(broker, None)
            return answers
        self.away[broker] = why
        return []

    def _link(self, address: str) -> Link:
        if address not in self._links:
            self._links[address] = Link(address, self._access)
        return self._links[address]

    def _forget(self, address: str) -> None:
        link = self._links.pop(address, None)
        if link is not None:
            link.close()


def is_own(topic: str) -> bool:
    """Tell whether a topic is a broker's own business, or that of a group."""
    own = topic.startswith((SYSTEM_PREFIX, OLD_SYSTEM_PREFIX)) or topic.endswith(reply_topic(""))
    return own or topic in SYSTEM_TOPICS or is_of_group(topic)


def _whole(answer: Command, broker: str) -> int:
    try:
        return int(answer.ext["offset"])
    except (KeyError, ValueError):
        raise RequestDenied(broker, answer) from None
