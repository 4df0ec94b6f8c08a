"""Asking brokers and name servers: routes, remoting's errors as the client's own, and the time that a call may take.

One Session belongs to one event loop. It keeps one connection per address and a cache of routes.

A Deadline is the time of a whole call, whatever that waits for: names, routes, connections, answers, other calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar, Unpack

from ..reach import check_reach
from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import ConnectFailed, ConnectionLost, RemotingError, RequestTimedOut
from . import _answers as answers
from ._answers import read_object
from ._outages import Outages
from ._types import Broker, Route
from .credentials import Access, security_of
from .errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    InvalidArgument,
    NotSupported,
    RouteNotFound,
    ScheduleKeyTaken,
    Timeout,
    TimerLimit,
    TimerPast,
    TimerTooFar,
    UsedAfterFork,
)
from .remoting import Handler, RemotingClient, Response, forks

logger = logging.getLogger(__name__)

_LONG_AGO_S = float("-inf")
#: How long a route is believed (the official client asks anew every 30 s).
ROUTE_AGE_S = 30.0
MEMBERS_AGE_S = 5.0
#: How long nobody is asked who could not be reached, where there is another one, or something known.
AWAY_S = 5.0
DEFAULT_TIMEOUT_MS = 3000
#: How long a name server is waited for while there is another one to ask.
OTHERS_TIMEOUT_MS = 1000
#: What Escapement gives as `escError` beside RocketMQ's code, which is the same for many reasons.
_REASONS: Mapping[str, type[BrokerRefused]] = {
    "schedule_key_taken": ScheduleKeyTaken,
    "timer_too_far": TimerTooFar,
    "timer_past": TimerPast,
    "timer_limit": TimerLimit,
}


def addresses_of(namesrv: str) -> tuple[str, ...]:
    """Return ``host:port;host:port`` as a tuple; raise InvalidArgument."""
    addresses = tuple(part.strip() for part in namesrv.replace(",", ";").split(";") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidArgument(f"name server address {address!r} is not host:port.", field="namesrv")
    if not addresses:
        raise InvalidArgument("a name server address (host:port) is needed.", field="namesrv")
    return addresses


#: How an outage of all name servers is called.
_NAME_SERVERS = "the name server"
Unanswered = TypeVar("Unanswered", BrokerUnreachable, Timeout)


class Session:
    """Connections and routes of one client."""

    def __init__(self, namesrv: str, **access: Unpack[Access]) -> None:
        self._namesrv = addresses_of(namesrv)
        check_reach(self._namesrv)
        self.security = security_of(namesrv, access)
        signer = self.security.signer
        sign = signer.sign if signer is not None else None
        self._remoting = RemotingClient(sign=sign, secure=self.security.of_host)
        self._routes: dict[str, tuple[float, Route]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}
        self._members: tuple[float, tuple[Broker, ...]] = (_LONG_AGO_S, ())
        #: brokers that could not be reached, and when
        self._away: dict[str, float] = {}
        #: when no name server could be reached; 0 while one can
        self._lost_s = 0.0
        self._closed = False
        #: of a client that works in the background
        self._outages: Outages | None = None
        self._generation = forks.generation
        #: the name server that answered last
        self._asked_first = 0

    @property
    def namesrv(self) -> tuple[str, ...]:
        """The addresses of the name servers, host:port."""
        return self._namesrv

    def tell_outages(self, who: str) -> None:
        """Have what keeps this client from its work logged, each thing once, in lines that begin with `who`."""
        self._outages = Outages(who)

    def failed(self, topic: str, error: ClientError, doing: str) -> None:
        """Note what went wrong in the background with a topic (or with what else `works` is told of)."""
        if self._outages is None:
            logger.info("%s: %s", doing, error)
        elif not self._closed:
            self._outages.failed(topic, error, doing)

    @property
    def troubles(self) -> tuple[str, ...]:
        """The things that keep the client from its work now."""
        return () if self._outages is None else self._outages.troubles

    def found(self, topic: str) -> None:
        """Note that the topic is there."""
        if self._outages:
            self._outages.found(topic)

    def works(self, topic: str) -> None:
        """Note that what failed works now."""
        if self._outages:
            self._outages.works(topic)

    def check_open(self) -> None:
        """Raise ClientClosed, or UsedAfterFork in the child of a process that made this."""
        if self._closed:
            raise ClientClosed
        if self._generation != forks.generation:
            raise UsedAfterFork

    def register(self, code: int, handler: Handler) -> None:
        """Call `handler` for requests with this code that a broker pushes."""
        self._remoting.register(code, handler)

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Call back with the address whenever a connection is lost."""
        self._remoting.on_lost(callback)

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        accept: Collection[int] = (Answer.SUCCESS,),
    ) -> Response:
        """Return the answer, if its code is one of `accept`; raise BrokerRefused and its kin otherwise."""
        self.check_open()
        try:
            answer = await self._remoting.invoke(address, code, dict(ext or {}), body, timeout_ms)
        except RequestTimedOut:
            raise self._note_away(address, Timeout(address, timeout_ms)) from None
        except RemotingError as error:
            raise self._note_away(address, _unreachable(address, error)) from error
        self._away.pop(address, None)
        if self._outages:
            self._outages.end(address)
        if answer.code not in accept:
            raise refusal(answer)
        return answer

    def _note_away(self, address: str, error: Unanswered) -> Unanswered:
        self._away[address] = time.monotonic()
        if self._outages is not None and address not in self._namesrv and not self._closed:
            self._outages.away(address, error)
        return error

    async def tell(
        self, address: str, code: int, ext: Mapping[str, str], body: bytes = b"", *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:  # fmt: skip
        """Send a request that is not answered; raises Timeout where it cannot even be written."""
        self.check_open()
        told = self._remoting.oneway(address, code, dict(ext), body)
        try:
            await Deadline(timeout_ms).of(told, f"{address} to read what was sent before")
        except RemotingError as error:
            raise _unreachable(address, error) from error

    async def ask_name_server(
        self, code: int, ext: Mapping[str, str] | None = None, *, accept: Collection[int] = (Answer.SUCCESS,)
    ) -> Response:
        """Ask the first name server that can be reached, beginning with the one that answered last."""
        failure: BrokerUnreachable | Timeout | None = None
        count, first = len(self._namesrv), self._asked_first
        for nth in range(count):
            number = (first + nth) % count
            timeout_ms = DEFAULT_TIMEOUT_MS if nth == count - 1 else OTHERS_TIMEOUT_MS
            try:
                answer = await self.ask(self._namesrv[number], code, ext, accept=accept, timeout_ms=timeout_ms)
            except (BrokerUnreachable, Timeout) as error:
                failure = error
            else:
                self._asked_first = number
                self._note_found()
                return answer
        assert failure is not None, "addresses_of gives at least one address"
        if self._outages is not None and not self._closed:
            self._outages.away(_NAME_SERVERS, failure)
        raise failure

    async def route(self, topic: str, *, max_age_s: float = ROUTE_AGE_S) -> Route:
        """Return where `topic` lives; raises RouteNotFound. Concurrent callers share one request.

        While no name server answers it is where the topic lived last, unless the answer must be new
        (`max_age_s` 0).
        """
        self.check_open()
        known = self._routes.get(topic)
        if known is not None and time.monotonic() - known[0] < max_age_s:
            return known[1]
        if known is not None and max_age_s and self._is_lost():
            return known[1]
        try:
            return await self._asked_route(topic)
        except (BrokerUnreachable, Timeout) as error:
            if known is None or not max_age_s:
                raise
            self._note_lost(error)
            return known[1]

    async def _asked_route(self, topic: str) -> Route:
        task = self._asking.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch_route(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._asked(topic, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if self._closed and task.cancelled() and not (this is not None and this.cancelling()):
                raise ClientClosed from None  # it was not the caller who was cancelled
            raise

    def _asked(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._asking.pop(topic, None)
        if not task.cancelled():
            task.exception()

    def forget_route(self, topic: str) -> None:
        """Ask the name server again next time."""
        known = self._routes.get(topic)
        if known is not None:
            self._routes[topic] = (_LONG_AGO_S, known[1])

    async def _fetch_route(self, topic: str) -> Route:
        ext = {"topic": topic}
        answer = await self.ask_name_server(
            Request.GET_ROUTEINFO_BY_TOPIC, ext, accept=(Answer.SUCCESS, Answer.TOPIC_NOT_EXIST)
        )
        if answer.code == Answer.TOPIC_NOT_EXIST:
            self._routes.pop(topic, None)
            raise RouteNotFound(topic)
        route = answers.route(topic, read_object(answer.body))
        self._routes[topic] = (time.monotonic(), route)
        return route

    async def masters(self) -> tuple[Broker, ...]:
        """Return the brokers the name server knows (their masters), by name."""
        return tuple(each for each in await self.members() if not each.broker_id)

    async def members(self) -> tuple[Broker, ...]:
        """Return the processes the name server knows, masters and slaves, by name and broker id.

        While no name server answers these are those that were known last.
        """
        self.check_open()
        asked_s, known = self._members
        if time.monotonic() - asked_s < MEMBERS_AGE_S or (known and self._is_lost()):
            return known
        try:
            answer = await self.ask_name_server(Request.GET_BROKER_CLUSTER_INFO)
        except (BrokerUnreachable, Timeout) as error:
            if not known:
                raise
            self._note_lost(error)
            return known
        found = answers.members(read_object(answer.body))
        if found:
            self._members = (time.monotonic(), found)
        return found

    def is_away(self, address: str) -> bool:
        """Tell whether a broker could not be reached a moment ago."""
        return time.monotonic() - self._away.get(address, _LONG_AGO_S) < AWAY_S

    def readable_at(self, processes: Iterable[tuple[int, str]], broker_id: int = 0) -> tuple[int, str] | None:
        """Choose which of a broker's processes to read from: the one with this id, else the master, else a slave.

        As RocketMQ's findBrokerAddressInSubscribe, but for one that could not be reached a moment ago: another is
        preferred to it. None where there are none.
        """
        ranked = sorted(processes, key=lambda each: (self.is_away(each[1]), each[0] != broker_id, each[0]))
        return ranked[0] if ranked else None

    def _is_lost(self) -> bool:
        """Tell whether no name server could be reached a moment ago."""
        return bool(self._lost_s) and time.monotonic() - self._lost_s < AWAY_S

    def _note_lost(self, error: ClientError) -> None:
        if not self._lost_s and self._outages is None:
            logger.warning("no name server answers, what is known of brokers and topics is used on: %s", error)
        self._lost_s = time.monotonic()

    def _note_found(self) -> None:
        if self._lost_s:
            self._lost_s = 0.0
            logger.info("a name server answers again")
        if self._outages:
            self._outages.end(_NAME_SERVERS)

    async def close(self) -> None:
        """End all connections; idempotent."""
        self._closed = True
        for task in list(self._asking.values()):
            task.cancel()
        await self._remoting.close()


def refusal(answer: Response) -> BrokerRefused:
    """Return the error that says what the broker's answer says."""
    if answer.code == Answer.REQUEST_CODE_NOT_SUPPORTED:
        return NotSupported(answer.code, answer.remark)
    kind = _REASONS.get(answer.ext.get("escError", ""), BrokerRefused)
    if kind is ScheduleKeyTaken:
        due = answer.ext.get("escDueMs", "")
        return ScheduleKeyTaken(answer.code, answer.remark, int(due) if due.isdigit() else None)
    return kind(answer.code, answer.remark)


def refused_for(reason: str | None, remark: str | None) -> BrokerRefused:
    """Return the error that says why one target of several was refused, by the word that the broker gave for it."""
    if reason == "busy":
        return BrokerRefused(Answer.SYSTEM_BUSY, remark)
    kind = _REASONS.get(reason or "", BrokerRefused)
    return kind(Answer.MESSAGE_ILLEGAL if kind is TimerTooFar else Answer.SYSTEM_ERROR, remark)


def _unreachable(address: str, error: RemotingError) -> BrokerUnreachable:
    if isinstance(error, ConnectFailed | ConnectionLost):
        return BrokerUnreachable(address, str(error.__cause__ or error))
    return BrokerUnreachable(address, str(error))


# The time of a whole call.

Result = TypeVar("Result")


class Deadline:
    """`timeout_ms` from now, by the running loop's clock."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._loop = asyncio.get_running_loop()
        self._at_s = self._loop.time() + timeout_ms / 1000

    @property
    def left_s(self) -> float:
        """Seconds until then; negative when it is over."""
        return self._at_s - self._loop.time()

    @property
    def left_ms(self) -> int:
        """Milliseconds until then, for a request that has to be given some: at least 1."""
        return max(1, int(self.left_s * 1000))

    async def of(self, work: Awaitable[Result], waited_for: str) -> Result:
        """Wait for the result of `work`; raises Timeout, which names `waited_for`, when the time is over first."""
        try:
            async with asyncio.timeout_at(self._at_s):
                return await work
        except TimeoutError:
            raise Timeout("", self.timeout_ms, waited_for) from None
