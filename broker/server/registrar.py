"""A broker's registrations at name servers, ours or Apache RocketMQ's.

It registers (103) when it starts, whenever its topics change, and every 30 s, then after it has asked whether that is
needed (322); it leaves (104) when it stops. Each name server has a connection of its own, whose end tells it that
the broker is gone. One that is away is tried again and again and holds up none of the others.

Nothing of it is in the way of messages: the body is made in a thread, once for all name servers, when the topics have
changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..client.remoting import RemotingClient, Secure, Sign
from ..namesrv.registration import COMPLETE, DataVersion, KnownTopic, body_crc, registration_body
from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import RemotingError, RequestRefused
from ..rocketmq.fields import json_body
from ..rocketmq.frame import Command

logger = logging.getLogger(__name__)

INTERVAL_S = 30.0
"""How often a name server hears of the broker: after 120 s without a word it would forget it."""

LOOK_INTERVAL_S = 0.05
"""How often it is looked whether topics have changed: what changes within shares one registration."""

RETRY_S = (0.5, 1.0, 2.0, 5.0)
"""How long to wait after the first failures; the last for all further ones."""

REQUEST_TIMEOUT_MS = 6_000
REST_RATIO = 4
"""After a registration, so many times as long as it took nothing is said: who makes thousands of topics one by one does
not have all of them told as often."""

LONGEST_REST_S = 2.0

LEAVE_TIMEOUT_MS = 1_000
"""A stop waits no longer for name servers to take notice."""


def _plain(_host: str) -> tuple[None, None]:
    return None, None


@dataclass(frozen=True, slots=True)
class NameServers:
    """The name servers to register at, and how to speak with them."""

    addresses: tuple[str, ...] = ()
    sign: Sign | None = None
    secure: Secure = _plain

    def __post_init__(self) -> None:
        for address in self.addresses:
            host, _, port = address.rpartition(":")
            if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
                raise ValueError(f"{address!r} is no name server: write host:port, several with ; between them")

    @staticmethod
    def parsed(text: str) -> tuple[str, ...]:
        """Return the addresses in a text, each once: host:port, several with a semicolon between them."""
        return tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(";")))))


@dataclass(frozen=True, slots=True)
class Told:
    """The broker as it introduces itself: RocketMQ's header fields of 103."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def fields(self) -> dict[str, str]:
        """The fields that all requests of a broker to name servers have."""
        return {
            "brokerAddr": self.address,
            "brokerId": str(self.broker_id),
            "brokerName": self.broker_name,
            "clusterName": self.cluster,
        }


Topics = Callable[[], Iterable[KnownTopic]]
"""Returns the topics to tell of."""


class _Bodies:
    """The body of a registration, made anew when the version of the topics is another."""

    def __init__(self, version: Callable[[], DataVersion], topics: Topics) -> None:
        self.version = version
        self._topics = topics
        self._made: asyncio.Future[bytes] | None = None
        self._of: DataVersion | None = None

    async def body(self) -> tuple[DataVersion, bytes]:
        """Return the newest body with its version; several who ask at a time share one."""
        version = self.version()
        if self._made is None or self._of != version:
            topics = list(self._topics())  # as of this version, before anything else may change
            self._of = version
            self._made = asyncio.ensure_future(asyncio.to_thread(registration_body, version, topics))
        return version, await asyncio.shield(self._made)


class Registrar:
    """The registrations of one broker.

    `version` is that of its `topics`. All of it belongs to the event loop in which it is started.
    """

    def __init__(
        self,
        servers: NameServers,
        told: Told,
        version: Callable[[], DataVersion],
        topics: Topics,
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        bodies = _Bodies(version, topics)
        self._registrations = [_Registration(each, servers, told, bodies, interval_s) for each in servers.addresses]
        self._version = version
        self._seen = version()
        self._look_timer: asyncio.TimerHandle | None = None

    @property
    def registered(self) -> dict[str, bool]:
        """Whether each name server has the broker's registration."""
        return {each.address: each.is_registered for each in self._registrations}

    def start(self) -> None:
        """Begin to register; returns at once."""
        for each in self._registrations:
            each.start()
        if self._registrations:
            self._look()

    async def stop(self) -> None:
        """Leave all name servers that can be reached within a second; stopping twice is fine."""
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None
        await asyncio.gather(*(each.stop() for each in self._registrations))

    def _look(self) -> None:
        self._look_timer = asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look)
        version = self._version()
        if version != self._seen:
            self._seen = version
            for each in self._registrations:
                each.wake()


class _Registration:
    """The registration at one name server."""

    def __init__(self, address: str, servers: NameServers, told: Told, bodies: _Bodies, interval_s: float) -> None:
        self.address = address
        self.is_registered = False
        self._is_told = False
        self._told = told
        self._bodies = bodies
        self._interval_s = interval_s
        self._client = RemotingClient(sign=servers.sign, secure=servers.secure)
        self._client.on_lost(lambda _address: self._lost())
        self._woken = asyncio.Event()
        self._registered_version: DataVersion | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to register; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Look at once whether there is something to say."""
        self._woken.set()

    async def stop(self) -> None:
        """Leave the name server, if it can be reached, and end the connection."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self.is_registered:
            try:
                await self._ask(Request.UNREGISTER_BROKER, {}, b"", LEAVE_TIMEOUT_MS)
            except (RemotingError, RequestRefused) as error:
                logger.info("the broker could not unregister from name server %s: %s", self.address, error)
        self.is_registered = False
        await self._client.close()

    def _lost(self) -> None:
        """Register anew at once: a name server forgets a broker whose connection ends."""
        self.is_registered = False
        self._registered_version = None
        self.wake()

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            try:
                began_s = loop.time()
                await self._renew()
                await asyncio.sleep(min(REST_RATIO * (loop.time() - began_s), LONGEST_REST_S))
                failures = 0
                wait_s = self._interval_s
            except (RemotingError, RequestRefused) as error:
                self._note_failure(error)
                wait_s = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                self._woken.clear()  # topics that change meanwhile are no reason to try sooner
            try:
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _renew(self) -> None:
        """Register, or find that the name server knows all already."""
        if self._registered_version == self._bodies.version() and not await self._is_outdated():
            return
        version, body = await self._bodies.body()
        ext = {
            "bodyCrc32": str(body_crc(body)), "compressed": "false", "enableActingMaster": "false", "haServerAddr": "",
            COMPLETE: "true",
        }  # fmt: skip
        await self._ask(Request.REGISTER_BROKER, ext, body)
        self._registered_version = version
        self._note_success()

    async def _is_outdated(self) -> bool:
        answer = await self._ask(Request.QUERY_DATA_VERSION, {}, json_body(self._bodies.version().to_json()))
        return answer.ext.get("changed", "true").lower() == "true"

    async def _ask(
        self, code: int, ext: Mapping[str, str], body: bytes, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Command:
        answer = await self._client.invoke(self.address, code, {**self._told.fields, **ext}, body, timeout_ms)
        if answer.code != Answer.SUCCESS:
            raise RequestRefused(answer.code, answer.remark or f"request {code} was answered with {answer.code}")
        return answer

    def _note_success(self) -> None:
        if not self.is_registered:
            logger.info("the broker is registered at name server %s as %s", self.address, self._told.address)
        self.is_registered = True
        self._is_told = False

    def _note_failure(self, error: Exception) -> None:
        self.is_registered = False
        self._registered_version = None
        if not self._is_told:
            self._is_told = True
            logger.error(
                "the broker is not registered at name server %s and retries until it is (logged once): %s",
                self.address, error,
            )  # fmt: skip
