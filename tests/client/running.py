"""A broker that runs in a thread, so that synchronous tests (and stopped ones) can talk to it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Self

from broker.engine.config import EngineConfig
from broker.server.broker import BrokerService

MEBIBYTE = 1 << 20


def small_store(directory: Path, delay_levels: str = "1s 1h") -> EngineConfig:
    """A store that is made in an instant."""
    return EngineConfig(
        root=str(directory / "store"),
        segment_size_bytes=16 * MEBIBYTE,
        queue_file_entries=1000,
        index_slots=1000,
        index_entries=4000,
        delay_levels=delay_levels,
    )


class BrokerThread:
    """Starts on entry, stops on exit; can be started again on the same ports."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._ports = (0, 0)
        self.namesrv = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._service = self._run(self._serve())
        self.address, self.namesrv = self._service.address, self._service.namesrv_address
        self._ports = int(self.address.rpartition(":")[2]), int(self.namesrv.rpartition(":")[2])

    def stop(self) -> None:
        self._run(self._service.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> BrokerService:
        # the port is also what the broker tells its clients; 0 takes a free one the first time
        config = replace(self._config, port=self._ports[0] or self._config.port)
        port = None if self._ports[0] else 0
        service = BrokerService(config, broker_port=port, namesrv_port=self._ports[1])
        await service.start()
        return service

    def _run(self, work):  # type: ignore[no-untyped-def]  # of any result
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
