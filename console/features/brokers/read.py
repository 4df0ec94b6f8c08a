"""A broker, and all of them: what the mirror has, and what the broker, its name services and its clients say now."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count

from broker.client import Admin
from broker.client.admin import BrokerSetting
from broker.mirror.models import ConsumerGroup, Replica, Topic
from broker.rocketmq.codes import Request
from console.features.brokers.catalogue import ORDER, Heading
from console.features.brokers.shapes import (
    GROUPS_NAMED,
    BrokerList,
    BrokerPage,
    BrokerRow,
    ClientKind,
    NameService,
    Retention,
    Room,
    SettingGroup,
    SettingRow,
    setting_row,
)
from console.features.clients import ClientRow, connected_clients
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, brokers_of
from console.site.mirrored import Cluster, Mirrored, alone, cluster

#: what the mirror asks an Apache RocketMQ broker for these numbers
ROW_REQUESTS = (Request.GET_BROKER_RUNTIME_INFO,)
BROKER_REQUESTS = (Request.GET_BROKER_CONFIG, Request.GET_BROKER_RUNTIME_INFO)

#: "Total : 252.0 GiB, Free : 237.6 GiB."
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
_CAPACITY = re.compile(
    r"Total : (\d{1,6}(?:\.\d{1,3})?) ([KMGTP]iB|B), Free : (\d{1,6}(?:\.\d{1,3})?) ([KMGTP]iB|B)", re.ASCII
)
#: what a broker told: its settings, its figures, and by name service whether that lists it (None: no answer)
Told = tuple[tuple[BrokerSetting, ...], Mapping[str, str], Mapping[str, tuple[str, ...] | None]]


@authorised
def read_brokers(scope: TopicScope) -> BrokerList:
    """Return all brokers that the address chooses; topics and groups are those that are seen."""
    of = cluster()
    counted = _counted(of, scope)
    rows = tuple(_row(each, counted) for each in of.brokers)
    return BrokerList(of.evidence(polled_by=ROW_REQUESTS), of.now_ms, rows)


@authorised
def read_broker(scope: TopicScope) -> BrokerPage:
    """Return the one broker that the address chooses, or that there is."""
    of = cluster()
    here = brokers_of(of)[0]
    own = alone(here)
    told, evidence = ask(_told, source=here.name, requests=BROKER_REQUESTS)
    settings, runtime, listed = told or ((), {}, {})
    found = connected_clients.within(scope, own)
    row = _row(here, _counted(own, scope))
    rows = [setting_row(each.name, each.value, each.default, each.started, each.allowed) for each in settings]
    values = {each.name: each.value for each in settings}
    return BrokerPage(
        evidence=own.evidence(polled_by=ROW_REQUESTS),
        now_ms=of.now_ms,
        row=row if here.broker else None,
        settings=grouped(rows),
        config_evidence=evidence,
        rooms=rooms_of(values, runtime, row.topics),
        retention=_retention(here, values, runtime),
        name_services=_name_services(row.own_name, runtime, listed),
        clients=client_kinds(found.rows),
        clients_evidence=found.evidence,
        has_producers=found.has_producers,
        is_apache=here.polling,
    )


@authorised
def read_chosen(scope: TopicScope) -> BrokerPage | BrokerList:
    """Return the one broker that the address chooses, or that there is; of several all of them."""
    return read_brokers.within(scope) if cluster().has_several else read_broker.within(scope)


def _told(admin: Admin) -> Told:
    return admin.broker_settings(), admin.runtime(), admin.listed_at()


@dataclass(slots=True)
class _Counts:
    """What a broker has of what is seen; `members` None: it does not tell in bulk."""

    topics: int = 0
    groups: int = 0
    members: int | None = None
    slaves: int = 0


def _counted(of: Cluster, scope: TopicScope) -> Mapping[str, _Counts]:
    """Return by broker how many topics and groups are seen, and how many consumers and slaves there are."""
    found: dict[str, _Counts] = defaultdict(_Counts)
    topics = Topic.objects.filter(broker__in=of.names, is_system=False)
    if scope.see_all:
        for broker, count in topics.values_list("broker").annotate(count=Count("pk")).order_by():
            found[broker].topics = count
    else:
        for broker, name in topics.values_list("broker", "name"):
            found[broker].topics += scope.topic(name)
    groups = ConsumerGroup.objects.filter(broker__in=of.names)
    for broker, name, connected in groups.values_list("broker", "name", "members"):
        if scope.group(name):
            counts = found[broker]
            counts.groups += 1
            if connected is not None:
                counts.members = (counts.members or 0) + connected
    slaves = Replica.objects.filter(broker__in=of.names, number__gt=0).values_list("broker")
    for broker, count in slaves.annotate(count=Count("pk")).order_by():
        found[broker].slaves = count
    return found


def _row(here: Mirrored, counted: Mapping[str, _Counts]) -> BrokerRow:
    broker, counts = here.broker, counted.get(here.name, _Counts())
    if broker is None:
        return BrokerRow("", "", "", "", "", "UNKNOWN", (), None, None, 0)
    return BrokerRow(
        name=broker.name,
        own_name=broker.own_name,
        cluster=broker.cluster,
        address=broker.address,
        version=broker.version,
        state=broker.state,
        reasons=tuple(broker.reasons),
        started_ms=broker.started_ms,
        disk_used_ratio=broker.disk_used_ratio,
        slaves=counts.slaves,
        topics=counts.topics,
        groups=counts.groups,
        # who tells in bulk and names no group has none
        members=counts.members if here.polling or counts.members is not None else 0,
        is_stale=here.evidence(polled_by=()).stale,
    )


def grouped(rows: Sequence[SettingRow]) -> tuple[SettingGroup, ...]:
    """Return the settings under their headings; known ones in their order, the others by name behind them."""
    under: dict[str, list[SettingRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (ORDER.get(row.name, len(ORDER)), row.name)):
        under[row.heading].append(row)
    return tuple(SettingGroup(heading, tuple(under[heading])) for heading in Heading if under[heading])


def rooms_of(values: Mapping[str, str], runtime: Mapping[str, str], topics: int) -> tuple[Room, ...]:
    """Return what the broker uses of what it may; what it does not tell is left out."""
    refused = _whole(values.get("diskMaxUsedSpaceRatio"))
    most, free = _disk(runtime)
    used = None if most is None or free is None else most - free
    rooms = [
        Room("connections", _whole(runtime.get("connections")), _whole(runtime.get("connectionsMax"))),
        Room("descriptors", _whole(runtime.get("descriptors")), _whole(runtime.get("descriptorsMax"))),
        Room("memory", _whole(runtime.get("memoryBytes")), _whole(runtime.get("memoryMaxBytes"))),
        Room("disk", used, most, None if refused is None else refused / 100),
        Room("topics", topics, None),
        Room("message", _mean(runtime.get("putMessageAverageSize")), _whole(values.get("maxMessageSize"))),
    ]
    return tuple(room for room in rooms if room.used is not None or room.most is not None)


def _retention(here: Mirrored, values: Mapping[str, str], runtime: Mapping[str, str]) -> Retention:
    first, end = _whole(runtime.get("commitLogMinOffset")), _whole(runtime.get("commitLogMaxOffset"))
    oldest_ms = _whole(runtime.get("earliestMessageTimeStamp"))
    keeps = {"true": True, "false": False}.get(values.get("escKeepUnconsumed", ""))
    return Retention(
        expires_hours=values.get("fileReservedTime", ""),
        oldest_ms=oldest_ms or None,
        log_bytes=None if first is None or end is None else max(0, end - first),
        disk_used_ratio=here.broker.disk_used_ratio if here.broker else None,
        keeps_unconsumed=keeps,
    )


def _name_services(
    broker: str, runtime: Mapping[str, str], listed: Mapping[str, tuple[str, ...] | None]
) -> tuple[NameService, ...]:
    """Return the name services that the broker tells of, and those that this console asks."""
    told = dict(each.rpartition("=")[::2] for each in runtime.get("nameServers", "").split(";") if "=" in each)
    found = []
    for address in dict.fromkeys([*listed, *told]):
        names = listed.get(address)
        is_asked = address in listed
        found.append(
            NameService(
                address,
                is_registered=None if address not in told else told[address] == "true",
                answers=names is not None if is_asked else None,
                lists=None if names is None else broker in names,
            )
        )
    return tuple(found)


def client_kinds(rows: Sequence[ClientRow]) -> tuple[ClientKind, ...]:
    """Return the clients by role, language and version, the most first."""
    clients: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    groups: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    roles = {row.role.value: row.role for row in rows}
    for row in rows:
        kind = (row.role.value, row.language, row.version or 0)
        clients[kind].add(row.client_id)
        groups[kind].add(row.group)
    order = sorted(clients, key=lambda kind: (-len(clients[kind]), kind))
    return tuple(
        ClientKind(
            role=roles[kind[0]],
            language=kind[1],
            version=kind[2] or None,
            count=len(clients[kind]),
            groups=tuple(sorted(groups[kind])[:GROUPS_NAMED]),
            groups_more=max(0, len(groups[kind]) - GROUPS_NAMED),
        )
        for kind in order
    )


def _disk(runtime: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the size of the disk and what is free of it; Apache RocketMQ tells both in a sentence."""
    said = _CAPACITY.match(runtime.get("commitLogDirCapacity", ""))
    if said is None:
        return _whole(runtime.get("diskMaxBytes")), _whole(runtime.get("diskFreeBytes"))
    most, most_unit, free, free_unit = said.groups()
    return round(float(most) * _UNITS[most_unit]), round(float(free) * _UNITS[free_unit])


def _whole(text: str | None) -> int | None:
    """Return the whole number that a broker told, None where it told none, or -1 for what it does not know."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _mean(text: str | None) -> int | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return round(value) if value is not None and 0 < value < 1e15 else None
