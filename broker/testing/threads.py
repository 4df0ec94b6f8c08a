"""A broker, and a name service by itself, for the tests of programs that use the client.

They are the real ones, in threads of the tests' process: they listen on free ports of this machine, and a store is a
small directory. Other programs that import this need prometheus-client beside the client (``escapement[testing]``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from ..client import Admin, Message
from ..engine.config import MEBIBYTE, EngineConfig
from ..server.broker import BrokerService
from ..server.namesrv import NamesrvConfig, NamesrvService
from ..server.registrar import NameServers
from .guard import guard

__all__ = ["BrokerThread", "NamesrvThread", "small_store"]

#: How long a start or a stop may take.
PATIENCE_S = 30
PULLED_AT_ONCE = 32

Result = TypeVar("Result")


def small_store(directory: Path, delay_levels: str = "1s 1h") -> EngineConfig:
    """Return the settings of a store below `directory` that is made in an instant.

    `delay_levels`: the delays of levels 1 and up, two by default.
    """
    return EngineConfig(
        root=str(directory / "store"),
        segment_size_bytes=16 * MEBIBYTE,
        queue_file_entries=1000,
        index_slots=1000,
        index_entries=4000,
        delay_levels=delay_levels,
    )


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], patience_s: float | None = PATIENCE_S) -> Result:
        """Run a coroutine there and return its result. Raises TimeoutError after `patience_s`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(patience_s)

    def end(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class NamesrvThread:
    """A name service by itself in a thread; starts on entry, stops on exit.

    >>> with NamesrvThread() as names, BrokerThread(register_at=names.namesrv), Producer("shop", names.namesrv) as one:
    ...     one.send("orders", b"4711")

    It may be stopped and started again in between, on the same port.
    """

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="escapement-names-")
        self._port = 0
        self._running: tuple[LoopThread, NamesrvService] | None = None

    @property
    def namesrv(self) -> str:
        """The address that brokers and clients are given, host:port."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()
        guard.disown(self.namesrv)
        self._directory.cleanup()

    def start(self) -> None:
        """Serve; returns when clients can connect."""
        service = NamesrvService(NamesrvConfig(self._directory.name, port=self._port))
        thread = LoopThread("name-service")
        thread.run(service.start())
        self._running = thread, service
        self._port = int(service.address.rpartition(":")[2])
        guard.own(self.namesrv)

    def stop(self) -> None:
        """Stop immediately. Nothing if it has stopped."""
        if self._running is None:
            return
        (thread, service), self._running = self._running, None
        thread.run(service.stop())
        thread.end()


class BrokerThread:
    """A broker with its name server in a thread; starts on entry, stops on exit.

    >>> with BrokerThread() as broker, Producer("shop", broker.namesrv) as producer:
    ...     producer.send("orders", b"4711")
    ...     assert [message.body for message in broker.messages("orders")] == [b"4711"]

    `config`: settings of its store, for instance `small_store(directory)`; without it the store is a directory that is
    removed at the end. It may be stopped and started again in between, on the same ports and with what it had stored:
    so tests see what a client does while its broker is unreachable.

    `register_at`: name servers where it registers beside having its own, as `ESCAPEMENT_REGISTER_AT`; `registered` says
    whether each of them has it.

    `namesrv` is what clients are given, `address` the broker itself, both host:port.
    """

    def __init__(self, config: EngineConfig | None = None, *, register_at: str = "") -> None:
        self._directory: TemporaryDirectory[str] | None = None
        if config is None:
            self._directory = TemporaryDirectory(prefix="escapement-")
            config = small_store(Path(self._directory.name))
        self._config = config
        self._register_at = NameServers(NameServers.parsed(register_at))
        self._ports = (0, 0)
        self._service: BrokerService | None = None
        self.address = self.namesrv = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()
        guard.disown(self.namesrv)
        if self._directory is not None:
            self._directory.cleanup()

    def start(self) -> None:
        """Serve; returns when clients can connect."""
        self._thread = LoopThread("broker")
        self._service = self._thread.run(self._serve())
        self.address, self.namesrv = self._service.address, self._service.namesrv_address
        guard.own(self.namesrv)
        self._ports = int(self.address.rpartition(":")[2]), int(self.namesrv.rpartition(":")[2])

    def stop(self) -> None:
        """Stop as a broker does that is asked to: what was acknowledged is on the disk. Nothing if it has stopped."""
        if self._service is None:
            return
        service, self._service = self._service, None
        self._thread.run(service.stop())
        self._thread.end()

    @property
    def registered(self) -> dict[str, bool]:
        """Whether each name server of `register_at` has its registration."""
        return {} if self._service is None else self._service.registered

    def messages(self, topic: str) -> list[Message]:
        """Return all messages of a topic, those of one queue in order, first queue first.

        One that is delayed is there from its due time on. Raises RouteNotFound where the topic is not there yet.
        """
        found: list[Message] = []
        with Admin(self.namesrv) as admin:
            for queue in admin.topic_stats(topic).queues:
                offset = queue.min_offset
                while offset < queue.max_offset:
                    part = admin.pull(topic, queue.queue.queue_id, offset, PULLED_AT_ONCE)
                    if not part:
                        break
                    found += part
                    offset = part[-1].queue_offset + 1
        return found

    async def _serve(self) -> BrokerService:
        # the port is also what the broker tells its clients; 0 takes a free one the first time
        config = replace(self._config, port=self._ports[0] or self._config.port)
        port = None if self._ports[0] else 0
        service = BrokerService(
            config,
            listen_host=config.host,
            broker_port=port,
            namesrv_port=self._ports[1],
            register_at=self._register_at,
        )
        await service.start()
        return service
