"""kombu's transport ``escapement://``.

A connection has one pair of sockets by which the client's event loop wakes the program's thread: Celery's event loop
watches it, and `drain_events` waits for it. There is no thread a queue, and no polling.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import threading
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import virtual

from ..client import BrokerUnreachable, ClientClosed, NoBroker, RouteNotFound, Timeout, UsedAfterFork
from ..client.remoting import forks
from .channel import Channel
from .link import Link, links
from .settings import DEFAULT_PORT, settings_of

logger = logging.getLogger(__name__)

#: Messages handed over in one turn of Celery's event loop.
_A_TURN = 64
_ESTABLISH_MS = 10_000
_LOOK_S = 0.05
#: kombu's own classes; their types are not those of what its transports do
_kombu: Any = virtual


class Transport(_kombu.Transport):  # type: ignore[misc] # a base of no known type
    """The transport; one for each kombu Connection."""

    Channel = Channel
    default_port = DEFAULT_PORT
    # Celery asks for this name where it wants to know whether remote control, events and gossip work as with Redis
    # (everybody is told), and whether prefetching can be disabled: they do, and it can.
    driver_type = "redis"
    driver_name = "escapement"
    implements = _kombu.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )
    #: after these kombu and Celery try again, by their own policies; a refusal is for the caller
    connection_errors = (
        *_kombu.Transport.connection_errors, BrokerUnreachable, ClientClosed, NoBroker, Timeout, UsedAfterFork,
    )  # fmt: skip
    channel_errors = (*_kombu.Transport.channel_errors, RouteNotFound)

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._settings = settings_of(client)
        self._generation = forks.generation
        self._wake: socket.socket | None = None
        self._woken: socket.socket | None = None
        self._lock = threading.Lock()
        self._is_awake = False
        self._hub: Any = None

    @property
    def link(self) -> Link:
        """The clients that this process has for the cluster."""
        return links.to(self._settings)

    def driver_version(self) -> str:
        """kombu: the version of what speaks with the broker."""
        return "5"

    def establish_connection(self) -> Any:
        """Connect; raises ClientError where no name server or no broker is there."""
        link = self.link
        self.state = link.state
        link.run(link.check(), _ESTABLISH_MS)
        if self._wake is None:
            self._wake, self._woken = socket.socketpair()
            self._wake.setblocking(False)
            self._woken.setblocking(False)
            self._is_awake = False
        return super().establish_connection()

    def verify_connection(self, connection: Any) -> bool:
        """kombu: whether this may still be used."""
        return self._generation == forks.generation

    def close_connection(self, connection: Any) -> None:
        """Close all channels of it."""
        self._stop_watching()
        super().close_connection(connection)
        if self._generation == forks.generation:
            link = self.link
            link.run(link.flush())
        self._close_sockets()

    def _collect(self, connection: Any) -> None:
        """kombu: let go of what a fork has left here; it is the parent's."""
        if self._generation == forks.generation:
            self.close_connection(connection)
            return
        self._avail_channels.clear()
        self.channels.clear()
        self._close_sockets()

    def _close_sockets(self) -> None:
        with self._lock:
            wake, woken, self._wake, self._woken = self._wake, self._woken, None, None
        for each in (wake, woken):
            if each is not None:
                each.close()

    # waking

    def arrived(self) -> None:
        """Wake the program's thread; called in the client's event loop."""
        with self._lock:
            if self._is_awake or self._wake is None:
                return
            self._is_awake = True
            self._wake.send(b"\0")

    def look_again(self) -> None:
        """Wake the program's thread in a moment: it has no room now for what is there."""
        asyncio.get_running_loop().call_later(_LOOK_S, self.arrived)

    def _asleep(self) -> None:
        """Note that the next arrival has to wake again."""
        with self._lock:
            if self._is_awake and self._woken is not None:
                self._is_awake = False
                self._woken.recv(64)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Have Celery's event loop watch for arrivals."""
        self._hub = loop
        loop.add_reader(self._woken, self._on_arrival)
        self.arrived()

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        """Have it watch for nothing more."""
        self._stop_watching()

    def _stop_watching(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None and self._woken is not None:
            hub.remove_reader(self._woken)

    def _on_arrival(self) -> None:
        self._asleep()
        for _ in range(_A_TURN):
            if not self._deliver_one():
                return
        self.arrived()

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Hand over one message, and wait for it; raises socket.timeout."""
        until = None if timeout is None else monotonic() + timeout
        while not self._deliver_one():
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            if self._woken is None:
                raise ConnectionError("The connection is closed.")
            with selectors.DefaultSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ)
                selector.select(left)
            self._asleep()
        self.arrived_if_ready()

    def arrived_if_ready(self) -> None:
        """Wake again where more is there than was handed over."""
        if any(channel.intake.ready for channel in self.channels):
            self.arrived()

    def _deliver_one(self) -> bool:
        """Hand over one message of one channel; each has its turn."""
        try:
            self.cycle.get(None)  # which asks each channel by _drain_channel
        except Empty:
            return False
        return True

    def _drain_channel(self, channel: Any, callback: Any, timeout: float | None = None) -> None:
        if not channel.deliver_one():
            raise Empty


def _put_back(task: Any = None, **_: Any) -> None:
    """Have a task that was a timer find its eta where Celery's tasks look for it: `self.request.eta`.

    It was taken out of the headers, so that the worker does not wait a second time; `timer` kept it.
    """
    timer = getattr(task.request, "timer", None)
    if timer is not None:
        task.request.eta = timer


with suppress(ImportError):  # kombu may be used without Celery
    from celery.signals import task_prerun

    task_prerun.connect(_put_back, weak=False)
