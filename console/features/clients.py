"""Connected clients as the broker knows them: the list of all, and one with what it says of itself.

Producers are asked for by request 328, consumers by 203 for each group that has any, one consumer's own words by 307.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar
from urllib.parse import urlencode

from django.db.models import TextChoices
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from broker.client import Admin, BrokerRefused, NotSupported
from broker.client.admin import ConnectedClient, RunningInfo
from broker.mirror.models import ConsumerGroup
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import RETRY_PREFIX
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, ask_each, at
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, Mirrored, cluster
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind
from console.ui.ordering import Key, Sorting, asked_order, ordered
from console.ui.table import AGE, AGO, BROKER, VALUE, Cell, Column, Table, file_columns

CLIENTS = Table(
    "clients",
    (
        Column("client_id", _("Client"), Cell("clients/cells/client.html"), sort="client"),
        Column("role", _("Role"), Cell("clients/cells/role.html", by=(VALUE,)), sort="role"),
        Column("group", _("Group"), Cell("clients/cells/group.html", by=("role", "group")), sort="group"),
        Column("address", _("Address"), Cell("clients/cells/address.html", by=(VALUE,)), sort="address"),
        Column("language", _("Language"), length=20, sort="language"),
        Column(
            "version", _("Version"), Cell("clients/cells/version.html", is_figure=True, by=(VALUE,)), sort="version"
        ),
        Column("since_ms", _("Since"), AGE, sort="since"),
        Column("seen_ms", _("Last heartbeat"), AGO, sort="seen"),
        *file_columns("consume_type message_model"),
        Column("subscriptions", _("Subscribes to"), Cell("clients/cells/subscriptions.html", by=(VALUE,))),
        Column("locked", _("Locked queues"), Cell("clients/cells/locked.html", by=(VALUE,)), in_file=False),
        BROKER,
    ),
    row_id="client",
    file_order="role group client_id",
)

#: what each order of the list looks at
_SORTED_BY: dict[str, Key] = {
    "client": attrgetter("client_id"), "role": attrgetter("role"), "group": attrgetter("group"),
    "address": attrgetter("address"), "language": attrgetter("language"), "version": attrgetter("version"),
    "since": attrgetter("since_ms"), "seen": attrgetter("seen_ms"),
}  # fmt: skip


CLIENT_REQUESTS = (Request.GET_ALL_PRODUCER_INFO, Request.GET_CONSUMER_CONNECTION_LIST)
RUNNING_REQUESTS = (Request.GET_CONSUMER_RUNNING_INFO,)
MAX_COUNT = 200
#: groups that a page asks for their consumers; Escapement's mirror knows which have any
GROUPS_ASKED = 500


class ClientRole(TextChoices):
    """The role of a client in a group."""

    PRODUCER = "producer", _("producer")
    CONSUMER = "consumer", _("consumer")


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client in one group, at all brokers that it is connected to; names, address and language are the client's own
    words: untrusted text."""

    role: ClientRole
    group: str
    client_id: str
    address: str
    language: str
    #: RocketMQ's version number; None when it does not say
    version: int | None
    #: first and last heartbeat; None where the broker does not tell
    since_ms: int | None
    seen_ms: int | None
    consume_type: str
    message_model: str
    #: topic and expression, of the whole group
    subscriptions: tuple[tuple[str, str], ...]
    #: topic and queue that it holds to consume in order; of several brokers in total
    locked: tuple[tuple[str, int], ...]
    #: the brokers that it is connected to
    brokers: tuple[str, ...] = ()

    @property
    def broker(self) -> str:
        """The brokers that it is connected to, in one text."""
        return " ".join(self.brokers)


@dataclass(frozen=True, slots=True)
class Found:
    """All clients that are connected. `has_producers` False: some broker cannot list them; `groups_left`: groups whose
    consumers were not asked for, as there are too many."""

    evidence: Evidence
    rows: tuple[ClientRow, ...]
    has_producers: bool
    groups_left: int


@dataclass(frozen=True, slots=True)
class Clients:
    """A page of the list. `is_apache`: the broker does not tell when consumers came and were heard last."""

    table: ClassVar[Table] = CLIENTS

    evidence: Evidence
    now_ms: int
    rows: tuple[ClientRow, ...]
    #: that match, and of all: producers, consumers, different clients
    total: int
    producers: int | None
    consumers: int
    clients: int
    offset: int
    count: int
    search: str
    role: str
    is_apache: bool
    #: groups whose consumers were not asked for: there are too many
    groups_left: int
    has_several: bool = False
    order: str = "group"

    @property
    def sorting(self) -> Sorting:
        """The order of the list, and the rest of its address."""
        return Sorting(self.order, "&" + urlencode({"search": self.search, "role": self.role}))

    @property
    def previous(self) -> int | None:
        """The offset of the page before, None on the first."""
        return max(0, self.offset - self.count) if self.offset else None

    @property
    def following(self) -> int | None:
        """The offset of the next page, None on the last."""
        return self.offset + self.count if self.offset + self.count < self.total else None


