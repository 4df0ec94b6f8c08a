"""Asking brokers for contents: one client of each for the process, and errors as evidence instead of a broken page.

Whoever asks, asks the broker that is chosen (console/site/chosen.py). Without a choice that is the first one, or all,
as the client says of each question.

Clients of other addresses are kept in the same way. Queues are read however few messages a broker gives at once, and a
message of a queue is one line of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from django.conf import settings
from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext

from broker.client import (
    Admin,
    BrokerUnreachable,
    ClientError,
    InvalidArgument,
    Message,
    NotSupported,
    RouteNotFound,
    Timeout,
)
from broker.mirror.models import MirrorState
from console.site.chosen import choice_of, choosing, chosen
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason, joined
from console.site.mirrored import Cluster, Here, Mirrored, cluster
from console.site.slow_requests import AskingBroker

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

#: Apache RocketMQ gives 32 messages from memory and 8 from disk at once (maxTransferCountOnMessageIn...)
MAX_PULLS = 8
#: brokers that are asked at the same time, by all pages together
_askers = ThreadPoolExecutor(16, thread_name_prefix="ask")
#: rows of a broker that did not answer the mirror are older than this before pages stop to ask it, too
AWAY_MS = 3_000
#: why brokers are not asked just now, by name
_away: ContextVar[Mapping[str, str]] = ContextVar("away", default=MappingProxyType({}))


class _Closes(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closes)


class KeptClients(Generic[Client]):
    """Makes a client when an address is asked for the first time; safe for threads."""

    def __init__(self, make: Callable[[str], Client]) -> None:
        self._make = make
        self._clients: dict[str, Client] = {}
        self._lock = Lock()

    def at(self, address: str) -> Client:
        """Return the client of this address."""
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                client = self._clients[address] = self._make(address)
            return client

    def hang_up(self) -> None:
        """End all connections. A client leaves before it is closed: nobody is handed a closed one, which would open
        connections that nobody closes."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()


def _admin_at(place: str) -> Admin:
    namesrv, _, broker = place.partition(" ")
    return Admin(namesrv, broker=broker or None)


_admins = KeptClients(_admin_at)


def admin() -> Admin:
    """Return the client for the brokers that are chosen; it is safe for threads."""
    choice = chosen()
    return _admins.at(f"{namesrv_of(choice.entry)} {choice.broker}")


def namesrv_of(entry: str) -> str:
    """Return the name servers of a cluster of the settings; raises Http404 where there is none of that name."""
    if not entry:
        return str(settings.ESCAPEMENT_NAMESRV)
    found = settings.ESCAPEMENT_CLUSTERS.get(entry)
    if found is None:
        raise Http404(gettext("There is no such cluster."))
    return str(found)


def hang_up() -> None:
    """Close the connections; the next question opens new ones."""
    _admins.hang_up()


def ask(
    question: Callable[[Admin], Answer], *, source: str, requests: tuple[int, ...], exact: bool = True
) -> tuple[Answer | None, Evidence]:
    """Return the answer with its evidence; None with the reason if the broker is away, slow or refuses."""
    if (why := _away.get().get(source)) is not None:
        return None, Evidence(source, None, exact, StaleReason.BROKER_UNREACHABLE, requests, why)
    try:
        with AskingBroker():
            answer = question(admin())
    except ClientError as error:
        return None, Evidence(source or "broker", None, exact, _reason(error), requests, str(error))
    return answer, Evidence(source or "broker", now_ms(), exact, None, requests)


def ask_each(
    question: Callable[[Admin], Answer], of: Cluster, *, requests: tuple[int, ...], exact: bool = True
) -> tuple[list[tuple[Mirrored, Answer]], Evidence]:
    """Return the answers of the brokers that gave one, by name, and the evidence of all; asked beside each other."""

    def asked(one: Mirrored) -> tuple[Answer | None, Evidence]:
        return ask(question, source=one.name, requests=requests, exact=exact)

    found = read_each(asked, of)
    answers = [(one, part[0]) for one, part in zip(brokers_of(of), found, strict=True) if part[0] is not None]
    return answers, joined(of.source, [part[1] for part in found])


@dataclass(frozen=True, slots=True)
class Told(Generic[Answer]):
    """What one broker answered, or why it did not."""

    broker: str
    answer: Answer | None
    error: ClientError | None = None


def asked_of(of: Here) -> list[str]:
    """Return whom an operation asks, by name: each of several brokers, else "", which is whatever is chosen."""
    return of.names if of.has_several else [""]


@contextmanager
def at(broker: str) -> Iterator[None]:
    """Ask this broker within; "" is whatever is chosen."""
    with choosing(choice_of(broker)) if broker else nullcontext():
        yield


def address_at(broker: str, page: str, *args: object, **query: str) -> str:
    """Return the address of a page of this broker, "" is whatever is chosen, about what has this place there."""
    with at(broker):
        address = reverse(page, args=args)
    return f"{address}?{urlencode(query)}" if query else address


