"""What a message that is to be sent would meet: its topic, who reads it, limits, and what waits under its key.

Topics, readers and levels are the mirror's; the brokers are asked for a topic that it does not know yet, for their
limits, and for the key. What they would refuse is refused here, at the field that it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from broker.client import Admin, BrokerRefused, NoBroker, NotSupported, RouteNotFound, TimerTarget
from broker.client.timers import Timer
from broker.mirror.models import ConsumerGroup, ScheduleLevel, Topic
from broker.rocketmq.properties import SCHEDULE_KEY
from console.operations.errors import InvalidParameter
from console.operations.kind import Preview
from console.security.masking import masks
from console.site.broker import admin, asked_of, tell_each
from console.site.mirrored import Cluster, cluster, lags_by_group
from console.templatetags.escapement import delay_name, span

#: the bit of a topic's permission by which it takes messages (PermName)
_WRITE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPreview(Preview):
    """The message as it would be stored, and who would get it."""

    #: bytes of the body, and of the properties with what the client adds
    body_bytes: int = 0
    properties_bytes: int = 0
    #: when consumers could get it; None: at once, after a delay, or when a half is committed
    due_ms: int | None = None
    #: how long the broker keeps it, counted from when it takes it; None: not at all, or until a moment
    delay_ms: int | None = None
    #: queues that it may go to; None: not known yet
    queues: int | None = None
    #: groups that read the topic: [group, lag, connected members]; None: not known
    readers: list[list[Any]] = field(default_factory=list)
    #: what waits under its schedule key: due_ms, position, broker; empty: nothing, or that is masked
    waiting: dict[str, Any] = field(default_factory=dict)


def queues_of(here: Cluster, topic: str) -> int | None:
    """Return how many queues the topic has to write to; None: too new to be known.

    Raises InvalidParameter, and ClientError where nobody answers whether there is one.
    """
    rows = list(Topic.objects.filter(broker__in=here.names, name=topic))
    if not rows:
        try:
            admin().route(topic)
        except NoBroker:
            # nobody is there to tell
            raise
        except RouteNotFound:
            said = _("There is no topic %(topic)s: create it first.")
            raise InvalidParameter("topic", said % {"topic": topic}) from None
        return None
    if any(row.is_system for row in rows):
        raise InvalidParameter("topic", _("Topic %(topic)s belongs to the broker.") % {"topic": topic})
    queues = sum(row.write_queues for row in rows if row.permission & _WRITE)
    if not queues:
        raise InvalidParameter("topic", _("Topic %(topic)s does not accept messages.") % {"topic": topic})
    return queues


def readers_of_topic(here: Cluster, topic: str) -> list[list[Any]]:
    """Return the groups that read it: name, lag, connected members."""
    names = here.names
    lags = lags_by_group(names, topic=topic)
    members: dict[str, int | None] = {}
    rows = ConsumerGroup.objects.filter(broker__in=names, name__in=[lag.group for lag in lags])
    for name, count in rows.values_list("name", "members").order_by():
        # a consumer is connected to every broker that has the topic
        members[name] = count if members.get(name) is None else max(count or 0, members[name] or 0)
    return [[lag.group, lag.lag, members.get(lag.group)] for lag in lags]


@dataclass(frozen=True, slots=True)
class Level:
    """A delay level that can be chosen, with its delay in words; that is not known before the first look."""

    number: int
    delay: str

    @property
    def text(self) -> str:
        """The number as the form sends it."""
        return str(self.number)


def levels() -> list[Level]:
    """Return the levels that every broker has."""
    return [Level(number, delay_name(ms)) for number, ms in sorted(_delays_ms().items())]


def _delays_ms() -> dict[int, int]:
    """Return the delay of each level; of several brokers the longest that any has."""
    rows = ScheduleLevel.objects.filter(broker__in=cluster().names).order_by("delay_ms")
    return dict(rows.values_list("level", "delay_ms"))


def due_of(parameters: Mapping[str, Any], now_ms: int) -> tuple[int | None, int | None]:
    """Return the moment when it is due, or how long it is kept from when a broker takes it; neither: it is not kept.

    Raises InvalidParameter for what is past, or is further away than the brokers take.
    """
    if "delay_level" in parameters:
        return None, _delay_of_level(parameters["delay_level"])
    due_ms: int | None = parameters.get("deliver_at_ms")
    delay_ms: int | None = parameters.get("delay_ms")
    if due_ms is not None and due_ms <= now_ms:
        raise InvalidParameter("moment", _("That time has passed: choose a later one, or deliver immediately."))
    ahead_ms = due_ms - now_ms if due_ms is not None else delay_ms
    if ahead_ms is not None:
        furthest_ms = min((each for each in _furthest_ms() if each is not None), default=None)
        if furthest_ms is not None and ahead_ms > furthest_ms:
            said = _("That is beyond the maximum of the broker, %(most)s.")
            raise InvalidParameter("moment", said % {"most": span(furthest_ms)})
    return due_ms, delay_ms


def _delay_of_level(level: int) -> int | None:
    """Return the delay of a level; None: nobody knows the levels yet. Raises InvalidParameter where there is none."""
    delays = _delays_ms()
    if delays and level not in delays:
        said = _("There is no delay level %(level)s here: the highest is %(highest)s.")
        raise InvalidParameter("when", said % {"level": level, "highest": max(delays)})
    return delays.get(level)


def _furthest_ms() -> list[int | None]:
    """Return how far ahead each broker takes timers; None: it does not say."""

    def ask(at: Admin) -> int | None:
        try:
            limits = at.timer_status().limits
        except BrokerRefused:
            return None
        return limits.max_delay_ms if limits is not None else None

    return [each.answer for each in tell_each(ask, asked_of(cluster()))]


def waiting_under(here: Cluster, topic: str, key: str) -> dict[str, Any]:
    """Return the timer that waits under a schedule key: its moment, position and broker; empty where none does.

    Raises InvalidParameter where the brokers know no schedule keys. Where keys of the topic are masked nobody is told.
    """

    def look(at: Admin) -> Timer | None:
        try:
            life = at.timer(TimerTarget(topic=topic, schedule_key=key))
        except NotSupported:
            raise
        except BrokerRefused:
            # it has never had one
            return None
        return life.timer if life.state == "pending" else None

    try:
        told = tell_each(look, asked_of(here))
    except NotSupported:
        raise InvalidParameter("schedule_key", _("Apache RocketMQ does not support schedule keys.")) from None
    if SCHEDULE_KEY in masks().of(topic):
        return {}
    found = next(((each.broker, each.answer) for each in told if each.answer is not None), None)
    if found is None:
        return {}
    broker, timer = found
    return {"due_ms": timer.due_ms, "position": timer.position, "broker": broker}


def check_half(here: Cluster, parameters: Mapping[str, Any]) -> None:
    """Raise InvalidParameter for a half that carries a delay where a broker would lose it (Apache RocketMQ)."""
    is_delayed = {"delay_level", "deliver_at_ms", "delay_ms"} & parameters.keys()
    if "producer_group" in parameters and is_delayed and here.polling:
        raise InvalidParameter("when", _("Apache RocketMQ loses a half message that has a delay: send it without one."))