@dataclass(frozen=True, slots=True)
class ClientPage:
    """A client, with a row for each group that it is in; without rows it is not connected now."""

    evidence: Evidence
    now_ms: int
    client_id: str
    rows: tuple[ClientRow, ...]
    is_apache: bool
    has_several: bool = False

    @property
    def first(self) -> ClientRow | None:
        """The row that address, language and version are shown from."""
        return self.rows[0] if self.rows else None

    @property
    def consuming(self) -> tuple[ClientRow, ...]:
        """The groups that it consumes for."""
        return tuple(row for row in self.rows if row.role is ClientRole.CONSUMER)


@dataclass(frozen=True, slots=True)
class Running:
    """A consumer's own account of its work for one group; `info` None: it gave none, and evidence says why."""

    group: str
    evidence: Evidence
    info: RunningInfo | None


@authorised
def read_clients(
    scope: TopicScope, *, search: str = "", role: str = "", order: str = "group", offset: int = 0, count: int = 50
) -> Clients:
    """Return clients whose id, group, address or language contains `search`, a row for each group."""
    here = cluster()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    found = connected_clients.within(scope, here)
    rows = found.rows
    wanted = [row for row in rows if row.role == role or role not in ClientRole.values]
    wanted = sorted((row for row in wanted if _matches(row, search)), key=_order)
    wanted = ordered(wanted, order, _SORTED_BY)
    return Clients(
        evidence=found.evidence,
        now_ms=here.now_ms,
        rows=tuple(wanted[offset : offset + count]),
        total=len(wanted),
        producers=sum(row.role is ClientRole.PRODUCER for row in rows) if found.has_producers else None,
        consumers=sum(row.role is ClientRole.CONSUMER for row in rows),
        clients=len({row.client_id for row in rows}),
        offset=offset,
        count=count,
        search=search,
        role=role,
        is_apache=here.polling,
        groups_left=found.groups_left,
        has_several=here.has_several,
        order=order,
    )


@authorised
def connected_clients(scope: TopicScope, here: Cluster) -> Found:
    """Return a row for each client in each group that is seen."""
    groups = _groups(here, scope)
    found, evidence = ask_each(lambda admin: _connected(admin, groups[:GROUPS_ASKED]), here, requests=CLIENT_REQUESTS)
    # where some broker cannot list its producers, their number is not known
    has_producers = bool(found) and all(producers is not None for _each, (producers, _consumers) in found)
    return Found(evidence, tuple(_rows(found, scope)), has_producers, max(0, len(groups) - GROUPS_ASKED))


@authorised
def read_client(scope: TopicScope, client_id: str) -> ClientPage:
    """Return one client in all its groups that are seen."""
    here = cluster()
    groups = _groups(here, scope)[:GROUPS_ASKED]
    found, evidence = ask_each(lambda admin: _connected(admin, groups), here, requests=CLIENT_REQUESTS)
    rows = sorted((row for row in _rows(found, scope) if row.client_id == client_id), key=_order)
    if not rows and not evidence.stale:
        evidence = replace(evidence, stale_reason=StaleReason.NOT_THERE)
    return ClientPage(evidence, here.now_ms, client_id, tuple(rows), here.polling, here.has_several)


@authorised
def read_running(
    scope: TopicScope, group: str, client_id: str, *, with_stack: bool = False, broker: str = ""
) -> Running:
    """Return what a consumer says of itself; of topics that are seen. `broker`: one of several that it is connected
    to, which asks it."""
    scope.require_group(group)
    with at(broker):
        info, evidence = ask(
            lambda admin: admin.running_info(group, client_id, with_stack=with_stack), source=client_id[:60],
            requests=RUNNING_REQUESTS,
        )  # fmt: skip
    if info is not None and not scope.see_all:
        queues = scope.rows(info.queues, lambda row: row.queue.topic)
        works = scope.rows(info.topics, lambda row: row.topic)
        # a stack and the properties are texts that nobody can look through for names
        info = replace(info, queues=queues, topics=works, properties={}, stack="")
    return Running(group, evidence, info)


def _is_seen(each: ConnectedClient, scope: TopicScope) -> bool:
    """Tell whether the client is seen: of a producer no topics are known, so only those who see all see it."""
    if scope.see_all:
        return True
    if each.role != "consumer" or not scope.group(each.group):
        return False
    # the group may read what is not seen, and its tries hold that, too: each client says what it subscribes to itself
    subscribed = [topic for topic in each.subscriptions if topic != RETRY_PREFIX + each.group]
    return all(map(scope.topic, subscribed)) and (bool(subscribed) or scope.whole_group(each.group))


def _rows(found: Sequence[tuple[Mirrored, _Connected]], scope: TopicScope) -> list[ClientRow]:
    """Return a row for each client in a group: one that is connected to several brokers is one row."""
    known: dict[tuple[str, str, str], ClientRow] = {}
    for broker, (producers, consumers) in found:
        for each in (*consumers, *(producers or ())):
            if not _is_seen(each, scope):
                continue
            row = replace(_row(each), brokers=(broker.name,))
            key = _order(row)
            known[key] = _added(known[key], row) if key in known else row
    return list(known.values())