def if_several(broker: str, of: Here | None = None) -> str:
    """Return the broker as `at` takes it: "" where it is the only one of `of` (by default all that are chosen), whose
    pages have no name in their addresses."""
    return broker if broker and (of or cluster()).has_several else ""


def tell_each(question: Callable[[Admin], Answer], brokers: Sequence[str]) -> list[Told[Answer]]:
    """Return what each of these brokers answers, in order; asked beside each other.

    Raises ClientError where none of them answers. The question leaves the database alone.
    """

    def asked(name: str) -> Told[Answer]:
        try:
            with AskingBroker():
                return Told(name, question(admin()))
        except ClientError as error:
            return Told(name, None, error)

    found = _beside(asked, [(name, name) for name in brokers])
    errors = [each.error for each in found if each.error is not None]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def pull_all(admin: Admin, topic: str, queue_id: int, offset: int, count: int) -> list[Message]:
    """Return up to `count` messages from `offset` on, by at most MAX_PULLS requests."""
    found: list[Message] = []
    wanted = offset
    for _ in range(MAX_PULLS):
        part = admin.pull(topic, queue_id, wanted, offset + count - wanted)
        found.extend(part)
        if not part or part[-1].queue_offset + 1 >= offset + count:
            break
        wanted = part[-1].queue_offset + 1
    return [message for message in found if message.queue_offset < offset + count]


def brokers_of(of: Cluster) -> tuple[Mirrored, ...]:
    """Return who is asked: before the mirror's first round whichever broker the name service knows."""
    return of.brokers or (Mirrored(of.now_ms, None, None),)


def read_each(read: Callable[[Mirrored], Answer], of: Cluster) -> list[Answer]:
    """Return what is read of each broker, by name; beside each other where there are several.

    `read` asks the broker that it is given, and leaves the database alone. One that the mirror cannot reach, while it
    reaches others, is not asked: the page would wait for it in vain.
    """
    brokers = brokers_of(of)
    if len(brokers) == 1:
        return [read(brokers[0])]
    away = {one.name: one.state.error for one in brokers if one.state is not None and _is_away(one, one.state)}
    token = _away.set(away if len(away) < len(brokers) else {})
    try:
        return _beside(read, [(one.name, one) for one in brokers])
    finally:
        _away.reset(token)


def _beside(work: Callable[[Asked], Answer], each: Sequence[tuple[str, Asked]]) -> list[Answer]:
    """Do the work for each with its broker chosen, beside each other where there are several; the results in order."""

    def done(one: tuple[str, Asked]) -> Answer:
        broker, asked = one
        with at(broker):
            return work(asked)

    if len(each) == 1:
        return [done(each[0])]
    # with whoever looks, and their language
    working = [_askers.submit(copy_context().run, done, one) for one in each]
    return [one.result() for one in working]


def _is_away(one: Mirrored, state: MirrorState) -> bool:
    """Tell whether the mirror has tried and not reached the broker for a while."""
    return bool(state.error) and (one.as_of_ms is None or one.now_ms - one.as_of_ms > AWAY_MS)


def _reason(error: ClientError) -> StaleReason:
    if isinstance(error, Timeout):
        return StaleReason.BROKER_SLOW
    if isinstance(error, BrokerUnreachable):
        return StaleReason.BROKER_UNREACHABLE
    if isinstance(error, NotSupported):
        return StaleReason.NOT_SUPPORTED
    if isinstance(error, (RouteNotFound, InvalidArgument)):
        return StaleReason.NOT_THERE
    return StaleReason.BROKER_REFUSED


#: characters of a text body shown in a list
PREVIEW_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in a queue's list."""

    offset: int
    position: int
    size_bytes: int
    store_ms: int
    born_ms: int
    tag: str | None
    keys: tuple[str, ...]
    unique_key: str | None
    offset_message_id: str
    reconsume_times: int
    #: first characters of the body when it is text, else None
    preview: str | None


def row_of(message: Message) -> MessageRow:
    """Return a message as one line."""
    return MessageRow(
        offset=message.queue_offset,
        position=message.position,
        size_bytes=message.size,
        store_ms=message.store_ms,
        born_ms=message.born_ms,
        tag=message.tags,
        keys=tuple(message.keys),
        unique_key=message.unique_key,
        offset_message_id=message.offset_message_id,
        reconsume_times=message.reconsume_times,
        preview=_preview(message),
    )


def _preview(message: Message) -> str | None:
    if message.sys_flag & 1:
        return None
    try:
        # four bytes a character at most; the last one may be cut
        text = message.body[: PREVIEW_CHARACTERS * 4].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        if error.start < PREVIEW_CHARACTERS * 4 - 4 or len(message.body) <= PREVIEW_CHARACTERS * 4:
            return None
        text = message.body[: error.start].decode("utf-8", "strict")
    line = " ".join(text[:PREVIEW_CHARACTERS].split())
    return line if line.isprintable() else None
