"""A broker for the tests of programs that use the client.

It is the real one, in a thread of the tests' process: it listens on free ports of this machine, and its store is a
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

from .client import Admin, Message
from .engine.config import EngineConfig
from .server.broker import BrokerService

__all__ = ["BrokerThread", "small_store"]

MEBIBYTE = 1 << 20
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


class BrokerThread:
    """A broker with its name server in a thread; starts on entry, stops on exit.

    >>> with BrokerThread() as broker, Producer("shop", broker.namesrv) as producer:
    ...     producer.send("orders", b"4711")
    ...     assert [message.body for message in broker.messages("orders")] == [b"4711"]

    `config`: settings of its store, for instance `small_store(directory)`; without it the store is a directory that is
    removed at the end. It may be stopped and started again in between, on the same ports and with what it had stored:
    so tests see what a client does while its broker is away.

    `namesrv` is what clients are given, `address` the broker itself, both host:port.
    """

    def __init__(self, config: EngineConfig | None = None) -> None:
        self._directory: TemporaryDirectory[str] | None = None
        if config is None:
            self._directory = TemporaryDirectory(prefix="escapement-")
            config = small_store(Path(self._directory.name))
        self._config = config
        self._ports = (0, 0)
        self._service: BrokerService | None = None
        self.address = self.namesrv = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()
        if self._directory is not None:
            self._directory.cleanup()

    def start(self) -> None:
        """Serve; returns when clients can connect."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()
        self._service = self._run(self._serve())
        self.address, self.namesrv = self._service.address, self._service.namesrv_address
        self._ports = int(self.address.rpartition(":")[2]), int(self.namesrv.rpartition(":")[2])

    def stop(self) -> None:
        """Stop as a broker does that is asked to: what was acknowledged is on the disk. Nothing if it has stopped."""
        if self._service is None:
            return
        service, self._service = self._service, None
        self._run(service.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def messages(self, topic: str) -> list[Message]:
        """Return all messages of a topic, those of one queue in order, first queue first.

        One that is delayed is there from its moment on. Raises RouteNotFound where the topic is not there yet.
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
        service = BrokerService(config, broker_port=port, namesrv_port=self._ports[1])
        await service.start()
        return service

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)
