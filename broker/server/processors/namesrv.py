"""The broker as its own name service sees it: a registration that is always up to date (broker/namesrv)."""

from __future__ import annotations

from ...engine.tables.key_values import OWN_PREFIX
from ...engine.tables.topics import Topic
from ...namesrv.registration import QueueData
from ...namesrv.requests import NameService
from ...namesrv.routes import RouteTable
from ...rocketmq.topics import TEMPLATE_TOPIC, reply_topic
from ..state import BrokerState

_INHERIT = 1
"""The bit of a permission that says of a topic that others may be made like it."""


class ResidentBroker:
    """The broker beside the name service, with the topics that it tells name services."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    @property
    def cluster(self) -> str:
        """The name of its cluster."""
        return self._state.config.cluster_name

    @property
    def broker_name(self) -> str:
        """The name of the broker."""
        return self._state.config.broker_name

    @property
    def broker_id(self) -> int:
        """0 for a master, which it is."""
        return self._state.config.broker_id

    @property
    def address(self) -> str:
        """The address that clients are told."""
        return self._state.address

    def queues(self, topic: str) -> QueueData | None:
        """Return the queues that it has of a topic, None if nothing."""
        found = self._topic(topic)
        if found is None:
            return None
        return QueueData(
            self.broker_name, found.read_queues, found.write_queues, found.permission, found.system_flag
        )  # fmt: skip

    def topics(self) -> set[str]:
        """Return the names of all its topics but the template; those of cluster and broker are topics, too."""
        return {topic.name for topic in self._engine.topics.all()} | {self.cluster, self.broker_name}

    def registered(self) -> list[Topic]:
        """Return the topics that other name services are told: all that this one answers a question about."""
        more = (
            self._topic(name) for name in (TEMPLATE_TOPIC, self.cluster, self.broker_name, reply_topic(self.cluster))
        )
        return [*self._engine.topics.all(), *(topic for topic in more if topic is not None)]

    def _topic(self, name: str) -> Topic | None:
        """Return a topic as routes tell it. Whose route producers take for a topic that does not exist yet, and may be
        made by its first message, is the template."""
        config = self._state.config
        if name == TEMPLATE_TOPIC:
            queues = config.default_topic_queues
            return Topic(name, queues, queues, 6 | _INHERIT) if config.auto_create_topics else None
        if name in {config.cluster_name, config.broker_name, reply_topic(config.cluster_name)}:
            return self._engine.topics.get(name) or Topic(name, 1, 1, 6)
        return self._engine.topics.get(name)


def name_service(state: BrokerState, resident: ResidentBroker, port: int) -> NameService:
    """Return the name service beside a broker."""
    settings = {"listenPort": port, "rocketmqHome": state.config.root, "enableTopicList": "true"}
    return NameService(RouteTable(resident), state.engine.key_values, state.live_clock, settings, OWN_PREFIX)