def _added(one: ClientRow, other: ClientRow) -> ClientRow:
    """Return the row of a client at both brokers."""
    since = [each.since_ms for each in (one, other) if each.since_ms is not None]
    seen = [each.seen_ms for each in (one, other) if each.seen_ms is not None]
    return replace(
        one,
        since_ms=min(since, default=None),
        seen_ms=max(seen, default=None),
        subscriptions=tuple(sorted({*one.subscriptions, *other.subscriptions})),
        locked=one.locked + other.locked,
        brokers=one.brokers + other.brokers,
    )


def _groups(here: Cluster, scope: TopicScope) -> list[str]:
    """Return seen groups that may have consumers: all where the broker does not tell in bulk how many there are."""
    found = ConsumerGroup.objects.filter(broker__in=here.names)
    if not here.polling:
        found = found.filter(members__gt=0)
    names = found.order_by("name").values_list("name", flat=True)
    if here.has_several:
        names = names.distinct()
    return [name for name in names if scope.group(name)]


#: producers (None: the broker cannot list them) and consumers
_Connected = tuple[tuple[ConnectedClient, ...] | None, tuple[ConnectedClient, ...]]


def _connected(admin: Admin, groups: Sequence[str]) -> _Connected:
    """Return producers (None: the broker cannot list them) and consumers."""
    try:
        producers = admin.producers()
    except (NotSupported, BrokerRefused):
        return None, admin.consumers(groups)
    return producers, admin.consumers(groups)


def _row(each: ConnectedClient) -> ClientRow:
    return ClientRow(
        role=ClientRole(each.role),
        group=each.group,
        client_id=each.client_id,
        address=each.address,
        language=each.language,
        version=each.version or None,
        since_ms=each.since_ms,
        seen_ms=each.seen_ms,
        consume_type=each.consume_type,
        message_model=each.message_model,
        subscriptions=tuple(sorted(each.subscriptions.items())),
        locked=tuple((queue.topic, queue.queue_id) for queue in each.locked),
    )


def _matches(row: ClientRow, search: str) -> bool:
    text = search.lower()
    return any(text in said.lower() for said in (row.client_id, row.group, row.address, row.language))


def _order(row: ClientRow) -> tuple[str, str, str]:
    return row.group, row.role, row.client_id


@require_safe
def clients(request: HttpRequest) -> Answer:
    """Show the list of clients, by group."""
    search, role = (request.GET.get(name, "")[:255] for name in ("search", "role"))
    role = role if role in ClientRole.values else ""
    order = asked_order(request.GET.get("order", ""), CLIENTS.orders, "group")
    offset = whole_number(request.GET.get("offset")) or 0

    def page(place: int | None) -> Clients:
        return read_clients(search=search, role=role, order=order, offset=place or 0)

    data = page(offset)
    query = urlencode({"search": search, "role": role, "order": order, "offset": offset})
    context = {"data": data, "here": "clients", "live": f"clients?{query}", "roles": ClientRole}
    return page_or_file(request, "clients/page.html", context, CLIENTS, page, following=attrgetter("following"))


@require_safe
def client(request: HttpRequest) -> HttpResponse:
    """Show one client, by `id`; `group` says for which of its groups it is asked; `stack=1` asks for its threads."""
    client_id = request.GET.get("id", "")[:255]
    data = read_client(client_id)
    if data.evidence.stale_reason is StaleReason.NOT_THERE:
        raise Http404(gettext("There is no such client; it may have disconnected."))
    asked = next((row for row in data.consuming if row.group == request.GET.get("group")), None)
    asked = asked or next(iter(data.consuming), None)
    running = _asked(asked, data, with_stack="stack" in request.GET) if asked else None
    context = {
        "data": data, "running": running, "here": "clients", "live": "client?" + urlencode({"id": client_id}),
        "with_stack": "stack" in request.GET,
    }  # fmt: skip
    return render(request, "clients/client.html", context)


def _asked(row: ClientRow, data: ClientPage, *, with_stack: bool) -> Running:
    broker = row.brokers[0] if data.has_several else ""
    return read_running(row.group, row.client_id, with_stack=with_stack, broker=broker)


def _clients_live(_: str, query: Mapping[str, str]) -> Clients:
    return read_clients(
        search=query.get("search", ""), role=query.get("role", ""), offset=whole_number(query.get("offset")) or 0,
        order=asked_order(query.get("order", ""), CLIENTS.orders, "group"),
    )  # fmt: skip


LIVE = {
    "clients": LiveKind(_clients_live, frozenset({"groups"}), frozenset({"search", "role", "order", "offset"})),
    "client": LiveKind(lambda _, query: read_client(query.get("id", "")), frozenset({"groups"}), frozenset({"id"})),
}
